"""`ipseval fit`: propensities, or the strength of the correction; `plan`: the random exposure it takes."""

from __future__ import annotations

import argparse
from typing import Any

from ipseval.cli import _options
from ipseval.cli._inputs import (
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
from ipseval.cli._output import TABLES, check_out, deliver, say, write_table
from ipseval.errors import InputError


def _add_fit(parser: argparse.ArgumentParser) -> None:
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


def _run_fit(options: argparse.Namespace) -> int:
    run = {"propensity": _propensity, "examination": _examination, "correction": _correction}
    return run[options.what](options)


def _propensity(options: argparse.Namespace) -> int:
    import pandas as pd

    from ipseval.data._exposure_log import ExposureLog

    _check_tables(options)
    read = read_log(options.log, options, **universe_of(options))
    exposures = read if isinstance(read, ExposureLog) else None
    log = read.positives if isinstance(read, ExposureLog) else read
    model = propensity_of(options, log, exposures)
    if model is None:
        raise InputError("fit propensity needs --gamma, --eta or --propensity.")
    fitted = model.fit(log)
    if fitted.item is None:
        raise InputError(
            f"{fitted.model} has no propensity per item; evaluate --propensity takes the model itself."
        )
    columns = {"item": log.item_ids, "n_interactions": log.popularity, "propensity": fitted.item}
    table = pd.DataFrame(columns)
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


def _spread(table: Any) -> list[str]:
    known = table["propensity"].dropna()
    n_none = len(table) - len(known)
    ratio = known.max() / known.min() if len(known) else float("nan")
    lines = [f"{len(known):,} items; the largest propensity is {ratio:,.3g} times the smallest."]
    return lines + ([f"{n_none:,} items have none."] if n_none else [])


def correction_of(options: argparse.Namespace) -> Any:
    """Return the correction of the log, with its random exposure where there is some."""
    from ipseval.correction import correct

    split, _ = split_of(options)
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
    add=_add_fit,
    run=_run_fit,
)


def _add_plan(parser: argparse.ArgumentParser) -> None:
    _options.add_log(parser)
    add = parser.add_argument
    add(
        "--positive-share",
        type=float,
        metavar="X",
        help="share of pairs shown at random that are liked, in (0, 1]; default: that of --exposure",
    )
    counts = {"type": _options.whole_numbers, "metavar": "N,N,…"}
    add("--n-users", default="25,50,100,200,500,1000", help="default: %(default)s", **counts)  # type: ignore[arg-type]  # a type and a help text
    add("--n-items", default="10,20,50", help="shown to each; default: %(default)s", **counts)  # type: ignore[arg-type]  # as above
    add("--power", type=float, default=0.8, metavar="X", help="chance to detect a difference; default: 0.8")
    _options.add_exposure(parser)
    add_interactions(parser)
    _options.add_split(parser)
    _options.add_models(parser)
    _options.add_metrics(parser, "recall@10,mean_dcg@10")
    _options.add_compute(parser)
    group = parser.add_argument_group("output")
    group.add_argument("--out", metavar="FILE", help="write the table: .csv, .tsv or .parquet")
    group.add_argument("--quiet", action="store_true", help="no warnings, and with --out nothing printed")
    _options.add_config(parser)


def _run_plan(options: argparse.Namespace) -> int:
    from ipseval.correction import plan_exposure
    from ipseval.report import Tables
    from ipseval.report._tables import Table
    from ipseval.report._text import to_text

    plan = plan_exposure(
        correction_of(options),
        n_users=options.n_users,
        n_items=options.n_items,
        positive_share=options.positive_share,
        power=options.power,
    )
    if options.out:
        write_table(plan, options.out)
    if not (options.quiet and options.out):
        reading = (
            "What random exposure of so many users and items each would tell.",
            "half_width: of the interval of a level, from the log and the exposure together. "
            "half_width_random: from the exposure alone.",
            f"smallest_difference: between two recommenders, found with a chance of {options.power:.0%}.",
        )
        say(to_text(Tables(reading, (Table.of(plan, formats=".3g", n_keys=3),))))
    return 0


PLAN = Command(
    name="plan",
    summary="how much random exposure it takes to know",
    description=(
        "Print, for numbers of users and items shown to each at random, how wide intervals would be and how\n"
        "small a difference would be found: what an experiment is worth before it is run."
    ),
    examples=("ipseval plan clicks.csv --positive-share 0.05 --n-users 100,500",),
    add=_add_plan,
    run=_run_plan,
)
