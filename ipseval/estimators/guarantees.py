"""What is claimed of an estimate, with its condition."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["exactly unbiased", "consistent", "nearly consistent", "not consistent", "biased", "no claim"]
NRelevant = Literal["known", "estimated", "absent"]


@dataclass(frozen=True)
class Claim:
    """A statistical property with its condition.

    Attributes
    ----------
    level : str
        "exactly unbiased": the expectation equals the truth. "consistent": bias and error vanish as users
        grow. "nearly consistent": a small bias from the random |S*_u| stays. "not consistent": a bias of
        order 1/|S*_u| stays however many users there are. "biased": biased unless P is constant.
        "no claim": a plug-in.
    condition : str
        What it rests on.
    """

    level: Level
    condition: str = ""

    def __str__(self) -> str:
        if self.level == "no claim":
            return f"plug-in: no claim ({self.condition})" if self.condition else "plug-in: no claim"
        return f"{self.level} {self.condition}".strip()
