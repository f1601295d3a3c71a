"""Checks whether the order of recommendation lists fits its role: ranks from 1, or scores."""

from __future__ import annotations

import numpy as np

from ipseval.data.reading._role_checks import MIN_ROWS, RoleProblem
from ipseval.errors import Problem
from ipseval.utils.types import AnyArray, IntArray

MIN_LISTS = 2  # lists of two entries or more, of which ranks must be visible before scores are doubted


def check_ranks(ranks: AnyArray, column: str) -> RoleProblem | None:
    """Return the problem of ranks that cannot be positions in a list; None if there is none."""
    known_ranks = ranks[~np.isnan(ranks)]
    doubled = 2 * known_ranks  # tied entries may share a rank such as 2.5
    is_position = (known_ranks >= 0) & (doubled == np.floor(doubled))
    if is_position.all():
        return None
    problem = Problem(
        f"column {column!r} must hold ranks, as its name says; got {known_ranks[~is_position][0]:g} in the "
        f"first of {int((~is_position).sum()):,} entries that cannot be positions in a list",
        f"Name it by {{rank={column}}} if the smallest is the best, or by {{score={column}}} if the largest is",
    )
    return RoleProblem(problem, is_error=True)


def check_scores(scores: AnyArray, users: IntArray, column: str) -> RoleProblem | None:
    """Return the problem of scores that are 1, 2, 3, … down each list, as ranks are; None if there is none.

    Parameters
    ----------
    scores : (n,) array
        Scores in the order of the entries of the source.
    users : (n,) int array
        Code of the user of each entry.
    column : str
        Name of the column of scores.
    """
    by_user = np.argsort(users, kind="stable")
    sorted_users = users[by_user]
    list_starts = np.searchsorted(sorted_users, sorted_users)
    positions = np.arange(1, users.size + 1) - list_starts
    if not np.array_equal(scores[by_user], positions):
        return None
    n_lists = int(np.count_nonzero(positions == 2))
    if n_lists < MIN_LISTS:
        return None
    problem = Problem(
        f"column {column!r} must hold scores, as its name says, of which the highest is the best; got 1, 2, 3, "
        "… down each list, as ranks are written",
        f"Name it by {{rank={column}}} if 1 is the best, or by {{score={column}}} if the highest is",
    )
    return RoleProblem(problem, is_error=users.size >= MIN_ROWS)
