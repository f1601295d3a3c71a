"""Users without a top-K list, and lists that are shorter than a cutoff: checks, counts and notes."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ipseval.errors import DataWarning, InputError
from ipseval.ranking.ranked_positives import RankedPositives
from ipseval.utils.checks import warn_user
from ipseval.utils.notes import Count, Note, drop_zero_counts
from ipseval.utils.types import IntArray, Missing


def resolve_missing(
    ranks: Mapping[str, RankedPositives], missing: Missing, depth: int
) -> dict[str, RankedPositives]:
    """Return the ranks with lists padded to `depth`, and users without a list treated as `missing` says.

    With "drop", a user without a list by some model is excluded from the population of every model, so that
    all models are compared on the same users.
    """
    if missing == "drop":
        lacks_list = []
        for model_ranks in ranks.values():
            if model_ranks.list_length is not None:
                lacks_list.append(model_ranks.list_length == 0)

        if lacks_list:
            left_out = np.logical_or.reduce(lacks_list)
            ranks = {name: model_ranks.exclude_users(left_out) for name, model_ranks in ranks.items()}
    padded_ranks: dict[str, RankedPositives] = {}
    for name, model_ranks in ranks.items():
        padded_ranks[name] = model_ranks.pad_lists(depth)

    return padded_ranks


def check_lists(
    counts: Mapping[str, IntArray], missing: Missing, n_left_out: int, units: str = "users"
) -> None:
    """Raise or warn about users without a list, and about short lists.

    `counts` holds `RankedPositives.list_counts` of each model. `units` is "users", or "queries" if the lists
    belong to queries; the same holds for the functions below.
    """
    n_units = int(next(iter(counts.values())).sum())
    _check_coverage(counts, units)

    n_missing = {}
    for name, count in counts.items():
        if count[0]:
            n_missing[name] = int(count[0])

    shares = "; ".join(f"{name!r} lacks {n:,} ({n / n_units:.1%})" for name, n in n_missing.items())
    text = f"top-K lists are missing for some of the {n_units:,} {units} with test positives: {shares}."
    if n_missing and missing == "raise":
        raise InputError(text, advice="Make the lists, or pass {missing_lists=zero} or {missing_lists=drop}")
    if n_left_out and not n_units:
        raise InputError(f"no {units} with test positives have a list of every model; nobody is left.")
    if n_missing:
        warn_user(
            f"{text} These {units} count as misses.",
            DataWarning,
            advice="Pass {missing_lists=drop} to leave them out of every model",
        )
    _warn_about_short_lists(counts)


def _warn_about_short_lists(counts: Mapping[str, IntArray]) -> None:
    """Warn about models with no list as long as the largest cutoff."""
    names = []
    for name, count in counts.items():
        if not count[-1]:
            names.append(repr(name))

    if names:
        cutoff = next(iter(counts.values())).size - 1
        warn_user(
            f"every list of {', '.join(names)} is shorter than {cutoff}, the largest cutoff; what is missing "
            "counts as misses.",
            DataWarning,
        )


def _check_coverage(counts: Mapping[str, IntArray], units: str) -> None:
    """Raise `InputError` for lists that cover none of the users with test positives."""
    names_without_lists = []
    for name, count in counts.items():
        if count.sum() and count[0] == count.sum():
            names_without_lists.append(name)

    if names_without_lists:
        n_units = int(counts[names_without_lists[0]].sum())
        names = ", ".join(map(repr, names_without_lists))
        raise InputError(
            f"the lists of {names} must contain {units} with held-out interactions; got lists of none of "
            f"these {n_units:,} {units}. Check that lists and test part have the same ids."
        )


def count_short_lists(counts: IntArray, depth: int, units: str = "users") -> tuple[Count, ...]:
    """Return the numbers of users without a list, and with a list shorter than `depth`."""
    n_units = int(counts.sum())
    return drop_zero_counts(
        Count(f"{units} with test positives and no list, counted as misses", int(counts[0]), n_units),
        Count(
            f"lists shorter than {depth}, padded with misses",
            int(counts[1:depth].sum()),
            n_units - int(counts[0]),
        ),
    )


def collect_list_notes(
    counts: IntArray, cutoff: int | None, *, n_left_out: int = 0, units: str = "users"
) -> list[Note]:
    """Return the notes of an estimate about missing and short lists, from `RankedPositives.list_counts`."""
    notes = []
    n_units = int(counts.sum())
    if counts[0]:
        notes.append(Note.create("no_list", n=int(counts[0]), n_all=n_units, units=units))
    n_short = 0
    if cutoff is not None:
        n_short = int(counts[1:cutoff].sum())
    if n_short:
        n_lists = n_units - int(counts[0])
        notes.append(Note.create("short_lists", n=n_short, n_all=n_lists, cutoff=cutoff))
    if n_left_out:
        notes.append(Note.create("no_list_of_some_model", n=n_left_out, units=units))
    return notes
