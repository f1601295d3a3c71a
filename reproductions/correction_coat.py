"""The correction strength on Coat, or Yahoo! R3: judged by random exposure of users outside the sample.

    python -m reproductions.correction_coat --data PATH [--write]
    python -m reproductions.correction_coat --yahoo-r3 FOLDER [--any-size]     (prints)

Eight recommenders are trained on 80 % of the biased positives. Of the users with random exposure some are
drawn; the pooled mean over the random positives of all others is the reference. Its own error is part of the
coverage: |estimate − reference| is compared with the interval of their difference.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau, norm

from ipseval import Exposure, Interactions, Split, baselines, evaluate_ranks, rank_positives, split_random
from ipseval.correction import CORRECTED, RANDOM_SAMPLE, CorrectionPath, correct_path, correction_path
from ipseval.datasets import RandomExposureStudy, load_coat, load_yahoo_r3
from ipseval.errors import IpsevalError
from ipseval.estimators import AOA_POOLED, SNIPS_POOLED
from ipseval.propensity import DensityRatioPropensity
from ipseval.ranking import RankedPositives
from reproductions.correction_family import METRICS
from reproductions.tables import ROOT, markdown, write_tables

PAGE = ROOT / "docs" / "correction.md"
DENSITY_RATIO = "density ratio"
SIZES = {"coat": (0, 25, 50, 100, 200), "yahoo-r3": (0, 25, 100, 500)}
Z = float(norm.ppf(0.975))
Ranks = dict[str, RankedPositives]


def recommenders(train: Interactions) -> dict[str, Any]:
    """Return eight: popularity, chance, and two settings each of item-kNN, EASE and SVD."""
    rng = np.random.default_rng(0)
    chance = tuple(rng.standard_normal((size, 2)) for size in (train.n_users, train.n_items))
    return {
        "popularity": np.array(baselines.popularity(train)),
        "chance": chance,
        "item-kNN 10": baselines.item_knn(train, n_neighbors=10),
        "item-kNN 100": baselines.item_knn(train, n_neighbors=100),
        "EASE 10": baselines.ease(train, regularization=10.0),
        "EASE 500": baselines.ease(train, regularization=500.0),
        "SVD 4": baselines.pure_svd(train, n_factors=4),
        "SVD 32": baselines.pure_svd(train, n_factors=32),
    }


@dataclass(frozen=True, eq=False)
class Prepared:
    """One split: ranks of held-out and of random positives, and what was shown."""

    split: Split
    held_out: Ranks
    random: Ranks
    exposure: Exposure
    path: CorrectionPath

    @classmethod
    def of(cls, study: RandomExposureStudy, number: int) -> Prepared:
        """Return the split of a number."""
        split = split_random(study.positives().biased, test_fraction=0.2, rng=number)
        shown = Exposure.from_ratings(study.random, threshold=study.threshold).without(split.train)
        liked = shown.pair_key[shown.positive]
        key = np.union1d(split.test.pair_key, liked)
        ids = split.user_ids, split.item_ids
        both = Split(split.train, Interactions(key // split.n_items, key % split.n_items, *ids))
        ranks = {name: rank_positives(one, both) for name, one in recommenders(split.train).items()}
        parts = [
            {name: one.select(np.isin(key, keys)) for name, one in ranks.items()}
            for keys in (split.test.pair_key, liked)
        ]
        path = correction_path(parts[0], split, metrics=METRICS, rng=number)
        return cls(split, *parts, shown, path)

    def chosen(self, users: np.ndarray) -> Ranks:
        """Return the ranks of the random positives of these users."""
        return {name: one.select(np.isin(one.user, users)) for name, one in self.random.items()}


def estimates(one: Prepared, users: np.ndarray, seed: int) -> Iterator[tuple[str, pd.DataFrame]]:
    """Return the estimates of all recommenders and metrics by every estimator, with standard errors."""
    found = correct_path(one.path, one.chosen(users) if users.size else None)
    for name, part in found.frame.groupby("estimator", sort=False):
        yield str(name), part
    if users.size:
        shown = one.exposure.select(np.isin(one.exposure.user, users))
        try:
            model = DensityRatioPropensity(shown, biased=one.split.test, rng=seed)
            propensity = model.fit(one.split.train)
        except IpsevalError:  # too little to fit
            return
        evaluation = evaluate_ranks(
            one.held_out,
            propensity=propensity,
            metrics=METRICS,
            estimators=[SNIPS_POOLED],
            on_low_ess="ignore",
        )
        yield DENSITY_RATIO, evaluation.frame


def judged(one: Prepared, number: int, sizes: tuple[int, ...], n_draws: int) -> pd.DataFrame:
    """Return error, coverage, order and regret of one split."""
    rng, rows = np.random.default_rng(1000 + number), []
    exposed = np.unique(one.exposure.user)
    for size in sizes:
        for draw in range(n_draws if size else 1):
            users = rng.choice(exposed, size, replace=False)
            others = one.chosen(np.setdiff1d(exposed, users))
            reference = evaluate_ranks(others, metrics=METRICS, estimators=[AOA_POOLED]).frame
            right = reference.set_index(["metric", "model"])[["estimate", "std_error"]]
            for name, frame in estimates(one, users, draw):
                own = frame.set_index(["metric", "model"]).loc[right.index]
                gap = own["estimate"] - right["estimate"]
                half = (own["ci_high"] - own["ci_low"]) / 2
                covered = gap.abs() <= np.hypot(half, Z * right["std_error"])
                for metric in METRICS:
                    value, truth = own["estimate"][metric], right["estimate"][metric]
                    rows.append(
                        {
                            "split": number,
                            "draw": draw,
                            "size": size,
                            "metric": metric,
                            "estimator": name,
                            "error": gap[metric].abs().mean(),
                            "covered": covered[metric].mean(),
                            "half_width": half[metric].mean(),
                            "tau": kendalltau(value, truth).statistic,
                            "regret": truth.max() - truth[value.idxmax()],
                        }
                    )
    return pd.DataFrame(rows)


def one_split(number: int, study: RandomExposureStudy, sizes: tuple[int, ...], n_draws: int) -> pd.DataFrame:
    """Return the scores of the split of a number."""
    warnings.simplefilter("ignore")
    return judged(Prepared.of(study, number), number, sizes, n_draws)


def table(rows: pd.DataFrame) -> str:
    """Return the table: per cell, one number for each metric."""
    mean = rows.groupby(["size", "estimator", "metric"]).mean(numeric_only=True)
    lines = []
    for size in rows["size"].unique():
        for name in (CORRECTED, RANDOM_SAMPLE, DENSITY_RATIO, AOA_POOLED):
            if (size, name, METRICS[0]) not in mean.index:
                continue
            own, plain = mean.loc[size, name], mean.loc[size, AOA_POOLED]["error"]
            cells = (
                (100 * (1 - own["error"] / plain), ".0f"),
                (100 * own["covered"], ".0f"),
                (own["half_width"], ".3f"),
                (own["tau"], ".2f"),
                (own["regret"], ".3f"),
            )
            texts = [" ".join(format(cell[metric], form) for metric in METRICS) for cell, form in cells]
            lines.append((f"{size}", name, *texts))
    header = "exposed users|estimator|error removed, %|coverage, %|half-width|Kendall τ|regret"
    return markdown(header.split("|"), lines)


def run(study: RandomExposureStudy, sizes: tuple[int, ...], n_splits: int, n_draws: int, n: int) -> Any:
    """Return the scores of all splits, by so many processes."""
    job = partial(one_split, study=study, sizes=sizes, n_draws=n_draws)
    if n == 1:
        return pd.concat([job(number) for number in range(n_splits)], ignore_index=True)
    with ProcessPoolExecutor(n) as pool:
        return pd.concat(list(pool.map(job, range(n_splits))), ignore_index=True)


def tables(rows: pd.DataFrame) -> Mapping[str, str]:
    """Return the table of the page."""
    head = f"{rows['split'].nunique()} splits, {rows['draw'].nunique()} draws; in a cell: "
    return {"correction-coat": f"{head}{', '.join(METRICS)}.\n\n{table(rows)}"}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with coat/")
    parser.add_argument("--yahoo-r3", type=Path, help="folder with the two rating files of Yahoo! R3")
    parser.add_argument("--any-size", action="store_true", help="do not check the sizes of Yahoo! R3")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"put the table of Coat into {PAGE.name}")
    options = parser.parse_args(arguments)
    if options.yahoo_r3 is None and options.data is None:
        parser.error("give --data or --yahoo-r3")
    if options.yahoo_r3 is None:
        study, sizes = load_coat(options.data / "coat"), SIZES["coat"]
    else:
        study, sizes = load_yahoo_r3(options.yahoo_r3, verify=not options.any_size), SIZES["yahoo-r3"]
    n_exposed = np.unique(study.random.user).size
    sizes = tuple(size for size in sizes if size < n_exposed)
    made = tables(run(study, sizes, options.splits, options.draws, options.processes))
    if options.write and options.yahoo_r3 is None:
        write_tables(made, PAGE)
    print("\n\n".join(made.values()))


if __name__ == "__main__":
    main()
