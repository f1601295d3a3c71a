"""Weight diagnostics: how many observations the weights are worth, and who carries them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._types import FloatArray
from ipseval.estimators import Sample

# A weighted average is flagged when its weights are worth less than this.
LOW_ESS_SHARE = 0.1
LOW_ESS = 50.0
HIGH_SHARE = 0.1


@dataclass(frozen=True)
class WeightDiagnostics:
    """What the weights of one sample say about the trust in its estimates.

    Attributes
    ----------
    ess : float
        Kish effective sample size (Σw)²/Σw² over positives, between 1 and `n_positives`.
    ess_items : float
        The same on the total weight of each item: power-law weights vary by item only.
    max_weight_share : float
        Largest single weight over Σw, in (0, 1].
    n_positives : int
        Positives with a weight.
    """

    ess: float
    ess_items: float
    max_weight_share: float
    n_positives: int

    @property
    def flag(self) -> str:
        """Why estimates with these weights should not be trusted, in words; empty when nothing is wrong."""
        if self.ess < min(LOW_ESS, self.n_positives):
            return f"few effective positives: the weights are worth {self.ess:.0f} of {self.n_positives:,}"
        if self.ess < LOW_ESS_SHARE * self.n_positives:
            return f"uneven weights: worth {self.ess:.0f} of {self.n_positives:,} positives"
        if self.max_weight_share > HIGH_SHARE:
            return f"one positive carries {self.max_weight_share:.0%} of the weight"
        return ""


def weight_diagnostics(sample: Sample, *, weighted: bool) -> WeightDiagnostics:
    """Return the diagnostics of the weights 1/P (or of equal weights) on a sample."""
    ranked = sample.ranked
    weights: FloatArray = sample.weights if weighted else np.ones(len(ranked))
    per_item: FloatArray = np.bincount(ranked.item, weights=weights).astype(np.float64)
    return WeightDiagnostics(
        ess=effective_sample_size(weights),
        ess_items=effective_sample_size(per_item[per_item > 0]),
        max_weight_share=float(weights.max() / weights.sum()),
        n_positives=len(ranked),
    )


def effective_sample_size(weights: FloatArray) -> float:
    """Return Kish's effective sample size (Σw)²/Σw², scale-free, between 1 and n.

    Examples
    --------
    >>> effective_sample_size(np.array([1.0, 1.0, 2.0]))
    2.6666666666666665
    """
    scaled = weights / weights.max()
    return float(scaled.sum() ** 2 / (scaled**2).sum())
