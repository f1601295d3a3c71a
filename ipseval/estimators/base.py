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
from ipseval.utils.registry import from_outside
from ipseval.utils.types import FloatArray, IntArray

Target = Literal["user", "pooled"]


def missing_method_message(estimator: Estimator, method: str) -> str:
    """Return that an estimator from outside does not implement a method, in words; else ""."""
    inherited = getattr(type(estimator), method) is getattr(Estimator, method)
    return f"{estimator.label} does not implement {method}()" if inherited and from_outside(estimator) else ""


class Estimator(ABC):
    """A way to weight and average the values of users. Everybody else asks it what it is.

    A member gives `label`, `sums` and `positive_weights`, and overrides what else is true of it.

    Attributes
    ----------
    label : str
        What reports print.
    weighted : bool
        Whether it needs a propensity.
    weighting : str
        The weight of a positive in its estimates, in words.
    target : {"user", "pooled"}
        The average it estimates: over users, or over all relevant pairs.
    separable : bool
        Whether the sums of a user depend on that user alone, so that partitions of users can be computed.
    counts_all_users : bool
        Whether users without observed positives count too.
    needs_rewards : bool
        Whether it reads impressions and a reward model, as of `ipseval.policies.evaluate_rewards`.
    takes_root : bool
        Whether its sums carry the root of a metric such as rmse.
    """

    label: str
    weighted: bool = True
    weighting: str = "1/P"
    target: Target = "user"
    separable: bool = True
    counts_all_users: ClassVar[bool] = False
    needs_rewards: ClassVar[bool] = False
    takes_root: ClassVar[bool] = False

    @property
    def estimand(self) -> str:
        """What it estimates: "mean over users", or "mean over interactions"."""
        return "mean over interactions" if self.target == "pooled" else "mean over users"

    @abstractmethod
    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return the per-user sums of `metric` on `sample`."""

    @abstractmethod
    def positive_weights(self, sample: Sample) -> FloatArray:
        """Return the weight of each positive in the estimates, up to a factor, (n_pos,)."""

    def with_parameter(self, text: str) -> Estimator:
        """Return the member that a label with a parameter in parentheses names.

        Raises
        ------
        InputError
            When it takes no parameter, or not this one.
        """
        raise InputError(f"estimator {self.label} takes no parameter; got {text!r}.")

    def claim(
        self, metric: Metric, *, is_probability: bool = False, n_relevant: NRelevant = "absent"
    ) -> Claim:
        """Return what is claimed of its estimates of `metric`; nothing where a member says nothing."""
        return Claim("no claim")

    def check(self, metric: Metric, *, is_probability: bool, n_relevant: NRelevant) -> None:
        """Raise unless it can estimate `metric` with such a propensity; called before anything is ranked."""
        if metric.root and not self.takes_root:
            raise InputError(
                f"{self.label} has no form for the root of a mean; use mse instead of {metric.label}."
            )

    def linear_form(
        self, metric: Metric, ranked: RankedPositives, *, is_probability: bool = False
    ) -> LinearForm | None:
        """Return how it combines the contributions of `metric` and the weights; None: not linearly."""
        return None

    def parts(self, sample: Sample, metric: Metric) -> Parts | None:
        """Return what each positive adds to its estimate of `metric`; None: positives do not add up."""
        return None

    def notes(self, *, one_positive_each: bool, n_relevant: NRelevant) -> tuple[str, ...]:
        """Return what a reader must know of its estimates, in sentences."""
        return ()

    def log_products(self, sample: Sample, metric: Metric) -> FloatArray | None:
        """Return log Σ|weight| over each user's terms where they multiply weights; None: they do not."""
        return None

    def caution(self, counts: IntArray, unit: str = "user") -> str:
        """Return why it needs more positives than `counts`, (n_users,), in words; else "".

        `unit`: "user", or "query" where counts are of queries.
        """
        return ""
