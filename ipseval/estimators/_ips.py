"""IPS: inverse propensity scoring, exactly unbiased given P on the scale of probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ipseval._base.types import BoolArray, FloatArray
from ipseval.errors import InputError, PropensityError
from ipseval.estimators._base import Estimator, Parts
from ipseval.estimators._claims import Claim, NRelevant
from ipseval.estimators._sample import Sample
from ipseval.estimators._sums import UserSums
from ipseval.metrics import Metric


@dataclass(frozen=True)
class Ips(Estimator):
    """1/|U| Σ_u (1/s_u) Σ_{i∈S*_u} c(r_ui)/P_ui, and the unbiased form of every other kind of metric."""

    # Every user of the population counts; one without observed positives contributes 0 (for `auc` the
    # constant of its formula). Users known to have no relevant item are left out and counted.

    label: str = "ips"
    weighting = "1/P over the number of relevant items, where that is given"
    counts_all_users: ClassVar[bool] = True
    takes_root: ClassVar[bool] = True

    def check(self, metric: Metric, *, is_probability: bool, n_relevant: NRelevant) -> None:
        """Raise unless P is a probability and s_u is there where it is needed; before anything is ranked."""
        super().check(metric, is_probability=is_probability, n_relevant=n_relevant)
        if not metric.has_unbiased:
            raise InputError(
                f"{self.label} needs an unbiased form and {metric.label} has none. Define its _unbiased, or "
                "use aoa or snips-global."
            )
        if not is_probability:
            raise PropensityError(
                f"{self.label} needs P on the scale of probabilities, but this propensity is known up to a "
                "factor only. Fix the scale with scale='max' (the most popular item has P = 1) or a number, "
                "calibrate it on random exposure (fit_gamma_from_exposure), or use snips-global, where the "
                "factor cancels."
            )
        if metric.needs_n_relevant and n_relevant == "absent":
            raise InputError(
                f"{self.label} of {metric.label} divides by the number of relevant items of each user. "
                "Pass n_relevant= an int or one number per user, n_relevant='estimated' (Σ1/P, then said "
                "so), or use snips-global or a sum metric such as dcg or precision@k."
            )

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = the user's unbiased estimate, D_u its mass, of the population; raises as `check`."""
        self.check(metric, is_probability=sample.is_probability, n_relevant=sample.n_relevant_kind)
        ranked = sample.ranked
        values = metric.unbiased(
            sample.ranks_of(metric), sample.weights, self._relevant(sample), ties=sample.ties
        )
        population = self._empty(sample, metric)
        population[ranked.users] = values
        population[~self._counted(sample)] = np.nan
        return UserSums.of(np.arange(ranked.n_population), population, metric.mass(ranked), root=metric.root)

    def positive_weights(self, sample: Sample) -> FloatArray:
        """Return w/s_u of each positive; w where s_u is not given, as for sum metrics."""
        if sample.n_relevant_kind == "absent":
            return sample.weights
        return np.asarray(sample.weights / self._relevant(sample)[sample.ranked.segment])

    def parts(self, sample: Sample, metric: Metric) -> Parts | None:
        """Return a = 1/P, over s_u for means, and V_u = Σa of every user that counts; sums and means only."""
        self.check(metric, is_probability=sample.is_probability, n_relevant=sample.n_relevant_kind)
        ranked = sample.ranked
        if metric.kind not in ("mean", "sum") or metric.mass(ranked) is not None:
            return None
        value = metric.contributions(sample.ranks_of(metric), ties=sample.ties)
        if value is None:
            return None
        weight = sample.weights
        if metric.kind == "mean":
            weight = weight / self._relevant(sample)[ranked.segment]
        counts = self._counted(sample)
        counts[ranked.user[np.isnan(value)]] = False
        volume = np.bincount(ranked.user, weight, minlength=ranked.n_population).astype(np.float64)
        return Parts(weight, value, np.flatnonzero(counts), volume[counts])

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return "exactly unbiased" with all that it rests on; no claim where s_u is estimated."""
        if not metric.has_unbiased:
            return Claim("no claim", "it has no unbiased form")
        if metric.needs_n_relevant and n_relevant != "known":
            return Claim("no claim", "the numbers of relevant items are estimated from the weights")
        if metric.root:
            return Claim("consistent", "given the propensities, as the root of an unbiased mean")
        given = ["the propensities"] + (["the numbers of relevant items"] if metric.needs_n_relevant else [])
        given += ["independent observations"] if metric.needs_independence else []
        words = given[0] if len(given) == 1 else ", ".join(given[:-1]) + " and " + given[-1]
        return Claim("exactly unbiased", f"given {words}")

    def notes(self, *, one_positive_each: bool, n_relevant: NRelevant) -> tuple[str, ...]:
        """Return that s_u is estimated, where it is."""
        return (
            ("the numbers of relevant items are estimated by Σ1/P of each user",)
            if n_relevant == "estimated"
            else ()
        )

    def log_products(self, sample: Sample, metric: Metric) -> FloatArray | None:
        """Return log Σ|weight| over the terms of a user's unbiased value, where terms multiply ŷ = 1/P."""
        # Pairs: Σ_i ŷ_i + Σ_{i<j} ŷ_i ŷ_j. Other forms are Σ_T f(T) Π_{i∈T} ŷ_i Π_{i∉T} (1 − ŷ_i) over the
        # subsets T of S*_u; the sizes of their weights add up to Π_i (ŷ_i + |1 − ŷ_i|).
        if not metric.needs_independence:
            return None
        ranked, y = sample.ranked, sample.weights
        if metric.kind == "pairwise":
            total = sample.user_weight
            return np.log(total + 0.5 * (total**2 - ranked.sum_by_user(y**2)))
        return ranked.sum_by_user(np.log(y + np.abs(1 - y)))

    def _relevant(self, sample: Sample) -> FloatArray:
        """Return s_u of the users with positives, or Σ1/P in its place."""
        known = sample.n_relevant
        return sample.user_weight if known is None else known[sample.ranked.users]

    def _counted(self, sample: Sample) -> BoolArray:
        """Return which users count, (n_users,): neither left out nor known to have no relevant item."""
        known, left_out = sample.n_relevant, sample.ranked.left_out
        counts = np.ones(sample.ranked.n_population, dtype=bool) if known is None else known > 0
        return counts if left_out is None else counts & ~left_out

    def _empty(self, sample: Sample, metric: Metric) -> FloatArray:
        """Return the contribution of users without observed positives, (n_users,)."""
        ranked, known = sample.ranked, sample.n_relevant
        if known is None or not metric.counts_unobserved:
            return np.zeros(ranked.n_population)
        if ranked.candidates_by_user is None:
            raise InputError(
                f"{self.label} of {metric.label} needs the number of candidates of every user "
                "(candidates_by_user)."
            )
        return metric.unobserved(ranked.candidates_by_user.astype(float), known)
