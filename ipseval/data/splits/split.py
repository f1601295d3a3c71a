"""Split: training, validation and test interactions over one universe of ids."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pandas as pd

from ipseval.data.interactions import Duplicates, Interactions, Universe, check_interactions, encode
from ipseval.data.splits._parts import read_parts
from ipseval.errors import DataWarning, InputError
from ipseval.utils.checks import check_choice, check_positive_int, check_type, counted, warn_user
from ipseval.utils.counts import Count, counts_frame, some
from ipseval.utils.ids import among, of_one_type, refuse_header, repeated, same_ids
from ipseval.utils.types import AnyArray

Overlap = Literal["raise", "drop"]
Seen = Literal["exclude", "include"]
SEEN = ("exclude", "include")
NO_POSITIVE = "the test part is empty: there is no positive to rank."


def check_split(split: Any) -> None:
    """Raise `InputError` unless `split` is a Split."""
    if not isinstance(split, Split):
        log = "log.positives" if hasattr(split, "positives") else "log"
        log = "ipseval.read(frame)" if hasattr(split, "columns") else log
        raise InputError(
            f"split must be a Split; got {type(split).__name__}. Make one with split_random({log}), or with "
            "Split.from_frames(train, test) from parts of your own."
        )


@dataclass(frozen=True, eq=False)
class Split(Universe):
    """Training and test interactions (and optional validation) over the same ids.

    Attributes
    ----------
    train, test, validation : Interactions
        Propensities read `train` only; `test` holds the positives that are ranked, distinct pairs. The parts
        are disjoint sets of pairs, unless training items are included.
    description : str
        How the split was made, for the report.
    n_overlap_dropped : int
        Test pairs left out because they were also training or validation pairs (only with
        `overlap="drop"`).
    n_tied_users : int
        Users with interactions of the same time on both sides of a cut by time, broken by row order.
    n_purged : int
        Rows of a gap in time between training and test, in no part.
    seen : {"exclude", "include"}
        "exclude": a user's training items are no candidates, and so no positives. "include": they compete,
        and a test pair may be a training pair, as where users take the same items again.
    n_repeats_merged : int
        Test rows left out because their pair occurs in an earlier test row: positives are distinct pairs.
    is_random : bool
        Whether test rows were drawn at random, so that rows of both parts are of all times.
    """

    train: Interactions
    test: Interactions
    validation: Interactions | None = None
    description: str = ""
    n_overlap_dropped: int = 0
    n_tied_users: int = 0
    n_purged: int = 0
    seen: Seen = "exclude"
    n_repeats_merged: int = 0
    is_random: bool = False

    def __post_init__(self) -> None:
        parts = [self.train, self.test] + ([] if self.validation is None else [self.validation])
        for part, name in zip(parts, ("train", "test", "validation"), strict=False):
            check_interactions(part, name)
        check_type("description", self.description, str)
        for name in ("n_overlap_dropped", "n_tied_users", "n_purged", "n_repeats_merged"):
            check_positive_int(name, getattr(self, name), minimum=0)
        check_choice("seen", self.seen, SEEN)
        for part in parts[1:]:
            if not same_ids(part, self.train):
                raise InputError(
                    "the parts of a split must share one universe of ids; "
                    "build them with Split.from_frames or from one Interactions object."
                )
        if len(self.test) == 0:
            raise InputError(NO_POSITIVE)
        for part, name in zip(parts[1:], ("test", "validation"), strict=False):
            if part.n_repeats:
                raise InputError(
                    f"the {name} part repeats {part.n_repeats} pairs; a pair is one positive, whatever its "
                    f"number of rows. Pass {name}.distinct."
                )
        n_overlap = int(repeated(np.concatenate([part.distinct.pair_key for part in parts])).sum())
        if n_overlap and self.seen == "exclude":
            raise InputError(
                f"{n_overlap} user–item pairs are in more than one part of the split; an item that was "
                "trained on is never a candidate. Remove them, or, for test pairs, pass overlap='drop' to "
                "Split.from_frames; where users take items again, pass seen='include'."
            )

    def __repr__(self) -> str:
        sizes = f"{len(self.train):,} train, {len(self.test):,} test"
        if self.validation is not None:
            sizes += f", {len(self.validation):,} validation"
        if self.seen == "include":
            sizes += f" ({counted(self.n_repeated_positives, 'training pair')} among them)"
        universe = f"{counted(self.n_users, 'user')}, {counted(self.n_items, 'item')}"
        cold = [
            counted(count, f"cold {what}")
            for count, what in ((self.n_cold_users, "user"), (self.n_cold_items, "item"))
            if count and len(self.train)  # without training all are
        ]
        future = [self.leakage.text] if self.leakage is not None and self.leakage.n_leaking else []
        return f"Split({'; '.join([sizes, universe, *cold, *future, self.description])})"

    @property
    def user_ids(self) -> AnyArray:
        """Ids of the rows of any score matrix, (n_users,)."""
        return self.train.user_ids

    @property
    def item_ids(self) -> AnyArray:
        """Ids of the columns of any score matrix, (n_items,)."""
        return self.train.item_ids

    @cached_property
    def n_cold_users(self) -> int:
        """Number of users with test positives and no training interaction."""
        return int(((self.test.activity > 0) & (self.train.activity == 0)).sum())

    @cached_property
    def n_cold_items(self) -> int:
        """Number of items with test positives and no training interaction: a power law gives them P = 0."""
        return int(((self.test.popularity > 0) & (self.train.popularity == 0)).sum())

    @cached_property
    def n_cold_positives(self) -> int:
        """Number of test pairs whose user or item has no training interaction."""
        cold_user = self.train.activity[self.test.user] == 0
        return int((cold_user | (self.train.popularity[self.test.item] == 0)).sum())

    @cached_property
    def leakage(self) -> Leakage | None:
        """How many test rows have later training rows; None without timestamps."""
        return Leakage.of(self.train, self.test)

    @cached_property
    def excluded(self) -> Interactions:
        """The pairs that do not compete: the distinct training pairs; none with `seen="include"`."""
        train = self.train.distinct
        return train if self.seen == "exclude" else train.select(np.zeros(len(train), dtype=bool))

    @cached_property
    def n_repeated_positives(self) -> int:
        """Number of test pairs that are training pairs too; 0 with `seen="exclude"`."""
        if self.seen == "exclude":
            return 0
        return int(among(self.test.pair_key, self.train.pair_key).sum())

    @cached_property
    def n_users_without_test(self) -> int:
        """Number of users with interactions in some part but none in test: they are not evaluated."""
        activity = self.train.activity + (0 if self.validation is None else self.validation.activity)
        return int(((activity > 0) & (self.test.activity == 0)).sum())

    @property
    def data(self) -> pd.DataFrame:
        """What was read, left out and held out: one row per thing counted."""
        return counts_frame(self.counted)

    @cached_property
    def counted(self) -> tuple[Count, ...]:
        """What was counted while the parts were read and made."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        given = {name: part for name, part in parts.items() if part is not None}
        # Parts of one log carry the same counts, and not only equal ones.
        together = all(part.counted is self.train.counted for part in given.values())
        logs = {"log": self.train} if together else given
        read = [count.about(name) for name, log in logs.items() for count in log.counted]
        n_test = len(self.test)
        what = {name: "interactions" if part.repeats else "pairs" for name, part in given.items()}
        own = [Count(f"{name} {what[name]}", len(part)) for name, part in given.items()]
        n_tested, trained = int((self.test.activity > 0).sum()), bool(len(self.train))
        n_disjoint, leaking = n_test + self.n_overlap_dropped, self.leakage.n_leaking if self.leakage else 0
        n_items, n_merged = int((self.test.popularity > 0).sum()), self.n_repeats_merged
        found = (
            ("test pairs of another part, left out", self.n_overlap_dropped, n_disjoint),
            ("test rows that repeat a test pair, merged", n_merged, n_disjoint + n_merged),
            ("test pairs that are training pairs too", self.n_repeated_positives, n_test),
            ("users in test", n_tested, self.n_users),
            ("users in test without training pairs", self.n_cold_users * trained, n_tested),
            ("items in test without training pairs", self.n_cold_items * trained, n_items),
            ("test pairs of such users or items", self.n_cold_positives * trained, n_test),
            ("pairs in a gap before what is held out, left out", self.n_purged, None),
            ("test pairs with later training pairs", leaking, n_test),
        )
        own += some(*(Count(*one) for one in found))
        return (*read, *(one.about("split") for one in own))

    def check_seen_excluded(self, what: str) -> None:
        """Raise `InputError` when training items compete, which `what` is not defined for."""
        if self.seen != "exclude":
            raise InputError(f"{what} leaves training items out; pass a split made with seen='exclude'.")

    @classmethod
    def from_frames(
        cls,
        train: Any,
        test: Any,
        *,
        validation: Any | None = None,
        user: str | None = None,
        item: str | None = None,
        value: str | None = None,
        timestamp: str | None = None,
        users: Any | None = None,
        items: Any | None = None,
        duplicates: Duplicates = "raise",
        overlap: Overlap = "raise",
        seen: Seen = "exclude",
    ) -> Split:
        """Return a split made elsewhere, from one data frame or log per part.

        Parameters
        ----------
        train, test, validation : data frames, Interactions, mappings or sparse matrices
            One row per pair; or logs, as `ipseval.read` returns them; or {user: [item, …]}; or scipy sparse
            matrices, users × items, all of one shape, whose ids are `users` and `items` or the numbers of
            rows and columns. `train` None: there are no training items, so none is left out of the
            candidates. A propensity that is fitted to n* needs these counts from elsewhere then:
            `fit(popularity=…)`.
        user, item : str, optional
            Names of the columns of ids. Default: "user" and "item", or the usual names of `ipseval.read`,
            such as user_id and sku, in each frame.
        value, timestamp : str, optional
            Names of the columns of values and times; not read by default.
        users, items : array-like of ids, optional
            The whole universe in order. Default: every id in the frames, sorted. Give the whole catalogue
            when it is larger than what was ever interacted with: those items compete in the ranking too.
        overlap : {"raise", "drop"}
            A test pair that is also a training or validation pair is an error, or left out and counted.
        duplicates : {"raise", "drop", "keep"}
            As in `Interactions.from_frame`. "keep": training rows that repeat a pair all count in n*; those
            of the other parts are merged, and counted in `n_repeats_merged`.
        seen : {"exclude", "include"}
            "include": training items compete, and pairs may be in several parts.

        Raises
        ------
        InputError
            As `Interactions.from_frame`; also for an empty test part and for overlapping parts.
        """
        check_choice("overlap", overlap, ("raise", "drop"))
        check_choice("seen", seen, SEEN)
        if test is None:
            raise InputError("test is None; give the frame or log whose pairs are to be ranked.")
        given_parts = {"train": test if train is None else train, "test": test, "validation": validation}
        parts = {name: part for name, part in given_parts.items() if part is not None}
        columns = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        logs = read_parts(parts, columns, users=users, items=items, duplicates=duplicates)
        if train is None:
            logs[0] = nothing(logs[0])
        user_name = "user" if user is None else user
        item_name = "item" if item is None else item
        users = _union([log.user_ids for log in logs], user_name) if users is None else users
        items = _union([log.item_ids for log in logs], item_name) if items is None else items
        recoded = [_recode(log, users, items, user_name, item_name) for log in logs]
        n_merged, n_dropped = recoded[1].n_repeats, 0
        recoded[1:] = [log.distinct for log in recoded[1:]]
        if overlap == "drop" and seen == "exclude":
            others = np.concatenate([log.pair_key for log in (recoded[0], *recoded[2:])])
            keep = ~among(recoded[1].pair_key, others)
            n_dropped = int((~keep).sum())
            recoded[1] = recoded[1].select(keep)
        return cls(
            recoded[0],
            recoded[1],
            validation=recoded[2] if validation is not None else None,
            description="given as frames",
            n_overlap_dropped=n_dropped,
            seen=seen,
            n_repeats_merged=n_merged,
        )


def nothing(log: Interactions) -> Interactions:
    """Return no interactions, over the ids of a log."""
    return log.select(np.zeros(len(log), dtype=bool))._with(counted=())


def _recode(log: Interactions, users: Any, items: Any, user: str, item: str) -> Interactions:
    """Return `log` over another universe: only its distinct ids are looked up, not its rows."""
    user_codes, user_ids = encode(log.user_ids, users, f"column {user!r}")
    item_codes, item_ids = encode(log.item_ids, items, f"column {item!r}")
    return log._with(
        user=user_codes[log.user],
        item=item_codes[log.item],
        user_ids=user_ids,
        item_ids=item_ids,
    )


def _union(id_arrays: list[AnyArray], name: str) -> AnyArray:
    together = np.concatenate(of_one_type(id_arrays, f"column {name!r} of the frames"))
    codes, ids = pd.factorize(together, sort=True)
    refuse_header(codes, np.asarray(ids), f"column {name!r} of the frames")
    return np.asarray(ids)


@dataclass(frozen=True)
class Leakage:
    """How many test rows have later training rows, and how many of them.

    A row is later when its time is strictly greater; rows of the same time count as known together.

    Attributes
    ----------
    n_test, n_train : int
        Rows of both parts.
    n_leaking : int
        Test rows with at least one later training row.
    median_future : float
        Median over the test rows of the share of training rows that are later, in [0, 1].

    Examples
    --------
    >>> Leakage(n_test=4, n_train=10, n_leaking=1, median_future=0.0)
    Leakage(1 of 4 test rows (25.0%) have later training rows; in the median 0.0% of training is later)
    """

    n_test: int
    n_train: int
    n_leaking: int
    median_future: float

    @classmethod
    def of(cls, train: Interactions, test: Interactions) -> Leakage | None:
        """Return the leakage of a split; None where a part has no timestamps, or training no rows."""
        if train.timestamp is None or test.timestamp is None or not len(train):
            return None
        later = len(train) - np.searchsorted(np.sort(train.timestamp), test.timestamp, side="right")
        return cls(len(test), len(train), int((later > 0).sum()), float(np.median(later)) / len(train))

    @property
    def share(self) -> float:
        """Share of test rows with a later training row, in [0, 1]."""
        return self.n_leaking / self.n_test

    @property
    def text(self) -> str:
        """All of it in words."""
        rows = f"{self.n_leaking:,} of {counted(self.n_test, 'test row')} ({100 * self.share:.1f}%)"
        later = f"{100 * self.median_future:.1f}%"
        return f"{rows} have later training rows; in the median {later} of training is later"

    def __repr__(self) -> str:
        return f"Leakage({self.text})"


def warn_about_leakage(leakage: Leakage | None) -> None:
    """Warn that a split in the order of time trains on what came after test rows."""
    if leakage is not None and leakage.n_leaking:
        warn_user(
            f"{leakage.text}. The order in time is each user's own: recommenders learn from what other users "
            "did later. Use split_global_time or split_sliding to keep the future out.",
            DataWarning,
        )
