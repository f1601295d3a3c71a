"""Designed exposure against uniform exposure: errors, coverage and order with 20 slots for each user.

    python -m reproductions.designed_exposure --cache FOLDER [--data PATH] [--worlds 27] [--draws 16] [--write]

Half of the designed slots are drawn from the union of the first ten items of all recommenders, as
`plan_exposure(design="lists")` does. The sources are both simulators of the correction, with the true
relevance of every pair, and a semi-synthetic KuaiRand: likes are drawn from a logistic factor model of its
random exposure, and the log from a factorisation of its real clicks, popularity and activity. The scores of a
world are kept in the folder, so a run goes on where another ended.
"""

from __future__ import annotations

import argparse
import pickle
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from ipseval import Interactions, RandomExposure, Split, metric, rank_positives
from ipseval.correction import (
    CORRECTED,
    RANDOM_SAMPLE,
    Correction,
    CorrectionPath,
    correct_path,
    correction_path,
)
from ipseval.correction._allocation import DESIGNS, UserSlots
from ipseval.data.exposure_design import compute_inclusion_probability
from ipseval.ranking import RankedPositives
from reproductions import correction_family, feedback_worlds
from reproductions.kuairand_worlds import KuaiRandModel, fit_kuairand
from reproductions.tables import ROOT, markdown, write_tables

PAGE = ROOT / "docs" / "designed-exposure.md"
SEED = 43
METRICS = ("recall@10", "mean_dcg@10", "atop")
DEPTH = 10
N_SLOTS = 20
SIZES = (25, 100)
SOURCES = ("first", "second", "kuairand")
TITLES = {
    "first": "first simulator",
    "second": "second simulator",
    "kuairand": "semi-synthetic KuaiRand",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class DesignWorld:
    """A log with its path, and the ranks of every relevant pair outside training.

    Attributes
    ----------
    n_users, n_items : int
    relevant_keys : (n,) int array
        Keys of the relevant pairs outside training: the truth is the mean over them.
    ranks : dict of name to RankedPositives
        Ranks of these pairs.
    path : CorrectionPath
        Values by correction strength, from the log.
    truth : (n_cells,) array
    user_slots : dict of user to UserSlots
        Candidates and listed items of every user with a relevant pair.
    """

    n_users: int
    n_items: int
    relevant_keys: np.ndarray
    ranks: dict[str, RankedPositives]
    path: CorrectionPath
    truth: np.ndarray
    user_slots: dict[int, UserSlots]

    @classmethod
    def from_models(cls, split: Split, models: dict[str, Any], relevant: Interactions) -> DesignWorld:
        """Rank the relevant pairs by every recommender."""
        everything = Split(split.train, relevant)
        ranks = {}
        for name, model in models.items():
            ranks[name] = rank_positives(model, everything, name=name, top_k=DEPTH)
        test_ranks = {}
        for name, ranked in ranks.items():
            is_test = np.isin(ranked.user * split.n_items + ranked.item, split.test.pair_key)
            test_ranks[name] = ranked.select(is_test)
        means = []
        for label, ranked in product(METRICS, ranks.values()):
            contributions = metric(label).contributions(ranked)
            assert contributions is not None
            means.append(contributions.mean())
        return cls(
            n_users=split.n_users,
            n_items=split.n_items,
            relevant_keys=np.sort(relevant.pair_key),
            ranks=ranks,
            path=correction_path(test_ranks, split, metrics=METRICS, rng=0),
            truth=np.array(means),
            user_slots=list_slots(split.train, ranks),
        )

    def expose(self, design: str, n_users: int, rng: np.random.Generator) -> RandomExposure:
        """Return the positive answers of users drawn at random; no estimate reads the remaining answers."""
        users = rng.choice(self.n_users, n_users, replace=False)
        user_parts: list[np.ndarray] = []
        item_parts: list[np.ndarray] = []
        probabilities: list[np.ndarray] = []
        for user in users.tolist():
            if user not in self.user_slots:
                continue  # without a relevant pair
            slots = self.user_slots[user]
            if design == "uniform":
                slots = UserSlots(candidates=slots.candidates, listed=slots.listed[:0])
            items = slots.draw(N_SLOTS, rng)
            probability = compute_inclusion_probability(
                np.isin(items, slots.listed),
                n_slots=np.array(N_SLOTS),
                n_listed=np.array(slots.listed.size),
                n_candidates=np.array(slots.candidates.size),
            )
            user_parts.append(np.full(items.size, user))
            item_parts.append(items)
            probabilities.append(probability)
        shown_users = np.concatenate(user_parts)
        shown_items = np.concatenate(item_parts)
        is_relevant = np.isin(shown_users * self.n_items + shown_items, self.relevant_keys)
        return RandomExposure(
            shown_users[is_relevant],
            shown_items[is_relevant],
            np.ones(int(is_relevant.sum()), dtype=bool),
            self.n_users,
            self.n_items,
            weight=1 / np.concatenate(probabilities)[is_relevant],
            is_designed=True,
        )

    def select_ranks(self, exposure: RandomExposure) -> dict[str, RankedPositives]:
        """Return the ranks of the pairs of an exposure."""
        ranked = next(iter(self.ranks.values()))
        is_shown = np.isin(ranked.user * self.n_items + ranked.item, exposure.pair_key)
        selected = {}
        for name, model_ranks in self.ranks.items():
            selected[name] = model_ranks.select(is_shown)
        return selected


def list_slots(train: Interactions, ranks: dict[str, RankedPositives]) -> dict[int, UserSlots]:
    """Return candidates and listed items of the users with ranked pairs."""
    listed: dict[int, list[np.ndarray]] = {}
    for ranked in ranks.values():
        assert ranked.top is not None
        for user, items in zip(ranked.top.users.tolist(), ranked.top.item, strict=True):
            listed.setdefault(user, []).append(items[items >= 0])
    slots = {}
    for user, lists in listed.items():
        candidates = np.setdiff1d(np.arange(train.n_items), train.item[train.user == user])
        slots[user] = UserSlots(candidates=candidates, listed=np.unique(np.concatenate(lists)))
    return slots


def build_world(source: str, number: int, model: KuaiRandModel | None) -> DesignWorld:
    """Return one world of a source."""
    if source == "first":
        setting = correction_family.HELD_OUT
        rng = np.random.default_rng([SEED, number])
        kind = setting.kinds[number % len(setting.kinds)]
        logged = correction_family.logged(correction_family.exposure(kind, rng), setting, rng)
        relevant = logged.world.relevant
        is_left = ~np.isin(relevant.pair_key, logged.split.train.pair_key)
        return DesignWorld.from_models(logged.split, logged.models, relevant.select(is_left))
    if source == "second":
        world = feedback_worlds.world_of(number, SEED, feedback_worlds.HELD_OUT)
        return DesignWorld.from_models(world.split, world.models, world.left())
    assert model is not None
    return DesignWorld.from_models(*model.build(np.random.default_rng([SEED, number])))


def load_world(source: str, number: int, model: KuaiRandModel | None, folder: Path) -> DesignWorld:
    """Return one world from its file, which is written if it is not there."""
    file = folder / f"{source}-{number}.pickle"
    if not file.exists():
        write_whole(file, pickle.dumps(vars(build_world(source, number, model))))
    return DesignWorld(**pickle.loads(file.read_bytes()))


def write_whole(file: Path, content: bytes) -> None:
    """Write a file under another name and rename it, so that a run that is killed leaves no part of it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    part = file.with_suffix(".part")
    part.write_bytes(content)
    part.replace(file)


def score_world(world: DesignWorld, n_draws: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the scores of both designs in a world; AOA once, as it reads no exposure."""
    n_models = len(world.ranks)
    for size, design, draw in product(SIZES, DESIGNS, range(n_draws)):
        rng = np.random.default_rng([seed, size, draw])
        exposure = world.expose(design, size, rng)
        correction = correct_path(world.path, world.select_ranks(exposure), random_exposure=exposure)
        for row in score_correction(correction, world.truth, n_models):
            yield {"size": size, "design": design, "draw": draw, "n_positives": len(exposure)} | row


def score_correction(correction: Correction, truth: np.ndarray, n_models: int) -> Iterator[dict[str, Any]]:
    """Yield error, coverage, order and regret of each metric and estimator."""
    frame = correction.frame
    first, second = np.triu_indices(n_models, 1)
    for number, label in enumerate(METRICS):
        metric_truth = truth[number * n_models : (number + 1) * n_models]
        rows = frame[frame["metric"] == label]
        for estimator in (RANDOM_SAMPLE, CORRECTED):
            part = rows[rows["estimator"] == estimator]
            estimate = part["estimate"].to_numpy()
            error = estimate - metric_truth
            is_covered = (part["ci_low"] <= metric_truth) & (metric_truth <= part["ci_high"])
            yield {
                "metric": label,
                "estimator": estimator,
                "error": np.abs(error).mean(),
                "difference_error": np.abs(error[first] - error[second]).mean(),
                "covered": is_covered.mean(),
                "half_width": (part["ci_high"] - part["ci_low"]).mean() / 2,
                "tau": kendalltau(np.round(estimate, 12), np.round(metric_truth, 12)).statistic,
                "regret": metric_truth.max() - metric_truth[estimate.argmax()],
            }


def score_cached(
    task: tuple[str, int], cache: Path, name: str, n_draws: int, model: KuaiRandModel | None
) -> pd.DataFrame:
    """Return the scores of one world, from the folder if they are there."""
    warnings.simplefilter("ignore")
    source, number = task
    file = cache / name / f"{source}-{number}-{n_draws}.csv"
    if not file.exists():
        world = load_world(source, number, model, cache / "prepared")
        rows = pd.DataFrame(score_world(world, n_draws, number))
        text = rows.assign(source=source, number=number).to_csv(index=False)
        write_whole(file, text.encode())
    return pd.read_csv(file)


def summarise(rows: pd.DataFrame) -> pd.DataFrame:
    """Return means over worlds and draws by source, metric, size, estimator and design."""
    keys = ["source", "metric", "size", "estimator", "design"]
    columns = ["error", "difference_error", "half_width", "tau", "regret", "n_positives"]
    return rows.groupby(keys, sort=False)[columns].mean()


def compute_gain(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the reduction of the error of differences by the design, with its standard error over worlds.

    The reduction is 1 − mean error with designed slots / mean error with uniform slots; its standard error is
    by the delta method over worlds.
    """
    keys = ["source", "metric", "size", "estimator"]
    by_world = rows.groupby([*keys, "number", "design"], sort=False)["difference_error"].mean().unstack()
    lines = []
    for key, part in by_world.groupby(level=keys, sort=False):
        ratio = part["lists"].mean() / part["uniform"].mean()
        influence = (part["lists"] - ratio * part["uniform"]) / part["uniform"].mean()
        lines.append((*key, 1 - ratio, influence.sem(), len(part)))
    return pd.DataFrame(lines, columns=[*keys, "gain", "std_error", "n_worlds"])


def measure_coverage(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the mean coverage of each cell, with its standard error over worlds."""
    keys = ["source", "metric", "size", "estimator", "design"]
    by_world = rows.groupby([*keys, "number"], sort=False)["covered"].mean()
    return by_world.groupby(level=keys, sort=False).agg(["mean", "sem"])


def format_coverage(coverage: pd.Series) -> str:
    """Return a coverage in per cent with its standard error, such as 95.2 ± 0.8."""
    return f"{100 * coverage['mean']:.1f} ± {100 * coverage['sem']:.1f}"


def format_table(rows: pd.DataFrame, label: str) -> str:
    """Return the table of one metric."""
    means = summarise(rows)
    coverages = measure_coverage(rows)
    gains = compute_gain(rows).set_index(["source", "metric", "size", "estimator"])
    lines = []
    for source, size, estimator in product(rows["source"].unique(), SIZES, (RANDOM_SAMPLE, CORRECTED)):
        key = (source, label, size, estimator)
        uniform = means.loc[(*key, "uniform")]
        lists = means.loc[(*key, "lists")]
        gain = gains.loc[key]
        lines.append(
            (
                TITLES[source],
                str(size),
                estimator,
                f"{uniform['difference_error']:.4f}",
                f"{lists['difference_error']:.4f}",
                f"{100 * gain['gain']:.0f} ± {100 * gain['std_error']:.0f}",
                f"{uniform['tau']:.2f}",
                f"{lists['tau']:.2f}",
                format_coverage(coverages.loc[(*key, "uniform")]),
                format_coverage(coverages.loc[(*key, "lists")]),
            )
        )
    header = (
        "source|users|estimator|error, uniform|error, lists|reduction, %|τ, uniform|τ, lists|"
        "coverage, uniform, %|coverage, lists, %"
    )
    return markdown(header.split("|"), lines)


def make_tables(rows: pd.DataFrame) -> dict[str, str]:
    """Return the table of every metric."""
    n_worlds = rows.groupby("source", sort=False)["number"].nunique()
    counts = ", ".join(f"{TITLES[source]}: {count} worlds" for source, count in n_worlds.items())
    tables = {}
    for label in METRICS:
        head = f"{label}. {counts}; {rows['draw'].nunique()} draws each.\n\n"
        tables[f"designed-{label.partition('@')[0]}"] = head + format_table(rows, label)
    return tables


def main(arguments: list[str] | None = None) -> None:
    """Print the tables, and write them to the page on request."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps the scores")
    parser.add_argument("--name", default="scores", help="folder of the scores there; one for each state")
    parser.add_argument("--data", type=Path, help="folder with kuairand/")
    parser.add_argument("--sources", nargs="+", choices=SOURCES, default=list(SOURCES))
    parser.add_argument("--worlds", type=int, default=27, help="of each source")
    parser.add_argument("--draws", type=int, default=16)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    options = parser.parse_args(arguments)
    model = None
    if "kuairand" in options.sources:
        if options.data is None:
            raise SystemExit("--data is needed for kuairand")
        model = fit_kuairand(options.data / "kuairand", options.cache)
    tasks = list(product(options.sources, range(options.worlds)))
    score = partial(score_cached, cache=options.cache, name=options.name, n_draws=options.draws, model=model)
    if options.processes > 1:
        with ProcessPoolExecutor(options.processes) as pool:
            parts = list(pool.map(score, tasks))
    else:
        parts = [score(task) for task in tasks]
    tables = make_tables(pd.concat(parts, ignore_index=True))
    if options.write:
        write_tables(tables, PAGE)
    print("\n\n".join(tables.values()))


if __name__ == "__main__":
    main()
