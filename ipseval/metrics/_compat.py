"""The same label by another library's convention, so that a reader sees why two numbers differ."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from ipseval._registry import lookup
from ipseval._types import FloatArray, TieChoice, TieRule
from ipseval.errors import InputError
from ipseval.metrics._additive import AdditiveMetric, log_discount
from ipseval.metrics._base import Definition, Metric, tie_rule
from ipseval.metrics._conventions import CONVENTIONS, Convention
from ipseval.metrics._dcg import Dcg
from ipseval.metrics._ties import positives_above
from ipseval.ranking import RankedPositives

# Numerator and denominator of each user; the library reports Σ numerator / Σ denominator.
Sums: TypeAlias = tuple[FloatArray, FloatArray]
Rule: TypeAlias = Callable[[Metric, RankedPositives, TieChoice], Sums]


def _same(base: Metric, ranked: RankedPositives, ties: TieChoice) -> Sums:
    values = base.user_values(ranked, ties=ties)
    return values, np.ones(values.size)


def _per_relevant(base: Metric, ranked: RankedPositives, ties: TieChoice) -> Sums:
    """Divide by s where the base divides by min(s, k)."""
    values, one = _same(base, ranked, ties)
    return values * _truncated(base, ranked) / ranked.counts, one


def _per_reachable(base: Metric, ranked: RankedPositives, ties: TieChoice) -> Sums:
    """Divide by min(s, k) where the base divides by s."""
    values, one = _same(base, ranked, ties)
    return values * ranked.counts / _truncated(base, ranked), one


def _per_list(base: Metric, ranked: RankedPositives, ties: TieChoice) -> Sums:
    """Divide by the length of the list, min(k, n), where the base divides by k."""
    values, one = _same(base, ranked, ties)
    assert base.cutoff is not None
    return values * base.cutoff / np.minimum(ranked.n_candidates[ranked.starts], base.cutoff), one


def _pooled_over_reachable(base: Metric, ranked: RankedPositives, ties: TieChoice) -> Sums:
    """Σ_u hits / Σ_u min(k, s)."""
    assert base.cutoff is not None
    hits = base.user_values(ranked, ties=ties) * base.cutoff
    return hits, _truncated(base, ranked)


def _weighted_by_positives(base: Metric, ranked: RankedPositives, ties: TieChoice) -> Sums:
    counts = ranked.counts.astype(np.float64)
    return base.user_values(ranked, ties=ties) * counts, counts


def _full_ideal(base: Metric, ranked: RankedPositives, ties: TieChoice) -> Sums:
    """dcg@k over the DCG of k relevant items, however many there are."""
    assert base.cutoff is not None
    dcg = Dcg(base.cutoff)
    ideal = log_discount(np.arange(1.0, base.cutoff + 1)).sum()
    values = dcg.user_values(ranked, ties=ties) / ideal
    return values, np.ones(values.size)


def _clipped_dcg(base: Metric, ranked: RankedPositives, ties: TieChoice) -> Sums:
    values = _ClippedDcg(base.cutoff).user_values(ranked, ties=ties)
    return values, np.ones(values.size)


def _clipped_ndcg(base: Metric, ranked: RankedPositives, ties: TieChoice) -> Sums:
    values, one = _clipped_dcg(base, ranked, ties)
    filled = _truncated(base, ranked).astype(np.int64)
    ideal = np.cumsum(_clipped_discount(np.arange(1.0, float(filled.max(initial=1)) + 1)))
    return values / ideal[filled - 1], one


def _ap_at_thresholds(base: Metric, ranked: RankedPositives, ties: TieChoice) -> Sums:
    """Average precision over score thresholds: all items of a tie group enter the list together."""
    if tie_rule(base, ties) != "expected":
        raise InputError(f"{base.label}[sklearn] has a tie rule of its own; leave ties at 'default'.")
    above, tied = positives_above(ranked)
    precision = (above + tied + 1) / (ranked.n_above + ranked.n_tied + 1)
    values = ranked.sum_by_user(precision) / ranked.counts
    return values, np.ones(values.size)


def _truncated(base: Metric, ranked: RankedPositives) -> FloatArray:
    """Return min(s, k) of each user."""
    return np.minimum(ranked.counts, np.inf if base.cutoff is None else base.cutoff)


def _clipped_discount(rank: FloatArray) -> FloatArray:
    return 1 / np.log2(np.maximum(rank, 2))


class _ClippedDcg(AdditiveMetric):
    name, kind = "clipped_dcg", "sum"

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return _clipped_discount(rank)


RULES: dict[str, Rule] = {
    "same": _same,
    "per relevant": _per_relevant,
    "per reachable": _per_reachable,
    "per list": _per_list,
    "pooled over reachable": _pooled_over_reachable,
    "weighted by positives": _weighted_by_positives,
    "full ideal": _full_ideal,
    "clipped dcg": _clipped_dcg,
    "clipped ndcg": _clipped_ndcg,
    "ap at thresholds": _ap_at_thresholds,
}


@dataclass(frozen=True, repr=False)
class CompatMetric(Metric):
    """A metric computed as another library does, for `aoa` only: there is nothing unbiased to estimate."""

    base: Metric = field(kw_only=True)
    library: str = field(kw_only=True)  # type: ignore[misc]  # a field here only
    convention: Convention = field(kw_only=True)

    name = "compat"
    kind = "list"

    @property
    def default_ties(self) -> TieRule:  # type: ignore[override]  # that of the base metric
        """The rule of the base metric: the mean over the orders that the library might have chosen."""
        return self.base.default_ties

    @property
    def value_range(self) -> tuple[float, float]:  # type: ignore[override]  # that of the base metric
        """That of the base metric."""
        return self.base.value_range

    @property
    def definition(self) -> Definition:  # type: ignore[override]
        """The base definition, with the difference in words."""
        name = f"as {self.convention.name} of {self.library}: "
        words = self.convention.difference or "the same as ipseval"
        clipped = self.convention.rule.startswith("clipped")
        discount = "1/log2 max(r, 2)" if clipped else self.base.definition.discount
        return replace(self.base.definition, denominator=name + words, discount=discount)

    @property
    def refusal(self) -> str:  # type: ignore[override]
        """Why an estimator other than aoa is refused."""
        return (
            f"{self.label} shows the number that {self.library} would print, which has no weighted form: "
            f"it is offered for aoa only. Use {self.base.label} with the other estimators."
        )

    def sums(self, ranked: RankedPositives, *, ties: TieChoice = "default") -> Sums:
        """Return numerator and denominator of each user; the library reports the ratio of their sums."""
        return RULES[self.convention.rule](self.base, ranked, tie_rule(self, ties))

    def _user_values(self, ranked: RankedPositives, weights: FloatArray | None, rule: TieRule) -> FloatArray:
        if weights is not None:
            raise InputError(self.refusal)
        numerator, denominator = self.sums(ranked, ties=rule)
        return numerator / denominator

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        raise InputError(self.refusal)


def compat_metric(base: Metric, library: str) -> CompatMetric:
    """Return `base` by the convention of a library.

    Raises
    ------
    UnknownNameError
        For a library without conventions here, or a metric that it does not have.
    InputError
        For a cutoff or a gain that the library does not have.
    """
    known = lookup(CONVENTIONS, library, "library")
    convention = lookup(known, base.name, f"metric of {library}:")
    if (base.cutoff is None) != (convention.cutoff == "none") and convention.cutoff != "any":
        has = "no cutoff" if convention.cutoff == "none" else "a cutoff"
        raise InputError(f"{library} has {convention.name} with {has} only; got {base.label!r}.")
    if getattr(base, "gain", "binary") != "binary" and convention.rule != "same":
        raise InputError(f"{base.label}: the convention of {library} is offered for binary relevance only.")
    if getattr(base, "denominator", "k") != "k":
        raise InputError(f"{base.label}: conventions of {library} start from the default denominator.")
    label = f"{base.label}[{library}]"
    return CompatMetric(base.cutoff, label=label, base=base, library=library, convention=convention)
