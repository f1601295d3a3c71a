"""Metrics whose weighted value is relative to the best arrangement of the same weights."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ipseval._base.types import FloatArray, IntArray, TieChoice, TieRule, readonly
from ipseval.metrics._additive import gains, over_ties
from ipseval.metrics._base import Metric, cached, place_in_user
from ipseval.ranking import RankedPositives


@dataclass(frozen=True, repr=False)
class ArrangedMetric(Metric):
    """Σ w_i g_i c(r_i) over the same sum with w_i g_i in descending order at ranks 1, …, s: at most 1."""

    # An absolute metric (`relative` False) multiplies it by Σ_{j≤s} c(j), so that equal weights give Σ
    # c(r_i). c must not rise with the rank.

    kind = "list"
    relative: ClassVar[bool] = False

    @property
    def adds_up(self) -> bool:
        """Whether the value for a known S is a sum over S: not where it is divided by that of the best."""
        return not self.relative

    def rank_contributions(
        self, ranked: RankedPositives, *, ties: TieChoice = "default"
    ) -> FloatArray | None:
        """Return c(r) of each row, (n_rows,), for a metric that adds up; else None."""
        return self._plain_contributions(ranked, self._rule(ranked, ties)) if self.adds_up else None

    def _plain_contributions(self, ranked: RankedPositives, rule: TieRule) -> FloatArray:
        """Return c of each positive under the tie rule, without its gain, (n_pos,)."""
        return cached(ranked, (self, rule), lambda: over_ties(self.at_rank, ranked, rule, self.cutoff))

    def _gains(self, ranked: RankedPositives) -> FloatArray | None:
        """Return the gain of each positive, (n_pos,); None: all 1."""
        gain = getattr(self, "gain", "binary")
        return None if gain == "binary" else gains(ranked, gain, self.label)

    def attributed(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return c (n_pos,) with the value Σwc/Σw: what a positive gains, over what the best list gains."""
        value = self._plain_contributions(ranked, self._rule(ranked, ties))
        w = np.ones(len(ranked)) if weights is None else weights
        worth = self._worth(ranked, weights)
        worth = w if worth is None else worth
        with np.errstate(invalid="ignore", divide="ignore"):
            scale = ranked.sum_by_user(w) / self._best_worth(ranked, worth)
        scale = scale if self.relative else scale * self._best(ranked.counts)
        return np.where(np.isfinite(scale), scale, np.nan)[ranked.segment] * (worth / w) * value

    def _user_values(self, ranked: RankedPositives, weights: FloatArray | None, rule: TieRule) -> FloatArray:
        value = self._plain_contributions(ranked, rule)
        worth = self._worth(ranked, weights)
        if worth is None:
            total = ranked.sum_by_user(value)
            return total / self._best(ranked.counts) if self.relative else total
        best = self._best_worth(ranked, worth)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(best > 0, ranked.sum_by_user(worth * value) / best, np.nan)
        return share if self.relative else share * self._best(ranked.counts)

    def _worth(self, ranked: RankedPositives, weights: FloatArray | None) -> FloatArray | None:
        """Return weight times gain of each positive, (n_pos,); None: all 1."""
        gain = self._gains(ranked)
        return gain if weights is None else weights if gain is None else weights * gain

    def _best_worth(self, ranked: RankedPositives, worth: FloatArray) -> FloatArray:
        """Return Σ worth·c of the best arrangement of each user's positives."""
        value = self.at_rank(np.arange(1.0, int(ranked.counts.max(initial=0)) + 1), np.nan)
        return ranked.sum_by_user(largest_first(ranked, worth) * value[place_in_user(ranked)])

    def _best(self, counts: IntArray) -> FloatArray:
        """Return Σ_{j≤s} c(j) of each number s of relevant items."""
        return self._best_table(int(counts.max(initial=0)))[counts]

    def _best_table(self, most: int) -> FloatArray:
        """Return Σ_{j≤s} c(j) for s = 0 … `most`."""
        return np.concatenate([[0.0], np.cumsum(self.at_rank(np.arange(1.0, most + 1), np.nan))])


def largest_first(ranked: RankedPositives, worth: FloatArray) -> FloatArray:
    """Return `worth` (n_pos,) by user, and of each user from the largest to the smallest."""
    if not worth.size or worth.min() == worth.max():  # as they are
        return worth
    fixed = not worth.flags.writeable
    if fixed and ranked.derived.get("largest first", (None,))[0] is worth:
        known: FloatArray = ranked.derived["largest first"][1]
        return known
    by_count = np.argsort(ranked.counts, kind="stable")
    size, begin = np.unique(ranked.counts[by_count], return_index=True)
    if size.size == 1:  # one table
        made = np.sort(worth.reshape(-1, int(size[0])), axis=1)[:, ::-1].reshape(-1)
    else:
        made = np.empty_like(worth)
        for width, users in zip(size, np.split(by_count, begin[1:]), strict=True):
            rows = ranked.starts[users, None] + np.arange(width)
            made[rows] = np.sort(worth[rows], axis=1)[:, ::-1]
    if fixed:
        ranked.derived["largest first"] = (worth, readonly(made))
    return made
