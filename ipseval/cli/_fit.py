"""`ipseval fit`: propensities, or how strong the correction should be, from a log."""

from __future__ import annotations

import argparse
from typing import Any

from ipseval.cli import _options
from ipseval.cli._advice import say
from ipseval.cli._command import Command
from ipseval.cli._inputs import (
    compute_options,
    exposure_of,
    labels,
    models_of,
    propensity_of,
    read_log,
    split_log,
)
from ipseval.cli._output import TABLES, check_out, deliver, write_table
from ipseval.errors import InputError


def _add(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "what",
        choices=("propensity", "correction"),
        help="propensity: of every item. correction: the strength of the correction, as unknown, and "
        "estimates that carry the doubt",
    )
    _options.add_log(parser)
    _options.add_propensity(parser)
    _options.add_split(parser)
    _options.add_models(parser)
    _options.add_metrics(parser, "recall@10,mean_dcg@10")
    _options.add_compute(parser)
    _options.add_output(parser)
    _options.add_config(parser)


def _run(options: argparse.Namespace) -> int:
    return _propensity(options) if options.what == "propensity" else _correction(options)


def _propensity(options: argparse.Namespace) -> int:
    from ipseval._artefacts import writable

    for path in options.out:
        if not path.lower().endswith(TABLES):
            raise InputError(f"--out of propensities must end in {', '.join(TABLES)}; got {path!r}.")
        writable(path)
    log = read_log(options)
    model = propensity_of(options, log)
    if model is None:
        raise InputError("fit propensity needs --gamma, --eta or --propensity.")
    fitted = model.fit(log)
    table = propensity_table(fitted, log)
    for path in options.out:
        write_table(table, path)
    if not (options.quiet and options.out):
        lines = [str(fitted), *([str(fitted.fit)] if fitted.fit is not None else []), *_spread(table)]
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

    split = split_log(read_log(options), options)
    return correct(
        models_of(options, split),
        split,
        exposure=exposure_of(options, split),
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
    summary="fit propensities, or the strength of the correction, to a log",
    description=(
        "propensity: print what a model says of the log, and write the propensity of every item as a\n"
        "table, which evaluate --propensity reads.\n"
        "correction: take the strength of the correction as unknown, and print estimates whose intervals\n"
        "carry the doubt; --exposure narrows them."
    ),
    examples=(
        "ipseval fit propensity clicks.csv --gamma 0 --out propensity.csv",
        "ipseval fit propensity clicks.csv --gamma fit --exposure shown.csv --scale calibrated",
        "ipseval fit correction clicks.csv --model popularity --model ease",
    ),
    add=_add,
    run=_run,
)
