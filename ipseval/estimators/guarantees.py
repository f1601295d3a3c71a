"""The statistical guarantee of an estimate, with its condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ipseval.utils.public import public_class

Level = Literal[
    "exactly unbiased", "consistent", "nearly consistent", "not consistent", "biased", "no guarantee"
]
CONSISTENT_LEVELS = ("exactly unbiased", "consistent", "nearly consistent")
NRelevant = Literal["known", "estimated", "absent"]


@public_class
@dataclass(frozen=True)
class Claim:
    """The statistical guarantee of an estimate, with its condition.

    Parameters
    ----------
    level : str
        "exactly unbiased": the expectation equals the true value. "consistent": bias and error vanish as the
        number of users grows. "nearly consistent": a small bias from the random |S*_u| remains. "not
        consistent": a bias of order 1/|S*_u| remains for any number of users. "biased": biased unless P is
        constant. "no guarantee": no guarantee, as for a plug-in estimate. A verdict names a winner only by an
        estimator of the first three levels. Its headline is on the first metric of any level but the last.
    condition : str, default ""
        Condition of the guarantee, such as "given the propensities".
    needs_equal_exposure : bool, default False
        Whether the estimate needs equally exposed users, because it divides by the number of observed positives of a
        user. Verdicts state this assumption, also where there is no guarantee.

    See Also
    --------
    claim : Return the guarantee of an estimator for a metric.

    Examples
    --------
    >>> str(Claim("consistent", "given relative propensities"))
    'consistent given relative propensities'
    """

    level: Level
    condition: str = ""
    needs_equal_exposure: bool = False

    def __str__(self) -> str:
        if self.level == "no guarantee":
            if self.condition:
                return f"plug-in: no guarantee ({self.condition})"
            return "plug-in: no guarantee"
        return f"{self.level} {self.condition}".strip()
