"""Winners and choices of `correct` on simulated logs that no constant saw: how often wrong, and what they cost.

    python -m reproductions.winners --cache FOLDER [--worlds 36] [--draws 4] [--write]

Logs are of both simulators with seeds of their own, logs with arrivals and a split by time among them, and of
a kind ("cascade") that was written after the constants of the rules were fixed. A name is wrong if another
recommender is truly better. Errors are clustered: standard errors are over logs. What is slow is kept in the
folder.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval import Split
from ipseval.correction import CORRECTED, Correction, correct_path
from ipseval.correction._order import (
    WINNER_PROBABILITY,
    MetricOrder,
    choose_recommender,
    find_leader,
    find_tied_first,
    least_probability_better,
)
from reproductions import correction_family, feedback_worlds
from reproductions.correction_truth import DIGITS, Case, of_world
from reproductions.feedback_worlds import POSITIVE, FeedbackWorld, Sizes, Tastes
from reproductions.tables import ROOT, deliver, markdown

PAGE = ROOT / "docs" / "correction-accuracy.md"
SEED = 83  # of no other command
SIZES = (25, 100, 400)
SOURCES = ("first", "second", "cascade")
# What the page calls the simulators.
SIMULATORS = {"first": "simulator 1", "second": "simulator 2", "cascade": "simulator 3"}
RULES = ("AOA's first", "random sample's first", "posterior mean", "P ≥ 0.8", "choice")
MANY_NAMES = 100  # kinds of exposure with as many names are judged singly
ZERO = 1e-12


def case_of(source: str, number: int) -> Case:
    """Return one simulated log of a source."""
    if source == "first":
        return of_world(correction_family.world_of(number, SEED, correction_family.HELD_OUT))
    if source == "second":
        world = feedback_worlds.world_of(number, SEED, feedback_worlds.HELD_OUT)
    else:
        world = build_cascade(feedback_worlds.HELD_OUT, np.random.default_rng([SEED, number, 2]))
    return of_world(world.simulated(np.random.default_rng(number)))


def build_cascade(sizes: Sizes, rng: np.random.Generator) -> FeedbackWorld:
    """Return a log in which items travel along friends: users see what members of their community like.

    Users belong to communities that share a part of their taste. In each of ten steps users see items in
    proportion to how many members of their community have liked them so far, and a few others. The last two
    steps are held out.
    """
    n_users, n_items = int(rng.choice(sizes.n_users)), int(rng.choice(sizes.n_items))
    tastes = Tastes.draw(n_users, n_items, float(rng.choice(sizes.positive_share)), rng)
    n_communities = int(rng.integers(4, 20))
    preferred = tastes.affinity.argmax(axis=1) % n_communities
    community = np.where(rng.random(n_users) < 0.6, preferred, rng.integers(n_communities, size=n_users))
    positive = tastes.rating >= POSITIVE
    level = float(rng.uniform(0.1, 0.3))
    contagion = float(rng.uniform(0.6, 1.4))
    busy = feedback_worlds.activity(n_users, rng)
    met = rng.random((n_users, n_items)) < 0.005
    early = met.copy()
    for step in range(10):
        liked = np.zeros((n_communities, n_items))
        np.add.at(liked, community, (met & positive).astype(float))
        pull = (0.3 + liked[community]) ** contagion
        pull /= pull.mean(axis=1, keepdims=True)
        new = (rng.random(met.shape) < np.minimum(level / 10 * busy * pull, 0.9)) & ~met
        met |= new
        if step < 8:
            early |= new
    split = Split(
        feedback_worlds.log_of(met & early & positive), feedback_worlds.log_of(met & ~early & positive)
    )
    models = feedback_worlds.recommenders(tastes, split, sizes, rng)
    return FeedbackWorld("cascade", split, models, feedback_worlds.log_of(met), positive)


def judge(case: Case, number: int, n_draws: int) -> Iterator[dict[str, Any]]:
    """Yield names and regrets of every rule, for each size, draw and metric of one log."""
    for size in SIZES:
        for draw in range(n_draws):
            shown, truth, _ = case.draw(size, np.random.default_rng([SEED, number, size, draw]))
            correction = correct_path(case.paths[CORRECTED], shown)
            for position, order in enumerate(correction._metric_orders):
                n_models = len(order.models)
                values = truth[position * n_models : (position + 1) * n_models]
                true_value = dict(zip(correction.models, np.round(values, DIGITS), strict=True))
                order = replace(order, n_exposed=size)
                yield {
                    "kind": case.kind, "size": size, "draw": draw, "metric": order.metric,
                    **names(order, true_value), **regrets(correction, order, position, true_value),
                }  # fmt: skip


def names(order: MetricOrder, true_value: dict[str, float]) -> dict[str, float]:
    """Return whether P ≥ 0.95 alone and the rule name a recommender, and whether each name is wrong."""
    best = max(true_value.values())
    by_probability = None
    if order.is_explained and not find_tied_first(order):
        for model in order.models:
            if least_probability_better(order, model) >= WINNER_PROBABILITY:
                by_probability = model
    by_rule = find_leader(order)
    row: dict[str, float] = {}
    for rule, name in (("P", by_probability), ("rule", by_rule)):
        row[f"{rule} named"] = float(name is not None)
        row[f"{rule} wrong"] = float(name is not None and true_value[name] < best - ZERO)
    return row


def regrets(
    correction: Correction, order: MetricOrder, position: int, true_value: dict[str, float]
) -> dict[str, float]:
    """Return the true regret of the recommender that each rule chooses."""
    sample = correction.sample
    n_models = len(order.models)
    chosen = {
        "AOA's first": order.models[0],
        "posterior mean": order.models[int(np.argmax(order.corrected))],
        "P ≥ 0.8": choose_recommender(replace(order, n_exposed=0)),
        "choice": choose_recommender(order),
        "random sample's first": order.models[0],
    }
    if sample is not None:
        values = sample.value[position * n_models : (position + 1) * n_models]
        chosen["random sample's first"] = correction.models[int(np.argmax(values))]
    best = max(true_value.values())
    return {rule: best - true_value[name] for rule, name in chosen.items()}


def cached(folder: Path, source: str, number: int, n_draws: int) -> pd.DataFrame:
    """Return the rows of one log; what the folder holds is not made again."""
    file = folder / f"{source}-{number}-{n_draws}.csv"
    if not file.exists():
        rows = pd.DataFrame(judge(case_of(source, number), number, n_draws))
        file.parent.mkdir(parents=True, exist_ok=True)
        rows.assign(source=source, number=number).to_csv(file, index=False)
    return pd.read_csv(file)


def share_wrong(part: pd.DataFrame, rule: str) -> tuple[int, int, float, float]:
    """Return wrong names, names, their ratio, and its standard error clustered by log."""
    by_log = part.groupby(["source", "number"])[[f"{rule} wrong", f"{rule} named"]].sum()
    wrong, named = by_log[f"{rule} wrong"], by_log[f"{rule} named"]
    total = named.sum()
    if not total:
        return 0, 0, float("nan"), float("nan")
    ratio = wrong.sum() / total
    residual = wrong - ratio * named
    error = float(np.sqrt((residual**2).sum() * len(by_log) / max(len(by_log) - 1, 1))) / total
    return int(wrong.sum()), int(total), float(ratio), error


def compute_upper_limit(wrong: int, total: int, ratio: float, error: float) -> float:
    """Return the upper end of a 90% interval: normal, or exact for independent names where no name is wrong."""
    if wrong == 0:
        return float(1 - 0.05 ** (1 / total))
    return ratio + 1.645 * error


def name_table(rows: pd.DataFrame) -> str:
    """Return how often names are wrong: by the rule and by P alone, with upper ends of 90% intervals."""
    parts: dict[str, pd.DataFrame] = {"all": rows}
    for size in SIZES:
        parts[f"{size} users"] = rows[rows["size"] == size]
    for metric in rows["metric"].unique():
        parts[str(metric)] = rows[rows["metric"] == metric]
    for source in SOURCES:
        parts[SIMULATORS[source]] = rows[rows["source"] == source]
    for kind, part in rows.groupby("kind"):
        if part["rule named"].sum() >= MANY_NAMES:
            parts[f"kind: {kind}"] = part
    lines = []
    for name, part in parts.items():
        cells = [name, f"{part.groupby(['source', 'number']).ngroups}"]
        totals = []
        for rule in ("rule", "P"):
            wrong, total, ratio, error = share_wrong(part, rule)
            totals.append(total)
            if total:
                upper = compute_upper_limit(wrong, total, ratio, error)
                cells.append(f"{wrong} of {total}: {100 * ratio:.1f}% (≤ {100 * upper:.1f}%)")
            else:
                cells.append("–")
        cells.append(f"{100 * totals[0] / totals[1]:.0f}%" if totals[1] else "–")
        lines.append(cells)
    header = (
        "",
        "logs",
        "wrong winners of `correct`",
        "wrong by condition 3 alone",
        "winners kept by condition 4",
    )
    return markdown(header, lines)


def regret_table(rows: pd.DataFrame) -> str:
    """Return the mean regret of each rule, and the choice's less the lower of two simple rules, paired."""
    lines = []
    for (source, size, metric), part in rows.groupby(["source", "size", "metric"], sort=False):
        by_log = part.groupby("number")[list(RULES)].mean()
        mean = 1000 * by_log.mean()
        simple = "AOA's first"
        if mean["random sample's first"] < mean[simple]:
            simple = "random sample's first"
        excess = 1000 * (by_log["choice"] - by_log[simple])
        allowed = max(2.0, 2 * excess.sem())
        verdict = "yes" if excess.mean() <= allowed else "no"
        lines.append([
            SIMULATORS[str(source)], f"{size}", str(metric), *(f"{mean[rule]:.1f}" for rule in RULES),
            f"{excess.mean():+.1f} ± {excess.sem():.1f}", verdict,
        ])  # fmt: skip
    header = ("simulator", "users", "metric", *RULES, "choice less the lower of the first two", "within goal")
    return markdown(header, lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps what was made")
    parser.add_argument("--worlds", type=int, default=36, help="logs of each simulator; a third of cascades")
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    frames = []
    for source in SOURCES:
        n_worlds = options.worlds if source != "cascade" else -(-options.worlds // 3)
        for number in range(n_worlds):
            frames.append(cached(options.cache, source, number, options.draws))
    rows = pd.concat(frames, ignore_index=True)
    deliver({"winners": name_table(rows), "choices": regret_table(rows)}, PAGE if options.write else None)


if __name__ == "__main__":
    main()
