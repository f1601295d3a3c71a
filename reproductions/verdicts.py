"""How often a verdict names the wrong recommender, over worlds of two simulators.

    python -m reproductions.verdicts [--worlds 36] [--write]

A verdict is wrong where the recommender that it names is truly lower than another one by more than the
expected loss that is printed. Beside it stands the rule of before: the one that a paired test (Holm,
p < .05) tells from all others, by the weighted average with γ = 0, or by the plain one where the weights are
unreliable. Tables are of all ten recommenders of a world, and of three to five of them, drawn four times.
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
from ipseval import Evaluation, Evidence
from reproductions import correction_family, feedback_worlds
from reproductions.feedback_worlds import FeedbackWorld
from reproductions.tables import ROOT, deliver, markdown

PAGE = ROOT / "docs" / "how-the-verdict-is-made.md"
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
    setting = correction_family.HELD_OUT
    rng = np.random.default_rng([SEED, number])
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
    def of(cls, name: str | None, truth: dict[str, float], loss: dict[str, float]) -> Call:
        """Return the call of a name by what is true, and by the loss that is expected of each."""
        wrong = name is not None and max(truth.values()) - truth[name] > loss[name]
        return cls(name or "", wrong)


def leader_of_before(evaluation: Evaluation) -> str | None:
    """Return who was named by the rule of before."""
    one = next(each for each in evaluation.verdicts if each.metric == METRIC)
    weighted = one.weighted and not one.weights[0].flag
    leaders = one.standings[one.weighted if weighted else one.plain].leaders
    return leaders[0] if len(leaders) == 1 else None


def rows_of(family: str, number: int) -> Iterator[dict[str, Any]]:
    """Yield what is named in one world, for each set of recommenders and each thing that is known."""
    world = world_of(family, number)
    rng = np.random.default_rng([SEED, number, 1])
    truth = dict(zip(world.models, world.truth((METRIC,)), strict=True))
    shown = world.evidence(EXPOSED, SHOWN, rng).exposure
    given = dict(zip(KNOWN, (None, Evidence(interactions=world.interactions), Evidence(shown)), strict=True))
    names = list(world.models)
    drawn = [list(rng.choice(names, rng.choice(SIZES), replace=False)) for _ in range(N_DRAWN)]
    for chosen in [names, *drawn]:
        models = {name: world.models[name] for name in chosen}
        own = {name: truth[name] for name in chosen}
        for known, evidence in given.items():
            found = ipseval.evaluate(
                models,
                world.split,
                propensity=ipseval.PowerLawPropensity(gamma=0.0),
                evidence=evidence,
                metrics=[METRIC],
                low_ess="ignore",
                rng=0,
            )
            order = found.order.set_index("recommender")
            loss = order["expected_loss"].to_dict()
            choice = found.verdicts[0].choice
            calls = {"verdict": found.leader, "before": leader_of_before(found), "kept": choice}
            row = {"family": family, "number": number, "kind": world.kind, "known": known, "n": len(chosen)}
            for rule, name in calls.items():
                call = Call.of(name, own, loss)
                row |= {rule: call.name, f"{rule} wrong": call.wrong}
            if choice is not None:
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
    header = ("what is known, recommenders", "tables", "named", "wrong", "before: named", "wrong")
    return markdown((*header, "loss of the one kept", "expected"), lines)


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
