"""Splits at one time for all users, and at successive times: numbers, dates as nanoseconds since 1970."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Any, overload

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.data.splits._rows import LogLike, as_log, check_shares, share_of, split_rows, timestamps
from ipseval.data.splits.split import SEEN, Seen, Split
from ipseval.errors import InputError
from ipseval.utils.checks import check_choice, check_real, counted
from ipseval.utils.types import AnyArray

# Whole numbers from here on are nanoseconds: as seconds or microseconds they would lie beyond the year 5000.
NANOSECONDS = 10**17
LONGEST = 2**62  # a longer one, added to a time, could leave 64 bits


def as_time(value: Any, name: str) -> Any:
    """Return a number as it is and a date as nanoseconds since 1970, as timestamps are stored."""
    # A date with a time zone is that instant; one without is read in UTC, as are dates in a log.
    if isinstance(value, (int, float, np.integer, np.floating)) and type(value) not in (bool, np.timedelta64):
        # As a number of Python, which 2^63 is compared with exactly.
        if not -(2**63) < (value.item() if isinstance(value, np.number) else value) < 2**63:
            raise InputError(f"{name} must be within 64 bits, as timestamps are; got {value!r:.80}.")
        return value
    if not isinstance(value, (str, date, np.datetime64)):
        raise InputError(f"{name} must be a number or a date; got {type(value).__name__}.")
    try:
        time = pd.Timestamp(value)
        if not pd.isna(time):
            return int(time.as_unit("ns").value)
    except (TypeError, ValueError):
        pass
    raise InputError(f"{name} must be a number or a date; got {value!r:.80}.")


def as_duration(value: Any, name: str, time: AnyArray, *, low_open: bool = True) -> Any:
    """Return a length of time in the unit of timestamps; text such as "7D" is for dates only."""
    if isinstance(value, (int, float, np.integer, np.floating)) and type(value) not in (bool, np.timedelta64):
        return _in_range(name, value, low_open)
    if not isinstance(value, (str, timedelta, np.timedelta64)):
        raise InputError(f"{name} must be a number or a length of time; got {type(value).__name__}.")
    try:
        length = pd.Timedelta(value).as_unit("ns").value
    except (TypeError, ValueError):
        raise InputError(f"{name} must be a number or a length such as '7D'; got {value!r:.80}.") from None
    if not are_dates(time):
        raise InputError(
            f"{name}={value!r} is for timestamps that were dates; these run up to {time.max()}. Give a "
            "number in their unit, for example 7 * 86400 for a week in seconds."
        )
    return _in_range(name, int(length), low_open)


def _in_range(name: str, length: Any, low_open: bool) -> Any:
    check_real(name, length, low=0, low_open=low_open)
    if length > LONGEST:
        raise InputError(f"{name} must be at most 2^62; got {length!r:.80}.")
    return length


def are_dates(time: AnyArray) -> bool:
    """Return whether timestamps are nanoseconds since 1970, as dates are stored."""
    return bool(time.dtype.kind == "i" and abs(int(time.max())) >= NANOSECONDS)


def said(time: Any) -> str:
    """Return a time as text; dates are stored as nanoseconds since 1970, and shown as dates."""
    if not isinstance(time, (int, np.integer)) or not NANOSECONDS <= abs(int(time)) < 2**63:
        return str(time)
    return str(pd.Timestamp(int(time), unit="ns")).removesuffix(" 00:00:00")


def split_global_time(
    log: LogLike,
    *,
    test_fraction: float = 0.2,
    validation_fraction: float = 0.0,
    test_start: Any | None = None,
    validation_start: Any | None = None,
    purge: Any = 0,
    seen: Seen = "exclude",
) -> Split:
    """Return a split at one time for all users: what came later is held out, so nothing leaks back.

    Interactions at the same time stay together, on the later side: of n interactions at least
    ⌊n·test_fraction + ½⌋ go to test. Users and items that occur only in test are cold; the result counts them
    (`n_cold_users`, `n_cold_items`, `n_cold_positives`).

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        Of an exposure log the clicked pairs are split; a frame is read by `ipseval.read`.
    test_fraction, validation_fraction : float
        Shares of all interactions, in (0, 1) and [0, 1); their sum must stay below 1.
    test_start, validation_start : number or date, optional
        First time of the test and of the validation part, instead of shares: a number in the unit of the
        timestamps, or a date where the timestamps were dates.
    purge : number or length of time, optional
        Gap between what is trained on and what is held out: rows of the last `purge` before the validation
        part (or the test part) are in no part, and counted as `n_purged`. A length such as "7D" is for
        timestamps that were dates.
    seen : see `split_random`

    Raises
    ------
    InputError
        When the log has no timestamps, a share is out of range, or a part that was asked for is empty.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [0, 0, 1, 1], "item": [0, 1, 0, 2], "time": [1, 2, 3, 3]})
    >>> split = split_global_time(Interactions.from_frame(frame, timestamp="time"), test_fraction=0.25)
    >>> len(split.train), len(split.test), split.n_cold_users, split.n_cold_items
    (2, 2, 1, 1)
    """
    log = as_log(log)
    time = timestamps(log, "a split at a global time")
    check_shares(test_fraction, validation_fraction)
    start = _start_of_share(time, test_fraction) if test_start is None else as_time(test_start, "test_start")
    middle, with_validation = start, bool(validation_fraction) or validation_start is not None
    if validation_start is not None:
        middle = as_time(validation_start, "validation_start")
    elif with_validation:
        middle = _start_of_share(time, min(validation_fraction + float((time >= start).mean()), 1.0))
    gap, first = as_duration(purge, "purge", time, low_open=False), min(start, middle)
    parts = {"training": time < first - gap, "test": time >= start}
    if with_validation:
        parts["validation"] = (time >= middle) & (time < start)
    n_purged = int(((time >= first - gap) & (time < first)).sum())
    for name, rows in parts.items():
        if not rows.any():
            raise InputError(
                f"the {name} part is empty: the {len(log):,} timestamps run from {said(time.min())} to "
                f"{said(time.max())} with {np.unique(time).size:,} distinct values, and the test part starts "
                f"at {said(start)}. Choose other shares, or start times in the unit of the timestamps "
                "(dates are nanoseconds since 1970)."
            )
    description = f"global time, test from {said(start)}" + (
        f", validation from {said(middle)}" if with_validation else ""
    )
    if gap:
        description += f", {counted(n_purged, 'row')} before it in a gap of {purge}"
    return split_rows(
        log,
        parts["training"],
        parts["test"],
        parts.get("validation"),
        seen=seen,
        description=description,
        n_purged=n_purged,
    )


def _start_of_share(time: AnyArray, share: float) -> Any:
    """Return the time from which on at least ⌊n·share + ½⌋ interactions come."""
    n_later = int(share_of(np.array(time.size), share))
    place = time.size - max(n_later, 1)
    return np.partition(time, place)[place]


MAX_WINDOWS = 100_000


@dataclass(frozen=True, eq=False)
class SlidingSplits(Sequence[Split]):
    """Splits of one log at successive times; each is made when it is asked for.

    Window w trains on [begin_w, t_w − validation − purge) and tests on [t_w, t_w + test). A window without
    training or test rows gives no split; `frame` names it.

    Attributes
    ----------
    log : Interactions
    bounds : data frame
        Of every window, in the unit of the timestamps, where each part begins: begin (of training), trained,
        validated, start (of the test part), and its end.
    seen : {"exclude", "include"}
        Whether training items compete in every split.
    """

    log: Interactions
    bounds: pd.DataFrame
    seen: Seen = "exclude"

    def __repr__(self) -> str:
        frame, n = self._rows, len(self)
        skipped, n_test = len(frame) - n, counted(int(frame["n_test"].sum()), "test row")
        empty = f", {counted(skipped, 'window')} without training or test rows left out" if skipped else ""
        return (
            f"SlidingSplits({counted(n, 'window')}{empty}; {n_test} from {said(frame['start'].iloc[0])} on)"
        )

    @cached_property
    def _rows(self) -> pd.DataFrame:
        time = np.sort(timestamps(self.log, "a sliding window"))
        row = {name: np.searchsorted(time, at) for name, at in self.bounds.items()}
        frame = self.bounds[["start", "end"]].rename_axis("window").reset_index()
        frame["n_train"] = row["trained"] - row["begin"]
        frame["n_purged"] = row["validated"] - row["trained"]
        frame["n_validation"] = row["start"] - row["validated"]
        frame["n_test"] = row["end"] - row["start"]
        frame["used"] = (frame["n_train"] > 0) & (frame["n_test"] > 0)
        return frame

    @property
    def frame(self) -> pd.DataFrame:
        """One row per window: window, start, end, n_train, n_purged, n_validation, n_test, used.

        And of the windows that are used: n_users (with test rows), n_cold_users, n_cold_items,
        n_cold_positives; missing for the others.
        """
        frame = self._rows.copy()
        names = ("n_cold_users", "n_cold_items", "n_cold_positives")
        rows = [[np.unique(s.test.user).size, *(getattr(s, name) for name in names)] for s in self]
        for name, values in zip(("n_users", *names), np.array(rows).T, strict=True):
            frame[name] = pd.array([pd.NA] * len(frame), dtype="Int64")
            frame.loc[frame["used"], name] = values
        return frame

    @cached_property
    def windows(self) -> AnyArray:
        """Numbers of the windows that have a split, (len,)."""
        return np.flatnonzero(self._rows["used"].to_numpy())

    def __len__(self) -> int:
        return int(self.windows.size)

    @overload
    def __getitem__(self, index: int) -> Split: ...
    @overload
    def __getitem__(self, index: slice) -> list[Split]: ...
    def __getitem__(self, index: int | slice) -> Split | list[Split]:
        chosen = self.windows[index]
        return self._split(int(chosen)) if np.ndim(chosen) == 0 else [self._split(int(one)) for one in chosen]

    def _split(self, window: int) -> Split:
        time = timestamps(self.log, "a sliding window")
        at = {name: times[window] for name, times in self.bounds.items()}
        within = (time >= at["validated"]) & (time < at["start"])
        where = f"test from {said(at['start'])} to {said(at['end'])}"
        return split_rows(
            self.log,
            (time >= at["begin"]) & (time < at["trained"]),
            (time >= at["start"]) & (time < at["end"]),
            within if at["start"] > at["validated"] else None,
            seen=self.seen,
            description=f"window {window + 1} of {len(self.bounds)}, {where}",
            n_purged=int(self._rows["n_purged"][window]),
        )


def split_sliding(
    log: LogLike,
    *,
    test: Any,
    train: Any | None = None,
    step: Any | None = None,
    start: Any | None = None,
    end: Any | None = None,
    purge: Any = 0,
    validation: Any = 0,
    seen: Seen = "exclude",
) -> SlidingSplits:
    """Return splits at times t, t + step, t + 2 step, …: train on what came before, test on [t, t + test).

    The windows go on while they begin at or before the last interaction. Rows at one time stay together, on
    the later side of a cut: no training row is later than, or at the time of, a test row. The last window may
    be shorter than the others.

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        Of an exposure log the clicked pairs are split; a frame is read by `ipseval.read`.
    test : number or length of time
        Length of the test part, in the unit of the timestamps; or such as "7D" where these were dates. Days
        are 24 hours, in UTC.
    train : number or length of time, optional
        Length of the training part. Default: everything before.
    step : number or length of time, optional
        From one window to the next. Default: `test`, so that every row is tested once.
    start : number or date, optional
        First time of the first test part; a date with a time zone is that instant. Default: the first
        interaction + train + purge + validation, which needs `train`.
    end : number or date, optional
        Rows at or after it are left out.
    purge : number or length of time
        Gap between training and what is held out; its rows are in no part, and counted.
    validation : number or length of time
        Length of a validation part right before the test part. Default: none.
    seen : see `split_random`

    Raises
    ------
    InputError
        When the log has no timestamps, neither `start` nor `train` is given, or no window has training and
        test rows.

    References
    ----------
    Ng et al., RecNextEval, SIGIR 2026, arXiv 2604.13665: its windows are those of `start=training_t`,
    `step=window_size`, `test=t_ground_truth_window`.

    Examples
    --------
    >>> frame = pd.DataFrame({"user": [0, 0, 1, 1, 1], "item": [0, 1, 0, 2, 3], "time": [1, 2, 3, 3, 5]})
    >>> splits = split_sliding(Interactions.from_frame(frame, timestamp="time"), start=2, test=2)
    >>> [(len(split.train), len(split.test)) for split in splits]
    [(1, 3), (4, 1)]
    """
    log = as_log(log)
    time = timestamps(log, "a sliding window")
    check_choice("seen", seen, SEEN)
    lengths = {"purge": purge, "validation": validation}
    found = {name: as_duration(one, name, time, low_open=False) for name, one in lengths.items()}
    found["test"] = as_duration(test, "test", time)
    found["train"] = None if train is None else as_duration(train, "train", time)
    every = found["test"] if step is None else as_duration(step, "step", time)
    last = time.max()
    limit = np.nextafter(last, np.inf) if isinstance(last, np.floating) else last + 1
    if end is not None:
        limit = min(limit, as_time(end, "end"))
    if start is not None:
        first = as_time(start, "start")
    elif train is not None:
        first = time.min() + found["train"] + found["purge"] + found["validation"]
    else:
        raise InputError("give start=, the first time of the first test part, or train=, its history.")
    last = min(last, limit)
    if (last - first) / MAX_WINDOWS >= every:
        raise InputError(f"step={every} makes more than {MAX_WINDOWS:,} windows; use a longer step.")
    n = 1 + int((last - first) // every) if last >= first else 0
    start_of = first + np.arange(n) * every
    start_of[start_of > last] = last  # where the sum of fractions is rounded beyond it
    validated = start_of - found["validation"]
    trained = validated - found["purge"]
    lowest = np.iinfo(start_of.dtype).min if start_of.dtype.kind in "iu" else -np.inf
    begin = np.full_like(start_of, lowest) if train is None else trained - found["train"]
    ends = np.minimum(start_of + found["test"], limit)
    bounds = {"begin": begin, "trained": trained, "validated": validated, "start": start_of, "end": ends}
    splits = SlidingSplits(log, pd.DataFrame(bounds), seen) if n else None
    if splits is None or not len(splits):
        raise InputError(
            f"no window has training and test rows: the timestamps run from {said(time.min())} to "
            f"{said(time.max())}, and the first of {n:,} windows starts at {said(first)}."
        )
    return splits
