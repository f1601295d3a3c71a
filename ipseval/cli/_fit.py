"""`ipseval fit`: propensities, or the strength of the correction; `plan`: the random exposure it takes."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import pandas as pd

from ipseval._base.checks import counted
from ipseval.cli import _options
from ipseval.cli._inputs import (
    RELATIVE,
    compute_options,
    evidence_of,
    examination_of,
    labels,
    models_of,
    propensity_of,
    read_log,
    split_of,
    universe_of,
)
from ipseval.cli._options import Command
from ipseval.cli._output import check_out, deliver
from ipseval.errors import InputError
from ipseval.report import Tables
from ipseval.report._reported import Result
from ipseval.report._tables import Table


@dataclass(frozen=True, eq=False, repr=False)
class Fitted(Result):
    """A frame under some words; `listed`: whether a report shows the frame, too."""

    words: tuple[str, ...]
    frame: pd.DataFrame
    listed: bool = True

    def tables(self, *, digits: int = 3, page: bool = False) -> Tables:
        """Return the report."""
        del page
        return Tables(self.words, (Table.of(self.frame, formats=f".{digits}g"),) if self.listed else ())


def _add_what(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=("propensity", "examination", "correction"),
        help="of every item; of every position of impressions; or the strength of the correction, as unknown",
    )


def _run_fit(options: argparse.Namespace) -> int:
    check_out(options)
    made = {"propensity": _propensity, "examination": _examination, "correction": correction_of}
    deliver(made[options.what](options), options)
    return 0


def _propensity(options: argparse.Namespace) -> Fitted:
    read = read_log(options.log, options, **universe_of(options))
    log = read.positives
    model = propensity_of(options, log, None if log is read else read)
    if model is None:
        raise InputError("fit propensity needs --gamma, --eta or --propensity.")
    fitted = model.fit(log)
    if fitted.item is None:
        raise InputError(
            f"{fitted.model} has no propensity per item; evaluate --propensity takes the model itself."
        )
    name = "propensity" if fitted.is_probability else RELATIVE
    columns = {"item": log.item_ids, "n_interactions": log.popularity, name: fitted.item}
    fit = [] if fitted.fit is None else [str(fitted.fit)]
    words = (str(fitted), *fit, *_spread(pd.Series(fitted.item)))
    return Fitted(words, pd.DataFrame(columns), listed=False)


def _examination(options: argparse.Namespace) -> Fitted:
    from ipseval.data._impression_log import ImpressionLog

    log = read_log(options.log, options, **universe_of(options))
    if not isinstance(log, ImpressionLog):
        raise InputError("fit examination needs impressions: name the column of clicks by --clicked.")
    options.examination = options.examination or "harvesting"
    said = "theta: the chance to look at a position, relative to the first; clicks are all that is known."
    return Fitted((said,), examination_of(options, log).frame)


def _spread(propensity: Any) -> list[str]:
    known = propensity.dropna()
    n_none = len(propensity) - len(known)
    ratio = known.max() / known.min() if len(known) else float("nan")
    lines = [f"{len(known):,} items; the largest propensity is {ratio:,.3g} times the smallest."]
    return lines + ([f"Without a propensity: {counted(n_none, 'item')}."] if n_none else [])


def correction_of(options: argparse.Namespace) -> Any:
    """Return the correction of the log, with its random exposure where there is some."""
    from ipseval.correction import correct

    split, _ = split_of(options)
    return correct(
        models_of(options, split),
        split,
        evidence=evidence_of(options, split),
        metrics=labels(options.metrics) or [],
        missing=options.missing_lists,
        ties=options.ties,
        confidence_level=options.confidence_level,
        rng=options.seed,
        compute=compute_options(options),
    )


FIT = Command(
    name="fit",
    summary="fit propensities, examination or the strength of the correction to a log",
    description=(
        "propensity: print what a model says of the log; --out is a table with that of every item,\n"
        "which evaluate --propensity reads.\n"
        "examination: print how likely each position of impressions is looked at.\n"
        "correction: take the strength of the correction as unknown, and print estimates whose intervals\n"
        "carry the doubt; --exposure narrows them."
    ),
    examples=(
        "ipseval fit propensity clicks.csv --gamma 0 --out propensity.csv",
        "ipseval fit propensity clicks.csv --gamma fit --exposure shown.csv --scale calibrated",
        "ipseval fit examination impressions.parquet",
        "ipseval fit correction clicks.csv --model popularity --model ease",
    ),
    options=(
        *(_add_what, _options.add_log, _options.add_propensity, _options.add_evidence),
        *(_options.add_split, _options.add_models, _options.add_metrics, _options.add_compute),
        _options.add_output,
    ),
    run=_run_fit,
)


def _add_sizes(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--positive-share",
        type=float,
        metavar="X",
        help="share of pairs shown at random that are liked, in (0, 1]; default: that of --exposure, or .05",
    )
    counts = {"type": _options.whole_numbers, "metavar": "N,N,…"}
    add("--n-users", default="25,50,100,200,500,1000", help="default: %(default)s", **counts)  # type: ignore[arg-type]  # a type and a help text
    add("--n-items", default="10,20,50", help="shown to each; default: %(default)s", **counts)  # type: ignore[arg-type]  # as above
    add("--power", type=float, default=0.8, metavar="X", help="chance to detect a difference; default: 0.8")
    words = "what the choice of a recommender may lose; default: 0.01"
    add("--loss", type=float, default=0.01, metavar="X", help=words)


def _run_plan(options: argparse.Namespace) -> int:
    from ipseval.correction import plan_exposure

    check_out(options)
    plan = plan_exposure(
        correction_of(options),
        n_users=options.n_users,
        n_items=options.n_items,
        positive_share=options.positive_share,
        power=options.power,
    )
    reading = (
        "What random exposure of so many users and items each would tell.",
        "half_width: of the interval of a level, from the log and the exposure together. "
        "half_width_random: from the exposure alone.",
        f"smallest_difference: between two recommenders, found with a chance of {options.power:.0%}.",
        "loss: of the one with the highest estimate by then to the best one, at most, with probability .9.",
        *(_enough(str(metric), part, options.loss) for metric, part in plan.groupby("metric", sort=False)),
    )
    deliver(Fitted(reading, plan), options)
    return 0


def _enough(metric: str, plan: Any, loss: float) -> str:
    """Return from how much exposure on the choice loses no more than a bound, with probability .9."""
    enough = plan[plan["loss"] <= loss]
    if enough.empty:
        return f"By {metric} the choice may lose more than {loss:g} with any of these."
    least = enough.loc[(enough["n_users"] * enough["n_items"]).idxmin()]
    size = f"{least['n_users']:,} users × {least['n_items']:,} items"
    return f"By {metric} the choice loses at most {loss:g} from {size} on."


PLAN = Command(
    name="plan",
    summary="how much random exposure it takes to know",
    description=(
        "Print, for numbers of users and items shown to each at random, how wide intervals would be, how\n"
        "small a difference would be found, and what the choice of a recommender may lose."
    ),
    examples=("ipseval plan clicks.csv", "ipseval plan clicks.csv --positive-share 0.1 --n-users 100,500"),
    options=(
        *(_options.add_log, _add_sizes, _options.add_exposure, _options.add_evidence),
        *(_options.add_split, _options.add_models, _options.add_metrics, _options.add_compute),
        _options.add_output,
    ),
    run=_run_plan,
)
