"""Users without a list, and lists that are too short: counted, named, and settled for all models alike."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ipseval._base.checks import warn_user
from ipseval._base.counts import Count, some
from ipseval._base.types import IntArray, Missing
from ipseval.errors import DataWarning, InputError
from ipseval.ranking._ranked import RankedPositives


def settle_lists(
    ranks: Mapping[str, RankedPositives], missing: Missing, depth: int
) -> dict[str, RankedPositives]:
    """Return the ranks with lists padded to `depth`, after what `missing` says of users without a list.

    "zero": they count as misses; "drop": they leave the population of every model, with or without positives,
    so that none is compared on other users; "raise": `check_lists` does, over all users. `depth` is the
    largest cutoff of the metrics, at least 1.
    """
    lists = [one.list_length == 0 for one in ranks.values() if one.list_length is not None]
    if missing == "drop" and lists:
        left_out = np.logical_or.reduce(lists)
        ranks = {name: one.leaving_out(left_out) for name, one in ranks.items()}
    return {name: one.padded(depth) for name, one in ranks.items()}


def check_lists(
    counts: Mapping[str, IntArray], missing: Missing, n_left_out: int, units: str = "users"
) -> None:
    """Raise or warn of users without a list; `counts`: model -> `list_counts` of its settled ranks.

    `units`: "users", or "queries" where lists are of queries; so below.

    A warning names the models that lack lists of users, and those whose lists are all shorter than counted.

    Raises
    ------
    InputError
        With "raise" where a user with test positives has no list, and with "drop" where nobody is left.
    """
    text = _missing_text(counts, units)
    if text and missing == "raise":
        raise InputError(f"{text} Make the lists, or pass missing='zero' or missing='drop'.")
    if n_left_out and not next(iter(counts.values())).sum():
        raise InputError(f"no {units} with test positives have a list of every model; nobody is left.")
    if text:
        text += f" These {units} count as misses. missing='drop' leaves them out of every model."
        warn_user(text, DataWarning)
    short = [repr(name) for name, one in counts.items() if not one[-1]]
    if short:
        warn_user(
            f"every list of {', '.join(short)} is shorter than {next(iter(counts.values())).size - 1}, the "
            "largest cutoff; what is missing counts as misses.",
            DataWarning,
        )


def _missing_text(counts: Mapping[str, IntArray], units: str) -> str:
    detail = [
        f"{name!r} lacks {one[0]:,} ({one[0] / one.sum():.1%})" for name, one in counts.items() if one[0]
    ]
    if not detail:
        return ""
    n_users = next(iter(counts.values())).sum()
    whole = f"{n_users:,} {units} with test positives"
    return f"top-K lists are missing for some of the {whole}: {'; '.join(detail)}."


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
