"""Measures of recommendation lists beyond accuracy: their input, formulas and labels."""

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
from ipseval.utils.public import public_class, public_function
from ipseval.utils.registry import look_up
from ipseval.utils.types import BoolArray, FloatArray, IntArray, freeze


@dataclass(frozen=True, eq=False)
class Recommended:
    """The first k items of each user, with the training log.

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
    def is_item(self) -> BoolArray:
        """Whether each entry of the lists is an item, (n, k); short lists end with entries that are not."""
        return self.top.item >= 0

    @cached_property
    def length(self) -> IntArray:
        """Items of each list, (n,)."""
        return self.top.length

    @cached_property
    def exposure(self) -> IntArray:
        """Number of lists that contain each item, (n_items,)."""
        return np.bincount(self.top.item[self.is_item], minlength=self.train.n_items)

    @cached_property
    def popularity(self) -> FloatArray:
        """n* of each item, (n_items,)."""
        return np.asarray(self.train.popularity, dtype=np.float64)

    def list_means(self, values: FloatArray) -> FloatArray:
        """Return the mean of a value per item (n_items,) over each list, (n,); NaN for an empty list."""
        return self.list_sums(values) / np.where(self.length > 0, self.length, np.nan)

    @cached_property
    def lists(self) -> csr_array:
        """The lists as a matrix of users and items, (n, n_items): 1 where an item is in a list."""
        item = self.top.item[self.is_item]
        starts = np.append(0, np.cumsum(self.length))
        return csr_array((np.ones(item.size), item, starts), shape=(self.length.size, self.train.n_items))

    def list_sums(self, values: FloatArray) -> FloatArray:
        """Return Σ of a value per item (n_items,) over each list, (n,)."""
        return np.asarray(self.lists @ values)


N_GROUPS = 10  # popularity groups of calibration
SMOOTHING = 0.01  # share of p in the mixture of calibration
CHUNK_ENTRIES = 2**17  # entries of sums of vectors that are in memory at once: they fit into the cache

Rule = Callable[[Recommended], UserSums]


@dataclass(frozen=True)
class Definition:
    """The definition of a measure: its rule, formula, input, direction and source."""

    rule: Rule
    formula: str
    reads: str
    direction: str
    source: str


def coverage(data: Recommended) -> UserSums:
    """Return the share of the catalogue that is in at least one list, with jackknife terms."""
    n_items = data.train.n_items
    n_covered = (data.exposure > 0).sum()
    # Without user u, the items that are in no other list are not covered.
    n_unique = data.list_sums((data.exposure == 1).astype(np.float64))
    return _jackknife(data, float(n_covered) / n_items, (n_covered - n_unique) / n_items)


def gini(data: Recommended) -> UserSums:
    """Return the Gini coefficient of the exposure of all items of the catalogue, with jackknife terms."""
    n_items = data.train.n_items
    total = np.float64(data.exposure.sum())
    sorted_exposure = np.sort(data.exposure)
    n_items_up_to = np.cumsum(np.bincount(data.exposure))  # items exposed at most c times
    weighted_sum = float(((2 * np.arange(1, n_items + 1) - n_items - 1) * sorted_exposure).sum())

    # An item that loses one exposure takes the lowest rank of the items with as many exposures. Items of a
    # list with equal exposure take successive ranks: `n_equal_before` counts those before in the list.
    list_exposure = np.sort(np.where(data.is_item, data.exposure[data.top.item], 0), axis=1)
    n_equal_before = np.zeros(list_exposure.shape, dtype=np.int64)
    for place in range(1, list_exposure.shape[1]):
        is_equal = list_exposure[:, place] == list_exposure[:, place - 1]
        n_equal_before[:, place] = np.where(is_equal, n_equal_before[:, place - 1] + 1, 0)
    rank = n_items_up_to[list_exposure - 1] + 1 + n_equal_before
    loss = np.where(list_exposure > 0, 2 * rank - n_items - 1, 0).sum(axis=1)
    total_without_user = total - data.length
    with np.errstate(invalid="ignore", divide="ignore"):
        value = weighted_sum / (n_items * total)
        values_without_user = (weighted_sum - loss) / (n_items * total_without_user)
        return _jackknife(data, value, values_without_user)


def entropy(data: Recommended) -> UserSums:
    """Return −Σ p log2 p of the shares of exposure, in bits, with jackknife terms."""
    exposure = data.exposure.astype(np.float64)
    total = np.float64(exposure.sum())
    log_sum = float(_times_log(exposure).sum())
    total_without_user = total - data.length
    with np.errstate(invalid="ignore", divide="ignore"):
        loss = data.list_sums(_times_log(exposure) - _times_log(exposure - 1))
        value = np.log2(total) - log_sum / total
        values_without_user = np.log2(total_without_user) - (log_sum - loss) / total_without_user
        return _jackknife(data, value, values_without_user)


def _times_log(values: FloatArray) -> FloatArray:
    """Return c log2 c, 0 up to 1."""
    return np.asarray(values * np.log2(np.maximum(values, 1)))


def _jackknife(data: Recommended, value: float, values_without_user: FloatArray) -> UserSums:
    """Return sums with the mean `value` and the standard error of the jackknife.

    `values_without_user` (n,): the value without each user. It is NaN, and excluded, where only that user has
    a list.
    """
    n_users = data.top.users.size
    if n_users == 1:  # without its only user there is no value, so the error is unknown
        return UserSums.from_values(data.top.users, np.array([value]))
    pseudo_values = value + (n_users - 1) * (values_without_user.mean() - values_without_user)
    return UserSums.from_values(data.top.users, pseudo_values)


def arp(data: Recommended) -> UserSums:
    """Return the mean over users of the mean n* of the list."""
    return UserSums.from_values(data.top.users, data.list_means(data.popularity))


def length(data: Recommended) -> UserSums:
    """Return the mean over users of the number of items in the list; 0 without a list."""
    return UserSums.from_values(data.top.users, data.length.astype(np.float64))


def popularity_lift(data: Recommended) -> UserSums:
    """Return (mean n* of lists − mean n* of histories) / mean n* of histories, each a mean over users."""
    train = data.train
    users = data.top.users
    history_size = train.activity[users]
    popularity_sums = np.bincount(train.user, data.popularity[train.item], minlength=train.n_users)[users]
    history_mean = np.asarray(popularity_sums / np.where(history_size > 0, history_size, np.nan))
    return UserSums.from_values(users, data.list_means(data.popularity) - history_mean, history_mean)


def novelty(data: Recommended) -> UserSums:
    """Return the mean over users of the mean −log2(n*/U) of the list; n* = 0 counts as 1."""
    n_users = (data.train.activity > 0).sum()
    information = -np.log2(np.maximum(data.popularity, 1) / n_users)
    return UserSums.from_values(data.top.users, data.list_means(information))


def ild(data: Recommended) -> UserSums:
    """Return the mean over users of the mean 1 − cos of the pairs in the list; undefined for one item."""
    assert data.vectors is not None  # checked by the caller
    norm = np.linalg.norm(data.vectors, axis=1)
    unit_vectors = data.vectors / np.where(norm > 0, norm, 1.0)[:, None]
    n_lists = data.length.size
    squared_norms = np.empty(n_lists)
    chunk_size = max(1, CHUNK_ENTRIES // unit_vectors.shape[1])
    for start in range(0, n_lists, chunk_size):
        vector_sums = data.lists[start : start + chunk_size] @ unit_vectors
        squared_norms[start : start + chunk_size] = np.einsum("nd,nd->n", vector_sums, vector_sums)
    # Σ_{i<j} cos = (‖Σ x‖² − Σ ‖x‖²)/2 of unit vectors x; a vector of zeros adds nothing.
    cosine_sums = (squared_norms - data.list_sums((norm > 0).astype(np.float64))) / 2
    n_pairs = data.length * (data.length - 1) / 2
    return UserSums.from_values(data.top.users, 1 - cosine_sums / np.where(n_pairs > 0, n_pairs, np.nan))


def calibration(data: Recommended) -> UserSums:
    """Return the mean over users of KL(p ‖ (1 − a) q + a p) over popularity groups, in bits, a = 0.01.

    p are the shares of ten groups of items by n* in the user's training items, q the shares in its list.
    """
    groups = quantile_groups(data.train.popularity, N_GROUPS, "item", "popularity")
    n_lists = data.top.users.size
    n_groups = len(groups.labels)
    row, place = np.nonzero(data.is_item)
    list_counts = np.bincount(
        row * n_groups + groups.codes[data.top.item[row, place]], minlength=n_lists * n_groups
    ).reshape(n_lists, -1)
    history_counts = np.bincount(
        data.train.user * np.int64(n_groups) + groups.codes[data.train.item],
        minlength=data.train.n_users * n_groups,
    ).reshape(-1, n_groups)[data.top.users]
    with np.errstate(divide="ignore", invalid="ignore"):
        p = history_counts / history_counts.sum(axis=1, keepdims=True)
        q = list_counts / list_counts.sum(axis=1, keepdims=True)
        mixture = (1 - SMOOTHING) * q + SMOOTHING * p
        terms = np.where(p > 0, p * np.log2(p / mixture), 0.0)
    is_undefined = np.isnan(p).any(axis=1) | np.isnan(q).any(axis=1)
    return UserSums.from_values(data.top.users, np.where(is_undefined, np.nan, terms.sum(axis=1)))


MEASURES: dict[str, Definition] = {
    "coverage": Definition(
        rule=coverage,
        formula="|∪_u L_u| / |I|, L_u the first k of user u, I the catalogue",
        reads="lists",
        direction="higher: more of the catalogue is in some list",
        source="Ge, Delgado-Battenfeld & Jannach, RecSys 2010, doi 10.1145/1864708.1864761",
    ),
    "gini": Definition(
        rule=gini,
        formula="Σ_i (2i − |I| − 1) c_(i) / (|I| Σ c), c_(i) the exposures in ascending order, including 0",
        reads="lists",
        direction="higher: fewer items have most of the exposure; 0 when all have the same",
        source="Castells, Hurley & Vargas, Recommender Systems Handbook, 2015, "
        "doi 10.1007/978-1-4899-7637-6_26",
    ),
    "entropy": Definition(
        rule=entropy,
        formula="−Σ_i p_i log2 p_i, p_i = c_i / Σ c",
        reads="lists",
        direction="higher: exposure is spread over more items; at most log2 |I|",
        source="Shani & Gunawardana, Recommender Systems Handbook, 2011, doi 10.1007/978-0-387-85820-3_8",
    ),
    "arp": Definition(
        rule=arp,
        formula="mean_u mean_{i∈L_u} n*_i",
        reads="lists, n*",
        direction="higher: more popular items are shown",
        source="Yin, Cui, Li, Yao & Chen, VLDB 2012, doi 10.14778/2311906.2311916",
    ),
    "popularity_lift": Definition(
        rule=popularity_lift,
        formula="(A − H) / H, A = mean_u mean_{i∈L_u} n*_i, "
        "H = mean_u of the same over the user's training items",
        reads="lists, training log",
        direction="above 0: lists are more popular than the items that their users chose",
        source="Abdollahpouri, Mansoury, Burke & Mobasher, RecSys 2020, doi 10.1145/3383313.3418487",
    ),
    "novelty": Definition(
        rule=novelty,
        formula="mean_u mean_{i∈L_u} −log2(n*_i / U), U the users with training interactions; "
        "n* = 0 counts as 1",
        reads="lists, n*",
        direction="higher: items are shown that fewer users know",
        source="Zhou et al., PNAS 107, 2010, doi 10.1073/pnas.1000488107",
    ),
    "ild": Definition(
        rule=ild,
        formula="mean_u mean_{i<j∈L_u} 1 − cos(v_i, v_j); a vector of zeros has cos 0; "
        "undefined for one item",
        reads="lists, vectors of items",
        direction="higher: the items of a list are less alike",
        source="Ziegler, McNee, Konstan & Lausen, WWW 2005, doi 10.1145/1060745.1060754",
    ),
    "calibration": Definition(
        rule=calibration,
        formula="mean_u Σ_g p_g log2(p_g / (0.99 q_g + 0.01 p_g)), g ten groups by n*, "
        "p of the history, q of L_u",
        reads="lists, training log",
        direction="lower: lists have the user's own mix of popular and rare items; 0 when they are the same",
        source="Steck, RecSys 2018, doi 10.1145/3240323.3240372",
    ),
    "length": Definition(
        rule=length,
        formula="mean_u |L_u|, at most k, 0 without a list",
        reads="lists",
        direction="higher: fewer lists end before k",
        source="Ekstrand, LensKit for Python, CIKM 2020, doi 10.1145/3340531.3412778",
    ),
}


LABEL = re.compile(r"\s*([a-z_]+)@(\d+)\s*")


@public_class
@dataclass(frozen=True)
class Measure:
    """A measure of recommendation lists at a cutoff.

    Parameters
    ----------
    name : str
        One of the names in `MEASURES`.
    cutoff : int
        Number of first items of each list that are read, at least 1.

    See Also
    --------
    measure : Read a label such as "coverage@10".

    Examples
    --------
    >>> coverage = Measure("coverage", cutoff=10)
    >>> coverage.label
    'coverage@10'
    >>> print(coverage.card())
    coverage@10
      value      |∪_u L_u| / |I|, L_u the first k of user u, I the catalogue
      reads      lists
      direction  higher: more of the catalogue is in some list
      claim      none: it describes the lists, and no propensity enters
      source     Ge, Delgado-Battenfeld & Jannach, RecSys 2010, doi 10.1145/1864708.1864761
    """

    name: str
    cutoff: int

    def __post_init__(self) -> None:
        look_up(MEASURES, self.name, "measure")
        check_positive_int("the cutoff", self.cutoff)

    def __repr__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """Label in reports, which `measure` reads."""
        return f"{self.name}@{self.cutoff}"

    @property
    def definition(self) -> Definition:
        """Formula, input, direction and source."""
        return MEASURES[self.name]

    @property
    def rule(self) -> Rule:
        """Function that computes the measure from lists."""
        return self.definition.rule

    def card(self) -> str:
        """Return the definition as text.

        Returns
        -------
        str
            Lines with the formula, the inputs, the direction, the guarantee and the source.
        """
        definition = self.definition
        return "\n".join(
            [
                self.label,
                f"  value      {definition.formula}",
                f"  reads      {definition.reads}",
                f"  direction  {definition.direction}",
                "  claim      none: it describes the lists, and no propensity enters",
                f"  source     {definition.source}",
            ]
        )


@public_function
def measure(label: str | Measure) -> Measure:
    """Return the measure that a label names, such as "coverage@10".

    Parameters
    ----------
    label : str or Measure
        A name with a cutoff, in any case; a measure is returned unchanged.

    Returns
    -------
    Measure
        The measure with its name and cutoff; its repr is the label.

    Raises
    ------
    InputError
        For text that is not a label.
    UnknownNameError
        For names that do not exist.

    See Also
    --------
    ipseval.beyond_accuracy : Compute measures for recommendation lists.

    Examples
    --------
    >>> measure("Coverage@10")
    coverage@10
    """
    if isinstance(label, Measure):
        return label
    match = None
    if isinstance(label, str):
        match = LABEL.fullmatch(label.lower())
    if match is None:
        raise InputError(
            f"a measure of lists is a name with a cutoff, such as coverage@10; got {label!r:.80}. Names: "
            f"{', '.join(MEASURES)}."
        )
    name, cutoff = match.groups()
    return Measure(name, int(cutoff))
