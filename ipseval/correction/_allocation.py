"""Draw the pairs of an exposure experiment: half of the slots from the lists of the recommenders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data.exposure_design import (
    ALLOCATION_COLUMNS,
    DESIGN_COLUMNS,
    PROBABILITY,
    compute_inclusion_probability,
    count_listed_slots,
)
from ipseval.data.interactions import Interactions
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking import rank_positives
from ipseval.utils.checks import format_examples
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval.utils.ids import find_positions
from ipseval.utils.types import AnyArray, IntArray

DESIGNS = ("uniform", "lists")

KEEP_LISTS = (
    "Pass the recommenders and the split of the earlier batches; recommenders that joined later keep these "
    "inclusion probabilities. Or expose new users."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class UserSlots:
    """Candidates of one user, and those of them that are in the list of a recommender.

    Attributes
    ----------
    candidates, listed : int arrays
        Codes of items, ascending.
    """

    candidates: IntArray
    listed: IntArray

    def draw(self, n_slots: int, rng: np.random.Generator) -> IntArray:
        """Return the items of one draw of slots, in random order.

        First b = min(⌊m/2⌋, L) of the L listed items are drawn, then the remaining slots from the remaining
        candidates.
        """
        n_listed_slots = int(count_listed_slots(np.array(n_slots), np.array(self.listed.size)))
        listed_items = rng.choice(self.listed, n_listed_slots, replace=False)
        remaining_items = np.setdiff1d(self.candidates, listed_items, assume_unique=True)
        n_remaining = min(n_slots - n_listed_slots, remaining_items.size)
        items = np.concatenate([listed_items, rng.choice(remaining_items, n_remaining, replace=False)])
        return np.asarray(rng.permutation(items))


def allocate_to_new_users(
    split: Split,
    *,
    models: Mapping[str, Any] | None,
    depth: int,
    n_users: int,
    n_slots: int,
    previous: pd.DataFrame | None,
    rng: np.random.Generator,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> pd.DataFrame:
    """Return the allocation with a batch of users drawn at random from the users without an allocation.

    `models` is None for uniform slots.
    """
    n_candidates = split.n_items - np.bincount(split.excluded_pairs.user, minlength=split.n_users)
    is_available = n_candidates > 0
    if previous is not None:
        is_available[_find_users(previous, split)] = False
    available = np.flatnonzero(is_available)
    if n_users > available.size:
        raise InputError(
            f"n_users must be at most {available.size:,}, the number of users that are not yet exposed and have "
            f"items outside training; got {n_users:,}. Pass a smaller number."
        )
    users = np.sort(rng.choice(available, n_users, replace=False))
    slots = list_user_slots(split, users, models, depth, compute)
    batch = 1
    if previous is not None:
        batch = int(previous["batch"].max()) + 1
    rows = _draw_rows(split, slots, n_slots, batch, rng)
    if previous is None:
        return rows
    return pd.concat([previous, rows], ignore_index=True)


def allocate_again(
    split: Split,
    *,
    models: Mapping[str, Any] | None,
    depth: int,
    n_slots: int,
    previous: pd.DataFrame,
    rng: np.random.Generator,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> pd.DataFrame:
    """Return the allocation with a further draw of slots for every user that has one.

    The lists must be those of the earlier batches. A pair that is drawn again is not repeated. All inclusion
    probabilities become π = 1 − Π(1 − π_batch).
    """
    users = np.unique(_find_users(previous, split))
    slots = list_user_slots(split, users, models, depth, compute)
    _check_same_design(previous, split, slots, n_slots)
    batch = int(previous["batch"].max()) + 1
    rows = _draw_rows(split, slots, n_slots, batch, rng)
    earlier_pairs = pd.MultiIndex.from_frame(previous[["user", "item"]])
    is_new = ~pd.MultiIndex.from_frame(rows[["user", "item"]]).isin(earlier_pairs)
    allocation = pd.concat([previous, rows[is_new]], ignore_index=True)
    n_draws = previous.groupby("user")["n_draws"].first() + 1
    allocation["n_draws"] = allocation["user"].map(n_draws).astype(np.int64)
    allocation[PROBABILITY] = _probability_of_rows(allocation)
    return allocation


def list_user_slots(
    split: Split,
    users: IntArray,
    models: Mapping[str, Any] | None,
    depth: int,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> dict[int, UserSlots]:
    """Return the candidates of users, and their union of the first `depth` items of every recommender."""
    excluded = split.excluded_pairs
    candidates_by_user = {}
    for user in users.tolist():
        trained_items = excluded.item[excluded.user == user]
        candidates_by_user[user] = np.setdiff1d(np.arange(split.n_items), trained_items)
    listed_by_user = _list_items(split, candidates_by_user, models or {}, depth, compute)
    slots = {}
    for user, candidates in candidates_by_user.items():
        slots[user] = UserSlots(candidates=candidates, listed=listed_by_user[user])
    return slots


def _list_items(
    split: Split,
    candidates_by_user: Mapping[int, IntArray],
    models: Mapping[str, Any],
    depth: int,
    compute: ComputeOptions,
) -> dict[int, IntArray]:
    """Return for each user the union of the first `depth` items of every recommender, ascending."""
    users = np.fromiter(candidates_by_user, dtype=np.int64)
    # The lists of users with test pairs are returned; any candidate of a user can stand for the test pair.
    first_items = np.array([candidates[0] for candidates in candidates_by_user.values()])
    any_pairs = Interactions(users, first_items, split.user_ids, split.item_ids)
    exposed_split = replace(split, test=any_pairs)
    listed: dict[int, IntArray] = {user: np.zeros(0, dtype=np.int64) for user in candidates_by_user}
    for name, model in models.items():
        ranked = rank_positives(model, exposed_split, name=name, top_k=depth, compute=compute)
        assert ranked.top is not None
        for user, items in zip(ranked.top.users.tolist(), ranked.top.item, strict=True):
            listed[user] = np.union1d(listed[user], items[items >= 0])
    return listed


def _draw_rows(
    split: Split, slots: Mapping[int, UserSlots], n_slots: int, batch: int, rng: np.random.Generator
) -> pd.DataFrame:
    """Return the rows of one draw for each user."""
    drawn_items = []
    is_listed = []
    for user_slots in slots.values():
        items = user_slots.draw(n_slots, rng)
        drawn_items.append(items)
        is_listed.append(np.isin(items, user_slots.listed))
    n_rows = [items.size for items in drawn_items]
    n_listed = [user_slots.listed.size for user_slots in slots.values()]
    n_candidates = [user_slots.candidates.size for user_slots in slots.values()]
    table = pd.DataFrame(
        {
            "user": split.user_ids[np.repeat(list(slots), n_rows)],
            "item": split.item_ids[np.concatenate(drawn_items)],
            "batch": batch,
            "is_listed": np.concatenate(is_listed),
            "n_slots": n_slots,
            "n_listed": np.repeat(n_listed, n_rows),
            "n_candidates": np.repeat(n_candidates, n_rows),
            "n_draws": 1,
        }
    )
    table[PROBABILITY] = _probability_of_rows(table)
    return table[list(ALLOCATION_COLUMNS)]


def _probability_of_rows(allocation: pd.DataFrame) -> AnyArray:
    """Return the inclusion probability of each row of an allocation."""
    return compute_inclusion_probability(
        allocation["is_listed"].to_numpy(dtype=bool),
        n_slots=allocation["n_slots"].to_numpy(),
        n_listed=allocation["n_listed"].to_numpy(),
        n_candidates=allocation["n_candidates"].to_numpy(),
        n_draws=allocation["n_draws"].to_numpy(),
    )


def check_allocation(previous: object) -> pd.DataFrame:
    """Return an earlier allocation, or raise `InputError` for anything else."""
    advice = "Pass the allocation as plan_exposure returned it, or as `ipseval plan --design` wrote it."
    if not isinstance(previous, pd.DataFrame):
        raise InputError(
            f"previous must be a pandas data frame with an allocation; got {type(previous).__name__}. {advice}"
        )
    missing = []
    for name in ("user", "item", "batch", PROBABILITY, *DESIGN_COLUMNS):
        if name not in previous.columns:
            missing.append(name)
    if missing:
        raise InputError(
            f"previous must have the columns of an allocation; {missing[0]!r} is missing. {advice}"
        )
    if previous.empty:
        raise InputError(f"previous must have rows; got an empty allocation. {advice}")
    return previous[list(ALLOCATION_COLUMNS)]


def _find_users(allocation: pd.DataFrame, split: Split) -> IntArray:
    """Return the user codes of the rows of an allocation, or raise `InputError` for unknown users."""
    ids, positions = np.unique(allocation["user"].to_numpy(), return_inverse=True)
    codes = find_positions(ids, split.user_ids, "users of previous and of the split")
    if (codes < 0).any():
        raise InputError(
            f"previous must have users of the split; got {format_examples(ids[codes < 0])}, which it does not "
            "have. Pass a split with all exposed users."
        )
    return np.asarray(codes[positions])


def _check_same_design(
    previous: pd.DataFrame, split: Split, slots: Mapping[int, UserSlots], n_slots: int
) -> None:
    """Raise `InputError` unless an earlier allocation is of the same lists and the same number of slots."""
    user = _find_users(previous, split)
    item = find_positions(previous["item"].to_numpy(), split.item_ids, "items of previous and of the split")
    for row, (user_code, item_code) in enumerate(zip(user.tolist(), item.tolist(), strict=True)):
        earlier = previous.iloc[row]
        user_slots = slots[user_code]
        is_same_list = (
            earlier["n_listed"] == user_slots.listed.size
            and earlier["n_candidates"] == user_slots.candidates.size
            and bool(earlier["is_listed"]) == bool(np.isin(item_code, user_slots.listed))
        )
        if not is_same_list:
            raise InputError(
                "the lists must be fixed before any answer is seen, so a further batch of the same users must "
                f"have the lists of the earlier batches; those of user {earlier['user']} differ. {KEEP_LISTS}"
            )
        if earlier["n_slots"] != n_slots:
            raise InputError(
                "n_items must be the number of the earlier batches of the same users, "
                f"{earlier['n_slots']}; got {n_slots}. Pass n_items={earlier['n_slots']}."
            )
