"""Commands `correct`, for bias-corrected estimates, and `plan`, for the size and pairs of an experiment."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ipseval.cli import _options
from ipseval.cli._files import load_table
from ipseval.cli._inputs import (
    build_compute_options,
    load_correction_data,
    load_models,
    load_split,
    split_labels,
)
from ipseval.cli._options import Command
from ipseval.cli._output import check_out, deliver_result
from ipseval.errors import InputError
from ipseval.reporting import Tables
from ipseval.reporting.formatting import count_decimals
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Table
from ipseval.utils.checks import format_count

PLAN_NUMBERS = ("half_width", "half_width_random", "smallest_difference", "regret_90")


def compute_correction(options: argparse.Namespace) -> Any:
    """Return the correction of the log, with the further data that the options name."""
    from ipseval.correction import correct

    split, _ = load_split(options)
    return correct(
        load_models(options, split),
        split,
        **load_correction_data(options, split),
        metrics=split_labels(options.metrics) or [],
        missing_lists=options.missing_lists,
        ties=options.ties,
        confidence_level=options.confidence_level,
        rng=options.seed,
        compute=build_compute_options(options),
    )


def _run_correct(options: argparse.Namespace) -> int:
    check_out(options)
    deliver_result(compute_correction(options), options)
    return 0


CORRECT = Command(
    name="correct",
    summary="estimate metrics with a correction of the exposure bias",
    description=(
        "Print bias-corrected estimates of the mean over relevant interactions, with intervals that account\n"
        "for unknown propensities. Random exposure, pairs that are not positive and values from an\n"
        "experiment narrow the intervals. Without --model, the built-in baselines are compared."
    ),
    examples=(
        "ipseval correct clicks.csv --model popularity --model ease",
        "ipseval correct clicks.csv --random-exposure shown.csv",
        "ipseval correct ratings.csv --threshold 4 --interactions ratings.csv",
        "ipseval correct clicks.csv --model old=old.csv --model new=new.csv --source randomised "
        "--reference-values old:recall@10=0.081+-0.006",
    ),
    options=(
        _options.add_log_or_parts,
        _options.add_correction,
        _options.add_split,
        _options.add_models,
        _options.add_metrics,
        _options.add_compute,
        _options.add_output,
    ),
    run=_run_correct,
)


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Result):
    """Expected width of intervals and regret, by size of a random-exposure experiment, with explanations."""

    explanations: tuple[str, ...]
    frame: pd.DataFrame

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: the meaning of the columns, and one table per metric."""
        del page
        parts = []
        for metric, rows in self.frame.groupby("metric", sort=False):
            rows = rows.drop(columns="metric")
            places = max(3, count_decimals(rows["half_width"].tolist(), digits))
            formats = {"n_positives": ",.0f"} | dict.fromkeys(PLAN_NUMBERS, f".{places}f")
            parts.append(Table.from_frame(rows, str(metric), formats=formats, n_keys=2))
        return Tables(self.explanations, tuple(parts))


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("size of the experiment")
    add = group.add_argument
    counts = {"type": _options.parse_integers, "metavar": "N,N,…"}
    users_help = (
        "numbers of users, those of --random-exposure included; default: 25, 100 and 400 further users, or with "
        "--design 100 users"
    )
    items_help = "items shown to each user; default: 10,20,50, or with --design 20"
    add("--n-users", help=users_help, **counts)  # type: ignore[arg-type]  # a type and a help text
    add("--n-items", help=items_help, **counts)  # type: ignore[arg-type]  # as above
    add(
        "--positive-share",
        type=float,
        metavar="X",
        help="share of randomly shown pairs that are positive, in (0, 1]; default: that of "
        "--random-exposure, or 0.05",
    )
    add("--power", type=float, default=0.8, metavar="X", help="of the test of a difference; default: 0.8")
    add(
        "--regret",
        type=float,
        default=0.01,
        metavar="X",
        help="largest acceptable regret of choosing a recommender; default: 0.01",
    )


def _add_design(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "allocation of the pairs", "With --design the result is the pairs to show, and not the precision."
    )
    add = group.add_argument
    add(
        "--design",
        choices=("uniform", "lists"),
        help="draw of the items: all at random, or half of them from the lists of the recommenders",
    )
    add(
        "--depth",
        type=_options.integer_type(1),
        default=10,
        metavar="K",
        help="length of the lists: the largest cutoff of the metrics; default: 10",
    )
    add("--previous", metavar="FILE", help="allocation to which a batch of new users is added")
    add(
        "--same-users",
        action="store_true",
        help="a further draw for the users of --previous, with the same lists",
    )


@dataclass(frozen=True, eq=False, repr=False)
class Allocation(Result):
    """The pairs to show to users, with their inclusion probabilities."""

    frame: pd.DataFrame

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: the size of the experiment, and the pairs by batch and list."""
        del digits, page
        n_users = self.frame["user"].nunique()
        n_new = int((self.frame["batch"] == self.frame["batch"].max()).sum())
        sentences = (
            f"Allocation of {format_count(len(self.frame), 'pair')} to {format_count(n_users, 'user')}, {n_new:,} of "
            f"them in batch {self.frame['batch'].max()}.",
            "inclusion_probability: probability that the pair is shown; the weight of its answer is the inverse.",
            "Show each user all allocated items, and write user, item and positive (1 or 0) to another file.",
        )
        groups = self.frame.groupby(["batch", "is_listed"])["inclusion_probability"]
        rows = groups.agg(["size", "min", "max"]).reset_index()
        rows["is_listed"] = rows["is_listed"].map({True: "yes", False: "no"})
        rows.columns = pd.Index(["batch", "in a list", "pairs", "smallest π", "largest π"])
        formats = {"pairs": ",.0f", "smallest π": ".3f", "largest π": ".3f"}
        return Tables(
            sentences, (Table.from_frame(rows, "inclusion probabilities π", formats=formats, n_keys=2),)
        )


def _allocate(options: argparse.Namespace) -> Allocation:
    """Return the allocation of the experiment that the options describe."""
    from ipseval.correction import plan_exposure

    split, _ = load_split(options)
    models = None
    if options.design == "lists":
        models = load_models(options, split)
    previous = None
    if options.previous is not None:
        previous = load_table(options.previous)
    return Allocation(
        plan_exposure(
            design=options.design,
            models=models,
            split=split,
            n_users=options.n_users,
            n_items=options.n_items,
            depth=options.depth,
            previous=previous,
            same_users=options.same_users,
            rng=options.seed,
            compute=build_compute_options(options),
        )
    )


def _run_plan(options: argparse.Namespace) -> int:
    from ipseval.correction import plan_exposure

    check_out(options)
    _check_log(options.log)
    if options.design is not None:
        deliver_result(_allocate(options), options)
        return 0
    if options.previous is not None or options.same_users:
        raise InputError("--previous and --same-users belong to an allocation; give --design with them.")
    correction = compute_correction(options)
    plan = plan_exposure(
        correction,
        n_users=options.n_users,
        n_items=options.n_items,
        positive_share=options.positive_share,
        power=options.power,
    )
    sentences = [
        "Expected width of intervals and regret, by size of the random-exposure experiment.",
        "half_width: half the width of the interval of an estimate, from the log and the experiment.",
        "half_width_random: the same from the experiment alone.",
        f"smallest_difference: difference of two recommenders that is detected with {options.power:.0%} "
        "power.",
        "regret_90: 90% upper bound on the regret of choosing the recommender with the highest estimate.",
    ]
    if correction.random_exposure is not None:
        sentences.insert(
            1, "n_users: users in all; those of --random-exposure count, and are shown no further items."
        )
    for metric, rows in plan.groupby("metric", sort=False):
        sentences.append(describe_sufficient_size(str(metric), rows, options.regret))
    deliver_result(Plan(tuple(sentences), plan), options)
    return 0


def _check_log(log: str | None) -> None:
    """Raise `InputError` with a complete command if the log is a stored result, of which verdicts suggest a plan."""
    if log is None or not log.lower().endswith(".npz"):
        return
    raise InputError(
        f"{log} holds arrays or a stored result, but a plan needs the log and the recommenders. For example: "
        "ipseval plan --train train.csv --test test.csv --model old=old.csv --model new=new.csv"
    )


def describe_sufficient_size(metric: str, plan: pd.DataFrame, regret: float) -> str:
    """Return the smallest experiment after which the regret of the choice is acceptable."""
    sufficient = plan[plan["regret_90"] <= regret]
    if sufficient.empty:
        return f"{metric}: the regret may exceed {regret:g} with each of these sizes."
    # The number of positives grows with the pairs to show, also if some users were exposed before.
    smallest = sufficient.iloc[int(np.argmin(sufficient["n_positives"]))]
    size = f"{format_count(smallest['n_users'], 'user')} × {format_count(smallest['n_items'], 'item')}"
    return f"{metric}: {size} suffice for a regret of at most {regret:g}."


PLAN = Command(
    name="plan",
    summary="plan the size of a random-exposure experiment, or the pairs to show",
    description=(
        "Print, for numbers of users and of items shown to each at random, the expected width of the\n"
        "intervals, the smallest detectable difference and the regret of choosing a recommender. With\n"
        "--design, draw the users and the items to show to them, with the probability of each pair."
    ),
    examples=(
        "ipseval plan clicks.csv",
        "ipseval plan clicks.csv --positive-share 0.1 --n-users 100,500",
        "ipseval plan clicks.csv --model old=old.csv --model new=new.csv --design lists --out allocation.csv",
    ),
    options=(
        _options.add_log_or_parts,
        _add_sizes,
        _add_design,
        _options.add_correction,
        _options.add_split,
        _options.add_models,
        _options.add_metrics,
        _options.add_compute,
        _options.add_output,
    ),
    run=_run_plan,
)
