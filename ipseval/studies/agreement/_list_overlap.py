"""Rank-biased overlap of the recommendation lists of two recommenders."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from ipseval.data.reading import Lists
from ipseval.errors import InputError, ProblemsError
from ipseval.utils.checks import check_fraction, format_count
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import FloatArray, IntArray

AnyLists: TypeAlias = Lists | pd.DataFrame | Mapping[Hashable, Sequence[Hashable]]


@public_class
@dataclass(frozen=True, eq=False)
class ListOverlap:
    """Rank-biased overlap of two recommenders' lists, for each user and on average.

    Parameters
    ----------
    per_user : Series
        Overlap of the two lists of each user, in [0, 1], by user id.
    p : float
        Persistence: the weight of depth d + 1 relative to depth d.
    n_users_left_out : int
        Number of users with a list of one of the recommenders only.

    See Also
    --------
    list_overlap : Compute the overlap.

    Examples
    --------
    >>> first = {"ann": ["x", "y", "z"], "bob": ["x", "y", "z"]}
    >>> second = {"ann": ["y", "x", "z"], "bob": ["x", "z", "y"]}
    >>> overlap = list_overlap(first, second, p=0.5)
    >>> overlap
    ListOverlap(0.6875 ± 0.1875; 2 users; p = 0.5)
    >>> overlap.per_user.round(3).to_dict()
    {'ann': 0.5, 'bob': 0.875}
    """

    per_user: pd.Series
    p: float
    n_users_left_out: int = 0

    def __repr__(self) -> str:
        n_users = format_count(self.per_user.size, "user")
        return f"ListOverlap({self.mean:.4f} ± {self.std_error:.4f}; {n_users}; p = {self.p:g})"

    @property
    def mean(self) -> float:
        """Mean overlap of the users."""
        return float(self.per_user.mean())

    @property
    def std_error(self) -> float:
        """Standard error of the mean over users; NaN with fewer than two users."""
        n_users = self.per_user.size
        if n_users < 2:
            return float("nan")
        return float(self.per_user.std(ddof=1) / np.sqrt(n_users))


@public_function
def list_overlap(a: AnyLists, b: AnyLists, *, p: float = 0.9) -> ListOverlap:
    """Measure how much the recommendation lists of two recommenders agree, by rank-biased overlap.

    Parameters
    ----------
    a, b : {user: [item, …]}, data frame or Lists
        Lists of the two recommenders, best first, or frames with columns user, item and rank or score. The
        lists of a user may differ in length.
    p : float, default 0.9
        Persistence, in (0, 1). The first ten positions have 86% of the weight at 0.9, and all but 0.1% at 0.5.

    Returns
    -------
    ListOverlap
        The overlap of each user, their mean and its standard error. Users with a list of one recommender only
        are left out and counted.

    Raises
    ------
    InputError
        For lists that cannot be read or repeat an item, and where no user has both lists.

    See Also
    --------
    order_agreement : Compare the orders in which two evaluations rank recommenders.

    Notes
    -----
    S is the shorter list of s items and L the longer one of l items; X_d is the number of common items among
    the first d of both. The overlap is the extrapolated form for lists of uneven length, equation 32 of
    Webber et al. [1]_:

        (1 − p)/p · (Σ_{d=1}^{l} X_d/d p^d + Σ_{d=s+1}^{l} X_s (d − s)/(s d) p^d)
            + ((X_l − X_s)/l + X_s/s) p^l

    It is 1 for equal lists and 0 for lists without a common item. Items of equal score are in the order of
    their rows.

    References
    ----------
    .. [1] Webber, Moffat and Zobel, "A similarity measure for indefinite rankings", ACM TOIS 28(4), 2010,
       doi:10.1145/1852102.1852106

    Examples
    --------
    Both lists have the same items. Two of them are swapped at the top (ann) or at the end (bob):

    >>> first = {"ann": ["x", "y", "z"], "bob": ["x", "y", "z"]}
    >>> second = {"ann": ["y", "x", "z"], "bob": ["x", "z", "y"]}
    >>> overlap = list_overlap(first, second, p=0.5)
    >>> overlap.per_user.round(3).to_dict(), round(overlap.mean, 3)
    ({'ann': 0.5, 'bob': 0.875}, 0.688)
    """
    p = check_fraction("p", p)
    ranks_a = _rank_entries(a, "a")
    ranks_b = _rank_entries(b, "b")
    lengths = pd.DataFrame(
        {"a": ranks_a.groupby("user").size(), "b": ranks_b.groupby("user").size()}
    ).sort_index()
    has_both = lengths.notna().all(axis=1)
    n_left_out = int((~has_both).sum())
    lengths = lengths[has_both].astype(np.int64)
    if lengths.empty:
        raise InputError(
            "a and b must have lists of the same users; no user has both. Pass the same user ids."
        )

    common = ranks_a.merge(ranks_b, on=["user", "item"], suffixes=("_a", "_b"))
    row = lengths.index.get_indexer(pd.Index(common["user"]))
    depth = common[["rank_a", "rank_b"]].to_numpy().max(axis=1)
    shorter = lengths.to_numpy().min(axis=1)
    longer = lengths.to_numpy().max(axis=1)
    n_common = _count_common(row, depth, shorter.size, int(longer.max()))
    values = _extrapolate(n_common, shorter, longer, p)
    return ListOverlap(
        per_user=pd.Series(values, index=lengths.index, name="overlap"), p=p, n_users_left_out=n_left_out
    )


def _rank_entries(lists: AnyLists, name: str) -> pd.DataFrame:
    """Return columns user, item and rank (1, 2, …) of the entries of lists."""
    if not isinstance(lists, Lists):
        lists = Lists(lists)
    if lists.problems:
        raise ProblemsError(f"the lists {name}", list(lists.problems))
    entries = lists.entries
    user = entries.user if entries.user_ids is None else entries.user_ids[entries.user]
    item = entries.item if entries.item_ids is None else entries.item_ids[entries.item]
    frame = pd.DataFrame({"user": user, "item": item, "order": entries.order})
    frame = frame.sort_values("order", kind="stable")
    frame["rank"] = frame.groupby("user").cumcount() + 1
    return frame[["user", "item", "rank"]]


def _count_common(row: IntArray, depth: IntArray, n_users: int, max_depth: int) -> FloatArray:
    """Return X_d, the number of items that both lists have up to depth d = 0 … `max_depth`, for each user."""
    counts = np.zeros((n_users, max_depth + 1))
    np.add.at(counts, (row, depth), 1)
    return np.cumsum(counts, axis=1)


def _extrapolate(n_common: FloatArray, shorter: IntArray, longer: IntArray, p: float) -> FloatArray:
    """Return the extrapolated overlap of each user from X_d and the lengths of the two lists."""
    users = np.arange(shorter.size)
    depth = np.arange(1, n_common.shape[1])
    weight = p**depth / depth
    is_inside = depth <= longer[:, None]
    is_beyond_shorter = is_inside & (depth > shorter[:, None])

    common_of_shorter = n_common[users, shorter]
    common_of_longer = n_common[users, longer]
    agreement_of_shorter = common_of_shorter / shorter
    observed = (n_common[:, 1:] * weight * is_inside).sum(axis=1)
    assumed = agreement_of_shorter * ((depth - shorter[:, None]) * weight * is_beyond_shorter).sum(axis=1)
    tail = (common_of_longer - common_of_shorter) / longer + agreement_of_shorter
    return np.asarray((1 - p) / p * (observed + assumed) + tail * p**longer)
