"""What a table of recommenders must have in common: positives, candidates, and users with lists."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError
from ipseval.ranking.ranked_positives import RankedPositives
from ipseval.utils.checks import check_models, warn_user
from ipseval.utils.counts import Count, some
from ipseval.utils.ids import among, same_ids
from ipseval.utils.types import IntArray, Missing


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
        if not (same and same_ids(ranked, first)):
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
    if not same_ids(ranked, split):
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


def resolve_missing(
    ranks: Mapping[str, RankedPositives], missing: Missing, depth: int
) -> dict[str, RankedPositives]:
    """Return the ranks with lists padded to `depth`, after what `missing` says of users without a list."""
    # "drop": they leave the population of every model, so that none is compared on other users.
    lists = [one.list_length == 0 for one in ranks.values() if one.list_length is not None]
    if missing == "drop" and lists:
        left_out = np.logical_or.reduce(lists)
        ranks = {name: one.leaving_out(left_out) for name, one in ranks.items()}
    return {name: one.padded(depth) for name, one in ranks.items()}


def check_lists(
    counts: Mapping[str, IntArray], missing: Missing, n_left_out: int, units: str = "users"
) -> None:
    """Raise or warn of users without a list, and of short lists; `counts`: model -> `list_counts`."""
    # `units`: "users", or "queries" where lists are of queries; so below.
    n_all = int(next(iter(counts.values())).sum())
    _check_coverage(counts, units)
    lacking = [f"{name!r} lacks {one[0]:,} ({one[0] / n_all:.1%})" for name, one in counts.items() if one[0]]
    text = f"top-K lists are missing for some of the {n_all:,} {units} with test positives: "
    text = f"{text}{'; '.join(lacking)}." if lacking else ""
    if text and missing == "raise":
        raise InputError(f"{text} Make the lists, or pass missing_lists='zero' or missing_lists='drop'.")
    if n_left_out and not n_all:
        raise InputError(f"no {units} with test positives have a list of every model; nobody is left.")
    for name, one in counts.items():
        if n_all and one[0] == n_all:
            raise InputError(
                f"the lists of {name!r} must cover at least one of the {units} with test positives; "
                f"got lists for none of {n_all:,}. Check that the lists and the log have the same user ids, "
                "and that the lists were made for this split."
            )
    if text:
        text += f" These {units} count as misses. missing_lists='drop' leaves them out of every model."
        warn_user(text, DataWarning)
    short = [repr(name) for name, one in counts.items() if not one[-1]]
    if short:
        warn_user(
            f"every list of {', '.join(short)} is shorter than {next(iter(counts.values())).size - 1}, the "
            "largest cutoff; what is missing counts as misses.",
            DataWarning,
        )


def _check_coverage(counts: Mapping[str, IntArray], units: str) -> None:
    """Raise `InputError` for lists that cover none of the users with test positives."""
    without = [name for name, count in counts.items() if count.sum() and count[0] == count.sum()]
    if without:
        n_all = int(counts[without[0]].sum())
        names = ", ".join(map(repr, without))
        raise InputError(
            f"the lists of {names} must contain {units} with held-out interactions; got lists of none of "
            f"these {n_all:,} {units}. Check that lists and test part have the same ids."
        )


def list_count(counts: IntArray, depth: int, units: str = "users") -> tuple[Count, ...]:
    """Return the users without a list, and with a shorter one than `depth`, from `list_counts`."""
    size = int(counts.sum())
    return some(
        Count(f"{units} with test positives and no list, counted as misses", int(counts[0]), size),
        Count(f"lists shorter than {depth}, padded with misses", int(counts[1:depth].sum()), size),
    )


def list_notes(
    counts: IntArray, cutoff: int | None, *, n_left_out: int = 0, units: str = "users"
) -> list[str]:
    """Return what an estimate must say of missing and short lists, from `RankedPositives.list_counts`."""
    notes, size = [], int(counts.sum())
    if counts[0]:
        notes.append(f"{counts[0]:,} of {size:,} {units} have no list and count as misses")
    n_short = 0 if cutoff is None else int(counts[1:cutoff].sum())
    if n_short:
        notes.append(f"{n_short:,} of {size:,} lists are shorter than {cutoff}, padded with misses")
    if n_left_out:
        notes.append(f"{n_left_out:,} {units} without a list by some model are left out of all")
    return notes
