"""What a table of recommenders must have in common: names, positives, candidates."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ipseval._base.checks import check_models
from ipseval._base.ids import among
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking._ranked import RankedPositives


def check_same_positives(ranks: Mapping[str, RankedPositives]) -> None:
    """Raise `InputError` unless all rank the same positives, at least one, among the same candidates."""
    check_models(ranks, "ranks", "RankedPositives")
    for name, ranked in ranks.items():
        if not isinstance(ranked, RankedPositives):
            raise InputError(
                f"{name!r} must be RankedPositives, made by rank_positives; got {type(ranked).__name__}."
            )
    first_name, first = next(iter(ranks.items()))
    if not len(first):
        raise InputError("there is no positive to evaluate.")
    for name, ranked in ranks.items():
        if ranked is first:
            continue
        same = len(ranked) == len(first) and np.array_equal(ranked.user, first.user)
        same = same and np.array_equal(ranked.item, first.item)
        same = same and np.array_equal(ranked.unit(ranked.users), first.unit(first.users))
        if not (same and _same_ids(ranked, first)):
            raise InputError(
                f"{name!r} and {first_name!r} rank different test positives ({len(ranked):,} and "
                f"{len(first):,}); rank all recommenders on one split."
            )
        if ranked.candidates != first.candidates or not np.array_equal(
            ranked.n_candidates, first.n_candidates
        ):
            raise InputError(
                f"{name!r} is ranked among other candidates ({ranked.candidates}) than {first_name!r} "
                f"({first.candidates}); ranks of one table must come from the same candidates."
            )


def check_belongs(ranked: RankedPositives, split: Split, name: str) -> None:
    """Raise `InputError` when ranks that were made before are not of test positives of this split."""
    if not _same_ids(ranked, split):
        raise InputError(
            f"{name!r} is ranked over {ranked.user_ids.size:,} users and {ranked.item_ids.size:,} items that "
            f"are not the {split.n_users:,} and {split.n_items:,} of the split; rank it again on this split."
        )
    keys = ranked.user * np.int64(split.n_items) + ranked.item
    n_other = int((~among(keys, split.test.pair_key)).sum())
    if n_other:
        raise InputError(
            f"{name!r}: {n_other:,} of {keys.size:,} ranked positives are not in the test part of the split; "
            "rank it again on this split."
        )


def _same_ids(one: RankedPositives, other: RankedPositives | Split) -> bool:
    return np.array_equal(one.user_ids, other.user_ids) and np.array_equal(one.item_ids, other.item_ids)
