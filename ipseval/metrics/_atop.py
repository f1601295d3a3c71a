"""ATOP: the AUC-type metric of Steck (2011) and Yang et al. (2018), a mean over relevant items."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval._base.types import FloatArray, TieRule
from ipseval.metrics._additive import AdditiveMetric
from ipseval.metrics._base import Definition, simple_rank
from ipseval.metrics._ties import places
from ipseval.ranking import RankedPositives


@dataclass(frozen=True, repr=False)
class Atop(AdditiveMetric):
    """Mean of (n − r)/(n − 1) over positives: the share of other candidates ranked below a positive.

    Affine in the rank, so every tie rule but "min" and "max" gives the same value. NaN for a user with a
    single candidate.
    """

    name = "atop"
    aliases = ("mean_percentile",)
    summary = "mean share of items below a relevant one"
    kind = "mean"
    takes_cutoff = "none"
    default_ties = "mean"
    linear_in_rank = True
    definition = Definition(
        formula="(1/s) Σ_{i∈S} (n − r_i)/(n − 1)",
        denominator="s, the number of relevant items; n, the number of candidates",
        undefined="users without positives, and users with one candidate",
    )

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        n = n_candidates
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(n > 1, (n - rank) / (n - 1), np.nan)

    def _contributions(self, ranked: RankedPositives, rule: TieRule) -> FloatArray:
        if rule in ("mean", "expected") or not ranked.has_ties:
            rank = simple_rank(ranked, "mean")
        else:
            above, size = places(ranked, rule)
            rank = above + (size + 1) / 2
        return self.at_rank(rank, ranked.n_candidates)
