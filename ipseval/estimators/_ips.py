"""IPS: inverse propensity scoring, exactly unbiased given P on the scale of probabilities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ipseval._types import FloatArray
from ipseval.errors import InputError, PropensityError
from ipseval.estimators._base import Sample, UserSums
from ipseval.metrics import Auc, Metric
from ipseval.metrics._claims import NRelevant


@dataclass(frozen=True)
class Ips:
    """1/|U| Σ_u (1/s_u) Σ_{i∈S*_u} c(r_ui)/P_ui, and the unbiased form of every other kind of metric.

    Every user of the population counts; one without observed positives contributes 0 (for `auc` the constant
    of its formula). Users known to have no relevant item are left out and counted.
    """

    label: str = "ips"
    weighted: bool = True
    weighting: ClassVar[str] = "1/P over s_u, where it is given"

    def check(self, metric: Metric, *, is_probability: bool, n_relevant: NRelevant) -> None:
        """Raise unless there is what the estimate needs; known before anything is ranked.

        Raises
        ------
        PropensityError
            When P is known up to a factor only.
        InputError
            When the metric needs s_u and it is not given.
        """
        if not is_probability:
            raise PropensityError(
                "ips needs P on the scale of probabilities, but this propensity is known up to a factor "
                "only. Fix the scale with scale='max' (the most popular item has P = 1) or a number, "
                "calibrate it on random exposure (fit_gamma_from_exposure), or use snips, where the "
                "factor cancels."
            )
        if metric.needs_n_relevant and n_relevant == "absent":
            raise InputError(
                f"ips of {metric.label} divides by s_u, the number of relevant items of each user. Pass "
                "n_relevant= an int or one number per user, n_relevant='estimated' (Σ1/P, then said so), "
                "or use snips or a sum metric such as dcg or precision@k."
            )

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = the user's unbiased estimate, D_u = 1, of the whole population; raises as `check`."""
        self.check(metric, is_probability=sample.is_probability, n_relevant=sample.n_relevant_kind)
        ranked = sample.ranked
        known = sample.n_relevant
        relevant = sample.user_weight if known is None else known[ranked.users]
        values = metric.unbiased(ranked, sample.weights, relevant, ties=sample.ties)
        population = _empty(sample, metric)
        population[ranked.users] = values
        if known is not None:
            population[known == 0] = np.nan
        return UserSums.of(np.arange(ranked.n_population), population)

    def positive_weights(self, sample: Sample) -> FloatArray:
        """Return w/s_u of each positive; w where s_u is not given, as for sum metrics."""
        if sample.n_relevant_kind == "absent":
            return sample.weights
        known, ranked = sample.n_relevant, sample.ranked
        relevant = sample.user_weight if known is None else known[ranked.users]
        return np.asarray(sample.weights / relevant[ranked.segment])


def _empty(sample: Sample, metric: Metric) -> FloatArray:
    """Return the contribution of users without observed positives, (n_users,)."""
    ranked, known = sample.ranked, sample.n_relevant
    if not isinstance(metric, Auc) or known is None:
        return np.zeros(ranked.n_population)
    if ranked.candidates_by_user is None:
        raise InputError("ips of auc needs the number of candidates of every user (candidates_by_user).")
    return metric.unobserved(ranked.candidates_by_user.astype(float), known)
