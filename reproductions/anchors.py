"""What is known from outside the log: one true value, exploration slots, and plans, in two simulators.

    python -m reproductions.anchors [--worlds 42] [--jobs 2] [--write]

The worlds are those of `correction_family` and `feedback_worlds`, with seeds and settings of their own.
An anchor is the true value of one trained recommender with a normal error of 8% of it. Exploration slots
are 2 or 5% of 100 rows of the average user, in proportion to what a user has in the log.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ipseval import Split, metric, rank_positives
from ipseval.correction import (
    CORRECTED,
    RANDOM_SAMPLE,
    CorrectionPath,
    correct_path,
    correction_path,
    plan_exposure,
)
from ipseval.data import ImpressionLog, Interactions, RandomExposure
from ipseval.estimators.labels import AOA_POOLED
from ipseval.ranking import RankedPositives
from reproductions import correction_family, feedback_worlds
from reproductions.tables import ROOT, markdown, write_tables

PAGE = ROOT / "docs" / "correction-accuracy.md"
SEED = 39
METRICS = ("atop", "recall@10", "mean_dcg@10")
ANCHORED, ERROR = "recall@10", 0.08
TRAINED = ("item-kNN", "EASE", "SVD")
WRONG = (1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0)
RATES, ROWS = (0.02, 0.05), 100
N_DRAWS = 3
N_PROGRAMMES, N_SHOWN = 9, 20
BATCHES = (25, 50, 100, 200, 400, 800)
LOSSES = (0.005, 0.01, 0.02)


@dataclass(frozen=True, eq=False)
class Case:
    """A simulated log whose truth is known."""

    source: str
    number: int
    kind: str
    split: Split
    liked: np.ndarray  # (n_users, n_items) bool
    ranks: dict[str, RankedPositives]  # of every relevant pair outside training
    path: CorrectionPath
    truth: pd.Series  # by model and metric

    @classmethod
    def build(cls, source: str, number: int) -> Case:
        """Return a world of a simulator."""
        if source == "first":
            setting, rng = correction_family.HELD_OUT, np.random.default_rng([SEED, number])
            kind = setting.kinds[number % len(setting.kinds)]
            made = correction_family.logged(correction_family.exposure(kind, rng), setting, rng)
            split, models = made.split, made.models
            liked = np.zeros((split.n_users, split.n_items), dtype=bool)
            liked[made.world.relevant.user, made.world.relevant.item] = True
        else:
            world = feedback_worlds.world_of(number, SEED, feedback_worlds.HELD_OUT)
            kind, split, models, liked = world.kind, world.split, world.models, world.liked
        left = liked.copy()
        left[split.train.user, split.train.item] = False
        pairs = Interactions(*np.nonzero(left), split.user_ids, split.item_ids)
        ranks = {name: rank_positives(one, Split(split.train, pairs)) for name, one in models.items()}
        held_out = np.isin(pairs.pair_key, split.test.pair_key)
        test = {name: one.select(held_out) for name, one in ranks.items()}
        path = correction_path(test, split, metrics=METRICS, rng=number)
        found = [metric(label).contributions(ranks[name]) for name, label in path.cells]
        means = [float(one.mean()) for one in found if one is not None]
        truth = pd.Series(means, pd.MultiIndex.from_tuples(path.cells, names=["model", "metric"]))
        return cls(source, number, kind, split, liked, ranks, path, truth)

    @property
    def trained(self) -> list[str]:
        """The recommenders that were trained on the log, as an incumbent is."""
        return [name for name in self.path.models if name.startswith(TRAINED)]

    def known(self, name: str, rng: np.random.Generator, factor: float = 1.0) -> dict[str, Any]:
        """Return an anchor of a recommender: its true value with an error, times a factor."""
        value = self.truth[name, ANCHORED] * (1 + ERROR * rng.standard_normal()) * factor
        value = float(np.clip(value, 1e-6, 1))
        return {name: {ANCHORED: (value, ERROR * value)}}

    def explored(self, rate: float, rng: np.random.Generator) -> RandomExposure:
        """Return what exploration slots of an ordinary log showed."""
        n_users, n_items = self.liked.shape
        logged = np.bincount(np.concatenate([self.split.train.user, self.split.test.user]), minlength=n_users)
        user = np.repeat(np.arange(n_users), rng.poisson(ROWS * (1 + logged) / np.mean(1 + logged)))
        random = rng.random(user.size) < rate
        shown = np.bincount(self.split.train.item, minlength=n_items) + 1.0
        item = np.where(
            random,
            rng.integers(n_items, size=user.size),
            rng.choice(n_items, user.size, p=shown / shown.sum()),
        )
        ids = self.split.user_ids, self.split.item_ids
        log = ImpressionLog(user, item, *ids, clicked=self.liked[user, item])
        return RandomExposure.from_log(log, self.split, where=random, rate=rate)

    def liked_at_random(self, exposure: RandomExposure) -> dict[str, RankedPositives]:
        """Return the ranks of what random exposure showed and users liked, outside training."""
        first = next(iter(self.ranks.values()))
        key = first.user * np.int64(self.split.n_items) + first.item
        chosen = np.isin(key, exposure.pair_key[exposure.positive])
        return {name: one.select(chosen) for name, one in self.ranks.items()}


def scores(case: Case, found: Any, leave: str = "") -> Iterator[dict[str, Any]]:
    """Yield error, coverage and half-width of each metric and estimator, without one recommender."""
    frame = found.frame[found.frame["model"] != leave]
    # The frame has no estimates from the log alone.
    posterior_mean = pd.Series(found.posterior.total_mean, case.truth.index)
    for (label, name), rows in frame.groupby(["metric", "estimator"], sort=False):
        cells = [(model, label) for model in rows["model"]]
        truth = case.truth.loc[cells].to_numpy()
        estimate = rows["estimate"].to_numpy()
        if name == CORRECTED:
            estimate = posterior_mean.loc[cells].to_numpy()
        inside = (rows["ci_low"].to_numpy() <= truth) & (truth <= rows["ci_high"].to_numpy())
        yield {
            "metric": label,
            "estimator": str(name),
            "error": np.abs(estimate - truth).mean(),
            "covered": inside.mean(),
            "half_width": (rows["ci_high"] - rows["ci_low"]).mean() / 2,
        } | _calls(found, case, label, str(name))


def _calls(found: Any, case: Case, label: Any, name: str) -> dict[str, float]:
    """Return how many pairs are called apart with probability .975, and how many of them wrongly."""
    if name != CORRECTED:
        return {"called": 0.0, "wrong": 0.0}
    pairs = found.compare()
    pairs = pairs[pairs["metric"] == label]
    names = pairs["model"], pairs["reference"]
    gap = [case.truth[a, label] - case.truth[b, label] for a, b in zip(*names, strict=True)]
    higher, gaps = pairs["probability_higher"].to_numpy(), np.array(gap)
    sure = (np.maximum(higher, 1 - higher) >= 0.975) & (gaps != 0)
    return {"called": float(sure.sum()), "wrong": float(((higher > 0.5) != (gaps > 0))[sure].sum())}


def of_anchors(case: Case, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Yield the scores of the other recommenders, without and with one known value."""
    without = correct_path(case.path)
    for name in case.trained:
        with_value = correct_path(case.path, reference_values=case.known(name, rng), source="randomised")
        for what, found in (("log", without), ("anchor", with_value)):
            yield from ({"what": what, "anchor": name} | row for row in scores(case, found, leave=name))


def of_checks(case: Case, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Yield whether two anchors are said to disagree: both right, and one of them wrong by a factor."""
    for one, other in combinations(case.trained, 2):
        for factor in (1.0, *WRONG):
            known = case.known(one, rng) | case.known(other, rng, factor)
            if factor > 1 and known[other][ANCHORED][0] >= 1:
                continue
            correction = correct_path(case.path, reference_values=known, source="randomised")
            table = correction.reference_values
            smallest = (table["detectable_error"] / table["expected"].clip(1e-9)).median()
            flagged = bool(table["disagrees"].any())
            yield {"what": "check", "factor": factor, "flagged": flagged, "smallest": smallest}


def of_exploration(case: Case, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Yield the scores with exploration slots, and with the log alone."""
    yield from ({"what": "log", "rate": 0.0} | row for row in scores(case, correct_path(case.path)))
    for rate in RATES:
        for _ in range(N_DRAWS):
            shown = case.explored(rate, rng).exclude(case.split.excluded_pairs)
            found = correct_path(case.path, case.liked_at_random(shown), random_exposure=shown)
            assert found.sample is not None
            common = {"what": "exploration", "rate": rate, "positives": found.sample.n_positives}
            yield from (common | row for row in scores(case, found))


def of_programmes(case: Case, rng: np.random.Generator) -> Iterator[dict[str, Any]]:
    """Yield programmes that buy exposed users until the choice loses at most a bound with probability .9.

    Each begins with a pilot, buys as many users as `plan_exposure` says, and plans again.
    """
    n_users, n_items = case.liked.shape
    own = [place for place, (_, label) in enumerate(case.path.cells) if label == ANCHORED]
    truth = case.truth.to_numpy()[own]
    for number in range(N_PROGRAMMES):
        bound, line = LOSSES[number % len(LOSSES)], rng.permutation(n_users)
        items = rng.random((n_users, n_items)).argsort(axis=1)[:, :N_SHOWN]
        n, bought, expected = 0, BATCHES[0], pd.Series(dtype=float)
        while bought > n:
            n = bought
            user, item = np.repeat(line[:n], N_SHOWN), items[line[:n]].ravel()
            shown = RandomExposure(user, item, case.liked[user, item], n_users, n_items)
            shown = shown.exclude(case.split.excluded_pairs)
            found = correct_path(case.path, case.liked_at_random(shown), random_exposure=shown)
            left = [size for size in BATCHES if size >= n]
            plan = plan_exposure(found, n_users=left, n_items=[N_SHOWN])
            expected = plan[plan["metric"] == ANCHORED].set_index("n_users")["regret_90"]
            enough = expected.index[expected <= bound]
            bought = int(enough[0]) if enough.size else BATCHES[-1]
        lost = truth.max() - truth[found.posterior.total_mean[own].argmax()]
        reached = bool(expected.iloc[0] <= bound)
        yield {"bound": bound, "users": n, "lost": lost, "kept": lost <= bound, "reached": reached}


PARTS = {
    "anchors": of_anchors,
    "checks": of_checks,
    "exploration": of_exploration,
    "programmes": of_programmes,
}


def judged(at: tuple[str, int]) -> pd.DataFrame:
    """Return all scores of one world."""
    warnings.simplefilter("ignore")
    case, rows = Case.build(*at), []
    for place, (part, make) in enumerate(PARTS.items()):
        rng = np.random.default_rng([SEED, at[1], place])
        rows += [{"part": part, "kind": case.kind} | row for row in make(case, rng)]
    return pd.DataFrame(rows).assign(source=at[0], number=at[1])


def anchors_table(rows: pd.DataFrame) -> str:
    """Return error removed, coverage and half-width by one anchor."""
    rows, lines = rows[rows["part"] == "anchors"], []
    family = rows["anchor"].str.rsplit(" ", n=1).str[0]
    rows = rows.assign(what=family.where(rows["what"] == "anchor", "nothing"))
    for (source, label), part in rows.groupby(["source", "metric"], sort=False):
        plain = part[part["estimator"] == AOA_POOLED].groupby("what")["error"].mean()
        for what, own in part[part["estimator"] == CORRECTED].groupby("what", sort=False):
            low = own.groupby("number")["covered"].mean().quantile(0.1)
            lines.append(
                (
                    *(source, label, str(what), f"{100 * (1 - own['error'].mean() / plain[str(what)]):.0f}"),
                    *(
                        f"{100 * own['covered'].mean():.1f}",
                        f"{100 * low:.0f}",
                        f"{own['half_width'].mean():.3f}",
                    ),
                    f"{own['wrong'].sum():.0f} of {own['called'].sum():,.0f}",
                )
            )
    header = (
        "simulator|metric|known|error reduction, %|coverage, %|10th percentile of simulations|half-width|"
        "sign errors"
    )
    return markdown(header.split("|"), lines)


def checks_table(rows: pd.DataFrame) -> str:
    """Return how often two anchors are said to disagree, by the factor of the wrong one."""
    rows = rows[rows["part"] == "checks"]
    shares = rows.groupby(["source", "factor"], sort=False)["flagged"].mean().unstack("factor")
    smallest = rows[rows["factor"] == 1].groupby("source", sort=False)["smallest"].median()
    lines = [
        (source, *(f"{100 * one:.0f}" for one in row), f"{100 * smallest[source]:.0f}")
        for source, row in shares.iterrows()
    ]
    header = ["simulator", *(f"× {one:g}" if one > 1 else "both right" for one in shares.columns)]
    return markdown([*header, "error it says it sees, %"], lines)


def exploration_table(rows: pd.DataFrame) -> str:
    """Return error and coverage with exploration slots, beside the log and the slots alone."""
    rows, lines = rows[rows["part"] == "exploration"], []
    log = rows[(rows["what"] == "log") & (rows["estimator"] == CORRECTED)].groupby(["source", "metric"])
    before = log["error"].mean()
    rows = rows[(rows["what"] == "exploration") & rows["estimator"].isin((CORRECTED, RANDOM_SAMPLE))]
    for (source, rate, label, name), own in rows.groupby(
        ["source", "rate", "metric", "estimator"], sort=False
    ):
        lines.append(
            (
                *(source, f"{rate:.0%}", f"{own['positives'].median():.0f}", label, name),
                *(f"{before[source, label]:.4f}", f"{own['error'].mean():.4f}"),
                *(f"{100 * own['covered'].mean():.1f}", f"{own['half_width'].mean():.3f}"),
            )
        )
    header = "simulator|slots|positives|metric|estimator|error of the log alone|error|coverage, %|half-width"
    return markdown(header.split("|"), lines)


def programmes_table(rows: pd.DataFrame) -> str:
    """Return how often the choice of a programme loses no more than its bound."""
    rows, lines = rows[rows["part"] == "programmes"], []
    for (source, bound), own in rows.groupby(["source", "bound"]):
        done = own[own["reached"].astype(bool)]
        lines.append(
            (
                *(source, f"{bound:g}", f"{len(own):,}", f"{100 * len(done) / len(own):.0f}"),
                *(
                    f"{done['users'].median():.0f}",
                    f"{100 * done['kept'].mean():.1f}",
                    f"{done['lost'].mean():.4f}",
                ),
            )
        )
    header = "simulator|bound|programmes|it is reached, %|users, median|choice within the bound, %|mean loss"
    return markdown(header.split("|"), lines)


TABLES: Mapping[str, Any] = {
    "reference-values": anchors_table,
    "reference-value-checks": checks_table,
    "exploration": exploration_table,
    "batches": programmes_table,
}


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=42, help="of each simulator")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    parser.add_argument("--keep", help="file for all scores, as CSV")
    options = parser.parse_args(arguments)
    at = [(source, number) for source in ("first", "second") for number in range(options.worlds)]
    with ProcessPoolExecutor(options.jobs) as pool:
        rows = pd.concat(pool.map(partial(judged), at), ignore_index=True)
    if options.keep:
        rows.to_csv(options.keep, index=False)
    made = {name: table(rows) for name, table in TABLES.items()}
    if options.write:
        write_tables(made, PAGE)
    print("\n\n".join(f"{name}\n{one}" for name, one in made.items()))


if __name__ == "__main__":
    main()
