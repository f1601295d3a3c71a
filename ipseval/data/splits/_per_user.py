"""Splits of each user's interactions: a random or the latest share, or one left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from ipseval.data.interactions import Interactions
from ipseval.data.splits._rows import (
    LogLike,
    UserCuts,
    as_log,
    check_shares,
    share_of,
    split_rows,
    timestamps,
)
from ipseval.data.splits.split import Seen, Split, warn_about_leakage
from ipseval.errors import InputError
from ipseval.utils.checks import as_generator, check_callable, check_choice, check_positive_int, counted
from ipseval.utils.types import IntArray, RngLike

Order = Literal["random", "temporal"]


def split_random(
    log: LogLike,
    *,
    test_fraction: float = 0.2,
    validation_fraction: float = 0.0,
    rng: RngLike = None,
    seen: Seen = "exclude",
) -> Split:
    """Return a split that sends a random share of each user's interactions to test (and validation).

    A user with m interactions gets ⌊m·test_fraction + ½⌋ test and ⌊m·validation_fraction + ½⌋ validation
    pairs (test first, while any are left); users with few interactions may get none. Shares of 0.1 and 0.1
    give the usual 8:1:1.

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        Of an exposure log the clicked pairs are split; a frame is read by `ipseval.read`.
    test_fraction, validation_fraction : float
        Shares in (0, 1) and [0, 1); their sum must stay below 1.
    rng : int, Generator or None
        Source of randomness; the same seed and the same rows in the same order give the same split.
    seen : {"exclude", "include"}
        "include": training items compete, and may be test positives again; see `Split`.

    Raises
    ------
    InputError
        When a share is out of range, or no user has enough interactions to give one to test.

    Examples
    --------
    >>> import pandas as pd
    >>> log = Interactions.from_frame(pd.DataFrame({"user": [0] * 10, "item": range(10)}))
    >>> split_random(log, test_fraction=0.1, validation_fraction=0.1, rng=0)
    Split(8 train, 1 test, 1 validation; 1 user, 10 items; 1 cold item; random per user, 0.1 test, 0.1
    validation)
    """
    log = as_log(log)
    sizes, said = _shares(log, test_fraction, validation_fraction)
    split = _cut(_in_random_order(log, rng), *sizes, f"random per user, {said}", seen)
    return replace(split, is_random=True)


def split_temporal(
    log: LogLike,
    *,
    test_fraction: float = 0.2,
    validation_fraction: float = 0.0,
    seen: Seen = "exclude",
) -> Split:
    """Return a split that sends the latest share of each user's interactions to test.

    The order is each user's own: other users' training rows may be later, which is counted in `leakage` and
    warned about. `split_global_time` and `split_sliding` keep the future out.

    A user with m interactions gets ⌊m·test_fraction + ½⌋ test pairs, the latest ones, and
    ⌊m·validation_fraction + ½⌋ validation pairs, the latest before them (while any are left).
    Interactions of one user at the same time keep their row order: the later row counts as later.
    `n_tied_users` of the result counts the users whose cut fell between such rows.

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        Of an exposure log the clicked pairs are split; a frame is read by `ipseval.read`.
    test_fraction, validation_fraction, seen : see `split_random`

    Raises
    ------
    InputError
        When the log has no timestamps, a share is out of range, or no user has enough interactions.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [0, 0, 0, 0], "item": [7, 8, 9, 6], "time": [30, 10, 20, 30]})
    >>> split = split_temporal(Interactions.from_frame(frame, timestamp="time"), test_fraction=0.25)
    >>> split.test.to_frame()["item"].tolist(), split.n_tied_users
    ([6], 1)
    """
    log = as_log(log)
    cuts = _latest_first(log, "a split by time")
    sizes, said = _shares(log, test_fraction, validation_fraction)
    return _cut(cuts, *sizes, f"by time per user, {said}", seen)


def split_leave_one_out(
    log: LogLike,
    *,
    order: Order = "random",
    n_validation: int = 1,
    rng: RngLike = None,
    seen: Seen = "exclude",
) -> Split:
    """Return a split that leaves one interaction of each user out for test, and `n_validation` more.

    A user with fewer than n_validation + 2 interactions keeps them all in training and is not evaluated:
    `n_users_without_test` of the result counts such users. With one positive per user the self-normalised
    per-user estimator equals the plain average for every propensity.

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        Of an exposure log the clicked pairs are split; a frame is read by `ipseval.read`.
    order : {"random", "temporal"}
        Which interactions are left out: random ones, or the last (test) and the last but one, …
        (validation). Interactions of one user at the same time keep their row order: the later row counts
        as later. In temporal order, training rows of other users may be later: see `split_temporal`.
    n_validation : int
        Interactions of each user in the validation part; 0 for no such part.
    rng : int, Generator or None
        Source of randomness, only with order="random".
    seen : see `split_random`

    Raises
    ------
    InputError
        When no user has n_validation + 2 interactions, when timestamps are missing, or when `rng` is given
        although the order is temporal.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [0, 0, 0, 1], "item": [7, 8, 9, 7], "time": [30, 10, 20, 5]})
    >>> split = split_leave_one_out(Interactions.from_frame(frame, timestamp="time"), order="temporal")
    >>> split.test.to_frame()["item"].tolist(), split.n_users_without_test
    ([7], 1)
    """
    log = as_log(log)
    check_choice("order", order, ("random", "temporal"))
    n_left_out = 1 + check_positive_int("n_validation", n_validation, minimum=0)
    long_enough = log.activity > n_left_out
    if not long_enough.any():
        raise InputError(
            f"leave-one-out with {n_validation} validation pairs needs a user with {n_left_out + 1} "
            f"interactions; the longest has {int(log.activity.max())}. Lower n_validation."
        )
    n_test = long_enough.astype(np.int64)
    n_later = n_test * n_validation if n_validation else None
    description = f"leave-one-out, {order} order, {n_validation} validation"
    if order == "random":
        split = _cut(_in_random_order(log, rng), n_test, n_later, description, seen)
        return replace(split, is_random=True)
    if rng is not None:
        raise InputError("rng has no effect with order='temporal'; leave it out.")
    cuts = _latest_first(log, "leave-one-out in temporal order")
    return _cut(cuts, n_test, n_later, description, seen)


def _in_random_order(log: Interactions, rng: RngLike) -> UserCuts:
    return UserCuts.of(log, as_generator(rng).random(len(log)))


def _latest_first(log: Interactions, purpose: str) -> UserCuts:
    return UserCuts.of(log, timestamps(log, purpose), latest_first=True)


def _shares(
    log: Interactions, test_fraction: float, validation_fraction: float
) -> tuple[tuple[IntArray, IntArray | None], str]:
    """Return the numbers of test and validation pairs of each user, (n_users,), and the shares in words."""
    check_shares(test_fraction, validation_fraction)
    n_test = share_of(log.activity, test_fraction)
    if not n_test.any():
        most = int(log.activity.max())
        raise InputError(
            f"no user has enough interactions to give {test_fraction:.0%} of them to test (at most {most} "
            "per user); use a larger test_fraction or leave-one-out."
        )
    if not validation_fraction:
        return (n_test, None), f"{test_fraction:g} test"
    sizes = n_test, share_of(log.activity, validation_fraction)
    return sizes, f"{test_fraction:g} test, {validation_fraction:g} validation"


def _cut(
    cuts: UserCuts, n_test: IntArray, n_validation: IntArray | None, description: str, seen: Seen
) -> Split:
    """Return the split whose test rows are each user's first `n_test` in an order, then validation."""
    log = cuts.log
    in_test, tied = cuts.before(np.minimum(n_test, log.activity))
    in_train, in_validation = ~in_test, None
    if n_validation is not None:
        held_out, tied_below = cuts.before(np.minimum(n_test + n_validation, log.activity))
        in_train, in_validation, tied = ~held_out, held_out & ~in_test, tied | tied_below
    n_tied = int(tied.sum()) if cuts.latest_first else 0
    if n_tied:
        description += f", ties in time at the cut of {counted(n_tied, 'user')} broken by row order"
    split = split_rows(
        log, in_train, in_test, in_validation, seen=seen, description=description, n_tied_users=n_tied
    )
    if cuts.latest_first:
        warn_about_leakage(split.leakage)
    return split


def repeated_splits(
    log: LogLike,
    n_repeats: int = 5,
    *,
    method: Callable[..., Split] = split_random,
    rng: RngLike = None,
    **options: Any,
) -> Iterator[Split]:
    """Return an iterator over `n_repeats` independent random splits of a log, one in memory at a time.

    Repeat r gets the r-th child of `rng`, so the first repeats are the same whatever `n_repeats` is.

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        Of an exposure log the clicked pairs are split; a frame is read by `ipseval.read`.
    method : function
        `split_random`, `split_leave_one_out`, or any function of a log with an `rng` keyword.
    rng : int, Generator or None
        Source of randomness.
    **options
        Passed on to `method`, for example `test_fraction=0.1, validation_fraction=0.1`.

    Examples
    --------
    >>> import pandas as pd
    >>> log = Interactions.from_frame(pd.DataFrame({"user": [0] * 10, "item": range(10)}))
    >>> [len(split.test) for split in repeated_splits(log, 3, test_fraction=0.3, rng=0)]
    [3, 3, 3]
    """
    check_callable("method", method)
    n_repeats = check_positive_int("n_repeats", n_repeats)
    children = as_generator(rng).spawn(n_repeats)

    def generate() -> Iterator[Split]:
        for number, child in enumerate(children, start=1):
            split = method(log, rng=child, **options)
            yield replace(split, description=f"{split.description}, repeat {number} of {n_repeats}")

    return generate()
