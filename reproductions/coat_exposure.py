"""Coat's ratings as an exposure log: what was rated was seen, liked or not. Judged by random exposure.

    python -m reproductions.coat_exposure --data PATH [--splits 6] [--write]

A fifth of the ratings is held out, and is the exposure log: ratings >= 4 are clicks, the others were seen and
not liked. The chance of being seen is estimated without random exposure, in two ways. By item: the share of
users who rated it (`ImpressionPropensity`). By pair: the odds of held-out ratings against uniform pairs of
the same users, on the features of the density ratio, scaled so that each user's chances add up to the number
of held-out ratings: the path of all interactions at α = 1. A pair that is liked is a candidate only where it
is not in training, so that its chance is q/(1 − 4q), with q that of a pair that is not liked.

The reference is the pooled mean over the random positives of all users, and all estimates are pooled ones.
`random-sample` is the mean over half of the users, judged by the other half. Eight recommenders in closed
form; nothing was chosen by the results. ± is the standard error over splits: it leaves out that there is one
set of users.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

import ipseval
from ipseval import ImpressionLog, ImpressionPropensity, KnownPropensity, Split
from ipseval.correction import CORRECTED, correct
from ipseval.policies import evaluate_rewards
from ipseval.policies.rewards import FactorReward, ItemReward, Rewards
from ipseval.propensity import PowerLawPropensity, Propensity, profile_features
from ipseval.propensity.cross_fitted_odds import fit_logistic
from ipseval.validation.datasets import RandomExposureStudy, load_coat
from reproductions.correction_coat import recommenders
from reproductions.tables import ROOT, data_folder, markdown, write_tables

PAGE = ROOT / "docs" / "validation.md"
METRICS = ("atop", "recall@5", "mean_dcg")
HELD_OUT, N_UNIFORM, RIDGE, MOST = 0.2, 50, 1.0, 0.2
PLAIN, SAMPLE = "aoa-pooled", "random-sample"
SHOWN = ("snips-pooled", "snips-impressions", "dr")
REWARDS = {"item": ItemReward(), "factors": FactorReward()}


@dataclass(frozen=True, eq=False)
class ByOdds:
    """The chance that a pair is in the exposure log, from the odds of its pairs against uniform ones."""

    log: ImpressionLog

    def fit(self, split: Split, rng: np.random.Generator) -> Propensity:
        """Return the chance of each pair of the log, with that of liked pairs as the module says."""
        log, shape = self.log, (split.n_users, split.n_items)
        users = np.unique(log.user)
        drawn = np.repeat(users, N_UNIFORM), rng.integers(0, split.n_items, users.size * N_UNIFORM)
        user, item = (np.concatenate(pair) for pair in zip((log.user, log.item), drawn, strict=True))
        x = profile_features(split.train, user, item)
        mean, spread = x.mean(axis=0), np.maximum(x.std(axis=0), 1e-12)
        shown = np.arange(user.size) < len(log)
        size = np.bincount(user[shown], minlength=split.n_users)
        weight = np.where(shown, 1 / np.maximum(size, 1)[user], 1 / N_UNIFORM)
        weight *= user.size / weight.sum()
        design = np.column_stack([np.ones(user.size), (x - mean) / spread])
        penalty = np.full(design.shape[1], RIDGE)
        slope = fit_logistic(design, shown, weight, np.zeros(penalty.size), penalty)
        every = np.divmod(np.arange(np.prod(shape)), split.n_items)
        odds = np.exp((profile_features(split.train, *every) - mean) / spread @ slope[1:]).reshape(shape)
        odds[split.train.user, split.train.item] = 0  # no candidates
        q = np.minimum(size[:, None] * odds / odds.sum(axis=1, keepdims=True), MOST * 0.95)
        own = q[log.user, log.item]
        chance = np.where(log.clicked, own / (1 - (1 - HELD_OUT) / HELD_OUT * own), own)
        pair = pd.DataFrame({"user": log.user_ids[log.user], "item": log.item_ids[log.item]})
        return KnownPropensity(pair=pair.assign(propensity=chance)).fit(split)


def held_out(study: RandomExposureStudy, rng: np.random.Generator) -> tuple[Split, ImpressionLog]:
    """Return a split of the positives, and the held-out ratings as an exposure log."""
    positives, log = study.positives(), study.biased
    split = ipseval.split_random(positives.biased, test_fraction=HELD_OUT, rng=rng)
    liked = np.isin(log.pair_key, positives.biased.pair_key)
    kept = np.where(liked, np.isin(log.pair_key, split.test.pair_key), rng.random(len(log)) < HELD_OUT)
    part = log.select(kept)
    return split, ImpressionLog(
        part.user, part.item, log.user_ids, log.item_ids, np.isin(part.pair_key, split.test.pair_key)
    )


def estimates(
    study: RandomExposureStudy, split: Split, log: ImpressionLog, rng: np.random.Generator
) -> Iterator[tuple[str, pd.Series]]:
    """Yield (row, estimates by model and metric)."""
    models = {name: train(split.train) for name, train in recommenders().items()}
    common: dict[str, Any] = {"metrics": METRICS, "low_ess": "ignore"}

    def select_estimates(frame: pd.DataFrame, label: str) -> pd.Series:
        return frame[frame["estimator"] == label].set_index(["model", "metric"])["estimate"]

    for gamma in (0, 1):
        rule = PowerLawPropensity(gamma=gamma, unseen="smooth")
        labels = [PLAIN, "snips-pooled"]
        frame = ipseval.evaluate(models, split, propensity=rule, estimators=labels, **common).frame
        if not gamma:
            yield PLAIN, select_estimates(frame, PLAIN)
        yield f"snips-pooled, popularity, γ = {gamma}", select_estimates(frame, "snips-pooled")
    chances = {"by item": ImpressionPropensity(log=log), "by pair": ByOdds(log).fit(split, rng)}
    for name, chance in chances.items():
        for reward, model in REWARDS.items():
            first = reward == "item"
            labels = [*(SHOWN if first else SHOWN[2:]), *(["dm"] if name == "by item" else [])]
            impressions = Rewards(log, model, rng=0)
            frame = evaluate_rewards(
                models, split, impressions, propensity=chance, estimators=labels, **common
            ).frame
            for label in labels:
                rest = f", rewards by {reward}" if label in ("dm", "dr") else ""
                seen = "" if label == "dm" else f", seen {name}"
                yield f"{label}{seen}{rest}", select_estimates(frame, label)
    corrected = correct(models, split, interactions=study.biased, metrics=METRICS, rng=rng).frame
    yield "correction, all interactions", select_estimates(corrected, CORRECTED)


def references(study: RandomExposureStudy, split: Split, users: np.ndarray) -> pd.Series:
    """Return the pooled mean over the random positives of some users, by model and metric."""
    random = study.positives().random
    keep = np.isin(random.user, users) & ~np.isin(random.pair_key, split.train.pair_key)
    models = {name: train(split.train) for name, train in recommenders().items()}
    judge = Split(split.train, random.select(keep))
    frame = ipseval.evaluate(models, judge, metrics=METRICS, estimators=[PLAIN]).frame
    return frame.set_index(["model", "metric"])["estimate"]


def scores(own: pd.Series, right: pd.Series) -> dict[str, float]:
    """Return mean absolute error and Kendall's τ_b of each metric."""
    made = {}
    for metric in METRICS:
        a, b = (one.xs(metric, level="metric") for one in (own, right))
        made[f"error {metric}"] = float((a - b.loc[a.index]).abs().mean())
        made[f"tau {metric}"] = float(kendalltau(a, b.loc[a.index]).statistic)
    return made


def rows(study: RandomExposureStudy, n_splits: int) -> pd.DataFrame:
    """Return the scores of every split and row."""
    made = []
    exposed = np.unique(study.random.user)
    for number in range(n_splits):
        rng = np.random.default_rng(number)
        split, log = held_out(study, rng)
        right = references(study, split, exposed)
        made += [
            {"split": number, "row": name, **scores(own, right)}
            for name, own in estimates(study, split, log, rng)
        ]
        half = rng.permutation(exposed.size) % 2 == 0
        sides = [references(study, split, exposed[one]) for one in (half, ~half)]
        for own, judge in (sides, sides[::-1]):
            made.append({"split": number, "row": SAMPLE, **scores(own, judge)})
    return pd.DataFrame(made)


def table(found: pd.DataFrame) -> str:
    """Return the table: error removed against the plain mean, and order."""
    mean = found.drop(columns="split").groupby("row", sort=False).mean()
    each = found.groupby(["row", "split"], sort=False).mean()
    lines = []
    for name, own in mean.iterrows():
        cells = []
        for metric in METRICS:
            key = f"error {metric}"
            if name == PLAIN:
                cells.append(f"error {own[key]:.4f}")
            else:
                ratio = 1 - each.loc[name][key] / each.loc[PLAIN][key]
                error = 100 * float(ratio.std(ddof=1) / np.sqrt(len(ratio)))
                cells.append(f"{100 * (1 - own[key] / mean.loc[PLAIN, key]):.0f} ± {error:.0f}")
        lines.append([str(name), *cells, *(f"{own[f'tau {metric}']:.2f}" for metric in METRICS)])
    return markdown(
        ["estimate", *(f"{one}: error reduction, %" for one in METRICS), *(f"{one}: τ" for one in METRICS)],
        lines,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--write", action="store_true", help="put the table into docs/validation.md")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        found = rows(load_coat(options.data / "coat"), options.splits)
    made = table(found)
    print(made)
    if options.write:
        write_tables({"coat-exposure": made}, PAGE)


if __name__ == "__main__":
    main()
