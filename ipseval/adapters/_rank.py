"""Ranking of whatever `adapt` understands: the public `rank_positives`."""

from __future__ import annotations

from typing import Any, Literal

from ipseval import ranking
from ipseval.adapters._adapt import adapt
from ipseval.ranking import RankedPositives
from ipseval.splits import Split
from ipseval.splits._base import check_split


def rank_positives(
    model: Any,
    split: Split,
    *,
    name: str = "the model",
    candidates: Any = "all",
    allowed_items: Any | None = None,
    n_threads: int | None = None,
    progress: bool | None = None,
    max_memory: int | str | None = None,
    block_size: int | None = None,
    engine: Literal["numpy", "numba"] | None = None,
) -> RankedPositives:
    """Return the exact rank of every test positive among the catalogue minus the user's training items.

    Every candidate is compared with every positive, unless `candidates` says otherwise; users × items are
    never held.
    The result is the same integer for integer with either engine, any number of threads and any block size.
    For factors the score is Σ_k u_k v_k (+ bias), added in order in double precision, on every machine.

    Parameters
    ----------
    model : scorer or trained model
        * An (n_users, n_items) array or memmap in the order of `split.user_ids`, `split.item_ids`, or a
          DataFrame with ids as labels, or a scipy.sparse matrix, in which an entry that is not stored is 0;
        * a (user_factors, item_factors[, item_bias]) tuple, the fastest, in single or double precision;
        * a callable users -> (len(users), n_items), called in this thread with ascending user codes;
        * a top-K frame with columns user, item and rank or score: ranks beyond K are censored;
        * a trained model of a library that `ipseval.adapters` knows;
        * RankedPositives, which are returned as they are.
        Scores are real numbers, higher is better, and keep their order and their ties whatever their type;
        -inf and inf are scores, NaN is an error.
    split : Split
        `split.test` is ranked; `split.train` is excluded from the candidates.
    name : str
        Used in error messages and beside the progress bar.
    candidates : "all", SampledCandidates or data frame
        `SampledCandidates(m, ...)`: m drawn candidates compete, see there. A frame with columns user and item
        gives each user candidates of its own.
    allowed_items : ids or boolean mask (n_items,), optional
        Only these items compete. Test positives outside are left out, counted, and named in a warning.
    n_threads : int, optional
        Default: all cores this process may use. BLAS is held at one thread each while factors are ranked.
    progress : bool, optional
        A bar after two seconds. Default: only on a terminal.
    max_memory : int or str, optional
        Bound on the buffers, in bytes or as "200 MB"; default 128 MB. Inputs and results are not counted.
    block_size : int, optional
        Users handled together; default: what fits the caches and `max_memory`.
    engine : {"numpy", "numba"}, optional
        Default: Numba where it is installed and the work is large enough to be worth loading it.

    Raises
    ------
    InputError
        For NaN scores (with their number), a shape that does not match, an unsupported type, a memory limit
        below the scores of one user.

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
    return ranking.rank_positives(
        adapt(model, split, name=name),
        split,
        name=name,
        candidates=candidates,
        allowed_items=allowed_items,
        n_threads=n_threads,
        progress=progress,
        max_memory=max_memory,
        block_size=block_size,
        engine=engine,
    )
