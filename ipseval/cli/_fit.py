"""Command `fit`, which fits propensities or the examination of positions."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import pandas as pd

from ipseval.cli import _options
from ipseval.cli._inputs import (
    RELATIVE,
    build_propensity,
    fit_examination,
    load_universe,
    read_log,
)
from ipseval.cli._options import Command
from ipseval.cli._output import check_out, deliver_result
from ipseval.errors import InputError
from ipseval.reporting import Tables
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Table
from ipseval.utils.checks import format_count

NOT_PERSONALISED = (
    "Valid only if the order of the shown items did not depend on the user. A personalised order is taken for "
    "position bias; show some lists in random order, and use 'randomised' for these."
)
CONDITIONS = {
    "randomised": "Valid only if the shown items were in random order.",
    "harvesting": NOT_PERSONALISED,
    "em": NOT_PERSONALISED,
}


@dataclass(frozen=True, eq=False, repr=False)
class FitReport(Result):
    """A fitted table with its description; reports print the table if `prints_frame`."""

    description: tuple[str, ...]
    frame: pd.DataFrame
    prints_frame: bool = True

    def tables(self, *, digits: int = 3, page: bool = False) -> Tables:
        """Return the report."""
        del page
        parts: tuple[Table, ...] = ()
        if self.prints_frame:
            parts = (Table.from_frame(self.frame, formats=f".{digits}g"),)
        return Tables(self.description, parts)


def _add_subject(parser: argparse.ArgumentParser) -> None:
    """Add the choice between propensity and examination."""
    parser.add_argument(
        "what",
        choices=("propensity", "examination"),
        help="propensity of every item, or examination of every position of impressions",
    )


def _run_fit(options: argparse.Namespace) -> int:
    check_out(options)
    if options.what == "propensity":
        report = _fit_propensity_by_options(options)
    else:
        report = _fit_positions(options)
    deliver_result(report, options)
    return 0


def _fit_propensity_by_options(options: argparse.Namespace) -> FitReport:
    """Fit the propensity model that the options name to the log."""
    from ipseval.data.impression_log import ImpressionLog

    log = read_log(options.log, options, **load_universe(options))
    positives = log.positives
    impressions = None
    if isinstance(log, ImpressionLog):
        impressions = log
    model = build_propensity(options, positives, impressions)
    if model is None:
        raise InputError("fit propensity requires --gamma or --propensity.")
    propensity = model.fit(positives)
    if propensity.item is None:
        raise InputError(
            f"{propensity.model} has no propensity per item. Use the model itself in evaluate --propensity."
        )

    column = "propensity" if propensity.is_probability else RELATIVE
    frame = pd.DataFrame(
        {"item": positives.item_ids, "n_interactions": positives.popularity, column: propensity.item}
    )
    description = [str(propensity)]
    if propensity.fit is not None:
        description.append(str(propensity.fit))
    description += _describe_spread(frame[column])
    return FitReport(tuple(description), frame, prints_frame=False)


def _fit_positions(options: argparse.Namespace) -> FitReport:
    """Fit the examination of positions to a log of impressions."""
    from ipseval.data.impression_log import ImpressionLog

    log = read_log(options.log, options, **load_universe(options))
    if not isinstance(log, ImpressionLog):
        raise InputError("fit examination requires impressions. Name the column of clicks by --clicked.")
    options.examination = options.examination or "harvesting"
    description = "theta: probability that a position is examined, relative to the first position"
    condition = CONDITIONS[options.examination]
    return FitReport((description, condition), fit_examination(options, log).frame)


def _describe_spread(propensity: pd.Series) -> list[str]:
    """Return the ratio of the largest to the smallest propensity, and the number of items without one."""
    complete = propensity.dropna()
    ratio = float("nan")
    if len(complete):
        ratio = complete.max() / complete.min()
    lines = [
        f"{format_count(len(complete), 'item')}; the largest propensity is {ratio:,.3g} times the smallest."
    ]
    n_missing = len(propensity) - len(complete)
    if n_missing:
        lines.append(f"Without a propensity: {format_count(n_missing, 'item')}.")
    return lines


FIT = Command(
    name="fit",
    summary="fit propensities or the examination of positions",
    description=(
        "propensity: fit a model to the log; --out writes the propensity of every item as a table that\n"
        "evaluate --propensity reads.\n"
        "examination: print the probability that each position of impressions is examined."
    ),
    examples=(
        "ipseval fit propensity clicks.csv --gamma 0 --out propensity.csv",
        "ipseval fit propensity clicks.csv --gamma fit --random-exposure shown.csv --scale calibrated",
        "ipseval fit examination impressions.parquet",
    ),
    options=(
        _add_subject,
        _options.add_log,
        _options.add_propensity,
        _options.add_output,
    ),
    run=_run_fit,
)
