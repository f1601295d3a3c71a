"""What every metric offers, and the values shared by all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from ipseval._checks import check_choice
from ipseval._types import FloatArray, IntArray, TieChoice, TieRule, readonly
from ipseval.errors import InputError
from ipseval.ranking import RankedPositives

Kind = Literal["mean", "sum", "pairwise", "list"]
TIE_RULES = ("mean", "min", "max", "expected")


@dataclass(frozen=True)
class Definition:
    """The words of a metric card: formula and conventions for a known relevant set S with ranks r."""

    formula: str
    denominator: str
    discount: str = "none"
    undefined: str = "users without positives"
    plug_in: str = "per-user weighted mean of the contributions, Σwc/Σw"


class Metric(Protocol):
    """A ranking metric: from the ranks of a user's positives to one number per user.

    Attributes
    ----------
    label : str
        What `ipseval.metric` parses and reports print.
    kind : {"mean", "sum", "pairwise", "list"}
        mean: (1/s) Σ c(r); sum: Σ c(r); pairwise: a sum over pairs of positives; list: anything else.
    cutoff : int or None
        k of `@k`; None for the whole ranking.
    default_ties : {"mean", "expected"}
        The tie rule behind `ties="default"`.
    needs_n_relevant : bool
        Whether the unbiased form divides by s_u = |S_u| and so has to be given it.
    needs_independence : bool
        Whether the unbiased form multiplies observations of different items, which is unbiased only when
        they are independent given S_u.
    """

    @property
    def label(self) -> str: ...
    @property
    def kind(self) -> Kind: ...
    @property
    def cutoff(self) -> int | None: ...
    @property
    def default_ties(self) -> TieRule: ...
    @property
    def needs_n_relevant(self) -> bool: ...
    @property
    def needs_independence(self) -> bool: ...
    @property
    def definition(self) -> Definition: ...

    def user_values(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return the metric of each user that has positives, (n_users_with_positives,).

        Without weights: the textbook value with S*_u in place of S_u. With weights w (n_pos,) > 0: the
        weighted plug-in, weights scaled within each user to Σw̃ = |S*_u|; constant weights change nothing.
        NaN where the metric is undefined for the user.
        """

    def unbiased(
        self,
        ranked: RankedPositives,
        inverse: FloatArray,
        n_relevant: FloatArray | None,
        *,
        ties: TieChoice = "default",
    ) -> FloatArray:
        """Return each user's unbiased estimate from ŷ = 1/P (n_pos,), (n_users_with_positives,).

        `n_relevant` is s_u of those users, needed where `needs_n_relevant`.
        """


def tie_rule(metric: Metric, ties: TieChoice) -> TieRule:
    """Return the rule that `ties` stands for, after checking its name."""
    if ties == "default":
        return metric.default_ties
    check_choice("ties", ties, ("default", *TIE_RULES))
    return ties


def check_depth(metric: Metric, ranked: RankedPositives) -> None:
    """Raise `InputError` when the ranks are censored before the metric's cutoff."""
    if ranked.max_rank is None or (metric.cutoff is not None and metric.cutoff <= ranked.max_rank):
        return
    reads = "the whole ranking" if metric.cutoff is None else f"the first {metric.cutoff} ranks"
    raise InputError(
        f"{metric.label} reads {reads}, but the lists end at rank {ranked.max_rank}; "
        f"use a cutoff of at most {ranked.max_rank}, or pass the scores of all items."
    )


def check_unbiased_ties(metric: Metric, ranked: RankedPositives, ties: TieChoice) -> TieRule:
    """Return the tie rule of an unbiased form; refuses rules that would need the ties inside the unknown S.

    Under "min" and "max" the place of a positive depends on how many other relevant items share its score,
    and those not observed are unknown. Without ties all rules agree.
    """
    rule = tie_rule(metric, ties)
    if rule in ("min", "max") and ranked.has_ties:
        raise InputError(
            f"the unbiased {metric.label} is defined for ties='mean' or 'expected' only: {rule!r} would need "
            f"to know which of the tied items are relevant; {int((ranked.n_tied > 0).sum()):,} of "
            f"{len(ranked):,} positives are tied."
        )
    return rule


def check_representable(metric: Metric, values: FloatArray) -> FloatArray:
    """Return `values`, or raise `InputError` where products of many 1/P left the range of floats."""
    n_bad = int((~np.isfinite(values)).sum())
    if n_bad:
        raise InputError(
            f"the unbiased {metric.label} multiplies 1/P over the positives of a user. For {n_bad} of "
            f"{values.size} users the product is beyond the range of floating-point numbers. Its variance is "
            "of that size too: use recall@k, mean_dcg or dcg, or snips."
        )
    return values


def kept(ranked: RankedPositives, key: tuple[Any, ...], compute: Callable[[], FloatArray]) -> FloatArray:
    """Return `compute()`, or what it gave when the last key was the same.

    Plain and weighted values are asked for in turn, and both read the same contributions.
    """
    if ranked.derived.get("kept", (None,))[0] != key:
        ranked.derived["kept"] = (key, readonly(compute()))
    found: FloatArray = ranked.derived["kept"][1]
    return found


def simple_rank(ranked: RankedPositives, rule: TieRule) -> FloatArray:
    """Return the 1-based rank of each positive under "mean", "min" or "max", (n_pos,)."""
    if rule == "min" or not ranked.has_ties:
        return ranked.n_above + 1.0
    if rule == "max":
        return ranked.n_above + ranked.n_tied + 1.0
    return ranked.n_above + 0.5 * ranked.n_tied + 1.0


def scaled_weights(ranked: RankedPositives, weights: FloatArray | None) -> FloatArray:
    """Return weights scaled within each user to sum to its number of positives, (n_pos,)."""
    if weights is None:
        return np.ones(len(ranked))
    scale = ranked.counts / ranked.sum_by_user(weights)
    return weights * scale[ranked.segment]


def buckets(ranked: RankedPositives) -> list[tuple[IntArray, IntArray]]:
    """Return (positions in `ranked.users`, rows) for users with a similar number of positives, computed once.

    `rows` is (n_bucket, width): row numbers of the user's positives from best to worst, −1 as padding.
    Sums along its second axis stay within one user, so that no user's rounding touches another's.
    """
    if "buckets" not in ranked.derived:
        ranked.derived["buckets"] = list(_buckets(ranked))
    found: list[tuple[IntArray, IntArray]] = ranked.derived["buckets"]
    return found


def _buckets(ranked: RankedPositives) -> Iterator[tuple[IntArray, IntArray]]:
    counts = ranked.counts
    width_class = np.ceil(np.log2(np.maximum(counts, 1))).astype(np.int64)
    for size in np.unique(width_class):
        members = np.flatnonzero(width_class == size)
        column = np.arange(int(counts[members].max()))
        rows = ranked.by_rank[np.minimum(ranked.starts[members, None] + column, len(ranked) - 1)]
        yield readonly(members), readonly(np.where(column < counts[members, None], rows, -1))
