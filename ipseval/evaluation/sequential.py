"""Next-item evaluation at every step: each test event is ranked with what was known before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Literal, TypeAlias

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions, check_interactions
from ipseval.errors import InputError
from ipseval.estimators import Estimator
from ipseval.evaluation._evaluate import evaluate_ranks
from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.request import resolve_propensity
from ipseval.metrics import Metric
from ipseval.propensity import Propensity, PropensityModel
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import check_choice, check_models, describe_type, format_count
from ipseval.utils.ids import as_ids, find_positions, mark_repeats
from ipseval.utils.public import public_function
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, IntArray, RngLike

# Function (user code, item codes of the history, time) -> score of every item.
NextItemScorer: TypeAlias = Callable[[int, IntArray, Any], AnyArray]
EventFactors: TypeAlias = tuple[AnyArray, AnyArray]
EventLists: TypeAlias = Sequence[Sequence[Any]] | AnyArray
NextItemModel: TypeAlias = NextItemScorer | EventFactors | EventLists

METRICS = ("recall@10", "mean_dcg@10")
BLOCK_SCORES = 2**19  # scores that are held at once: they fit into the cache
COMPILED_SCORES = 10**8  # scores from which a compiled loop saves more time than loading it takes
NO_HISTORY = (np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int64))
BYTES = 8  # of an integer in which truth values are added
MAX_BYTE = 255
CATALOGUE = "all items of the catalogue, also items that first appear later"
AVAILABLE = "items that are available at the time of the event"
WITHOUT_HISTORY = ", without the history of the user"


@dataclass(frozen=True, eq=False)
class Events:
    """The test events in the order of the log, with the interactions of their users in order of time.

    Attributes
    ----------
    user, item : (n_events,) int arrays
        Codes of the user and of the target of each event.
    time : (n_events,) array
        Time of each event.
    history : (n,) int array
        Item codes of all interactions, sorted by user and time.
    is_first : (n,) bool array
        Whether each entry of `history` is the first interaction of its user with its item.
    start, end : (n_events,) int arrays
        The history of event e is `history[start[e]:end[e]]`, and its target is `history[end[e]]`.
    """

    user: IntArray
    item: IntArray
    time: AnyArray
    history: IntArray
    is_first: BoolArray
    start: IntArray
    end: IntArray

    @cached_property
    def has_repeats(self) -> bool:
        """Whether some user interacts with an item more than once."""
        return not self.is_first.all()

    def get_history(self, event: int) -> IntArray:
        """Return the item codes of the user before an event, oldest first."""
        return self.history[self.start[event] : self.end[event]]

    def list_history(self, first: int, last: int) -> tuple[IntArray, IntArray]:
        """Return the numbers of distinct items before some events, and these items, one event after another."""
        sizes = self.end[first:last] - self.start[first:last]
        row_start = np.cumsum(sizes) - sizes
        place = np.arange(int(sizes.sum())) + np.repeat(self.start[first:last] - row_start, sizes)
        if not self.has_repeats:
            return sizes, self.history[place]
        is_first = self.is_first[place]
        n_before = np.append(0, np.cumsum(is_first))
        return n_before[row_start + sizes] - n_before[row_start], self.history[place[is_first]]

    def select_history(self, first: int, last: int) -> tuple[IntArray, IntArray]:
        """Return (event − first, item) of the pairs of an event and an item before it, for some events."""
        sizes = self.end[first:last] - self.start[first:last]
        row = np.repeat(np.arange(last - first), sizes)
        offset = np.arange(row.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return row, self.history[self.start[first:last][row] + offset]


@public_function
def evaluate_sequential(
    models: Mapping[str, NextItemModel],
    log: Interactions,
    targets: BoolArray | Any,
    *,
    available_from: Any | None = None,
    seen: Literal["exclude", "include"] = "exclude",
    propensity: Propensity | PropensityModel | Mapping[Any, float] | str | None = None,
    metrics: Iterable[str | Metric] = METRICS,
    estimators: Iterable[str | Estimator] | None = None,
    confidence_level: float = 0.95,
    interval: Literal["normal", "percentile", "bca"] = "normal",
    rng: RngLike = None,
) -> Evaluation:
    """Evaluate next-item recommendation at every step of a period, with users as independent units.

    Every interaction of the period is a target. It is ranked with the interactions of its user that precede it,
    those before the period and the earlier ones in it.

    Parameters
    ----------
    models : mapping
        Name -> one of

        * a function (user, history, time) -> (n_items,) scores, called once for each event. user is a code of
          `log.user_ids`, history an array of codes of `log.item_ids`, oldest first, and scores are in the order
          of `log.item_ids`;
        * (event_factors, item_factors): arrays (n_events, d) and (n_items, d) whose products are the scores;
        * lists of item ids, best first, one for each event: an array (n_events, k) or a sequence of sequences.

        Events are the targets in the order of the rows of `log`.
    log : Interactions
        All interactions with timestamps, before the period and in it; `read(…, duplicates="keep")` keeps
        repeated interactions. Interactions of a user at the same time are in the order of their rows.
    targets : time, or (n,) bool array
        First time of the period, in the unit of `log.timestamp`; or which rows of the log are targets, such as
        `log.timestamp >= start`. The models must not have been trained on the targets.
    available_from : {item: time}, Series by item id, or data frame, optional
        Time from which each item can be recommended, in the unit of the timestamps; a frame has the columns
        item and available_from. Items without an entry are available from the start. Default: the whole
        catalogue competes at every event, also items that first appear later.
    seen : {"exclude", "include"}, default "exclude"
        Whether the items in the history of the user compete. With "exclude", events whose target is in the
        history are left out and counted.
    propensity : Propensity, model with fit(train), mapping or str, optional
        As in `ipseval.evaluate`.
    metrics : labels or objects, default ("recall@10", "mean_dcg@10")
        As in `ipseval.evaluate`.
    estimators : labels or objects, optional
        As in `ipseval.evaluate`.
    confidence_level : float, default 0.95
        Level of the intervals, in (0, 1).
    interval : {"normal", "percentile", "bca"}, default "normal"
        Method of the intervals, as in `ipseval.evaluate`.
    rng : int, Generator or None, default None
        Random seed of the bootstrap.

    Returns
    -------
    Evaluation
        Its queries are the events, and estimates are means over events. Standard errors, intervals and tests
        take users as independent units, because events of one user are not independent.

    Raises
    ------
    InputError
        For a log without timestamps or targets, scores that are NaN or of another shape, lists with items of the
        history or repeated items, and targets that are not available at their time.

    See Also
    --------
    ipseval.evaluate : Rank all test items of a user at once, after training.
    ipseval.split_leave_one_out : Leave the last interaction of each user out.

    Notes
    -----
    The estimate of a metric with value c_e for event e is Σ_u Σ_{e of u} c_e / Σ_u |{e of u}|, and its error is
    that of a ratio of sums over users. Leave-last-out evaluates one event of each user, the last one. It
    weights users equally, and its training part contains interactions of other users after the event [1]_.

    Scores of factors are products by BLAS in the precision of the arrays.

    References
    ----------
    .. [1] Ji, Sun, Zhang and Li, "A critical study on data leakage in recommender system offline evaluation",
       ACM TOIS 41(3), 2023, doi:10.1145/3569930

    Examples
    --------
    The scorer recommends the item that follows the last one. User 0 takes it in all three test events, and user 1
    in two of three, in which the unseen item next to it is the target:

    >>> frame = pd.DataFrame({"user": [0] * 5 + [1] * 5, "item": [0, 1, 2, 3, 4, 0, 1, 4, 3, 2]})
    >>> frame["time"] = [1, 2, 3, 4, 5, 1, 2, 3, 4, 5]
    >>> log = Interactions.from_frame(frame, timestamp="time")
    >>> def recommend_next(user, history, time):
    ...     return -np.abs(np.arange(5) - (history[-1] + 1)).astype(float)
    >>> evaluation = evaluate_sequential({"next": recommend_next}, log, 3, metrics=["recall@1"])
    >>> evaluation.frame[["estimate", "n_users", "n_positives"]].round(3).values.tolist()
    [[0.833, 2.0, 6.0]]
    """
    check_models(models, "models", "next-item recommender")
    check_interactions(log, "log")
    check_choice("seen", seen, ("exclude", "include"))
    excludes_history = seen == "exclude"
    is_target_row = _select_targets(log, targets)
    events = _build_events(log, is_target_row)
    available = _align_available_times(available_from, log, events)
    fitted = resolve_propensity(propensity, lambda model: model.fit(log.select(~is_target_row)))
    if fitted is not None and fitted.item is None:
        raise InputError(
            "propensity must have one value per item here, because the queries are events. Use a model per item, "
            "such as power-law."
        )
    is_target = np.ones(events.user.size, dtype=bool)
    if excludes_history:
        # A target that is not the first interaction of its user with the item is in the history of its event.
        is_target = events.is_first[events.end]
        if not is_target.any():
            raise InputError(
                "all targets are in the history of their user. Pass seen='include' to let seen items compete."
            )

    ranks = {}
    for name, model in models.items():
        ranks[name] = _rank_events(name, model, log, events, is_target, available, excludes_history)
    return evaluate_ranks(
        ranks,
        propensity=fitted,
        metrics=metrics,
        estimators=estimators,
        confidence_level=confidence_level,
        interval=interval,
        rng=rng,
    )


def _select_targets(log: Interactions, targets: BoolArray | Any) -> BoolArray:
    """Return which rows of the log are targets, (n,)."""
    if log.timestamp is None:
        raise InputError(
            "the log must have timestamps, which order the events; it has none. Read the column of times, or a "
            "column of positions 1, 2, 3, … within each user."
        )
    try:
        is_target = np.asarray(targets)
    except ValueError:  # sequences of several lengths
        is_target = np.empty(0)
    is_time = is_target.ndim == 0 and not getattr(targets, "shape", ())
    if is_time:
        try:
            is_target = np.asarray(log.timestamp) >= targets
        except TypeError:
            raise InputError(
                f"must be a time in the unit of log.timestamp ({log.timestamp.dtype}); got {targets!r:.60}.",
                argument="targets",
            ) from None
    if is_target.shape != log.user.shape or is_target.dtype.kind != "b":
        raise InputError(
            f"must be a time or {len(log):,} booleans, one for each row of the log; got {is_target.dtype} of shape "
            f"{is_target.shape}.",
            argument="targets",
        )
    if not is_target.any():
        raise InputError("must select at least one row of the log; got none.", argument="targets")
    return is_target


def _build_events(log: Interactions, is_target: BoolArray) -> Events:
    """Return the targets with the interactions of their users in order of time."""
    time = np.asarray(log.timestamp)
    order = np.lexsort((time, log.user))
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    first_of_user = np.searchsorted(log.user[order], np.arange(log.n_users))
    user = log.user[is_target]
    is_first = ~mark_repeats(log.user[order] * np.int64(log.n_items) + log.item[order])
    return Events(
        user=user,
        item=log.item[is_target],
        time=time[is_target],
        history=log.item[order],
        is_first=is_first,
        start=first_of_user[user],
        end=place[is_target],
    )


def _align_available_times(table: Any, log: Interactions, events: Events) -> AnyArray | None:
    """Return the time from which each item is available (n_items,); None without a table."""
    if table is None:
        return None
    if isinstance(table, pd.DataFrame):
        missing = {"item", "available_from"} - set(table.columns)
        if missing:
            raise InputError(
                f"must have the columns item and available_from; {', '.join(sorted(missing))} is missing.",
                argument="available_from",
            )
        table = table.set_index("item")["available_from"]
    if isinstance(table, Mapping):
        table = pd.Series(dict(table))
    if not isinstance(table, pd.Series):
        raise InputError(
            f"must be {{item: time}}, a Series or a frame; got {describe_type(table)}.",
            argument="available_from",
        )
    position = find_positions(
        as_ids(table.index.to_numpy(), "item"), log.item_ids, "available_from", strict=False
    )
    is_known = position >= 0
    times = np.asarray(table.to_numpy()[is_known])
    available = np.full(log.n_items, min(times.min(initial=events.time.min()), events.time.min()))
    available = available.astype(np.result_type(available.dtype, times.dtype))
    available[position[is_known]] = times
    n_early = int((available[events.item] > events.time).sum())
    if n_early:
        raise InputError(
            f"must not be later than an interaction with the item; {n_early:,} of {events.item.size:,} targets are "
            "not available at their time. Correct the table, or take the time of the first interaction.",
            argument="available_from",
        )
    return available


def _rank_events(
    name: str,
    model: NextItemModel,
    log: Interactions,
    events: Events,
    is_target: BoolArray,
    available: AnyArray | None,
    excludes_history: bool,
) -> RankedPositives:
    """Return the rank of the target of each event: the users of the result are events, its clusters users."""
    n_events = events.user.size
    description = CATALOGUE if available is None else AVAILABLE
    if excludes_history:
        description += WITHOUT_HISTORY
    fields: dict[str, Any] = {
        "user_ids": np.flatnonzero(is_target),
        "item_ids": log.item_ids,
        "candidates": description,
        "cluster": events.user[is_target],
        "cluster_ids": log.user_ids,
    }
    n_candidates = _count_candidates(log, events, available, excludes_history)
    if not callable(model) and not _are_factors(model):
        n_above, lengths, depth = _rank_in_event_lists(name, model, log, events, excludes_history)
        fields |= {"max_rank": depth, "list_length": lengths[is_target]}
        n_tied = np.zeros(n_events, dtype=np.int64)
    else:
        n_above = np.empty(n_events, dtype=np.int64)
        n_tied = np.empty(n_events, dtype=np.int64)
        is_compiled = n_events * log.n_items > COMPILED_SCORES and find_spec("numba") is not None
        for first, scores in _score_blocks(name, model, log, events):
            last = first + scores.shape[0]
            target = events.item[first:last]
            if is_compiled:
                _exclude_items(scores, first, events, available, excludes_history=False)
                history = events.list_history(first, last) if excludes_history else NO_HISTORY
                counts = _count_block_compiled(scores, target, *history)
            else:
                _exclude_items(scores, first, events, available, excludes_history)
                counts = _count_block(scores, target)
            n_above[first:last], n_tied[first:last] = counts
    return RankedPositives(
        user=np.arange(int(is_target.sum())),
        item=events.item[is_target],
        n_above=n_above[is_target],
        n_tied=n_tied[is_target],
        n_candidates=n_candidates[is_target],
        candidates_by_user=n_candidates[is_target],
        n_not_candidates=int((~is_target).sum()),
        **fields,
    )


def _are_factors(model: NextItemModel) -> bool:
    """Return whether a model is a pair of matrices."""
    return isinstance(model, tuple) and len(model) == 2 and all(np.ndim(matrix) == 2 for matrix in model)


def _score_blocks(
    name: str, model: Any, log: Interactions, events: Events
) -> Iterator[tuple[int, FloatArray]]:
    """Yield the first event and the scores (n_block, n_items) of blocks of events; the arrays may be changed."""
    n_events = events.user.size
    step = max(1, BLOCK_SCORES // log.n_items)
    if callable(model):
        for first in range(0, n_events, step):
            rows = []
            for event in range(first, min(first + step, n_events)):
                rows.append(_call_scorer(name, model, log, events, event))
            yield first, np.array(rows)
        return
    event_factors, item_factors = (np.asarray(matrix) for matrix in model)
    if event_factors.shape[0] != n_events or item_factors.shape != (log.n_items, event_factors.shape[1]):
        raise InputError(
            f"the factors of {name} must be ({n_events:,}, d) for the events and ({log.n_items:,}, d) for the "
            f"items; got {event_factors.shape} and {item_factors.shape}. Repeat the factors of a user for each of "
            "its events: user_factors[log.user[targets]]."
        )
    if not (np.isfinite(event_factors).all() and np.isfinite(item_factors).all()):
        raise InputError(f"the factors of {name} must be finite; some are NaN or infinite.")
    # One array is filled again and again: new memory for each block would take as long as the products.
    buffer = np.empty(
        (step, item_factors.shape[0]), dtype=np.result_type(event_factors, item_factors, np.float32)
    )
    for first in range(0, n_events, step):
        block = event_factors[first : first + step]
        yield first, np.matmul(block, item_factors.T, out=buffer[: block.shape[0]])


def _call_scorer(
    name: str, scorer: NextItemScorer, log: Interactions, events: Events, event: int
) -> FloatArray:
    """Return the checked scores of all items for one event, as a new array of floats."""
    user = int(events.user[event])
    scores = np.array(scorer(user, events.get_history(event), events.time[event]), dtype=np.float64)
    if scores.shape != (log.n_items,):
        raise InputError(
            f"{name} must return one score for each of the {log.n_items:,} items; got shape {scores.shape}."
        )
    if np.isnan(scores).any():
        raise InputError(
            f"the scores of {name} must not be NaN; got {np.isnan(scores).sum():,} for one event."
        )
    return scores


def _exclude_items(
    scores: FloatArray, first: int, events: Events, available: AnyArray | None, excludes_history: bool
) -> None:
    """Set the scores of items that do not compete to NaN, for events from `first` on."""
    last = first + scores.shape[0]
    if excludes_history:
        row, item = events.select_history(first, last)
        scores[row, item] = np.nan
    if available is not None:
        scores[available[None, :] > events.time[first:last, None]] = np.nan


def _count_block(scores: FloatArray, target: IntArray) -> tuple[IntArray, IntArray]:
    """Return the numbers of items above the target and tied with it, of each row of scores."""
    target_score = scores[np.arange(target.size), target][:, None]
    n_above = count_true(scores > target_score)
    n_tied = count_true(scores == target_score) - 1
    return n_above, n_tied


def _count_block_compiled(
    scores: FloatArray, target: IntArray, n_excluded: IntArray, excluded_items: IntArray
) -> tuple[IntArray, IntArray]:
    """Return the same numbers by a loop that Numba compiles, without the excluded items of each row."""
    kernels = import_module("ipseval.ranking.kernels.numba_kernels")
    n_rows = target.size
    n_above = np.zeros(n_rows, dtype=np.int64)
    n_reach = np.zeros(n_rows, dtype=np.int64)
    excluded_start = np.zeros(n_rows + 1, dtype=np.int64)
    excluded_start[1:] = np.cumsum(np.broadcast_to(n_excluded, n_rows))
    kernels.count_score_block(
        block=scores,
        start=np.arange(n_rows + 1),
        score=scores[np.arange(n_rows), target],
        excluded_start=excluded_start,
        excluded_items=excluded_items,
        n_above=n_above,
        n_reach=n_reach,
    )
    return n_above, n_reach - n_above - 1


def count_true(mask: BoolArray) -> IntArray:
    """Return the number of True entries of each row, (n_rows,).

    Eight entries are added at once, as the bytes of one integer, in groups of columns that no byte overflows.
    """
    n_rows, n_columns = mask.shape
    counts = np.zeros(n_rows, dtype=np.int64)
    n_whole = n_columns - n_columns % BYTES
    if n_whole < n_columns:
        counts += mask[:, n_whole:].sum(axis=1)
    for first in range(0, n_whole, MAX_BYTE * BYTES):
        group = mask[:, first : min(first + MAX_BYTE * BYTES, n_whole)]
        words = np.ascontiguousarray(group).view(np.uint64)
        byte_sums = np.add.reduce(words, axis=1).view(np.uint8).reshape(n_rows, BYTES)
        counts += byte_sums.sum(axis=1, dtype=np.int64)
    return counts


def _count_candidates(
    log: Interactions, events: Events, available: AnyArray | None, excludes_history: bool
) -> IntArray:
    """Return the number of items that compete at each event, (n_events,)."""
    n_events = events.user.size
    if available is None:
        n_candidates = np.full(n_events, log.n_items)
        if excludes_history:
            n_distinct = np.append(0, np.cumsum(events.is_first))
            n_candidates -= n_distinct[events.end] - n_distinct[events.start]
        return n_candidates
    n_candidates = np.empty(n_events, dtype=np.int64)
    step = max(1, BLOCK_SCORES // log.n_items)
    for first in range(0, n_events, step):
        last = min(first + step, n_events)
        scores = np.zeros((last - first, log.n_items))
        _exclude_items(scores, first, events, available, excludes_history)
        n_candidates[first:last] = count_true(~np.isnan(scores))
    return n_candidates


def _rank_in_event_lists(
    name: str, lists: Any, log: Interactions, events: Events, excludes_history: bool
) -> tuple[IntArray, IntArray, int]:
    """Return the position of each target in its list from 0, the lengths of the lists, and the longest length."""
    n_events = events.user.size
    if len(lists) != n_events:
        raise InputError(
            f"{name} must have one list for each of the {n_events:,} targets; got {len(lists):,}."
        )
    lengths = np.array([len(items) for items in lists], dtype=np.int64)
    row = np.repeat(np.arange(n_events), lengths)
    position = np.arange(row.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    entries = as_ids(np.array([item for items in lists for item in items]), "item")
    code = find_positions(entries, log.item_ids, f"the lists of {name}", strict=False)
    n_unknown = int((code < 0).sum())
    if n_unknown:
        raise InputError(
            f"the lists of {name} must contain ids of items of the log; {format_count(n_unknown, 'entry')} are not. "
            "Leave these entries out, or add the items to the log."
        )
    key = row * np.int64(log.n_items) + code
    n_repeated = key.size - np.unique(key).size
    if n_repeated:
        raise InputError(
            f"the lists of {name} must not repeat an item; {n_repeated:,} entries do. Keep the first."
        )
    if excludes_history:
        _check_unseen(name, key, log, events)
    depth = int(lengths.max(initial=0))
    if not depth:
        raise InputError(f"the lists of {name} must not all be empty.")
    n_above = np.full(n_events, depth, dtype=np.int64)
    is_hit = code == events.item[row]
    n_above[row[is_hit]] = position[is_hit]
    return n_above, lengths, depth


def _check_unseen(name: str, key: IntArray, log: Interactions, events: Events) -> None:
    """Raise for lists with items of the history of their event."""
    n_seen = 0
    step = max(1, BLOCK_SCORES // max(int((events.end - events.start).max()), 1))
    sorted_key = np.sort(key)
    for first in range(0, events.user.size, step):
        row, item = events.select_history(first, min(first + step, events.user.size))
        history_key = np.unique((row + first) * np.int64(log.n_items) + item)
        place = np.minimum(np.searchsorted(sorted_key, history_key), sorted_key.size - 1)
        n_seen += int((sorted_key[place] == history_key).sum())
    if n_seen:
        raise InputError(
            f"the lists of {name} must not contain items of the history; {format_count(n_seen, 'entry')} do. Leave "
            "them out, or pass seen='include'."
        )
