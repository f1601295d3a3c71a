"""Splits of a log into training, validation and test interactions over one universe of ids."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval._checks import check_choice, check_fraction, examples
from ipseval._types import AnyArray, IntArray, RngLike
from ipseval.errors import InputError
from ipseval.interactions import Duplicates, Interactions

Overlap = Literal["raise", "drop"]


@dataclass(frozen=True, eq=False)
class Split:
    """Training and test interactions (and optional validation) over the same ids.

    Attributes
    ----------
    train, test, validation : Interactions
        Disjoint sets of pairs. Propensities read `train` only; `test` holds the positives that are ranked.
    description : str
        How the split was made, for the report.
    n_overlap_dropped : int
        Test pairs left out because they were also training pairs (only with `overlap="drop"`).
    """

    train: Interactions
    test: Interactions
    validation: Interactions | None = None
    description: str = ""
    n_overlap_dropped: int = 0

    def __post_init__(self) -> None:
        parts = [self.train, self.test] + ([] if self.validation is None else [self.validation])
        for part in parts[1:]:
            same_users = np.array_equal(part.user_ids, self.train.user_ids)
            if not (same_users and np.array_equal(part.item_ids, self.train.item_ids)):
                raise InputError(
                    "the parts of a split must share one universe of ids; "
                    "build them with Split.from_frames or from one Interactions object."
                )
        if len(self.test) == 0:
            raise InputError("the test part is empty: there is no positive to rank.")
        keys = np.concatenate([part.pair_key for part in parts])
        n_overlap = keys.size - np.unique(keys).size
        if n_overlap:
            raise InputError(
                f"{n_overlap} of {len(self.test)} test pairs are also in another part of the split; a "
                "training item is no candidate. Remove them, or pass overlap='drop' to Split.from_frames."
            )

    def __repr__(self) -> str:
        sizes = f"{len(self.train):,} train, {len(self.test):,} test"
        if self.validation is not None:
            sizes += f", {len(self.validation):,} validation"
        return f"Split({sizes}; {self.n_users:,} users, {self.n_items:,} items; {self.description})"

    @property
    def user_ids(self) -> AnyArray:
        """Ids of the rows of any score matrix, (n_users,)."""
        return self.train.user_ids

    @property
    def item_ids(self) -> AnyArray:
        """Ids of the columns of any score matrix, (n_items,)."""
        return self.train.item_ids

    @property
    def n_users(self) -> int:
        """Number of users in the universe."""
        return self.train.n_users

    @property
    def n_items(self) -> int:
        """Number of items in the catalogue."""
        return self.train.n_items

    @classmethod
    def from_frames(
        cls,
        train: Any,
        test: Any,
        *,
        validation: Any | None = None,
        user: str = "user",
        item: str = "item",
        value: str | None = None,
        timestamp: str | None = None,
        users: Any | None = None,
        items: Any | None = None,
        duplicates: Duplicates = "raise",
        overlap: Overlap = "raise",
    ) -> Split:
        """Return a split made elsewhere, from one data frame per part.

        Parameters
        ----------
        train, test, validation : data frames
            One row per pair, columns as in `Interactions.from_frame`.
        users, items : array-like of ids, optional
            The whole universe in order. Default: every id in the frames, sorted. Give the whole catalogue
            when it is larger than what was ever interacted with: those items compete in the ranking too.
        overlap : {"raise", "drop"}
            A test pair that is also a training or validation pair is an error, or left out and counted.

        Raises
        ------
        InputError
            As `Interactions.from_frame`; also for an empty test part and for overlapping parts.
        """
        check_choice("overlap", overlap, ("raise", "drop"))
        frames = [train, test] + ([] if validation is None else [validation])
        logs = [
            Interactions.from_frame(
                frame, user=user, item=item, value=value, timestamp=timestamp, duplicates=duplicates
            )
            for frame in frames
        ]
        users = _union([log.user_ids for log in logs], user) if users is None else users
        items = _union([log.item_ids for log in logs], item) if items is None else items
        recoded = [
            replace(
                Interactions.from_frame(log.to_frame(), users=users, items=items),
                value=log.value,
                timestamp=log.timestamp,
                n_duplicates_dropped=log.n_duplicates_dropped,
            )
            for log in logs
        ]
        n_dropped = 0
        if overlap == "drop":
            others = np.concatenate([log.pair_key for log in (recoded[0], *recoded[2:])])
            keep = ~np.isin(recoded[1].pair_key, others)
            n_dropped = int((~keep).sum())
            recoded[1] = recoded[1].select(keep)
        return cls(
            recoded[0],
            recoded[1],
            validation=recoded[2] if validation is not None else None,
            description="given as frames",
            n_overlap_dropped=n_dropped,
        )


def split_random(
    log: Interactions,
    *,
    test_fraction: float = 0.2,
    validation_fraction: float = 0.0,
    rng: RngLike = None,
) -> Split:
    """Return a split that sends a random share of each user's interactions to test (and validation).

    A user with m interactions gets ⌊m·test_fraction + ½⌋ test and ⌊m·validation_fraction + ½⌋ validation
    pairs (test first, while any are left); users with few interactions may get none.

    Parameters
    ----------
    test_fraction, validation_fraction : float
        Shares in (0, 1) and [0, 1); their sum must stay below 1.
    rng : int, Generator or None
        Source of randomness; the same seed and the same rows in the same order give the same split.

    Raises
    ------
    InputError
        When a share is out of range, or no user has enough interactions to give one to test.
    """
    check_fraction("test_fraction", test_fraction)
    check_fraction("validation_fraction", validation_fraction, low_open=False)
    check_fraction("test_fraction + validation_fraction", test_fraction + validation_fraction)
    order_key = np.random.default_rng(rng).random(len(log))
    position = position_within_user(log, order_key)
    n_test = np.floor(log.activity * test_fraction + 0.5).astype(np.int64)[log.user]
    n_validation = np.floor(log.activity * validation_fraction + 0.5).astype(np.int64)[log.user]
    in_test = position < n_test
    in_validation = ~in_test & (position < n_test + n_validation)
    if not in_test.any():
        most = int(log.activity.max())
        raise InputError(
            f"no user has enough interactions to give {test_fraction:.0%} of them to test (at most {most} "
            "per user); use a larger test_fraction or leave-one-out."
        )
    shares = f"{test_fraction:g} test" + (
        f", {validation_fraction:g} validation" if validation_fraction else ""
    )
    return Split(
        log.select(~(in_test | in_validation)),
        log.select(in_test),
        validation=log.select(in_validation) if validation_fraction else None,
        description=f"random per user, {shares}",
    )


def position_within_user(log: Interactions, key: AnyArray) -> IntArray:
    """Return the 0-based position of each row among its user's rows in the order of `key`, (n,)."""
    order = np.lexsort((key, log.user))
    start = np.concatenate([[0], np.cumsum(log.activity)[:-1]])
    position = np.empty(len(log), dtype=np.int64)
    position[order] = np.arange(len(log)) - start[log.user[order]]
    return position


def _union(id_arrays: list[AnyArray], name: str) -> AnyArray:
    kinds = {type(ids[0]) if ids.dtype == object else ids.dtype.kind for ids in id_arrays}
    if len(kinds) > 1:
        shown = "; ".join(examples(ids) for ids in id_arrays)
        raise InputError(f"column {name!r} has ids of different types in different frames ({shown}).")
    return np.asarray(pd.Index(pd.unique(np.concatenate(id_arrays))).sort_values())
