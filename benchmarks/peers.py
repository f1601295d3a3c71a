"""Prepare the same evaluation in other libraries, for `benchmarks/evaluate.py`.

    pip install implicit rectools lenskit cornac recometrics ranx scikit-learn    # those that install

Every library starts from the same factor matrices, training items and held-out positives, and computes
recall, NDCG and average precision at 10 and AUC, as far as it offers them. A `prepare_` function converts the
input to the types of its library, which is not measured, and returns the call that is measured. Users have
ten positives each, so metrics that divide by min(k, positives), by k or by the positives are the same number.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from importlib.util import find_spec

import numpy as np
import pandas as pd
import scipy.sparse as sp
from workloads import Workload

import ipseval
from ipseval import ComputeOptions, rank_positives
from ipseval.ranking.top_lists import TopLists

K = 10
LABELS = {"auc": "auc", "recall": f"recall@{K}", "ndcg": f"ndcg@{K}", "ap": f"ap@{K}"}
Values = dict[str, float]
Call = Callable[[], Values]


def prepare_ipseval(workload: Workload, n_threads: int, engine: str) -> Call:
    """Return a call of `ipseval.evaluate`."""
    models = {"model": (workload.user_factors, workload.item_factors)}
    compute = ComputeOptions(engine=engine, n_threads=n_threads, progress=False)

    def run() -> Values:
        evaluation = ipseval.evaluate(
            models, workload.split, metrics=tuple(LABELS.values()), estimators=("aoa",), compute=compute
        )
        estimates = evaluation.frame.set_index("metric")["estimate"]
        return {name: float(estimates[label]) for name, label in LABELS.items()}

    return run


def prepare_recometrics(workload: Workload, n_threads: int) -> Call:
    """Return a call of recometrics, all metrics."""
    import recometrics

    train = make_matrix(workload, "train")
    test = make_matrix(workload, "test")
    columns = {"auc": "ROC_AUC", "recall": f"R@{K}", "ndcg": f"NDCG@{K}", "ap": f"AP@{K}"}

    def run() -> Values:
        frame = recometrics.calc_reco_metrics(
            train,
            test,
            workload.user_factors,
            workload.item_factors,
            k=K,
            precision=False,
            recall=True,
            average_precision=True,
            ndcg=True,
            roc_auc=True,
            nthreads=n_threads,
        )
        return {name: float(frame[column].mean()) for name, column in columns.items()}

    return run


def prepare_implicit(workload: Workload, n_threads: int) -> Call:
    """Return a call of implicit, whose AUC is that of the list alone and is left out.

    What implicit calls precision divides by min(K, positives), hence it is recall here.
    """
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.evaluation import ranking_metrics_at_k

    model = AlternatingLeastSquares(factors=workload.user_factors.shape[1], num_threads=n_threads)
    model.user_factors = workload.user_factors
    model.item_factors = workload.item_factors
    train = make_matrix(workload, "train")
    test = make_matrix(workload, "test")

    def run() -> Values:
        metrics = ranking_metrics_at_k(model, train, test, K=K, show_progress=False, num_threads=n_threads)
        return {"recall": metrics["precision"], "ndcg": metrics["ndcg"], "ap": metrics["map"]}

    return run


def prepare_rectools(workload: Workload, n_threads: int) -> Call:
    """Return a call of RecTools: its ranker of factors, then its metrics."""
    from rectools.metrics import MAP, NDCG, Recall, calc_metrics
    from rectools.models.rank import Distance, ImplicitRanker

    users = np.arange(workload.split.n_users)
    train = make_matrix(workload, "train")
    truth = workload.split.test.to_frame().rename(columns={"user": "user_id", "item": "item_id"})
    metrics = {"recall": Recall(K), "ndcg": NDCG(K), "ap": MAP(K)}

    def run() -> Values:
        ranker = ImplicitRanker(
            Distance.DOT, workload.user_factors, workload.item_factors, num_threads=n_threads
        )
        user, item, _ = ranker.rank(users, k=K, filter_pairs_csr=train)
        lists = pd.DataFrame({"user_id": user, "item_id": item})
        lists["rank"] = lists.groupby("user_id").cumcount() + 1
        return dict(calc_metrics(metrics, reco=lists, interactions=truth))

    return run


def prepare_lenskit(workload: Workload, n_threads: int) -> Call:
    """Return a call of LensKit: lists of ten from NumPy's scores, then its metrics."""
    from lenskit.data import ItemList, ItemListCollection
    from lenskit.metrics import NDCG, LogRankWeight, Recall, RunAnalysis

    train = make_matrix(workload, "train")
    ids = np.arange(workload.split.n_items)
    frame = workload.split.test.to_frame().rename(columns={"user": "user_id", "item": "item_id"})
    truth = ItemListCollection.from_df(frame[["user_id", "item_id"]], ["user_id"])

    def run() -> Values:
        lists: ItemListCollection = ItemListCollection.empty(["user_id"])
        for user in range(workload.split.n_users):
            scores = workload.item_factors @ workload.user_factors[user]
            is_candidate = find_candidates(train, user)
            items = ItemList(ids[is_candidate], scores=scores[is_candidate])
            lists.add(items.top_n(K), user_id=user)
        analysis = RunAnalysis()
        analysis.add_metric(Recall(K))
        # The default discount of LensKit gives ranks 1 and 2 the same weight.
        analysis.add_metric(NDCG(K, weight=LogRankWeight(offset=1)))
        means = analysis.measure(lists, truth).list_metrics().mean()
        return {"recall": float(means[f"Recall@{K}"]), "ndcg": float(means[f"NDCG@{K}"])}

    return run


def prepare_cornac(workload: Workload, n_threads: int) -> Call:
    """Return a call of cornac's evaluation of a ranking; its average precision has no cutoff."""
    from cornac.data import Dataset
    from cornac.eval_methods.base_method import ranking_eval
    from cornac.metrics import AUC, NDCG, Recall
    from cornac.models import Recommender

    split = workload.split

    class FactorModel(Recommender):
        def score(self, user_idx: int, item_idx: int | None = None) -> np.ndarray:
            return workload.item_factors @ workload.user_factors[user_idx]

    user_map = {code: code for code in range(split.n_users)}
    item_map = {code: code for code in range(split.n_items)}

    def make_dataset(part: str) -> Dataset:
        log = getattr(split, part)
        rows = list(zip(log.user.tolist(), log.item.tolist(), [1.0] * len(log), strict=True))
        return Dataset.build(rows, global_uid_map=user_map, global_iid_map=item_map, exclude_unknowns=False)

    train = make_dataset("train")
    test = make_dataset("test")
    model = FactorModel("factors")
    model.train_set = train
    model.num_users = split.n_users
    model.num_items = split.n_items
    model.uid_map = user_map
    model.iid_map = item_map
    metrics = [AUC(), Recall(K), NDCG(K)]

    def run() -> Values:
        means, _ = ranking_eval(model, metrics, train, test, exclude_unknowns=False)
        return dict(zip(("auc", "recall", "ndcg"), map(float, means), strict=True))

    return run


def prepare_sklearn(workload: Workload, n_threads: int) -> Call:
    """Return a call of scikit-learn's AUC for each user, of NumPy's scores."""
    from sklearn.metrics import roc_auc_score

    train = make_matrix(workload, "train")
    test = make_matrix(workload, "test")

    def run() -> Values:
        total = 0.0
        for user in range(workload.split.n_users):
            scores = workload.item_factors @ workload.user_factors[user]
            is_candidate = find_candidates(train, user)
            is_positive = np.zeros(scores.size, dtype=bool)
            is_positive[get_items(test, user)] = True
            total += roc_auc_score(is_positive[is_candidate], scores[is_candidate])
        return {"auc": total / workload.split.n_users}

    return run


def prepare_ranx(workload: Workload, n_threads: int) -> Call:
    """Return a call of ranx on lists of ten that are made before, as ranx ranks nothing itself."""
    from ranx import Qrels, Run, evaluate

    compute = ComputeOptions(n_threads=n_threads, progress=False)
    model = (workload.user_factors, workload.item_factors)
    ranked = rank_positives(model, workload.split, top_k=K, compute=compute)
    lists = make_list_frame(ranked.top)
    truth = workload.split.test.to_frame()
    truth = truth.assign(user=as_text(truth["user"]), item=as_text(truth["item"]), score=1)

    def run() -> Values:
        qrels = Qrels.from_df(truth, q_id_col="user", doc_id_col="item", score_col="score")
        ranked_lists = Run.from_df(lists, q_id_col="user", doc_id_col="item", score_col="score")
        means = evaluate(qrels, ranked_lists, [f"recall@{K}", f"ndcg@{K}", f"map@{K}"])
        return {"recall": means[f"recall@{K}"], "ndcg": means[f"ndcg@{K}"], "ap": means[f"map@{K}"]}

    return run


PEERS: dict[str, Callable[[Workload, int], Call]] = {
    "implicit": prepare_implicit,
    "rectools": prepare_rectools,
    "lenskit": prepare_lenskit,
    "cornac": prepare_cornac,
    "recometrics": prepare_recometrics,
    "scikit-learn": prepare_sklearn,
    "ranx": prepare_ranx,
}
MODULES = {"scikit-learn": "sklearn"}  # where the module has another name than the distribution
REMARKS = {
    "scikit-learn": ", `roc_auc_score` for each user",
    "ranx": ", lists of ten made before",
    "lenskit": ", lists of ten from NumPy's scores",
}


def describe_peer(name: str) -> str:
    """Return the name and version of a library; raise ImportError where it is not installed."""
    if find_spec(MODULES.get(name, name)) is None:
        raise ImportError(f"{name} is not installed.")
    return f"{name} {version(name)}{REMARKS.get(name, '')}"


def largest_difference(values: Values, reference: Values) -> float:
    """Return the largest difference from the reference among the metrics of both."""
    return max(abs(values[name] - reference[name]) for name in values)


def make_matrix(workload: Workload, part: str) -> sp.csr_matrix:
    """Return the pairs of a part of the split as a sparse matrix of ones."""
    log = getattr(workload.split, part)
    shape = (workload.split.n_users, workload.split.n_items)
    matrix = sp.csr_matrix((np.ones(len(log), dtype=np.float32), (log.user, log.item)), shape=shape)
    matrix.sort_indices()
    return matrix


def get_items(matrix: sp.csr_matrix, user: int) -> np.ndarray:
    """Return the items of a user."""
    return matrix.indices[matrix.indptr[user] : matrix.indptr[user + 1]]


def find_candidates(train: sp.csr_matrix, user: int) -> np.ndarray:
    """Return a mask of the items that the user has no training interaction with."""
    is_candidate = np.ones(train.shape[1], dtype=bool)
    is_candidate[get_items(train, user)] = False
    return is_candidate


def make_list_frame(lists: TopLists) -> pd.DataFrame:
    """Return the first K candidates of every user, with scores that descend in the order of the list."""
    n_users, depth = lists.item.shape
    columns = {
        "user": as_text(np.repeat(lists.users, depth)),
        "item": as_text(lists.item.ravel()),
        "score": np.tile(1.0 / np.arange(1, depth + 1), n_users),
    }
    return pd.DataFrame(columns)


def as_text(codes: np.ndarray | pd.Series) -> pd.Series:
    """Return codes as Python text in a column of objects, the type of ids that ranx takes."""
    return pd.Series([str(code) for code in codes], dtype=object)
