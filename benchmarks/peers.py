"""The same evaluation by other libraries: time per user, and whether the numbers agree where definitions do.

    pip install recometrics implicit rectools lenskit cornac     # those that install; the others are left out
    python benchmarks/peers.py --workload W1 --users 1000

Every library starts from the same factor matrices, training items and held-out positives, and is asked for
recall, NDCG and average precision at 10 and for AUC, as far as it offers them. "rest" is the largest
difference from ipseval's mean over users among the metrics named. Users have ten positives each: variants
that divide by min(k, positives), by k or by the positives are then the same number.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import warnings
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from types import SimpleNamespace

import numpy as np
import pandas as pd
import scipy.sparse as sp
from ranking import bare_product, environment, seconds
from threadpoolctl import threadpool_limits
from workloads import SIZES, Workload, make

from ipseval import ComputeOptions, metric, rank_positives

K = 10
LABELS = {"auc": "auc", "recall": f"recall@{K}", "ndcg": f"ndcg@{K}", "ap": f"ap@{K}"}
Values = dict[str, float]


def by_ipseval(load: Workload, n_threads: int, engine: str) -> Values:
    model = (load.user_factors, load.item_factors)
    ranked = rank_positives(model, load.split, compute=ComputeOptions(engine=engine, n_threads=n_threads))
    return {name: float(metric(label).user_values(ranked).mean()) for name, label in LABELS.items()}


def by_recometrics(load: Workload, n_threads: int) -> Values:
    import recometrics

    frame = recometrics.calc_reco_metrics(
        matrix(load, "train"), matrix(load, "test"), load.user_factors, load.item_factors, k=K,
        precision=False, recall=True, average_precision=True, ndcg=True, roc_auc=True, nthreads=n_threads,
    )  # fmt: skip
    names = {"auc": "ROC_AUC", "recall": f"R@{K}", "ndcg": f"NDCG@{K}", "ap": f"AP@{K}"}
    return {name: float(frame[column].mean()) for name, column in names.items() if column in frame}


def by_implicit(load: Workload, n_threads: int) -> Values:
    from implicit.cpu.als import AlternatingLeastSquares
    from implicit.evaluation import ranking_metrics_at_k

    model = AlternatingLeastSquares(factors=load.user_factors.shape[1], num_threads=n_threads)
    model.user_factors, model.item_factors = load.user_factors, load.item_factors
    found = ranking_metrics_at_k(
        model, matrix(load, "train"), matrix(load, "test"), K=K, show_progress=False, num_threads=n_threads
    )
    # its "precision" divides by min(K, positives), hence is recall here; its AUC is that of the list alone
    return {"recall": found["precision"], "ndcg": found["ndcg"], "ap": found["map"]}


def by_rectools(load: Workload, n_threads: int) -> Values:
    from rectools.metrics import MAP, NDCG, Recall, calc_metrics
    from rectools.models.rank import Distance, ImplicitRanker

    users = np.arange(load.split.n_users)
    ranker = ImplicitRanker(Distance.DOT, load.user_factors, load.item_factors, num_threads=n_threads)
    user, item, _ = ranker.rank(users, k=K, filter_pairs_csr=matrix(load, "train"))
    lists = pd.DataFrame({"user_id": user, "item_id": item})
    lists["rank"] = lists.groupby("user_id").cumcount() + 1
    truth = load.split.test.to_frame().rename(columns={"user": "user_id", "item": "item_id"})
    wanted = {"recall": Recall(K), "ndcg": NDCG(K), "ap": MAP(K)}
    return dict(calc_metrics(wanted, reco=lists, interactions=truth))


def by_lenskit(load: Workload, n_threads: int) -> Values:
    from lenskit.data import ItemList, ItemListCollection
    from lenskit.metrics import NDCG, LogRankWeight, Recall, RunAnalysis

    train = matrix(load, "train")
    ids = np.arange(load.split.n_items)
    lists: ItemListCollection = ItemListCollection.empty(["user_id"])
    for user in range(load.split.n_users):
        scores = load.item_factors @ load.user_factors[user]
        keep = np.ones(ids.size, dtype=bool)
        keep[train.indices[train.indptr[user] : train.indptr[user + 1]]] = False
        lists.add(ItemList(ids[keep], scores=scores[keep]).top_n(K), user_id=user)
    frame = load.split.test.to_frame().rename(columns={"user": "user_id", "item": "item_id"})
    truth = ItemListCollection.from_df(frame[["user_id", "item_id"]], ["user_id"])
    analysis = RunAnalysis()
    analysis.add_metric(Recall(K))
    analysis.add_metric(NDCG(K, weight=LogRankWeight(offset=1)))  # its default gives ranks 1 and 2 one weight
    means = analysis.measure(lists, truth).list_metrics().mean()
    return {"recall": float(means[f"Recall@{K}"]), "ndcg": float(means[f"NDCG@{K}"])}


def by_cornac(load: Workload, n_threads: int) -> Values:
    from cornac.data import Dataset
    from cornac.eval_methods.base_method import ranking_eval
    from cornac.metrics import AUC, NDCG, Recall
    from cornac.models import Recommender

    class Factors(Recommender):
        def score(self, user_idx: int, item_idx: int | None = None) -> np.ndarray:
            return load.item_factors @ load.user_factors[user_idx]

    maps = [{code: code for code in range(size)} for size in (load.split.n_users, load.split.n_items)]

    def dataset(part: str) -> Dataset:
        log = getattr(load.split, part)
        rows = list(zip(log.user.tolist(), log.item.tolist(), [1.0] * len(log), strict=True))
        return Dataset.build(rows, global_uid_map=maps[0], global_iid_map=maps[1], exclude_unknowns=False)

    train, test = dataset("train"), dataset("test")
    model = Factors("given")
    model.train_set = train
    model.num_users, model.num_items = load.split.n_users, load.split.n_items
    model.uid_map, model.iid_map = maps
    wanted = [AUC(), Recall(K), NDCG(K)]  # its average precision is that of the whole ranking
    means, _ = ranking_eval(model, wanted, train, test, exclude_unknowns=False)
    return dict(zip(("auc", "recall", "ndcg"), (float(value) for value in means), strict=True))


PEERS: dict[str, Callable[[Workload, int], Values]] = {
    "recometrics": by_recometrics,
    "implicit": by_implicit,
    "rectools": by_rectools,
    "lenskit": by_lenskit,
    "cornac": by_cornac,
}


def matrix(load: Workload, part: str) -> sp.csr_matrix:
    log = getattr(load.split, part)
    shape = (load.split.n_users, load.split.n_items)
    made = sp.csr_matrix((np.ones(len(log), dtype=np.float32), (log.user, log.item)), shape=shape)
    made.sort_indices()
    return made


def measure(call: Callable[[], Values], repeats: int) -> SimpleNamespace:
    """Return the values, and the median seconds of the repeats after a first call that loads and compiles."""
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        values = call()
        times = [seconds(call) for _ in range(repeats)]
    return SimpleNamespace(values=values, seconds=float(np.median(times)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workload", choices=list(SIZES), default="W1")
    parser.add_argument("--users", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    load = make(arguments.workload, scale_users=arguments.users / SIZES[arguments.workload][0])
    n = load.split.n_users
    print(environment(arguments.threads))
    shape = f"{n:,} users x {load.split.n_items:,} items x {load.item_factors.shape[1]}"
    print(f"{arguments.workload}: {shape}\n")
    with threadpool_limits(arguments.threads, user_api="blas"):
        bare = float(np.median([seconds(lambda: bare_product(load)) for _ in range(5)]))
        calls: dict[str, Callable[[], Values]] = {
            f"ipseval, {engine}": lambda engine=engine: by_ipseval(load, arguments.threads, engine)
            for engine in ("numba", "numpy")
        }
        for name in arguments.peers:
            calls[name] = lambda name=name: PEERS[name](load, arguments.threads)
        print(f"{'library':26} {'us per user':>12} {'ratio':>8}  {'rest':>8}  metrics compared")
        print(f"{'bare product':26} {bare / n * 1e6:12.1f} {1:8.1f}")
        ours: Values = {}
        for name, call in calls.items():
            try:
                found = measure(call, arguments.repeats)
            except (ImportError, PackageNotFoundError):
                print(f"{name:26} not installed")
                continue
            ours = ours or found.values
            rest = max(abs(found.values[key] - ours[key]) for key in found.values)
            label = name if "," in name else f"{name} {version(name)}"
            compared = ", ".join(found.values)
            took = found.seconds / n * 1e6
            print(f"{label:26} {took:12.1f} {found.seconds / bare:8.1f}  {rest:8.1e}  {compared}", flush=True)
    print("\nipseval: " + ", ".join(f"{LABELS[name]} {value:.6f}" for name, value in ours.items()))


if __name__ == "__main__":
    main()
