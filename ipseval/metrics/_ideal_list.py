"""Metrics beside the best order of the same positives: NDCG, precision and RBP."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np

from ipseval.errors import InputError
from ipseval.metrics._additive import log_discount, over_ties
from ipseval.metrics._ties import MOST_LEVELS, by_bucket
from ipseval.metrics.base import Definition, Metric, Parameter, buckets, cached, one_of, place_in_user
from ipseval.metrics.gains import GAIN, Gain, compute_gains
from ipseval.ranking import RankedPositives
from ipseval.utils.types import FloatArray, IntArray, TieChoice, TieRule, readonly


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
            share = ranked.sum_by_user(worth * value) / best
        return share if self.relative else share * self._best(ranked.counts)

    def _worth(self, ranked: RankedPositives, weights: FloatArray | None) -> FloatArray | None:
        """Return weight times gain of each positive, (n_pos,); None: all 1."""
        kind = getattr(self, "gain", "binary")
        if kind == "binary":
            return weights
        gain = compute_gains(ranked, kind, self.label)
        return gain if weights is None else weights * gain

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
    made = np.empty_like(worth)
    for width, users in zip(size, np.split(by_count, begin[1:]), strict=True):
        rows = ranked.starts[users, None] + np.arange(width)
        made[rows] = np.sort(worth[rows], axis=1)[:, ::-1]
    if fixed:
        ranked.derived["largest first"] = (worth, readonly(made))
    return made


CELLS = 8_000_000


@dataclass(frozen=True, repr=False)
class Ndcg(ArrangedMetric):
    """dcg@k / ideal dcg@k, the ideal list holding min(s, k) relevant items (or the largest gains).

    NaN for a user whose gains are all 0. Unbiased form for binary relevance (observations independent):
    Σ_i ŷ_i d(r_i) H_i, where H_i is the multilinear extension of 1/IDCG(1 + number of other relevant items).
    """

    gain: Gain = "binary"

    name = "ndcg"
    summary = "dcg over the best possible dcg"
    relative = True
    needs_independence = True
    parameters = MappingProxyType({"gain": GAIN})
    definition = Definition(
        formula="dcg@k / idcg@k",
        denominator="idcg@k = Σ_{r≤min(s,k)} 1/log2(1 + r); graded: gains sorted, largest first",
        discount="1/log2(1 + r)",
        undefined="users without positives, and users whose gains are all 0",
        plug_in="Σwd over Σwd with weights in descending order at ranks 1, 2, …; graded: weights times gains",
    )

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return log_discount(rank)

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        if self.gain != "binary":
            raise InputError(f"{self.label} has no unbiased form for graded gains; ask for aoa or snips.")
        value = inverse * self._plain_contributions(ranked, rule)
        result = np.empty(ranked.starts.size)
        for members, rows in buckets(ranked):
            width = rows.shape[1]
            # The ideal list is full from k relevant items on, so that no larger number need be told apart.
            levels = width if self.cutoff is None else min(width, self.cutoff)
            if levels > MOST_LEVELS:
                raise InputError(
                    f"the unbiased {self.label} of a user with {width:,} positives takes memory and time of "
                    f"the square of that; ask for a cutoff of at most {MOST_LEVELS:,}, or for mean_dcg."
                )
            inverse_ideal = 1 / self._best_table(levels)[1:]
            step = max(1, CELLS // (levels * (width + 1)))
            for start in range(0, members.size, step):
                part = slice(start, start + step)
                others = _expected_without_each(by_bucket(inverse, rows[part]), inverse_ideal)
                result[members[part]] = (by_bucket(value, rows[part]) * others).sum(axis=1)
        return result


def _expected_without_each(y: FloatArray, h: FloatArray) -> FloatArray:
    """Return f_{−i} = Σ_t h(t) [x^t] Π_{j≠i} (1 − y_j + y_j x) of every entry of each row, as y."""
    # It is E h(number of the other relevant items) if y were chances. The identity is multilinear, so with y
    # = O/P it is unbiased for h at the true number. Prefix products times suffix functionals: nothing is
    # divided out.
    n, width = y.shape
    levels = h.size  # h(t) = h(levels − 1) beyond
    suffix = np.empty((width + 1, n, levels))
    suffix[width] = h
    for i in range(width - 1, -1, -1):
        suffix[i, :, :-1] = (1 - y[:, [i]]) * suffix[i + 1, :, :-1] + y[:, [i]] * suffix[i + 1, :, 1:]
        suffix[i, :, -1] = h[-1]
    prefix = np.zeros((n, levels))
    prefix[:, 0] = 1.0
    result = np.empty_like(y)
    for i in range(width):
        result[:, i] = (prefix * suffix[i + 1]).sum(axis=1)
        moved = prefix * (1 - y[:, [i]])
        moved[:, 1:] += prefix[:, :-1] * y[:, [i]]
        moved[:, -1] += prefix[:, -1] * y[:, i]
        prefix = moved
    return result


DENOMINATOR = Parameter("k", one_of("k", "min"), "k, or min(k, s): a perfect list then scores 1 for everyone")


@dataclass(frozen=True, repr=False)
class Precision(ArrangedMetric):
    """Σ 1{r_i ≤ k} / k; with denominator "min", Σ 1{r_i ≤ k} / min(k, s)."""

    denominator: Literal["k", "min"] = "k"

    name = "precision"
    aliases = ("p",)
    summary = "share of the first k that is relevant"
    takes_cutoff = "required"
    parameters = MappingProxyType({"denominator": DENOMINATOR})

    @property
    def relative(self) -> bool:  # type: ignore[override]  # follows from the denominator
        """Whether the value is divided by the best one, min(k, s)/k."""
        return self.denominator == "min"

    @property
    def needs_n_relevant(self) -> bool:  # type: ignore[override]
        """Only min(k, s) needs s."""
        return self.denominator == "min"

    @property
    def definition(self) -> Definition:  # type: ignore[override]
        """The words of the card."""
        weighted = "Σ_{r_i≤k} w_i over the sum of the min(k, m) largest weights, m = |S*_u|"
        if self.denominator == "min":
            return Definition("Σ_{i∈S} 1{r_i ≤ k} / min(k, s)", "min(k, s)", plug_in=weighted)
        return Definition(
            "Σ_{i∈S} 1{r_i ≤ k} / k", "k, also for shorter lists", plug_in=f"{weighted}, times min(k, m)/k"
        )

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        assert self.cutoff is not None
        return np.full_like(rank, 1.0 if self.relative else 1 / self.cutoff)

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        assert self.cutoff is not None
        hits = ranked.sum_by_user(inverse * self._plain_contributions(ranked, rule))
        return hits / np.minimum(n_relevant, self.cutoff) if self.relative else hits


def _unit(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise InputError(f"{text!r} is not a number") from None
    if not 0 < value < 1:
        raise InputError(f"{text} is not in (0, 1)")
    return value


@dataclass(frozen=True, repr=False)
class Rbp(ArrangedMetric):
    """(1 − p) Σ p^(r_i − 1)."""

    p: float = 0.8

    name = "rbp"
    summary = "rank-biased precision"
    parameters = MappingProxyType(
        {"p": Parameter(0.8, _unit, "chance to go on to the next item", shown=True)}
    )
    definition = Definition(
        "(1 − p) Σ_{i∈S} p^(r_i − 1)",
        "none",
        "(1 − p) p^(r − 1)",
        plug_in="Σwc over Σwc with weights in descending order at ranks 1 … m, times Σ_{r≤m} c(r)",
    )

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        return np.asarray((1 - self.p) * self.p ** (rank - 1))

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        return ranked.sum_by_user(inverse * self._plain_contributions(ranked, rule))
