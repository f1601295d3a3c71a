"""Make the tables of docs/validation.md.

    python -m reproductions.validation --data PATH --write docs/validation.md

needs implicit and cornac (pip install -e ".[recommenders]") and the data sets described in data/README.md.
Each table goes between `<!-- name -->` and `<!-- /name -->`; without --write everything is printed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval.data import ImpressionLog
from ipseval.data.splits import Split, split_random
from ipseval.errors import DataWarning, PositivityWarning
from ipseval.evaluation import evaluate_ranks
from ipseval.propensity import DensityRatioPropensity, KnownPropensity, PowerLawPropensity, Propensity
from ipseval.ranking import baselines, rank_positives
from ipseval.validation import Validation, default_propensities, validate
from ipseval.validation._accumulator import RANDOM_SAMPLE
from ipseval.validation.datasets import CARDS, BanditStudy, load_coat, load_open_bandit
from ipseval.validation.simulation import World
from ipseval.validation.validation_study import METRICS
from reproductions.bandit import validate_bandit
from reproductions.recommenders import TRAINERS
from reproductions.tables import deliver, markdown

MODELS = {
    "popularity": baselines.popularity,
    "item-kNN": baselines.item_knn,
    "EASE": partial(baselines.ease, regularization=50.0),
    "PureSVD": partial(baselines.pure_svd, n_factors=10),
    **TRAINERS,
}
FACTORS = ("PureSVD", *TRAINERS)


def percent(value: float, low: float, high: float) -> str:
    return f"{100 * value:.0f} ({100 * low:.0f} to {100 * high:.0f})"


def rows_of(result: Validation, estimator: str) -> pd.DataFrame:
    """The rows of an estimator, and of the random sample averaged as the estimator averages."""
    plain = "aoa-pooled" if estimator == "snips-pooled" else "aoa"
    table = result.summary
    alone = (table["propensity"] == RANDOM_SAMPLE) & (table["estimator"] == plain)
    return table[(table["estimator"] == estimator) | alone]


def reductions(result: Validation, estimator: str) -> str:
    part = rows_of(result, estimator)
    rows = []
    for name in dict.fromkeys(part["propensity"]):
        mine = part[part["propensity"] == name].set_index("metric")
        cells = [
            percent(*mine.loc[m, ["reduction", "reduction_low", "reduction_high"]])
            + ("" if mine.loc[m, "falls_short"] else " ·")
            for m in METRICS
        ]
        rows.append([name, *cells])
    best = part[part["propensity"] == "gamma = 1"].set_index("metric")["if_unbiased"]
    rows.append(["*an unbiased estimator of that variance*", *(f"*{100 * best[m]:.0f}*" for m in METRICS)])
    return markdown(["reduction of MAE against AOA, %", *METRICS], rows)


def orders(result: Validation, estimator: str) -> str:
    part = rows_of(result, estimator)
    rows = []
    plain = part[part["propensity"] == "gamma = -1"].set_index("metric")
    rows.append(["aoa: tau_b", *(f"{plain.loc[m, 'tau_b_aoa']:.2f}" for m in METRICS)])
    for name in dict.fromkeys(part["propensity"]):
        mine = part[part["propensity"] == name].set_index("metric")
        cells = []
        for m in METRICS:
            change, low, high = mine.loc[m, ["tau_change", "tau_change_low", "tau_change_high"]]
            mark = " ▼" if high < 0 else " ▲" if low > 0 else ""
            cells.append(f"{change:+.2f} ({low:+.2f} to {high:+.2f}){mark}")
        rows.append([name, *cells])
    return markdown(["change of tau_b against AOA", *METRICS], rows)


def coat(folder: Path) -> Iterator[tuple[str, str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        study = load_coat(folder / "coat")
        result = validate(
            MODELS,
            study,
            propensities=default_propensities(study),
            metrics=METRICS,
            estimators=["snips-global"],
            n_splits=10,
            rng=0,
        )
    yield "coat-snips-global", reductions(result, "snips-global")
    yield "coat-order-snips-global", orders(result, "snips-global")
    yield "coat-fractions", fractions(folder)


def fractions(folder: Path) -> str:
    """How the reduction of per-user snips depends on the number of held-out positives per user."""
    study = load_coat(folder / "coat")
    rules = {"gamma = 1": PowerLawPropensity(gamma=1, unseen="smooth")}
    models = {name: MODELS[name] for name in FACTORS}
    rows = []
    for share in (0.1, 0.2, 0.35, 0.5):
        result = validate(
            models, study, propensities=rules, metrics=["atop", "recall@5", "mean_dcg"], n_splits=5,
            estimators=("snips", "snips-global"), test_fraction=share, n_resamples=100, rng=0,
        )  # fmt: skip
        counts = split_random(study.positives().biased, test_fraction=share, rng=0).test.activity
        counts = counts[counts > 0]
        summary = result.summary.set_index(["estimator", "metric"])["reduction"]
        rows.append(
            [
                f"{share:.0%}", f"{counts.mean():.1f}", f"{(counts == 1).mean():.0%}",
                *(
                    " / ".join(f"{100 * summary[e, m]:.0f}" for m in ("atop", "recall@5", "mean_dcg"))
                    for e in ("snips", "snips-global")
                ),
            ]
        )  # fmt: skip
    header = ["held out", "positives per user", "users with one", "snips", "snips-global"]
    return markdown(header, rows)


def recovery(selection: float, n_logs: int = 20) -> tuple[pd.DataFrame, dict[str, float]]:
    """Mean over test logs of the share of AOA's |bias| (summed over models) that is gone, by metric."""
    world = World(n_users=5000, n_items=1000, mean_relevant=40, selection=selection, rng=1)
    split = world.split(100)
    models = world.example_models(split, rng=0)
    truth = world.truth(models, METRICS, split).set_index(["model", "metric"])
    rest = world.relevant.select(~np.isin(world.relevant.pair_key, split.train.pair_key))
    ranks = {name: rank_positives(model, Split(split.train, rest)) for name, model in models.items()}
    first = next(iter(ranks.values()))
    chance = world.propensity.for_pairs(first.user, first.item)
    rules = {
        "known": world.propensity,
        "known, item part": Propensity(world.item_propensity, True, "item part", 1000),
        "power law, true gamma": PowerLawPropensity(gamma=world.gamma, unseen="smooth", smoothing=0.5).fit(
            split.train
        ),
    }
    estimators = ("aoa", "aoa-pooled", "snips", "snips-global", "snips-pooled")
    rng, total, ess = np.random.default_rng(0), {}, {}
    for _ in range(n_logs):
        seen = rng.random(chance.size) < chance
        sub = {name: ranked.select(seen) for name, ranked in ranks.items()}
        for rule, propensity in rules.items():
            frame = evaluate_ranks(sub, propensity=propensity, metrics=METRICS, estimators=estimators).frame
            frame = frame.set_index(["estimator", "metric", "model"]).sort_index()
            total[rule] = total.get(rule, 0.0) + frame["estimate"] / n_logs
            share = frame.loc["snips-pooled", "ess"].iloc[0] / frame.loc["aoa", "ess"].iloc[0]
            ess[rule] = ess.get(rule, 0.0) + share / n_logs
    rows = {}
    for rule, mean in total.items():
        target = [
            truth.loc[(model, m), "ideal_pooled" if "pooled" in e else "ideal"] for e, m, model in mean.index
        ]
        bias = (mean - np.array(target)).abs().groupby(["estimator", "metric"]).sum().unstack()
        for e in ("snips", "snips-global", "snips-pooled"):
            rows[rule, e] = 1 - bias.loc[e] / bias.loc["aoa-pooled" if e == "snips-pooled" else "aoa"]
    return pd.DataFrame(rows).T[list(METRICS)], ess


def worlds() -> Iterator[tuple[str, str]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (DataWarning))
        warnings.simplefilter("ignore", PositivityWarning)
        for name, selection in (("world-right", 0.0), ("world-wrong", 2.0)):
            table, ess = recovery(selection)
            rows = [
                [f"{rule}, {estimator}", *(f"{100 * value:.1f}" for value in row), f"{100 * ess[rule]:.0f}%"]
                for (rule, estimator), row in zip(table.index, table.to_numpy(), strict=True)
                if selection or rule != "known, item part"
            ]
            yield name, markdown(["reduction of AOA's bias, %", *METRICS, "ESS"], rows)
        rows = []
        for selection in (0.0, 1.5, 2.5):
            rows += harness_rows(selection)
    yield (
        "world-harness",
        markdown(["selection", "propensity", "recall@10", "mean_dcg", "an unbiased one", "warned"], rows),
    )


def harness_rows(selection: float) -> list[list[str]]:
    world = World(
        n_users=2000, n_items=300, mean_relevant=60, affinity=3.0, max_propensity=0.9, gamma=-0.2,
        selection=selection, rng=5,
    )  # fmt: skip
    study = world.study(6, n_per_user=60)
    known = KnownPropensity(item=world.item_propensity).fit(study.biased)
    rules = {
        "known per item": known.held_out(test_fraction=0.3, popularity_source="log"),
        "known per pair": world.propensity.held_out(test_fraction=0.3, popularity_source="log"),
        **{
            f"gamma = {gamma:g}": PowerLawPropensity(gamma=gamma, unseen="smooth")
            for gamma in (-0.5, -0.2, 0, 0.5, 1)
        },
        "density ratio": DensityRatioPropensity(rng=0),
    }
    models = {name: MODELS[name] for name in ("popularity", "item-kNN", "PureSVD")}
    result = validate(
        models, study, propensities=rules, metrics=["recall@10", "mean_dcg"], estimators=["snips-global"],
        test_fraction=0.3, n_splits=5, rng=0,
    )  # fmt: skip
    warned = {note.split(":")[0] for note in result.notes}
    rows = []
    for name in rules:
        mine = result.summary.query("propensity == @name").set_index("metric")
        cells = [
            percent(*mine.loc[m, ["reduction", "reduction_low", "reduction_high"]])
            + ("" if mine.loc[m, "falls_short"] else " ·")
            for m in ("recall@10", "mean_dcg")
        ]
        best = f"{100 * mine['if_unbiased'].mean():.0f}"
        flagged = result.frame.query("propensity == @name")["flag"].iloc[0] or (
            "yes" if name in warned else "no"
        )
        rows.append([f"{selection:g}", name, *cells, best, flagged])
    return rows


def bandit(folder: Path) -> Iterator[tuple[str, str]]:
    rows, totals = [], []
    for campaign in ("men", "women"):
        frame = validate_bandit(load_open_bandit(folder / "open-bandit", campaign=campaign))
        for estimator in ("naive", "ips", "snips"):
            part = frame[frame["estimator"] == estimator]
            items, whole = part[part["item"] >= 0], part[part["item"] < 0].iloc[0]
            inside = items["random_rate"].between(items["ci_low"], items["ci_high"])
            rows.append(
                [
                    campaign, estimator, f"{inside.sum()} of {len(items)}",
                    f"{items['agrees'].sum()} of {len(items)}",
                    f"{1000 * (items['estimate'] - items['random_rate']).abs().mean():.1f}",
                    f"{1000 * (items['ci_high'] - items['ci_low']).median():.0f}",
                ]
            )  # fmt: skip
            totals.append(
                [
                    campaign, estimator,
                    f"{1000 * whole['estimate']:.1f} ({1000 * whole['ci_low']:.1f} to "
                    f"{1000 * whole['ci_high']:.1f})",
                    f"{1000 * whole['random_rate']:.1f} ({1000 * whole['random_low']:.1f} to "
                    f"{1000 * whole['random_high']:.1f})",
                    f"{whole['clicks_bts']}", f"{whole['clicks_random']}",
                    "yes" if whole["agrees"] else "no",
                ]
            )  # fmt: skip
    header = ["campaign", "estimator", "random rate in the interval", "difference holds 0"]
    yield "bandit-items", markdown([*header, "mean abs. difference, ‰", "median width, ‰"], rows)
    header = ["campaign", "estimator", "estimate, ‰", "random log, ‰", "bts clicks", "random clicks"]
    yield "bandit-policy", markdown([*header, "difference holds 0"], totals)
    yield "bandit-coverage", bandit_coverage()


def bandit_coverage(n_runs: int = 300, n_items: int = 8, n: int = 6000) -> str:
    """How often intervals hold the true click rate, and the difference to a random log holds 0."""
    rng = np.random.default_rng(0)
    lift, runs = np.array([0.4, 0.8, 1.2, 1.6]), []
    for _ in range(n_runs):
        rate = rng.gamma(2, 0.003, n_items)
        logs = []
        for policy in ("random", "bts"):
            context, table = rng.integers(4, size=n), np.full((4, n_items), 1 / n_items)
            if policy == "bts":
                table = 0.95 * rng.dirichlet(np.full(n_items, 0.7), 4) + 0.05 / n_items
            p = table[context]
            item = (p.cumsum(1) > rng.random(n)[:, None]).argmax(1)
            click = rng.random(n) < rate[item] * lift[context]
            every = np.arange(n)
            log = ImpressionLog(every, item, every, np.arange(n_items), click, propensity=p[every, item])
            logs.append(log)
        frame = validate_bandit(BanditStudy("simulated", *logs, CARDS["open-bandit"]))
        truth = np.append(rate, rate.mean())[frame["item"].to_numpy()]  # item −1: the uniform policy
        frame["held"] = (frame["ci_low"] <= truth) & (truth <= frame["ci_high"])
        runs.append(frame)
    every = pd.concat(runs)
    rows = []
    for name in ("naive", "ips", "snips"):
        part = every[every["estimator"] == name]
        items, whole = part[part["item"] >= 0], part[part["item"] < 0]
        rows.append(
            [name, *(f"{100 * x.mean():.0f}%" for x in (items["held"], items["agrees"], whole["held"]))]
        )
    return markdown(
        ["estimator", "items: truth held", "items: difference holds 0", "policy: truth held"], rows
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with coat/ and open-bandit/")
    parser.add_argument("--write", type=Path, help="page whose tables are replaced")
    parser.add_argument("--only", choices=("coat", "worlds", "bandit"))
    options = parser.parse_args()
    parts = {
        "coat": lambda: coat(options.data),
        "worlds": worlds,
        "bandit": lambda: bandit(options.data),
    }
    for part, make in parts.items():
        if options.only not in (None, part):
            continue
        for name, table in make():
            deliver({name: table}, options.write)


if __name__ == "__main__":
    main()
