"""Exact ranks of held-out positives among all candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np

from ipseval.data.reading import Lists
from ipseval.data.splits import Split
from ipseval.data.splits.split import check_split
from ipseval.errors import InputError, IpsevalError
from ipseval.ranking._factors import Factors
from ipseval.ranking._rank_counts import (
    rank_factors,
    rank_in_lists,
    rank_score_blocks,
    rank_shared_scores,
    select_kernels,
)
from ipseval.ranking._sampled_candidates import SampledCandidates, rank_sampled_candidates
from ipseval.ranking._scorers import AnyScorer, DenseScorer, as_scorer, is_score_array
from ipseval.ranking._types import AnyModel
from ipseval.ranking._user_functions import TakesUserIdError, call_for_each_user
from ipseval.ranking.adapters import adapt
from ipseval.ranking.candidates import (
    Batch,
    CandidateLists,
    HeldOutPositives,
    as_candidates,
    is_catalogue,
    restrict_items,
    restrict_lists,
)
from ipseval.ranking.lists import ListEntries, convert_lists, is_list_frame, rank_lists, resolve_lists
from ipseval.ranking.ranked_positives import RankedPositives, with_top_lists
from ipseval.ranking.top_lists import TopKCollector, TopListBuilder
from ipseval.utils.checks import check_positive_int
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions, Resources, check_compute
from ipseval.utils.ids import unique_keys
from ipseval.utils.public import public_function
from ipseval.utils.types import IntArray


def resolve_models(models: Mapping[str, AnyModel], split: Split) -> dict[str, AnyModel]:
    """Return the models with lists in the id space of the split, or raise one error with the problems of all lists."""
    if all(is_score_array(model, split) for model in models.values()):
        return dict(models)
    return resolve_lists(models, split)


def rank_models(
    models: Mapping[str, AnyModel], split: Split, *, candidates: object, compute: ComputeOptions
) -> dict[str, RankedPositives]:
    """Rank the test positives by each model, with its lists in the id space of the split: name -> ranks."""
    ranks = {}
    for name, model in models.items():
        ranks[name] = rank_positives(model, split, name=name, candidates=candidates, compute=compute)
    return ranks


@public_function
def rank_positives(
    model: Any,
    split: Split,
    *,
    name: str = "the model",
    candidates: Any = "all",
    compute: ComputeOptions = DEFAULT_COMPUTE,
    top_k: int | None = None,
) -> RankedPositives:
    """Return the exact rank of every test positive among the catalogue minus the user's training items.

    Every candidate is compared with every positive, unless `candidates` restricts the comparison. The scores
    of all users are never held in memory together. The integers of the result are the same with both engines,
    any number of threads and any block size. For factors, the score is Σ_k u_k v_k (+ bias), added in order
    in double precision, on every machine.

    Parameters
    ----------
    model : scorer or trained model
        * An (n_users, n_items) array or memmap in the order of `split.user_ids`, `split.item_ids`, or a
          DataFrame with ids as labels, or a scipy.sparse matrix, in which an entry that is not stored is 0;
        * a (user_factors, item_factors[, item_bias]) tuple, the fastest, in single or double precision;
        * a callable users -> (len(users), n_items), called in this thread with ascending user codes; or a
          function of one user id that returns a list of item ids, best first, {item: score}, or the scores of
          all items in an array;
        * a top-K frame with columns user, item and rank or score: ranks beyond K are censored; {user: [item,
          …]}, best first, or {user: {item: score}}; a list with a list of item ids for each user, in the
          order of `split.user_ids`; `Lists` of other forms, and with items that are not candidates;
        * a trained model of a library that `ipseval.adapters` supports;
        * RankedPositives, which are returned unchanged.
        Scores are real numbers, higher is better, and keep their order and their ties whatever their type;
        -inf and inf are scores, NaN is an error.
    split : Split
        `split.test` is ranked; `split.train` is excluded from the candidates, unless the split was made with
        `seen="include"`.
    name : str, default "the model"
        Name of the model in error messages and in the progress bar.
    candidates : "all", SampledCandidates, ids or boolean mask (n_items,), or data frame, default "all"
        With ids of items, or a mask in the order of `split.item_ids`, only these items compete; test
        positives outside are excluded, counted, and reported in a warning. A frame with columns user and item
        gives each user a separate list of candidates. With `SampledCandidates(m, ...)`, m drawn candidates
        compete.
    compute : ComputeOptions
        Threads, memory, block size, engine and progress bar. While factors are ranked, BLAS uses one thread
        in each thread of the ranking.
    top_k : int or None, default None
        Store the first k candidates of every user with test positives as `top`, from the same computation;
        equal scores are in the order of `split.item_ids`. Ranks that are already computed, and sampled
        candidates, have no such lists.

    Returns
    -------
    RankedPositives
        The ranks, sorted by user and item.

    Raises
    ------
    InputError
        For NaN scores (with their number), a shape that does not match, an unsupported type, an engine that
        is not installed, a memory limit below the scores of one user; for candidates or lists with unknown
        ids or repeated pairs, and lists with training items or ranks that are not 1, 2, 3, … within a user;
        for users with too few candidates to draw from.

    See Also
    --------
    top_items : The best items of every user, with their ranks.
    SampledCandidates : Ranks among drawn candidates.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> split = Split.from_frames(
    ...     pd.DataFrame({"user": [0], "item": [0]}), pd.DataFrame({"user": [0, 0], "item": [1, 3]}),
    ...     items=[0, 1, 2, 3])
    >>> ranked = rank_positives(np.array([[9.0, 1.0, 5.0, 1.0]]), split)
    >>> ranked.n_above, ranked.n_tied
    (array([1, 1]), array([1, 1]))
    """
    k = 0
    if top_k is not None:
        k = check_positive_int("top_k", top_k)
    check_split(split)
    resources = Resources(check_compute(compute), name)
    scores = _resolve_model(model, split, name)
    try:
        return _rank_resolved(scores, split, candidates=candidates, resources=resources, k=k)
    except TakesUserIdError:
        by_user = call_for_each_user(scores, split, name)
        scores = _resolve_model(by_user, split, name)
        return _rank_resolved(scores, split, candidates=candidates, resources=resources, k=k)


def _rank_resolved(
    scores: AnyModel, split: Split, *, candidates: object, resources: Resources, k: int
) -> RankedPositives:
    """Return the ranks of the test positives by a resolved model, with its first k items unless k is 0."""
    name = resources.name
    with _annotate_errors(name):
        if isinstance(scores, RankedPositives):
            return _reuse_ranks(scores, candidates, name, k)
        targets = HeldOutPositives.from_split(split)
        if isinstance(candidates, SampledCandidates):
            _check_can_sample(scores, name, k)
            return rank_sampled_candidates(
                as_scorer(scores, split, name), split, targets, candidates, resources
            )

        lists, allowed_items = as_candidates(candidates, split, name)
        if lists is not None:
            targets = restrict_lists(targets, lists)
        elif allowed_items is not None:
            targets = restrict_items(targets, allowed_items)
        builder = None
        if k:
            builder = TopListBuilder(unique_keys(targets.user), split.n_users, k)
        ranked = _rank_among_candidates(
            scores,
            split,
            targets,
            resources,
            lists=lists,
            allowed_items=allowed_items,
            top=None if builder is None else builder.top,
        )
        if builder is None:
            return ranked
        return with_top_lists(ranked, builder.build())


@public_function
def top_items(
    model: Any,
    split: Split,
    *,
    k: int,
    handle: Callable[[RankedPositives], None] | None = None,
    name: str = "the model",
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> RankedPositives:
    """Return, for every user, the candidates with fewer than k others scored strictly above them.

    These are each user's k best items, and the items that tie with the last of them: RankedPositives whose
    "positives" are these items, with the ranks that `rank_positives` would give them.

    Parameters
    ----------
    model : scorer or trained model
        As in `rank_positives`, except for lists and ranks.
    split : Split
        All its users are ranked; the pairs of `split.excluded_pairs` do not compete.
    k : int
        Number of best items of each user, without the items that tie with the last.
    handle : callable, optional
        Called with the items of a few users at a time, from several threads, at most once for each user; the
        result is empty then. It serves to compute sums over items of users that do not fit in memory
        together.
    name : str, default "the model"
        Name of the model in error messages and in the progress bar.
    compute : ComputeOptions
        As in `rank_positives`.

    Returns
    -------
    RankedPositives
        The best items, sorted by user and item.

    Raises
    ------
    InputError
        For models without scores of all items, and for scores that are NaN.

    See Also
    --------
    rank_positives : The ranks of the test positives.

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> split = Split.from_frames(
    ...     pd.DataFrame({"user": [0], "item": [0]}), pd.DataFrame({"user": [0], "item": [3]}),
    ...     items=[0, 1, 2, 3])
    >>> top = top_items(np.array([[9.0, 1.0, 5.0, 1.0]]), split, k=2)
    >>> top.item, top.n_above, top.n_tied
    (array([1, 2, 3]), array([1, 0, 1]), array([1, 0, 1]))
    """
    check_positive_int("k", k)
    check_split(split)
    parts: dict[int, tuple[IntArray, IntArray, IntArray, IntArray]] = {}
    targets = replace(HeldOutPositives.from_split(split), gain=None)

    def collect(user: IntArray, item: IntArray, n_above: IntArray, n_tied: IntArray) -> None:
        if not user.size:
            return
        if handle is None:
            parts[int(user[0])] = (user, item, n_above, n_tied)
        else:
            handle(replace(targets, user=user, item=item).build_ranks(n_above, n_tied))

    resources = Resources(check_compute(compute), name)
    scores = _resolve_model(model, split, name)
    if _is_lists(scores) or isinstance(scores, RankedPositives):
        raise InputError(
            f"{name}: the best items of every user need scores of all items, which lists and ranks lack."
        )
    with _annotate_errors(name):
        no_targets = replace(targets, user=targets.user[:0], item=targets.item[:0])
        collector = TopKCollector(k, collect, np.arange(split.n_users))
        _rank_among_candidates(scores, split, no_targets, resources, top=collector)
    user, item, n_above, n_tied = _concatenate_parts(list(parts.values()))
    return replace(targets, user=user, item=item).build_ranks(n_above, n_tied)


def _concatenate_parts(
    parts: list[tuple[IntArray, IntArray, IntArray, IntArray]],
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Return the columns (user, item, n_above, n_tied) of all parts, sorted by user."""
    empty = np.zeros(0, dtype=np.int64)
    user, item, n_above, n_tied = (
        np.concatenate(columns) for columns in zip((empty,) * 4, *parts, strict=True)
    )
    order = np.argsort(user, kind="stable")  # all items of a user are in one part, sorted
    return user[order], item[order], n_above[order], n_tied[order]


def _resolve_model(model: AnyModel, split: Split, name: str) -> AnyModel:
    """Return a model as scores, lists or ranks: converted lists, and trained models as scorers."""
    if is_score_array(model, split) or isinstance(model, (Lists, ListEntries)):
        return model
    converted_model = convert_lists(model, split, name)
    if isinstance(converted_model, Lists):  # without options of the caller, as in `resolve_models`
        return resolve_lists({name: model}, split)[name]
    return adapt(converted_model, split, name=name)


def _is_lists(model: object) -> bool:
    """Return whether a resolved model consists of top-K lists."""
    if isinstance(model, np.ndarray):
        return False
    return isinstance(model, (Lists, ListEntries)) or is_list_frame(model)


def _check_can_sample(model: object, name: str, k: int) -> None:
    """Raise `InputError` for requests that sampled candidates cannot fulfil."""
    if _is_lists(model):
        raise InputError(f"{name}: sampled candidates need scores of all items.")
    if k:
        raise InputError(f"{name}: a sample of candidates has no lists of the first {k}; rank them all.")


@contextmanager
def _annotate_errors(name: str) -> Iterator[None]:
    """Add the name of the model to errors of its code; errors of this library contain it already."""
    try:
        yield
    except Exception as error:  # a model may raise anything; it is passed on with its name
        if not isinstance(error, IpsevalError):
            error.add_note(f"raised while {name} was ranked")
        raise


def _reuse_ranks(ranks: RankedPositives, candidates: object, name: str, k: int) -> RankedPositives:
    """Return ranks that were computed before, or raise `InputError` if they are not the requested ranks."""
    if not is_catalogue(candidates):
        raise InputError(f"{name} is already ranked; rank the model again among other candidates.")
    if k and (ranks.top is None or ranks.top.depth < k):
        raise InputError(
            f"{name} is already ranked, without its first {k} items; rank the model again with top_k={k}."
        )
    return ranks


def _rank_among_candidates(
    model: AnyModel,
    split: Split,
    targets: HeldOutPositives,
    resources: Resources,
    *,
    lists: CandidateLists | None = None,
    allowed_items: IntArray | None = None,
    top: TopKCollector | None,
) -> RankedPositives:
    """Return the ranks among each user's list of candidates, the allowed items, or all items."""
    name = resources.name
    if _is_lists(model):
        return rank_lists(model, split, targets, lists=lists, allowed_items=allowed_items, name=name, top=top)

    scorer = as_scorer(model, split, name)
    n_rows = targets.user.size
    if top is not None:
        n_rows += split.n_users
    kernels = select_kernels(resources.compute.engine, n_rows * split.n_items)
    if lists is not None:
        counts = rank_in_lists(
            scorer=scorer, targets=targets, lists=lists, kernels=kernels, resources=resources, top=top
        )
    else:
        batch = Batch.from_targets(targets, all_users=top is not None and top.exhaustive)
        counts = _rank_catalogue(
            scorer=scorer,
            n_items=targets.item_ids.size,
            batch=batch,
            allowed_items=allowed_items,
            kernels=kernels,
            resources=resources,
            top=top,
        )
    n_above, n_tied = counts
    return targets.build_ranks(n_above, n_tied)


def _rank_catalogue(
    scorer: AnyScorer,
    n_items: int,
    batch: Batch,
    allowed_items: IntArray | None,
    kernels: ModuleType,
    resources: Resources,
    top: TopKCollector | None,
) -> tuple[IntArray, IntArray]:
    """Return (n_above, n_tied) among all items, or among the allowed items."""
    if top is not None:
        top = top.with_users(batch.users).with_items(allowed_items)
    if allowed_items is not None:
        batch = replace(
            batch,
            item=np.searchsorted(allowed_items, batch.item),
            excluded_items=np.searchsorted(allowed_items, batch.excluded_items),
        )

    if isinstance(scorer, Factors):
        factors = scorer
        if allowed_items is not None:
            factors = scorer.subset(allowed_items)
        return rank_factors(factors, batch, kernels, resources, top)

    if isinstance(scorer, DenseScorer) and scorer.scores.strides[0] == 0 and n_items:
        shared_scores = scorer.scores[0]  # all rows are views of one row, as in `baselines.popularity`
        if allowed_items is not None:
            shared_scores = shared_scores[allowed_items]
        return rank_shared_scores(shared_scores, batch, resources.name, top)

    return rank_score_blocks(
        scorer,
        batch,
        columns=allowed_items,
        n_items=n_items,
        kernels=kernels,
        resources=resources,
        top=top,
    )
