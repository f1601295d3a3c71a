"""Schnabel et al. (ICML 2016, arXiv 1602.05352): errors of predictors when users choose what they rate.

    python -m reproductions.ratings --data PATH [--write]

1. Estimates of known errors (their Table 1 and Figure 2): five made-up predictors on a complete rating
   matrix, ratings revealed with probability k (4 and 5 stars) or kα^(4−r). MovieLens 100K is completed with
   the paper's shares of stars, and Coat with those of its random ratings.
2. Estimates on Coat itself: the error of two predictors from held-out chosen ratings, against the error on
   randomly shown ones.
Learning on Coat (their Table 2) is in reproductions/learning.py.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval import Interactions, KnownPropensity
from ipseval.evaluation import evaluate_ratings
from ipseval.validation.datasets import RandomExposureStudy, load_coat, load_movielens
from reproductions.ratings_coat import N_SPLITS, one_split
from reproductions.tables import command, markdown

ALPHA = 0.25
SHARE_OBSERVED = 0.05
N_DRAWS = 50
# Shares of 1 to 5 stars among randomly shown songs (Marlin & Zemel 2009), which the paper takes.
SHARES = (0.526, 0.242, 0.144, 0.062, 0.026)


# --- Known errors -------------------------------------------------------------------------------------------


def complete_ratings(study: RandomExposureStudy) -> Any:
    """Return the complete matrix of Coat, with the distribution of the randomly shown ratings."""
    shares = np.bincount(study.random.value.astype(int), minlength=6)[1:]
    return completed([study.biased, study.random], shares)


def completed(logs: list[Interactions], shares: Any, n_factors: int = 5, l2: float = 3.0) -> Any:
    """Return a complete matrix of ratings 1–5 with given shares of 1, 2, … stars.

    A factor model of all ratings fills the matrix; its values are then cut where the shares say.
    """
    user, item, value = (
        np.concatenate([getattr(log, what) for log in logs]) for what in ("user", "item", "value")
    )
    shape = (logs[0].n_users, logs[0].n_items)
    raw = weighted_factors(user, item, value, np.ones(user.size), shape, n_factors, l2, seed=0)
    shares = np.asarray(shares)
    bounds = np.cumsum(shares / shares.sum())[:-1] * raw.size
    order = np.argsort(raw, axis=None, kind="stable")
    ratings = np.empty(raw.size)
    ratings[order] = 1 + np.searchsorted(bounds, np.arange(raw.size), side="right")
    return ratings.reshape(shape)


def predictors(truth: Any, seed: int = 0) -> dict[str, Any]:
    """Return the paper's five prediction matrices."""
    rng = np.random.default_rng(seed)
    made: dict[str, Any] = {}
    for name, star in (("ones", 1), ("fours", 4)):
        flipped = truth.copy().ravel()
        places = np.flatnonzero(flipped == star)
        n = min(int((truth == 5).sum()), places.size)
        flipped[rng.choice(places, n, replace=False)] = 5
        made[name] = flipped.reshape(truth.shape)
    made["rotate"] = np.where(truth >= 2, truth - 1, 5.0)
    made["skewed"] = np.clip(rng.normal(truth, (6 - truth) / 2), 0, 6)
    made["coarsened"] = np.where(truth <= 3, 3.0, 4.0)
    return made


def observation_chance(truth: Any, alpha: float) -> Any:
    """Return P of every pair: k for 4 and 5 stars, k α^(4 − r) below, 5% observed on average."""
    relative = np.where(truth >= 4, 1.0, alpha ** (4.0 - truth))
    return np.minimum(relative * SHARE_OBSERVED * truth.size / relative.sum(), 1.0)


def known_errors(truth: Any, alpha: float = ALPHA, n_draws: int = N_DRAWS, seed: int = 1) -> pd.DataFrame:
    """Return, per draw, predictor, metric and estimator, the estimate and the true error."""
    n_users, n_items = truth.shape
    chance = observation_chance(truth, alpha)
    pairs = pd.DataFrame(
        {
            "user": np.repeat(np.arange(n_users), n_items),
            "item": np.tile(np.arange(n_items), n_users),
            "propensity": chance.ravel(),
        }
    )
    models = predictors(truth)
    error = {name: np.abs(one - truth) for name, one in models.items()}
    exact = {
        (name, metric): float((one if metric == "mae" else one**2).mean())
        for name, one in error.items()
        for metric in ("mae", "mse")
    }
    users, items = np.arange(n_users), np.arange(n_items)
    rng = np.random.default_rng(seed)
    frames = []
    for draw in range(n_draws):
        user, item = np.nonzero(rng.random(truth.shape) < chance)
        ratings = Interactions(user, item, users, items, value=truth[user, item])
        seen = pairs.iloc[user * n_items + item]
        known = KnownPropensity(pair=seen).fit(ratings)
        frame = evaluate_ratings(
            models, ratings, propensity=known, metrics=["mae", "mse"], low_ess="ignore"
        ).frame
        frame = frame.replace({"estimator": {"aoa-pooled": "naive"}})  # as the paper calls it
        frame["true"] = [exact[key] for key in zip(frame["model"], frame["metric"], strict=True)]
        frames.append(frame[["model", "metric", "estimator", "estimate", "true"]].assign(draw=draw))
    return pd.concat(frames, ignore_index=True)


def known_table(runs: pd.DataFrame) -> str:
    """Return mean ± standard deviation over the draws, beside the true error."""
    rows = []
    for (metric, model), part in runs.groupby(["metric", "model"], sort=False):
        by = part.groupby("estimator")["estimate"]
        mean, std = by.mean(), by.std()
        rows.append(
            [f"{metric}, {model}", f"{part['true'].iloc[0]:.3f}"]
            + [f"{mean[e]:.3f} ± {std[e]:.3f}" for e in ("naive", "ips", "snips-pooled")]
        )
    return markdown(["", "true", "naive", "IPS", "SNIPS"], rows)


def by_alpha(truth: Any, alphas: tuple[float, ...] = (0.05, 0.1, 0.25, 0.5, 0.75, 1.0)) -> pd.DataFrame:
    """Return the RMSE of each estimator of MAE and MSE over predictors and draws, by α (their Figure 2)."""
    rows = []
    for alpha in alphas:
        runs = known_errors(truth, alpha, n_draws=20)
        square = (runs["estimate"] - runs["true"]) ** 2
        for (metric, estimator), value in square.groupby([runs["metric"], runs["estimator"]]):
            rows.append(
                {"alpha": alpha, "metric": metric, "estimator": estimator, "rmse": np.sqrt(value.mean())}
            )
    return pd.DataFrame(rows)


def alpha_table(frame: pd.DataFrame) -> str:
    cells = frame.pivot_table(index=["metric", "estimator"], columns="alpha", values="rmse")
    rows = [
        [f"{metric}, {estimator}", *(f"{value:.4f}" for value in row)]
        for (metric, estimator), row in zip(cells.index, cells.to_numpy(), strict=True)
    ]
    return markdown(["RMSE of the estimate", *(f"α = {alpha:g}" for alpha in cells.columns)], rows)


def by_size(truth: Any, alpha: float = 0.05) -> pd.DataFrame:
    """Return the RMSE of each estimator of MAE for the matrix and for 4 × 4 copies of it side by side."""
    rows = []
    for copies in (1, 2, 4):
        runs = known_errors(np.tile(truth, (copies, copies)), alpha, n_draws=20).query("metric == 'mae'")
        square = (runs["estimate"] - runs["true"]) ** 2
        rmse = np.sqrt(square.groupby(runs["estimator"]).mean())
        rows.append({"pairs": truth.size * copies**2, **rmse})
    return pd.DataFrame(rows)


# --- Coat ---------------------------------------------------------------------------------------------------


def coat_errors(study: RandomExposureStudy) -> str:
    """Return truth and estimates of two predictors, mean over the splits; and the mean absolute error."""
    runs = pd.concat([one_split(study, seed).assign(seed=seed) for seed in range(N_SPLITS)])
    rows = []
    for (metric, model), part in runs.groupby(["metric", "model"], sort=False):
        cells = part.pivot(index="seed", columns="estimator", values="estimate")
        row = [f"{metric}, {model}", f"{cells['truth'].mean():.3f}"]
        for estimator in ("aoa-pooled", "ips", "snips-pooled"):
            gap = (cells[estimator] - cells["truth"]).abs().mean()
            row.append(f"{cells[estimator].mean():.3f} (off by {gap:.3f})")
        rows.append(row)
    return markdown(["", "truth: random ratings", "naive", "IPS", "SNIPS"], rows)


def weighted_factors(
    user: Any, item: Any, value: Any, weight: Any, shape: tuple[int, int], n_factors: int, l2: float,
    *, seed: int, n_rounds: int = 15, offset_l2: float | None = None,
) -> Any:  # fmt: skip
    """Return c + a_u + b_i + v_u·w_i, (n_users, n_items), by alternating weighted ridge regressions.

    `l2` penalises the factors, `offset_l2` the offsets a and b (default: the same).
    """
    penalty = np.append(np.full(n_factors, l2), l2 if offset_l2 is None else offset_l2)
    rng = np.random.default_rng(seed)
    overall = float(np.average(value, weights=weight))
    left = np.column_stack([rng.normal(scale=0.1, size=(shape[0], n_factors)), np.zeros(shape[0])])
    right = np.column_stack([rng.normal(scale=0.1, size=(shape[1], n_factors)), np.zeros(shape[1])])
    for _ in range(n_rounds):
        left = _ridge(user, value - overall - right[item, -1], weight, _one(right)[item], left, penalty)
        right = _ridge(item, value - overall - left[user, -1], weight, _one(left)[user], right, penalty)
    return overall + left[:, -1:] + right[:, -1] + left[:, :-1] @ right[:, :-1].T


def _one(factors: Any) -> Any:
    return np.column_stack([factors[:, :-1], np.ones(factors.shape[0])])


def _ridge(row: Any, target: Any, weight: Any, features: Any, before: Any, penalty: Any) -> Any:
    order = np.argsort(row, kind="stable")
    rows, start = np.unique(row[order], return_index=True)
    weighted = (features * weight[:, None])[order]
    gram = np.add.reduceat(weighted[:, :, None] * features[order][:, None, :], start)
    moment = np.add.reduceat(weighted * target[order][:, None], start)
    result = np.zeros_like(before)
    result[rows] = np.linalg.solve(gram + np.diag(penalty), moment[:, :, None])[:, :, 0]
    return result


def tables(folder: Path) -> dict[str, str]:
    """Return the tables of the page, from the folder that holds coat/ and ml-100k/."""
    study, movies = load_coat(folder / "coat"), completed([load_movielens(folder / "ml-100k")], SHARES)
    truth = complete_ratings(study)
    return {
        "ratings-movielens": known_table(known_errors(movies)),
        "ratings-movielens-alpha": alpha_table(by_alpha(movies)),
        "ratings-known": known_table(known_errors(truth)),
        "ratings-coat": coat_errors(study),
    }


def main() -> None:
    command(__doc__, tables, ".")


if __name__ == "__main__":
    main()
