"""Exact ranks of held-out positives among all candidates."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from ipseval._checks import check_positive_int
from ipseval._compute import DEFAULT_COMPUTE, ComputeOptions, check_compute
from ipseval._types import IntArray
from ipseval.adapters import adapt
from ipseval.errors import InputError, IpsevalError
from ipseval.ranking._batches import Batch
from ipseval.ranking._candidates import allowed_codes, as_candidate_lists, listed, restricted
from ipseval.ranking._draws import SampledCandidates
from ipseval.ranking._factors import Factors
from ipseval.ranking._kept import TopK
from ipseval.ranking._lists import SettledLists, is_list_frame, rank_lists
from ipseval.ranking._passes import rank_factors, rank_in_lists, rank_shared, rank_stored
from ipseval.ranking._ranked import RankedPositives
from ipseval.ranking._run import Resources, kernels_for
from ipseval.ranking._sampled import rank_sampled
from ipseval.ranking._scorers import DenseScorer, FactorScorer, Scorer, as_scorer
from ipseval.ranking._targets import Targets
from ipseval.reading import Lists
from ipseval.splits import Split
from ipseval.splits._base import check_split


def rank_positives(
    model: Any,
    split: Split,
    *,
    name: str = "the model",
    candidates: Any = "all",
    allowed_items: Any | None = None,
    progress: bool | None = None,
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
        * a top-K frame with columns user, item and rank or score: ranks beyond K are censored; `Lists` of
          other forms, and with items that are no candidates;
        * a trained model of a library that `ipseval.adapters` knows;
        * RankedPositives, which are returned as they are.
        Scores are real numbers, higher is better, and keep their order and their ties whatever their type;
        -inf and inf are scores, NaN is an error.
    split : Split
        `split.test` is ranked; `split.train` is excluded from the candidates, unless made with
        `seen="include"`.
    name : str
        Used in error messages and beside the progress bar.
    candidates : "all", SampledCandidates or data frame
        `SampledCandidates(m, ...)`: m drawn candidates compete, see there. A frame with columns user and item
        gives each user candidates of its own.
    allowed_items : ids or boolean mask (n_items,), optional
        Only these items compete. Test positives outside are left out, counted, and named in a warning.
    progress : bool, optional
        A bar after two seconds. Default: only on a terminal.
    top_k : int, optional
        Keep the first k candidates of every user with test positives as `top`, from the same pass; equal
        scores stand in the order of `split.item_ids`. What is ranked already, or sampled, has no lists.
    compute : ComputeOptions
        Threads, memory, block size and engine; BLAS is held at one thread each while factors are ranked.

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
    check_split(split)
    resources = Resources(check_compute(compute), progress, name)
    k = 0 if top_k is None else check_positive_int("top_k", top_k)
    adapted = model if isinstance(model, (Lists, SettledLists)) else adapt(model, split, name=name)
    with _named(name):
        return _ranked(adapted, split, candidates, allowed_items, resources, k)


@contextmanager
def _named(name: str) -> Iterator[None]:
    """Add the name of the model to an error that its own code raises; ours name it themselves."""
    try:
        yield
    except Exception as error:  # a model may raise anything; it is passed on with its name
        if not isinstance(error, IpsevalError):
            error.add_note(f"raised while {name} was ranked")
        raise


def _ranked(
    model: Any, split: Split, candidates: Any, allowed_items: Any | None, resources: Resources, k: int
) -> RankedPositives:
    name = resources.name
    everything = isinstance(candidates, str) and candidates == "all" and allowed_items is None
    if isinstance(model, RankedPositives):
        if not everything:
            raise InputError(f"{name} is already ranked; rank the model again among other candidates.")
        if k and (model.top is None or model.top.depth < k):
            raise InputError(
                f"{name} is already ranked, without its first {k} items; rank the model again with top_k={k}."
            )
        return model
    targets = Targets.from_split(split)
    is_lists = isinstance(model, (Lists, SettledLists)) or is_list_frame(model)
    if isinstance(candidates, SampledCandidates):
        if allowed_items is not None or is_lists:
            raise InputError(f"{name}: sampled candidates need scores of all items, and no allowed_items.")
        if k:
            raise InputError(f"{name}: a sample of candidates has no lists of the first {k}; rank them all.")
        return rank_sampled(as_scorer(model, split, name), split, targets, candidates, resources)
    lists = as_candidate_lists(candidates, split, name)
    allowed = None if allowed_items is None else allowed_codes(allowed_items, split)
    if lists is not None and allowed is not None:
        raise InputError("give either candidates for each user or allowed_items, not both.")
    if lists is not None:
        targets = listed(targets, lists)
    elif allowed is not None:
        targets = restricted(targets, allowed)
    users = np.unique(targets.user)
    top = TopK.empty(users.size, k) if k else None
    if is_lists:
        ranked = rank_lists(model, split, targets, lists=lists, allowed=allowed, name=name, top=top)
        return ranked if top is None else replace(ranked, top=top.lists(users))
    scorer = as_scorer(model, split, name)
    kernels = kernels_for(resources.compute.engine, len(targets.user) * split.n_items)
    if lists is not None:
        counts = rank_in_lists(scorer, targets, lists, kernels, resources, top)
    else:
        counts = _rank_catalogue(scorer, targets, allowed, kernels, resources, top)
    return targets.ranked(*counts, top=None if top is None else top.lists(users))


def _rank_catalogue(
    scorer: Scorer,
    targets: Targets,
    allowed: IntArray | None,
    kernels: Any,
    resources: Resources,
    top: TopK | None,
) -> tuple[IntArray, IntArray]:
    """Return (n_above, n_tied) among all items, or among the allowed ones."""
    n_items = targets.item_ids.size
    batch = Batch.of(targets)
    top = top and top.of_items(allowed)
    if allowed is not None:
        batch = replace(
            batch,
            item=np.searchsorted(allowed, batch.item),
            excluded=np.searchsorted(allowed, batch.excluded),
        )
    if isinstance(scorer, FactorScorer):
        factors = Factors.of(scorer.user_factors, scorer.item_factors, scorer.item_bias, resources.name)
        factors = factors if allowed is None else factors.subset(allowed)
        return rank_factors(factors, batch, kernels, resources, top)
    if isinstance(scorer, DenseScorer) and scorer.scores.strides[0] == 0 and n_items:
        row = scorer.scores[0]  # a view of one row, as `baselines.popularity` gives
        return rank_shared(row if allowed is None else row[allowed], batch, resources.name, top)
    return rank_stored(scorer, batch, allowed, n_items, kernels, resources, top)
