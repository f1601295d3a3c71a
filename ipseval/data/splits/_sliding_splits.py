"""Splits at successive times: each window trains on earlier rows and tests on later ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.data.splits._inputs import LogLike, get_timestamps, to_interactions
from ipseval.data.splits._split_builder import build_split
from ipseval.data.splits._times import (
    DurationLike,
    Number,
    TimeLike,
    are_dates,
    format_time,
    to_duration,
    to_time,
)
from ipseval.data.splits.split import SEEN, Seen, Split
from ipseval.errors import InputError
from ipseval.utils.checks import check_choice, format_count
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import AnyArray

MAX_WINDOWS = 100_000
PURPOSE = "a sliding window"


@public_class
@dataclass(frozen=True, eq=False)
class SlidingSplits(Sequence[Split]):
    """Provide the splits of one log at successive times; each split is made when it is accessed.

    Window w trains on [begin_w, t_w − validation − purge) and tests on [t_w, t_w + test). A window without
    training or test rows has no split; `frame` lists it as not used.

    Parameters
    ----------
    log : Interactions
        The log.
    bounds : data frame
        One row per window, with the first time of each part in the unit of the timestamps: begin (of
        training), trained (end of training), validated (first time of validation), start (of the test part)
        and end (of the test part).
    seen : {"exclude", "include"}
        Whether training items are excluded from the candidates in every split.

    See Also
    --------
    split_sliding : Make the splits from lengths of time.

    Examples
    --------
    Two windows of one log, which test on the times 2–3 and 4–5:

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [0, 0, 1, 1, 1], "item": [0, 1, 0, 2, 3], "time": [1, 2, 3, 3, 5]})
    >>> splits = split_sliding(Interactions.from_frame(frame, timestamp="time"), start=2, test=2)
    >>> splits
    SlidingSplits(2 windows; 4 test rows from 2 on)
    >>> splits.frame[["window", "start", "end", "n_train", "n_test"]]
       window  start  end  n_train  n_test
    0       0      2    4        1       3
    1       1      4    6        4       1
    >>> len(splits[1].train), len(splits[1].test)
    (4, 1)
    """

    log: Interactions
    bounds: pd.DataFrame
    seen: Seen = "exclude"

    def __repr__(self) -> str:
        n_windows = format_count(len(self), "window")
        n_skipped = len(self._windows) - len(self)
        skipped = ""
        if n_skipped:
            skipped = f", {format_count(n_skipped, 'window')} without training or test rows left out"
        n_test = format_count(int(self._windows["n_test"].sum()), "test row")
        first_start = format_time(self._windows["start"].iloc[0])
        return f"SlidingSplits({n_windows}{skipped}; {n_test} from {first_start} on)"

    @cached_property
    def _windows(self) -> pd.DataFrame:
        """One row per window: window, start, end, the number of rows of each part, and used."""
        time = np.sort(get_timestamps(self.log, PURPOSE))
        row = {}
        for name, times in self.bounds.items():
            row[name] = np.searchsorted(time, times)

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

        For the windows that are used, also: n_users (with test rows), n_cold_users, n_cold_items and
        n_cold_positives; they are missing for the other windows. Start and end are dates where the timestamps of
        the log are; `bounds` holds them as nanoseconds since 1970.
        """
        columns: dict[str, list[int]] = {
            "n_users": [],
            "n_cold_users": [],
            "n_cold_items": [],
            "n_cold_positives": [],
        }
        for split in self:
            columns["n_users"].append(np.unique(split.test.user).size)
            columns["n_cold_users"].append(split.n_cold_users)
            columns["n_cold_items"].append(split.n_cold_items)
            columns["n_cold_positives"].append(split.n_cold_positives)
        frame = self._windows.copy()
        if are_dates(get_timestamps(self.log, PURPOSE)):
            frame["start"] = pd.to_datetime(frame["start"], unit="ns")
            frame["end"] = pd.to_datetime(frame["end"], unit="ns")
        for name, values in columns.items():
            frame[name] = pd.array([pd.NA] * len(frame), dtype="Int64")
            frame.loc[frame["used"], name] = values
        return frame

    @cached_property
    def windows(self) -> AnyArray:
        """Numbers of the windows that have a split, (len,)."""
        return np.flatnonzero(self._windows["used"].to_numpy())

    def __len__(self) -> int:
        return int(self.windows.size)

    @overload
    def __getitem__(self, index: int) -> Split: ...
    @overload
    def __getitem__(self, index: slice) -> list[Split]: ...
    def __getitem__(self, index: int | slice) -> Split | list[Split]:
        windows = self.windows[index]
        if np.ndim(windows) == 0:
            return self._split(int(windows))
        return [self._split(int(window)) for window in windows]

    def _split(self, window: int) -> Split:
        """Return the split of a window."""
        time = get_timestamps(self.log, PURPOSE)
        bound = {name: times[window] for name, times in self.bounds.items()}
        in_validation = None
        if bound["start"] > bound["validated"]:
            in_validation = (time >= bound["validated"]) & (time < bound["start"])
        test_period = f"test from {format_time(bound['start'])} to {format_time(bound['end'])}"
        return build_split(
            self.log,
            (time >= bound["begin"]) & (time < bound["trained"]),
            (time >= bound["start"]) & (time < bound["end"]),
            in_validation,
            seen=self.seen,
            description=f"window {window + 1} of {len(self.bounds)}, {test_period}",
            n_purged=int(self._windows["n_purged"][window]),
        )


@public_function
def split_sliding(
    log: LogLike,
    *,
    test: DurationLike,
    train: DurationLike | None = None,
    step: DurationLike | None = None,
    start: TimeLike | None = None,
    end: TimeLike | None = None,
    purge: DurationLike = 0,
    validation: DurationLike = 0,
    seen: Seen = "exclude",
) -> SlidingSplits:
    """Split a log at times t, t + step, t + 2 step, …: train on earlier rows, and test on [t, t + test).

    There are windows as long as they begin at or before the last interaction. Rows at one time stay together,
    in the later part: every training row is earlier than every test row. The last window may be shorter than
    the others.

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        The log. The clicked pairs of an impression log are split; a frame is read by `ipseval.read`.
    test : number or length of time
        Length of the test part, in the unit of the timestamps, or a length such as "7D" if these were dates.
        Days are 24 hours, in UTC.
    train : number or length of time, optional
        Length of the training part. Default: all earlier rows.
    step : number or length of time, optional
        Length from one window to the next. Default: `test`, so that every row is tested once.
    start : number or date, optional
        First time of the first test part; a date with a time zone is that instant. Default: the first
        interaction + train + purge + validation, which needs `train`.
    end : number or date, optional
        Rows at this time or later are left out. Default: no row is left out.
    purge : number or length of time
        Gap between training and the held-out rows; its rows are in no part, and counted. Default: 0.
    validation : number or length of time
        Length of a validation part right before the test part. Default: 0, no validation.
    seen : {"exclude", "include"}
        See `split_random`.

    Returns
    -------
    SlidingSplits
        A sequence of splits, with a frame of all windows.

    Raises
    ------
    InputError
        If the log has no timestamps, neither `start` nor `train` is given, or no window has training and test
        rows.

    See Also
    --------
    split_global_time : Split at one time.

    References
    ----------
    Ng et al., RecNextEval, SIGIR 2026, arXiv 2604.13665: its windows correspond to `start=training_t`,
    `step=window_size`, `test=t_ground_truth_window`.

    Examples
    --------
    >>> frame = pd.DataFrame({"user": [0, 0, 1, 1, 1], "item": [0, 1, 0, 2, 3], "time": [1, 2, 3, 3, 5]})
    >>> splits = split_sliding(Interactions.from_frame(frame, timestamp="time"), start=2, test=2)
    >>> [(len(split.train), len(split.test)) for split in splits]
    [(1, 3), (4, 1)]
    """
    interactions = to_interactions(log)
    time = get_timestamps(interactions, PURPOSE)
    check_choice("seen", seen, SEEN)
    purge_length = to_duration(purge, "purge", time, allow_zero=True)
    validation_length = to_duration(validation, "validation", time, allow_zero=True)
    test_length = to_duration(test, "test", time)
    train_length = None
    if train is not None:
        train_length = to_duration(train, "train", time)
    step_length = test_length
    if step is not None:
        step_length = to_duration(step, "step", time)

    limit = _find_time_after(time.max())
    if end is not None:
        limit = min(limit, to_time(end, "end"))
    if start is not None:
        first_start = to_time(start, "start")
    elif train_length is not None:
        first_start = time.min() + train_length + purge_length + validation_length
    else:
        raise InputError("give start=, the first time of the first test part, or train=, its history.")

    test_starts = _find_test_starts(first_start, min(time.max(), limit), step_length)
    validation_starts = test_starts - validation_length
    train_ends = validation_starts - purge_length
    if train_length is None:
        train_starts = np.full_like(test_starts, _find_lowest_time(test_starts))
    else:
        train_starts = train_ends - train_length
    bounds = pd.DataFrame(
        {
            "begin": train_starts,
            "trained": train_ends,
            "validated": validation_starts,
            "start": test_starts,
            "end": np.minimum(test_starts + test_length, limit),
        }
    )
    splits = SlidingSplits(interactions, bounds, seen)
    if not len(bounds) or not len(splits):
        raise InputError(
            f"no window has training and test rows: the timestamps run from {format_time(time.min())} to "
            f"{format_time(time.max())}, and the first of {len(bounds):,} windows starts at "
            f"{format_time(first_start)}."
        )
    return splits


def _find_time_after(time: Number) -> Number:
    """Return the smallest time after a timestamp."""
    if isinstance(time, np.floating):
        return float(np.nextafter(time, np.inf))
    return time + 1


def _find_test_starts(first_start: Number, last: Number, step: Number) -> AnyArray:
    """Return the start of each window from the first to the last time, or raise `InputError` for too many."""
    if (last - first_start) / MAX_WINDOWS >= step:
        raise InputError(f"step={step} makes more than {MAX_WINDOWS:,} windows; use a longer step.")
    n_windows = 0
    if last >= first_start:
        n_windows = 1 + int((last - first_start) // step)  # type: ignore[operator]  # all are real numbers
    test_starts = first_start + np.arange(n_windows) * step
    test_starts[test_starts > last] = last  # a sum of fractions may be rounded up
    return np.asarray(test_starts)


def _find_lowest_time(times: AnyArray) -> Number:
    """Return a time that is not after any timestamp of this type."""
    if times.dtype.kind in "iu":
        return np.iinfo(times.dtype).min
    return -np.inf
