"""Sanity checks on public logs: they are silent for correct baselines, and warn of four mistakes.

`python -m benchmarks.sanity` evaluates four baselines on several logs and splits, with and without masked
training items, and prints how many of these correct evaluations warn. It then prints how often the checks
warn after rows are shuffled, columns are shuffled, signs are reversed, and models are trained on the test
part, and the processor time of the checks together with that of the ranking. `--seeds N` sets the number of
splits of each log.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ipseval
from benchmarks.page import add_write_option, deliver
from ipseval.data.splits import split_leave_one_out, split_random
from ipseval.evaluation.sanity import check_sanity
from ipseval.evaluation.segments import TrainingCounts
from reproductions.tables import markdown

BASELINES = ("popularity", "item_knn", "ease", "pure_svd")
MISTAKES = ("rows shuffled", "columns shuffled", "sign reversed", "trained on the test part")
ROOT = Path(__file__).resolve().parents[1]


def read_logs(folder: Path) -> Iterator[tuple[str, ipseval.Interactions]]:
    """Yield the logs that are in the folder of public data sets."""
    path = folder / "ml-100k" / "u.data"
    if path.exists():
        ratings = pd.read_csv(path, sep="\t").set_axis(["user", "item", "rating", "time"], axis=1)
        yield "MovieLens 100K", ipseval.read(ratings[["user", "item"]])
        yield "MovieLens 100K, from 4 stars", ipseval.read(ratings.query("rating >= 4")[["user", "item"]])
    path = folder / "ml-latest-small" / "ratings.csv"
    if path.exists():
        ratings = pd.read_csv(path).rename(columns={"userId": "user", "movieId": "item"})
        yield "MovieLens latest small", ipseval.read(ratings[["user", "item"]])
    path = folder / "coat" / "train.ascii"
    if path.exists():
        user, item = np.nonzero(np.loadtxt(path))
        yield "Coat", ipseval.read(pd.DataFrame({"user": user, "item": item}))
    path = folder / "kuairand" / "train.txt"
    if path.exists():
        pairs = [
            (int(user), int(item))
            for user, *items in map(str.split, path.read_text().splitlines()[:4000])
            for item in items
        ]
        clicks = pd.DataFrame(pairs, columns=["user", "item"]).drop_duplicates()
        yield "KuaiRand, 4,000 users", ipseval.read(clicks)


def fit_scores(baseline: str, train: ipseval.Interactions) -> np.ndarray:
    """Return the scores of a baseline as an array, users × items."""
    model: Any = ipseval.baselines.BASELINES[baseline](train)
    if isinstance(model, tuple):
        return np.asarray(model[0] @ model[1].T)
    if callable(model):
        return np.asarray(model(np.arange(train.n_users)))
    return np.array(model)


def join_parts(split: ipseval.Split) -> ipseval.Interactions:
    """Return the training and test interactions as one log over the ids of the split."""
    frame = pd.concat([split.train.to_frame(), split.test.to_frame()])[["user", "item"]]
    return ipseval.Interactions.from_frame(frame, users=split.user_ids, items=split.item_ids)


def mask_training(scores: np.ndarray, split: ipseval.Split, value: float) -> np.ndarray:
    """Return scores whose training items have one low value, as many libraries return them."""
    masked = scores.astype(np.float64)
    masked[split.train.user, split.train.item] = value
    return masked


def make_correct(baseline: str, split: ipseval.Split) -> dict[str, np.ndarray]:
    """Return the scores of a baseline, as they are and with masked training items."""
    scores = fit_scores(baseline, split.train)
    low = float(scores.min()) - 1e9
    return {
        baseline: scores,
        f"{baseline}, masked by -inf": mask_training(scores, split, -np.inf),
        f"{baseline}, masked by a low number": mask_training(scores, split, low),
    }


def make_mistakes(baseline: str, split: ipseval.Split, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return the scores of a baseline after each of the four mistakes."""
    scores = fit_scores(baseline, split.train)
    leaked = fit_scores(baseline, join_parts(split))
    return dict(
        zip(
            MISTAKES,
            (
                scores[rng.permutation(scores.shape[0])],
                scores[:, rng.permutation(scores.shape[1])],
                -scores,
                leaked,
            ),
            strict=True,
        )
    )


def find_warnings(scores: np.ndarray, split: ipseval.Split) -> tuple[list[str], float, float]:
    """Return the codes of the warnings, and the seconds of the ranking and of the checks."""
    start = time.process_time()
    ranked = ipseval.rank_positives(scores, split)
    TrainingCounts.from_interactions(split.train)  # which `evaluate` computes in any case
    middle = time.process_time()
    found = check_sanity({"model": ranked}, {"model": scores}, split)
    end = time.process_time()
    return [warning.code for warning in found], middle - start, end - middle


def main() -> None:
    """Print how often the checks warn, and what they cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2, help="splits of each kind; default: 2")
    add_write_option(parser)
    options = parser.parse_args()
    n_seeds = options.seeds
    rows = []
    warnings.simplefilter("ignore")
    folder = Path(os.environ.get("IPSEVAL_DATA") or ROOT.parent / "shared" / "data")
    for name, log in read_logs(folder):
        detected: Counter[str] = Counter()
        tried: Counter[str] = Counter()
        seconds = []
        n_correct = 0
        n_warned = 0
        for seed in range(n_seeds):
            splits = (split_random(log, rng=seed), split_leave_one_out(log, order="random", rng=seed))
            for number, split in enumerate(splits):
                for baseline in BASELINES:
                    for label, scores in make_correct(baseline, split).items():
                        codes, ranking, checks = find_warnings(scores, split)
                        seconds.append((ranking, checks))
                        n_correct += 1
                        n_warned += bool(codes)
                        if codes:
                            print(f"{name}: {label} warns: {', '.join(codes)}")
                    if number > 0 or baseline == "popularity":  # one row for all users: nothing to shuffle
                        continue
                    mistakes = make_mistakes(baseline, split, np.random.default_rng(seed))
                    for mistake, scores in mistakes.items():
                        tried[mistake] += 1
                        detected[mistake] += bool(find_warnings(scores, split)[0])
        shares = [f"{detected[mistake]} of {tried[mistake]}" for mistake in MISTAKES]
        ranking, checks = np.median(np.array(seconds), axis=0)
        times = (f"{1000 * ranking:.1f}", f"{1000 * checks:.1f}")
        rows.append((name, f"{n_warned} of {n_correct}", *shares, *times))
        print(*rows[-1], sep="; ", flush=True)
    header = ("log", "correct", *MISTAKES, "ranking, ms", "checks, ms")
    deliver("sanity", markdown(header, rows), options.write)


if __name__ == "__main__":
    main()
