"""Weight diagnostics: how many observations the weights are worth, and who carries them."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ipseval._types import FloatArray
from ipseval.errors import PositivityWarning, PropensityError
from ipseval.estimators import Sample
from ipseval.inference._pareto import pareto_k
from ipseval.propensity import Propensity

# A weighted average is flagged when its weights are worth less than this.
LOW_ESS_SHARE = 0.1
LOW_ESS = 50.0
HIGH_SHARE = 0.1
# From here on a reader is told, without more being done.
RARE_POPULARITY = 2
HIGH_RARE_SHARE = 0.5
HIGH_PARETO_K = 0.7
HIGH_CLIPPED_SHARE = 0.2


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
    n_items : int
        Items among them.
    median_positives : float
        Median of |S*_u| over users with positives.
    rare_share : float
        Share of Σw on items with n* ≤ 2, in [0, 1]; NaN where n* is not known.
    pareto_k : float
        Pareto k̂ of the total weight of each item; NaN with too few items.
    clipped_share : float
        Σ(w − w_clip)/Σw, the share of the weight that clipping cut, in [0, 1); 0 without clipping.
    weighted : bool
        False: all weights are 1.
    """

    ess: float
    ess_items: float
    max_weight_share: float
    n_positives: int
    n_items: int = 0
    median_positives: float = float("nan")
    rare_share: float = float("nan")
    pareto_k: float = float("nan")
    clipped_share: float = 0.0
    weighted: bool = True

    @property
    def flag(self) -> str:
        """Why estimates with these weights should not be trusted, in words; empty when nothing is wrong."""
        if not self.weighted:
            return ""
        if self.ess < min(LOW_ESS, self.n_positives):
            return f"few effective positives: the weights are worth {self.ess:.0f} of {self.n_positives:,}"
        if self.ess < LOW_ESS_SHARE * self.n_positives:
            return f"uneven weights: worth {self.ess:.0f} of {self.n_positives:,} positives"
        if self.max_weight_share > HIGH_SHARE:
            return f"one positive carries {self.max_weight_share:.0%} of the weight"
        return ""

    @property
    def cautions(self) -> tuple[str, ...]:
        """What else a reader should know about the weights, in words; empty for equal weights."""
        if not self.weighted:
            return ()
        words = []
        if self.rare_share > HIGH_RARE_SHARE:
            words.append(
                f"{self.rare_share:.0%} of the weight is on items with at most {RARE_POPULARITY} interactions"
            )
        if self.pareto_k > HIGH_PARETO_K:
            words.append(f"heavy-tailed weights of items (Pareto k = {self.pareto_k:.2f})")
        if self.clipped_share > HIGH_CLIPPED_SHARE:
            words.append(f"clipping cut {self.clipped_share:.0%} of the weight")
        return tuple(words)


def weight_diagnostics(
    sample: Sample, *, weighted: bool, propensity: Propensity | None = None
) -> WeightDiagnostics:
    """Return the diagnostics of the weights 1/P (or of equal weights) on a sample.

    `propensity`, the one the sample's P came from, adds what is read from n* and from the unclipped P.
    """
    ranked = sample.ranked
    weights: FloatArray = sample.weights if weighted else np.ones(len(ranked))
    per_item: FloatArray = np.bincount(ranked.item, weights=weights).astype(np.float64)
    per_item = per_item[per_item > 0]
    return WeightDiagnostics(
        ess=effective_sample_size(weights),
        ess_items=effective_sample_size(per_item),
        max_weight_share=float(weights.max() / weights.sum()),
        n_positives=len(ranked),
        n_items=int(per_item.size),
        median_positives=float(np.median(ranked.counts)),
        rare_share=_rare_share(sample, weights, propensity),
        pareto_k=pareto_k(per_item),
        clipped_share=_clipped_share(sample, propensity) if weighted else 0.0,
        weighted=weighted,
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


def _rare_share(sample: Sample, weights: FloatArray, propensity: Propensity | None) -> float:
    if propensity is None or propensity.popularity is None:
        return float("nan")
    rare = propensity.popularity[sample.ranked.item] <= RARE_POPULARITY
    return float(weights[rare].sum() / weights.sum())


def _clipped_share(sample: Sample, propensity: Propensity | None) -> float:
    if propensity is None or propensity.unclipped is None:
        return 0.0
    return propensity.cut_share(sample.ranked.user, sample.ranked.item)


def apply_low_ess(weights: Mapping[str, WeightDiagnostics], on_low_ess: str) -> dict[str, str]:
    """Return estimator label -> why its estimates are withheld, after warning or raising as asked.

    "warn": a `PositivityWarning` names every flag. "raise": an error does. "nan": weighted estimates with a
    flag are withheld. "ignore": nothing.

    Raises
    ------
    PropensityError
        When `on_low_ess` is "raise" and there is a flag.
    """
    flagged = {label: one.flag for label, one in weights.items() if one.flag}
    if on_low_ess == "nan":
        return {
            label: f"withheld, not to be trusted: {flag}"
            for label, flag in flagged.items()
            if weights[label].weighted
        }
    if not flagged or on_low_ess == "ignore":
        return {}
    text = "; ".join(f"{label}: {flag}" for label, flag in flagged.items())
    if on_low_ess == "raise":
        raise PropensityError(f"{text}. Clip the propensity, use a smaller gamma, or on_low_ess='warn'.")
    warnings.warn(text, PositivityWarning, stacklevel=4)
    return {}
