"""Every metric under fully observed relevance equals its value in other packages.

Where a package computes something else under the same name, its number follows from ours by the formula of
docs/why-numbers-differ.md, which stands here in plain code.
"""

from __future__ import annotations

import importlib.util
import itertools
import os
import subprocess
import sys
import warnings
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ipseval
from tests.golden import oracle
from tests.metrics.queries import N_ITEMS, N_QUERIES, Queries, random_queries

# Fewer items than the last cutoff: lists shorter than k.
CUTOFFS = (1, 5, 10, 50)
REASON = "the package to compare with is not installed"
QUERIES = random_queries(0)
TIED = random_queries(1, levels=6)

pytestmark = pytest.mark.filterwarnings("ignore:.*the cutoff exceeds")  # 50 of 40 items, on purpose


def package(name: str):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip(name, reason=f"{REASON}: {name}")


def per_user(label: str, queries: Queries = QUERIES, estimator: str = "aoa", **options) -> np.ndarray:
    result = ipseval.evaluate_ranks(
        {"m": queries.ranked},
        metrics=[label],
        estimators=[estimator],
        propensity=None if estimator == "aoa" else ones(),
        low_ess="ignore",
        **options,
    )
    return result.per_user("m", ipseval.metric(label).label, estimator).to_numpy()


def ones() -> ipseval.propensity.Propensity:
    return ipseval.KnownPropensity(item=np.ones(N_ITEMS)).fit(QUERIES.ranked)


def value(label: str, queries: Queries = QUERIES) -> float:
    result = ipseval.evaluate_ranks({"m": queries.ranked}, metrics=[label], estimators=["aoa"])
    return result.estimate("m", label, "aoa").value


COUNT = QUERIES.relevant.sum(axis=1)


def gains_at_ranks(discount: np.ndarray) -> np.ndarray:
    """Return Σ discount(r) over the relevant items of each query, for discounts of the ranks 1 … n."""
    return np.take_along_axis(QUERIES.relevant, QUERIES.order, axis=1) @ discount


FULL = ["dcg", "mean_dcg", "ap", "ndcg", "rr", "rbp(0.8)"]
CUT = ["recall", "precision", "dcg", "mean_dcg", "ap", "ndcg", "rr", "hit"]


@pytest.mark.parametrize("label", FULL + [f"{name}@{k}" for name in CUT for k in CUTOFFS])
@pytest.mark.parametrize("estimator", ["aoa", "ips", "snips"])
def test_with_everything_observed_each_estimator_is_the_textbook_value_of_each_query(
    label: str, estimator: str
):
    name, _, k = label.partition("@")
    expected = [
        oracle.textbook(
            name.partition("(")[0],
            int(k) if k else None,
            order.tolist(),
            dict.fromkeys(np.flatnonzero(relevant).tolist(), 1.0),
        )
        for order, relevant in zip(QUERIES.order, QUERIES.relevant, strict=True)
    ]
    relevant = QUERIES.relevant.sum(axis=1)
    got = per_user(label, estimator=estimator, n_relevant=relevant)
    assert got == pytest.approx(np.array(expected), abs=1e-10)


# scikit-learn takes one query at a time where scores are tied, and a fifth of a millisecond for each.
SOME = 100


@cache
def scikit_learn(name: str, k: int | None, tied: bool, grades: bool = False) -> np.ndarray:
    """Return the values of scikit-learn for some queries."""
    metrics = package("sklearn.metrics")
    queries = TIED if tied else QUERIES
    truth = (queries.grade if grades else queries.relevant)[:SOME].astype(float)
    pairs = zip(truth, queries.scores[:SOME], strict=True)
    if name == "auc":
        return np.array([metrics.roc_auc_score(relevant, scores) for relevant, scores in pairs])
    reference = {"dcg": metrics.dcg_score, "ndcg": metrics.ndcg_score}[name]
    return np.array([reference([relevant], [scores], k=k) for relevant, scores in pairs])


@pytest.mark.parametrize("tied", [False, True], ids=["strict", "tied"])
@pytest.mark.parametrize("estimator", ["aoa", "ips"])
def test_auc_and_dcg_and_ndcg_are_those_of_scikit_learn_ties_included(tied: bool, estimator: str):
    queries = TIED if tied else QUERIES

    def ours(label: str) -> np.ndarray:
        relevant = queries.relevant.sum(axis=1)
        return per_user(label, queries=queries, estimator=estimator, n_relevant=relevant)[:SOME]

    assert ours("auc") == pytest.approx(scikit_learn("auc", None, tied), abs=1e-10)
    for name, k in itertools.product(("dcg", "ndcg"), (None, *CUTOFFS)):
        if estimator == "ips" and name == "ndcg" and tied:
            continue  # the same form; its expectation over ties is tested by enumeration
        suffix = "" if k is None else f"@{k}"
        assert ours(name + suffix) == pytest.approx(scikit_learn(name, k, tied), abs=1e-10)
        if estimator == "aoa":
            graded = scikit_learn(name, k, tied, grades=True)
            assert ours(f"{name}(gain=linear){suffix}") == pytest.approx(graded, abs=1e-10)


@pytest.mark.parametrize("queries", [QUERIES, TIED], ids=["strict", "tied"])
def test_average_precision_of_scikit_learn_lets_tied_items_enter_together(queries: Queries):
    metrics = package("sklearn.metrics")
    relevant = queries.relevant[:SOME]
    scores = queries.scores[:SOME]
    theirs = [metrics.average_precision_score(*query) for query in zip(relevant, scores, strict=True)]
    # All items of a tie stand at its last place: precision there, over the relevant items.
    is_at_or_above = scores[:, None, :] >= scores[:, :, None]
    precision = (is_at_or_above & relevant[:, None, :]).sum(axis=2) / is_at_or_above.sum(axis=2)
    grouped_precision = (precision * relevant).sum(axis=1) / relevant.sum(axis=1)
    assert grouped_precision == pytest.approx(np.array(theirs), abs=1e-10)
    ours_differs = not np.allclose(per_user("ap", queries)[:SOME], theirs, atol=1e-6)
    assert ours_differs == (queries is TIED)


def ids(rows: np.ndarray, prefix: str) -> dict[str, dict[str, float]]:
    return {
        f"q{u}": {f"{prefix}{i}": float(rows[u, i]) for i in np.flatnonzero(rows[u])}
        for u in range(N_QUERIES)
    }


def run_of(queries: Queries) -> dict[str, dict[str, float]]:
    return {f"q{u}": {f"d{i}": float(queries.scores[u, i]) for i in range(N_ITEMS)} for u in range(N_QUERIES)}


RANX = {
    "precision": "precision",
    "recall": "recall",
    "hit": "hit_rate",
    "rr": "mrr",
    "ap": "map",
    "dcg": "dcg",
    "ndcg": "ndcg",
}


RANX_WHOLE = {"rr": "mrr", "ap": "map", "dcg": "dcg", "ndcg": "ndcg", "rbp(0.8)": "rbp.80"}
RANX_GAINS = {"linear": "", "exponential": "_burges"}


@pytest.fixture(scope="module")
def ranx_values(tmp_path_factory):
    """(label of ranx, whether with grades) -> values of the queries.

    ranx compiles for half a minute what it computes in one second without: it runs in a child, interpreted.
    """
    if importlib.util.find_spec("ranx") is None:
        pytest.skip(f"{REASON}: ranx")
    path = tmp_path_factory.mktemp("ranx") / "values.npz"
    program = "import sys; from tests.metrics.test_peers import write_ranx; write_ranx(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", program, str(path)],
        cwd=Path(__file__).resolve().parents[2],
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        check=True,
    )
    with np.load(path) as archive:
        return {tuple(key.split("|")): archive[key] for key in archive.files}


def write_ranx(path: str) -> None:
    """Write the values of ranx for the queries, with binary relevance and with grades."""
    ranx = package("ranx")
    qrels = {q: {d: int(g) for d, g in docs.items()} for q, docs in ids(QUERIES.grade, "d").items()}
    run = ranx.Run(run_of(QUERIES))
    labels_by_kind = {
        "binary": [f"{measure}@{k}" for measure in RANX.values() for k in CUTOFFS]
        + list(RANX_WHOLE.values()),
        "grades": [f"{name}{suffix}@10" for name in ("dcg", "ndcg") for suffix in RANX_GAINS.values()],
    }
    relevant = {"binary": {q: dict.fromkeys(docs, 1) for q, docs in qrels.items()}, "grades": qrels}
    values_by_key = {}
    for kind, labels in labels_by_kind.items():
        values = ranx.evaluate(ranx.Qrels(relevant[kind]), run, labels, return_mean=False)
        values_by_key |= {f"{label}|{kind}": by_query(qrels, values[label]) for label in labels}
    np.savez(path, **values_by_key)


def by_query(qrels: dict, scores: np.ndarray) -> np.ndarray:
    """ranx sorts queries by id as text."""
    place = {q: i for i, q in enumerate(sorted(qrels))}
    return np.array([scores[place[f"q{u}"]] for u in range(N_QUERIES)])


@pytest.mark.parametrize("k", CUTOFFS)
@pytest.mark.parametrize("name", RANX)
def test_ranx_at_a_cutoff(ranx_values, name, k):
    expected = ranx_values[f"{RANX[name]}@{k}", "binary"]
    label = f"ap(denominator=s)@{k}" if name == "ap" else f"{name}@{k}"
    assert per_user(label) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("name", RANX_WHOLE)
def test_ranx_without_a_cutoff(ranx_values, name):
    expected = ranx_values[RANX_WHOLE[name], "binary"]
    assert per_user(name) == pytest.approx(expected, abs=1e-10)


@pytest.mark.parametrize("name", ["dcg", "ndcg"])
@pytest.mark.parametrize("gain", RANX_GAINS)
def test_ranx_with_grades(ranx_values, name, gain):
    expected = ranx_values[f"{name}{RANX_GAINS[gain]}@10", "grades"]
    assert per_user(f"{name}(gain={gain})@10") == pytest.approx(expected, abs=1e-10)


TREC = {
    "precision": "P_{k}",
    "recall": "recall_{k}",
    "hit": "success_{k}",
    "ap": "map_cut_{k}",
    "ndcg": "ndcg_cut_{k}",
}


def trec(measures: set[str], qrels: dict) -> pd.DataFrame:
    pytrec_eval = package("pytrec_eval")
    scores_by_query = pytrec_eval.RelevanceEvaluator(qrels, measures).evaluate(run_of(QUERIES))
    return pd.DataFrame([scores_by_query[f"q{u}"] for u in range(N_QUERIES)])


def test_trec_eval():
    qrels = {q: dict.fromkeys(docs, 1) for q, docs in ids(QUERIES.relevant, "d").items()}
    measures_requested = {
        f"{form.partition('_{')[0]}.{','.join(map(str, CUTOFFS))}" for form in TREC.values()
    }
    measures = trec(measures_requested | {"map", "ndcg", "recip_rank"}, qrels)
    for name, form in TREC.items():
        for k in CUTOFFS:
            expected = measures[form.format(k=k)].to_numpy()
            label = f"ap(denominator=s)@{k}" if name == "ap" else f"{name}@{k}"
            assert per_user(label) == pytest.approx(expected, abs=1e-10), (name, k)
    for name, measure in (("ap", "map"), ("ndcg", "ndcg"), ("rr", "recip_rank")):
        expected = measures[measure].to_numpy()
        assert per_user(name) == pytest.approx(expected, abs=1e-10)


def test_trec_eval_ndcg_has_linear_gains():
    graded = {
        q: {d: int(g) for d, g in docs.items()} for q, docs in ids(QUERIES.grade.astype(float), "d").items()
    }
    ndcg = trec({"ndcg"}, graded)["ndcg"].to_numpy()
    assert per_user("ndcg(gain=linear)") == pytest.approx(ndcg, abs=1e-10)


class FakeModel:
    """A model with the method that the evaluation of implicit calls: the best K items of some users."""

    def recommend(self, users, user_items, N=10, **_):
        top = QUERIES.order[users, :N].astype(np.int32)
        return top, np.take_along_axis(QUERIES.scores[users], top, axis=1).astype(np.float32)


@pytest.mark.parametrize("k", [1, 5, 10])
def test_implicit(k: int):
    evaluation = package("implicit.evaluation")
    sparse = pytest.importorskip("scipy.sparse")
    test = sparse.csr_matrix(QUERIES.relevant.astype(np.float32))
    no_training = sparse.csr_matrix(test.shape, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        measures = evaluation.ranking_metrics_at_k(FakeModel(), no_training, test, K=k, show_progress=False)
    for name, theirs in (("ap", "map"), ("ndcg", "ndcg")):
        assert value(f"{name}@{k}") == pytest.approx(measures[theirs], abs=1e-10), name
    pooled = (per_user(f"precision@{k}") * k).sum() / np.minimum(COUNT, k).sum()
    assert pooled == pytest.approx(measures["precision"], abs=1e-10)
    if k > 1:
        assert abs(value(f"precision@{k}") - measures["precision"]) > 1e-3


@pytest.mark.parametrize("k", [1, 5, 10, 50, None])
def test_lenskit(k: int | None):
    data = package("lenskit.data")
    metrics = package("lenskit.metrics.ranking")
    suffix = "" if k is None else f"@{k}"
    depth = N_ITEMS if k is None else min(k, N_ITEMS)
    # Ranks 1 and 2 count the same.
    discount = 1 / np.log2(np.maximum(np.arange(1, N_ITEMS + 1), 2)) * (np.arange(N_ITEMS) < depth)
    gains = gains_at_ranks(discount)
    ours = {
        metrics.DCG(n=k): gains,
        metrics.NDCG(n=k): gains / discount.cumsum()[COUNT - 1],
        metrics.RecipRank(n=k): per_user(f"rr{suffix}"),
        metrics.AveragePrecision(n=k): per_user(f"ap{suffix}"),
        metrics.RBP(n=k, patience=0.7): per_user(f"rbp(0.7){suffix}"),
    }
    if k is not None:
        ours |= {
            metrics.Precision(n=k): per_user(f"precision@{k}") * k / depth,
            metrics.Recall(n=k): per_user(f"recall@{k}") * COUNT / np.minimum(COUNT, k),
            metrics.Hit(n=k): per_user(f"hit@{k}"),
        }
    lists = [data.ItemList(item_ids=order, ordered=True) for order in QUERIES.order]
    truth = [data.ItemList(item_ids=np.flatnonzero(relevant)) for relevant in QUERIES.relevant]
    for measure, values in ours.items():
        theirs = [measure.measure_list(*pair) for pair in zip(lists, truth, strict=True)]
        assert values == pytest.approx(np.array(theirs), abs=1e-10), type(measure).__name__


@pytest.mark.parametrize("k", [1, 5, 10])
def test_rectools(k: int):
    metrics = package("rectools.metrics")
    users, items = np.nonzero(QUERIES.relevant)
    interactions = pd.DataFrame({"user_id": users, "item_id": items})
    reco = pd.DataFrame(
        {
            "user_id": np.repeat(np.arange(N_QUERIES), N_ITEMS),
            "item_id": QUERIES.order.ravel(),
            "rank": np.tile(np.arange(1, N_ITEMS + 1), N_QUERIES),
        }
    )
    ideal = (1 / np.log2(np.arange(2, k + 2))).sum()  # of k relevant items, also when there are fewer
    ours = {
        metrics.Precision: per_user(f"precision@{k}"),
        metrics.Recall: per_user(f"recall@{k}"),
        metrics.HitRate: per_user(f"hit@{k}"),
        metrics.MRR: per_user(f"rr@{k}"),
        metrics.MAP: per_user(f"ap(denominator=s)@{k}"),
        metrics.NDCG: per_user(f"dcg@{k}") / ideal,
    }
    for kind, values in ours.items():
        theirs = kind(k=k).calc_per_user(reco, interactions).sort_index().to_numpy()
        assert values == pytest.approx(theirs, abs=1e-10), kind.__name__


# NumPy 1.26 warns when the alias to be patched is looked up.
@pytest.mark.filterwarnings("ignore:In the future:FutureWarning")
def test_recbole(monkeypatch: pytest.MonkeyPatch):
    # The package still uses aliases that NumPy has removed.
    monkeypatch.setattr(np, "float", float, raising=False)
    monkeypatch.setattr(np, "bool", np.bool_, raising=False)
    metrics = package("recbole.evaluator.metrics")
    hits = np.take_along_axis(QUERIES.relevant, QUERIES.order, axis=1)[:, :10]
    count = QUERIES.relevant.sum(axis=1)
    columns_by_name = {
        "hit": metrics.Hit.metric_info(None, hits),
        "rr": metrics.MRR.metric_info(None, hits),
        "precision": metrics.Precision.metric_info(None, hits),
        "ap": metrics.MAP.metric_info(None, hits, count),
        "recall": metrics.Recall.metric_info(None, hits, count),
        "ndcg": metrics.NDCG.metric_info(None, hits, count),
    }
    for name, columns in columns_by_name.items():
        for k in (1, 5, 10):
            assert per_user(f"{name}@{k}") == pytest.approx(columns[:, k - 1], abs=1e-10), name
    ranks = (QUERIES.order.argsort(axis=1) + 1.0) * QUERIES.relevant
    gauc = metrics.GAUC.metric_info(None, ranks.sum(axis=1), np.full(N_QUERIES, N_ITEMS), count)
    assert np.average(per_user("auc"), weights=count) == pytest.approx(gauc, abs=1e-10)
