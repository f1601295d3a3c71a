"""The best candidates of every user with their exact ranks, block by block: users × items are never held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np

from ipseval._checks import check_positive_int
from ipseval._compute import DEFAULT_COMPUTE, ComputeOptions, check_compute, one_blas_thread
from ipseval._types import AnyArray, FloatArray, IntArray
from ipseval.adapters import adapt
from ipseval.errors import InputError
from ipseval.ranking._factors import Factors
from ipseval.ranking._lists import is_list_frame
from ipseval.ranking._order import ranks_within_group
from ipseval.ranking._passes import CALL_TARGET, check_nan, comparable
from ipseval.ranking._ranked import RankedPositives
from ipseval.ranking._run import Resources, kernels_for, run_workers
from ipseval.ranking._scorers import FactorScorer, Scorer, as_scorer
from ipseval.ranking._targets import Targets
from ipseval.splits import Split
from ipseval.splits._base import check_split

STRIDE = 16  # every so manieth item tells where a user's k best begin
SPARE = 3.0  # standard deviations by which that guess is low
BLOCK = 32  # users whose products are made at once

Handler = Callable[[RankedPositives], None]


def top_items(
    model: Any,
    split: Split,
    *,
    k: int,
    name: str = "the model",
    progress: bool | None = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> RankedPositives:
    """Return the candidates with fewer than k others scored strictly above them, of every user.

    These are each user's k best items, and what ties with the last of them: RankedPositives whose
    "positives" are these items, with the ranks that `rank_positives` would give them.

    Parameters
    ----------
    model : scorer or trained model
        As in `rank_positives`, but for lists and ranks.
    split : Split
        All its users are ranked; `split.excluded` does not compete.
    k : int
    name, progress, compute
        As in `rank_positives`.

    Raises
    ------
    InputError
        For models that have no scores of all items, and scores that are NaN.

    Examples
    --------
    >>> import pandas as pd
    >>> split = Split.from_frames(
    ...     pd.DataFrame({"user": [0], "item": [0]}), pd.DataFrame({"user": [0], "item": [3]}),
    ...     items=[0, 1, 2, 3])
    >>> top = top_items(np.array([[9.0, 1.0, 5.0, 1.0]]), split, k=2)
    >>> top.item, top.n_above, top.n_tied
    (array([1, 2, 3]), array([1, 0, 1]), array([1, 0, 1]))
    """
    found: dict[int, RankedPositives] = {}

    def keep(part: RankedPositives) -> None:
        if len(part):
            found[int(part.user[0])] = part

    each_top(model, split, k, keep, name=name, progress=progress, compute=compute)
    parts = [found[first] for first in sorted(found)]
    targets = Targets.from_split(split)
    columns = {
        column: np.concatenate([getattr(part, column) for part in parts] or [np.zeros(0, np.int64)])
        for column in ("user", "item", "n_above", "n_tied", "n_candidates")
    }
    return RankedPositives.trusted(
        **columns,
        user_ids=split.user_ids,
        item_ids=split.item_ids,
        candidates_by_user=targets.candidates_by_user,
    )


def each_top(
    model: Any,
    split: Split,
    k: int,
    handle: Handler,
    *,
    name: str = "the model",
    progress: bool | None = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> None:
    """Call `handle` with the best items of a few users at a time, from several threads; see `top_items`."""
    check_positive_int("k", k)
    check_split(split)
    resources = Resources(check_compute(compute), progress, name)
    adapted = adapt(model, split, name=name)
    if isinstance(adapted, RankedPositives) or is_list_frame(adapted):
        raise InputError(
            f"{name}: the best items of every user need scores of all items, which lists and ranks lack."
        )
    scorer = as_scorer(adapted, split, name)
    targets = Targets.from_split(split)
    n_users, n_items = split.n_users, split.n_items
    parallel = isinstance(scorer, FactorScorer) or getattr(scorer, "parallel", False)
    per_user = 32 * n_items
    size = resources.users_per_block(
        per_user,
        wanted=min(BLOCK, max(1, CALL_TARGET // per_user)),
        n_workers=resources.n_threads,
        what="the scores of one user",
    )
    best = (
        _of_factors(scorer, k, resources) if isinstance(scorer, FactorScorer) else _of_scores(scorer, k, name)
    )

    def make_worker() -> Callable[[int], Iterator[int]]:
        def work(block: int) -> Iterator[int]:
            users = np.arange(block * size, min((block + 1) * size, n_users))
            part = slice(targets.excluded_start[users[0]], targets.excluded_start[users[-1] + 1])
            length = np.diff(targets.excluded_start[users[0] : users[-1] + 2])
            hidden = np.repeat(np.arange(users.size), length), targets.excluded[part]
            row, item, n_above, n_tied = best(users, hidden)
            user = users[row]
            handle(
                RankedPositives.trusted(
                    user=user,
                    item=item,
                    n_above=n_above,
                    n_tied=n_tied,
                    n_candidates=targets.candidates_by_user[user],
                    user_ids=split.user_ids,
                    item_ids=split.item_ids,
                )
            )
            yield users.size

        return work

    if not parallel:  # the caller's code is called from one thread
        resources = Resources(ComputeOptions(n_threads=1), progress, name)
    with one_blas_thread():
        run_workers(-(-n_users // size), make_worker, resources, n_users)


Best = tuple[IntArray, IntArray, IntArray, IntArray]
Hidden = tuple[IntArray, IntArray]


def _of_scores(scorer: Scorer, k: int, name: str) -> Callable[[IntArray, Hidden], Best]:
    """Return what gives (row, item, n_above, n_tied) of a block from scores as they are."""

    def best(users: IntArray, hidden: Hidden) -> Best:
        scores = comparable(np.asarray(scorer.block(users)))
        check_nan(int((scores != scores).sum()), scores.size, name)
        competes = np.ones(scores.shape, dtype=bool)
        competes[hidden] = False
        if k < scores.shape[1]:
            # What is hidden stands below everything, and a score of -inf beside it.
            low = -np.inf if scores.dtype.kind == "f" else np.iinfo(scores.dtype).min
            row, item = _without(*_reaching(np.where(competes, scores, low), k, 0.0), hidden, scores.shape[1])
        else:
            row, item = np.nonzero(competes)
        above, tied = ranks_within_group(row, scores[row, item])
        kept = above < k
        return row[kept], item[kept], above[kept], tied[kept]

    return best


def _of_factors(scorer: FactorScorer, k: int, resources: Resources) -> Callable[[IntArray, Hidden], Best]:
    """Return what gives (row, item, n_above, n_tied) of a block from a product, settled by exact scores."""
    factors = Factors.of(scorer.user_factors, scorer.item_factors, scorer.item_bias, resources.name)
    kernels: ModuleType = kernels_for(resources.compute.engine, 0 if resources.compute.engine is None else 1)
    fast_item = np.ascontiguousarray(factors.fast_item.T)
    dtype = factors.fast_item.dtype

    def best(users: IntArray, hidden: Hidden) -> Best:
        fast_user = factors.user[users].astype(dtype, copy=False)
        if factors.bias.size:
            fast_user = np.column_stack([fast_user, np.ones(users.size, dtype)])
        product = fast_user @ fast_item
        product[:, factors.infinite] = factors.bias[factors.infinite] if factors.bias.size else 0
        product[hidden] = -np.inf
        if k < product.shape[1]:
            # An item of the k best has a product at most twice the error below the k-th largest product.
            row, item = _reaching(product, k, 2 * factors.error_bound(users))
            row, item = _without(row, item, hidden, product.shape[1])
        else:
            competes = np.ones(product.shape, dtype=bool)
            competes[hidden] = False
            row, item = np.nonzero(competes)
        exact = np.empty(row.size)
        kernels.pair_scores(factors.user, factors.item, factors.bias, users[row], item, exact)
        above, tied = ranks_within_group(row, exact)
        kept = above < k
        return row[kept], item[kept], above[kept], tied[kept]

    return best


def _without(row: IntArray, item: IntArray, hidden: Hidden, n_items: int) -> tuple[IntArray, IntArray]:
    """Return the pairs that are not hidden; with -inf among the k best they would be."""
    keys = hidden[0] * np.int64(n_items) + hidden[1]
    key = row * np.int64(n_items) + item
    place = np.minimum(np.searchsorted(keys, key), max(keys.size - 1, 0))
    stays = keys[place] != key if keys.size else np.ones(key.size, dtype=bool)
    return row[stays], item[stays]


def _reaching(scores: AnyArray, k: int, margin: FloatArray | float) -> tuple[IntArray, IntArray]:
    """Return (row, column) of the entries at most `margin` below the k-th largest of their row, in order.

    The j-th largest of every 16th entry is reached by about 16 j entries: those are looked for first, and
    the k-th largest is one of them where there are k. Rows with fewer are sorted out as a whole.
    """
    n_rows, n = scores.shape
    j = int(np.ceil(k / STRIDE + SPARE * np.sqrt(k / STRIDE + 1)))
    if n < 8 * STRIDE * j:
        low = np.partition(scores, n - k, axis=1)[:, n - k]
        row, item = np.divmod(np.flatnonzero(scores >= _below(low, margin)[:, None]), n)
        return row, item
    some = scores[:, ::STRIDE]
    low = np.partition(some, some.shape[1] - j, axis=1)[:, some.shape[1] - j]
    row, item = np.divmod(np.flatnonzero(scores >= _below(low, margin)[:, None]), n)
    size = np.bincount(row, minlength=n_rows)
    value = scores[row, item]
    short = np.bincount(row, value >= low[row], minlength=n_rows) < k
    packed = np.full((n_rows, int(size.max())), low.min(), dtype=scores.dtype)
    packed[row, np.arange(row.size) - np.repeat(np.cumsum(size) - size, size)] = value
    largest = np.partition(packed, packed.shape[1] - k, axis=1)[:, packed.shape[1] - k]
    kept = (value >= _below(largest, margin)[row]) & ~short[row]
    row, item = row[kept], item[kept]
    if short.any():
        whole = np.flatnonzero(short)
        low = np.partition(scores[whole], n - k, axis=1)[:, n - k]
        edge = _below(low, margin if isinstance(margin, float) else margin[whole])
        more, column = np.nonzero(scores[whole] >= edge[:, None])
        row, item = np.append(row, whole[more]), np.append(item, column)
        order = np.argsort(row, kind="stable")
        row, item = row[order], item[order]
    return row, item


def _below(score: AnyArray, margin: FloatArray | float) -> AnyArray:
    """Return the scores less the margin, rounded down."""
    if isinstance(margin, float):
        return score
    lower = (score.astype(np.float64) - margin).astype(score.dtype)
    return np.asarray(np.nextafter(lower, score.dtype.type(-np.inf)))
