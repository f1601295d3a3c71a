"""`ipseval fit`: propensities, or how strong the correction should be, from a log."""

from __future__ import annotations

import argparse
from typing import Any

from ipseval.cli import _options
from ipseval.cli._advice import say
from ipseval.cli._command import Command
from ipseval.cli._inputs import (
    compute_options,
    evidence_of,
    examination_of,
    labels,
    models_of,
    propensity_of,
    read_log,
    universe_of,
    work_of,
)
from ipseval.cli._output import TABLES, check_out, deliver, write_table
from ipseval.errors import InputError


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=("propensity", "examination", "correction"),
        help="of every item; of every position of impressions; or the strength of the correction, as unknown",
    )
    _options.add_log(parser)
    _options.add_propensity(parser)
    add_interactions(parser)
    _options.add_split(parser)
    _options.add_models(parser)
    _options.add_metrics(parser, "recall@10,mean_dcg@10")
    _options.add_compute(parser)
    _options.add_output(parser)
    _options.add_config(parser)


def add_interactions(parser: argparse.ArgumentParser) -> None:
    """Add what a correction may read beside the positives."""
    words = "of a correction: every pair of the log, liked or not, such as all ratings"
    parser.add_argument("--interactions", metavar="FILE", help=words)


def _run(options: argparse.Namespace) -> int:
    run = {"propensity": _propensity, "examination": _examination, "correction": _correction}
    return run[options.what](options)


def _propensity(options: argparse.Namespace) -> int:
    from ipseval.data._exposure_log import ExposureLog

    _check_tables(options)
    read = read_log(options.log, options, **universe_of(options))
    exposures = read if isinstance(read, ExposureLog) else None
    log = read.positives if isinstance(read, ExposureLog) else read
    model = propensity_of(options, log, exposures)
    if model is None:
        raise InputError("fit propensity needs --gamma, --eta or --propensity.")
    fitted = model.fit(log)
    table = propensity_table(fitted, log)
    fit = [str(fitted.fit)] if fitted.fit is not None else []
    return _deliver_table(table, [str(fitted), *fit, *_spread(table)], options)


def _examination(options: argparse.Namespace) -> int:
    from ipseval.data._exposure_log import ExposureLog
    from ipseval.report import Tables
    from ipseval.report._tables import Table
    from ipseval.report._text import to_text

    _check_tables(options)
    log = read_log(options.log, options, **universe_of(options))
    if not isinstance(log, ExposureLog):
        raise InputError("fit examination needs impressions: name the column of clicks by --clicked.")
    if options.examination is None:
        options.examination = "harvesting"
    frame = examination_of(options, log).frame
    said = "theta: the chance to look at a position, relative to the first; clicks are all that is known."
    return _deliver_table(frame, [to_text(Tables((said,), (Table.of(frame, formats=".3g"),)))], options)


def _check_tables(options: argparse.Namespace) -> None:
    from ipseval._base.artefacts import writable

    for path in options.out:
        if not path.lower().endswith(TABLES):
            raise InputError(f"--out of a fit must end in {', '.join(TABLES)}; got {path!r}.")
        writable(path)


def _deliver_table(table: Any, lines: list[str], options: argparse.Namespace) -> int:
    for path in options.out:
        write_table(table, path)
    if not (options.quiet and options.out):
        say("\n".join((*lines, *options.out)))
    return 0


def propensity_table(fitted: Any, log: Any) -> Any:
    """Return one row per item: item, n_interactions, propensity (NaN: the model gives the item none)."""
    import pandas as pd

    if fitted.item is None:
        raise InputError(
            f"{fitted.model} has no propensity per item; evaluate --propensity takes the model itself."
        )
    columns = {"item": log.item_ids, "n_interactions": log.popularity, "propensity": fitted.item}
    return pd.DataFrame(columns)


def _spread(table: Any) -> list[str]:
    known = table["propensity"].dropna()
    n_none = len(table) - len(known)
    ratio = known.max() / known.min() if len(known) else float("nan")
    lines = [f"{len(known):,} items; the largest propensity is {ratio:,.3g} times the smallest."]
    return lines + ([f"{n_none:,} items have none."] if n_none else [])


def correction_of(options: argparse.Namespace) -> Any:
    """Return the correction of the log, with its random exposure where there is some."""
    from ipseval.correction import correct

    split = work_of(options).split
    return correct(
        models_of(options, split),
        split,
        evidence=evidence_of(options, split),
        metrics=labels(options.metrics) or [],
        missing=options.missing,
        ties=options.ties,
        confidence_level=options.confidence_level,
        rng=options.seed,
        compute=compute_options(options),
    )


def _correction(options: argparse.Namespace) -> int:
    check_out(options)
    deliver(correction_of(options), options)
    return 0


COMMAND = Command(
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
    add=_add,
    run=_run,
)
