"""AOA: the unweighted average over observed positives."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ipseval.estimators._linear_form import LinearForm, Parts
from ipseval.estimators._ratio_of_sums import compute_ratio_parts, compute_ratio_sums
from ipseval.estimators.base import Estimator, Target
from ipseval.estimators.guarantees import Claim, NRelevant
from ipseval.estimators.sample import Sample
from ipseval.estimators.user_sums import UserSums
from ipseval.metrics import Metric
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import check_choice
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray


@public_class
@dataclass(frozen=True)
class Aoa(Estimator):
    """Average a metric over the observed positives without weights (AOA).

    It treats the positives that were observed, S*_u, as if they were all relevant items, S_u. It is the
    comparator of the weighted estimators.

    Parameters
    ----------
    normalize : {"user", "pooled"}
        "user" (label ``aoa``) gives each user the same weight; "pooled" (label ``aoa-pooled``) gives each
        positive the same weight.

    See Also
    --------
    ipseval.estimators.Ips : Weight positives by 1/P.
    ipseval.estimators.Snips : Weight positives by 1/P and divide by the sum of weights.

    Notes
    -----
    c_ui is the contribution c(r_ui) of positive i of user u, and |U| counts the users with positives. For
    metrics of mean type:

    ==========  ==========================================
    "user"      1/|U| Σ_u (1/|S*_u|) Σ_{i∈S*_u} c_ui
    "pooled"    Σ_u Σ_{i∈S*_u} c_ui / Σ_u |S*_u|
    ==========  ==========================================

    For other metrics, the value v_u of the user replaces (1/|S*_u|) Σ c. Both forms of a metric of
    sum type are 1/|U| Σ_u v_u. AOA of a metric of mean type is biased unless all propensities are equal [1]_.

    References
    ----------
    .. [1] Yang et al., "Unbiased offline recommender evaluation for missing-not-at-random implicit feedback",
       RecSys 2018, doi:10.1145/3240323.3240355

    Examples
    --------
    >>> Aoa().label, Aoa(normalize="pooled").label
    ('aoa', 'aoa-pooled')
    """

    weighted = False
    takes_root: ClassVar[bool] = True
    normalize: Literal["user", "pooled"] = "user"

    def __post_init__(self) -> None:
        check_choice("normalize", self.normalize, ("user", "pooled"))

    @property
    def label(self) -> str:  # type: ignore[override]  # follows from normalize
        """Label that names the estimator in requests and results."""
        return "aoa-pooled" if self.normalize == "pooled" else "aoa"

    @property
    def weighting(self) -> str:  # type: ignore[override]  # follows from normalize
        """Weight of a positive in the estimate, as a formula."""
        return "1" if self.normalize == "pooled" else "1 over |S*_u|"

    @property
    def target(self) -> Target:  # type: ignore[override]  # follows from normalize
        """Average that it estimates: over users, or over all relevant pairs."""
        return self.normalize

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = v_u and D_u = 1, or pooled N_u = |S*_u| v_u and D_u = |S*_u|.

        A metric that is a ratio of sums has N_u and D_u of its own.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.
        metric : Metric
            Metric to estimate.

        Returns
        -------
        UserSums
            Sums of the users with positives; users for whom the metric is undefined are left out and counted.
        """
        if metric.is_ratio_of_sums:
            return compute_ratio_sums(sample, metric, None)
        ranked = sample.ranked
        values = sample.user_values(metric, weighted=False)
        if self._gives_users_equal_weight(metric):
            return UserSums.from_values(ranked.users, values, root=metric.root)
        counts = ranked.counts.astype(np.float64)
        return UserSums.from_values(ranked.users, counts * values, counts, root=metric.root)

    def weight_positives(self, sample: Sample) -> FloatArray:
        """Return 1/|S*_u| for each positive, or pooled 1.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.

        Returns
        -------
        (n_pos,) float array
            Weights in the order of the positives.
        """
        ranked = sample.ranked
        ones = np.ones(len(ranked))
        if self.normalize == "pooled":
            return ones
        return np.asarray(ones / np.repeat(ranked.counts, ranked.counts))

    def parts(self, sample: Sample, metric: Metric) -> Parts | None:
        """Return the weight and the contribution of each positive; None for a root of a mean.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.
        metric : Metric
            Metric to estimate.

        Returns
        -------
        Parts or None
            None also for metrics without contributions of single positives.
        """
        if metric.root:
            return None
        if metric.is_ratio_of_sums:
            return compute_ratio_parts(sample, metric, None)
        contributions = metric.weighted_contributions(sample.ranks_of(metric), None, ties=sample.ties)
        if contributions is None:
            return None
        if metric.kind != "sum":
            return Parts(self.weight_positives(sample), contributions)
        ranked = sample.ranked
        counts = ranked.counts.astype(np.float64)
        return Parts(np.ones(len(ranked)), contributions, ranked.users, counts)

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return that AOA is biased, with the condition under which it is not.

        Parameters
        ----------
        metric : Metric
            Metric to estimate.
        is_probability : bool, default False
            Whether P is calibrated.
        n_relevant : {"known", "estimated", "absent"}, default "absent"
            Source of the numbers of relevant items.

        Returns
        -------
        Claim
            "biased", with the condition for metrics of mean type or of another type.
        """
        if metric.kind == "mean":
            return Claim("biased", "unless all propensities are equal")
        return Claim("biased", "unless every relevant item is observed")

    def linear_form(
        self, metric: Metric, positives: RankedPositives, *, is_probability: bool = False
    ) -> LinearForm | None:
        """Return how the contributions of `metric` are combined; None for a root of a mean.

        Parameters
        ----------
        metric : Metric
            Metric to estimate.
        positives : RankedPositives
            Ranked positives of one recommender.
        is_probability : bool, default False
            Whether P is calibrated.

        Returns
        -------
        LinearForm or None
            An unweighted form; None for the root of a mean and for ratios of sums.
        """
        if metric.root or metric.is_ratio_of_sums:
            return None
        return LinearForm(
            positives,
            per_user=self._gives_users_equal_weight(metric),
            weighted=False,
            is_sum=metric.kind == "sum",
        )

    def _gives_users_equal_weight(self, metric: Metric) -> bool:
        """Return whether the estimate is the mean over users: also pooled, where the metric is a sum."""
        return self.normalize == "user" or metric.kind == "sum"
