"""IPS: inverse propensity scoring, exactly unbiased given calibrated P."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ipseval.errors import InputError, PropensityError
from ipseval.estimators._linear_form import Parts
from ipseval.estimators.base import Estimator
from ipseval.estimators.guarantees import Claim, NRelevant
from ipseval.estimators.sample import Sample
from ipseval.estimators.user_sums import UserSums
from ipseval.metrics import Metric
from ipseval.utils.notes import Note
from ipseval.utils.public import public_class
from ipseval.utils.types import BoolArray, FloatArray


@public_class
@dataclass(frozen=True)
class Ips(Estimator):
    """Average a metric with inverse propensity weights over all users of the population (IPS).

    It needs propensities that are calibrated (true probabilities) and, for metrics of mean type, the number of relevant
    items of each user.

    See Also
    --------
    ipseval.estimators.Snips : The self-normalised estimator, for relative propensities.
    ipseval.estimators.Aoa : The average without weights.

    Notes
    -----
    With c_ui the contribution c(r_ui) of positive i of user u, U the users of the population and s_u the
    number of relevant items of user u, the estimate is [1]_

    ==========  =============================================
    mean type   1/|U| Σ_u (1/s_u) Σ_{i∈S*_u} c_ui/P_ui
    sum type    1/|U| Σ_u Σ_{i∈S*_u} c_ui/P_ui
    ==========  =============================================

    and the unbiased form of every other kind of metric. Every user of the population counts: one without
    observed positives contributes 0, or the constant of the formula of the metric, as of ``auc``. Users who
    are known to have no relevant item are left out and counted.

    References
    ----------
    .. [1] Yang et al., "Unbiased offline recommender evaluation for missing-not-at-random implicit feedback",
       RecSys 2018, doi:10.1145/3240323.3240355

    Examples
    --------
    >>> Ips().label
    'ips'
    """

    label = "ips"
    weighting = "1/P over the number of relevant items, where that is given"
    counts_all_users: ClassVar[bool] = True
    takes_root: ClassVar[bool] = True
    uses_unbiased_form: ClassVar[bool] = True
    can_exceed_range: ClassVar[bool] = True

    def check(self, metric: Metric, *, is_probability: bool, n_relevant: NRelevant) -> None:
        """Raise unless P is a probability and s_u is there where it is needed; before anything is ranked.

        Parameters
        ----------
        metric : Metric
            Metric to estimate.
        is_probability : bool
            Whether P is calibrated.
        n_relevant : {"known", "estimated", "absent"}
            Source of the numbers of relevant items.

        Raises
        ------
        InputError
            For a metric without an unbiased form, and for one that needs numbers of relevant items when there
            are none.
        PropensityError
            When the propensities are not calibrated.
        """
        super().check(metric, is_probability=is_probability, n_relevant=n_relevant)
        if not metric.has_unbiased:
            raise InputError(
                f"{self.label} needs an unbiased form and {metric.label} has none. Define its _unbiased, or "
                "use aoa or snips-global."
            )
        if not is_probability:
            raise PropensityError(
                f"{self.label} requires calibrated propensities, but these are relative.",
                advice="Pass {scale=max} (the most popular item has P = 1) or a number to a power law, "
                "calibrate it on random exposure (fit_gamma_from_exposure), or use snips-global, where a "
                "constant factor cancels",
                shell_advice="Pass --scale max (the most popular item has P = 1) or a number with a power law, or "
                "--gamma fit --scale calibrated with --random-exposure, or use snips-global, where a constant factor "
                "cancels",
            )
        if metric.needs_n_relevant and n_relevant == "absent":
            raise InputError(
                f"{self.label} of {metric.label} divides by the number of relevant items of each user.",
                advice="Pass {n_relevant} as one number, or as one number per user, or as 'estimated' (Σ1/P, "
                "which the result states), or use snips-global or a sum metric such as dcg or precision@k",
            )

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = the user's unbiased estimate and D_u = its mass, for every user of the population.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.
        metric : Metric
            Metric to estimate.

        Returns
        -------
        UserSums
            Sums of all users of the population, except those who are left out or are known to have no relevant
            item.

        Raises
        ------
        InputError, PropensityError
            As `check` does.
        """
        self.check(metric, is_probability=sample.is_probability, n_relevant=sample.n_relevant_kind)
        ranked = sample.ranked
        values = self._value_without_positives(sample, metric)
        values[ranked.users] = metric.unbiased(
            sample.ranks_of(metric), sample.weights, self._number_of_relevant(sample), ties=sample.ties
        )
        values[~self._is_counted(sample)] = np.nan
        return UserSums.from_values(
            np.arange(ranked.n_population), values, metric.mass(ranked), root=metric.root
        )

    def weight_positives(self, sample: Sample) -> FloatArray:
        """Return w/s_u of each positive; w where s_u is not given, as for metrics of sum type.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.

        Returns
        -------
        (n_pos,) float array
            Weights in the order of the positives.
        """
        if sample.n_relevant_kind == "absent":
            return sample.weights
        return np.asarray(sample.weights / self._number_of_relevant(sample)[sample.ranked.segment])

    def parts(self, sample: Sample, metric: Metric) -> Parts | None:
        """Return a = 1/P, over s_u for means, and V_u = Σa of every user that counts; sums and means only.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.
        metric : Metric
            Metric to estimate.

        Returns
        -------
        Parts or None
            None for metrics of another type, and for those without contributions of single positives.

        Raises
        ------
        InputError, PropensityError
            As `check` does.
        """
        self.check(metric, is_probability=sample.is_probability, n_relevant=sample.n_relevant_kind)
        ranked = sample.ranked
        if metric.kind not in ("mean", "sum") or metric.mass(ranked) is not None:
            return None
        contributions = metric.contributions(sample.ranks_of(metric), ties=sample.ties)
        if contributions is None:
            return None

        weights = sample.weights
        if metric.kind == "mean":
            weights = weights / self._number_of_relevant(sample)[ranked.segment]
        is_counted = self._is_counted(sample)
        is_counted[ranked.user[np.isnan(contributions)]] = False
        volume = np.bincount(ranked.user, weights, minlength=ranked.n_population).astype(np.float64)
        return Parts(weights, contributions, np.flatnonzero(is_counted), volume[is_counted])

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return "exactly unbiased" with all its conditions; no guarantee where s_u is estimated.

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
            "exactly unbiased"; "consistent" for the root of a mean; "no guarantee" without an unbiased form, or
            with estimated numbers of relevant items.
        """
        if not metric.has_unbiased:
            return Claim("no guarantee", "it has no unbiased form")
        if metric.needs_n_relevant and n_relevant != "known":
            return Claim("no guarantee", "the numbers of relevant items are estimated from the weights")
        if metric.root:
            return Claim("consistent", "given the propensities, as the root of an unbiased mean")
        conditions = ["the propensities"]
        if metric.needs_n_relevant:
            conditions.append("the numbers of relevant items")
        if metric.needs_independence:
            conditions.append("independent observations")
        *first_conditions, last_condition = conditions
        if not first_conditions:
            return Claim("exactly unbiased", f"given {last_condition}")
        return Claim("exactly unbiased", f"given {', '.join(first_conditions)} and {last_condition}")

    def notes(self, *, one_positive_each: bool, n_relevant: NRelevant) -> tuple[Note, ...]:
        """Return that s_u is estimated, where it is.

        Parameters
        ----------
        one_positive_each : bool
            Whether every user has one positive.
        n_relevant : {"known", "estimated", "absent"}
            Source of the numbers of relevant items.

        Returns
        -------
        tuple of Note
            One note, or none.
        """
        if n_relevant == "estimated":
            return (Note.create("estimated_n_relevant"),)
        return ()

    def log_products(self, sample: Sample, metric: Metric) -> FloatArray | None:
        """Return the logarithm of the size of the products of weights in the unbiased value of each user.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.
        metric : Metric
            Metric to estimate.

        Returns
        -------
        (n_users_with_positives,) float array or None
            log Σ|weight| over the terms of each user's value; None where terms do not multiply weights 1/P.
        """
        # Pairs: Σ_i ŷ_i + Σ_{i<j} ŷ_i ŷ_j. Other forms are Σ_T f(T) Π_{i∈T} ŷ_i Π_{i∉T} (1 − ŷ_i) over the
        # subsets T of S*_u; the sizes of their weights add up to Π_i (ŷ_i + |1 − ŷ_i|).
        if not metric.needs_independence:
            return None
        ranked = sample.ranked
        inverse = sample.weights
        if metric.kind == "pairwise":
            total = sample.user_weight_sums
            return np.log(total + 0.5 * (total**2 - ranked.sum_by_user(inverse**2)))
        return ranked.sum_by_user(np.log(inverse + np.abs(1 - inverse)))

    def _number_of_relevant(self, sample: Sample) -> FloatArray:
        """Return s_u of the users with positives, or Σ1/P in its place."""
        if sample.n_relevant is None:
            return sample.user_weight_sums
        return sample.n_relevant[sample.ranked.users]

    def _is_counted(self, sample: Sample) -> BoolArray:
        """Return which users count, (n_users,): neither left out nor known to have no relevant item."""
        is_counted = np.ones(sample.ranked.n_population, dtype=bool)
        if sample.n_relevant is not None:
            is_counted = sample.n_relevant > 0
        if sample.ranked.left_out is not None:
            is_counted = is_counted & ~sample.ranked.left_out
        return is_counted

    def _value_without_positives(self, sample: Sample, metric: Metric) -> FloatArray:
        """Return the contribution of users without observed positives, (n_users,)."""
        ranked = sample.ranked
        if sample.n_relevant is None or not metric.counts_unobserved:
            return np.zeros(ranked.n_population)
        if ranked.candidates_by_user is None:
            raise InputError(
                f"{self.label} of {metric.label} needs the number of candidates of every user "
                "(candidates_by_user)."
            )
        return metric.unobserved(ranked.candidates_by_user.astype(float), sample.n_relevant)
