"""Coat: how much of AOA's error each propensity removes, against random exposure.

Run: python benchmarks/density_ratio_coat.py PATH [splits]
PATH is the folder with train.ascii and test.ascii. Positives: rating >= 4; 20 % of the biased positives are
held out at random per user; the reference is AOA on the random-exposure positives that are not in training.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

import ipseval
from ipseval import baselines
from ipseval.datasets import load_coat
from ipseval.propensity import (
    DensityRatioPropensity,
    DirectPropensity,
    Exposure,
    PowerLawPropensity,
    StratifiedPropensity,
    TemperedDensityRatioPropensity,
    count_recommendations,
    fit_gamma,
    fit_gamma_from_exposure,
)
from ipseval.splits import Split, split_random

METRICS = ("atop", "recall@5", "mean_dcg")


def recommenders(split: Split) -> dict[str, Any]:
    """Return the four baselines."""
    return {
        "popularity": np.array(baselines.popularity(split.train)),
        "item-kNN": baselines.item_knn(split.train),
        "EASE": baselines.ease(split.train, regularization=50.0),
        "pure SVD": baselines.pure_svd(split.train, n_factors=10),
    }


def propensities(
    split: Split, exposure: Exposure, models: dict[str, Any], published: Any, seed: int
) -> dict[tuple[str, str], Any]:
    """Return each propensity with the estimator it goes with; unseen items count as n* = 1."""
    train, counts = split.train, split.train.popularity
    lists = count_recommendations(models["EASE"], train, k=50)
    paper = fit_gamma(counts, lists, method="level-ols")
    calibrated = fit_gamma_from_exposure(counts, exposure.n_exposed, exposure.n_positive)
    held_out = fit_gamma_from_exposure(
        counts, exposure.n_exposed, exposure.n_positive, held_out=split.test.popularity
    )
    print(
        f"  split {seed}: gamma of EASE's lists {paper.gamma:.2f}, calibrated {calibrated.gamma:.2f}, ",
        end="",
    )
    print(f"against held-out positives {held_out.gamma:.2f}", file=sys.stdout)
    smooth: dict[str, Any] = {"unseen": "smooth"}
    ratio = DensityRatioPropensity(rng=seed).fit(split, exposure)
    if seed == 0:
        print(ratio.fit)
    return {
        ("γ by level-ols of EASE's lists", "snips"): PowerLawPropensity(gamma=paper, **smooth).fit(train),
        ("calibrated γ", "snips-global"): PowerLawPropensity(gamma=calibrated, **smooth).fit(train),
        ("γ against held-out", "snips-global"): PowerLawPropensity(gamma=held_out, **smooth).fit(train),
        ("γ = 1: 1/(n* + 1)", "snips-global"): PowerLawPropensity(gamma=1, **smooth).fit(train),
        ("direct", "snips-global"): DirectPropensity(exposure).fit(train),
        ("5 strata", "snips-global"): StratifiedPropensity(n_strata=5, exposure=exposure).fit(train),
        ("published", "snips-global"): published,
        ("density ratio", "snips-global"): ratio,
        ("tempered, no exposure", "snips-global"): TemperedDensityRatioPropensity(rng=seed).fit(split),
    }


def values(models: dict[str, Any], split: Split, estimator: str, propensity: Any = None) -> pd.Series:
    """Return estimates by metric and model."""
    frame = ipseval.evaluate(
        models,
        split,
        propensity=propensity,
        metrics=METRICS,
        estimators=[estimator],
        on_low_ess="ignore",
    ).frame
    return frame.set_index(["metric", "model"]).estimate


def one_split(study: Any, seed: int) -> pd.DataFrame:
    """Return reference, AOA and every weighted estimate of one split."""
    positives = study.positives()
    split = split_random(positives.biased, test_fraction=0.2, rng=seed)
    exposure = Exposure.from_ratings(study.random, threshold=study.threshold).without(split.train)
    keep = ~np.isin(positives.random.pair_key, split.train.pair_key)
    reference = Split(split.train, positives.random.select(keep), description="random exposure")
    models = recommenders(split)
    table = {
        ("reference", ""): values(models, reference, "aoa"),
        ("none", "aoa"): values(models, split, "aoa"),
    }
    for (name, estimator), propensity in propensities(
        split, exposure, models, study.propensity, seed
    ).items():
        table[name, estimator] = values(models, split, estimator, propensity)
    return pd.DataFrame(table)


def main(path: str, n_splits: int) -> None:
    """Print a Markdown table."""
    warnings.simplefilter("ignore")
    study = load_coat(path)
    tables = [one_split(study, seed) for seed in range(n_splits)]
    reference = [table["reference", ""] for table in tables]
    errors = {
        key: sum(
            (table[key] - truth).abs().groupby("metric").mean()
            for table, truth in zip(tables, reference, strict=True)
        )
        / n_splits
        for key in tables[0].columns[1:]
    }
    print(f"\n| weights | form | {' | '.join(f'{m}: MAE (cut)' for m in METRICS)} | Kendall τ of atop |")
    print(f"|---|---|{'---|' * (len(METRICS) + 1)}")
    plain = errors["none", "aoa"]
    for key, error in errors.items():
        cells = [f"{error[m]:.3f} ({1 - error[m] / plain[m]:.0%})" for m in METRICS]
        order = np.mean(
            [kendalltau(t[key]["atop"], truth["atop"])[0] for t, truth in zip(tables, reference, strict=True)]
        )
        print(f"| {key[0]} | {key[1]} | {' | '.join(cells)} | {order:.2f} |")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10)
