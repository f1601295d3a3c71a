"""`AlphaPosterior`: the posterior of the correction strength."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd


@dataclass(frozen=True)
class AlphaPosterior:
    """Posterior of the correction strength: 0 is AOA, 1 ascribes all concentration of the log to exposure.

    Attributes
    ----------
    mean, low, high : float
        Posterior mean, and the central interval of the confidence level.
    density : DataFrame
        alpha, prior, posterior: probabilities on the grid.
    """

    mean: float
    low: float
    high: float
    density: pd.DataFrame

    def __repr__(self) -> str:
        return f"correction strength {self.interval}"

    @property
    def interval(self) -> str:
        """The posterior mean with its interval, as text."""
        return f"{self.mean:.2f} [{self.low:.2f}, {self.high:.2f}]"
