"""Agreement of two rankings of the same recommenders: OR@k, SRC, IPC and tau-b, with intervals."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from ipseval.errors import InputError
from ipseval.inference.intervals import compute_quantiles
from ipseval.inference.orders import RowOrders, compute_agreement
from ipseval.studies.agreement._true_values import draw_true_values
from ipseval.utils.checks import as_generator, check_fraction, check_positive_int, format_examples
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import FloatArray, RngLike

DEFAULT_K = (1, 3, 5)
OVERLAP_PREFIX = "or@"
Names: TypeAlias = list[Hashable]
FEW_DATA_SETS = 5  # with fewer data sets, an interval over data sets is hardly informative


@public_class
@dataclass(frozen=True, eq=False)
class OrderAgreement:
    """Agreement of two rankings of the same recommenders.

    Parameters
    ----------
    values : mapping
        Measure → value: ``"or@k"`` in [0, 1] (1: the same k at the top), ``"src"`` and ``"tau_b"`` in [-1, 1]
        (1: the same order), ``"ipc"`` in 0 … n(n-1)/2 (0: no pair is inverted). NaN: see `note`.
    intervals : mapping
        Measure → (low, high), from per-user values or several data sets; else empty.
    n_recommenders : int
        Number of recommenders ranked.
    unit : str
        Unit of the intervals: ``"users"``, ``"data sets"``, or empty.
    n_units : int
        Number of users or data sets (0: no intervals).
    confidence_level : float
        Level of the intervals.
    note : str
        Reason why a measure is NaN, ties that were averaged over, and limits of the intervals.

    See Also
    --------
    order_agreement : Compute the agreement of two rankings.
    mean_agreement : Average the agreement over data sets.

    Examples
    --------
    >>> a = {"popular": 0.1, "knn": 0.2, "ease": 0.3}
    >>> agreement = order_agreement(a, {"popular": 0.2, "knn": 0.1, "ease": 0.3}, k=[1, 2])
    >>> agreement.src, agreement.ipc, agreement.overlap
    (0.5, 1.0, {1: 1.0, 2: 0.5})
    >>> round(agreement.tau_b, 3)
    0.333
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
            text = f"{name}={value:.3g}"
            if name in self.intervals:
                low, high = self.intervals[name]
                text += f" [{low:.3g}, {high:.3g}]"
            parts.append(text)
        note = f"; {self.note}" if self.note else ""
        return f"OrderAgreement({', '.join(parts)}; {self.n_recommenders} recommenders{note})"

    @property
    def overlap(self) -> dict[int, float]:
        """OR@k by k: the share of the top k of one ranking that is in the top k of the other."""
        overlap = {}
        for name, value in self.values.items():
            if name.startswith(OVERLAP_PREFIX):
                overlap[int(name.removeprefix(OVERLAP_PREFIX))] = value
        return overlap

    @property
    def src(self) -> float:
        """Spearman's rank correlation, average ranks on ties."""
        return self.values["src"]

    @property
    def ipc(self) -> float:
        """Inversion pair count: pairs of recommenders in opposite order."""
        return self.values["ipc"]

    @property
    def tau_b(self) -> float:
        """Kendall's tau-b."""
        return self.values["tau_b"]

    def to_dict(self) -> dict[str, float]:
        """Return one flat row: each measure and, where there are intervals, ``<measure>_low``, ``_high``.

        Returns
        -------
        dict
            Measure -> value. NaN: the measure is undefined, and `note` gives the reason.
        """
        row: dict[str, float] = {}
        for name, value in self.values.items():
            row[name] = value
            if name in self.intervals:
                row[f"{name}_low"], row[f"{name}_high"] = self.intervals[name]
        return row


def add_intervals(
    agreement: OrderAgreement,
    measures_by_prior: Sequence[Mapping[str, FloatArray]],
    *,
    unit: str,
    n_units: int,
    level: float,
) -> OrderAgreement:
    """Return `agreement` with intervals from draws of the true value of each measure, under each prior.

    An interval reaches from the lowest to the highest quantile over the priors. Measures are discrete. The
    quantiles are values that occur, the outer ones where two are possible.
    """
    tail = (1 - level) / 2
    intervals = {}
    for name in measures_by_prior[0]:
        lows = []
        highs = []
        for measures in measures_by_prior:
            lows.append(float(np.quantile(measures[name], tail, method="lower")))
            highs.append(float(np.quantile(measures[name], 1 - tail, method="higher")))
        intervals[name] = (min(lows), max(highs))

    return replace(agreement, intervals=intervals, unit=unit, n_units=n_units, confidence_level=level)


@public_function
def order_agreement(
    a: Any,
    b: Any,
    *,
    k: int | Iterable[int] | None = None,
    confidence_level: float = 0.95,
    n_draws: int = 1000,
    rng: RngLike = None,
) -> OrderAgreement:
    """Compute how far two sets of metric values rank the same recommenders alike; higher values are better.

    Parameters
    ----------
    a, b : sequence, or mapping name → value
        One value per recommender, or one (n_users,) array of per-user values per recommender, NaN for a user
        without a value. Then the means over users are ranked, and there are intervals for the agreement of
        the true means. Users must be the same in both and in the same order. Mappings must have the same
        names; sequences the same order.
    k : int or iterable of int, optional
        The k of OR@k. Default: 1, 3 and 5, as far as they are below the number of recommenders.
    confidence_level : float, default 0.95
        Level of the intervals.
    n_draws : int, default 1000
        Number of draws of the true means.
    rng : int, Generator or None, default None
        Source of the draws.

    Returns
    -------
    OrderAgreement
        The value of each measure between the measured means, with intervals for per-user values.

    Raises
    ------
    InputError
        For fewer than two recommenders, other names or another number in `b`, values that are NaN, or a k
        beyond the number of recommenders.

    See Also
    --------
    mean_agreement : Average agreements over data sets.

    Notes
    -----
    OR@k = |top-k(a) ∩ top-k(b)| / k; SRC is Spearman's correlation of the average ranks; IPC is the number of
    pairs that are strictly inverted; tau-b = Σ sign(Δa) sign(Δb) / √(pairs not tied in a · not tied in b).
    When tied recommenders are at positions k and k + 1, OR@k is its expectation over breaking the ties at
    random, independently in both rankings. SRC and tau-b are NaN when all values of a ranking are equal.

    The noise of the means makes two orders less alike than the true orders. The intervals are of the agreement
    of the true means: quantiles over draws from their posterior, given the means and the covariance of their
    noise. An interval reaches from the lowest to the highest quantile under two priors: the true pairs of
    values are normal over recommenders, with unknown spreads and correlation; or each true value has a flat
    prior. A measured value may lie outside its interval. With noise as large as the differences, the interval
    contains almost all values.

    References
    ----------
    Zhao, Chen, Wang, Gu and Wen, "Revisiting Alternative Experimental Settings for Evaluating Top-N Item
    Recommendation Algorithms", CIKM 2020, https://doi.org/10.1145/3340531.3412095

    Examples
    --------
    Of three pairs one is inverted: tau = (2 - 1)/3, SRC = 1 - 6·(0 + 1 + 1)/(3·8) = 0.5.

    >>> a = {"popular": 0.1, "knn": 0.2, "ease": 0.3}
    >>> order_agreement(a, {"popular": 0.2, "knn": 0.1, "ease": 0.3}, k=[1, 2])
    OrderAgreement(or@1=1, or@2=0.5, src=0.5, ipc=1, tau_b=0.333; 3 recommenders)
    """
    check_fraction("confidence_level", confidence_level)
    check_positive_int("n_draws", n_draws)
    names, a_values = _read_values("a", a)
    b_names, b_values = _read_values("b", b)
    if names is not None and b_names is not None:
        b_values = _align_to_names(names, b_names, b_values)
    if len(a_values) != len(b_values):
        raise InputError(
            f"a has {len(a_values)} recommenders and b has {len(b_values)}; both must be about the same ones."
        )
    is_per_user = a_values.ndim == 2
    if is_per_user != (b_values.ndim == 2):
        raise InputError("a and b must both contain one value per recommender, or both per-user values.")
    a_means = _mean_of_defined(a_values) if is_per_user else a_values
    b_means = _mean_of_defined(b_values) if is_per_user else b_values
    _check_defined("a", a_means, names)
    _check_defined("b", b_means, names)
    agreement = _compute_agreement(a_means, b_means, _resolve_k(k, len(a_values)))
    if not is_per_user:
        return agreement
    if a_values.shape != b_values.shape:
        raise InputError(
            f"a has {a_values.shape[1]:,} users and b has {b_values.shape[1]:,}; give both over the same "
            "users in the same order, NaN where a user has no value."
        )
    return _add_intervals_of_true_means(agreement, a_values, b_values, confidence_level, n_draws, rng)


@public_function
def mean_agreement(
    agreements: Sequence[OrderAgreement],
    *,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    rng: RngLike = None,
) -> OrderAgreement:
    """Average each measure over data sets, with a percentile bootstrap over the data sets.

    A data set where a measure is NaN is left out of that mean, and the note counts it. With one data set
    there is no interval; with fewer than five the interval is hardly informative, and the note says so.

    Parameters
    ----------
    agreements : sequence of OrderAgreement
        One agreement per data set, with the same measures.
    confidence_level : float, default 0.95
        Level of the intervals.
    n_resamples : int, default 1000
        Number of resamples of data sets.
    rng : int, Generator or None, default None
        Source of the resamples.

    Returns
    -------
    OrderAgreement
        The means, with intervals over data sets.

    Raises
    ------
    InputError
        When no agreement is given, or they do not have the same measures.

    See Also
    --------
    order_agreement : The agreement on one data set.

    Examples
    --------
    >>> mean_agreement([order_agreement([1, 2], [1, 2]), order_agreement([1, 2], [2, 1])]).src
    0.0
    """
    check_fraction("confidence_level", confidence_level)
    check_positive_int("n_resamples", n_resamples)
    if not len(agreements):
        raise InputError("at least one agreement is needed.")
    measure_sets = {tuple(agreement.values) for agreement in agreements}
    if len(measure_sets) > 1:
        raise InputError("the agreements have different measures; compute all with the same k.")
    mean = average_without_interval(agreements, confidence_level)
    n_data_sets = len(agreements)
    if n_data_sets < 2:
        return mean
    draws = as_generator(rng).integers(0, n_data_sets, (n_resamples, n_data_sets))
    tail = (1 - confidence_level) / 2
    intervals = {}
    for name in mean.values:
        values = np.array([agreement.values[name] for agreement in agreements])
        intervals[name] = compute_quantiles(_mean_of_defined(values[draws]), tail, 1 - tail)
    return replace(mean, intervals=intervals)


def average_without_interval(agreements: Sequence[OrderAgreement], confidence_level: float) -> OrderAgreement:
    """Return the mean of each measure over the data sets where it is defined."""
    names = list(agreements[0].values)
    n_data_sets = len(agreements)
    table = np.empty((len(names), n_data_sets))
    for column, agreement in enumerate(agreements):
        table[:, column] = [agreement.values[name] for name in names]
    notes = []
    for name, n_undefined in zip(names, np.isnan(table).sum(axis=1), strict=True):
        if n_undefined:
            notes.append(f"{name}: {n_undefined} of {n_data_sets} data sets left out (NaN)")
    if n_data_sets < 2:
        notes.append("one data set: no interval")
    elif n_data_sets < FEW_DATA_SETS:
        notes.append(f"{n_data_sets} data sets: the interval is hardly informative")
    return OrderAgreement(
        values=dict(zip(names, _mean_of_defined(table).tolist(), strict=True)),
        intervals={},
        n_recommenders=max(agreement.n_recommenders for agreement in agreements),
        unit="data sets",
        n_units=n_data_sets,
        confidence_level=confidence_level,
        note="; ".join(notes),
    )


def _compute_agreement(a: FloatArray, b: FloatArray, k: list[int]) -> OrderAgreement:
    """Return the agreement of two vectors of values, without intervals."""
    orders = {"a": RowOrders.from_values(a), "b": RowOrders.from_values(b)}
    values = {}
    for measure, row_values in compute_agreement(orders["a"], orders["b"], k).items():
        values[measure] = float(row_values[0])
    notes = []
    for name, order in orders.items():
        if not order.sign.any():
            notes.append(f"src and tau_b are NaN: all {a.size} values of {name} are equal")
        tied_measures = []
        for cutoff in k:
            top_probability = order.in_top(cutoff)  # neither 0 nor 1 for ties that are broken at random
            if (top_probability % 1).any():
                tied_measures.append(f"{OVERLAP_PREFIX}{cutoff}")
        if tied_measures:
            notes.append(f"ties in {name}: {', '.join(tied_measures)} averaged over breaking them at random")
    return OrderAgreement(values=values, intervals={}, n_recommenders=a.size, note="; ".join(notes))


def _read_values(argument: str, values: Any) -> tuple[Names | None, FloatArray]:
    """Return names (of a mapping) and values (n,) or (n, n_users)."""
    names = None
    rows = values
    if hasattr(values, "keys"):
        names = list(values.keys())
        rows = [values[name] for name in names]
    try:
        array = np.array(rows, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(
            f"{argument} must contain one number per recommender, or equally long per-user values."
        ) from None
    if array.ndim not in (1, 2) or len(array) < 2:
        raise InputError(
            f"{argument} must contain values of at least two recommenders, (n,) or (n, n_users); got shape "
            f"{array.shape}."
        )
    return names, array


def _align_to_names(names: Names, b_names: Names, b_values: FloatArray) -> FloatArray:
    """Return the values of b in the order of the names of a."""
    missing = []
    for name in names:
        if name not in b_names:
            missing.append(name)

    extra = []
    for name in b_names:
        if name not in names:
            extra.append(name)

    if missing or extra:
        raise InputError(
            f"a and b must name the same recommenders; {len(missing)} are only in a ({format_examples(missing)}), "
            f"{len(extra)} only in b ({format_examples(extra)})."
        )
    return b_values[[b_names.index(name) for name in names]]


def _check_defined(argument: str, values: FloatArray, names: Names | None) -> None:
    """Raise `InputError` if a value is NaN."""
    undefined = np.flatnonzero(np.isnan(values)).tolist()
    if undefined:
        labels = undefined if names is None else [names[index] for index in undefined]
        raise InputError(
            f"{len(undefined)} of {values.size} values of {argument} are NaN ({format_examples(labels)}): they have "
            "no position in a ranking. Leave these recommenders out of both."
        )


def _resolve_k(k: int | Iterable[int] | None, n_recommenders: int) -> list[int]:
    """Return the cutoffs of OR@k."""
    if k is None:
        cutoffs: list[int] = []
        for cutoff in DEFAULT_K:
            if cutoff < n_recommenders:
                cutoffs.append(cutoff)

        return cutoffs
    if not isinstance(k, Iterable):
        k = [k]
    return [check_positive_int("k", cutoff) for cutoff in k]


def _mean_of_defined(values: FloatArray) -> FloatArray:
    """Return the mean of each row over the entries that are not NaN; NaN when there is none."""
    is_defined = ~np.isnan(values)
    sums = np.where(is_defined, values, 0.0).sum(axis=1)
    undefined = np.full(sums.shape, np.nan)
    means: FloatArray = np.divide(sums, is_defined.sum(axis=1), out=undefined, where=is_defined.any(axis=1))
    return means


def _add_intervals_of_true_means(
    agreement: OrderAgreement, a: FloatArray, b: FloatArray, level: float, n_draws: int, rng: RngLike
) -> OrderAgreement:
    """Return `agreement` with intervals from draws of the true means, or with the reason why it has none."""
    n_users = a.shape[1]
    reason = ""
    if n_users < 2:
        reason = "one user: no interval"
    elif _is_constant(a) or _is_constant(b):
        reason = "no interval: all users have the same value for all recommenders of one side"
    if reason:
        notes = [agreement.note] if agreement.note else []
        return replace(agreement, note="; ".join([*notes, reason]))
    measures_by_prior = []
    for a_draws, b_draws in draw_true_values(a, b, n_draws, as_generator(rng)):
        measures = compute_agreement(
            RowOrders.from_values(a_draws), RowOrders.from_values(b_draws), agreement.overlap
        )
        measures_by_prior.append(measures)
    return add_intervals(agreement, measures_by_prior, unit="users", n_units=n_users, level=level)


def _is_constant(values: FloatArray) -> bool:
    """Return whether all values that are not NaN are equal."""
    return bool(np.nanmax(values) == np.nanmin(values))
