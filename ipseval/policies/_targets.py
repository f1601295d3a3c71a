"""Target policies: the chance that each puts an item at a place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.checks import examples
from ipseval._base.columns import columns_of
from ipseval._base.ids import places
from ipseval._base.types import FloatArray, IntArray
from ipseval.data import ExposureLog
from ipseval.errors import InputError

LISTS_COLUMNS = ("user", "item", "position")


@dataclass(frozen=True, eq=False)
class Target:
    """What a policy does in the situations of a log.

    Attributes
    ----------
    chance : (n,) float array
        P_new of the logged item at its place.
    held : (n,) int array or None
        For lists of users: the code of the item that the list has at the row's place, −1 for none.
    discounted : (n,) float array
        Σ_p P_new(item at p)/log2(1 + p) of the logged item, wherever it was shown.
    table : (n_items, n_places) float array or None
        For a policy that does not depend on the user: all its chances.
    """

    chance: FloatArray
    held: IntArray | None
    discounted: FloatArray
    table: FloatArray | None

    def modelled(self, reward: FloatArray, place: IntArray, fold: IntArray) -> FloatArray:
        """Return Σ_i P_new(i at p) m̂(i, p) of each row, (n,); `reward` is (n_folds, n_items, n_places)."""
        if self.table is not None:
            by_place = (self.table * reward).sum(axis=1)
            return np.asarray(by_place[fold, place])
        assert self.held is not None
        return np.where(self.held >= 0, reward[fold, self.held, place], 0.0)


def as_target(policy: Any, log: ExposureLog, places_of_log: IntArray, name: str) -> Target:
    """Return a policy that is a table (n_items, n_places) or a frame of lists with the rows of a log."""
    position = np.zeros(len(log), dtype=np.int64) if log.position is None else log.position
    place = np.searchsorted(places_of_log, position)
    if isinstance(policy, np.ndarray):
        target = _of_table(policy, log, place, places_of_log, name)
    elif hasattr(policy, "columns"):
        target = _of_lists(policy, log, position, name)
    else:
        raise InputError(
            f"policy {name!r} must be an array of chances (n_items, n_places), or a frame of lists with "
            f"columns user, item and position; got {type(policy).__name__}."
        )
    if target.held is not None and (target.held < 0).all():
        raise InputError(
            f"policy {name!r} meets no row of the log: its lists have no item of a user at a position of the "
            f"log (which are {examples(places_of_log)})."
        )
    return target


def _of_table(policy: Any, log: ExposureLog, place: IntArray, held: IntArray, name: str) -> Target:
    shape = (log.n_items, held.size)
    if policy.dtype.kind not in "iufb" or policy.shape != shape:
        raise InputError(f"policy {name!r} must be numbers of shape {shape}; got shape {policy.shape}.")
    table = policy.astype(np.float64)
    off = np.abs(table.sum(axis=0) - 1)
    if (table < 0).any() or not (off <= 1e-6).all():
        raise InputError(
            f"policy {name!r}: the chances at each place must be >= 0 and sum to 1; the largest gap is "
            f"{float(np.max(off)):.3g}."
        )
    discounted = table @ (1 / np.log2(1 + np.maximum(held, 1)))
    return Target(table[log.item, place], None, discounted[log.item], table)


def _of_lists(policy: Any, log: ExposureLog, position: IntArray, name: str) -> Target:
    columns = columns_of(policy, list(LISTS_COLUMNS))
    user = places(columns["user"], log.user_ids, f"policy {name!r}: users")
    item = places(columns["item"], log.item_ids, f"policy {name!r}: items")
    lists = pd.DataFrame({"user": user, "position": columns["position"], "item": item})
    if lists[["user", "position"]].duplicated().any() or columns["position"].dtype.kind not in "iu":
        raise InputError(
            f"policy {name!r} must have one item at each position of a user, positions 1, 2, 3, …."
        )
    if columns["position"].min(initial=1) < min(1, position.min(initial=1)):
        raise InputError(f"policy {name!r} has positions below 1; the first position of a list is 1.")
    rows = pd.DataFrame({"user": log.user, "position": position})
    found = rows.merge(lists[lists["user"] >= 0], on=["user", "position"], how="left")["item"]
    held = found.fillna(-1).to_numpy().astype(np.int64)
    if lists[["user", "item"]][lists["item"] >= 0].duplicated().any():
        raise InputError(f"policy {name!r} lists an item twice for one user.")
    pairs = pd.DataFrame({"user": log.user, "item": log.item})
    rank = pairs.merge(lists[lists["item"] >= 0], on=["user", "item"], how="left")["position"].to_numpy(float)
    discounted = np.nan_to_num(1 / np.log2(1 + rank))
    return Target((held == log.item).astype(np.float64), held, discounted, None)
