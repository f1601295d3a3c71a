"""Zhao et al. (CIKM 2020, arXiv 2010.04484): how splitting and sampling change the order of recommenders.

    python -m reproductions.protocols --data PATH [--write]

Random or temporal order × ratio or leave-one-out (RO/TO × RS/LS), and sampled candidates against the full
catalogue, over the 5-core of each log: four simulated domains with timestamps, Coat's chosen ratings (every
one an interaction, as every review is in the paper) and 1,500 users of citeulike-a. The last two have no
timestamps: RO only. The sample of Open Bandit has timestamps but no users: `open_bandit_core` counts what
could stand in for them. Ranks are kept in .cache/reproductions/protocols.

The eight recommenders of the paper: popularity, item-kNN, SVD++ (Surprise, positives as 5, one drawn item for
each as 1), BPR (cornac), NCF (cornac's NeuMF), GCMC, DSSM and DIN (RecBole); pure SVD and EASE make ten.
A recommender whose library is not installed is left out, and the output says so.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval import (
    Interactions,
    SampledCandidates,
    Split,
    evaluate,
    order_agreement,
    split_leave_one_out,
    split_random,
)
from ipseval.ranking import baselines
from ipseval.studies import protocols
from ipseval.studies.protocols import ProtocolStudy
from reproductions import recbole_models as recbole
from reproductions.models import CACHE, _in_order
from reproductions.protocol_logs import DOMAINS, log_table, logs
from reproductions.tables import markdown, write_tables

METRICS = ("precision@10", "recall@10", "ap", "auc")
K = (1, 3)
STORE = CACHE / "protocols"


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


# GCMC, DSSM and DIN: settings chosen by recall@10 on validation parts (RO_RS of steady, Coat, citeulike-a).
MODELS: dict[str, Any] = {
    "popularity": baselines.popularity,
    "item-kNN": partial(baselines.item_knn, n_neighbors=50),
    "EASE": partial(baselines.ease, regularization=100.0),
    "pure SVD": partial(baselines.pure_svd, n_factors=16),
    "BPR": bpr,
    "SVD++": svd_plus_plus,
    "NCF": ncf,
    "GCMC": partial(recbole.gcmc, epochs=150, learning_rate=0.01, gcn_output_dim=64, embedding_size=16),
    "DSSM": partial(
        recbole.dssm,
        epochs=100,
        learning_rate=0.005,
        embedding_size=64,
        mlp_hidden_size=[64],
        dropout_prob=0.0,
    ),
    "DIN": partial(recbole.din, epochs=10, learning_rate=0.005, embedding_size=16, mlp_hidden_size=[32, 16]),
}
NEEDS = {
    "BPR": ("cornac",), "SVD++": ("surprise",), "NCF": ("cornac", "torch"),
    "GCMC": ("recbole",), "DSSM": ("recbole",), "DIN": ("recbole",),
}  # fmt: skip


def left_out() -> dict[str, str]:
    """Return the recommenders that cannot be trained here, and the package that each lacks."""
    lacking = {
        name: [one for one in packages if importlib.util.find_spec(one) is None]
        for name, packages in NEEDS.items()
    }
    return {name: ", ".join(missing) for name, missing in lacking.items() if missing}


def run(folder: Path, rng: int = 0) -> ProtocolStudy:
    """Return the study; ranks that are in the cache are not made again. rng=1: RO_RS only, split anew."""
    missing = left_out()
    for name, packages in missing.items():
        print(f"left out: {name}, which needs {packages} (not installed)", file=sys.stderr, flush=True)
    models = {name: fit for name, fit in MODELS.items() if name not in missing}
    pools = {"full": "all"} | {
        f"{law}-{n}": SampledCandidates(n, distribution=law, rng=0)
        for law in ("uniform", "popularity")
        for n in (10, 50, 100)
    }
    grid = (
        protocols.grid(candidates=pools) if rng == 0 else protocols.grid(order=["random"], holdout=["ratio"])
    )
    with warnings.catch_warnings(), Stopwatch(STORE):
        warnings.simplefilter("ignore")  # logs without timestamps, DSSM's and cornac's own: said on the page
        return protocols.study(
            models, logs(folder), grid, path=STORE, metrics=METRICS,
            estimators=("aoa",), gammas=(0.0,), k=K, n_resamples=300, rng=rng, progress=False,
        )  # fmt: skip


class Stopwatch:
    """Adds up, in a file beside the ranks, the seconds of the runs that made any."""

    def __init__(self, store: Path) -> None:
        self.store, self.file = store, store / "seconds.txt"

    def seconds(self) -> float:
        """Return the sum so far."""
        return float(self.file.read_text("utf-8")) if self.file.exists() else 0.0

    def _n_ranks(self) -> int:
        return len(list(self.store.glob("**/*.npz")))

    def __enter__(self) -> None:
        self.before, self.start = self._n_ranks(), time.perf_counter()

    def __exit__(self, *error: object) -> None:
        if self._n_ranks() > self.before:
            self.file.write_text(f"{self.seconds() + time.perf_counter() - self.start!r}\n", "utf-8")


MEASURES = (*(f"or@{k}" for k in K), "src", "ipc")


def agreement(study: ProtocolStudy, factor: str, reference: str | None = None) -> pd.DataFrame:
    """Return the agreement of every pair of levels by log and metric; of splits, among all items."""
    frame = study.compare_levels(factor, reference=reference)
    if factor == "split":
        frame = frame[frame["candidates"] == "full"]
    names = [column for column in frame.columns if column.startswith(factor)]
    return frame.assign(pair=frame[names[0]] + " / " + frame[names[1]])


def split_noise(study: ProtocolStudy, again: ProtocolStudy) -> pd.DataFrame:
    """Return the agreement of RO_RS with itself, items held out by another draw and models trained again."""
    frames = [one.frame[(one.frame["split"] == "RO_RS")] for one in (study, again)]
    first, second = (
        frame[frame["candidates"] == "full"].set_index(["log", "metric", "model"])["estimate"]
        for frame in frames
    )
    rows = []
    for (log, metric), values in first.groupby(level=["log", "metric"], sort=False):
        other = second.xs((log, metric), level=("log", "metric"))
        found = order_agreement(values.droplevel(["log", "metric"]).to_dict(), other.to_dict(), k=K)
        pair = "RO_RS / RO_RS, drawn again"
        rows.append({"pair": pair, "log": log, "metric": metric, "n_beyond": np.nan} | found.values)
    return pd.DataFrame(rows)


def rows_of(frame: pd.DataFrame) -> list[list[str]]:
    """Return one row per pair of levels: means over logs and metrics, and SRC by metric."""
    rows = []
    for pair, part in frame.groupby("pair", sort=False):
        beyond = part["n_beyond"]
        rows.append(
            [
                str(pair),
                *(f"{part[m].mean():.1f}" if m == "ipc" else f"{part[m].mean():.2f}" for m in MEASURES),
                *(f"{part.loc[part['metric'] == m, 'src'].mean():.2f}" for m in METRICS),
                "–" if beyond.isna().all() else f"{beyond.sum():.0f} in {len(part)}",
            ]
        )
    return rows


def header(first: str, n_models: int) -> list[str]:
    """Return the header of a table of agreements."""
    measures = [*(f"OR@{k}" for k in K), "SRC", f"inverted of {n_models * (n_models - 1) // 2}"]
    return [first, *measures, *(f"SRC {m}" for m in METRICS), "swaps beyond noise, in comparisons"]


def split_table(study: ProtocolStudy, again: ProtocolStudy) -> str:
    """Return the agreement of pairs of splits: logs with timestamps, then those without."""
    frame = agreement(study, "split")
    timed = set(DOMAINS)
    noise = split_noise(study, again)
    without = "Coat and citeulike-a: "
    rows = rows_of(frame[frame["log"].isin(timed)]) + rows_of(noise[noise["log"].isin(timed)])
    for part in (frame, noise):
        rest = part[~part["log"].isin(timed)]
        rows += rows_of(rest.assign(pair=without + rest["pair"]))
    return markdown(header("split", len(study.models)), rows)


def candidate_table(study: ProtocolStudy) -> str:
    """Return the agreement of sampled candidates with the full catalogue, over all logs and splits."""
    frame = agreement(study, "candidates", "full")
    return markdown(header("candidates", len(study.models)), rows_of(frame))


def by_log(frame: pd.DataFrame) -> str:
    """Return the mean SRC over metrics of every pair of levels on every log."""
    cells = frame.pivot_table(index="pair", columns="log", values="src", sort=False)
    rows = [[str(pair), *("–" if np.isnan(v) else f"{v:.2f}" for v in row)] for pair, row in cells.iterrows()]
    return markdown(["SRC, mean of the metrics", *map(str, cells.columns)], rows)


def values_table(study: ProtocolStudy) -> str:
    """Return recall@10 of every model by log and split, full catalogue."""
    frame = study.frame
    frame = frame[(frame["metric"] == "recall@10") & (frame["candidates"] == "full")]
    cells = frame.pivot_table(index=["log", "split"], columns="model", values="estimate", sort=False)
    rows = [
        [f"{log}, {split}", *(f"{values[m]:.3f}" for m in study.models)]
        for (log, split), values in cells.iterrows()
    ]
    return markdown(["recall@10, full catalogue", *study.models], rows)


def gcmc_logits(folder: Path) -> pd.DataFrame:
    """Return what RecBole's GCMC scores by, one logit or the difference of two, on a validation part."""
    split = split_random(logs(folder)["steady"], test_fraction=0.1, validation_fraction=0.1, rng=0)
    assert split.validation is not None
    check = Split(split.train, split.validation)
    rows = []
    for epochs in (50, 150):
        options = MODELS["GCMC"].keywords | {"epochs": epochs}
        scores = {
            "one logit (RecBole)": recbole.gcmc(split.train, own_predict=True, **options),
            "difference (here)": recbole.gcmc(split.train, **options),
        }
        frame = evaluate(scores, check, metrics=["recall@10", "auc"], estimators=["aoa"]).frame
        rows.append(frame.assign(epochs=epochs))
    return pd.concat(rows).pivot_table(
        index=["epochs", "metric"], columns="model", values="estimate", sort=False
    )


def two_late_items(folder: Path) -> pd.DataFrame:
    """Return recall@10 in "hits", TO_LS, with and without the two most frequent test items."""
    split = split_leave_one_out(logs(folder)["hits"], order="temporal", n_validation=1)
    two = np.argsort(-split.test.popularity, kind="stable")[:2]
    others = Split(split.train, split.test.select(~np.isin(split.test.item, two)))
    missing = left_out()
    names = [name for name in ("popularity", "EASE", "DSSM", "DIN") if name not in missing]
    scores = {name: MODELS[name](split.train) for name in names}
    found = {}
    for label, part in {"all test positives": split, "without the two items": others}.items():
        frame = evaluate(scores, part, metrics=["recall@10"], estimators=["aoa"]).frame
        found[f"{label} ({len(part.test)})"] = frame.set_index("model")["estimate"]
    return pd.DataFrame(found)


def tables(folder: Path) -> dict[str, str]:
    """Return the tables of the page."""
    study, again = run(folder), run(folder, rng=1)
    return {
        "zhao-logs": log_table(folder),
        "zhao-splits": split_table(study, again),
        "zhao-by-log": by_log(agreement(study, "split")),
        "zhao-candidates": candidate_table(study),
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
    # Stored ranks are found again by the module of the fit function: the notebook looks for this one's.
    from reproductions import protocols

    protocols.main()
