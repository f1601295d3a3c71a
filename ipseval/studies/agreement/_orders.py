"""Agreement of two orders of the same recommenders: OR@k, SRC, IPC and tau-b, with intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ipseval.errors import InputError
from ipseval.inference.intervals import quantiles
from ipseval.inference.orders import RowOrders, measures
from ipseval.utils.checks import as_generator, check_fraction, check_positive_int, examples
from ipseval.utils.types import FloatArray, RngLike

DEFAULT_K = (1, 3, 5)


@dataclass(frozen=True, eq=False)
class OrderAgreement:
    """How far two orderings of the same recommenders agree.

    Attributes
    ----------
    values : mapping
        Measure → value: ``"or@k"`` in [0, 1] (1: the same k at the top), ``"src"`` and ``"tau_b"`` in [-1, 1]
        (1: the same order), ``"ipc"`` in 0 … n(n-1)/2 (0: no pair is inverted). NaN: see `note`.
    intervals : mapping
        Measure → (low, high), where a bootstrap was run; else empty.
    n_recommenders : int
        Number of recommenders ordered.
    unit : str
        What was resampled: ``"users"``, ``"data sets"``, or empty.
    n_units : int
        Number of users or data sets resampled (0: none).
    confidence_level : float
        Of the intervals.
    note : str
        Why a measure is NaN, where ties were averaged over, and limits of the intervals.
    """

    values: Mapping[str, float]
    intervals: Mapping[str, tuple[float, float]]
    n_recommenders: int
    unit: str = ""
    n_units: int = 0
    confidence_level: float = 0.95
    note: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", MappingProxyType(dict(self.values)))
        object.__setattr__(self, "intervals", MappingProxyType(dict(self.intervals)))

    def __repr__(self) -> str:
        parts = []
        for name, value in self.values.items():
            interval = self.intervals.get(name)
            shown = f" [{interval[0]:.3g}, {interval[1]:.3g}]" if interval else ""
            parts.append(f"{name}={value:.3g}{shown}")
        note = f"; {self.note}" if self.note else ""
        return f"OrderAgreement({', '.join(parts)}; {self.n_recommenders} recommenders{note})"

    @property
    def overlap(self) -> dict[int, float]:
        """OR@k by k: the share of the top k of one ordering that is in the top k of the other."""
        return {int(name[3:]): value for name, value in self.values.items() if name.startswith("or@")}

    @property
    def src(self) -> float:
        """Spearman's rank correlation, average ranks on ties."""
        return self.values["src"]

    @property
    def ipc(self) -> float:
        """Inversion pair count: pairs of recommenders that stand in opposite order."""
        return self.values["ipc"]

    @property
    def tau_b(self) -> float:
        """Kendall's tau-b."""
        return self.values["tau_b"]

    def to_dict(self) -> dict[str, float]:
        """Return one flat row: each measure and, where there are intervals, ``<measure>_low``, ``_high``."""
        row: dict[str, float] = {}
        for name, value in self.values.items():
            row[name] = value
            if name in self.intervals:
                row[f"{name}_low"], row[f"{name}_high"] = self.intervals[name]
        return row


def with_intervals(
    result: OrderAgreement, draws: Mapping[str, FloatArray], *, unit: str, n_units: int, level: float
) -> OrderAgreement:
    """Return `result` with percentile intervals from the values of each measure in the replicates."""
    undefined, tail = np.isnan(draws["src"]).mean(), (1 - level) / 2
    note = f"src and tau_b undefined in {undefined:.1%} of the replicates" if undefined else ""
    return replace(
        result,
        intervals={name: quantiles(values, tail, 1 - tail) for name, values in draws.items()},
        unit=unit,
        n_units=n_units,
        confidence_level=level,
        note="; ".join(filter(None, [result.note, note])),
    )


def order_agreement(
    a: Any,
    b: Any,
    *,
    k: int | Iterable[int] | None = None,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    rng: RngLike = None,
) -> OrderAgreement:
    """Return how far two sets of metric values order the same recommenders alike; higher values are better.

    OR@k = |top-k(a) ∩ top-k(b)| / k; SRC is Spearman's correlation of the average ranks; IPC is the number of
    pairs that are strictly inverted; tau-b = Σ sign(Δa) sign(Δb) / √(pairs not tied in a · not tied in b).
    When a tie straddles place k, OR@k is its expectation over breaking the ties at random, each ordering on
    its own. SRC and tau-b are NaN when all values of an ordering are equal: it then orders nothing.

    Parameters
    ----------
    a, b : sequence, or mapping name → value
        One value per recommender, or one (n_users,) array of per-user values per recommender, NaN for a user
        without a value. Then the means over users are ordered, and intervals come from a bootstrap over
        users, who are the same in both, in the same order. Mappings must have the same names; sequences the
        same order.
    k : int or ints, optional
        Default: those of 1, 3 and 5 that are below the number of recommenders.
    confidence_level, n_resamples, rng
        Of the percentile bootstrap over users.

    Raises
    ------
    InputError
        For fewer than two recommenders, other names or another number in `b`, values that are NaN, or a k
        beyond the number of recommenders.

    References
    ----------
    Zhao, Chen, Wang, Gu and Wen, "Revisiting Alternative Experimental Settings for Evaluating Top-N Item
    Recommendation Algorithms", CIKM 2020, https://doi.org/10.1145/3340531.3412095

    Examples
    --------
    Of three pairs one is inverted: tau = (2 - 1)/3, SRC = 1 - 6·(0 + 1 + 1)/(3·8) = .5.

    >>> a = {"popular": 0.1, "knn": 0.2, "ease": 0.3}
    >>> order_agreement(a, {"popular": 0.2, "knn": 0.1, "ease": 0.3}, k=[1, 2])
    OrderAgreement(or@1=1, or@2=0.5, src=0.5, ipc=1, tau_b=0.333; 3 recommenders)
    """
    check_fraction("confidence_level", confidence_level)
    check_positive_int("n_resamples", n_resamples)
    names, first = _values("a", a)
    other_names, second = _values("b", b)
    if names is not None and other_names is not None:
        second = _aligned(names, other_names, second)
    if len(first) != len(second):
        raise InputError(
            f"a has {len(first)} recommenders and b has {len(second)}; both must be about the same ones."
        )
    if (first.ndim == 2) != (second.ndim == 2):
        raise InputError("a and b must both hold one value per recommender, or both per-user values.")
    per_user = first.ndim == 2
    means = [_mean_known(x) if per_user else x for x in (first, second)]
    for name, mean in zip("ab", means, strict=True):
        _check_known(name, mean, names)
    result = _point(means[0], means[1], _check_k(k, len(first)))
    if not per_user:
        return result
    if first.shape != second.shape:
        raise InputError(
            f"a has {first.shape[1]:,} users and b has {second.shape[1]:,}; give both over the same users "
            "in the same order, NaN where a user has no value."
        )
    resampled = _resampled_means(first, second, n_resamples, rng)
    one, other = (RowOrders.of(part) for part in resampled)
    draws = measures(one, other, result.overlap)
    # Where nobody that was drawn has a value of some recommender, it has no place in the order.
    unordered = np.isnan(np.concatenate(resampled, axis=1)).any(axis=1)
    draws = {name: np.where(unordered, np.nan, values) for name, values in draws.items()}
    return with_intervals(result, draws, unit="users", n_units=first.shape[1], level=confidence_level)


def mean_agreement(
    agreements: Sequence[OrderAgreement],
    *,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    rng: RngLike = None,
) -> OrderAgreement:
    """Return the mean of each measure over data sets, with a percentile bootstrap over the data sets.

    A data set where a measure is NaN is left out of that mean, and the note counts it. With one data set
    there is no interval; with fewer than five the interval says little, and the note says so.

    Raises
    ------
    InputError
        When no agreement is given, or they do not have the same measures.

    Examples
    --------
    >>> mean_agreement([order_agreement([1, 2], [1, 2]), order_agreement([1, 2], [2, 1])]).src
    0.0
    """
    check_fraction("confidence_level", confidence_level)
    check_positive_int("n_resamples", n_resamples)
    if not len(agreements):
        raise InputError("at least one agreement is needed.")
    names, *others = dict.fromkeys(tuple(one.values) for one in agreements)
    if others:
        raise InputError("the agreements have different measures; compute all with the same k.")
    mean, n = mean_without_interval(agreements, confidence_level), len(agreements)
    if n < 2:
        return mean
    draw = as_generator(rng).integers(0, n, (n_resamples, n))
    tail = (1 - confidence_level) / 2
    values = {name: np.array([one.values[name] for one in agreements]) for name in names}
    intervals = {name: quantiles(_mean_known(one[draw]), tail, 1 - tail) for name, one in values.items()}
    return replace(mean, intervals=intervals)


def mean_without_interval(agreements: Sequence[OrderAgreement], confidence_level: float) -> OrderAgreement:
    """Return the mean of each measure over data sets where it is defined."""
    (names, *_), n = [list(one.values) for one in agreements], len(agreements)
    table = np.array([[one.values[name] for one in agreements] for name in names], dtype=np.float64)
    notes = [
        f"{name}: {count} of {n} data sets left out (NaN)"
        for name, count in zip(names, np.isnan(table).sum(axis=1), strict=True)
        if count
    ]
    if n < 2:
        notes.append("one data set: no interval")
    elif n < 5:
        notes.append(f"{n} data sets: the interval says little")
    return OrderAgreement(
        dict(zip(names, _mean_known(table).tolist(), strict=True)),
        {},
        n_recommenders=max(one.n_recommenders for one in agreements),
        unit="data sets",
        n_units=n,
        confidence_level=confidence_level,
        note="; ".join(notes),
    )


def _point(a: FloatArray, b: FloatArray, k: list[int]) -> OrderAgreement:
    one, other = RowOrders.of(a), RowOrders.of(b)
    result = {name: float(value[0]) for name, value in measures(one, other, k).items()}
    notes = []
    for name, order in (("a", one), ("b", other)):
        if not order.sign.any():
            notes.append(f"src and tau_b are NaN: all {a.size} values of {name} are equal")
        cut_ties = [cut for cut in k if (order.in_top(cut) % 1).any()]  # neither 0 nor 1: by chance
        if cut_ties:
            shown = ", ".join(f"or@{cut}" for cut in cut_ties)
            notes.append(f"ties in {name}: {shown} averaged over breaking them at random")
    return OrderAgreement(result, {}, a.size, note="; ".join(notes))


def _values(name: str, given: Any) -> tuple[list[Any] | None, FloatArray]:
    """Return names (of a mapping) and values (n,) or (n, n_users)."""
    names = list(given.keys()) if hasattr(given, "keys") else None
    rows = [given[key] for key in names] if names is not None else given
    try:
        values = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"{name} must hold one number per recommender, or equally long per-user values."
        ) from None
    if values.ndim not in (1, 2) or len(values) < 2:
        raise InputError(
            f"{name} must hold values of at least two recommenders, (n,) or (n, n_users); got shape "
            f"{values.shape}."
        )
    return names, values


def _aligned(names: list[Any], other_names: list[Any], other: FloatArray) -> FloatArray:
    missing = [name for name in names if name not in other_names]
    extra = [name for name in other_names if name not in names]
    if missing or extra:
        raise InputError(
            f"a and b must name the same recommenders; {len(missing)} are only in a ({examples(missing)}), "
            f"{len(extra)} only in b ({examples(extra)})."
        )
    return other[[other_names.index(name) for name in names]]


def _check_known(name: str, values: FloatArray, names: list[Any] | None) -> None:
    unknown = np.flatnonzero(np.isnan(values)).tolist()
    if unknown:
        labels = [names[place] for place in unknown] if names is not None else unknown
        raise InputError(
            f"{len(unknown)} of {values.size} values of {name} are NaN ({examples(labels)}): they have no "
            "place in an order. Leave these recommenders out of both."
        )


def _check_k(k: int | Iterable[int] | None, n: int) -> list[int]:
    if k is None:
        return [cut for cut in DEFAULT_K if cut < n]
    return [check_positive_int("k", cut) for cut in (k if isinstance(k, Iterable) else [k])]


def _mean_known(values: FloatArray) -> FloatArray:
    """Return the mean of each row over the entries that are not NaN; NaN when none is left."""
    known = ~np.isnan(values)
    total = np.where(known, values, 0.0).sum(axis=1)
    nothing = np.full(total.shape, np.nan)
    mean: FloatArray = np.divide(total, known.sum(axis=1), out=nothing, where=known.any(axis=1))
    return mean


def _resampled_means(
    a: FloatArray, b: FloatArray, n_resamples: int, rng: RngLike
) -> tuple[FloatArray, FloatArray]:
    """Return the means over resampled users, (n_resamples, n_recommenders) each."""
    generator, n_users = as_generator(rng), a.shape[1]
    both = np.concatenate([a, b])
    known = ~np.isnan(both)
    filled, means = np.where(known, both, 0.0), np.full((n_resamples, len(both)), np.nan)
    for row in means:
        draw = np.bincount(generator.integers(0, n_users, n_users), minlength=n_users)
        # einsum, unlike a BLAS product, adds up in the same order whatever the number of threads.
        total = np.einsum("u,ru->r", draw.astype(np.float64), filled)
        count = np.einsum("u,ru->r", draw, known.astype(np.int64))
        np.divide(total, count, out=row, where=count.astype(bool))
    return means[:, : len(a)], means[:, len(a) :]
