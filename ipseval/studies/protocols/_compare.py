"""Comparisons of settings: agreement of orders, and which recommenders swap beyond their uncertainty."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import pandas as pd
from scipy.special import ndtr

from ipseval.inference.comparisons import corrected
from ipseval.inference.orders import measures
from ipseval.reporting.tables import Heading, Part, Remark, Table
from ipseval.studies.agreement._orders import (
    OrderAgreement,
    mean_without_interval,
    order_agreement,
    with_intervals,
)
from ipseval.studies.protocols._evaluate import Result, Setting
from ipseval.utils.checks import counted
from ipseval.utils.types import FloatArray

FACTORS = ("split", "k_core", "candidates", "estimator", "log")


@dataclass(frozen=True, eq=False)
class Inversion:
    """Two models in opposite order under two settings.

    `p_value` is adjusted (Holm) over all pairs of models of the comparison.
    """

    better_in_a: str
    better_in_b: str
    p_value: float


@dataclass(frozen=True, eq=False)
class ProtocolComparison:
    """Two settings that differ in one factor only.

    Attributes
    ----------
    factor : str
        What differs.
    a, b : Result
        The estimates of both.
    agreement : OrderAgreement or None
        None: an estimate is undefined, the note says which.
    inversions : tuple of Inversion
        Pairs of models in opposite order.
    note : str
    """

    factor: str
    a: Result
    b: Result
    agreement: OrderAgreement | None
    inversions: tuple[Inversion, ...]
    note: str

    @property
    def level_a(self) -> str:
        """Level of the factor in `a`."""
        return level(self.a.setting, self.factor)

    @property
    def level_b(self) -> str:
        """Level of the factor in `b`."""
        return level(self.b.setting, self.factor)

    @property
    def metric(self) -> str:
        """Label of the metric."""
        return self.a.metric

    def other_levels(self) -> dict[str, str]:
        """Return the levels of the other factors, which are the same in both."""
        return {name: level(self.a.setting, name) for name in FACTORS if name != self.factor}

    def beyond_uncertainty(self, significance_level: float) -> list[Inversion]:
        """Return the inversions that the noise between users does not explain."""
        return [one for one in self.inversions if one.p_value < significance_level]

    def swapped(self) -> ProtocolComparison:
        """Return the same comparison with a and b exchanged: all measures are symmetric."""
        inversions = tuple(
            replace(one, better_in_a=one.better_in_b, better_in_b=one.better_in_a) for one in self.inversions
        )
        return replace(self, a=self.b, b=self.a, inversions=inversions)


def level(setting: Setting, factor: str) -> str:
    """Return the level of a factor; the estimator counts with its γ."""
    if factor == "estimator":
        gamma = "" if setting.gamma is None else f" (γ = {setting.gamma:g})"
        return f"{setting.estimator}{gamma}"
    value = getattr(setting, factor)
    assert isinstance(value, str)
    return value


def compare(
    results: Sequence[Result], models: Sequence[str], factor: str, k: Iterable[int] | None, confidence: float
) -> list[ProtocolComparison]:
    """Return the comparison of every two results that differ in `factor` only, in order."""
    groups: dict[tuple[str, ...], list[Result]] = {}
    for result in results:
        others = tuple(level(result.setting, other) for other in FACTORS if other != factor)
        groups.setdefault((result.metric, *others), []).append(result)
    return [
        _compare(a, b, models, factor, k, confidence)
        for group in groups.values()
        for a, b in combinations(group, 2)
    ]


def _compare(
    a: Result, b: Result, models: Sequence[str], factor: str, k: Iterable[int] | None, confidence: float
) -> ProtocolComparison:
    isnan = np.isnan(a.estimates) | np.isnan(b.estimates)
    undefined = [model for model, is_undefined in zip(models, isnan, strict=True) if is_undefined]
    agreement, notes = None, [note for note in dict.fromkeys((a.note, b.note)) if note]
    if undefined:
        notes.insert(0, f"no agreement: the estimate of {', '.join(undefined)} is undefined")
    else:
        point = order_agreement(a.estimates, b.estimates, k=k)
        draws = measures(a.orders, b.orders, point.overlap)
        n_users = min(a.n_users, b.n_users)
        agreement = with_intervals(point, draws, unit="users", n_units=n_users, level=confidence)
        notes = [agreement.note, *notes] if agreement.note else notes
    return ProtocolComparison(factor, a, b, agreement, tuple(_inversions(a, b, models)), "; ".join(notes))


def mean_of_comparisons(
    group: Sequence[ProtocolComparison], confidence_level: float
) -> OrderAgreement | None:
    """Return the mean agreement over logs, with intervals over users from the replicates."""
    known = [one for one in group if one.agreement is not None]
    agreements = [one.agreement for one in known if one.agreement is not None]
    if not known:
        return None
    if len(known) == 1:
        return agreements[0]
    mean = mean_without_interval(agreements, confidence_level)
    each = [measures(one.a.orders, one.b.orders, mean.overlap) for one in known]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # nanmean of a replicate undefined on every log
        draws = {name: np.nanmean(np.stack([one[name] for one in each]), axis=0) for name in mean.values}
    n_users = sum(one.n_units for one in agreements)
    return with_intervals(mean, draws, unit="users", n_units=n_users, level=confidence_level)


def _inversions(a: Result, b: Result, models: Sequence[str]) -> list[Inversion]:
    """Return pairs of models in opposite order, with Gail and Simon's p for two groups, 1 − Φ(min |z|)."""
    # H0: the two differences do not have opposite signs. It holds for dependent groups too, as both one-sided
    # tests must reject.
    pairs = list(combinations(range(len(models)), 2))
    signs, z = zip(*(_differences(one, pairs) for one in (a, b)), strict=True)
    opposite = signs[0] * signs[1] < 0
    smallest = np.minimum(np.abs(z[0]), np.abs(z[1]))
    p_values = np.where(opposite & ~np.isnan(smallest), ndtr(-smallest), 1.0)
    adjusted = corrected(p_values, "holm")
    found = []
    for place in np.flatnonzero(opposite):
        first, second = pairs[place] if signs[0][place] > 0 else pairs[place][::-1]
        found.append(Inversion(models[first], models[second], float(adjusted[place])))
    return found


def _differences(result: Result, pairs: Sequence[tuple[int, int]]) -> tuple[FloatArray, FloatArray]:
    """Return the sign and z-value of the difference of each pair of models, (n_pairs,) each."""
    first, second = np.array(pairs).T
    difference = result.estimates[first] - result.estimates[second]
    covariance = result.covariance
    variance = covariance[first, first] + covariance[second, second] - 2 * covariance[first, second]
    error = np.sqrt(np.maximum(variance, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        # Two models whose users all differ by the same amount: the difference is certain, and z is infinite.
        return np.sign(difference), difference / error


def verdict_section(
    comparisons: Mapping[str, list[ProtocolComparison]],
    names: Mapping[str, str],
    alpha: float,
) -> list[Part]:
    """Return, per pair of levels, in how many comparisons recommenders swap beyond their uncertainty."""
    parts: list[Part] = [
        Heading("Which differences are larger than their uncertainty"),
        "Two settings differ beyond their uncertainty when some pair of recommenders is in opposite order, "
        f"clear of zero in both. The test is Gail and Simon's at {alpha:.0%}, Holm-corrected over the pairs "
        "of recommenders. Other differences in order may be noise between users. All swaps stand in "
        "agreement_*.csv.",
    ]
    for factor, found in comparisons.items():
        parts.append(Heading(names[factor].capitalize(), 3))
        pairs: dict[tuple[str, str], list[ProtocolComparison]] = {}
        for one in found:
            pairs.setdefault((one.level_a, one.level_b), []).append(one)
        rows = []
        for (a, b), group in pairs.items():
            known = [one for one in group if one.agreement is not None]
            clear = [one for one in known if one.beyond_uncertainty(alpha)]
            inverted = [one for one in known if one.inversions]
            rows.append((a, b, len(known), len(inverted), len(clear), _most_frequent(clear, alpha)))
        columns = ("a", "b", "comparisons", "another order", "beyond uncertainty", "most frequent swap")
        parts.append(Table.of(pd.DataFrame(rows, columns=columns), n_keys=2))
    return parts


def _most_frequent(comparisons: Sequence[ProtocolComparison], alpha: float) -> str:
    swaps = Counter(
        f"{swap.better_in_a} > {swap.better_in_b} under a, the reverse under b"
        for one in comparisons
        for swap in one.beyond_uncertainty(alpha)
    )
    return "".join(f"{text} ({count})" for text, count in swaps.most_common(1))


def conclusions(
    compared: Mapping[str, Sequence[ProtocolComparison]], notes: Sequence[str], alpha: float
) -> tuple[Remark, ...]:
    """Return how often each choice changes the order of recommenders, and how often clear of noise."""
    lines = []
    for name, comparisons in compared.items():
        known = [one for one in comparisons if one.agreement is not None]
        if known:
            changed = sum(bool(one.inversions) for one in known)
            clear = sum(bool(one.beyond_uncertainty(alpha)) for one in known)
            lines.append(
                f"Other {name} change the order of recommenders in {changed:,} of "
                f"{counted(len(known), 'comparison')}, in {clear:,} of them beyond its uncertainty."
            )
    verdict = Remark("Verdict", tuple(lines) or ("There is one setting, so there is nothing to compare.",))
    return (verdict, Remark("Data", tuple(notes))) if notes else (verdict,)
