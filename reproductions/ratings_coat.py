"""Errors of two rating predictors on Coat: estimates from chosen ratings against randomly shown ones.

    python -m reproductions.ratings_coat --data PATH

PATH is the folder that holds `coat/` (see data/README.md). A fifth of the chosen ratings is held out, ten
times; the predictors are fitted to the rest. Truth is the error on the ratings of randomly shown items. Pairs
in training are in neither.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd

import ipseval
from ipseval.evaluation._ratings import evaluate_ratings
from ipseval.propensity import Propensity
from ipseval.validation import datasets

HELD_OUT = 0.2
N_SPLITS = 10
N_FACTORS, RIDGE, N_ROUNDS = 5, 3.0, 30


def item_mean(train: ipseval.Interactions) -> np.ndarray:
    """Mean rating of each item, drawn to the overall mean by five ratings."""
    assert train.value is not None
    overall = train.value.mean()
    total = np.bincount(train.item, weights=train.value - overall, minlength=train.n_items)
    mean = overall + total / (train.popularity + 5.0)
    return np.tile(mean, (train.n_users, 1))


def biased_factors(train: ipseval.Interactions, seed: int) -> np.ndarray:
    """μ + b_u + b_i + x_u·y_i by alternating ridge regressions, each of them in closed form."""
    assert train.value is not None
    rng = np.random.default_rng(seed)
    overall = train.value.mean()
    # One extra column of ones on either side carries the other side's bias.
    user = np.column_stack([rng.normal(scale=0.1, size=(train.n_users, N_FACTORS)), np.zeros(train.n_users)])
    item = np.column_stack([rng.normal(scale=0.1, size=(train.n_items, N_FACTORS)), np.zeros(train.n_items)])
    for _ in range(N_ROUNDS):
        user = ridge(
            train.user, train.value - overall - item[train.item, -1], with_one(item)[train.item], user
        )
        item = ridge(
            train.item, train.value - overall - user[train.user, -1], with_one(user)[train.user], item
        )
    product = user[:, :-1] @ item[:, :-1].T
    return overall + user[:, -1][:, None] + item[:, -1][None, :] + product


def with_one(factors: np.ndarray) -> np.ndarray:
    return np.column_stack([factors[:, :-1], np.ones(factors.shape[0])])


def ridge(row: np.ndarray, target: np.ndarray, features: np.ndarray, before: np.ndarray) -> np.ndarray:
    result = np.zeros_like(before)
    order = np.argsort(row, kind="stable")
    for mine in np.split(order, np.flatnonzero(np.diff(row[order])) + 1):
        which, x = row[mine[0]], features[mine]
        result[which] = np.linalg.solve(x.T @ x + RIDGE * np.eye(x.shape[1]), x.T @ target[mine])
    return result


def held_out_propensity(published: Propensity, share: float) -> Propensity:
    """Chance of a pair that is not in training to be held out: ρP / (1 − (1 − ρ)P)."""
    assert published.pair is not None
    chance = share * published.pair / (1 - (1 - share) * published.pair)
    return Propensity(
        None, True, "published, held-out part", published.n_items, pair=chance, pair_key=published.pair_key
    )


def one_split(study: datasets.RandomExposureStudy, seed: int) -> pd.DataFrame:
    split = ipseval.split_random(study.biased, test_fraction=HELD_OUT, rng=seed)
    models = {"item mean": item_mean(split.train), "biased factors": biased_factors(split.train, seed)}
    assert study.propensity is not None
    estimates = evaluate_ratings(
        models,
        split.test,
        propensity=held_out_propensity(study.propensity, len(split.test) / len(study.biased)),
        metrics=["mae", "mse"],
        n_pairs=split.train.n_items - split.train.activity,
        low_ess="ignore",
    ).frame
    shown = study.random.select(~np.isin(study.random.pair_key, split.train.pair_key))
    truth = evaluate_ratings(models, shown, metrics=["mae", "mse"]).frame
    truth = truth.replace({"estimator": {"aoa-pooled": "truth"}})
    return pd.concat([truth, estimates])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    study = datasets.load_coat(parser.parse_args().data / "coat")
    runs = pd.concat([one_split(study, seed) for seed in range(N_SPLITS)])
    mean = runs.groupby(["metric", "model", "estimator"], sort=False)[["estimate", "std_error"]].mean()
    cells = mean.apply(lambda row: f"{row['estimate']:.3f} ± {row['std_error']:.3f}", axis=1)
    columns = ["truth", "aoa-pooled", "ips", "snips-pooled"]
    print("| error | predictor | " + " | ".join(columns) + " |")
    print("|---|---|" + "---|" * len(columns))
    for metric, model in dict.fromkeys((metric, model) for metric, model, _ in cells.index):
        print(f"| {metric} | {model} | " + " | ".join(cells[metric, model, name] for name in columns) + " |")
    held_out = runs[runs["estimator"] == "ips"]
    print(
        f"\nMeans of estimate ± standard error over {N_SPLITS} splits; {held_out['n_positives'].mean():,.0f} "
        f"held-out ratings, with an effective sample size of {held_out['ess'].mean():,.0f}."
    )


if __name__ == "__main__":
    main()
