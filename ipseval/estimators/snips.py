"""SNIPS: self-normalised inverse propensity scoring, with one division per user or one for all users.

`Snips.sums` holds the formulas. The column "SNIPS" of tables is `Snips(normalize="global")`, with the label
"snips-global"; "SNIPS per user" is `Snips()`, with the label "snips".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from ipseval.errors import InputError
from ipseval.estimators._linear_form import LinearForm, Parts
from ipseval.estimators._ratio_of_sums import compute_ratio_parts, compute_ratio_sums
from ipseval.estimators.base import Estimator, Target
from ipseval.estimators.guarantees import Claim, NRelevant
from ipseval.estimators.sample import Sample
from ipseval.estimators.user_sums import UserSums
from ipseval.metrics import Metric
from ipseval.metrics.additive import adds_up_contributions
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import check_choice, check_fraction
from ipseval.utils.notes import Note
from ipseval.utils.public import public_class
from ipseval.utils.types import BoolArray, FloatArray, IntArray

FEW_POSITIVES = 5  # per-user SNIPS warns below this median number of positives

LABELS = {"user": "snips", "global": "snips-global", "pooled": "snips-pooled"}
WEIGHTINGS = {"user": "1/P over its user's Σ1/P", "global": "1/P over |S*_u|", "pooled": "1/P"}
CLAIMS_OF_MEANS = {
    "user": Claim(
        "not consistent",
        "in users: a bias of order 1/(positives per user) stays, even with the true propensities",
    ),
    "global": Claim(
        "nearly consistent",
        "given relative propensities, equally exposed users, and held-out interactions of nearly all users",
        needs_equal_exposure=True,
    ),
    "pooled": Claim("consistent", "given relative propensities, for the average over all relevant pairs"),
}


def sum_weighted_contributions(sample: Sample, metric: Metric) -> FloatArray:
    """Return Σ_{i∈S*_u} w c of each user with positives, w = 1/P.

    A metric other than a sum or mean of contributions c defines its own weighted value v_u of a user. Then
    v_u Σw is returned, or (v_u/|S*_u|) Σw for a metric of sum type.
    """
    ranked = sample.ranks_of(metric)
    if adds_up_contributions(metric):
        contributions = metric.contributions(ranked, ties=sample.ties)
        assert contributions is not None
        return ranked.sum_by_user(sample.weights * contributions)
    values = sample.user_values(metric, weighted=True)
    if metric.kind == "sum":
        values = values / ranked.counts
    return np.asarray(values * sample.user_weight_sums)


@public_class
@dataclass(frozen=True)
class Snips(Estimator):
    """Average a metric with inverse propensity weights that are divided by their sum (SNIPS).

    The weight of a positive is w = 1/P. An unknown factor of the propensities cancels.

    Parameters
    ----------
    normalize : {"user", "global", "pooled"}
        Over which positives the weights are summed for the division. "user" (label ``snips``) divides within
        each user. "global" (label ``snips-global``) divides once, by the sum over users of their mean weight.
        "pooled" (label ``snips-pooled``) divides once, by the sum of the weights of all positives.

    See Also
    --------
    ipseval.estimators.Ips : The estimator without self-normalisation.
    ipseval.estimators.ShrunkSnips : SNIPS with a normaliser between that of the user and the mean over users.

    Notes
    -----
    c_ui is the contribution c(r_ui) of positive i of user u, and |U| counts the users with positives. For
    metrics of mean type:

    ==========  ==================================================================================
    "user"      1/|U| Σ_u (Σ_{i∈S*_u} c_ui/P_ui) / (Σ_{i∈S*_u} 1/P_ui), equation 9 of [1]_
    "global"    Σ_u (1/|S*_u|) Σ_{i∈S*_u} c_ui/P_ui / Σ_u (1/|S*_u|) Σ_{i∈S*_u} 1/P_ui
    "pooled"    Σ_u Σ_{i∈S*_u} c_ui/P_ui / Σ_u Σ_{i∈S*_u} 1/P_ui, the Hájek estimator [2]_
    ==========  ==================================================================================

    Other metrics enter with their own weighted value v_u in place of Σwc/Σw. `sums` returns the numerator
    N_u and the denominator D_u of each user, and `UserSums.value` divides: Σ_u N_u / Σ_u D_u.

    Metrics that define a ratio of sums over users, such as ``psp@5``, have their own N_u and D_u, which all
    three forms take.

    Metrics of sum type under "global" and "pooled" are (Σ_u Σ w c / Σ_u Σ w) · 1/|U| Σ_u |S*_u|: the weights
    are scaled to the observed number of positives. A metric of pairs such as ``auc`` under "pooled", with
    calibrated P, is the ratio of won pairs to pairs,
    Σ_u [Σŷ(n − 1 − z) − e₂] / Σ_u [(n − 1)e₁ − 2e₂].

    References
    ----------
    .. [1] Yang et al., "Unbiased offline recommender evaluation for missing-not-at-random implicit feedback",
       RecSys 2018, doi:10.1145/3240323.3240355
    .. [2] Steck, "Item popularity and recommendation accuracy", RecSys 2011, doi:10.1145/2043932.2043957

    Examples
    --------
    >>> Snips().label, Snips(normalize="global").label, Snips(normalize="pooled").label
    ('snips', 'snips-global', 'snips-pooled')
    """

    takes_root: ClassVar[bool] = True
    normalize: Literal["user", "global", "pooled"] = "user"

    def __post_init__(self) -> None:
        check_choice("normalize", self.normalize, tuple(LABELS))

    @property
    def label(self) -> str:  # type: ignore[override]  # follows from normalize
        """Label that names the estimator in requests and results."""
        return LABELS[self.normalize]

    @property
    def weighting(self) -> str:  # type: ignore[override]  # follows from normalize
        """Weight of a positive in the estimate, as a formula."""
        return WEIGHTINGS[self.normalize]

    @property
    def target(self) -> Target:  # type: ignore[override]  # follows from normalize
        """Average that it estimates: over users, or over all relevant pairs."""
        return "pooled" if self.normalize == "pooled" else "user"

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u and D_u of each user; the estimate is Σ_u N_u / Σ_u D_u (`UserSums.value`).

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

        Raises
        ------
        InputError
            For a ratio of pairs with tied positives and `ties` "min" or "max".
        """
        if self._counts_pairs(metric, sample.is_probability):
            return self._pair_sums(sample, metric)
        if metric.is_ratio_of_sums:
            return compute_ratio_sums(sample, metric, sample.weights)
        users = sample.ranked.users
        n = sample.ranked.counts.astype(np.float64)  # |S*_u|
        w = sample.user_weight_sums  # Σ_{i∈S*_u} 1/P_ui
        wc = sum_weighted_contributions(sample, metric)  # Σ_{i∈S*_u} c_ui/P_ui
        if metric.kind == "sum":
            return self._sums_of_sum_metric(users, n, w, wc)

        if self.normalize == "user":
            # R = 1/|U| Σ_u wc/w: each user is divided by its own sum of weights.
            return UserSums.from_values(users, numerator=wc / w, root=metric.root)
        if self.normalize == "global":
            # R = Σ_u wc/n / Σ_u w/n: one division, after the mean over the positives of each user.
            return UserSums.from_values(users, numerator=wc / n, denominator=w / n, root=metric.root)
        # R = Σ_u wc / Σ_u w: one division, over all positives.
        return UserSums.from_values(users, numerator=wc, denominator=w, root=metric.root)

    def _sums_of_sum_metric(self, users: IntArray, n: FloatArray, w: FloatArray, wc: FloatArray) -> UserSums:
        """Return N_u and D_u of a metric of sum type, where each user counts with its |S*_u| positives."""
        if self.normalize == "user":
            # R = 1/|U| Σ_u n wc/w
            return UserSums.from_values(users, numerator=n * (wc / w))
        # R = (Σ_u wc / Σ_u w) · 1/|U| Σ_u n: the mean of the volume V_u = n scales the ratio to the observed
        # number of positives.
        return UserSums.from_values(users, numerator=wc, denominator=w, volume=n)

    def weight_positives(self, sample: Sample) -> FloatArray:
        """Return w over the sum of the user's w, over |S*_u|, or pooled w itself.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.

        Returns
        -------
        (n_pos,) float array
            Weights in the order of the positives; a common factor is arbitrary.
        """
        if self.normalize == "pooled":
            return sample.weights
        counts = sample.ranked.counts
        divisor = sample.user_weight_sums if self.normalize == "user" else counts
        return np.asarray(sample.weights / np.repeat(divisor, counts))

    def parts(self, sample: Sample, metric: Metric) -> Parts | None:
        """Return the weight and the contribution of each positive; None where they do not add up.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.
        metric : Metric
            Metric to estimate.

        Returns
        -------
        Parts or None
            None also for metrics without contributions of single positives, roots and ratios of pairs.
        """
        if metric.root or self._counts_pairs(metric, sample.is_probability):
            return None
        if metric.is_ratio_of_sums:
            return compute_ratio_parts(sample, metric, sample.weights)
        contributions = metric.weighted_contributions(
            sample.ranks_of(metric), sample.weights, ties=sample.ties
        )
        if contributions is None:
            return None
        if metric.kind != "sum":
            return Parts(self.weight_positives(sample), contributions)
        ranked = sample.ranked
        counts = ranked.counts.astype(np.float64)
        weights = sample.weights
        if self.normalize == "user":
            weights = self.weight_positives(sample) * counts[ranked.segment]
        return Parts(weights, contributions, ranked.users, counts)

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return the statistical guarantee of the estimate, with its condition.

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
            Guarantee for the type of the metric and the normalisation.
        """
        if self._counts_pairs(metric, is_probability):
            return Claim(
                "consistent",
                "given the propensities and independent observations, for the share of pairs won",
            )
        if metric.kind == "mean":
            return CLAIMS_OF_MEANS[self.normalize]
        if metric.kind == "sum" and self.normalize != "user":
            return Claim("consistent", "up to the observation rate, given relative propensities")
        divides_by_count = self.normalize == "global" and metric.kind != "sum" and not metric.is_ratio_of_sums
        return Claim(
            "no guarantee",
            "observed positives represent all relevant items",
            needs_equal_exposure=divides_by_count,
        )

    def linear_form(
        self, metric: Metric, positives: RankedPositives, *, is_probability: bool = False
    ) -> LinearForm | None:
        """Return how contributions and weights are combined; None for roots and for ratios of pairs.

        A ratio of pairs is quadratic in the weights, and best lists are sorted by them.

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
            A weighted form per user, or a global one.
        """
        if metric.root or metric.is_ratio_of_sums or self._counts_pairs(metric, is_probability):
            return None
        is_sum = metric.kind == "sum"
        return LinearForm(
            positives,
            per_user=self.normalize == "user",
            weighted=True,
            is_sum=is_sum,
            users_equal=self.normalize == "global" and not is_sum,
        )

    def notes(self, *, one_positive_each: bool, n_relevant: NRelevant) -> tuple[Note, ...]:
        """Return that the only weight of a user cancels, where every user has one positive.

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
        if self.normalize == "user" and one_positive_each:
            return (Note.create("identical_to_aoa", estimator=self.label),)
        return ()

    def caution(self, counts: IntArray, unit: str = "user") -> str:
        """Return why per-user SNIPS needs more positives; "" if it has enough.

        Parameters
        ----------
        counts : (n_users,) int array
            Number of positives of each user.
        unit : {"user", "query"}, default "user"
            Unit of the counts.

        Returns
        -------
        str
            The reason with a suggestion, for the normalisation "user" when the median user has few positives.
        """
        median = float(np.median(counts))
        if self.normalize != "user" or median >= FEW_POSITIVES:
            return ""
        consequence = f"per-{unit} {self.label} keeps a bias of order 1/(positives per {unit})"
        if (counts == 1).all():
            consequence = f"every {unit} has one positive, so {self.label} is identical to aoa"
        plural = "" if median == 1 else "s"
        return (
            f"the median {unit} has {median:g} test positive{plural}: {consequence}. "
            "Prefer snips-global or snips-pooled."
        )

    def _counts_pairs(self, metric: Metric, is_probability: bool) -> bool:
        """Return whether the estimate of `metric` is the ratio of won pairs to pairs."""
        return metric.has_pairs and self.normalize == "pooled" and is_probability

    def _pair_sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = won pairs and D_u = pairs of relevant and other items, both estimated with 1/P."""
        ranked = sample.ranked
        if sample.ties in ("min", "max") and ranked.has_ties:
            n_tied = int((ranked.n_tied > 0).sum())
            raise InputError(
                f"{self.label} of {metric.label} with calibrated P counts pairs of "
                f"relevant items. With ties={sample.ties!r} it needs to know which tied items are relevant; "
                f"{n_tied:,} of {len(ranked):,} positives are tied.",
                advice="Use {ties=mean}, {ties=expected} or snips-global",
            )
        pair_sums = metric.pair_sums(sample.ranks_of(metric), sample.weights, ties=sample.ties)
        assert pair_sums is not None
        won_pairs, pairs = pair_sums
        return UserSums.from_values(ranked.users, won_pairs, pairs)


@public_class
@dataclass(frozen=True)
class ShrunkSnips(Estimator):
    """Average a metric by SNIPS with a normaliser between the user's and the mean over all users.

    Parameters
    ----------
    shrinkage : float
        λ in [0, 1]: 1 is ``snips``, 0 is ``snips-global``.

    See Also
    --------
    ipseval.estimators.Snips : SNIPS without shrinkage.

    Notes
    -----
    The estimate of a metric of mean type is

        1/|U| Σ_u (Σ_{i∈S*_u} w c) / (λ Σ_{i∈S*_u} w + (1 − λ) |S*_u| w̄),

    where w = 1/P and w̄ is the mean over users of their mean weight. Users whose value is undefined do not
    enter w̄. Metrics of sum type have the factor |S*_u| within the sum over users. Other metrics enter with
    their own weighted value v_u: Σwc = v_u Σw.

    Examples
    --------
    >>> ShrunkSnips(shrinkage=0.5).label
    'snips-shrunk(0.5)'
    """

    shrinkage: float = 0.0
    weighting = "1/P over its user's shrunk normaliser"
    separable = False

    def __post_init__(self) -> None:
        check_fraction("shrinkage", self.shrinkage, low_open=False, high_open=False)

    @property
    def label(self) -> str:  # type: ignore[override]  # follows from λ
        """Label with its λ."""
        return f"snips-shrunk({self.shrinkage:g})"

    def with_parameter(self, text: str) -> ShrunkSnips:
        """Return the estimator with another λ.

        Parameters
        ----------
        text : str
            The shrinkage λ as text, such as "0.5".

        Returns
        -------
        ShrunkSnips
            The estimator with this λ.

        Raises
        ------
        InputError
            When the text is not a number in [0, 1].
        """
        try:
            return ShrunkSnips(float(text))
        except ValueError:
            raise InputError(
                f"estimator 'snips-shrunk({text})': the shrinkage must be a number in [0, 1]."
            ) from None

    def check(self, metric: Metric, *, is_probability: bool, n_relevant: NRelevant) -> None:
        """Refuse metrics that are ratios of sums over users.

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
            For a ratio of sums over users, and for the root of a mean.
        """
        super().check(metric, is_probability=is_probability, n_relevant=n_relevant)
        if metric.is_ratio_of_sums:
            raise InputError(
                f"{self.label} shrinks the normaliser of each user, and {metric.label} has the best list of all "
                "users as its normaliser. Use snips-global."
            )

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return N_u = the shrunk value plus the first-order effect of the user on w̄, and D_u = 1.

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
        ranked = sample.ranked
        wc = sum_weighted_contributions(sample, metric)
        if metric.kind == "sum":
            wc = ranked.counts * wc
        is_defined = ~np.isnan(wc)
        overall_weight, normalizer = self._normalizer(sample, is_defined)
        shrunk_values = wc / normalizer

        # The added term has mean 0, so it leaves the estimate alone and gives it the right influence.
        derivatives = (
            -shrunk_values[is_defined]
            * (1 - self.shrinkage)
            * ranked.counts[is_defined]
            / normalizer[is_defined]
        )
        slope = float(np.mean(derivatives)) if derivatives.size else 0.0
        mean_weight = sample.user_weight_sums / ranked.counts
        return UserSums.from_values(ranked.users, shrunk_values + slope * (mean_weight - overall_weight))

    def weight_positives(self, sample: Sample) -> FloatArray:
        """Return w of each positive over the shrunk normaliser of its user.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.

        Returns
        -------
        (n_pos,) float array
            Weights in the order of the positives.
        """
        all_users = np.ones(sample.ranked.counts.size, dtype=bool)
        _, normalizer = self._normalizer(sample, all_users)
        return np.asarray(sample.weights / normalizer[sample.ranked.segment])

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return that there is no guarantee.

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
            "no guarantee", with the assumption of metrics that are not of mean type.
        """
        divides_by_count = self.shrinkage < 1 and metric.kind != "sum"
        condition = "" if metric.kind == "mean" else "observed positives represent all relevant items"
        return Claim("no guarantee", condition, needs_equal_exposure=divides_by_count)

    def _normalizer(self, sample: Sample, users: BoolArray) -> tuple[float, FloatArray]:
        """Return w̄ over the selected users, and the normaliser of every user, (n_users_with_positives,)."""
        counts = sample.ranked.counts
        total_weight = sample.user_weight_sums
        overall_weight = float("nan")
        if users.any():
            overall_weight = float((total_weight / counts)[users].mean())
        normalizer = self.shrinkage * total_weight + (1 - self.shrinkage) * counts * overall_weight
        return overall_weight, np.asarray(normalizer)
