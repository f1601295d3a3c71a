"""Measures of lists beyond accuracy: what they read, their rules and their labels."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array

from ipseval.data.interactions import Interactions
from ipseval.errors import InputError
from ipseval.estimators import UserSums
from ipseval.evaluation.segments.built_in_groups import quantile_groups
from ipseval.ranking.top_lists import TopLists
from ipseval.utils.checks import check_positive_int
from ipseval.utils.registry import lookup
from ipseval.utils.types import BoolArray, FloatArray, IntArray, freeze


@dataclass(frozen=True, eq=False)
class Recommended:
    """The first k items of each user, and the training log behind them.

    Attributes
    ----------
    top : TopLists
    train : Interactions
    vectors : (n_items, d) float array or None
    """

    top: TopLists
    train: Interactions
    vectors: FloatArray | None = None

    def __post_init__(self) -> None:
        freeze(self, "vectors")

    @cached_property
    def inside(self) -> BoolArray:
        """Which entries of the lists are items, (n, k)."""
        return self.top.item >= 0

    @cached_property
    def length(self) -> IntArray:
        """Items of each list, (n,)."""
        return self.top.length

    @cached_property
    def exposure(self) -> IntArray:
        """In how many lists each item stands, (n_items,)."""
        return np.bincount(self.top.item[self.inside], minlength=self.train.n_items)

    @cached_property
    def popularity(self) -> FloatArray:
        """n* of each item, (n_items,)."""
        return np.asarray(self.train.popularity, dtype=np.float64)

    def mean_of(self, values: FloatArray) -> FloatArray:
        """Return the mean of a value per item (n_items,) over each list, (n,); NaN for an empty list."""
        return self.sum_of(values) / np.where(self.length > 0, self.length, np.nan)

    @cached_property
    def lists(self) -> csr_array:
        """The lists as a matrix of users and items, (n, n_items): 1 where an item stands in a list."""
        item = self.top.item[self.inside]
        starts = np.append(0, np.cumsum(self.length))
        return csr_array((np.ones(item.size), item, starts), shape=(self.length.size, self.train.n_items))

    def sum_of(self, values: FloatArray) -> FloatArray:
        """Return Σ of a value per item (n_items,) over each list, (n,)."""
        return np.asarray(self.lists @ values)


N_GROUPS, SMOOTHING = 10, 0.01  # of calibration: popularity groups, and the share of p in q
ENTRIES = 2**17  # numbers of sums of vectors that are held at once: they stay in the cache

Rule = Callable[[Recommended], UserSums]


@dataclass(frozen=True)
class Definition:
    """What a measure is: its rule, formula, range, and where it comes from."""

    rule: Rule
    formula: str
    reads: str
    direction: str
    source: str


def coverage(data: Recommended) -> UserSums:
    """Return the share of the catalogue that stands in at least one list, with jackknife terms."""
    size = data.train.n_items
    # Without user u the items leave that stand in its list alone.
    alone = data.sum_of((data.exposure == 1).astype(np.float64))
    covered = (data.exposure > 0).sum()
    return _jackknifed(data, float(covered) / size, (covered - alone) / size)


def gini(data: Recommended) -> UserSums:
    """Return the Gini coefficient of the exposure of all items of the catalogue, with jackknife terms."""
    n_items, total = data.train.n_items, np.float64(data.exposure.sum())
    order = np.sort(data.exposure)
    up_to = np.cumsum(np.bincount(data.exposure))  # items exposed at most c times
    above = float(((2 * np.arange(1, n_items + 1) - n_items - 1) * order).sum())
    # An item that loses one exposure takes the lowest place of those that had as many.
    held = np.sort(np.where(data.inside, data.exposure[data.top.item], 0), axis=1)
    same = np.zeros(held.shape, dtype=np.int64)  # the how-manieth of its list with as many
    for place in range(1, held.shape[1]):
        same[:, place] = np.where(held[:, place] == held[:, place - 1], same[:, place - 1] + 1, 0)
    rank = up_to[held - 1] + 1 + same
    lost = np.where(held > 0, 2 * rank - n_items - 1, 0).sum(axis=1)
    left = total - data.length
    with np.errstate(invalid="ignore", divide="ignore"):
        return _jackknifed(data, above / (n_items * total), (above - lost) / (n_items * left))


def entropy(data: Recommended) -> UserSums:
    """Return −Σ p log2 p of the shares of exposure, in bits, with jackknife terms."""
    c, total = data.exposure.astype(np.float64), np.float64(data.exposure.sum())
    whole = float(_times_log(c).sum())
    left = total - data.length
    with np.errstate(invalid="ignore", divide="ignore"):
        less = data.sum_of(_times_log(c) - _times_log(c - 1))
        return _jackknifed(data, np.log2(total) - whole / total, np.log2(left) - (whole - less) / left)


def _times_log(c: FloatArray) -> FloatArray:
    """Return c log2 c, 0 up to 1."""
    return np.asarray(c * np.log2(np.maximum(c, 1)))


def _jackknifed(data: Recommended, value: float, without: FloatArray) -> UserSums:
    """Return sums whose mean is `value` and whose standard error is that of the jackknife.

    `without` (n,): the value without each user. What a single user's list makes of it is left out as NaN.
    """
    n = data.top.users.size
    if n == 1:  # without its only user nothing is left: the value stands, and its error is unknown
        return UserSums.of(data.top.users, np.array([value]))
    return UserSums.of(data.top.users, value + (n - 1) * (without.mean() - without))


def arp(data: Recommended) -> UserSums:
    """Return the mean over users of the mean n* of the list."""
    return UserSums.of(data.top.users, data.mean_of(data.popularity))


def length(data: Recommended) -> UserSums:
    """Return the mean over users of the number of items in the list; 0 without a list."""
    return UserSums.of(data.top.users, data.length.astype(np.float64))


def popularity_lift(data: Recommended) -> UserSums:
    """Return (mean n* of lists − mean n* of histories) / mean n* of histories, each a mean over users."""
    train, users = data.train, data.top.users
    size = train.activity[users]
    total = np.bincount(train.user, data.popularity[train.item], minlength=train.n_users)[users]
    own = np.asarray(total / np.where(size > 0, size, np.nan))
    return UserSums.of(users, data.mean_of(data.popularity) - own, own)


def novelty(data: Recommended) -> UserSums:
    """Return the mean over users of the mean −log2(n*/U) of the list; n* = 0 counts as 1."""
    n_users = (data.train.activity > 0).sum()
    information = -np.log2(np.maximum(data.popularity, 1) / n_users)
    return UserSums.of(data.top.users, data.mean_of(information))


def ild(data: Recommended) -> UserSums:
    """Return the mean over users of the mean 1 − cos of the pairs in the list; undefined for one item."""
    assert data.vectors is not None  # checked by the caller
    norm = np.linalg.norm(data.vectors, axis=1)
    unit = data.vectors / np.where(norm > 0, norm, 1.0)[:, None]
    n = data.length.size
    total = np.empty(n)
    step = max(1, ENTRIES // unit.shape[1])
    for first in range(0, n, step):
        whole = data.lists[first : first + step] @ unit
        total[first : first + step] = np.einsum("nd,nd->n", whole, whole)
    # Σ_{i<j} cos = (‖Σ x‖² − Σ ‖x‖²)/2 of unit vectors x; a vector of zeros is like none.
    similar = (total - data.sum_of((norm > 0).astype(np.float64))) / 2
    n_pairs = data.length * (data.length - 1) / 2
    return UserSums.of(data.top.users, 1 - similar / np.where(n_pairs > 0, n_pairs, np.nan))


def calibration(data: Recommended) -> UserSums:
    """Return the mean over users of KL(p ‖ (1 − a) q + a p) over popularity groups, in bits, a = .01.

    p: shares of the user's training items in ten groups of items by n*; q: those of its list.
    """
    groups = quantile_groups(data.train.popularity, N_GROUPS, "item", "popularity")
    n, n_groups = data.top.users.size, len(groups.labels)
    row, place = np.nonzero(data.inside)
    q = np.bincount(row * n_groups + groups.codes[data.top.item[row, place]], minlength=n * n_groups)
    p = np.bincount(
        data.train.user * np.int64(n_groups) + groups.codes[data.train.item],
        minlength=data.train.n_users * n_groups,
    ).reshape(-1, n_groups)[data.top.users]
    with np.errstate(divide="ignore", invalid="ignore"):
        own, listed = (one / one.sum(axis=1, keepdims=True) for one in (p, q.reshape(n, -1)))
        mixed = (1 - SMOOTHING) * listed + SMOOTHING * own
        terms = np.where(own > 0, own * np.log2(own / mixed), 0.0)
    defined = ~(np.isnan(own).any(axis=1) | np.isnan(listed).any(axis=1))
    return UserSums.of(data.top.users, np.where(defined, terms.sum(axis=1), np.nan))


MEASURES: dict[str, Definition] = {
    "coverage": Definition(
        coverage,
        "|∪_u L_u| / |I|, L_u the first k of user u, I the catalogue",
        "lists",
        "higher: more of the catalogue is shown to somebody",
        "Ge, Delgado-Battenfeld & Jannach, RecSys 2010, doi 10.1145/1864708.1864761",
    ),
    "gini": Definition(
        gini,
        "Σ_i (2i − |I| − 1) c_(i) / (|I| Σ c), c_(i) the exposures in ascending order, those of 0 too",
        "lists",
        "higher: fewer items have most of the exposure; 0 when all have the same",
        "Castells, Hurley & Vargas, Recommender Systems Handbook, 2015, doi 10.1007/978-1-4899-7637-6_26",
    ),
    "entropy": Definition(
        entropy,
        "−Σ_i p_i log2 p_i, p_i = c_i / Σ c",
        "lists",
        "higher: exposure is spread over more items; at most log2 |I|",
        "Shani & Gunawardana, Recommender Systems Handbook, 2011, doi 10.1007/978-0-387-85820-3_8",
    ),
    "arp": Definition(
        arp,
        "mean_u mean_{i∈L_u} n*_i",
        "lists, n*",
        "higher: more popular items are shown",
        "Yin, Cui, Li, Yao & Chen, VLDB 2012, doi 10.14778/2311906.2311916",
    ),
    "popularity_lift": Definition(
        popularity_lift,
        "(A − H) / H, A = mean_u mean_{i∈L_u} n*_i, H = mean_u of the same over the user's training items",
        "lists, training log",
        "above 0: lists are more popular than the items that their users chose",
        "Abdollahpouri, Mansoury, Burke & Mobasher, RecSys 2020, doi 10.1145/3383313.3418487",
    ),
    "novelty": Definition(
        novelty,
        "mean_u mean_{i∈L_u} −log2(n*_i / U), U the users with training interactions; n* = 0 counts as 1",
        "lists, n*",
        "higher: items are shown that fewer users know",
        "Zhou et al., PNAS 107, 2010, doi 10.1073/pnas.1000488107",
    ),
    "ild": Definition(
        ild,
        "mean_u mean_{i<j∈L_u} 1 − cos(v_i, v_j); a vector of zeros has cos 0; undefined for one item",
        "lists, vectors of items",
        "higher: the items of a list are less alike",
        "Ziegler, McNee, Konstan & Lausen, WWW 2005, doi 10.1145/1060745.1060754",
    ),
    "calibration": Definition(
        calibration,
        "mean_u Σ_g p_g log2(p_g / (.99 q_g + .01 p_g)), g ten groups by n*, p of the history, q of L_u",
        "lists, training log",
        "lower: lists have the user's own mix of popular and rare items; 0 when they are the same",
        "Steck, RecSys 2018, doi 10.1145/3240323.3240372",
    ),
    "length": Definition(
        length,
        "mean_u |L_u|, at most k, 0 without a list",
        "lists",
        "higher: fewer lists end before k",
        "Ekstrand, LensKit for Python, CIKM 2020, doi 10.1145/3340531.3412778",
    ),
}


LABEL = re.compile(r"\s*([a-z_]+)@(\d+)\s*")


@dataclass(frozen=True)
class Measure:
    """One measure of lists at a cutoff.

    Attributes
    ----------
    name : str
    cutoff : int
    """

    name: str
    cutoff: int

    def __post_init__(self) -> None:
        lookup(MEASURES, self.name, "measure")
        check_positive_int("the cutoff", self.cutoff)

    def __repr__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """What reports print, and `measure` reads."""
        return f"{self.name}@{self.cutoff}"

    @property
    def definition(self) -> Definition:
        """Formula, range and source."""
        return MEASURES[self.name]

    @property
    def rule(self) -> Rule:
        """What computes it from lists."""
        return self.definition.rule

    def card(self) -> str:
        """Return the definition as text."""
        one = self.definition
        return "\n".join(
            [
                self.label,
                f"  value      {one.formula}",
                f"  reads      {one.reads}",
                f"  direction  {one.direction}",
                "  claim      none: it describes the lists, and no propensity enters",
                f"  source     {one.source}",
            ]
        )


def measure(label: str | Measure) -> Measure:
    """Return the measure that a label names, such as "coverage@10".

    Raises
    ------
    InputError, UnknownNameError
        For text that is no label, and names that do not exist.

    Examples
    --------
    >>> measure("Coverage@10")
    coverage@10
    """
    if isinstance(label, Measure):
        return label
    found = LABEL.fullmatch(label.lower()) if isinstance(label, str) else None
    if found is None:
        raise InputError(
            f"a measure of lists is a name with a cutoff, such as coverage@10; got {label!r:.80}. Names: "
            f"{', '.join(MEASURES)}."
        )
    name, cutoff = found.groups()
    return Measure(name, int(cutoff))
