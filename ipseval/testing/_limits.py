"""Absolute limits: whether an estimate reaches a value that the candidate must have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from ipseval.estimators import Estimate
from ipseval.reporting.formatting import count_decimals, format_fixed, format_level
from ipseval.testing._bounds import Difference

LimitOutcome: TypeAlias = Literal["reached", "below", "cannot tell"]
EXIT_CODES: dict[LimitOutcome, int] = {"reached": 0, "below": 1, "cannot tell": 4}


@dataclass(frozen=True)
class Limit:
    """Decision on an absolute limit of one estimate.

    Attributes
    ----------
    outcome : {"reached", "below", "cannot tell"}
        "reached": the estimate is not below the limit. "below": its upper bound is below the limit. "cannot
        tell": the estimate is below the limit and its upper bound is not, or the estimate is unreliable.
    candidate, metric, estimator : str
    value, threshold : float
        The estimate and the limit.
    high : float
        Upper bound of the estimate, by Gaffke, with error probability `level`.
    level : float
    n_users : int
    strict : bool
        Whether "cannot tell" fails.
    reason : str
        Why the estimate is unreliable, or "".
    """

    outcome: LimitOutcome
    candidate: str
    metric: str
    estimator: str
    value: float
    threshold: float
    high: float
    level: float
    n_users: int
    strict: bool
    reason: str

    @classmethod
    def decide(
        cls, estimate: Estimate, candidate: str, threshold: float, *, level: float, strict: bool
    ) -> Limit:
        """Return the decision on an estimate that is defined."""
        difference = Difference.from_zero(estimate)
        _, high = difference.bounds(level)
        outcome: LimitOutcome = "cannot tell"
        if not estimate.flag and estimate.value >= threshold:
            outcome = "reached"
        elif not estimate.flag and high < threshold:
            outcome = "below"
        return cls(
            outcome=outcome,
            candidate=candidate,
            metric=estimate.metric,
            estimator=estimate.estimator,
            value=estimate.value,
            threshold=threshold,
            high=high,
            level=level,
            n_users=difference.n_users,
            strict=strict,
            reason=estimate.flag,
        )

    @property
    def has_passed(self) -> bool:
        """Whether the candidate meets the limit."""
        return not self.exit_code

    @property
    def exit_code(self) -> int:
        """Exit code: 0 reached, 1 below, 4 cannot tell; 0 for "cannot tell" with `strict=False`."""
        if self.outcome == "cannot tell" and not self.strict:
            return 0
        return EXIT_CODES[self.outcome]

    @property
    def verdict(self) -> str:
        """Decision in one line."""
        criterion = f"by {self.metric} ({self.estimator})"
        if self.outcome == "reached":
            return f"at least {self.threshold:g} {criterion}"
        if self.outcome == "below":
            return f"BELOW the limit of {self.threshold:g} {criterion}"
        reason = self.reason
        if not reason:
            reason = f"{self.format_value()} is below the limit of {self.threshold:g}, but not significantly"
        return f"cannot tell {criterion}: {reason}"

    def _describe_figures(self) -> str:
        """Return the outcome and its figures in one line, for a list of gates."""
        return (
            f"{self.outcome} by {self.metric} ({self.estimator}): {self.format_value()}, at least {self.threshold:g}, "
            f"{self.format_bound()}"
        )

    def format_value(self) -> str:
        """Format the estimate with the decimals that its bound allows."""
        return format_fixed(self.value, self._n_decimals)

    def format_bound(self) -> str:
        """Format the upper bound with its level."""
        return f"{format_level(1 - self.level)} bound {format_fixed(self.high, self._n_decimals)}"

    @property
    def _n_decimals(self) -> int:
        """Number of decimals that suits the distance of the bound."""
        return count_decimals([self.high - self.value]) + 1
