"""The correction strength on Coat, or Yahoo! R3: judged by random exposure of users outside the sample.

    python -m reproductions.correction_coat --data PATH
    python -m reproductions.correction_coat --yahoo-r3 FOLDER [--any-size]

Eight recommenders are trained on 80% of the biased positives. Of the users with random exposure some are
drawn; the pooled mean over the random positives of all others is the reference. Its own error is part of the
coverage: |estimate − reference| is compared with the interval of their difference.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval import Interactions
from ipseval.correction import CORRECTED, RANDOM_SAMPLE
from ipseval.estimators.labels import AOA_POOLED
from ipseval.ranking import baselines
from ipseval.validation import ExposureCurve, exposure_curve
from ipseval.validation._curve import DENSITY_RATIO, POWER_LAW, WITH_INTERACTIONS
from ipseval.validation.datasets import RandomExposureStudy, load_coat, load_yahoo_r3
from ipseval.validation.validation_study import Trainer
from reproductions.correction_family import METRICS
from reproductions.tables import markdown

ESTIMATORS = (CORRECTED, WITH_INTERACTIONS, RANDOM_SAMPLE, DENSITY_RATIO, POWER_LAW, AOA_POOLED)
SIZES = {"coat": (0, 25, 50, 100, 200), "yahoo-r3": (0, 25, 100, 500)}


def recommenders() -> dict[str, Trainer]:
    """Return trainers of eight: popularity, chance, and two settings each of item-kNN, EASE and SVD."""
    return {
        "popularity": baselines.popularity,
        "chance": chance,
        "item-kNN 10": partial(baselines.item_knn, n_neighbors=10),
        "item-kNN 100": partial(baselines.item_knn, n_neighbors=100),
        "EASE 10": partial(baselines.ease, regularization=10.0),
        "EASE 500": partial(baselines.ease, regularization=500.0),
        "SVD 4": partial(baselines.pure_svd, n_factors=4),
        "SVD 32": partial(baselines.pure_svd, n_factors=32),
    }


def chance(train: Interactions) -> tuple[np.ndarray, ...]:
    """Return factors that know nothing."""
    rng = np.random.default_rng(0)
    return tuple(rng.standard_normal((size, 2)) for size in (train.n_users, train.n_items))


def one_split(number: int, study: RandomExposureStudy, sizes: tuple[int, ...], n_draws: int) -> pd.DataFrame:
    """Return the scores of the split of a number."""
    warnings.simplefilter("ignore")
    options = {"n_users": sizes, "metrics": METRICS, "n_draws": n_draws, "rng": number}
    return exposure_curve(recommenders(), study, **options).scores.assign(split=number)


def run(
    study: RandomExposureStudy, sizes: tuple[int, ...], n_splits: int, n_draws: int, n: int
) -> ExposureCurve:
    """Return the curve over all splits, by so many processes."""
    job = partial(one_split, study=study, sizes=sizes, n_draws=n_draws)
    if n == 1:
        parts = [job(number) for number in range(n_splits)]
    else:
        with ProcessPoolExecutor(n) as pool:
            parts = list(pool.map(job, range(n_splits)))
    return ExposureCurve(pd.concat(parts, ignore_index=True), study.name)


def table(curve: ExposureCurve) -> str:
    """Return the table: per cell, one number for each metric."""
    frame, lines = curve.frame.set_index(["n_users", "estimator", "metric"]), []
    forms = {
        "removed": lambda own: format(100 * own["removed"], ".0f"),
        "coverage": lambda own: format(100 * own["coverage"], ".0f"),
        "half_width": lambda own: format(own["half_width"], ".3f"),
        "tau_b": lambda own: format(own["tau_b"], ".2f"),
        "regret": lambda own: format(own["regret"], ".3f"),
        "change": lambda own: f"{own['regret_change']:+.3f} ± {own['regret_change_se']:.3f}",
    }
    for size in curve.frame["n_users"].unique():
        for name in ESTIMATORS:
            if (size, name, METRICS[0]) in frame.index:
                own = [frame.loc[(size, name, metric)] for metric in METRICS]
                lines.append((f"{size}", name, *(" ".join(map(form, own)) for form in forms.values())))
    header = (
        "exposed users|estimator|error reduction, %|coverage, %|half-width|Kendall τ|regret|regret − AOA's"
    )
    return markdown(header.split("|"), lines)


def order_table(curve: ExposureCurve) -> str:
    """Return how far the order is ahead of the random sample's: paired τ − τ, with errors over splits."""
    keys = ["n_users", "metric", "split"]
    each = curve.scores.groupby([*keys, "estimator"], sort=False)["tau_b"].mean().unstack()
    lines = []
    for size in (one for one in curve.scores["n_users"].unique() if one):
        for name in (one for one in (CORRECTED, WITH_INTERACTIONS) if one in each):
            ahead = (each[name] - each[RANDOM_SAMPLE])[size]
            cells = [f"{own.mean():+.3f} ± {own.sem():.3f}" for own in (ahead[one] for one in METRICS)]
            lines.append((name, f"{size}", *cells))
    return markdown(("estimator", "exposed users", *METRICS), lines)


def tables(curve: ExposureCurve) -> Mapping[str, str]:
    """Return two tables: of every score, and of orders."""
    rows = curve.scores
    head = f"{rows['split'].nunique()} splits, {rows['draw'].nunique()} draws"
    return {
        "correction-coat": f"{head}; in a cell: {', '.join(METRICS)}.\n\n{table(curve)}",
        "correction-coat-order": f"{head}.\n\n{order_table(curve)}",
    }


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with coat/")
    parser.add_argument("--yahoo-r3", type=Path, help="folder with the two rating files of Yahoo! R3")
    parser.add_argument("--any-size", action="store_true", help="do not check the sizes of Yahoo! R3")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--processes", type=int, default=1)
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
    print("\n\n".join(made.values()))


if __name__ == "__main__":
    main()
