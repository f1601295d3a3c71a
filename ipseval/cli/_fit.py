"""`ipseval fit`: propensities, or the examination of positions."""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

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
from ipseval.utils.checks import counted


@dataclass(frozen=True, eq=False, repr=False)
class FitReport(Result):
    """A frame under some words; `listed`: whether a report shows the frame, too."""

    words: tuple[str, ...]
    frame: pd.DataFrame
    listed: bool = True

    def tables(self, *, digits: int = 3, page: bool = False) -> Tables:
        """Return the report."""
        del page
        return Tables(self.words, (Table.of(self.frame, formats=f".{digits}g"),) if self.listed else ())


def _add_subject(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=("propensity", "examination"),
        help="of every item, or of every position of impressions",
    )


def _run_fit(options: argparse.Namespace) -> int:
    check_out(options)
    made = {"propensity": _fit_propensity, "examination": _fit_positions}
    deliver_result(made[options.what](options), options)
    return 0


def _fit_propensity(options: argparse.Namespace) -> FitReport:
    read = read_log(options.log, options, **load_universe(options))
    log = read.positives
    model = build_propensity(options, log, None if log is read else read)
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
    words = (str(fitted), *fit, *_describe_spread(pd.Series(fitted.item)))
    return FitReport(words, pd.DataFrame(columns), listed=False)


def _fit_positions(options: argparse.Namespace) -> FitReport:
    from ipseval.data.impression_log import ImpressionLog

    log = read_log(options.log, options, **load_universe(options))
    if not isinstance(log, ImpressionLog):
        raise InputError("fit examination needs impressions: name the column of clicks by --clicked.")
    options.examination = options.examination or "harvesting"
    said = "theta: the chance to look at a position, relative to the first; clicks are all that is known."
    return FitReport((said,), fit_examination(options, log).frame)


def _describe_spread(propensity: Any) -> list[str]:
    known = propensity.dropna()
    n_none = len(propensity) - len(known)
    ratio = known.max() / known.min() if len(known) else float("nan")
    lines = [f"{len(known):,} items; the largest propensity is {ratio:,.3g} times the smallest."]
    return lines + ([f"Without a propensity: {counted(n_none, 'item')}."] if n_none else [])


FIT = Command(
    name="fit",
    summary="fit propensities or examination to a log",
    description=(
        "propensity: print what a model says of the log; --out is a table with that of every item,\n"
        "which evaluate --propensity reads.\n"
        "examination: print how likely each position of impressions is looked at."
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
