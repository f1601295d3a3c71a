"""Zhao et al. (CIKM 2020, arXiv 2010.04484): how splitting and sampling change the order of recommenders.

    python benchmarks/reproduce_protocols.py --data PATH [--write]

Random or temporal order × ratio or leave-one-out (RO/TO × RS/LS), and sampled candidates against the full
catalogue. The logs at hand have no timestamps: three simulated domains of `protocol_study.py` stand in for
time, Coat's biased positives add a real log in random order. Ranks are kept in
.cache/reproductions/protocols.

Popularity, item-kNN, BPR (cornac), SVD++ (Surprise, on positives as 5 and one drawn item for each as 1) and
NCF (cornac's NeuMF); pure SVD and EASE make seven. GCMC, DSSM and DIN are not run: see the page.
"""

from __future__ import annotations

import argparse
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from protocol_study import DOMAINS, domain
from reproduce_models import CACHE, _in_order
from reproduce_tables import markdown, write_tables

from ipseval import Interactions, baselines
from ipseval.datasets import load_coat
from ipseval.ranking import SampledCandidates
from ipseval.study import ProtocolStudy, protocol_grid, study_protocols

METRICS = ("precision@10", "recall@10", "ap", "auc")
K = (1, 3)


def bpr(train: Interactions) -> Any:
    """BPR of cornac, uniform negatives."""
    from cornac.data import Dataset
    from cornac.models import BPR

    data = Dataset.from_uir(
        list(zip(train.user.tolist(), train.item.tolist(), [1.0] * len(train), strict=True)), seed=0
    )
    model = BPR(k=16, max_iter=100, learning_rate=0.05, lambda_reg=0.01, num_threads=1, seed=0).fit(data)
    return _in_order(train, data, model.u_factors, model.i_factors, model.i_biases)


def drawn(train: Interactions, n_per_positive: int, seed: int = 0) -> Any:
    """Return codes of uniformly drawn pairs that are not training pairs."""
    rng = np.random.default_rng(seed)
    user = np.repeat(train.user, n_per_positive)
    key = user * np.int64(train.n_items) + rng.integers(train.n_items, size=user.size)
    key = np.setdiff1d(key, train.pair_key)
    return key // train.n_items, key % train.n_items


def svd_plus_plus(train: Interactions) -> Any:
    """SVD++ of Surprise; scores computed from its parameters."""
    from surprise import Dataset, Reader, SVDpp

    user, item = drawn(train, 1)
    frame = pd.DataFrame(
        {
            "user": np.concatenate([train.user, user]),
            "item": np.concatenate([train.item, item]),
            "rating": np.concatenate([np.full(len(train), 5.0), np.full(user.size, 1.0)]),
        }
    )
    data = Dataset.load_from_df(frame, Reader(rating_scale=(1, 5))).build_full_trainset()
    model = SVDpp(n_factors=16, n_epochs=15, random_state=0).fit(data)
    scores = np.full((train.n_users, train.n_items), -np.inf)
    inner = {data.to_raw_iid(i): i for i in data.all_items()}
    columns = np.array(sorted(inner))
    codes = np.array([inner[raw] for raw in columns])
    scores = np.full((train.n_users, train.n_items), -1e3)
    for u in data.all_users():
        rated = [i for i, _ in data.ur[u]]
        vector = model.pu[u] + model.yj[rated].sum(axis=0) / np.sqrt(len(rated))
        scores[data.to_raw_uid(u), columns] = model.bu[u] + model.bi[codes] + model.qi[codes] @ vector
    return scores


def ncf(train: Interactions) -> Any:
    """NeuMF of cornac, PyTorch backend."""
    import torch
    from cornac.data import Dataset
    from cornac.models import NeuMF

    torch.set_num_threads(1)
    data = Dataset.from_uir(
        list(zip(train.user.tolist(), train.item.tolist(), [1.0] * len(train), strict=True)), seed=0
    )
    model = NeuMF(
        num_factors=8, layers=[32, 16, 8], num_epochs=10, batch_size=1024, num_neg=4, lr=0.005,
        backend="pytorch", seed=0, verbose=False,
    ).fit(data)  # fmt: skip
    scores = np.full((train.n_users, train.n_items), -1e3)
    columns, codes = np.array(list(data.iid_map)), np.array(list(data.iid_map.values()))
    for raw, inner in data.uid_map.items():
        scores[raw, columns] = np.asarray(model.score(inner)).ravel()[codes]
    return scores


MODELS: dict[str, Any] = {
    "popularity": baselines.popularity,
    "item-kNN": partial(baselines.item_knn, n_neighbors=50),
    "EASE": partial(baselines.ease, regularization=100.0),
    "pure SVD": partial(baselines.pure_svd, n_factors=16),
    "BPR": bpr,
    "SVD++": svd_plus_plus,
    "NCF": ncf,
}


def logs(folder: Path, size: float = 0.2) -> dict[str, Interactions]:
    """Return the simulated domains, and Coat's biased positives."""
    made = {
        name: domain(*shape, seed=10 * number, size=size)
        for number, (name, shape) in enumerate(DOMAINS.items())
    }
    return made | {"Coat": load_coat(folder / "coat").positives().biased}


def run(folder: Path) -> ProtocolStudy:
    """Return the study; ranks that are in the cache are not made again."""
    pools = {"full": "all"} | {
        f"{law}-{n}": SampledCandidates(n, distribution=law, rng=0)
        for law in ("uniform", "popularity")
        for n in (10, 50, 100)
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Coat has no timestamps: said on the page
        return study_protocols(
            MODELS, logs(folder), protocol_grid(candidates=pools), path=CACHE / "protocols", metrics=METRICS,
            estimators=("aoa",), gammas=(0.0,), k=K, n_resamples=300, progress=False,
        )  # fmt: skip


def agreement(study: ProtocolStudy, factor: str, reference: str | None = None) -> pd.DataFrame:
    """Return the agreement of every pair of levels, averaged over logs, other factors and metrics."""
    frame = study.between(factor, reference=reference)
    if factor == "split":
        frame = frame[frame["candidates"] == "full"]
    else:
        frame = frame[frame["split"].isin(["RO_RS", "RO_LS", "TO_RS", "TO_LS"])]
    measures = [f"or@{k}" for k in K] + ["src", "ipc", "tau_b"]
    names = [column for column in frame.columns if column.startswith(factor)]
    grouped = frame.groupby([*names, "metric"], sort=False)
    return grouped[measures].mean().join(grouped["n_beyond"].sum()).join(grouped.size().rename("n"))


def agreement_table(study: ProtocolStudy, factor: str, reference: str | None = None) -> str:
    """Return one row per pair of levels; measures averaged over the metrics, SRC per metric."""
    frame = agreement(study, factor, reference).reset_index()
    names = [column for column in frame.columns if column.startswith(factor)]
    rows = []
    for pair, part in frame.groupby(names, sort=False):
        src = part.set_index("metric")["src"]
        rows.append(
            [
                " / ".join(pair),
                *(f"{part[m].mean():.2f}" for m in (*(f"or@{k}" for k in K), "src")),
                f"{part['ipc'].mean():.1f}",
                *(f"{src[m]:.2f}" for m in METRICS),
                f"{part['n_beyond'].sum():.0f} in {part['n'].sum()}",
            ]
        )
    header = [factor, *(f"OR@{k}" for k in K), "SRC", f"inverted of {len(MODELS) * (len(MODELS) - 1) // 2}"]
    return markdown([*header, *(f"SRC {m}" for m in METRICS), "swaps beyond noise, in comparisons"], rows)


def values_table(study: ProtocolStudy) -> str:
    """Return recall@10 of every model by log and split, full catalogue."""
    frame = study.frame
    frame = frame[(frame["metric"] == "recall@10") & (frame["candidates"] == "full")]
    cells = frame.pivot_table(index=["log", "split"], columns="model", values="estimate", sort=False)
    rows = [
        [f"{log}, {split}", *(f"{values[m]:.3f}" for m in MODELS)]
        for (log, split), values in cells.iterrows()
    ]
    return markdown(["recall@10, full catalogue", *MODELS], rows)


def tables(folder: Path) -> dict[str, str]:
    """Return the tables of the page."""
    study = run(folder)
    return {
        "zhao-splits": agreement_table(study, "split"),
        "zhao-candidates": agreement_table(study, "candidates", "full"),
        "zhao-values": values_table(study),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--write", action="store_true", help="put the tables into docs/reproductions.md")
    options = parser.parse_args()
    made = tables(options.data)
    if options.write:
        write_tables(made)
    else:
        print("\n\n".join(f"{name}\n{one}" for name, one in made.items()))


if __name__ == "__main__":
    main()
