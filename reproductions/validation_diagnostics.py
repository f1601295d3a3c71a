"""Make the tables of docs/validation.md on what random exposure says of the weights.

    python -m reproductions.validation_diagnostics --data PATH --write docs/validation.md

needs what reproductions/validation.py needs; without --write everything is printed.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data.splits import Split, split_random
from ipseval.errors import DataWarning
from ipseval.propensity import DensityRatioPropensity, KnownPropensity, PowerLawPropensity
from ipseval.ranking import baselines, rank_positives
from ipseval.validation import default_models, default_propensities
from ipseval.validation.datasets import load_coat
from ipseval.validation.simulation import World
from ipseval.validation.validation_study import METRICS
from reproductions.conditional_score import conditional_score
from reproductions.joint_test import family_test
from reproductions.tables import deliver, markdown
from reproductions.weight_checks import Checks, check_weights, normalised_rank

CLOSED = {
    "popularity": baselines.popularity,
    "item-kNN": baselines.item_knn,
    "PureSVD": partial(baselines.pure_svd, n_factors=10),
}
KINDS = {
    "by item": {},
    "by item, low P": {"max_propensity": 0.3, "gamma": 0.0},
    "by item, users differ in activity": {"activity": 1.0},
    "by user and item": {"selection": 1.5},
}


def p_text(value: float) -> str:
    if np.isnan(value):
        return "not known"
    if value < 0.001:
        return "< 0.001"
    return f"{value:.3f}"


def in_a_world(
    seed: int, *, selection: float = 0.0, activity: float = 0.0, n_users: int = 5000, ratio: bool = False,
    max_propensity: float = 0.9, gamma: float = -0.2,
) -> Checks:  # fmt: skip
    """Check the true weights and wrong ones in a world; `activity`: sd of the users' log odds to log."""
    world = World(
        n_users=n_users, n_items=300, mean_relevant=60, affinity=3.0, max_propensity=max_propensity,
        gamma=gamma, selection=selection, rng=1000 + seed,
    )  # fmt: skip
    study = world.study(seed, n_per_user=30)
    if activity:
        rng = np.random.default_rng(seed)
        keeps = 1 / (1 + np.exp(-activity * rng.normal(size=n_users)))
        kept = study.biased.select(rng.random(len(study.biased)) < keeps[study.biased.user])
        study = type(study)("world", kept, study.random, threshold=study.threshold)
    item = KnownPropensity(item=world.item_propensity).fit(study.biased)
    rules: dict[str, Any] = {"known per item": item.held_out(test_fraction=0.3, popularity_source="log")}
    if selection:
        rules["known per pair"] = world.propensity.held_out(test_fraction=0.3, popularity_source="log")
    rules |= {f"gamma = {g:g}": PowerLawPropensity(gamma=g, unseen="smooth") for g in (-0.5, 1.0)}
    if ratio:
        rules["density ratio"] = DensityRatioPropensity(rng=0)
    return check_weights(
        CLOSED, study, propensities=rules, metrics=["recall@10", "mean_dcg"],
        estimators=["snips-global", "snips-pooled"], test_fraction=0.3, rng=seed,
    )  # fmt: skip


def rows_of(result: Checks) -> list[list[str]]:
    frame = result.diagnostics
    return [
        [
            row["propensity"],
            f"{row['popularity_smd']:+.2f} ({row['popularity_low']:+.2f} to {row['popularity_high']:+.2f})",
            "–" if np.isnan(row["selection_odds"]) else f"{row['selection_odds']:.2f}",
            p_text(row["selection_p"]),
            f"{row['factor_beyond_noise']:.2f}",
            row["verdict"],
        ]
        for row in frame[frame["estimator"] == "snips-global"].to_dict("records")
    ]


HEADER = ["popularity", "odds per SD", "p", "Λ", "verdict"]


def world() -> Iterator[tuple[str, str]]:
    rows = []
    for kind, selection in (("by item", 0.0), ("by user and item", 1.5)):
        rows += [[kind, *row] for row in rows_of(in_a_world(0, selection=selection, ratio=True))]
    yield "diagnostics-world", markdown(["exposure", "propensity", *HEADER], rows)


def rates(n_worlds: int = 40) -> Iterator[tuple[str, str]]:
    """How often each check flags, at 5,000 users."""
    rows = []
    for kind, options in KINDS.items():
        results = [in_a_world(seed, **options) for seed in range(n_worlds)]
        every = pd.concat([one.diagnostics for one in results])
        every = every[every["estimator"] == "snips-global"]
        every["any"] = every["popularity_flag"] | every["selection_flag"]
        every["beyond"] = every["factor_beyond_noise"] > 1
        for name, part in every.groupby("propensity", sort=False):
            columns = ("popularity_flag", "selection_flag", "any", "beyond")
            rows.append([f"{kind}: {name}", *(f"{100 * part[c].mean():.0f}%" for c in columns)])
    header = ["exposure: propensity", "popularity", "user × item selection", "either", "Λ > 1"]
    yield "diagnostics-rates", markdown(header, rows)


def coat(folder: Path) -> Iterator[tuple[str, str]]:
    from reproductions.validation import MODELS

    study = load_coat(folder / "coat")
    result = check_weights(
        MODELS, study, propensities=default_propensities(study), metrics=METRICS,
        estimators=["snips", "snips-global", "snips-pooled"], n_splits=10, rng=0,
    )  # fmt: skip
    yield "diagnostics-coat", markdown(["propensity", *HEADER], rows_of(result))
    balance = result.balance[result.balance["check"] == "selection"]
    rows = []
    for feature in dict.fromkeys(balance["feature"]):
        cells = []
        for name in ("any weight per item", "published", "density ratio"):
            row = balance[(balance["propensity"] == name) & (balance["feature"] == feature)].iloc[0]
            values = np.exp(row[["value", "ci_low", "ci_high"]].to_numpy(dtype=float))
            cells.append("–" if np.isnan(values[0]) else "{:.2f} ({:.2f} to {:.2f})".format(*values))
        rows.append([feature, *cells])
    yield (
        "diagnostics-coat-models",
        markdown(["odds per SD", "any weight per item", "published", "density ratio"], rows),
    )
    yield "diagnostics-placebo", placebo(folder)


def placebo(folder: Path, n_draws: int = 300) -> str:
    """Share of placebos flagged: random-exposure positives, thinned by item at random, stand for a log."""
    study = load_coat(folder / "coat")
    positives = study.positives()
    split = split_random(positives.biased, rng=0)
    random = positives.random.select(~np.isin(positives.random.pair_key, split.train.pair_key))
    both = Split(split.train, random)
    ranks = {name: rank_positives(train(split.train), both) for name, train in default_models().items()}
    f = np.column_stack([normalised_rank(one) for one in ranks.values()])
    one = next(iter(ranks.values()))
    rng, flagged = np.random.default_rng(0), []
    for _ in range(n_draws):
        chance = 0.15 + 0.5 * rng.random(random.n_items)
        first = rng.random(len(one)) < chance[one.item]
        found = conditional_score(one.user, one.item, first, f, n_users=random.n_users)
        test = family_test(found.value, found.influence.T @ found.influence, confidence_level=0.95)
        flagged.append(float(np.nanmin(test.p_value)) < 0.05)
    return f"It failed in {100 * np.mean(flagged):.1f}% of {n_draws} such logs."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with coat/")
    parser.add_argument("--write", type=Path, help="page whose tables are replaced")
    parser.add_argument("--only", choices=("coat", "world", "rates"))
    options = parser.parse_args()
    warnings.simplefilter("ignore", DataWarning)
    for part, make in {"coat": lambda: coat(options.data), "world": world, "rates": rates}.items():
        if options.only not in (None, part):
            continue
        for name, table in make():
            deliver({name: table}, options.write)


if __name__ == "__main__":
    main()
