"""Metric, the base of every metric: what it says of itself, and the checks made once for all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, ClassVar, Literal

import numpy as np

from ipseval.errors import InputError
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import check_choice, check_positive_int
from ipseval.utils.types import FloatArray, IntArray, TieChoice, TieRule, readonly

Kind = Literal["mean", "sum", "pairwise", "list"]
MOST = 10_000_000  # the largest cutoff: short lists are counted by length up to it
TIE_RULES = ("mean", "min", "max", "expected")


@dataclass(frozen=True)
class Definition:
    """The words of a metric card: formula and conventions for a known relevant set S with ranks r."""

    formula: str
    denominator: str
    discount: str = "none"
    undefined: str = "users without positives"
    plug_in: str = "per-user weighted mean of the contributions, Σwc/Σw"


@dataclass(frozen=True)
class Parameter:
    """A parameter of a metric label: its default, how its text is read, and what it does.

    `parse` raises `InputError` for text that is no value of it. `shown` prints it also at its default.
    """

    default: Any
    parse: Callable[[str], Any]
    description: str
    shown: bool = False


@dataclass(frozen=True, repr=False)
class Metric(ABC):
    """A ranking metric: from the ranks of a user's positives to one number per user.

    A subclass sets the class attributes and `_user_values`, and what else it has; `AdditiveMetric` asks for
    less. `METRICS` gives it a label.

    Parameters
    ----------
    cutoff : int or None
        k of `@k`; None for the whole ranking.
    label : str
        What reports print. Default: name, parameters and cutoff, as `ipseval.metric` parses them.

    Attributes
    ----------
    kind : {"mean", "sum", "pairwise", "list"}
        mean: (1/s) Σ c(r); sum: Σ c(r); pairwise: a sum over pairs of positives; list: anything else.
    default_ties : {"mean", "expected"}
        The tie rule behind `ties="default"`.
    needs_n_relevant : bool
        Whether the unbiased form divides by s_u = |S_u| and so has to be given it.
    needs_independence : bool
        Whether the unbiased form multiplies observations of different items, which is unbiased only when
        they are independent given S_u.
    value_range : (float, float)
        Where plain and weighted values of a user lie.
    has_pairs, counts_unobserved : bool
        Whether `pair_sums` gives a ratio of pairs; whether `unobserved` is not 0.
    linear_in_rank : bool
        Whether `at_rank` is linear in the rank, so that uniformly sampled ranks keep its mean.
    corrects_sampling : bool
        Whether it reads sampled ranks and stands for the full ranking.
    approximate : str
        Why nothing is claimed of any estimator; "" where claims stand.
    root : bool
        Whether an estimate is the square root of what the users' values average to.
    """

    cutoff: int | None = None
    label: str = field(default="", kw_only=True)

    name: ClassVar[str]
    summary: ClassVar[str] = ""
    kind: ClassVar[Kind]
    definition: ClassVar[Definition]
    takes_cutoff: ClassVar[Literal["required", "optional", "none"]] = "optional"
    parameters: ClassVar[Mapping[str, Parameter]] = MappingProxyType({})
    aliases: ClassVar[tuple[str, ...]] = ()
    default_ties: ClassVar[TieRule] = "expected"
    needs_n_relevant: ClassVar[bool] = False
    needs_independence: ClassVar[bool] = False
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    has_pairs: ClassVar[bool] = False
    counts_unobserved: ClassVar[bool] = False
    linear_in_rank: ClassVar[bool] = False
    corrects_sampling: ClassVar[bool] = False
    approximate: ClassVar[str] = ""
    root: ClassVar[bool] = False

    def __post_init__(self) -> None:
        k = self.cutoff
        if k is None and self.takes_cutoff == "required":
            raise InputError(f"metric {self.name!r} needs a cutoff, e.g. {self.name}@10.")
        if k is not None and self.takes_cutoff == "none":
            raise InputError(f"metric {self.name!r} takes no cutoff; it reads the whole ranking.")
        if k is not None and (not isinstance(k, (int, np.integer)) or isinstance(k, bool) or k < 1):
            raise InputError(f"metric {self.name!r}: the cutoff must be an integer >= 1; got {k!r}.")
        if k is not None and k > MOST:
            raise InputError(f"metric {self.name!r}: the cutoff must be at most {MOST:,}; got {k:,}.")
        for key, parameter in self.parameters.items():
            parameter.parse(str(getattr(self, key)))
        if not self.label:
            object.__setattr__(self, "label", self._printed())

    def __repr__(self) -> str:
        return self.label

    def user_values(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return the metric of each user that has positives, (n_users_with_positives,).

        Without weights: the textbook value with S*_u in place of S_u. With weights w (n_pos,) > 0: the
        weighted form, which stays in `value_range`. Only proportions within a user matter, and constant
        weights change nothing. NaN where the metric is undefined for the user. With sampled candidates a
        metric of lists is given `ranked.in_one_list`, as `evaluate` does: otherwise it may leave its range.
        """
        return self._user_values(ranked, weights, self._rule(ranked, ties))

    def contributions(self, ranked: RankedPositives, *, ties: TieChoice = "default") -> FloatArray | None:
        """Return c (n_pos,) with the weighted value Σwc/Σw, times |S*_u| for sums; None: it is not linear."""
        return None

    def attributed(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray | None:
        """Return c (n_pos,) with `user_values` = Σwc/Σw, times |S*_u| for sums; None: it does not add up.

        Unlike `contributions` it may depend on the weights, as the best arrangement of a list does.
        """
        return self.contributions(ranked, ties=ties)

    @property
    def has_unbiased(self) -> bool:
        """Whether there is an unbiased form, which `ips` needs: `_unbiased`, or `unbiased` itself."""
        kind = type(self)
        return kind._unbiased is not Metric._unbiased or kind.unbiased is not Metric.unbiased

    @property
    def reads_one_rank(self) -> bool:
        """Whether it is a mean over single positives, of whose rank the other positives are no part."""
        return self.kind == "mean" or self.linear_in_rank or self.corrects_sampling

    @property
    def adds_up(self) -> bool:
        """Whether the value for a known S is a mean or sum over S of a function of the rank of one item."""
        return self.kind in ("mean", "sum")

    def rank_contributions(
        self, ranked: RankedPositives, *, ties: TieChoice = "default"
    ) -> FloatArray | None:
        """Return c(r) of each row, relevant or not, (n_rows,), for a metric that adds up; else None."""
        return self.contributions(ranked, ties=ties) if self.adds_up else None

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

        Raises
        ------
        InputError
            For a metric without an unbiased form; without s_u where it is needed; for "min" and "max" with
            tied positives; and where products of 1/P leave the range of floating-point numbers.
        """
        rule = self._unbiased_rule(ranked, ties)
        if self.needs_n_relevant and n_relevant is None:
            raise InputError(
                f"the unbiased {self.label} divides by the number of relevant items; pass n_relevant."
            )
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            values = self._unbiased(ranked, inverse, n_relevant, rule)
        n_bad = int((~np.isfinite(values)).sum()) if self.needs_independence else 0
        if n_bad:
            raise InputError(
                f"the unbiased {self.label} multiplies 1/P over the positives of a user. For {n_bad} of "
                f"{values.size} users the product is beyond the range of floating-point numbers. Its "
                "variance is of that size too: use recall@k, mean_dcg or dcg, or snips."
            )
        return values

    def unobserved(self, n_candidates: FloatArray, n_relevant: FloatArray) -> FloatArray:
        """Return the unbiased value of users without observed positives, in the shape of both: 0 for most."""
        return np.zeros(np.broadcast(n_candidates, n_relevant).shape)

    def mass(self, ranked: RankedPositives) -> FloatArray | None:
        """Return how much each user of the population counts in the unbiased mean; None: all alike."""
        return None

    def pair_sums(
        self, ranked: RankedPositives, inverse: FloatArray, *, ties: TieChoice = "default"
    ) -> tuple[FloatArray, FloatArray] | None:
        """Return unbiased estimates of each user's won pairs and of its pairs; None: no ratio of pairs."""
        return None

    def at_rank(self, rank: FloatArray, n_candidates: FloatArray | IntArray | float) -> FloatArray:
        """Return the value for one relevant item at rank r >= 1 of n, in the shape of `rank`.

        Ranks may lie between integers.

        Raises
        ------
        InputError
            For a metric that is not a function of the rank of one relevant item.
        """
        n = np.asarray(n_candidates, dtype=np.float64)
        if self.cutoff is None:
            return self._curve(rank, n)
        ranks, each = np.broadcast_arrays(rank, n)
        near = ranks <= self.cutoff
        value = np.zeros(near.shape)  # most ranks are beyond: their curve is not computed
        value[near] = self._curve(ranks[near], each[near] if n.ndim else n)
        return value

    def curve(self, n_candidates: int) -> FloatArray:
        """Return the value for one relevant item at every rank 1 … n, (n_candidates,).

        This is what the metric thinks of a rank; `ipseval.metrics.sampled.rank_curves` sets beside it what
        ranking among sampled candidates makes of it.

        Raises
        ------
        InputError
            For n < 2, and for a metric that is not a function of the rank of one relevant item.

        Examples
        --------
        >>> from ipseval.metrics import metric
        >>> metric("rr@3").curve(5)
        array([1.        , 0.5       , 0.33333333, 0.        , 0.        ])
        """
        n = check_positive_int("n_candidates", n_candidates, minimum=2)
        return self.at_rank(np.arange(1.0, n + 1), float(n))

    @abstractmethod
    def _user_values(self, ranked: RankedPositives, weights: FloatArray | None, rule: TieRule) -> FloatArray:
        """Return what `user_values` does, for ranks that are deep enough and a tie rule that exists."""

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        """Return what `unbiased` does, with s_u where it is needed and no tie rule that S would decide."""
        raise InputError(f"{self.label} has no unbiased form; use aoa or a self-normalised estimator.")

    def _curve(self, rank: FloatArray, n_candidates: FloatArray) -> FloatArray:
        """Return the value for one relevant item, smooth in the rank; the cutoff is applied outside."""
        raise InputError(f"{self.label} is not a function of the rank of one relevant item.")

    def _rule(self, ranked: RankedPositives, ties: TieChoice) -> TieRule:
        depth = ranked.max_rank  # where lists end
        if depth is not None and (self.cutoff is None or self.cutoff > depth):
            reads, misses = "the whole ranking", ""
            if self.cutoff is not None:
                reads = f"the first {self.cutoff} ranks"
                misses = f", or pad the lists with misses: ranked.padded({self.cutoff})"
            raise InputError(
                f"{self.label} reads {reads}, but the lists end at rank {depth}; use a cutoff of at most "
                f"{depth}, or pass the scores of all items{misses}."
            )
        if ties == "default":
            return self.default_ties
        check_choice("ties", ties, ("default", *TIE_RULES))
        return ties

    def _unbiased_rule(self, ranked: RankedPositives, ties: TieChoice) -> TieRule:
        """Return the tie rule of an unbiased form; refuse one that needs positives not observed."""
        rule = self._rule(ranked, ties)
        if rule in ("min", "max") and ranked.has_ties:
            raise InputError(
                f"the unbiased {self.label} is defined for ties='mean' or 'expected' only: {rule!r} would "
                f"need to know which of the tied items are relevant; {int((ranked.n_tied > 0).sum()):,} of "
                f"{len(ranked):,} positives are tied."
            )
        return rule

    def _printed(self) -> str:
        values = {key: getattr(self, key) for key in self.parameters}
        shown = [
            # repr of a float has as many digits as it takes to read the same number back.
            f"{value!r}" if isinstance(value, float) else f"{key}={value}"
            for key, value in values.items()
            if self.parameters[key].shown or value != self.parameters[key].default
        ]
        inside = f"({','.join(shown)})" if shown else ""
        return self.name + inside + ("" if self.cutoff is None else f"@{self.cutoff}")


def one_of(*allowed: str) -> Callable[[str], str]:
    """Return a parser of one of the given words."""

    def parse(text: str) -> str:
        if text not in allowed:
            raise InputError(f"{text!r} is not one of {', '.join(allowed)}")
        return text

    return parse


def cached(ranked: RankedPositives, key: tuple[Any, ...], compute: Callable[[], FloatArray]) -> FloatArray:
    """Return `compute()`, or its last value if the key is the same: plain and weighted values alternate."""
    if ranked.derived.get("cached", (None,))[0] != key:
        ranked.derived["cached"] = (key, readonly(compute()))
    found: FloatArray = ranked.derived["cached"][1]
    return found


def mean_rank(ranked: RankedPositives) -> FloatArray:
    """Return the 1-based rank of each positive, the mean of its places among ties, (n_pos,)."""
    return ranked.n_above + 0.5 * ranked.n_tied + 1.0


def place_in_user(ranked: RankedPositives) -> IntArray:
    """Return how many positives of its user come before each positive, in the order of the rows, (n_pos,)."""
    return np.arange(len(ranked)) - np.repeat(ranked.starts, ranked.counts)


def buckets(ranked: RankedPositives) -> list[tuple[IntArray, IntArray]]:
    """Return (positions in `ranked.users`, rows (n_bucket, width)) of users with about as many positives."""
    # Rows are sorted from best to worst and padded with −1. Sums along their second axis stay within one
    # user, so that no user's rounding touches another's.
    if "buckets" not in ranked.derived:
        made = []
        width_class = np.ceil(np.log2(ranked.counts)).astype(np.int64)
        for size in np.unique(width_class):
            members = np.flatnonzero(width_class == size)
            count = ranked.counts[members, None]
            column = np.arange(int(count.max()))
            rows = ranked.by_rank[np.minimum(ranked.starts[members, None] + column, len(ranked) - 1)]
            made.append((readonly(members), readonly(np.where(column < count, rows, -1))))
        ranked.derived["buckets"] = made
    found: list[tuple[IntArray, IntArray]] = ranked.derived["buckets"]
    return found
