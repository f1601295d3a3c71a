"""Averages of users' values, plain or self-normalised: by user, by all users, or between them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ipseval._base.checks import check_fraction
from ipseval._base.types import BoolArray, FloatArray, IntArray
from ipseval.errors import InputError
from ipseval.estimators._base import Estimator, LinearForm, Parts, Target
from ipseval.estimators._claims import Claim, NRelevant
from ipseval.estimators._sample import Sample
from ipseval.estimators._sums import UserSums
from ipseval.metrics import Metric
from ipseval.ranking import RankedPositives

FEW_POSITIVES = 5
# What is claimed of weighted averages of a metric of mean type, by the mass of a user.
CLAIMS = {
    "one": Claim(
        "not consistent",
        "in users: a bias of order 1/(positives per user) stays, even with the true propensities",
    ),
    "mean": Claim("nearly consistent", "given relative propensities and equally exposed users"),
    "total": Claim("consistent", "given relative propensities, for the average over all relevant pairs"),
}


@dataclass(frozen=True)
class Average(Estimator):
    """Σ_u m_u v_u / Σ_u m_u over users with positives, v_u the (weighted) value of the user, m_u its mass."""

    # label          weights   mass    formula for metrics of mean type
    # aoa            equal     one     mean over users of the mean of c
    # aoa-pooled     equal     total   Σ_uΣ c / Σ_u |S*_u|
    # snips          inverse   one     mean over users of (Σ c/P)/(Σ 1/P): Yang et al. 2018, eq. 9
    # snips-global   inverse   mean    Σ_u mean(c/P) / Σ_u mean(1/P)
    # snips-pooled   inverse   total   Σ_uΣ c/P / Σ_uΣ 1/P: Hájek; Steck 2011, doi 10.1145/2043932.2043957
    # Sum metrics under a mass other than "one" have their weights scaled to the observed volume, Σw̃ = number
    # of observed positives. A metric with pairs (`auc`) under the total mass of P on the scale of
    # probabilities is the ratio of won pairs to pairs, Σ_u[Σŷ(n−1−z) − e₂] / Σ_u[(n−1)e₁ − 2e₂].

    takes_root: ClassVar[bool] = True
    label: str
    weights: Literal["equal", "inverse"] = "inverse"
    mass: Literal["one", "mean", "total"] = "one"

    @property
    def weighted(self) -> bool:  # type: ignore[override]  # follows from the weights
        """Whether it needs a propensity."""
        return self.weights == "inverse"

    @property
    def weighting(self) -> str:  # type: ignore[override]  # follows from weights and mass
        """The weight of a positive, in words."""
        above = "1/P" if self.weighted else "1"
        below = {"one": " over its user's Σ1/P" if self.weighted else " over |S*_u|", "mean": " over |S*_u|"}
        return above + below.get(self.mass, "")

    @property
    def target(self) -> Target:  # type: ignore[override]  # follows from the mass
        """The average it estimates."""
        return "pooled" if self.mass == "total" else "user"

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = m_u v_u and D_u = m_u; the forms of sum metrics and pairs are in the class."""
        ranked = sample.ranked
        if self._pairs(metric, sample.is_probability):
            return self._pair_ratio(sample, metric)
        values = sample.user_values(metric, weighted=self.weighted)
        is_sum = metric.kind == "sum"
        if self.mass == "one" or (is_sum and not self.weighted):
            return UserSums.of(ranked.users, values, root=metric.root)
        counts = ranked.counts.astype(np.float64)
        total = sample.user_weight if self.weighted else counts
        if is_sum:
            # (Σ_u Σ w g / Σ_u Σ w) · mean |S*_u|, with Σ w g = v_u Σw/|S*_u|.
            return UserSums.of(ranked.users, values * total / counts, total, counts)
        mass = total if self.mass == "total" else total / ranked.counts
        return UserSums.of(ranked.users, mass * values, mass, root=metric.root)

    def positive_weights(self, sample: Sample) -> FloatArray:
        """Return w over what its user's values are divided by, (n_pos,)."""
        ranked = sample.ranked
        weights = sample.weights if self.weighted else np.ones(len(ranked))
        if self.mass == "total":
            return weights
        below = sample.user_weight if self.mass == "one" and self.weighted else ranked.counts
        return np.asarray(weights / np.repeat(below, ranked.counts))

    def parts(self, sample: Sample, metric: Metric) -> Parts | None:
        """Return the weights of `positive_weights`, times |S*_u| where a sum is averaged over users."""
        ranked = sample.ranked
        if metric.root or self._pairs(metric, sample.is_probability):
            return None
        given = sample.weights if self.weighted else None
        value = metric.attributed(sample.ranks_of(metric), given, ties=sample.ties)
        if value is None:
            return None
        if metric.kind != "sum":
            return Parts(self.positive_weights(sample), value)
        counts = ranked.counts.astype(np.float64)
        if not self.weighted:
            return Parts(np.ones(len(ranked)), value, ranked.users, counts)
        if self.mass == "one":
            weight = self.positive_weights(sample) * counts[ranked.segment]
            return Parts(weight, value, ranked.users, counts)
        return Parts(sample.weights, value, ranked.users, counts)

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return what is claimed, with its condition."""
        if not self.weighted:
            always = (
                "all propensities are equal" if metric.kind == "mean" else "every relevant item is observed"
            )
            return Claim("biased", f"unless {always}")
        if self._pairs(metric, is_probability):
            return Claim(
                "consistent",
                "given the propensities and independent observations, for the share of pairs won",
            )
        if metric.kind == "mean":
            return CLAIMS[self.mass]
        if metric.kind == "sum" and self.mass != "one":
            return Claim("consistent", "up to the observation rate, given relative propensities")
        return Claim("no claim", "observed positives stand in for all relevant items")

    def linear_form(
        self, metric: Metric, ranked: RankedPositives, *, is_probability: bool = False
    ) -> LinearForm | None:
        """Return the form; None for a ratio of pairs, which is quadratic in the weights."""
        if self._pairs(metric, is_probability) or metric.root:
            return None
        is_sum = metric.kind == "sum"
        per_user = self.mass == "one" or (is_sum and not self.weighted)
        users_equal = self.mass == "mean" and not is_sum
        return LinearForm(ranked, per_user, self.weighted, is_sum, users_equal)

    def notes(self, *, one_positive_each: bool, n_relevant: NRelevant) -> tuple[str, ...]:
        """Return that a user's only weight cancels, where that is so of every user."""
        if self._by_user and one_positive_each:
            return (f"{self.label} is identical to aoa here: every user has one positive",)
        return ()

    def caution(self, counts: IntArray, unit: str = "user") -> str:
        """Return why too few positives per user, or query, leave nothing to correct."""
        median = float(np.median(counts))
        if not self._by_user or median >= FEW_POSITIVES:
            return ""
        detail = f"per-{unit} {self.label} keeps a bias of order 1/(positives per {unit})"
        if (counts == 1).all():
            detail = f"every {unit} has one positive, so {self.label} is identical to aoa"
        plural = "" if median == 1 else "s"
        return (
            f"the median {unit} has {median:g} test positive{plural}: {detail}. "
            "Prefer snips-global or snips-pooled."
        )

    @property
    def _by_user(self) -> bool:
        """Whether weights are normalised within each user."""
        return self.weighted and self.mass == "one"

    def _pairs(self, metric: Metric, is_probability: bool) -> bool:
        """Return whether the estimate of such a metric is the ratio of won pairs to pairs."""
        return metric.has_pairs and self.weighted and self.mass == "total" and is_probability

    def _pair_ratio(self, sample: Sample, metric: Metric) -> UserSums:
        ranked = sample.ranked
        if sample.ties in ("min", "max") and ranked.has_ties:
            n_tied = int((ranked.n_tied > 0).sum())
            raise InputError(
                f"{self.label} of {metric.label} with P on the scale of probabilities counts pairs of "
                f"relevant items. With ties={sample.ties!r} it needs to know which tied items are relevant; "
                f"{n_tied:,} of {len(ranked):,} positives are tied. Use ties='mean' or 'expected', or "
                "snips-global."
            )
        sums = metric.pair_sums(sample.ranks_of(metric), sample.weights, ties=sample.ties)
        assert sums is not None
        return UserSums.of(ranked.users, *sums)


@dataclass(frozen=True)
class ShrunkSnips(Estimator):
    """Mean over users of Σwc / (λΣw + (1 − λ)|S*_u| w̄): λ = 1 is `snips`, λ = 0 is `snips-global`."""

    # w̄ is the mean over users of their mean weight; users whose value is undefined do not enter it. For
    # metrics of mean type; a list or pairwise value v_u enters as Σwc = v_u Σw.

    shrinkage: float = 0.0  # λ in [0, 1]
    weighting = "1/P over its user's shrunk normaliser"
    separable = False

    def __post_init__(self) -> None:
        check_fraction("shrinkage", self.shrinkage, low_open=False, high_open=False)

    @property
    def label(self) -> str:  # type: ignore[override]  # follows from λ
        """Label with its λ."""
        return f"snips-shrunk({self.shrinkage:g})"

    def with_parameter(self, text: str) -> ShrunkSnips:
        """Return the estimator with another λ."""
        try:
            return ShrunkSnips(float(text))
        except ValueError:
            raise InputError(
                f"estimator 'snips-shrunk({text})': the shrinkage must be a number in [0, 1]."
            ) from None

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = the shrunk value plus the first-order effect of the user on w̄, D_u = 1."""
        # The added term has mean 0, so it leaves the estimate alone and gives it the right influence.
        values = sample.user_values(metric, weighted=True)
        defined = ~np.isnan(values)
        mean_weight = sample.user_weight / sample.ranked.counts
        overall, normaliser = self._normaliser(sample, defined)
        shrunk = values * sample.user_weight / normaliser
        effect = -shrunk[defined] * (1 - self.shrinkage) * sample.ranked.counts[defined] / normaliser[defined]
        slope = float(np.mean(effect)) if effect.size else 0.0
        return UserSums.of(sample.ranked.users, shrunk + slope * (mean_weight - overall))

    def positive_weights(self, sample: Sample) -> FloatArray:
        """Return w of each positive over the shrunk normaliser of its user."""
        _, normaliser = self._normaliser(sample, np.ones(sample.ranked.counts.size, dtype=bool))
        return np.asarray(sample.weights / normaliser[sample.ranked.segment])

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return that nothing is claimed."""
        return Claim(
            "no claim", "" if metric.kind == "mean" else "observed positives stand in for all relevant items"
        )

    def _normaliser(self, sample: Sample, users: BoolArray) -> tuple[float, FloatArray]:
        """Return w̄ over some of the users, and the normaliser of each user, (n_users_with_positives,)."""
        weight, counts = sample.user_weight, sample.ranked.counts
        overall = float((weight / counts)[users].mean()) if users.any() else float("nan")
        return overall, np.asarray(self.shrinkage * weight + (1 - self.shrinkage) * counts * overall)
