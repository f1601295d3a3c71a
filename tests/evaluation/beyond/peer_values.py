"""Values of other libraries for lists on standard input (JSON): run by the interpreter that has them.

python peer_values.py rectools < worlds.json
"""

from __future__ import annotations

import json
import sys
import warnings

import numpy as np
import pandas as pd

warnings.simplefilter("ignore")


def rectools(world: dict) -> dict[str, float]:
    from rectools.metrics import AvgRecPopularity, CatalogCoverage, IntraListDiversity, MeanInvUserFreq

    class Cosine:
        """1 − cos of pairs of items."""

        def __getitem__(self, pair):
            a, b = (np.array([world["vectors"][int(i)] for i in entry]) for entry in pair)
            return 1 - (a * b).sum(axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)

    k, reco, train = world["k"], frame(world["lists"], "user_id", "item_id", rank=True), log(world)
    return {
        "coverage": CatalogCoverage(k=k, normalize=True).calc(reco, range(world["n_items"])),
        "arp": AvgRecPopularity(k=k).calc(reco, train),
        "novelty": MeanInvUserFreq(k=k).calc(reco, train),
        "ild": IntraListDiversity(k=k, distance_calculator=Cosine()).calc(reco),
    }


def replay(world: dict) -> dict[str, float]:
    from replay.metrics import Coverage, Surprisal

    lists = {u: [(i, -place) for place, i in enumerate(items)] for u, items in enumerate(world["lists"])}
    train = log(world).groupby("user_id")["item_id"].apply(list).to_dict()
    (covered,), (surprise,) = (metric(world["k"])(lists, train).values() for metric in (Coverage, Surprisal))
    return {"coverage": covered, "novelty": surprise}


def recommenders(world: dict) -> dict[str, float]:
    from recommenders.evaluation import python_evaluation as theirs

    reco, train = frame(world["lists"], "user_id", "item_id"), log(world)
    columns = {"col_user": "user_id", "col_item": "item_id"}
    features = pd.DataFrame(
        {"item_id": range(world["n_items"]), "features": [np.array(vector) for vector in world["vectors"]]}
    )
    return {
        "coverage": theirs.catalog_coverage(train, reco, **columns),
        "entropy": theirs.distributional_coverage(train, reco, **columns),
        "novelty": theirs.novelty(train, reco, **columns),
        "ild": theirs.diversity(
            train,
            reco,
            item_feature_df=features,
            item_sim_measure="item_feature_vector",
            col_item_features="features",
            **columns,
        ),
    }


def lenskit(world: dict) -> dict[str, float]:
    from lenskit.data import ItemList, ItemListCollection, from_interactions_df
    from lenskit.metrics import ExposureGini, ListGini, ListLength, MeanPopRank, RunAnalysis

    k, items = world["k"], world["n_items"]
    lists = dict(enumerate(world["lists"]))
    lists = {u: ItemList(item_ids=items, ordered=True) for u, items in lists.items()}
    item_lists = ItemListCollection.from_dict(lists, "user_id")
    run = RunAnalysis(
        ListLength(),
        MeanPopRank(from_interactions_df(log(world)), n=k),
        ListGini(k, items=items),
        ExposureGini(k, items=items),
    )
    metrics = run.measure(item_lists, item_lists)
    of_lists, of_all = metrics.list_summary()["mean"], metrics.global_metrics()
    return {
        "length": of_lists["N"],
        "arp": of_lists[f"MeanPopRank@{k}"],
        "gini": of_all[f"ListGini@{k}"],
        "exposure gini": of_all[f"ExposureGini@{k}"],
    }


def frame(lists: list[list[int]], user: str, item: str, *, rank: bool = False) -> pd.DataFrame:
    rows = [(u, i, place + 1) for u, items in enumerate(lists) for place, i in enumerate(items)]
    made = pd.DataFrame(rows, columns=[user, item, "rank"])
    return made if rank else made[[user, item]]


def log(world: dict) -> pd.DataFrame:
    return pd.DataFrame(world["train"], columns=["user_id", "item_id"])


if __name__ == "__main__":
    values = {library.__name__: library for library in (rectools, replay, recommenders, lenskit)}[sys.argv[1]]
    print(
        json.dumps([{name: float(value) for name, value in values(w).items()} for w in json.load(sys.stdin)])
    )
