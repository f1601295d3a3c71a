"""Schnabel et al. (ICML 2016, arXiv 1602.05352), Table 2 on Coat: learning with propensities.

    python -m reproductions.learning --data PATH [--write]

The model is c + a_u + b_i + v_u·w_i. Its rank and penalty λ are chosen by cross-validation on the chosen
ratings, its errors are those on all randomly shown ratings, scores cut to 1–5. λ is in units of a rating of
mean weight: it penalises ‖v‖² + ‖w‖² + ‖a‖² + ‖b‖² beside Σ (weight · error²).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse as sp
from scipy.optimize import minimize

from ipseval import Interactions
from ipseval.validation.datasets import RandomExposureStudy, load_coat
from reproductions.models import CACHE
from reproductions.ratings import weighted_factors
from reproductions.tables import command, markdown

COARSE = (1.0, 3.0, 10.0, 30.0)
RANKS = (0, 5, 20)
GRID = (1.8, 3.0, 4.2, 5.6, 7.5, 10.0, 18.0)
# Table 2 of the paper: MAE and MSE on Coat's random ratings.
PAPER_LEARNING = {"MF, unweighted": (0.920, 1.202), "MF-IPS": (0.860, 1.093)}


def lbfgs_factors(
    log: Interactions, weight: Any, n_factors: int, l2: float, *, seed: int = 0, start: float = 1.0,
    constant: str = "penalised", offset_l2: float | None = None, tolerance: float = 1e-5,
) -> Any:  # fmt: skip
    """Return c + a_u + b_i + v_u·w_i, (n_users, n_items), by L-BFGS on all parameters at once, as the paper.

    Minimises Σ weight · error² + l2 (‖v‖² + ‖w‖²) + offset_l2 (‖a‖² + ‖b‖²), offset_l2 = l2 by default.
    `constant`: c is "penalised" like an offset, a "free" parameter, or the "mean" rating. Factors start at
    N(0, start²), the rest at 0.
    """
    n_users, n_items = log.n_users, log.n_items
    k = (n_users + n_items) * n_factors
    offset_l2 = l2 if offset_l2 is None else offset_l2
    penalty = np.concatenate([np.full(k, l2), np.full(n_users + n_items + 1, offset_l2)])
    first = np.zeros(penalty.size)
    first[:k] = np.random.default_rng(seed).normal(scale=start, size=k)
    if constant != "penalised":
        penalty[-1] = 0.0
    if constant == "mean":
        first[-1] = np.average(log.value, weights=weight)

    def parts(x: Any) -> tuple[Any, Any, Any, Any]:
        factors = x[:k].reshape(n_users + n_items, n_factors)
        return factors[:n_users], factors[n_users:], x[k : k + n_users], x[k + n_users : -1]

    def objective(x: Any) -> tuple[float, Any]:
        v, w, a, b = parts(x)
        error = (v[log.user] * w[log.item]).sum(1) + a[log.user] + b[log.item] + x[-1] - log.value
        slope = 2 * weight * error
        by_pair = sp.csr_matrix((slope, (log.user, log.item)), shape=(n_users, n_items))
        gradient = np.concatenate(
            [(by_pair @ w).ravel(), (by_pair.T @ v).ravel(),
             np.bincount(log.user, slope, n_users), np.bincount(log.item, slope, n_items), [slope.sum()]]
        )  # fmt: skip
        gradient += 2 * penalty * x
        if constant == "mean":
            gradient[-1] = 0.0
        return float(weight @ error**2 + penalty @ x**2), gradient

    options = {"maxiter": 2000, "maxcor": 50, "ftol": tolerance, "gtol": tolerance}
    v, w, a, b = parts(found := minimize(objective, first, jac=True, method="L-BFGS-B", options=options).x)
    return v @ w.T + a[:, None] + b + found[-1]


def weights(study: RandomExposureStudy, weighted: bool) -> Any:
    """Return 1/P of the chosen ratings, or ones, with mean 1."""
    log = study.biased
    weight = 1 / study.propensity.for_pairs(log.user, log.item) if weighted else np.ones(len(log))
    return weight / weight.mean()


def random_errors(study: RandomExposureStudy, scores: Any) -> tuple[float, float]:
    """Return MAE and MSE of scores cut to 1–5 on the random ratings."""
    shown = study.random
    error = np.clip(scores, 1, 5)[shown.user, shown.item] - shown.value
    return float(np.abs(error).mean()), float((error**2).mean())


def learn(
    study: RandomExposureStudy, weighted: bool, seed: int = 0, *, grid: Sequence[float] = GRID,
    rescale: bool = True, n_folds: int = 4,
) -> dict[str, Any]:  # fmt: skip
    """Return the errors on the random ratings of a model chosen by cross-validation with its own estimator.

    The weighted model is chosen by the IPS estimate of MSE, the unweighted one by the plain one. With
    `rescale` the propensities of the training folds are scaled by (k − 1)/k, as in the paper: λ then faces
    the same total weight as in the final fit.
    """
    log, weight = study.biased, weights(study, weighted)
    fold = np.random.default_rng(seed).permutation(np.arange(len(log)) % n_folds)
    scale = n_folds / (n_folds - 1) if rescale else 1.0
    best = (np.inf, 0, 0.0)
    for n_factors, l2 in product(RANKS, grid):
        loss = 0.0
        for held in range(n_folds):
            fit, out = fold != held, fold == held
            scores = lbfgs_factors(log.select(fit), scale * weight[fit], n_factors, l2, seed=seed)
            loss += float(weight[out] @ (scores[log.user[out], log.item[out]] - log.value[out]) ** 2)
        best = min(best, (loss, n_factors, l2))
    _, n_factors, l2 = best
    mae, mse = random_errors(study, lbfgs_factors(log, weight, n_factors, l2, seed=seed))
    return {"d": n_factors, "λ": l2, "mae": mae, "mse": mse}


def learning(study: RandomExposureStudy, seeds: range = range(3)) -> pd.DataFrame:
    """Return the errors of both models over seeds of folds and starting values, for two ways to choose λ."""
    ways: dict[str, dict[str, Any]] = {
        "ours": {},
        "folds not rescaled": {"rescale": False},
        "λ of 1, 3, 10, 30 only, folds not rescaled": {"grid": COARSE, "rescale": False},
    }
    return pd.DataFrame(
        {"model": name, "how": how, "seed": seed, **learn(study, name == "MF-IPS", seed, **options)}
        for name in PAPER_LEARNING
        for how, options in ways.items()
        for seed in seeds
    )


def learning_table(runs: pd.DataFrame) -> str:
    """Return the paper's errors and ours, for each way of choosing λ."""
    rows = []
    for name, (mae, mse) in PAPER_LEARNING.items():
        rows.append([f"{name}: *paper*", f"*{mae:.3f}*", f"*{mse:.3f}*", ""])
        for how, part in runs[runs["model"] == name].groupby("how", sort=False):
            chosen = dict.fromkeys(f"d = {d}, λ = {l2:g}" for d, l2 in zip(part["d"], part["λ"], strict=True))
            rows.append(
                [f"{name}: {how}", f"{part['mae'].mean():.3f} ± {part['mae'].std():.3f}",
                 f"{part['mse'].mean():.3f} ± {part['mse'].std():.3f}", "; ".join(chosen)]
            )  # fmt: skip
    return markdown(["", "MAE", "MSE", "chosen in three runs"], rows)


def by_penalty(study: RandomExposureStudy, ranks: Sequence[int] = (0, 5, 20, 40)) -> pd.DataFrame:
    """Return MAE and MSE on the random ratings by rank, λ and penalty of the offsets: what λ decides."""
    rows = []
    for name, free, d, l2 in product(PAPER_LEARNING, (False, True), ranks, GRID):
        offset_l2 = 0.0 if free else None
        scores = lbfgs_factors(study.biased, weights(study, name == "MF-IPS"), d, l2, offset_l2=offset_l2)
        mae, mse = random_errors(study, scores)
        model = f"{name}, offsets {'free' if free else 'penalised'}"
        rows.append({"model": model, "d": d, "λ": l2, "mae": mae, "mse": mse})
    return pd.DataFrame(rows)


def cells(frame: pd.DataFrame, index: Any, columns: str) -> pd.DataFrame:
    """Return "MAE / MSE" in a table."""
    both = [f"{a:.3f} / {b:.3f}" for a, b in zip(frame["mae"], frame["mse"], strict=True)]
    return frame.assign(cell=both).pivot_table(
        index=index, columns=columns, values="cell", aggfunc="first", sort=False
    )


def penalty_table(frame: pd.DataFrame) -> str:
    wide = cells(frame, ["model", "d"], "λ")
    rows = [[f"{name}, d = {d}", *row] for (name, d), row in zip(wide.index, wide.to_numpy(), strict=True)]
    return markdown(["MAE / MSE", *(f"λ = {l2:g}" for l2 in wide.columns)], rows)


def by_optimiser(study: RandomExposureStudy, n_factors: int = 20, l2: float = 5.6) -> pd.DataFrame:
    """Return MAE and MSE for the optimiser, the scale of the start and the constant: what they change."""
    log = study.biased
    rows = []
    for name in PAPER_LEARNING:
        weight = weights(study, name == "MF-IPS")
        made = {
            "alternating least squares, start N(0, 0.1²), c mean": weighted_factors(
                log.user, log.item, log.value, weight, (log.n_users, log.n_items), n_factors, l2, seed=0
            )
        }
        for start, constant in product((0.1, 1.0), ("mean", "free", "penalised")):
            made[f"L-BFGS, start N(0, {start:g}²), c {constant}"] = lbfgs_factors(
                log, weight, n_factors, l2, start=start, constant=constant
            )
        for label, scores in made.items():
            mae, mse = random_errors(study, scores)
            rows.append({"model": name, "how": label, "mae": mae, "mse": mse})
    return pd.DataFrame(rows)


def optimiser_table(frame: pd.DataFrame) -> str:
    wide = cells(frame, "how", "model")
    return markdown(
        ["MAE / MSE, d = 20, λ = 5.6", *PAPER_LEARNING], [[how, *wide.loc[how]] for how in wide.index]
    )


TABLES = {
    "ratings-learning": (learning, learning_table),
    "ratings-penalty": (by_penalty, penalty_table),
    "ratings-optimiser": (by_optimiser, optimiser_table),
}


def tables(study: RandomExposureStudy) -> dict[str, str]:
    """Return the tables of the page; the runs are kept in the cache."""
    made = {}
    for name, (run, show) in TABLES.items():
        path = CACHE / f"{name}.csv"
        if not path.exists():
            CACHE.mkdir(parents=True, exist_ok=True)
            run(study).to_csv(path, index=False)
        made[name] = show(pd.read_csv(path))
    return made


def main() -> None:
    command(__doc__, lambda folder: tables(load_coat(folder)), "coat")


if __name__ == "__main__":
    main()
