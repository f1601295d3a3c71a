"""The base class of estimators."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, Literal

from ipseval.errors import InputError
from ipseval.estimators._linear_form import LinearForm, Parts
from ipseval.estimators.guarantees import Claim, NRelevant
from ipseval.estimators.sample import Sample
from ipseval.estimators.user_sums import UserSums
from ipseval.metrics import Metric
from ipseval.ranking import RankedPositives
from ipseval.utils.notes import Note
from ipseval.utils.public import public_class
from ipseval.utils.registry import is_external
from ipseval.utils.types import FloatArray, IntArray

Target = Literal["user", "pooled"]


def describe_missing_method(estimator: Estimator, method: str) -> str:
    """Return a message if a custom estimator does not implement a method; else ""."""
    is_inherited = getattr(type(estimator), method) is getattr(Estimator, method)
    if is_inherited and is_external(estimator):
        return f"{estimator.label} does not implement {method}()"
    return ""


@public_class
class Estimator(ABC):
    """Base class of estimators: a way to weight and average the values of users.

    A subclass sets `label` and defines `sums` and `weight_positives`. It overrides the other attributes and
    methods where their defaults do not apply.

    Attributes
    ----------
    label : str
        Label in requests and results.
    weighted : bool
        Whether it needs a propensity.
    weighting : str
        Weight of a positive in the estimate, such as "1/P".
    target : {"user", "pooled"}
        Average that it estimates: over users, or over all relevant pairs.
    separable : bool
        Whether the sums of a user depend on that user alone, so that parts of the users can be evaluated
        separately.
    counts_all_users : bool
        Whether users without observed positives count in the average.
    needs_rewards : bool
        Whether it reads impressions and a reward model, as in `ipseval.policies.evaluate_rewards`.
    takes_root : bool
        Whether it supports metrics that are the root of a mean, such as rmse.
    uses_unbiased_form : bool
        Whether it estimates the value of a user by `Metric.unbiased`, in which the weights change the value of
        every metric. In the weighted form they do not change that of rr and hit, as results then state.
    can_exceed_range : bool
        Whether an estimate can leave the range of its metric, as one by ips does. Intervals of other
        estimates are kept within the range.

    See Also
    --------
    ipseval.register : Register a custom estimator under its label.

    Examples
    --------
    The mean over users of the best contribution of each user, without weights:

    >>> import numpy as np
    >>> class BestContribution(Estimator):
    ...     label = "best"
    ...     weighted = False
    ...
    ...     def sums(self, sample, metric):
    ...         contributions = sample.contributions(metric)
    ...         best = np.maximum.reduceat(contributions, sample.ranked.starts)
    ...         return UserSums.from_values(sample.ranked.users, best)
    ...
    ...     def weight_positives(self, sample):
    ...         return np.ones(len(sample.ranked))
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> models = {"popular": world.example_models(split, rng=2)["popular"]}
    >>> evaluation = evaluate(models, split, metrics=["recall@10"], estimators=["aoa", BestContribution()])
    >>> evaluation.frame[["estimator", "estimate", "claim"]].round(3)
      estimator  estimate                                     claim
    0       aoa     0.599  biased unless all propensities are equal
    1      best     0.732                     plug-in: no guarantee
    """

    label: str
    weighted: bool = True
    weighting: str = "1/P"
    target: Target = "user"
    separable: bool = True
    counts_all_users: ClassVar[bool] = False
    needs_rewards: ClassVar[bool] = False
    takes_root: ClassVar[bool] = False
    uses_unbiased_form: ClassVar[bool] = False
    can_exceed_range: ClassVar[bool] = False

    @property
    def estimand(self) -> str:
        """Average that it estimates: "mean over users", or "mean over interactions"."""
        if self.target == "pooled":
            return "mean over interactions"
        return "mean over users"

    @abstractmethod
    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Compute the per-user sums from which the estimate of `metric` and its error follow.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.
        metric : Metric
            Metric to estimate.

        Returns
        -------
        UserSums
            Sums of the users with positives, or of the whole population where `counts_all_users`.
        """

    @abstractmethod
    def weight_positives(self, sample: Sample) -> FloatArray:
        """Return the weight of each positive in the estimate.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.

        Returns
        -------
        (n_pos,) float array
            Weights in the order of the positives; a common factor is arbitrary.
        """

    def with_parameter(self, text: str) -> Estimator:
        """Return the estimator for a label with a parameter in parentheses.

        Parameters
        ----------
        text : str
            The text in the parentheses.

        Raises
        ------
        InputError
            For an estimator without parameter, and for a value that it does not accept.
        """
        raise InputError(f"estimator {self.label} takes no parameter; got {text!r}.")

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return the statistical guarantee of estimates of `metric`.

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
            "no guarantee" unless a subclass states a guarantee.
        """
        return Claim("no guarantee")

    def check(self, metric: Metric, *, is_probability: bool, n_relevant: NRelevant) -> None:
        """Raise if `metric` cannot be estimated with such a propensity; it is called before ranking.

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
            For a metric that the estimator does not support.
        """
        if metric.root and not self.takes_root:
            raise InputError(
                f"{self.label} has no form for the root of a mean; use mse instead of {metric.label}."
            )

    def linear_form(
        self, metric: Metric, positives: RankedPositives, *, is_probability: bool = False
    ) -> LinearForm | None:
        """Return the linear form of the estimate in the contributions of `metric`; None if it has none.

        With the weights 1/P, the form has the value of `sums`. It gives bounds under uncertain weights, and
        gradients with respect to them.

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
            None unless a subclass returns a form.
        """
        return None

    def parts(self, sample: Sample, metric: Metric) -> Parts | None:
        """Return the estimate of `metric` as a weighted mean over positives; None if it is not one.

        It gives the decomposition of differences by item and by group.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.
        metric : Metric
            Metric to estimate.

        Returns
        -------
        Parts or None
            None unless a subclass returns the parts.
        """
        return None

    def notes(self, *, one_positive_each: bool, n_relevant: NRelevant) -> tuple[Note | str, ...]:
        """Return notes on the estimates, for results; texts or `Note` values.

        Parameters
        ----------
        one_positive_each : bool
            Whether every user has one positive.
        n_relevant : {"known", "estimated", "absent"}
            Source of the numbers of relevant items.

        Returns
        -------
        tuple of Note or str
            The notes; empty unless a subclass has any.
        """
        return ()

    def log_products(self, sample: Sample, metric: Metric) -> FloatArray | None:
        """Return the logarithm of the size of the products of weights in the value of each user.

        None for an estimate that does not multiply weights of different positives.

        Parameters
        ----------
        sample : Sample
            Ranked positives of one recommender with their propensities.
        metric : Metric
            Metric to estimate.

        Returns
        -------
        (n_users_with_positives,) float array or None
            log Σ|weight| over the terms of each user's value.
        """
        return None

    def caution(self, counts: IntArray, unit: str = "user") -> str:
        """Return the reason why the estimator needs more positives; "" if it has enough.

        Parameters
        ----------
        counts : (n_users,) int array
            Number of positives of each user.
        unit : {"user", "query"}, default "user"
            Unit of the counts.

        Returns
        -------
        str
            The reason with a suggestion; "" if the positives suffice, which the base class assumes.
        """
        return ""
