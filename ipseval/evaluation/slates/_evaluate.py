"""evaluate_slates(): scores of listed items in, the usual Evaluation out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, Unpack

import numpy as np
import pandas as pd

from ipseval.errors import DataWarning, InputError
from ipseval.estimators import Estimator
from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.pipeline import evaluate_ranks
from ipseval.evaluation.request import Options, fitted_propensity
from ipseval.evaluation.slates._rank import of_queries, rank_slates
from ipseval.evaluation.slates._slates import Slates
from ipseval.metrics import Metric
from ipseval.metrics.sampled.sampled_metric import requested_metrics
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import check_choice, check_models, counted, examples, warn_user
from ipseval.utils.columns import columns_of, frame_columns
from ipseval.utils.counts import Count, some
from ipseval.utils.ids import places
from ipseval.utils.types import AnyArray, BoolArray

SLATE_METRICS = ("auc", "ndcg@10", "rr")
Unscored = Literal["raise", "miss"]


def evaluate_slates(
    models: Mapping[str, Any],
    slates: Any | None = None,
    *,
    propensity: Propensity | None = None,
    metrics: Iterable[str | Metric] = SLATE_METRICS,
    estimators: Iterable[str | Estimator] | None = None,
    unscored: Unscored = "raise",
    **options: Unpack[Options],
) -> Evaluation:
    """Return estimates of every metric within queries, for every recommender, with errors over users.

    The candidates of a query are exactly the items listed for it, so that every metric can be read, `auc`,
    `ap`, `rr` and `ndcg` without cutoff too. Averages are over queries; their standard errors, intervals and
    paired tests are over users, whose queries are added up first.

    Parameters
    ----------
    models : mapping
        Name -> scores, higher is better:

        * an array or Series, one score for each row of `slates`;
        * the name of a column, where `slates` is a frame;
        * a frame with columns query, item and score. Without `slates` it has the label too, and the columns
          user, position and propensity where these are known.
    slates : Slates or data frame, optional
        What was listed, with labels; a frame is read by `Slates.from_frame`.
    propensity : Propensity, optional
        Per item, fitted to a training log and matched by item ids; per pair of users and items; or per
        position, `slates.examination(...)`. Default: the column of propensities, where the slates have one.
    metrics : labels or objects
        As in `evaluate`. Labels are the gains of graded metrics: `ndcg(gain=linear)@10`.
    unscored : {"raise", "miss"}
        What to do when a frame lacks items that are listed: an error, or take it for a list that ends there.
        Metrics with a cutoff then count the others as misses.
    estimators, **options
        As in `evaluate`: missing_lists (of queries without any scored item), ties, confidence_level,
        n_relevant (s
        of each query, an array in the order of `slates.query_ids` or a Series), low_ess, interval, rng.

    Raises
    ------
    InputError
        For scores that do not fit the slates, and as `evaluate`.

    Examples
    --------
    Two queries whose targets have ranks 2 and 1: the mean reciprocal rank is (1/2 + 1)/2.

    >>> triples = pd.DataFrame({"query": [1, 1, 1, 2, 2, 2], "item": [1, 2, 3, 1, 2, 3],
    ...     "score": [.9, .8, .1, .7, .2, .3], "label": [0, 1, 0, 1, 0, 0]})
    >>> evaluate_slates({"model": triples}, metrics=["mrr"]).frame["estimate"].item()
    0.75
    """
    check_models(models, "models", "scores")
    check_choice("unscored", unscored, ("raise", "miss"))
    asked = requested_metrics(metrics)
    listed = _slates(models, slates)
    if not listed.is_positive.any():
        raise InputError("no row has a label above 0: there is no positive to evaluate.")
    _warn_about_grades(listed, asked)
    ranks = {name: _rank(model, listed, slates, unscored, name) for name, model in models.items()}
    if propensity is not None:
        given = fitted_propensity(propensity, _refuse_model)
        propensity = None if given is None else of_queries(given, listed)
    elif listed.propensity is not None:
        propensity = listed.logged()
    evaluation = evaluate_ranks(
        ranks,
        propensity=propensity,
        metrics=asked,
        estimators=estimators,
        **options,
    )
    return replace(evaluation, _counts=(*listed.counts, *evaluation._counts))


def _refuse_model(model: Any) -> Propensity:
    raise InputError(
        f"{type(model).__name__} is not fitted; slates hold no training data. Pass "
        f"{type(model).__name__}(…).fit(train), with the same item ids."
    )


def _slates(models: Mapping[str, Any], slates: Any | None) -> Slates:
    """Return the slates that are given, or that the frame of the first model holds."""
    if isinstance(slates, Slates):
        return slates
    if slates is not None:
        return Slates.from_frame(slates)
    name, first = next(iter(models.items()))
    if not _is_frame(first):
        raise InputError(
            f"{name}: without slates= a model is a frame with columns query, item, label and score; got "
            f"{type(first).__name__}."
        )
    found = Slates.from_frame(first)
    for other, frame in models.items():
        if _is_frame(frame) and "label" in frame_columns(frame):
            _check_same(found, Slates.from_frame(frame), name, other)
    return found


def _check_same(one: Slates, other: Slates, name: str, other_name: str) -> None:
    """Raise `InputError` unless two frames list the same items with the same labels."""
    pairs = [
        pd.Series(s.label, index=pd.MultiIndex.from_arrays([s.query_ids[s.query], s.item_ids[s.item]]))
        for s in (one, other)
    ]
    if not pairs[0].sort_index().equals(pairs[1].sort_index()):
        raise InputError(
            f"{name!r} and {other_name!r} list other items or labels ({len(one):,} and {len(other):,} rows). "
            "Pass slates= once, and of each model query, item and score."
        )


def _rank(model: Any, slates: Slates, given: Any, unscored: Unscored, name: str) -> RankedPositives:
    """Return the ranks by one model, in whichever form its scores come."""
    if isinstance(model, str):
        if given is None or isinstance(given, Slates):
            raise InputError(f"{name}: {model!r} names a column; pass slates= as the frame that has it.")
        return rank_slates(columns_of(given, [model])[model], slates, name=name)
    if _is_frame(model):
        scores, found, counts = _aligned(model, slates, unscored, name)
        return replace(rank_slates(scores, slates, listed=found, name=name), counted=counts)
    return rank_slates(model, slates, name=name)


def _aligned(
    frame: Any, slates: Slates, unscored: Unscored, name: str
) -> tuple[AnyArray, BoolArray, tuple[Count, ...]]:
    """Return the scores of a frame in the order of the slates, which rows it has, and what was counted."""
    columns = columns_of(frame, ["query", "item", "score"])
    n_items = np.int64(slates.item_ids.size)
    codes = [
        places(columns[what], ids, f"{name}, column {what!r}")
        for what, ids in (("query", slates.query_ids), ("item", slates.item_ids))
    ]
    listed = pd.Index(slates.query * n_items + slates.item)
    row = listed.get_indexer(pd.Index(np.where(np.minimum(*codes) < 0, -1, codes[0] * n_items + codes[1])))
    pairs = columns["query"], columns["item"]
    n_other, first = _first(row < 0, *pairs)
    if n_other:
        raise InputError(
            f"{name} scores {counted(n_other, 'item')} of {row.size:,} that are not listed for their query "
            f"({first}); the candidates are the items listed."
        )
    n_again, first = _first(pd.Series(row).duplicated().to_numpy(), *pairs)
    if n_again:
        raise InputError(
            f"{name} scores {counted(n_again, 'item')} of a query again ({first}); score each item once."
        )
    found = np.zeros(len(slates), dtype=bool)
    found[row] = True
    n_lacking, first = _first(~found, slates.query_ids[slates.query], slates.item_ids[slates.item])
    if n_lacking and unscored == "raise":
        raise InputError(
            f"{name} has no score for {n_lacking:,} of {len(slates):,} listed items ({first}). Score them, "
            "or pass unscored='miss' for lists that end before."
        )
    score = columns["score"]
    scores = np.zeros(len(slates), dtype=score.dtype if score.dtype.kind in "iuf" else object)
    scores[row] = score
    return scores, found, some(Count("listed items without a score, misses", n_lacking, len(slates)))


def _first(rows: BoolArray, query: AnyArray, item: AnyArray) -> tuple[int, str]:
    """Return how many rows are meant, and which pair is the first of them."""
    n = int(rows.sum())
    if not n:
        return 0, ""
    at = int(rows.argmax())
    return n, f"first: query and item {examples((query[at], item[at]))}"


def _warn_about_grades(slates: Slates, metrics: list[Metric]) -> None:
    """Warn when grades are there and a metric that could read them counts positives as 1."""
    if np.isin(slates.label, (0.0, 1.0)).all():
        return
    plain = [one.label for one in metrics if getattr(one, "gain", None) == "binary"]
    if plain:
        warn_user(
            f"labels have grades, but here every positive counts as 1: {', '.join(plain)}. With gain=linear "
            "or gain=exponential, as in ndcg(gain=linear)@10, grades are read.",
            DataWarning,
        )


def _is_frame(model: Any) -> bool:
    return bool(frame_columns(model))
