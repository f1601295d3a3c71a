"""The function evaluate_slates, which evaluates scores of the items listed for each query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal, Unpack

import numpy as np
import pandas as pd

from ipseval.errors import DataWarning, InputError
from ipseval.estimators import Estimator
from ipseval.evaluation._evaluate import evaluate_ranks
from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.request import Options, resolve_propensity
from ipseval.evaluation.slates._rank import expand_to_queries, rank_slates
from ipseval.evaluation.slates._slates import Slates
from ipseval.metrics import Metric
from ipseval.metrics.labels import resolve_metrics
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import as_list, check_choice, check_models, format_count, format_examples, warn_user
from ipseval.utils.columns import extract_columns, frame_columns
from ipseval.utils.ids import find_positions
from ipseval.utils.notes import Count, drop_zero_counts
from ipseval.utils.public import public_function
from ipseval.utils.types import AnyArray, BoolArray, IntArray

SLATE_METRICS = ("auc", "ndcg@10", "rr")
Unscored = Literal["raise", "miss"]


@public_function
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
    """Evaluate recommenders within queries, with exactly the listed items of a query as candidates.

    Because all candidates are listed, every metric is defined, including `auc`, `ap`, `rr` and `ndcg` without
    a cutoff. Averages are over queries. Standard errors, intervals and paired tests are over users: the sums
    of a user's queries are added up first.

    Parameters
    ----------
    models : mapping
        Name -> scores, higher is better:

        * an array or Series, one score for each row of `slates`;
        * the name of a column, where `slates` is a frame;
        * a frame with columns query, item and score. Without `slates` it has the label too, and the columns
          user, position and propensity where these are known.
    slates : Slates or data frame, optional
        The listed items with labels; a frame is read by `Slates.from_frame`. Default: read from the frame of
        the first model.
    propensity : Propensity, optional
        Per item, fitted to a training log and matched by item ids; per pair of users and items; or per
        position, `slates.examination(...)`. Default: the column of propensities, where the slates have one.
    metrics : labels or objects, default ("auc", "ndcg@10", "rr")
        As in `evaluate`. Labels are the gains of graded metrics: `ndcg(gain=linear)@10`.
    estimators : labels or objects, optional
        As in `evaluate`.
    unscored : {"raise", "miss"}, default "raise"
        What to do when a frame has no score for some listed items. "raise": raise an error. "miss": treat the
        frame as a list that ends before these items, so metrics with a cutoff count them as misses.
    **options
        As in `evaluate`: missing_lists (of queries without any scored item), ties, confidence_level,
        n_relevant (s of each query, an array in the order of `slates.query_ids` or a Series), low_ess,
        interval, rng.

    Returns
    -------
    Evaluation
        `frame` has one row per recommender, metric and estimator. Its users are the users of the slates.

    Raises
    ------
    InputError
        For scores that do not fit the slates, and as `evaluate`.

    See Also
    --------
    rank_slates : Rank the items of slates without an evaluation.
    read_mind : Read slates from a file of MIND.
    read_trec : Read a pool and runs from files of TREC.

    Examples
    --------
    Two queries whose targets have ranks 2 and 1: the mean reciprocal rank is (1/2 + 1)/2.

    >>> triples = pd.DataFrame({"query": [1, 1, 1, 2, 2, 2], "item": [1, 2, 3, 1, 2, 3],
    ...     "score": [0.9, 0.8, 0.1, 0.7, 0.2, 0.3], "label": [0, 1, 0, 1, 0, 0]})
    >>> evaluate_slates({"model": triples}, metrics=["mrr"]).frame["estimate"].item()
    0.75
    """
    check_models(models, "models", "scores")
    check_choice("unscored", unscored, ("raise", "miss"))
    labels = as_list(metrics, "metrics")
    metric_objects = resolve_metrics(labels)
    resolved_slates = _resolve_slates(models, slates)
    if not resolved_slates.is_positive.any():
        raise InputError("no row has a label above 0: there is no positive to evaluate.")
    _warn_about_grades(resolved_slates, metric_objects)
    ranks = {}
    for name, model in models.items():
        ranks[name] = _rank_slate_model(model, resolved_slates, slates, unscored, name)
    evaluation = evaluate_ranks(
        ranks,
        propensity=_resolve_propensity(propensity, resolved_slates),
        metrics=labels,  # so that a note can tell how ap@k was requested
        estimators=estimators,
        **options,
    )
    return replace(evaluation, _counts=(*resolved_slates.counts, *evaluation._counts))


def _resolve_propensity(propensity: Propensity | None, slates: Slates) -> Propensity | None:
    """Return P of the positives of every query, from the argument or from the slates; None without either."""
    if propensity is None:
        return None if slates.propensity is None else slates.logged()
    fitted = resolve_propensity(propensity, _refuse_model)
    return None if fitted is None else expand_to_queries(fitted, slates)


def _refuse_model(model: object) -> Propensity:
    """Raise `InputError` for a model of propensities that is not fitted."""
    raise InputError(
        f"{type(model).__name__} is not fitted; slates hold no training data. Pass "
        f"{type(model).__name__}(…).fit(train), with the same item ids."
    )


def _resolve_slates(models: Mapping[str, object], slates: object) -> Slates:
    """Return the slates of the argument, or of the frame of the first model."""
    if isinstance(slates, Slates):
        return slates
    if slates is not None:
        return Slates.from_frame(slates)
    first_name, first_model = next(iter(models.items()))
    if not _is_frame(first_model):
        raise InputError(
            f"{first_name}: without slates= a model is a frame with columns query, item, label and score; "
            f"got {type(first_model).__name__}."
        )
    first_slates = Slates.from_frame(first_model)
    for name, model in models.items():
        if _is_frame(model) and "label" in frame_columns(model):
            _check_equal(first_slates, Slates.from_frame(model), first_name, name)
    return first_slates


def _check_equal(first: Slates, second: Slates, first_name: str, second_name: str) -> None:
    """Raise `InputError` unless two frames list the same items with the same labels."""
    if not _label_by_pair(first).equals(_label_by_pair(second)):
        raise InputError(
            f"{first_name!r} and {second_name!r} list other items or labels ({len(first):,} and "
            f"{len(second):,} rows). Pass slates= once, and of each model query, item and score."
        )


def _label_by_pair(slates: Slates) -> pd.Series[Any]:
    """Return the label of each query and item, in ascending order of the pairs."""
    pairs = pd.MultiIndex.from_arrays([slates.query_ids[slates.query], slates.item_ids[slates.item]])
    return pd.Series(slates.label, index=pairs).sort_index()


def _rank_slate_model(
    model: Any, slates: Slates, slates_argument: Any, unscored: Unscored, name: str
) -> RankedPositives:
    """Return the ranks by a model, from a column name, a frame, or one score for each row."""
    if isinstance(model, str):
        if slates_argument is None or isinstance(slates_argument, Slates):
            raise InputError(f"{name}: {model!r} names a column; pass slates= as the frame that has it.")
        return rank_slates(extract_columns(slates_argument, [model])[model], slates, name=name)
    if _is_frame(model):
        scores, is_scored, counts = _align_scores(model, slates, unscored, name)
        return replace(rank_slates(scores, slates, listed=is_scored, name=name), row_counts=counts)
    return rank_slates(model, slates, name=name)


def _align_scores(
    frame: object, slates: Slates, unscored: Unscored, name: str
) -> tuple[AnyArray, BoolArray, tuple[Count, ...]]:
    """Return the scores of a frame in the order of the slates, whether each row has one, and counts."""
    columns = extract_columns(frame, ["query", "item", "score"])
    rows = _find_slate_rows(columns, slates, name)
    n_unlisted, first = _count_pairs(rows < 0, columns["query"], columns["item"])
    if n_unlisted:
        raise InputError(
            f"{name} scores {format_count(n_unlisted, 'item')} of {rows.size:,} that are not listed for their "
            f"query ({first}); the candidates are the items listed."
        )
    is_repeated = pd.Series(rows).duplicated().to_numpy()
    n_repeated, first = _count_pairs(is_repeated, columns["query"], columns["item"])
    if n_repeated:
        raise InputError(
            f"{name} scores {format_count(n_repeated, 'item')} of a query again ({first}); score each item once."
        )

    is_scored = np.zeros(len(slates), dtype=bool)
    is_scored[rows] = True
    n_unscored, first = _count_pairs(~is_scored, slates.query_ids[slates.query], slates.item_ids[slates.item])
    if n_unscored and unscored == "raise":
        raise InputError(
            f"{name} has no score for {n_unscored:,} of {len(slates):,} listed items ({first}). Score them, "
            "or pass unscored='miss' for lists that end before."
        )
    score = columns["score"]
    score_type = score.dtype if score.dtype.kind in "iuf" else object
    scores = np.zeros(len(slates), dtype=score_type)
    scores[rows] = score
    return (
        scores,
        is_scored,
        drop_zero_counts(Count("listed items without a score, misses", n_unscored, len(slates))),
    )


def _find_slate_rows(columns: Mapping[str, AnyArray], slates: Slates, name: str) -> IntArray:
    """Return the row of the slates for each pair of query and item; -1 for pairs that are not listed."""
    n_items = np.int64(slates.item_ids.size)
    queries = find_positions(columns["query"], slates.query_ids, f"{name}, column 'query'")
    items = find_positions(columns["item"], slates.item_ids, f"{name}, column 'item'")
    keys = np.where(np.minimum(queries, items) < 0, -1, queries * n_items + items)
    slate_keys = pd.Index(slates.query * n_items + slates.item)
    return np.asarray(slate_keys.get_indexer(pd.Index(keys)))


def _count_pairs(selected: BoolArray, query: AnyArray, item: AnyArray) -> tuple[int, str]:
    """Return the number of selected pairs, and the first of them as text."""
    n_selected = int(selected.sum())
    if not n_selected:
        return 0, ""
    first = int(selected.argmax())
    return n_selected, f"first: query and item {format_examples((query[first], item[first]))}"


def _warn_about_grades(slates: Slates, metrics: list[Metric]) -> None:
    """Warn when labels are grades and a metric that could read them counts positives as 1."""
    if np.isin(slates.label, (0.0, 1.0)).all():
        return
    binary_metrics = []
    for metric in metrics:
        if getattr(metric, "gain", None) == "binary":
            binary_metrics.append(metric.label)

    if binary_metrics:
        warn_user(
            f"labels have grades, but here every positive counts as 1: {', '.join(binary_metrics)}. With "
            "gain=linear or gain=exponential, as in ndcg(gain=linear)@10, grades are read.",
            DataWarning,
        )


def _is_frame(model: object) -> bool:
    """Return whether a model is a data frame."""
    return bool(frame_columns(model))
