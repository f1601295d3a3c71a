"""How often a correction names the wrong recommender, over simulated logs of two simulators.

    python -m reproductions.verdicts [--worlds 36] [--write]

A named recommender is wrong where it is truly lower than another one by more than the expected regret that
is printed. The other rule names the recommender that a paired test (Holm, p < 0.05) finds better than all
others, by SNIPS with γ = 0, or by AOA where the weights are unreliable. Tables are of all ten recommenders
of a simulated log, and of three to five of them, drawn four times.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

import ipseval
from ipseval import Evaluation
from reproductions import correction_family, feedback_worlds
from reproductions.feedback_worlds import FeedbackWorld
from reproductions.tables import ROOT, deliver, markdown

PAGE = ROOT / "docs" / "correction-accuracy.md"
SEED = 59
METRIC = "recall@10"
N_DRAWN, SIZES = 4, (3, 4, 5)
EXPOSED, SHOWN = 100, 20
KNOWN = ("the log alone", "all interactions", "100 users with 20 random items")
FAMILIES = ("first simulator", "feedback worlds")


def world_of(family: str, number: int) -> FeedbackWorld:
    """Return one world of a family, with its log, recommenders and truth."""
    if family == FAMILIES[1]:
        return feedback_worlds.world_of(number, SEED, feedback_worlds.HELD_OUT)
    return build_first(number, SEED)


def build_first(number: int, seed: int) -> FeedbackWorld:
    """Return one world of the first simulator, with its log, recommenders and truth."""
    setting = correction_family.HELD_OUT
    rng = np.random.default_rng([seed, number])
    kind = setting.kinds[number % len(setting.kinds)]
    one = correction_family.logged(correction_family.exposure(kind, rng), setting, rng)
    liked = np.zeros((one.world.n_users, one.world.n_items), dtype=bool)
    liked[one.world.relevant.user, one.world.relevant.item] = True
    met = np.zeros_like(liked)
    for part in (one.skipped, one.split.train, one.split.test):
        met[part.user, part.item] = True
    return FeedbackWorld(kind, one.split, one.models, feedback_worlds.log_of(met), liked)


@dataclass(frozen=True)
class Call:
    """A recommender that is named, and whether that is wrong; "" where nobody is."""

    name: str
    wrong: bool

    @classmethod
    def from_name(cls, name: str | None, truth: dict[str, float], loss: dict[str, float]) -> Call:
        """Return the call of a name by what is true, and by the loss that is expected of each."""
        wrong = name is not None and max(truth.values()) - truth[name] > loss[name]
        return cls(name or "", wrong)


def named_by_test(evaluation: Evaluation) -> str | None:
    """Return the recommender that the paired test names, or None."""
    flags = evaluation.diagnostics.set_index("estimator")["flag"]
    estimator = "aoa" if flags["snips-global"] else "snips-global"
    frame = evaluation.frame
    estimates = frame[frame["estimator"] == estimator].set_index("model")["estimate"]
    best = str(estimates.idxmax())
    tests = evaluation.compare()
    is_of_best = (tests["model"] == best) | (tests["reference"] == best)
    tests = tests[is_of_best & (tests["estimator"] == estimator)]
    return best if (tests["p_adjusted"] < 0.05).all() else None


def rows_of(family: str, number: int) -> Iterator[dict[str, Any]]:
    """Yield what is named in one world, for each set of recommenders and each thing that is known."""
    world = world_of(family, number)
    rng = np.random.default_rng([SEED, number, 1])
    truth = dict(zip(world.models, world.truth((METRIC,)), strict=True))
    shown = world.random_exposure(EXPOSED, SHOWN, rng)
    further_data: tuple[dict[str, Any], ...] = (
        {},
        {"interactions": world.interactions},
        {"random_exposure": shown},
    )
    names = list(world.models)
    drawn = [list(rng.choice(names, rng.choice(SIZES), replace=False)) for _ in range(N_DRAWN)]
    for chosen in [names, *drawn]:
        models = {name: world.models[name] for name in chosen}
        own = {name: truth[name] for name in chosen}
        evaluation = ipseval.evaluate(
            models,
            world.split,
            propensity=ipseval.PowerLawPropensity(gamma=0.0),
            metrics=[METRIC],
            low_ess="ignore",
            rng=0,
        )
        for known, options in zip(KNOWN, further_data, strict=True):
            correction = ipseval.correct(models, world.split, metrics=[METRIC], rng=0, **options)
            loss = correction.order.set_index("recommender")["expected_regret"].to_dict()
            choice = correction.choice
            calls = {
                "verdict": correction.leader,
                "before": named_by_test(evaluation),
                "kept": choice,
            }
            row = {"family": family, "number": number, "kind": world.kind, "known": known, "n": len(chosen)}
            for rule, name in calls.items():
                call = Call.from_name(name, own, loss)
                row |= {rule: call.name, f"{rule} wrong": call.wrong}
            row |= {"loss": max(own.values()) - own[choice], "expected": loss[choice]}
            yield row


def table(rows: pd.DataFrame) -> str:
    """Return the share of tables in which somebody is named, and of these the share of wrong names."""
    lines = []
    for size, of_size in (("all ten", rows["n"] == 10), ("three to five", rows["n"] < 10)):
        for known in KNOWN:
            part = rows[of_size & (rows["known"] == known)]
            lines.append((f"{known}, {size}", f"{len(part):,}", *_rates(part)))
    lines.append(("together", f"{len(rows):,}", *_rates(rows)))
    header = (
        "what is known, recommenders", "comparisons", "`correct`: named", "`correct`: wrong", "test: named",
        "test: wrong",
    )  # fmt: skip
    return markdown((*header, "regret of the choice", "expected regret"), lines)


def _rates(part: pd.DataFrame) -> tuple[str, ...]:
    cells = []
    for rule in ("verdict", "before"):
        named = part[part[rule] != ""]
        wrong = int(named[f"{rule} wrong"].sum())
        cells += [f"{len(named) / len(part):.0%}", f"{wrong} of {len(named)}" if len(named) else "–"]
        if len(named):
            cells[-1] += f" ({wrong / len(named):.0%})"
    return (*cells, f"{part['loss'].mean():.4f}", f"{part['expected'].mean():.4f}")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=36, help="of each simulator")
    parser.add_argument("--write", action="store_true", help=f"put the table into docs/{PAGE.name}")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    found = [
        row for family in FAMILIES for number in range(options.worlds) for row in rows_of(family, number)
    ]
    deliver({"verdicts": table(pd.DataFrame(found))}, PAGE if options.write else None)


if __name__ == "__main__":
    main()
