"""What the shared options stand for: the log, its split, the recommenders, the propensity."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from ipseval.cli._options import COLUMNS
from ipseval.errors import InputError

_OWN = re.compile(r"(?P<path>.+?)(?P<columns>:\w+=[^,:=]+(?:,\w+=[^,:=]+)*)?")


def labels(text: str | None) -> list[str] | None:
    """Return the labels of a comma-separated list; commas inside parentheses belong to a label."""
    if text is None:
        return None
    return [name.strip() for name in re.split(r",(?![^(]*\))", text) if name.strip()]


def compute_options(options: argparse.Namespace) -> Any:
    """Return what a computation may use."""
    from ipseval._compute import ComputeOptions

    return ComputeOptions(n_threads=options.threads, max_memory=options.memory, engine=options.engine)


def file_columns(entry: str, options: argparse.Namespace) -> tuple[str, dict[str, str]]:
    """Return the path of FILE[:user=uid,item=sku], and what its columns are called, by their roles."""
    found = _OWN.fullmatch(entry)
    names = {role: name for role in COLUMNS if (name := getattr(options, f"{role}_column", None))}
    if found is None or found["columns"] is None or Path(entry).exists():
        return entry, names
    own = dict(part.split("=") for part in found["columns"][1:].split(","))
    unknown = sorted(set(own) - {*COLUMNS, "rank", "score", "propensity", "positive"})
    if unknown:
        raise InputError(
            f"{entry}: {', '.join(unknown)} is no column of a file; say user=…, item=… or rank=…."
        )
    return found["path"], names | own


def table_of(entry: str, options: argparse.Namespace) -> Any:
    """Return the table of FILE[:user=uid,…] with columns named by their roles; "-" is standard input."""
    from ipseval._files import read_table

    path, names = file_columns(entry, options)
    renamed = {name: role for role, name in names.items()}
    if path != "-":
        return read_table(path, renamed)
    import pandas as pd

    return pd.read_csv(sys.stdin.buffer, sep=None, engine="python").rename(columns=renamed)


def _with_columns(entry: str, options: argparse.Namespace) -> Any:
    """Return the table of a log, which must have every column that was named for it."""
    path, names = file_columns(entry, options)
    own = _OWN.fullmatch(entry)
    table = table_of(entry, options)
    for role, name in names.items():
        if role not in table.columns or (role != name and own and path != "-" and role in _raw(path)):
            there = ", ".join(map(str, table.columns))
            raise InputError(f"column {name!r} is not in {path}; it has {there}.")
    return table


def _raw(path: str) -> list[str]:
    from ipseval._files import read_table

    return list(map(str, read_table(path).columns))


def read_log(options: argparse.Namespace) -> Any:
    """Return the interactions of LOG."""
    from ipseval.interactions import Interactions

    frame = _with_columns(options.log, options)
    return Interactions.from_frame(
        frame,
        value="value" if options.value_column else None,
        timestamp="timestamp" if "timestamp" in frame.columns else None,
        users=_universe(options, "user"),
        items=_universe(options, "item"),
        duplicates=options.duplicates,
    )


def split_log(log: Any, options: argparse.Namespace) -> Any:
    """Return the split of a log that --split asks for."""
    from ipseval import splits

    if options.k_core:
        log = splits.k_core(log, options.k_core)
    fractions = {"test_fraction": options.test_fraction, "validation_fraction": options.validation_fraction}
    if options.split == "random":
        return splits.split_random(log, **fractions, rng=options.seed)
    if options.split == "temporal":
        return splits.split_temporal(log, **fractions)
    if options.split == "global-time":
        return splits.split_global_time(log, **fractions, test_start=options.test_start)
    drawn = {"rng": options.seed} if options.order == "random" else {}
    return splits.split_leave_one_out(log, order=options.order, n_validation=options.n_validation, **drawn)


def split_of(options: argparse.Namespace) -> Any:
    """Return the split of LOG, or the one that --train and --test hold."""
    from ipseval.splits import Split

    parts = options.train is not None, options.test is not None
    if options.log is not None and not any(parts):
        return split_log(read_log(options), options)
    if options.log is not None or not all(parts):
        raise InputError("give a LOG to split, or --train and --test of a split made elsewhere.")
    return Split.from_frames(
        _with_columns(options.train, options),
        _with_columns(options.test, options),
        value="value" if options.value_column else None,
        users=_universe(options, "user"),
        items=_universe(options, "item"),
        duplicates=options.duplicates,
        overlap=options.overlap,
    )


def models_of(options: argparse.Namespace, split: Any) -> dict[str, Any]:
    """Return the recommenders: files as they are, baselines trained on the training part."""
    from ipseval._registry import lookup
    from ipseval.baselines import BASELINES

    models: dict[str, Any] = {}
    for entry in options.model or list(BASELINES):
        name, equals, path = entry.partition("=")
        if not name or (equals and not path):
            raise InputError(f"--model takes NAME=FILE or the name of a baseline; got {entry!r}.")
        if name in models:
            raise InputError(f"--model names {name!r} twice.")
        models[name] = _scores(path, options) if equals else lookup(BASELINES, name, "baseline")(split.train)
    return models


def _scores(entry: str, options: argparse.Namespace) -> Any:
    from ipseval._files import ARRAYS, read_array

    path, _ = file_columns(entry, options)
    if Path(path).suffix in ARRAYS:
        return read_array(path)
    frame = table_of(entry, options)
    if not ({"user", "item"} <= set(frame.columns) and {"rank", "score"} & set(frame.columns)):
        raise InputError(
            f"{path}: top-K lists need columns user, item and rank or score; it has "
            f"{', '.join(map(str, frame.columns))}. Other names of users and items: --user-column and "
            f"--item-column, or of this file alone {path}:user=…,item=…."
        )
    return frame


def propensity_of(options: argparse.Namespace, split: Any) -> Any:
    """Return the propensity model that the options name, or None."""
    from ipseval.propensity import PROPENSITIES, KnownPropensity, PowerLawPropensity, parse_propensity

    powers = options.gamma is not None or options.eta is not None
    needs = (options.scale, options.unseen, options.recommendations)
    if not powers and any(one is not None for one in needs):
        raise InputError(
            "--scale, --unseen and --recommendations belong to a power law; give --gamma or --eta with them."
        )
    if options.propensity is not None:
        named = options.propensity in PROPENSITIES or re.match(r"[\w-]+[:(]", options.propensity)
        if named and not Path(options.propensity).exists():
            return parse_propensity(options.propensity)
        table = table_of(options.propensity, options)
        return KnownPropensity(pair=table) if "user" in table.columns else KnownPropensity(item=table)
    if not powers:
        return None
    lists = None if options.recommendations is None else table_of(options.recommendations, options)
    return PowerLawPropensity(
        gamma=options.gamma,
        eta=options.eta,
        scale=options.scale,
        unseen=options.unseen or "drop",
        recommendations=lists,
        source=options.source,
        exposure=exposure_of(options, split),
    )


def exposure_of(options: argparse.Namespace, split: Any) -> Any:
    """Return the random exposure of --exposure, or None."""
    if options.exposure is None:
        return None
    from ipseval.propensity import Exposure

    frame = table_of(options.exposure, options)
    if "positive" not in frame.columns:
        if options.threshold is None or "value" not in frame.columns:
            raise InputError(
                f"{options.exposure} needs a column positive, or --value-column with --threshold; it has "
                f"{', '.join(map(str, frame.columns))}."
            )
        frame = frame.assign(positive=frame["value"] >= options.threshold)
    return Exposure.from_frame(frame, split)


def _universe(options: argparse.Namespace, role: str) -> Any:
    entry = getattr(options, f"{role}s")
    return None if entry is None else column_of(entry, role, options)


def column_of(entry: str, role: str, options: argparse.Namespace) -> Any:
    """Return one column of a file as an array."""
    table = table_of(entry, options)
    if role not in table.columns:
        name = file_columns(entry, options)[1].get(role, role)
        raise InputError(f"{entry} has no column {name!r}; it has {', '.join(map(str, table.columns))}.")
    return table[role].to_numpy()
