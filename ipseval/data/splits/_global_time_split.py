"""Split at one time for all users."""

from __future__ import annotations

import numpy as np

from ipseval.data.reading.rating_scale import Threshold
from ipseval.data.splits._inputs import (
    LogLike,
    check_shares,
    count_share,
    get_timestamps,
    to_interactions,
)
from ipseval.data.splits._split_builder import build_split
from ipseval.data.splits._times import DurationLike, Number, TimeLike, format_time, to_duration, to_time
from ipseval.data.splits.split import Seen, Split
from ipseval.errors import InputError
from ipseval.utils.checks import format_count
from ipseval.utils.public import public_function
from ipseval.utils.types import AnyArray, BoolArray


@public_function
def split_global_time(
    log: LogLike,
    *,
    test_fraction: float = 0.2,
    validation_fraction: float = 0.0,
    test_start: TimeLike | None = None,
    validation_start: TimeLike | None = None,
    purge: DurationLike = 0,
    seen: Seen = "exclude",
    threshold: Threshold | None = None,
) -> Split:
    """Split a log at one time for all users, so that no training row is later than a test row.

    Interactions at the same time stay together, in the later part: of n interactions at least
    ⌊n·test_fraction + ½⌋ go to test. Users and items that occur only in test are cold; the result counts them
    (`n_cold_users`, `n_cold_items`, `n_cold_positives`).

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        The log. The clicked pairs of an impression log are split; a frame is read by `ipseval.read`.
    test_fraction, validation_fraction : float
        Shares of all interactions, in (0, 1) and [0, 1), whose sum must be below 1. Default: 0.2 and 0.
    test_start, validation_start : number or date, optional
        First time of the test and of the validation part, instead of shares: a number in the unit of the
        timestamps, or a date if the timestamps were dates.
    purge : number or length of time
        Gap before the held-out rows: rows of the last `purge` before the validation part (or the test part)
        are in no part, and counted in `n_purged`. A length such as "7D" needs timestamps that were dates.
        Default: 0.
    seen : {"exclude", "include"}
        See `split_random`.
    threshold : float, "all" or None
        Smallest value of a positive, as in `ipseval.read`; for data that are not a log yet.

    Returns
    -------
    Split
        The split. If the log is the clicks of an `ImpressionLog`, ``split.test.impressions`` are its impressions
        from the beginning of the test part on, which are the only ones that could produce the held-out clicks.

    Raises
    ------
    InputError
        If the log has no timestamps, a share is out of range, or a requested part is empty.

    See Also
    --------
    split_sliding : Split at successive times.

    Examples
    --------
    >>> import pandas as pd
    >>> from ipseval import Interactions
    >>> frame = pd.DataFrame({"user": [0, 0, 1, 1], "item": [0, 1, 0, 2], "time": [1, 2, 3, 3]})
    >>> split = split_global_time(Interactions.from_frame(frame, timestamp="time"), test_fraction=0.25)
    >>> len(split.train), len(split.test), split.n_cold_users, split.n_cold_items
    (2, 2, 1, 1)
    """
    interactions = to_interactions(log, threshold)
    time = get_timestamps(interactions, "a split at a global time")
    check_shares(test_fraction, validation_fraction)
    if test_start is None:
        first_test = _find_start_of_share(time, test_fraction)
    else:
        first_test = to_time(test_start, "test_start")
    first_validation = None
    if validation_start is not None:
        first_validation = to_time(validation_start, "validation_start")
    elif validation_fraction:
        held_out_share = validation_fraction + float((time >= first_test).mean())
        first_validation = _find_start_of_share(time, min(held_out_share, 1.0))
    gap = to_duration(purge, "purge", time, allow_zero=True)

    in_test = time >= first_test
    in_validation = None
    first_held_out = first_test
    if first_validation is not None:
        in_validation = (time >= first_validation) & (time < first_test)
        first_held_out = min(first_test, first_validation)
    in_train = time < first_held_out - gap
    n_purged = int(((time >= first_held_out - gap) & (time < first_held_out)).sum())
    parts = {"training": in_train, "test": in_test}
    if in_validation is not None:
        parts["validation"] = in_validation
    _check_parts_not_empty(parts, time, first_test)

    description = f"global time, test from {format_time(first_test)}"
    if first_validation is not None:
        description += f", validation from {format_time(first_validation)}"
    if gap:
        description += f", {format_count(n_purged, 'row')} before it in a gap of {purge}"
    test_impressions = None
    if interactions.impressions is not None:
        # Only these impressions could produce the held-out clicks.
        is_later = interactions.impressions.timestamp >= first_test
        test_impressions = interactions.impressions.select(is_later)
    return build_split(
        interactions,
        in_train,
        in_test,
        in_validation,
        seen=seen,
        description=description,
        n_purged=n_purged,
        test_impressions=test_impressions,
    )


def _find_start_of_share(time: AnyArray, share: float) -> Number:
    """Return the time at which the last ⌊n·share + ½⌋ interactions (or more, with ties) begin."""
    n_later = int(count_share(np.array(time.size), share))
    position = time.size - max(n_later, 1)
    start: Number = np.partition(time, position)[position]
    return start


def _check_parts_not_empty(parts: dict[str, BoolArray], time: AnyArray, first_test: Number) -> None:
    """Raise `InputError` if a part of the split has no rows."""
    for name, mask in parts.items():
        if not mask.any():
            raise InputError(
                f"the {name} part is empty: the {time.size:,} timestamps run from {format_time(time.min())} "
                f"to {format_time(time.max())} with {np.unique(time).size:,} distinct values, and the test "
                f"part starts at {format_time(first_test)}. Choose other shares, or start times in the unit "
                "of the timestamps (dates are nanoseconds since 1970)."
            )
