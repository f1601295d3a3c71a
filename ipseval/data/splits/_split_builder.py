"""Splits that are built from the rows of a log."""

from __future__ import annotations

import numpy as np

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.interactions import Interactions
from ipseval.data.splits.split import NO_POSITIVE, SEEN, Seen, Split
from ipseval.errors import DataWarning, InputError
from ipseval.utils.checks import check_choice, warn_user
from ipseval.utils.ids import is_member
from ipseval.utils.types import BoolArray, IntArray, build_unchecked


def build_split(
    log: Interactions,
    in_train: BoolArray,
    in_test: BoolArray,
    in_validation: BoolArray | None,
    *,
    seen: Seen,
    description: str,
    n_tied_users: int = 0,
    n_purged: int = 0,
    test_impressions: ImpressionLog | None = None,
) -> Split:
    """Return the split of the rows of a log.

    Parameters
    ----------
    log : Interactions
        The log.
    in_train, in_test, in_validation : (n,) bool arrays
        Rows of each part; `in_validation` is None for a split without validation.
    seen : {"exclude", "include"}
        Whether training items are excluded from the candidates. If they are, held-out pairs of an earlier
        part are left out, counted and reported by a warning.
    description : str
        How the split was made.
    n_tied_users, n_purged : int
        See `Split`.
    test_impressions : ImpressionLog or None
        The impressions that could produce the test part; None: those of the log.
    """
    # Training rows that repeat a pair stay, because n* counts them. Repeats in the other parts are merged.
    check_choice("seen", seen, SEEN)
    train = log.select(in_train)
    test_rows = log.select(in_test)
    if test_impressions is not None:
        test_rows = test_rows._replace_unchecked(impressions=test_impressions)
    test = test_rows.distinct
    validation = None
    if in_validation is not None:
        validation = log.select(in_validation).distinct
    n_dropped = 0
    if log.repeats and seen == "exclude":
        earlier_keys = train.pair_key
        if validation is not None:
            validation = _remove_earlier_pairs(validation, earlier_keys, "validation")
            earlier_keys = np.concatenate([earlier_keys, validation.pair_key])
        test = _remove_earlier_pairs(test, earlier_keys, "test")
        n_dropped = len(test_rows.distinct) - len(test)
    if not len(test):
        raise InputError(NO_POSITIVE)
    # The parts need no check: they have the ids of one log, and no pair of an earlier part.
    return build_unchecked(
        Split,
        train=train,
        test=test,
        validation=validation,
        description=description,
        n_overlap_dropped=n_dropped,
        n_tied_users=n_tied_users,
        n_purged=n_purged,
        seen=seen,
        n_repeats_merged=test_rows.n_repeats,
    )


def _remove_earlier_pairs(part: Interactions, earlier_keys: IntArray, name: str) -> Interactions:
    """Return the pairs of a part that are in no earlier part; warn about the other pairs."""
    is_new = ~is_member(part.pair_key, earlier_keys)
    n_removed = int((~is_new).sum())
    if n_removed:
        text = (
            f"{n_removed:,} of {len(part):,} {name} pairs are in an earlier part too and are left out: "
            "training items are not candidates."
        )
        advice = "With {seen=include} they are, and these pairs stay"
        if n_removed == len(part):
            raise InputError(text, advice=advice)
        warn_user(text, DataWarning, advice=advice)
    return part.select(is_new)
