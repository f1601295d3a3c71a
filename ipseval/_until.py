"""Ranking of users in random order until intervals are narrow enough."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
from scipy.special import ndtr

from ipseval._checks import as_generator, check_choice, counted
from ipseval._counts import RESULT, Count, some
from ipseval._reduction import Reduction
from ipseval._requests import Request
from ipseval._types import IntArray
from ipseval.errors import InputError
from ipseval.inference._comparisons import difference_reach
from ipseval.inference._intervals import normal_interval
from ipseval.inference._looks import STEP, Until, boundary, planned
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.splits import Split
from ipseval.splits._base import made


@dataclass(frozen=True, eq=False)
class Stopped:
    """What was ranked when intervals were narrow enough, or all users were.

    Attributes
    ----------
    ranks : dict
        Recommender -> the ranks of the positives of the users that were ranked.
    looks : tuple of int
        Users that were ranked at each look.
    n_users : int
        Users with test positives.
    level : float
        Confidence level of each interval at the last look, so that it is the one asked for over all looks.
    text : str
        How it ended, in words.
    """

    ranks: dict[str, RankedPositives]
    looks: tuple[int, ...]
    n_users: int
    level: float
    text: str

    @property
    def counted(self) -> tuple[Count, ...]:
        """The users that were left unranked."""
        n_left = self.n_users - self.looks[-1]
        return some(Count("users with test positives, not ranked", n_left, self.n_users, RESULT))


def check_until(
    until: Any, models: Mapping[str, Any], request: Request, candidates: Any, needs_all: Mapping[str, Any]
) -> Until | None:
    """Return what `until` asks for, or raise `InputError` where some users alone cannot be evaluated.

    `needs_all`: options that need all users -> what is given, or None.
    """
    if until is None:
        return None
    asked = until if isinstance(until, Until) else Until(until)
    sampled = None if isinstance(candidates, str) and candidates == "all" else candidates
    for name, given in (*needs_all.items(), ("a choice of candidates", sampled)):
        if given is not None:
            raise InputError(f"until= ranks some of the users, and {name} needs all of them; leave one out.")
    if request.interval != "normal":
        raise InputError("until= stops by standard errors; leave interval at 'normal'.")
    everybody = [one.label for one in request.estimators if one.counts_all_users]
    if everybody:
        raise InputError(
            f"until= ranks some of the users, and {', '.join(everybody)} divides by all of them, those "
            "without test positives too. Ask for other estimators, such as snips."
        )
    if asked.of == "differences" and len(models) < 2:
        raise InputError("until of differences needs at least two recommenders.")
    if asked.reference is not None:
        check_choice("reference", asked.reference, list(models))
    return asked


def rank_until(
    models: Mapping[str, Any], split: Split, request: Request, until: Until, options: Mapping[str, Any]
) -> Stopped:
    """Return the ranks of as many users, in random order, as make every interval narrow enough.

    `options`: of `rank_positives`.
    """
    users = np.flatnonzero(split.test.activity)
    order = as_generator(request.rng).permutation(users)
    chosen = np.zeros(split.n_users, dtype=bool)
    parts: dict[str, list[RankedPositives]] = {name: [] for name in models}
    looks: list[int] = []
    wanted = users.size if until.first * STEP >= users.size else until.first
    while True:
        fresh = order[looks[-1] if looks else 0 : wanted]
        part = _part(split, fresh)
        chosen[fresh] = True
        for name, model in models.items():
            if isinstance(model, RankedPositives):
                parts[name] = [model.select(chosen[model.user])]
            else:
                parts[name].append(rank_positives(model, part, name=name, **options))
        ranks = {name: joined(found) for name, found in parts.items()}
        looks.append(int(wanted))
        final = wanted == users.size
        z = float(
            boundary(np.array(looks, float), confidence_level=request.confidence_level, final=final)[-1]
        )
        level = float(2 * ndtr(z) - 1)
        widest, worst = _widest(Reduction.of(ranks, request), until, level)
        if final or widest <= until.half_width:
            text = _text(looks, users.size, widest, until, request.confidence_level)
            return Stopped(ranks, tuple(looks), int(users.size), level, text)
        wanted = planned(
            looks[-1],
            users.size,
            worst / until.half_width,
            looks,
            confidence_level=request.confidence_level,
        )


def _part(split: Split, users: IntArray) -> Split:
    """Return the split with the test positives of some users only."""
    chosen = np.zeros(split.n_users, dtype=bool)
    chosen[users] = True
    test = split.test.select(chosen[split.test.user])
    return made(split.train, test, description=split.description, seen=split.seen)


def joined(parts: list[RankedPositives]) -> RankedPositives:
    """Return the ranks of positives of different users of one split, ranked by one recommender."""
    first = parts[0]
    if len(parts) == 1:
        return first
    order = np.argsort(np.concatenate([one.user for one in parts]), kind="stable")
    per_positive = ("user", "item", "n_above", "n_tied", "n_candidates")
    columns: dict[str, Any] = {
        name: np.concatenate([getattr(one, name) for one in parts])[order] for name in per_positive
    }
    if first.gain is not None:
        columns["gain"] = np.concatenate([one.gain for one in parts if one.gain is not None])[order]
    columns["n_not_candidates"] = sum(one.n_not_candidates for one in parts)
    return replace(first, **columns)


def _widest(reduction: Reduction, until: Until, level: float) -> tuple[float, float]:
    """Return the largest half-width of an interval at `level`, and the largest standard error.

    Infinite where an estimate is not yet defined, or equal for all users so far, which tells no variance.
    """
    errors = list(_errors(reduction, until))
    if not all(np.isfinite(error) and error > 0 for error, _ in errors):
        return float("inf"), float("nan")
    if until.of == "levels":
        reach = max(normal_interval(0.0, error, confidence_level=level)[1] for error, _ in errors)
    else:
        reach = max(difference_reach(error, n, level) for error, n in errors)
    return float(reach), max(error for error, _ in errors)


def _errors(reduction: Reduction, until: Until) -> Iterator[tuple[float, int]]:
    """Yield the standard error and the number of users of each estimate, or of each paired difference."""
    for cell in reduction.sums:
        members: dict[str, Any] = dict(zip(reduction.models, reduction.members(cell), strict=True))
        if until.of == "levels":
            yield from ((one.standard_error(), one.n_users) for one in members.values())
            continue
        for first, second in combinations(members, 2):
            if until.reference in (None, first, second):
                error, n, _ = members[first].paired_error(members[second])
                yield error, n


def _text(looks: list[int], n_users: int, widest: float, until: Until, confidence_level: float) -> str:
    what = "interval" if until.of == "levels" else "interval of a difference"
    sizes = ", ".join(f"{one:,}" for one in looks)
    at = f"{counted(len(looks), 'look')} at {sizes}"
    level = f"{100 * confidence_level:g} % over all looks"
    if widest <= until.half_width:
        return (
            f"{looks[-1]:,} of {counted(n_users, 'user')} ranked, drawn at random, until no {what} is wider "
            f"than ± {until.half_width:g} ({at}; {level})"
        )
    if not np.isfinite(widest):
        return f"all {counted(n_users, 'user')} ranked: an estimate is undefined, or the same for all of them"
    return (
        f"all {counted(n_users, 'user')} ranked, and the widest {what} is ± {widest:.3g}, not "
        f"± {until.half_width:g} ({at}; {level})"
    )
