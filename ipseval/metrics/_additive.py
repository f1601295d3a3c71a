"""Additive metrics: a sum or mean over positives of a contribution c(r) of the rank alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ipseval._types import FloatArray, IntArray, TieChoice, TieRule
from ipseval.errors import InputError
from ipseval.metrics._base import (
    Definition,
    Kind,
    check_depth,
    check_unbiased_ties,
    kept,
    simple_rank,
    tie_rule,
)
from ipseval.metrics._card import Labelled
from ipseval.metrics._ties import Prefix, places
from ipseval.ranking import RankedPositives

Gain = Literal["binary", "linear", "exponential"]


@dataclass(frozen=True, repr=False)
class AdditiveMetric(Labelled):
    """(1/s) Σ c(r_i) for kind "mean", Σ c(r_i) for kind "sum", over the positives of a user.

    Parameters
    ----------
    label : str
        How it parses and prints.
    kind : {"mean", "sum"}
    contribution : callable
        c(r): 1-based ranks (float array) -> values of the same shape; the cutoff is applied outside.
    definition : Definition
    cutoff : int or None
        Contributions beyond this rank are 0.
    gain : {"binary", "linear", "exponential"}
        Factor of each contribution: 1, the positive's graded relevance, or 2^relevance − 1.
    """

    label: str
    kind: Kind
    contribution: Callable[[FloatArray], FloatArray] = field(repr=False)
    definition: Definition = field(repr=False)
    cutoff: int | None = None
    gain: Gain = "binary"
    default_ties: TieRule = "expected"

    @property
    def needs_n_relevant(self) -> bool:
        """Means divide by s_u; sums need nothing but P."""
        return self.kind == "mean"

    @property
    def needs_independence(self) -> bool:
        """Never: the expectation of a sum is the sum of expectations."""
        return False

    def at_rank(self, rank: FloatArray) -> FloatArray:
        """Return c(r) with the cutoff applied, same shape as `rank`."""
        value = self.contribution(rank)
        return value if self.cutoff is None else np.where(rank <= self.cutoff, value, 0.0)

    def contributions(self, ranked: RankedPositives, *, ties: TieChoice = "default") -> FloatArray:
        """Return the contribution of each positive under the tie rule, gain included, (n_pos,)."""
        check_depth(self, ranked)
        value = over_ties(self.at_rank, ranked, tie_rule(self, ties), self.cutoff)
        return value if self.gain == "binary" else value * gains(ranked, self.gain, self.label)

    def user_values(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return Σwc/Σw ("mean") or |S*_u| Σwc/Σw ("sum") of each user with positives."""
        contributions = kept(ranked, (self, ties), lambda: self.contributions(ranked, ties=ties))
        if weights is None:
            total = ranked.sum_by_user(contributions)
            return total / ranked.counts if self.kind == "mean" else total
        average = ranked.sum_by_user(contributions * weights) / ranked.sum_by_user(weights)
        return average if self.kind == "mean" else average * ranked.counts

    def unbiased(
        self,
        ranked: RankedPositives,
        inverse: FloatArray,
        n_relevant: FloatArray | None,
        *,
        ties: TieChoice = "default",
    ) -> FloatArray:
        """Return Σ ŷ c / s_u ("mean") or Σ ŷ c ("sum") of each user with positives."""
        check_unbiased_ties(self, ranked, ties)
        total = ranked.sum_by_user(self.contributions(ranked, ties=ties) * inverse)
        if self.kind == "sum":
            return total
        assert n_relevant is not None
        return total / n_relevant


@dataclass(frozen=True, repr=False)
class Atop(Labelled):
    """Mean of (n − r)/(n − 1) over positives: the share of other candidates ranked below a positive.

    Affine in the rank, so every tie rule but "min" and "max" gives the same value. NaN for a user with a
    single candidate.
    """

    label: str = "atop"

    kind: Kind = field(default="mean", init=False)
    cutoff: int | None = field(default=None, init=False)
    default_ties: TieRule = field(default="mean", init=False)
    needs_n_relevant: bool = field(default=True, init=False)
    needs_independence: bool = field(default=False, init=False)
    definition: Definition = field(
        default=Definition(
            formula="(1/s) Σ_{i∈S} (n − r_i)/(n − 1)",
            denominator="s, the number of relevant items; n, the number of candidates",
            undefined="users without positives, and users with one candidate",
        ),
        init=False,
        repr=False,
    )

    def contributions(self, ranked: RankedPositives, *, ties: TieChoice = "default") -> FloatArray:
        """Return (n − r)/(n − 1) of each positive, (n_pos,)."""
        n = ranked.n_candidates.astype(np.float64)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(n > 1, (n - self._rank(ranked, ties)) / (n - 1), np.nan)

    def user_values(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return Σwc/Σw of each user with positives."""
        contributions = kept(ranked, (self, ties), lambda: self.contributions(ranked, ties=ties))
        return ranked.mean_by_user(contributions, weights)

    def _rank(self, ranked: RankedPositives, ties: TieChoice) -> FloatArray:
        check_depth(self, ranked)
        rule = tie_rule(self, ties)
        if rule in ("mean", "expected") or not ranked.has_ties:
            return simple_rank(ranked, "mean")
        above, size = places(ranked, rule)
        return above + (size + 1) / 2

    def unbiased(
        self,
        ranked: RankedPositives,
        inverse: FloatArray,
        n_relevant: FloatArray | None,
        *,
        ties: TieChoice = "default",
    ) -> FloatArray:
        """Return Σ ŷ c / s_u of each user with positives."""
        check_unbiased_ties(self, ranked, ties)
        assert n_relevant is not None
        return ranked.sum_by_user(self.contributions(ranked, ties=ties) * inverse) / n_relevant


def over_ties(
    at_rank: Callable[[FloatArray], FloatArray],
    ranked: RankedPositives,
    rule: TieRule,
    cutoff: int | None,
) -> FloatArray:
    """Return c of each positive under a tie rule, (n_pos,): at the mean rank, or the mean over its places."""
    if rule == "mean" or not ranked.has_ties:
        return at_rank(simple_rank(ranked, "mean"))
    above, size = places(ranked, rule)
    return expected_over_ties(at_rank, above, size - 1, cutoff)


def expected_over_ties(
    at_rank: Callable[[FloatArray], FloatArray],
    n_above: IntArray,
    n_tied: IntArray,
    cutoff: int | None,
) -> FloatArray:
    """Return the mean of c over the ranks n_above + 1 … n_above + n_tied + 1, exactly, (n_pos,).

    That is the expectation over random tie breaking; the sum over ranks is a difference of prefix sums.
    """
    value = np.asarray(at_rank(n_above + 1.0), dtype=np.float64)
    tied = np.flatnonzero(n_tied > 0)
    if tied.size == 0:
        return value
    above, size = n_above[tied], n_tied[tied] + 1
    last = int((above + size).max())
    depth = last if cutoff is None else min(last, cutoff)
    prefix = Prefix.of(at_rank(np.arange(1.0, depth + 1)))
    value[tied] = prefix.between(above, above + size) / size
    return value


def gains(ranked: RankedPositives, gain: Gain, label: str) -> FloatArray:
    """Return the gain of each positive, (n_pos,): its graded relevance, or 2^relevance − 1."""
    if ranked.gain is None:
        raise InputError(
            f"{label} needs graded relevance, but the test interactions have no value; "
            "name the column with value= when the split is made."
        )
    return ranked.gain if gain == "linear" else np.exp2(ranked.gain) - 1
