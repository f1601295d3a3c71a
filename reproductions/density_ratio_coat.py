"""Coat: how much of AOA's error each propensity removes, against random exposure.

Run: python -m reproductions.density_ratio_coat PATH [splits]
PATH is the folder with train.ascii and test.ascii. Positives: rating >= 4; 20% of the biased positives are
held out at random per user; the reference is AOA on the random-exposure positives that are not in training.
First table: calibration and reference use the same exposures (the density ratio is cross-fitted over users).
Second table: calibrated on one half of the users, evaluated on the other, both ways.
Third table: the density ratio of few users with random exposure, with and without biased=.
"""

from __future__ import annotations

import sys
import warnings
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

import ipseval
from ipseval.data.random_exposure import RandomExposure
from ipseval.data.splits import Split, split_random
from ipseval.propensity import (
    DensityRatioPropensity,
    DirectPropensity,
    PowerLawPropensity,
    StratifiedPropensity,
    count_recommendations,
    fit_gamma,
    fit_gamma_from_exposure,
)
from ipseval.ranking import baselines, top_items
from ipseval.validation.datasets import load_coat

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
    split: Split, exposure: RandomExposure, models: dict[str, Any], published: Any, seed: int
) -> dict[tuple[str, str], Any]:
    """Return each propensity with the estimator it goes with; unseen items count as n* = 1."""
    train, counts = split.train, split.train.popularity
    lists = count_recommendations(top_items(models["EASE"], split, k=50), train)
    paper = fit_gamma(counts, lists, method="level-ols")
    calibrated = fit_gamma_from_exposure(counts, exposure.n_exposed, exposure.n_positive)
    held_out = fit_gamma_from_exposure(
        counts, exposure.n_exposed, exposure.n_positive, held_out=split.test.popularity
    )
    smooth: dict[str, Any] = {"unseen": "smooth"}
    ratio = DensityRatioPropensity(exposure, biased=split.test, rng=seed).fit(train)
    if seed == 0:
        print(f"\nexample of a fit to {np.unique(exposure.user).size} users:\n{ratio.fit}")
    return {
        ("γ by level-ols of EASE's lists", "snips"): PowerLawPropensity(gamma=paper, **smooth).fit(train),
        ("calibrated γ", "snips-global"): PowerLawPropensity(gamma=calibrated, **smooth).fit(train),
        ("γ against held-out", "snips-global"): PowerLawPropensity(gamma=held_out, **smooth).fit(train),
        ("γ = 1: 1/(n* + 1)", "snips-global"): PowerLawPropensity(gamma=1, **smooth).fit(train),
        ("direct", "snips-global"): DirectPropensity(exposure).fit(train),
        ("5 strata", "snips-global"): StratifiedPropensity(n_strata=5, exposure=exposure).fit(train),
        ("published", "snips-global"): published,
        ("density ratio", "snips-global"): ratio,
        ("density ratio, without biased=", "snips-global"): DensityRatioPropensity(exposure, rng=seed).fit(
            train
        ),
    }


def values(models: dict[str, Any], split: Split, estimator: str, propensity: Any = None) -> pd.Series:
    """Return estimates by metric and model."""
    frame = ipseval.evaluate(
        models,
        split,
        propensity=propensity,
        metrics=METRICS,
        estimators=[estimator],
        low_ess="ignore",
    ).frame
    return frame.set_index(["metric", "model"]).estimate


def split_tables(study: Any, seed: int, *, disjoint: bool) -> list[pd.DataFrame]:
    """Return reference, AOA and every weighted estimate of one split; for either half when disjoint."""
    positives = study.positives()
    split = split_random(positives.biased, test_fraction=0.2, rng=seed)
    exposure = RandomExposure.from_ratings(study.random, threshold=study.threshold).exclude(split.train)
    keep = ~np.isin(positives.random.pair_key, split.train.pair_key)
    random = positives.random.select(keep)
    models = recommenders(split)
    first = np.random.default_rng(seed).permutation(split.n_users) < split.n_users / 2
    everyone = np.ones(split.n_users, dtype=bool)
    tables = []
    for fitted, evaluated in [(first, ~first), (~first, first)] if disjoint else [(everyone, everyone)]:
        part = Split(split.train, split.test.select(evaluated[split.test.user]))
        reference = Split(split.train, random.select(evaluated[random.user]))
        shown = exposure.select(fitted[exposure.user])
        table = {
            ("reference", ""): values(models, reference, "aoa"),
            ("none", "aoa"): values(models, part, "aoa"),
        }
        chosen = propensities(split, shown, models, study.propensity, seed)
        for (name, estimator), propensity in chosen.items():
            table[name, estimator] = values(models, part, estimator, propensity)
        tables.append(pd.DataFrame(table))
    return tables


def report(tables: list[pd.DataFrame]) -> None:
    """Print mean absolute errors, their reduction against AOA, and the order of the recommenders."""
    print(f"\n| weights | form | {' | '.join(f'{m}: MAE (cut)' for m in METRICS)} | Kendall τ of atop |")
    print(f"|---|---|{'---|' * (len(METRICS) + 1)}")
    truth = ("reference", "")
    errors = {
        key: np.mean([(t[key] - t[truth]).abs().groupby("metric").mean()[list(METRICS)] for t in tables], 0)
        for key in tables[0].columns[1:]
    }
    for key, error in errors.items():
        cut = 1 - error / errors["none", "aoa"]
        cells = [f"{mae:.3f} ({share:.0%})" for mae, share in zip(error, cut, strict=True)]
        order = np.mean([kendalltau(t[key]["atop"], t[truth]["atop"])[0] for t in tables])
        print(f"| {key[0]} | {key[1]} | {' | '.join(cells)} | {order:.2f} |")


def few_users(study: Any, n_draws: int = 12) -> None:
    """Print how much of AOA's error goes when few users have random exposure, over draws of users."""
    print(f"\n| users with exposure | biased= | {' | '.join(METRICS)} | smallest over all draws |")
    print(f"|---|---|{'---|' * (len(METRICS) + 1)}")
    positives = study.positives()
    for n_users, given in product((10, 50, 200), (True, False)):
        cuts = []
        for draw in range(n_draws):
            split = split_random(positives.biased, test_fraction=0.2, rng=draw % 3)
            exposure = RandomExposure.from_ratings(study.random, threshold=study.threshold).exclude(
                split.train
            )
            random = positives.random.select(~np.isin(positives.random.pair_key, split.train.pair_key))
            models = recommenders(split)
            users = np.random.default_rng(draw).choice(split.n_users, n_users, replace=False)
            shown = exposure.select(np.isin(exposure.user, users))
            model = DensityRatioPropensity(shown, biased=split.test if given else None, rng=draw)
            truth = values(models, Split(split.train, random), "aoa")
            both = (values(models, split, "snips-global", model), values(models, split, "aoa"))
            errors = [(one - truth).abs().groupby("metric").mean()[list(METRICS)] for one in both]
            cuts.append((1 - errors[0] / errors[1]).to_numpy())
        cells = " | ".join(f"{value:.0%}" for value in np.mean(cuts, axis=0))
        biased = "split.test" if given else "not given"
        print(f"| {n_users} | {biased} | {cells} | {np.min(cuts):.0%} |")


def main(path: str, n_splits: int) -> None:
    """Print the calibrated γ and both tables as Markdown."""
    warnings.simplefilter("ignore")
    study = load_coat(path)
    positives = study.positives()
    sample = (positives.n_exposed, positives.n_positive)
    print(fit_gamma_from_exposure(positives.biased.popularity, *sample, n_users=positives.biased.n_users))
    for minimum in (3, 5):
        fit = fit_gamma_from_exposure(positives.biased.popularity, *sample, min_popularity=minimum)
        print(f"  n* >= {minimum}: gamma {fit.gamma:.3f} ± {fit.standard_error:.3f} on {fit.n_items} items")
    for disjoint in (False, True):
        report([t for seed in range(n_splits) for t in split_tables(study, seed, disjoint=disjoint)])
    few_users(study)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 10)
