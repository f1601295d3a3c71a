"""Exact ranks of held-out positives among all candidates."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ipseval.data.reading import Lists
from ipseval.data.splits import Split
from ipseval.data.splits.split import check_split
from ipseval.errors import InputError, IpsevalError
from ipseval.ranking._factors import Factors
from ipseval.ranking._list_forms import convert_lists
from ipseval.ranking._passes import rank_factors, rank_in_lists, rank_shared, rank_stored
from ipseval.ranking._sampled import SampledCandidates, rank_sampled
from ipseval.ranking._scorers import AnyScorer, DenseScorer, as_scorer
from ipseval.ranking._threads import Resources, kernels_for
from ipseval.ranking.adapters import adapt
from ipseval.ranking.candidates import Targets, as_candidates, is_catalogue, restrict_items, restrict_lists
from ipseval.ranking.kernels.blocks import Batch
from ipseval.ranking.lists import ListEntries, is_list_frame, rank_lists
from ipseval.ranking.ranked_positives import RankedPositives
from ipseval.ranking.top_lists import ListMaker, TopK
from ipseval.utils.checks import check_positive_int
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions, check_compute
from ipseval.utils.ids import distinct
from ipseval.utils.types import IntArray


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

    Every candidate is compared with every positive, unless `candidates` says otherwise; users × items are
    never held.
    The result is the same integer for integer with either engine, any number of threads, any block size.
    For factors the score is Σ_k u_k v_k (+ bias), added in order in double precision, on every machine.

    Parameters
    ----------
    model : scorer or trained model
        * An (n_users, n_items) array or memmap in the order of `split.user_ids`, `split.item_ids`, or a
          DataFrame with ids as labels, or a scipy.sparse matrix, in which an entry that is not stored is 0;
        * a (user_factors, item_factors[, item_bias]) tuple, the fastest, in single or double precision;
        * a callable users -> (len(users), n_items), called in this thread with ascending user codes;
        * a top-K frame with columns user, item and rank or score: ranks beyond K are censored; {user: [item,
          …]}, best first, or {user: {item: score}}; a list with a list of item ids for each user, in the
          order of `split.user_ids`; `Lists` of other forms, and with items that are no candidates;
        * a trained model of a library that `ipseval.adapters` knows;
        * RankedPositives, which are returned as they are.
        Scores are real numbers, higher is better, and keep their order and their ties whatever their type;
        -inf and inf are scores, NaN is an error.
    split : Split
        `split.test` is ranked; `split.train` is excluded from the candidates, unless made with
        `seen="include"`.
    name : str
        Used in error messages and beside the progress bar.
    candidates : "all", SampledCandidates, ids or boolean mask (n_items,), or data frame
        Ids of items, or a mask in the order of `split.item_ids`: only these items compete; test positives
        outside are left out, counted, and named in a warning. A frame with columns user and item gives each
        user candidates of its own. `SampledCandidates(m, ...)`: m drawn candidates compete, see there.
    top_k : int, optional
        Keep the first k candidates of every user with test positives as `top`, from the same pass; equal
        scores stand in the order of `split.item_ids`. What is ranked already, or sampled, has no lists.
    compute : ComputeOptions
        Threads, memory, block size, engine and bar; BLAS is held at one thread each while factors are ranked.

    Raises
    ------
    InputError
        For NaN scores (with their number), a shape that does not match, an unsupported type, an engine that
        is not installed, a memory limit below the scores of one user; for candidates or lists with unknown
        ids or repeated pairs, and lists with training items or ranks that are not 1, 2, 3, … within a user;
        for users with too few candidates to draw from.

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
    k = 0 if top_k is None else check_positive_int("top_k", top_k)
    return _rank(model, split, name, compute, candidates, k)


def _rank(
    model: Any,
    split: Split,
    name: str,
    compute: ComputeOptions,
    candidates: Any = "all",
    k: int = 0,
    top: TopK | None = None,
) -> RankedPositives:
    """Return the ranks of the positives; with `top`, of none, as each user's best items are handed to it."""
    check_split(split)
    resources = Resources(check_compute(compute), name)
    model = convert_lists(model, split, name)
    adapted = model if isinstance(model, (Lists, ListEntries)) else adapt(model, split, name=name)
    is_lists = isinstance(adapted, (Lists, ListEntries)) or is_list_frame(adapted)
    if top is not None and (is_lists or isinstance(adapted, RankedPositives)):
        raise InputError(
            f"{name}: the best items of every user need scores of all items, which lists and ranks lack."
        )
    with _named(name):
        if isinstance(adapted, RankedPositives):
            return _as_it_is(adapted, candidates, name, k)
        targets = Targets.from_split(split)
        if top is not None:
            targets = replace(targets, user=targets.user[:0], item=targets.item[:0], gain=None)
        if isinstance(candidates, SampledCandidates):
            if is_lists:
                raise InputError(f"{name}: sampled candidates need scores of all items.")
            if k:
                raise InputError(
                    f"{name}: a sample of candidates has no lists of the first {k}; rank them all."
                )
            return rank_sampled(as_scorer(adapted, split, name), split, targets, candidates, resources)
        lists, allowed = as_candidates(candidates, split, name)
        if lists is not None:
            targets = restrict_lists(targets, lists)
        elif allowed is not None:
            targets = restrict_items(targets, allowed)
        maker = ListMaker(distinct(targets.user), split.n_users, k) if k else None
        top = top if maker is None else maker.top
        if is_lists:
            ranked = rank_lists(adapted, split, targets, lists=lists, allowed=allowed, name=name, top=top)
            return ranked if maker is None else replace(ranked, top=maker.lists())
        scorer = as_scorer(adapted, split, name)
        n_rows = targets.user.size + (0 if top is None else split.n_users)
        kernels = kernels_for(resources.compute.engine, n_rows * split.n_items)
        if lists is not None:
            counts = rank_in_lists(scorer, targets, lists, kernels, resources, top)
        else:
            batch = Batch.of(targets, all_users=top is not None and top.exhaustive)
            counts = _rank_catalogue(scorer, targets, batch, allowed, kernels, resources, top)
        return targets.ranked(*counts, top=None if maker is None else maker.lists())


def top_items(
    model: Any,
    split: Split,
    *,
    k: int,
    each: Callable[[RankedPositives], None] | None = None,
    name: str = "the model",
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
    each : callable, optional
        Called with the items of a few users at a time, from several threads, for each user at most once; what
        is returned is empty then. For sums over items of users that do not fit in memory together.
    name, compute
        As in `rank_positives`.

    Raises
    ------
    InputError
        For models that have no scores of all items, and scores that are NaN.

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
    parts: dict[int, tuple[IntArray, ...]] = {}
    targets = replace(Targets.from_split(split), gain=None)

    def keep(*part: IntArray) -> None:
        if not part[0].size:
            return
        if each is None:
            parts[int(part[0][0])] = part
        else:
            user, item, n_above, n_tied = part
            each(replace(targets, user=user, item=item).ranked(n_above, n_tied))

    _rank(model, split, name, compute, top=TopK(k, keep, np.arange(split.n_users)))
    nothing = (np.zeros(0, dtype=np.int64),) * 4
    columns = [np.concatenate(one) for one in zip(nothing, *parts.values(), strict=True)]
    order = np.argsort(columns[0], kind="stable")  # a user's items are in one part
    user, item, n_above, n_tied = (one[order] for one in columns)
    return replace(targets, user=user, item=item).ranked(n_above, n_tied)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Add the name of the model to an error that its own code raises; ours name it themselves."""
    try:
        yield
    except Exception as error:  # a model may raise anything; it is passed on with its name
        if not isinstance(error, IpsevalError):
            error.add_note(f"raised while {name} was ranked")
        raise


def _as_it_is(ranked: RankedPositives, candidates: Any, name: str, k: int) -> RankedPositives:
    """Return ranks that were made before, if they are what is asked for."""
    if not is_catalogue(candidates):
        raise InputError(f"{name} is already ranked; rank the model again among other candidates.")
    if k and (ranked.top is None or ranked.top.depth < k):
        raise InputError(
            f"{name} is already ranked, without its first {k} items; rank the model again with top_k={k}."
        )
    return ranked


def _rank_catalogue(
    scorer: AnyScorer,
    targets: Targets,
    batch: Batch,
    allowed: IntArray | None,
    kernels: Any,
    resources: Resources,
    top: TopK | None,
) -> tuple[IntArray, IntArray]:
    """Return (n_above, n_tied) among all items, or among the allowed ones."""
    n_items = targets.item_ids.size
    top = None if top is None else top.of_users(batch.users).of_items(allowed)
    if allowed is not None:
        batch = replace(
            batch,
            item=np.searchsorted(allowed, batch.item),
            excluded=np.searchsorted(allowed, batch.excluded),
        )
    if isinstance(scorer, Factors):
        factors = scorer if allowed is None else scorer.subset(allowed)
        return rank_factors(factors, batch, kernels, resources, top)
    if isinstance(scorer, DenseScorer) and scorer.scores.strides[0] == 0 and n_items:
        row = scorer.scores[0]  # a view of one row, as `baselines.popularity` gives
        return rank_shared(row if allowed is None else row[allowed], batch, resources.name, top)
    return rank_stored(scorer, batch, allowed, n_items, kernels, resources, top)
