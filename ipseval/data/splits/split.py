"""Split: training, validation and test interactions over one universe of ids; its summary for results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from numbers import Number
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.data.interactions import (
    Duplicates,
    Interactions,
    Universe,
    check_interactions,
    encode_in_universe,
)
from ipseval.data.reading.held_tables import order_universe
from ipseval.data.reading.rating_scale import Threshold, check_threshold
from ipseval.data.splits._leakage import Leakage
from ipseval.data.splits._part_readers import PartLike, read_parts
from ipseval.errors import InputError
from ipseval.utils.checks import check_choice, check_positive_int, check_type, format_count, format_examples
from ipseval.utils.ids import is_member, mark_repeats, refuse_header, same_ids, unify_id_types
from ipseval.utils.notes import Count, CountCode, counts_frame, drop_zero_counts
from ipseval.utils.public import public_class
from ipseval.utils.types import AnyArray

Overlap = Literal["raise", "drop"]
Seen = Literal["exclude", "include"]
SEEN = ("exclude", "include")
GIVEN_AS_FRAMES = "given as frames"  # description of splits that were made elsewhere
NO_POSITIVE = "the test part is empty: there is no positive to rank."


def check_split(split: object) -> None:
    """Raise `InputError` unless `split` is a Split."""
    if isinstance(split, Split):
        return
    log = "log"
    if hasattr(split, "columns"):
        log = "ipseval.read(frame)"
    elif hasattr(split, "positives"):
        log = "log.positives"
    raise InputError(
        f"split must be a Split; got {type(split).__name__}. Make one with split_random({log}), or with "
        "Split.from_frames(train, test) from your own parts."
    )


@public_class
@dataclass(frozen=True, eq=False)
class Split(Universe):
    """Store training and test interactions (and optional validation) over the same ids.

    Parameters
    ----------
    train, test, validation : Interactions
        Propensities are fitted to `train` only; `test` holds the positives that are ranked, as distinct
        pairs. The parts are disjoint sets of pairs, unless training items are included.
    description : str
        How the split was made, for the report.
    n_overlap_dropped : int
        Test pairs left out because they were also training or validation pairs (only with
        `overlap="drop"`).
    n_tied_users : int
        Users with interactions of the same time on both sides of a cut by time; row order breaks these ties.
    n_purged : int
        Rows of a gap in time between training and test, which are in no part.
    seen : {"exclude", "include"}
        "exclude": the training items of a user are not candidates, and therefore not positives. "include":
        they compete, and a test pair may be a training pair, because users take the same items again.
    n_repeats_merged : int
        Test rows left out because their pair occurs in an earlier test row: positives are distinct pairs.
    is_random : bool
        Whether test rows were drawn at random, so that rows of both parts are of all times.

    Raises
    ------
    InputError
        For parts with different ids, an empty test part, repeated held-out pairs, and pairs in several parts
        unless training items are included.

    See Also
    --------
    Split.from_frames : Use a split that was made elsewhere.
    ipseval.split_random, ipseval.split_global_time : Split a log.

    Examples
    --------
    >>> from ipseval import Interactions
    >>> ids = {"user_ids": ["anna", "ben"], "item_ids": ["a", "b", "c"]}
    >>> train = Interactions(user=[0, 0, 1], item=[0, 1, 1], **ids)
    >>> test = Interactions(user=[0, 1], item=[2, 0], **ids)
    >>> split = Split(train, test, description="last item of each user")
    >>> split
    Split(3 train, 2 test; 2 users, 3 items; 1 cold item; last item of each user)
    >>> split.n_cold_items
    1
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
        for name, part in self._parts.items():
            check_interactions(part, name, "the data to Split.from_frames(train, test)")
        check_type("description", self.description, str)
        for name in ("n_overlap_dropped", "n_tied_users", "n_purged", "n_repeats_merged"):
            check_positive_int(name, getattr(self, name), minimum=0)
        check_choice("seen", self.seen, SEEN)
        for part in self._held_out_parts.values():
            if not same_ids(part, self.train):
                raise InputError(
                    "the parts of a split must share one universe of ids; build them with "
                    "Split.from_frames(train, test), or from one Interactions object. Train recommenders on the "
                    "part .train of the split."
                )
        if len(self.test) == 0:
            raise InputError(NO_POSITIVE)
        for name, part in self._held_out_parts.items():
            if part.n_repeats:
                raise InputError(
                    f"the {name} part repeats {part.n_repeats} pairs; a pair is one positive, whatever its "
                    f"number of rows. Pass {name}.distinct."
                )
        if self.seen == "exclude":
            self._check_disjoint()

    def _check_disjoint(self) -> None:
        """Raise `InputError` if a pair is in more than one part."""
        pair_keys = [part.distinct.pair_key for part in self._parts.values()]
        n_overlap = int(mark_repeats(np.concatenate(pair_keys)).sum())
        if n_overlap:
            raise InputError(
                f"{n_overlap} user–item pairs are in more than one part of the split; an item that was "
                "trained on is never a candidate.",
                advice="Remove them, or pass {overlap=drop} to Split.from_frames for test pairs, or "
                "{seen=include} where users take items again",
                shell_advice="Remove them, or pass {overlap=drop} for test pairs, or {seen=include} where users "
                "take items again",
            )

    @property
    def _parts(self) -> dict[str, Interactions]:
        """Name -> part, for the parts that the split has."""
        return {"train": self.train, **self._held_out_parts}

    @property
    def _held_out_parts(self) -> dict[str, Interactions]:
        """Name -> part, for the parts that are not used for training."""
        if self.validation is None:
            return {"test": self.test}
        return {"test": self.test, "validation": self.validation}

    def __iter__(self) -> Iterator[Interactions]:
        """Return the parts in their order, as `train, test = split` and `train, validation, test = split` need."""
        yield self.train
        if self.validation is not None:
            yield self.validation
        yield self.test

    if not TYPE_CHECKING:  # for type checkers a subscript stays an error

        def __getitem__(self, key: object) -> NoReturn:
            """Raise `TypeError`, because the parts of a split are attributes."""
            raise TypeError("'Split' object has no items. Use .train and .test.")

    def __repr__(self) -> str:
        sizes = f"{len(self.train):,} train, {len(self.test):,} test"
        if self.validation is not None:
            sizes += f", {len(self.validation):,} validation"
        if self.seen == "include":
            sizes += f" ({format_count(self.n_repeated_positives, 'training pair')} among them)"
        descriptions = [sizes, f"{format_count(self.n_users, 'user')}, {format_count(self.n_items, 'item')}"]
        if self.n_cold_users and len(self.train):  # without training rows, all users and items are cold
            descriptions.append(format_count(self.n_cold_users, "cold user"))
        if self.n_cold_items and len(self.train):
            descriptions.append(format_count(self.n_cold_items, "cold item"))
        if self.leakage is not None and self.leakage.n_leaking:
            descriptions.append(self.leakage.text)
        if self.description:
            descriptions.append(self.description)
        return f"Split({'; '.join(descriptions)})"

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
        """Number of test pairs of users or items without a training interaction."""
        has_cold_user = self.train.activity[self.test.user] == 0
        has_cold_item = self.train.popularity[self.test.item] == 0
        return int((has_cold_user | has_cold_item).sum())

    @cached_property
    def leakage(self) -> Leakage | None:
        """Number of test rows with later training rows; None without timestamps."""
        return Leakage.from_parts(self.train, self.test)

    @cached_property
    def excluded_pairs(self) -> Interactions:
        """Pairs that are not candidates: the distinct training pairs, or none with `seen="include"`."""
        train = self.train.distinct
        if self.seen == "exclude":
            return train
        return train.select(np.zeros(len(train), dtype=bool))

    @cached_property
    def n_repeated_positives(self) -> int:
        """Number of test pairs that are also training pairs; 0 with `seen="exclude"`."""
        if self.seen == "exclude":
            return 0
        return int(is_member(self.test.pair_key, self.train.pair_key).sum())

    @cached_property
    def n_users_without_test(self) -> int:
        """Number of users without test interactions, but with others; they are not evaluated."""
        activity = self.train.activity
        if self.validation is not None:
            activity = activity + self.validation.activity
        return int(((activity > 0) & (self.test.activity == 0)).sum())

    @property
    def data(self) -> pd.DataFrame:
        """Table of the rows that were read, left out and held out.

        Its columns are subject, what, count and of.
        """
        return counts_frame(self.row_counts)

    @cached_property
    def row_counts(self) -> tuple[Count, ...]:
        """Counts of rows that were read, left out and held out, as a tuple of Count."""
        return (*self._read_counts(), *(count.with_subject("split") for count in self._split_counts()))

    def _read_counts(self) -> list[Count]:
        """Return the counts of reading: of the log, or of each part if the parts were read separately."""
        # The parts of one log have the identical tuple of counts. Equal tuples do not mean one log.
        has_one_log = all(part.row_counts is self.train.row_counts for part in self._parts.values())
        logs = {"log": self.train} if has_one_log else self._parts_in_report_order()
        counts: list[Count] = []
        for name, log in logs.items():
            counts.extend(count.with_subject(name) for count in log.row_counts)
        return counts

    def _parts_in_report_order(self) -> dict[str, Interactions]:
        """Return the parts in the order in which they are reported."""
        parts = {"train": self.train}
        if self.validation is not None:
            parts["validation"] = self.validation
        parts["test"] = self.test
        return parts

    def _split_counts(self) -> list[Count]:
        """Return the counts of the parts, and of the rows that need attention."""
        counts: list[Count] = []
        for name, part in self._parts_in_report_order().items():
            noun = "interactions" if part.repeats else "pairs"
            code: CountCode = "test_part" if name == "test" else "number"
            counts.append(Count(f"{name} {noun}", len(part), code=code))
        n_test = len(self.test)
        n_before_overlap = n_test + self.n_overlap_dropped
        n_before_merging = n_before_overlap + self.n_repeats_merged
        counts += drop_zero_counts(
            Count(
                "test pairs of another part, left out",
                self.n_overlap_dropped,
                n_before_overlap,
                code="exclusion",
            ),
            Count(
                "test rows that repeat a test pair, merged",
                self.n_repeats_merged,
                n_before_merging,
                code="exclusion",
            ),
            Count("test pairs that are training pairs too", self.n_repeated_positives, n_test),
        )
        n_test_users = int((self.test.activity > 0).sum())
        n_test_items = int((self.test.popularity > 0).sum())
        counts += drop_zero_counts(Count("users in test", n_test_users, self.n_users))
        if len(self.train):  # without training rows, all users and items are cold
            counts += drop_zero_counts(
                Count("users in test without training pairs", self.n_cold_users, n_test_users),
                Count("items in test without training pairs", self.n_cold_items, n_test_items),
                Count("test pairs of such users or items", self.n_cold_positives, n_test),
            )
        n_leaking = 0
        if self.leakage is not None:
            n_leaking = self.leakage.n_leaking
        counts += drop_zero_counts(
            Count("pairs in a gap before the held-out parts, left out", self.n_purged, code="exclusion"),
            Count("test pairs with later training pairs", n_leaking, n_test),
        )
        return counts

    def check_seen_excluded(self, computation: str) -> None:
        """Check that training items are excluded from the candidates.

        Parameters
        ----------
        computation : str
            Name of the computation that excludes them, for the error message.

        Raises
        ------
        InputError
            When the split was made with `seen="include"`.
        """
        if self.seen != "exclude":
            raise InputError(
                f"{computation} leaves training items out.",
                advice="Pass a split made with {seen=exclude}",
                shell_advice="Leave out {seen=include}",
            )

    @classmethod
    def from_frames(
        cls,
        train: PartLike | None,
        test: PartLike,
        *,
        validation: PartLike | None = None,
        user: str | None = None,
        item: str | None = None,
        value: str | None = None,
        timestamp: str | None = None,
        threshold: Threshold | None = None,
        users: npt.ArrayLike | None = None,
        items: npt.ArrayLike | None = None,
        duplicates: Duplicates = "raise",
        overlap: Overlap = "raise",
        seen: Seen = "exclude",
    ) -> Split:
        """Use a split that was made elsewhere, from one data frame or log per part.

        Parameters
        ----------
        train, test, validation : data frames, Interactions, mappings, matrices, pairs or paths
            One row per pair; or logs, as `ipseval.read` returns them; or {user: [item, …]}; or matrices of
            scipy or NumPy, users × items, all of one shape, whose ids are `users` and `items` or the numbers
            of rows and columns; or pairs in another form that `ipseval.read` takes, or a file. If `train`
            is None, there are no training items to exclude from the candidates, and a propensity that is
            fitted to n* needs these counts from elsewhere: `fit(popularity=…)`.
        user, item : str, optional
            Names of the columns of ids. Default: "user" and "item", or the usual names of `ipseval.read`,
            such as user_id and sku, in each frame.
        value, timestamp : str, optional
            Names of the columns of values and times. By default, they are not read; a frame with a column of
            ratings then needs a threshold.
        threshold : float, "all" or None
            Smallest value of a positive, as in `ipseval.read`.
        users, items : array-like of ids, {id: position} or data frame, optional
            The whole universe in order, as in `ipseval.read`. Default: the sorted ids of all frames. Pass the
            whole catalogue if it is larger than the items with interactions, because the other items compete
            in the ranking too.
        duplicates : {"raise", "drop", "keep"}
            As in `Interactions.from_frame`. "keep": training rows that repeat a pair all count in n*; those
            of the other parts are merged, and counted in `n_repeats_merged`.
        overlap : {"raise", "drop"}
            How to treat a test pair that is also a training or validation pair: raise an error (default), or
            leave it out and count it.
        seen : {"exclude", "include"}
            Whether training items are excluded from the candidates (default). With "include", they compete,
            and pairs may be in several parts.

        Returns
        -------
        Split
            The split over one universe of ids.

        Raises
        ------
        InputError
            As `Interactions.from_frame`; also for an empty test part and for overlapping parts.

        See Also
        --------
        ipseval.split_random, ipseval.split_global_time : Split a log.

        Examples
        --------
        >>> train = pd.DataFrame({"user": ["ann", "ann", "bob"], "item": [1, 2, 1]})
        >>> test = pd.DataFrame({"user": ["ann", "bob"], "item": [3, 2]})
        >>> Split.from_frames(train, test)
        Split(3 train, 2 test; 2 users, 3 items; 1 cold item; given as frames)
        """
        check_choice("overlap", overlap, ("raise", "drop"))
        check_choice("seen", seen, SEEN)
        if test is None:
            raise InputError("test is None; give the frame or log whose pairs are to be ranked.")
        if users is not None:
            users = order_universe(users, "user")
        if items is not None:
            items = order_universe(items, "item")
        parts = {"train": test if train is None else train, "test": test}
        if validation is not None:
            parts["validation"] = validation
        columns = {"user": user, "item": item, "value": value, "timestamp": timestamp}
        logs = read_parts(
            parts,
            columns,
            threshold=check_threshold(threshold),
            users=users,
            items=items,
            duplicates=duplicates,
        )
        if train is None:
            logs[0] = _make_empty(logs[0])
        coded_logs = _recode_logs(logs, users, items, user or "user", item or "item")
        train_log = coded_logs[0]
        test_log = coded_logs[1].distinct
        validation_log = coded_logs[2].distinct if validation is not None else None
        n_dropped = 0
        if overlap == "drop" and seen == "exclude":
            other_keys = train_log.pair_key
            if validation_log is not None:
                other_keys = np.concatenate([other_keys, validation_log.pair_key])
            keep = ~is_member(test_log.pair_key, other_keys)
            n_dropped = int((~keep).sum())
            test_log = test_log.select(keep)
        return cls(
            train=train_log,
            test=test_log,
            validation=validation_log,
            description=GIVEN_AS_FRAMES,
            n_overlap_dropped=n_dropped,
            seen=seen,
            n_repeats_merged=coded_logs[1].n_repeats,
        )


def _make_empty(log: Interactions) -> Interactions:
    """Return no interactions, over the ids of a log."""
    no_rows = np.zeros(len(log), dtype=bool)
    return log.select(no_rows)._replace_unchecked(row_counts=())


def _recode_logs(
    logs: list[Interactions],
    users: npt.ArrayLike | None,
    items: npt.ArrayLike | None,
    user_column: str,
    item_column: str,
) -> list[Interactions]:
    """Return logs over one universe: the given ids, or the union of the ids of all logs."""
    if users is None:
        users = _merge_ids([log.user_ids for log in logs], user_column)
    if items is None:
        items = _merge_ids([log.item_ids for log in logs], item_column)
    return [_recode_log(log, users, items, user_column, item_column) for log in logs]


def _recode_log(
    log: Interactions, users: npt.ArrayLike, items: npt.ArrayLike, user_column: str, item_column: str
) -> Interactions:
    """Return a log over another universe; only its distinct ids are looked up, not its rows."""
    user_codes, user_ids = encode_in_universe(log.user_ids, users, f"column {user_column!r}")
    item_codes, item_ids = encode_in_universe(log.item_ids, items, f"column {item_column!r}")
    return log._replace_unchecked(
        user=user_codes[log.user],
        item=item_codes[log.item],
        user_ids=user_ids,
        item_ids=item_ids,
    )


def _merge_ids(id_arrays: list[AnyArray], column: str) -> AnyArray:
    """Return the sorted distinct ids of the training, test and validation parts."""
    parts = ("train", "test", "validation")
    all_ids = np.concatenate(unify_id_types(id_arrays, f"column {column!r} of the frames", parts))
    codes, ids = pd.factorize(all_ids, sort=True)
    refuse_header(codes, np.asarray(ids), f"column {column!r} of the frames")
    return np.asarray(ids)


def resolve_split(
    split: object,
    train: Any,
    test: Any,
    *,
    threshold: Threshold | None = None,
    users: npt.ArrayLike | None = None,
    items: npt.ArrayLike | None = None,
    function: str = "evaluate",
) -> Split:
    """Return the split that was passed, or the one of `train` and `test`, which may take its place.

    `users` and `items` are the ids of the universe of `train` and `test`; `function` is named in errors.

    Raises
    ------
    InputError
        Unless exactly one of `split` and the pair (`train`, `test`) was passed.
    """
    split, train, test = _unpack_parts(split, train, test)
    labels = _find_metric_labels(test)
    if labels:
        raise InputError(
            f"test must be held-out interactions; got labels. Pass metrics={labels!r} by keyword. The whole call is "
            f'evaluate({{"name": lists}}, train=train, test=test, metrics={labels!r}).'
        )
    if function == "evaluate" and _holds_models(test):
        raise InputError(
            f"test must be held-out interactions; got {format_examples(list(test))} with a trained model. Models come "
            "first: evaluate(models, train=train, test=test)."
        )
    has_parts = train is not None or test is not None
    if split is not None and has_parts:
        raise InputError("Pass either `split` or `train` and `test`; got both.")
    if split is not None:
        check_split(split)
        assert isinstance(split, Split)
        if threshold is not None:
            raise InputError(
                "threshold applies to `train` and `test`; got a split. Read its log by "
                "ipseval.read(log, threshold=…)."
            )
        if users is not None or items is not None:
            raise InputError(
                "users and items apply to `train` and `test`; got a split, which has user_ids and item_ids. "
                "Leave them out."
            )
        return split
    if test is None:
        if train is None:
            raise InputError(
                f"{function} needs `split`, or `train` and `test`; got neither. Pass split_random(log), or "
                "train=frame and test=frame."
            )
        raise InputError("`train` requires `test`, the held-out interactions; got None. Pass test=frame.")
    if train is None:
        raise InputError(
            "`test` requires `train`, the training interactions; got None. Pass train=frame, or "
            "split=ipseval.Split.from_frames(None, test) where there are none."
        )
    return Split.from_frames(train, test, threshold=threshold, users=users, items=items)


def _unpack_parts(split: Any, train: Any, test: Any) -> tuple[Any, Any, Any]:
    """Return split, train and test, with the parts of an object that has both, or of `evaluate(m, train, test)`."""
    if test is None and train is None and _has_parts(split):
        return None, _get_part(split, "train"), _get_part(split, "test")
    if split is not None and not isinstance(split, Split) and test is not None and train is None:
        return None, split, test
    return split, train, test


def _has_parts(split: object) -> bool:
    """Return whether an object has a training and a test part, as attributes or as all keys of a mapping."""
    if isinstance(split, Mapping):
        return set(split) == {"train", "test"}
    if isinstance(split, (Split, tuple)) or callable(split):
        return False
    return hasattr(split, "train") and hasattr(split, "test")


def _get_part(split: Any, name: str) -> Any:
    """Return the training or the test part of an object that has both."""
    return split[name] if isinstance(split, Mapping) else getattr(split, name)


def _find_metric_labels(test: object) -> list[str]:
    """Return the labels of metrics that were passed in place of test interactions; none for other objects."""
    if isinstance(test, str) and not Path(test).exists():
        return [test]
    if isinstance(test, (list, tuple)) and all(isinstance(entry, str) for entry in test):
        return list(test)
    return []


def _holds_models(test: object) -> bool:
    """Return whether an argument is a mapping from names to objects other than lists, mappings and numbers."""
    if not isinstance(test, Mapping) or not test:
        return False
    is_named = all(isinstance(name, str) for name in test)
    plain_types = (Mapping, str, Number, list, tuple, set, np.ndarray, type(None))
    return is_named and not any(isinstance(value, plain_types) for value in test.values())


@dataclass(frozen=True)
class SplitSummary:
    """The kind of a split, and the number of test rows that have later training rows.

    Attributes
    ----------
    description : str
        Description by the split itself.
    is_random : bool
        Whether test rows were drawn at random, so that rows of both parts are of all times.
    n_test : int
        Test rows with a time; 0 without times.
    n_leaking : int
        Test rows that have later training rows.
    median_future : float
        Median share of the training rows that are later than a test row, in [0, 1].
    has_impressions : bool
        Whether the test part is from a log of impressions.
    """

    description: str
    is_random: bool
    n_test: int = 0
    n_leaking: int = 0
    median_future: float = 0.0
    has_impressions: bool = False

    @classmethod
    def from_split(cls, split: Split) -> SplitSummary:
        """Summarise a split."""
        leakage = split.leakage
        has_impressions = split.test.impressions is not None
        if leakage is None:
            return cls(split.description, split.is_random, has_impressions=has_impressions)
        return cls(
            description=split.description,
            is_random=split.is_random,
            n_test=leakage.n_test,
            n_leaking=leakage.n_leaking,
            median_future=leakage.median_future,
            has_impressions=has_impressions,
        )
