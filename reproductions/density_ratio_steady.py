"""The density ratio over seeds, over draws of exposed users, down to one such user, and its intervals.

    python -m reproductions.density_ratio_steady [--data PATH] [--only KIND] [--repeats 30] [--write]

Simulated worlds of 800 users, one for each kind of exposure, are judged by the truth; with --data Coat, too,
by the random positives of users outside the sample. Ten items are shown to each exposed user (Coat: 16).
Removed is the share of AOA's mean absolute error over the recommenders, under snips-global. Coverage is over
new worlds of each kind, each with its own users, log and exposed users. About twelve minutes of one core.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import ipseval
from ipseval import Evaluation, RandomExposure, Split
from ipseval.data.splits import split_random
from ipseval.errors import IpsevalError
from ipseval.propensity import DensityRatioPropensity, Propensity
from ipseval.ranking import RankedPositives, baselines
from ipseval.validation.datasets import load_coat
from ipseval.validation.simulation import World
from reproductions.tables import ROOT, markdown, write_tables

PAGE = ROOT / "docs" / "propensity.md"
METRICS = ("atop", "recall@5", "mean_dcg@10")
SIZES = (25, 100, 500)
HANDFUL = range(1, 11)
FIRST_WORLD = 1000  # the seed of the first new world
COVERAGE = (
    "exposure|exposed users|coverage, weights as known, %|coverage, %|half-width, weights as known|half-width"
)
N_USERS, N_ITEMS, N_SHOWN, N_RESAMPLES = 800, 200, 10, 50
WORLDS: dict[str, dict[str, float]] = {
    "uniform": {"gamma": -1, "max_propensity": 0.3},
    "popularity": {"gamma": 0.3},
    "taste": {"gamma": -0.5, "selection": 1.5},
    "self-selection": {"gamma": 0.0, "self_selection": 1.0},
    "mixture": {"gamma": 0.2, "selection": 1.0, "self_selection": 0.5},
}


@dataclass(frozen=True, eq=False)
class Judged:
    """A split with what was shown at random, its recommenders ranked, and who judges them.

    `truth` is the true value by metric and recommender; without one, the random positives of the users
    outside the sample judge.
    """

    name: str
    split: Split
    exposure: RandomExposure
    ranks: dict[str, RankedPositives]
    random: dict[str, RankedPositives]
    truth: pd.Series | None = None

    @cached_property
    def plain(self) -> pd.Series:
        """AOAs, by metric and recommender."""
        return values(self.evaluated("aoa"))

    @property
    def exposed(self) -> np.ndarray:
        """Users with random exposure."""
        return np.unique(self.exposure.user)

    def evaluated(self, estimator: str, propensity: Propensity | None = None) -> Evaluation:
        """Return the evaluation of the held-out positives."""
        return ipseval.evaluate_ranks(
            self.ranks, propensity=propensity, metrics=METRICS, estimators=[estimator], low_ess="ignore"
        )

    def fitted(self, users: np.ndarray, seed: int) -> Propensity:
        """Return the density ratio of these users' exposure."""
        shown = self.exposure.select(np.isin(self.exposure.user, users))
        return DensityRatioPropensity(shown, biased=self.split.test, rng=seed).fit(self.split.train)

    def errors(self, users: np.ndarray, found: pd.Series) -> np.ndarray:
        """Return mean absolute errors over recommenders of AOA and of others, (2, 3)."""
        truth = self.truth
        if truth is None:
            others = np.setdiff1d(self.exposed, users)
            judges = self.exposed if others.size < self.exposed.size / 4 else others
            part = {name: one.select(np.isin(one.user, judges)) for name, one in self.random.items()}
            truth = values(ipseval.evaluate_ranks(part, metrics=METRICS, estimators=["aoa"]))
        both = [(one - truth).abs().groupby("metric").mean() for one in (self.plain, found)]
        return np.array([one[list(METRICS)] for one in both])

    def removed(self, users: np.ndarray, seed: int) -> np.ndarray:
        """Return the share of AOAs' error that is gone, (3 metrics,)."""
        plain, own = self.errors(users, values(self.evaluated("snips-global", self.fitted(users, seed))))
        return np.asarray(1 - own / plain)


def values(evaluation: Evaluation) -> pd.Series:
    """Return estimates by metric and recommender."""
    return evaluation.frame.set_index(["metric", "model"])["estimate"]


def simulated(name: str, seed: int = 0, n_users: int = N_USERS) -> Judged:
    """Return the world of a kind of exposure."""
    options: dict[str, Any] = {"max_propensity": 0.8, "affinity": 2.5} | WORLDS[name]
    rng = np.random.default_rng(seed)
    world = World(n_users=n_users, n_items=N_ITEMS, mean_relevant=24, rng=rng, **options)
    split = world.split(rng=rng)
    exposure = RandomExposure.from_ratings(world.expose(N_SHOWN, rng=rng), threshold=4).exclude(split.train)
    examples = world.example_models(split, rng=rng)
    models = {one: examples[one] for one in ("popular", "appeal", "noisy")} | trained(split.train)
    truth = world.truth(models, METRICS, split).set_index(["metric", "model"])["ideal"]
    ranks = {one: ipseval.rank_positives(model, split) for one, model in models.items()}
    return Judged(name, split, exposure, ranks, {}, truth)


def coat(folder: Path, seed: int = 0) -> Judged:
    """Return a split of Coat."""
    study = load_coat(folder)
    split = split_random(study.positives().biased, test_fraction=0.2, rng=seed)
    exposure = RandomExposure.from_ratings(study.random, threshold=study.threshold).exclude(split.train)
    random = study.positives().random
    shown = Split(split.train, random.select(~np.isin(random.pair_key, split.train.pair_key)))
    models = {"popularity": np.array(baselines.popularity(split.train))} | trained(split.train)
    parts = [{n: ipseval.rank_positives(one, part) for n, one in models.items()} for part in (split, shown)]
    return Judged("Coat", split, exposure, *parts)


def trained(train: ipseval.Interactions) -> dict[str, Any]:
    """Return three recommenders that learn from the log."""
    return {
        "item-kNN": baselines.item_knn(train),
        "EASE": baselines.ease(train, regularization=50.0),
        "SVD": baselines.pure_svd(train, n_factors=10),
    }


def draws(one: Judged, size: int, n_repeats: int) -> np.ndarray:
    """Return what is removed with each draw of so many exposed users, (n_repeats, 3)."""
    return np.array([one.removed(drawn(one, seed, size), seed) for seed in range(n_repeats)])


def drawn(one: Judged, seed: int, size: int) -> np.ndarray:
    """Return so many exposed users."""
    return np.random.default_rng([seed, size]).choice(one.exposed, size, replace=False)


def seeds(one: Judged, users: np.ndarray, n_repeats: int) -> np.ndarray:
    """Return what is removed with each seed, for the same exposed users, (n_repeats, 3)."""
    return np.array([one.removed(users, seed) for seed in range(n_repeats)])


def refit_ratio(one: Judged, users: np.ndarray) -> np.ndarray:
    """Return the standard error with the weights refitted over the one printed, largest per metric, (3,)."""
    model = one.fitted(users, 0)
    printed = one.evaluated("snips-global", model)
    again = printed.with_intervals("percentile", refit=model.fit.refit, n_resamples=N_RESAMPLES, rng=0)
    ratio = again.frame["std_error"] / printed.frame["std_error"]
    return ratio.groupby(printed.frame["metric"]).max()[list(METRICS)].to_numpy()


def covered(name: str, n_worlds: int) -> Iterator[list[str]]:
    """Yield the coverage of the truth by printed intervals in new worlds of a kind, for each size.

    Beside it, the coverage if the weights were taken as known, and the mean half-width of both.
    """
    found: dict[int, list[pd.DataFrame]] = {size: [] for size in SIZES}
    for seed in range(FIRST_WORLD, FIRST_WORLD + n_worlds):
        world = simulated(name, seed)
        for size in SIZES:
            model = world.fitted(drawn(world, seed, size), seed)
            found[size].append(
                pd.concat(
                    [
                        half_widths(world, replace(model, error=None), "known"),
                        half_widths(world, model, "fitted"),
                    ],
                    axis=1,
                )
            )
    for size, frames in found.items():
        mean = pd.concat(frames).groupby("metric").mean().loc[list(METRICS)]
        yield [
            name,
            f"{size}",
            *(of_metrics(100 * mean[f"covered {one}"].to_numpy(), ".0f") for one in ("known", "fitted")),
            *(of_metrics(mean[f"half {one}"].to_numpy(), ".3f") for one in ("known", "fitted")),
        ]


def half_widths(world: Judged, propensity: Propensity, weights: str) -> pd.DataFrame:
    """Return the half-width of each interval, by metric and recommender, and whether it covers the truth."""
    frame = world.evaluated("snips-global", propensity).frame.set_index(["metric", "model"])
    assert world.truth is not None
    half = (frame["ci_high"] - frame["ci_low"]) / 2
    inside = (frame["estimate"] - world.truth.reindex(frame.index)).abs() <= half
    return pd.DataFrame({f"half {weights}": half, f"covered {weights}": inside.astype(float)})


def handful(one: Judged, n_draws: int = 6) -> Iterator[str]:
    """Yield how each fit to 1 … 10 users ends: "fit", "refused", or the name of a foreign exception."""
    for size in HANDFUL:
        for seed in range(n_draws):
            try:
                removed = one.removed(drawn(one, seed, size), seed)
                yield "fit" if np.isfinite(removed).all() else "not finite"
            except IpsevalError:
                yield "refused"
            except Exception as error:  # which others there are is the question
                yield type(error).__name__


def rows(one: Judged, n_repeats: int) -> Iterator[list[str]]:
    """Yield the lines of one kind of data: of each number of exposed users, and of all."""
    for size in [each for each in SIZES if each < one.exposed.size] + [one.exposed.size]:
        everyone = size == one.exposed.size
        fixed = one.exposed if everyone else np.random.default_rng(size).choice(one.exposed, size, False)
        steady = seeds(one, fixed, n_repeats)
        found = steady if everyone else draws(one, size, n_repeats)
        spread = np.abs(steady - np.median(steady, axis=0)).max(axis=0)
        row = [
            one.name,
            f"{size}{' (all)' if everyone else ''}",
            of_metrics(one.errors(fixed, one.plain)[0], ".3f"),
            of_metrics(100 * found.mean(axis=0), ".0f"),
            "–" if everyone else of_metrics(100 * found.min(axis=0), ".0f"),
            "–" if everyone else f"{(found < 0).any(axis=1).sum()}",
            of_metrics(100 * spread, ".1f"),
            of_metrics(refit_ratio(one, fixed), ".1f"),
        ]
        print("|".join(row), file=sys.stderr, flush=True)
        yield row


def of_metrics(numbers: np.ndarray, form: str) -> str:
    """Return one number for each metric."""
    return " ".join(format(one, form) for one in numbers)


def tables(data: list[Judged], n_repeats: int) -> Mapping[str, str]:
    """Return the tables of the page."""
    kinds = [one.name for one in data if one.truth is not None]
    intervals = [row for kind in kinds for row in covered(kind, n_repeats)]
    header = "exposure|exposed users|AOA's error|reduction, %|smallest|draws worse|seeds, ± points|refit/printed SE"
    made = [row for one in data for row in rows(one, n_repeats)]
    ends = [[one.name, *ended(list(handful(one)))] for one in data]
    return {
        "density-ratio-steady": markdown(header.split("|"), made),
        "density-ratio-coverage": markdown(COVERAGE.split("|"), intervals),
        "density-ratio-handful": markdown(["exposure", "fits", "refused", "anything else"], ends),
    }


def ended(how: list[str]) -> list[str]:
    other = sorted({one for one in how if one not in ("fit", "refused")})
    return [f"{how.count('fit')}", f"{how.count('refused')}", ", ".join(other) or "0"]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with coat/")
    parser.add_argument("--only", choices=[*WORLDS, "coat"])
    parser.add_argument("--repeats", type=int, default=30, help="seeds, draws of users, and new worlds")
    parser.add_argument("--write", action="store_true", help=f"put the tables into docs/{PAGE.name}")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    data = [simulated(name) for name in WORLDS if options.only in (None, name)]
    if options.data is not None and options.only in (None, "coat"):
        data.append(coat(options.data / "coat"))
    made = tables(data, options.repeats)
    if options.write:
        write_tables(made, PAGE)
    print("\n\n".join(made.values()))


if __name__ == "__main__":
    main()
