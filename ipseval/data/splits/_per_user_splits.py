"""Splits of the interactions of each user: a random share, the latest share, or one left out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from ipseval.data.interactions import Interactions
from ipseval.data.reading.rating_scale import Threshold
from ipseval.data.splits._inputs import (
    LogLike,
    check_shares,
    count_share,
    get_timestamps,
    to_interactions,
)
from ipseval.data.splits._leakage import warn_about_leakage
from ipseval.data.splits._split_builder import build_split
from ipseval.data.splits._user_order import UserOrder
from ipseval.data.splits.split import Seen, Split
from ipseval.errors import InputError
from ipseval.utils.checks import as_generator, check_callable, check_choice, check_positive_int, format_count
from ipseval.utils.public import public_function
from ipseval.utils.types import IntArray, RngLike

Order: TypeAlias = Literal["random", "temporal"]


@public_function
def split_random(
    log: LogLike,
    *,
    test_fraction: float = 0.2,
    validation_fraction: float = 0.0,
    rng: RngLike = None,
    seen: Seen = "exclude",
    threshold: Threshold | None = None,
) -> Split:
    """Return a split with a random share of the interactions of each user for test (and validation).

    A user with m interactions gets ⌊m·test_fraction + ½⌋ test and ⌊m·validation_fraction + ½⌋ validation
    pairs (test first, while any are left); users with few interactions may get none. Shares of 0.1 and 0.1
    give the usual ratio of 8:1:1.

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        The log. The clicked pairs of an impression log are split; a frame is read by `ipseval.read`.
    test_fraction, validation_fraction : float
        Shares in (0, 1) and [0, 1), whose sum must be below 1. Default: 0.2 and 0.
    rng : int, Generator or None
        Source of randomness. With the same seed, the same rows in another order give another split; sort them
        by user and item before the split if their order may change.
    seen : {"exclude", "include"}
        Whether training items are excluded from the candidates (default). With "include", they compete and
        may be test positives again; see `Split`.
    threshold : float, "all" or None
        Smallest value of a positive, as in `ipseval.read`; for data that are not a log yet.

    Returns
    -------
    Split
        The split.

    Raises
    ------
    InputError
        If a share is out of range, or no user has enough interactions to give one to test.

    See Also
    --------
    split_temporal : Hold out the latest interactions of each user.
    split_leave_one_out : Hold out one interaction of each user.
    split_global_time : Hold out all interactions after one time.

    Examples
    --------
    >>> import pandas as pd
    >>> log = Interactions.from_frame(pd.DataFrame({"user": [0] * 10, "item": range(10)}))
    >>> split_random(log, test_fraction=0.1, validation_fraction=0.1, rng=0)
    Split(8 train, 1 test, 1 validation; 1 user, 10 items; 1 cold item; random per user, 0.1 test, 0.1
    validation)
    """
    interactions = to_interactions(log, threshold)
    sizes = _PartSizes.from_fractions(interactions, test_fraction, validation_fraction)
    order = _order_randomly(interactions, rng)
    split = _split_in_order(order, sizes, f"random per user, {sizes.description}", seen)
    return replace(split, is_random=True)


@public_function
def split_temporal(
    log: LogLike,
    *,
    test_fraction: float = 0.2,
    validation_fraction: float = 0.0,
    seen: Seen = "exclude",
    threshold: Threshold | None = None,
) -> Split:
    """Return a split with the latest share of the interactions of each user for test (and validation).

    The cut is at a different time for each user. Training rows of other users may therefore be later than a
    test row; `leakage` of the result counts them, and a warning reports them. `split_global_time` and
    `split_sliding` prevent this.

    A user with m interactions gets ⌊m·test_fraction + ½⌋ test pairs, the latest ones, and
    ⌊m·validation_fraction + ½⌋ validation pairs, the latest before them (while any are left).
    Interactions of one user at the same time keep their row order: the later row counts as later.
    `n_tied_users` of the result counts the users whose cut fell between such rows.

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        The log. The clicked pairs of an impression log are split; a frame is read by `ipseval.read`.
    test_fraction, validation_fraction : float
        Shares in (0, 1) and [0, 1), whose sum must be below 1. Default: 0.2 and 0.
    seen : {"exclude", "include"}
        Whether training items are excluded from the candidates (default), as in `split_random`.
    threshold : float, "all" or None
        Smallest value of a positive, as in `ipseval.read`; for data that are not a log yet.

    Returns
    -------
    Split
        The split.

    Raises
    ------
    InputError
        If the log has no timestamps, a share is out of range, or no user has enough interactions.

    Warns
    -----
    DataWarning
        If test rows have later training rows.

    See Also
    --------
    split_global_time : Hold out all interactions after one time.
    split_sliding : Make splits at successive times.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [0, 0, 0, 0], "item": [7, 8, 9, 6], "time": [30, 10, 20, 30]})
    >>> split = split_temporal(Interactions.from_frame(frame, timestamp="time"), test_fraction=0.25)
    >>> split.test.to_frame()["item"].tolist(), split.n_tied_users
    ([6], 1)
    """
    interactions = to_interactions(log, threshold)
    order = _order_latest_first(interactions, "a split by time")
    sizes = _PartSizes.from_fractions(interactions, test_fraction, validation_fraction)
    return _split_in_order(order, sizes, f"by time per user, {sizes.description}", seen)


@public_function
def split_leave_one_out(
    log: LogLike,
    *,
    order: Order = "random",
    n_validation: int = 1,
    rng: RngLike = None,
    seen: Seen = "exclude",
    threshold: Threshold | None = None,
) -> Split:
    """Return a split with one interaction of each user for test, and `n_validation` for validation.

    A user with fewer than n_validation + 2 interactions keeps all of them in training and is not evaluated;
    `n_users_without_test` of the result counts such users. With one positive per user, the self-normalised
    estimator per user equals the unweighted average (AOA) for every propensity.

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        The log. The clicked pairs of an impression log are split; a frame is read by `ipseval.read`.
    order : {"random", "temporal"}
        Whether random interactions are left out (default), or the last one (test) and the ones before it
        (validation). Interactions of one user at the same time keep their row order: the later row counts as
        later. In temporal order, training rows of other users may be later; see `split_temporal`.
    n_validation : int
        Number of interactions of each user in the validation part; 0 for no such part. Default: 1.
    rng : int, Generator or None
        Source of randomness, only with order="random". With the same seed, the same rows in another order give
        another split, as in `split_random`. In temporal order, the order of rows matters only at the same time.
    seen : {"exclude", "include"}
        See `split_random`.
    threshold : float, "all" or None
        Smallest value of a positive, as in `ipseval.read`; for data that are not a log yet.

    Returns
    -------
    Split
        The split.

    Raises
    ------
    InputError
        If no user has n_validation + 2 interactions, if timestamps are missing, or if `rng` is passed for a
        temporal order.

    See Also
    --------
    split_random : Hold out a random share of the interactions of each user.
    split_temporal : Hold out the latest share of the interactions of each user.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": [0, 0, 0, 1], "item": [7, 8, 9, 7], "time": [30, 10, 20, 5]})
    >>> split = split_leave_one_out(Interactions.from_frame(frame, timestamp="time"), order="temporal")
    >>> split.test.to_frame()["item"].tolist(), split.n_users_without_test
    ([7], 1)
    """
    interactions = to_interactions(log, threshold)
    check_choice("order", order, ("random", "temporal"))
    n_left_out = 1 + check_positive_int("n_validation", n_validation, minimum=0)
    has_enough = interactions.activity > n_left_out
    if not has_enough.any():
        raise InputError(
            f"leave-one-out with {n_validation} validation pairs needs a user with {n_left_out + 1} "
            f"interactions; the longest has {int(interactions.activity.max())}.",
            advice="Lower {n_validation}",
        )
    n_test = has_enough.astype(np.int64)
    sizes = _PartSizes(
        n_test=n_test,
        n_validation=n_test * n_validation if n_validation else None,
        description=f"leave-one-out, {order} order, {n_validation} validation",
    )
    if order == "random":
        split = _split_in_order(_order_randomly(interactions, rng), sizes, sizes.description, seen)
        return replace(split, is_random=True)
    if rng is not None:
        raise InputError("has no effect in temporal order. Leave it out.", argument="rng")
    latest_first = _order_latest_first(interactions, "leave-one-out in temporal order")
    return _split_in_order(latest_first, sizes, sizes.description, seen)


def _order_randomly(log: Interactions, rng: RngLike) -> UserOrder:
    """Return the interactions of each user in random order."""
    return UserOrder.from_key(log, as_generator(rng).random(len(log)))


def _order_latest_first(log: Interactions, purpose: str) -> UserOrder:
    """Return the interactions of each user in order of time, the latest first."""
    return UserOrder.from_key(log, get_timestamps(log, purpose), latest_first=True)


@dataclass(frozen=True, eq=False)
class _PartSizes:
    """Store the numbers of test and validation pairs of each user, (n_users,), and their description."""

    n_test: IntArray
    n_validation: IntArray | None
    description: str

    @classmethod
    def from_fractions(
        cls, log: Interactions, test_fraction: float, validation_fraction: float
    ) -> _PartSizes:
        """Return the sizes for shares of the interactions of each user."""
        check_shares(test_fraction, validation_fraction)
        n_test = count_share(log.activity, test_fraction)
        if not n_test.any():
            max_activity = int(log.activity.max())
            raise InputError(
                f"no user has enough interactions to give {test_fraction:.0%} of them to test (at most "
                f"{max_activity} per user).",
                advice="Use a larger {test_fraction}, or leave-one-out",
            )
        if not validation_fraction:
            return cls(n_test, None, f"{test_fraction:g} test")
        n_validation = count_share(log.activity, validation_fraction)
        return cls(n_test, n_validation, f"{test_fraction:g} test, {validation_fraction:g} validation")


def _split_in_order(order: UserOrder, sizes: _PartSizes, description: str, seen: Seen) -> Split:
    """Return the split with the first rows of each user as test rows, and the next as validation rows."""
    log = order.log
    in_test, is_tied = order.select_first(np.minimum(sizes.n_test, log.activity))
    in_validation = None
    in_train = ~in_test
    if sizes.n_validation is not None:
        n_held_out = np.minimum(sizes.n_test + sizes.n_validation, log.activity)
        is_held_out, is_tied_below = order.select_first(n_held_out)
        in_validation = is_held_out & ~in_test
        in_train = ~is_held_out
        is_tied = is_tied | is_tied_below
    if not order.latest_first:
        return build_split(log, in_train, in_test, in_validation, seen=seen, description=description)
    n_tied = int(is_tied.sum())
    if n_tied:
        description += f", ties in time at the cut of {format_count(n_tied, 'user')} broken by row order"
    split = build_split(
        log, in_train, in_test, in_validation, seen=seen, description=description, n_tied_users=n_tied
    )
    warn_about_leakage(split.leakage)
    return split


@public_function
def repeated_splits(
    log: LogLike,
    n_repeats: int = 5,
    *,
    method: Callable[..., Split] = split_random,
    rng: RngLike = None,
    **options: Any,
) -> Iterator[Split]:
    """Iterate over independent random splits of a log, with one split in memory at a time.

    Repeat r uses the r-th child of `rng`, so that the first repeats do not depend on `n_repeats`.

    Parameters
    ----------
    log : Interactions, ImpressionLog or data frame
        The log. The clicked pairs of an impression log are split; a frame is read by `ipseval.read`.
    n_repeats : int
        Number of splits. Default: 5.
    method : function
        `split_random` (default), `split_leave_one_out`, or any function of a log with an `rng` keyword.
    rng : int, Generator or None
        Source of randomness.
    **options
        Options of `method`, for example `test_fraction=0.1, validation_fraction=0.1`.

    Returns
    -------
    iterator of Split
        One split per repetition; each is made when the iteration reaches it.

    See Also
    --------
    ipseval.split_random : Make one random split.

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

    def generate_splits() -> Iterator[Split]:
        for number, child in enumerate(children, start=1):
            split = method(log, rng=child, **options)
            yield replace(split, description=f"{split.description}, repeat {number} of {n_repeats}")

    return generate_splits()
