"""Slates against other libraries, query by query: scikit-learn, ranx and trec_eval.

How ties are compared. scikit-learn defines its values with ties: `auc` counts a tie as one half, `ndcg_score`
averages over the orders of a tie. They are given the tied scores as they are. Its `average_precision_score`
lets a tie group enter as a whole, so that it is compared without ties. ranx and trec_eval break ties by an
order of their own. They are given the two extreme orders, positives first and positives last within each tie,
and are compared with ties="min" and ties="max". Graded gains are compared on scores without ties. ranx
compiles for minutes, so it takes part in the slow tests only.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

from ipseval.evaluation.slates import evaluate_slates
from tests.evaluation.slates.worlds import random_slates

WHOLE = 100_000
SIZES = [pytest.param(20, id="fast"), pytest.param(WHOLE, marks=pytest.mark.slow, id="all")]
CUT = 5


def values(frame: pd.DataFrame, metrics: list[str], **options) -> pd.DataFrame:
    """Return the value of each query, one column for each metric."""
    evaluation = evaluate_slates(
        {"m": frame.drop(columns="user")}, metrics=metrics, estimators=["aoa"], **options
    )
    return pd.DataFrame({label: evaluation.per_user("m", label, "aoa") for label in evaluation.metrics})


def by_query(frame: pd.DataFrame) -> list[tuple[int, np.ndarray, np.ndarray]]:
    ordered = frame.sort_values("query", kind="stable")
    cuts = np.flatnonzero(np.diff(ordered["query"].to_numpy(), prepend=-1))
    labels, scores = (np.split(ordered[name].to_numpy(), cuts[1:]) for name in ("label", "score"))
    return list(zip(np.unique(ordered["query"]), labels, scores, strict=True))


@pytest.mark.parametrize("n_queries", SIZES)
@pytest.mark.parametrize("grades", [1, 3])
def test_ndcg_agrees_with_scikit_learn_on_tied_scores(n_queries: int, grades: int):
    metrics = pytest.importorskip("sklearn.metrics")
    frame = random_slates(np.random.default_rng(11), n_queries, grades=grades)
    actual = values(frame, ["ndcg(gain=linear)", f"ndcg(gain=linear)@{CUT}"])
    expected = [
        (metrics.ndcg_score([label], [score]), metrics.ndcg_score([label], [score], k=CUT))
        for _, label, score in by_query(frame)
    ]
    np.testing.assert_allclose(actual, expected, atol=1e-12, rtol=0)


@pytest.mark.parametrize("n_queries", SIZES)
@pytest.mark.parametrize(
    ("metric", "theirs", "levels"), [("auc", "roc_auc_score", 5), ("ap", "average_precision_score", None)]
)
def test_auc_with_ties_and_average_precision_without_agree_with_scikit_learn(
    n_queries: int, metric: str, theirs: str, levels: int | None
):
    score_of = getattr(pytest.importorskip("sklearn.metrics"), theirs)
    frame = random_slates(np.random.default_rng(15), n_queries, levels=levels)
    actual = values(frame, [metric])[metric]
    expected = [score_of(label, score) for _, label, score in by_query(frame)]
    np.testing.assert_allclose(actual, expected, atol=1e-12, rtol=0)


def resolved(frame: pd.DataFrame, positives: str) -> pd.DataFrame:
    """Return the slates with every tie broken: positives first, or last."""
    toward = frame["label"] if positives == "first" else -frame["label"]
    order = frame.assign(_toward=toward).sort_values(["query", "score", "_toward"], kind="stable")
    place = order.groupby("query").cumcount()
    return frame.assign(score=place.astype(float))  # aligned by the index


@pytest.mark.parametrize("n_queries", SIZES)
@pytest.mark.parametrize(("positives", "ties"), [("first", "min"), ("last", "max")])
def test_slates_agree_with_ranx_and_trec_eval_at_both_ends_of_a_tie(
    n_queries: int, positives: str, ties: str
):
    frame = random_slates(np.random.default_rng(12), n_queries)
    labels = ["rr", "ap", "ndcg", f"ndcg@{CUT}", f"precision@{CUT}", f"recall@{CUT}", f"hit@{CUT}"]
    actual = values(frame, labels, ties=ties)
    strict = resolved(frame, positives)
    compare(actual, strict, dict(zip(labels, RANX, strict=True)), dict(zip(labels, TREC, strict=True)))


@pytest.mark.parametrize("n_queries", SIZES)
def test_graded_slates_agree_with_ranx_and_trec_eval_on_scores_without_ties(n_queries: int):
    frame = random_slates(np.random.default_rng(13), n_queries, grades=3, levels=None)
    labels = ["ndcg(gain=linear)", f"ndcg(gain=linear)@{CUT}"]
    actual = values(frame, labels)
    compare(
        actual,
        frame,
        dict(zip(labels, ["ndcg", f"ndcg@{CUT}"], strict=True)),
        dict(zip(labels, ["ndcg", f"ndcg_cut_{CUT}"], strict=True)),
    )


RANX = ["mrr", "map", "ndcg", f"ndcg@{CUT}", f"precision@{CUT}", f"recall@{CUT}", f"hit_rate@{CUT}"]
TREC = ["recip_rank", "map", "ndcg", f"ndcg_cut_{CUT}", f"P_{CUT}", f"recall_{CUT}", f"success_{CUT}"]


def compare(ours: pd.DataFrame, strict: pd.DataFrame, ranx_names, trec_names) -> None:
    """Compare every column with both libraries, which are given scores without ties."""
    pytrec_eval = pytest.importorskip("pytrec_eval")
    texts = strict.assign(query=strict["query"].astype(str), item=strict["item"].astype(str))
    qrels, run = {}, {}
    columns = (texts[name] for name in ("query", "item", "label", "score"))
    for query, item, label, score in zip(*columns, strict=True):
        run.setdefault(query, {})[item] = float(score)
        qrels.setdefault(query, {})[item] = int(label)
    names = set(trec_names.values())
    measures = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
    queries = [str(query) for query in ours.index]
    for label, name in trec_names.items():
        expected = np.array([measures[query][name] for query in queries])
        np.testing.assert_allclose(ours[label], expected, atol=1e-12, rtol=0, err_msg=f"trec_eval {name}")
    if len(queries) < WHOLE:
        return
    ranx = pytest.importorskip("ranx")
    # It wants positives only among judgements.
    judgements = {
        q: {item: label for item, label in labels.items() if label > 0} for q, labels in qrels.items()
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        ranx_qrels, ranx_run = ranx.Qrels(judgements), ranx.Run(run)
        ranx.evaluate(ranx_qrels, ranx_run, list(ranx_names.values()), make_comparable=True)
    for label, name in ranx_names.items():
        expected = np.array([ranx_run.scores[name][query] for query in queries])
        np.testing.assert_allclose(ours[label], expected, atol=1e-12, rtol=0, err_msg=f"ranx {name}")


def test_the_expected_value_of_a_tie_lies_between_its_ends():
    frame = random_slates(np.random.default_rng(14), 200)
    labels = ["rr", "ap", "ndcg", "precision@3"]
    low, middle, high = (values(frame, labels, ties=ties) for ties in ("max", "expected", "min"))
    assert ((low <= middle + 1e-12) & (middle <= high + 1e-12)).all(axis=None)
    assert (low < high - 0.01).any(axis=None)
