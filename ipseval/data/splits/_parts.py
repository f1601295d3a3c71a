"""The parts of a split, from the rows of a log that may repeat pairs."""

from __future__ import annotations

import numpy as np

from ipseval._base.checks import check_choice, warn_user
from ipseval._base.keys import among
from ipseval._base.types import BoolArray, IntArray
from ipseval.data._interactions import Interactions
from ipseval.data.splits._base import SEEN, Seen, Split, made
from ipseval.errors import DataWarning, InputError


def split_rows(
    log: Interactions,
    in_train: BoolArray,
    in_test: BoolArray,
    in_validation: BoolArray | None,
    *,
    seen: Seen,
    description: str,
    n_tied_users: int = 0,
    n_purged: int = 0,
) -> Split:
    """Return the split of these rows (n,) of a log; `in_validation` None: no such part.

    Rows of test, and of validation, that repeat a pair are merged; those of training stay, as n* counts them.
    With seen="exclude", held-out pairs that are in an earlier part are left out, counted, and named in a
    warning: training items are no candidates.
    """
    check_choice("seen", seen, SEEN)
    train, whole = log.select(in_train), log.select(in_test)
    test, n_dropped = whole.distinct, 0
    validation = None if in_validation is None else log.select(in_validation).distinct
    if log.repeats and seen == "exclude":
        earlier = train.pair_key
        if validation is not None:
            validation = _new(validation, earlier, "validation")
            earlier = np.concatenate([earlier, validation.pair_key])
        n_before, test = len(test), _new(test, earlier, "test")
        n_dropped = n_before - len(test)
    make = Split if log.repeats else made  # parts of distinct pairs are disjoint
    return make(
        train,
        test,
        validation=validation,
        description=description,
        n_overlap_dropped=n_dropped,
        n_tied_users=n_tied_users,
        n_purged=n_purged,
        seen=seen,
        n_repeats_merged=whole.n_repeats,
    )


def _new(part: Interactions, earlier: IntArray, name: str) -> Interactions:
    """Return the pairs of a part that are not in an earlier part."""
    is_new = ~among(part.pair_key, earlier)
    n_repeated = int((~is_new).sum())
    text = (
        f"{n_repeated:,} of {len(part):,} {name} pairs are in an earlier part too and are left out: training "
        "items are no candidates. With seen='include' they are, and these pairs stay."
    )
    if n_repeated and n_repeated == len(part):
        raise InputError(text)
    if n_repeated:
        warn_user(text, DataWarning)
    return part.select(is_new)
