"""Load the inputs that the options name: the log, its split, the recommenders and the propensity."""

from __future__ import annotations

import argparse
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ipseval.cli._files import load_column, load_table, parse_file_entry
from ipseval.cli._options import COLUMNS
from ipseval.errors import InputError, ProblemsError

if TYPE_CHECKING:
    import pandas as pd

    from ipseval.data.impression_log import ImpressionLog
    from ipseval.data.interactions import Interactions
    from ipseval.data.random_exposure import RandomExposure
    from ipseval.data.reading import Lists
    from ipseval.data.splits import Split
    from ipseval.propensity import PropensityModel
    from ipseval.utils.compute import ComputeOptions
    from ipseval.utils.types import AnyArray, HasIds

# Options of `read` and of `Lists` that can follow the name of a file, in addition to the names of columns.
READ_OPTIONS = ("threshold", "ignore", "duplicates", "missing", "unknown", "gaps", "unshown_clicks", "units")
TEXT_OPTIONS = ("separator", "header", "encoding", "layout")
LIST_OPTIONS = (
    "user",
    "item",
    "rank",
    "score",
    "seen",
    "unknown",
    "duplicates",
    "missing",
    "gaps",
    *TEXT_OPTIONS,
)
STANDARD_INPUT = "-"
RELATIVE = "relative_propensity"  # column of propensities with an unknown common factor


def split_labels(text: str | None) -> list[str] | None:
    """Return the labels of a comma-separated list; commas inside parentheses belong to a label."""
    if text is None:
        return None
    labels = []
    for name in re.split(r",(?![^(]*\))", text):
        if name.strip():
            labels.append(name.strip())

    return labels


def build_compute_options(options: argparse.Namespace) -> ComputeOptions:
    """Return the threads, memory, engine and progress bar that the options name."""
    from ipseval.utils.compute import ComputeOptions

    return ComputeOptions(
        n_threads=options.threads,
        max_memory=options.memory,
        engine=options.engine,
        progress=False if options.quiet else None,
    )


def read_log(entry: str, options: argparse.Namespace, **ids: Any) -> Interactions | ImpressionLog:
    """Return the interactions or impressions of a file; `ids` are the users and items of the universe."""
    from ipseval.data.reading import read

    spec = parse_file_entry(entry, (*COLUMNS, *READ_OPTIONS, *TEXT_OPTIONS))
    arguments: dict[str, Any] = {}
    for name in COLUMNS:
        arguments[name] = getattr(options, name, None)
    for name in TEXT_OPTIONS:
        arguments[name] = getattr(options, name)

    arguments |= {
        "propensity": options.propensity_column,
        "ignore": split_labels(options.ignore) or (),
        "threshold": options.threshold,
        "duplicates": options.duplicates,
        "missing": options.missing,
        "unknown": "drop" if options.unknown == "drop" else "raise",
        "gaps": options.gaps,
        "unshown_clicks": options.unshown_clicks,
        "units": options.units,
        "na_values": split_labels(getattr(options, "na_values", None)) or (),
    }
    arguments |= spec.parse_options() | ids
    with spec.open_path() as path:
        log = read(path, **arguments)
    read_as = log.row_counts[0]
    vars(options).setdefault("read_as", []).append(f"{read_as.count:,} {read_as.label}")
    return log


def split_log(log: Interactions, options: argparse.Namespace) -> Split:
    """Return the split of a log that --split asks for."""
    from ipseval.data import splits

    if options.k_core:
        log = splits.k_core(log, options.k_core)
    shared: dict[str, Any] = {"seen": "include" if options.seen == "include" else "exclude"}
    if options.split == "leave-one-out":
        if options.order == "random":
            shared["rng"] = options.seed
        return splits.split_leave_one_out(
            log, order=options.order, n_validation=options.n_validation, **shared
        )
    shared |= {
        "test_fraction": options.test_fraction,
        "validation_fraction": options.validation_fraction,
    }
    if options.split == "random":
        return splits.split_random(log, rng=options.seed, **shared)
    if options.split == "temporal":
        return splits.split_temporal(log, **shared)
    return splits.split_global_time(log, test_start=options.test_start, **shared)


def load_split(options: argparse.Namespace) -> tuple[Split, ImpressionLog | None]:
    """Return the split of LOG, or of --train and --test, and the impressions that LOG holds."""
    from ipseval.data.interactions import Interactions

    train = getattr(options, "train", None)
    test = getattr(options, "test", None)
    if options.log is not None and train is None and test is None:
        log = read_log(options.log, options, **load_universe(options))
        split = split_log(log.positives, options)
        if isinstance(log, Interactions):
            return split, None
        return split, log
    if options.log is not None or train is None or test is None:
        raise InputError("give a LOG to split, or --train and --test of a split made elsewhere.")
    return _load_split_parts(train, test, options), None


def _load_split_parts(train: str, test: str, options: argparse.Namespace) -> Split:
    """Return the split of a training and a test file."""
    from ipseval.data.splits import Split

    train_log = read_log(train, options).positives
    test_log = read_log(test, options).positives
    # A column that only one part has is not used.
    if train_log.value is None or test_log.value is None:
        train_log = replace(train_log, value=None)
        test_log = replace(test_log, value=None)
    if train_log.timestamp is None or test_log.timestamp is None:
        train_log = replace(train_log, timestamp=None)
        test_log = replace(test_log, timestamp=None)
    return Split.from_frames(
        train_log,
        test_log,
        **load_universe(options),
        duplicates="keep" if options.duplicates == "keep" else "raise",
        overlap=options.overlap,
        seen="include" if options.seen == "include" else "exclude",
    )


def load_models(options: argparse.Namespace, split: Split) -> dict[str, object]:
    """Return the recommenders of --model: the content of files, and baselines trained on the training part."""
    from ipseval.ranking.baselines import BASELINES
    from ipseval.utils.registry import look_up

    models: dict[str, object] = {}
    for entry in _name_models(options.model) or list(BASELINES):
        name, equals, path = entry.partition("=")
        if not name or (equals and not path):
            raise InputError(f"--model takes NAME=FILE or the name of a baseline; got {entry!r}.")
        if name in models:
            raise InputError(f"--model names {name!r} twice.")
        if equals:
            models[name] = _load_scores(path, options)
        else:
            advice = {name: "Use --model NAME=FILE for your own recommender."}
            train_baseline = look_up(BASELINES, name, "baseline", advice)
            if name == "random":
                models[name] = train_baseline(split.train, rng=options.seed)
            else:
                models[name] = train_baseline(split.train)
    return models


def _name_models(entries: list[str] | None) -> list[str]:
    """Return the entries of --model; a file alone is named by its stem, and commas separate baselines."""
    names: list[str] = []
    for entry in entries or ():
        if "=" in entry:
            names.append(entry)
        elif Path(entry).is_file():
            names.append(f"{Path(entry).stem}={entry}")
        else:
            names += split_labels(entry) or [entry]
    return names


def _load_scores(
    entry: str, options: argparse.Namespace
) -> str | Lists | AnyArray | tuple[AnyArray, AnyArray]:
    """Return the scores, factors or recommendation lists of a file; without options of lists, its path.

    `evaluate` treats the path as in Python: entries that do not fit are counted if they are few, and not refused.
    """
    from ipseval.data.reading import read_lists
    from ipseval.utils.artefacts import ARRAYS, read_model_arrays

    spec = parse_file_entry(entry, LIST_OPTIONS)
    if spec.path.lower().endswith(ARRAYS):
        return read_model_arrays(spec.path)
    arguments = {
        "seen": "raise" if options.seen == "include" else options.seen,
        "unknown": options.unknown,
        "duplicates": "drop" if options.duplicates == "drop" else "raise",
        "missing": options.missing,
    }
    has_options = bool(spec.options) or set(arguments.values()) != {"raise"}
    if not has_options and spec.path != STANDARD_INPUT:
        return spec.path
    with spec.open_path() as path:
        try:
            return read_lists(path, **arguments | spec.parse_options())
        except ProblemsError as error:
            raise ProblemsError(error.source, error.problems, "ipseval.Lists") from None


def build_propensity(
    options: argparse.Namespace,
    log: HasIds,
    exposures: ImpressionLog | None = None,
    test_exposures: ImpressionLog | None = None,
) -> PropensityModel | None:
    """Return the propensity model that the options name, or None; random exposure gets the ids of `log`.

    `test_exposures` are the impressions that could produce the held-out clicks; None: all `exposures`.
    """
    from ipseval.propensity import PowerLawPropensity

    is_power_law = options.gamma is not None
    if options.recommendations is not None and not is_power_law:
        raise InputError(
            "--recommendations requires --gamma fit. Pass --gamma fit, or leave --recommendations out."
        )
    if not is_power_law and options.propensity is None and _list_label_options(options):
        raise InputError(
            "--scale and --unseen are options of a power law. Pass --gamma with them, or leave them out."
        )
    reads_exposure = options.gamma == "fit" or options.scale == "calibrated"
    if options.random_exposure is not None and not reads_exposure:
        raise InputError(
            "--random-exposure requires --gamma fit or --scale calibrated. `ipseval correct` compares the "
            "recommenders on the random exposure itself."
        )
    if options.propensity is not None:
        return _parse_propensity(options, exposures, test_exposures)
    if not is_power_law:
        return None

    recommendations = None
    if options.recommendations is not None:
        recommendations = load_table(options.recommendations)
    return PowerLawPropensity(
        gamma=options.gamma,
        scale=options.scale,
        unseen=options.unseen or "smooth",
        recommendations=recommendations,
        source=options.source,
        exposure=load_random_exposure(options, log) if reads_exposure else None,
    )


def _list_label_options(options: argparse.Namespace) -> dict[str, object]:
    """Return the values of --scale and --unseen that are given, by the names of the options in a label."""
    given: dict[str, object] = {}
    for name in ("scale", "unseen"):
        value = getattr(options, name)
        if value is not None:
            given[name] = value
    return given


def _parse_propensity(
    options: argparse.Namespace, exposures: ImpressionLog | None, test_exposures: ImpressionLog | None
) -> PropensityModel:
    """Return the model of the label, or of the table, in --propensity."""
    from ipseval.propensity import PROPENSITIES, KnownPropensity, parse_propensity
    from ipseval.propensity.labels import add_label_options

    label = options.propensity
    label_options = _list_label_options(options)
    name = re.split(r"[:(]", label)[0]
    is_label = PROPENSITIES.offers(name) or re.fullmatch(r"[\w-]+[:(].*", label) is not None
    if Path(label).exists() or not is_label:
        table = load_table(label, {"user": options.user, "item": options.item})
        if label_options:
            raise InputError(
                "--scale and --unseen are options of a propensity model, but --propensity names a file of values. "
                "Leave them out."
            )
        is_probability = RELATIVE not in table.columns
        values = table.rename(columns={RELATIVE: "propensity"})
        if "user" in table.columns:
            return KnownPropensity(pair=values, is_probability=is_probability)
        return KnownPropensity(item=values, is_probability=is_probability)
    model = parse_propensity(add_label_options(label, label_options))
    if name not in ("impressions", "logged"):
        return model
    if exposures is None:
        raise InputError(
            f"--propensity {name} needs impressions: a LOG with a column of clicks, named by --clicked."
        )
    log = exposures if test_exposures is None else test_exposures
    return replace(model, log=log, examination=fit_examination(options, exposures))  # type: ignore[type-var]  # a dataclass


def fit_examination(options: argparse.Namespace, exposures: ImpressionLog) -> Any:
    """Return the examination of positions fitted to the impressions, and None without --examination."""
    from ipseval.propensity import ExaminationModel

    if getattr(options, "examination", None) is None:
        return None
    return ExaminationModel(options.examination).fit(exposures)


def load_correction_data(options: argparse.Namespace, split: Split) -> dict[str, Any]:
    """Return the data that `correct` reads in addition to the log, by the names of its arguments."""
    return {
        "random_exposure": load_random_exposure(options, split),
        "interactions": load_interactions(options, split),
        "reference_values": parse_reference_values(options),
        "source": options.source,
    }


def parse_reference_values(
    options: argparse.Namespace,
) -> dict[object, dict[str, tuple[float, float]]] | None:
    """Return value and standard error by recommender, or pair of recommenders, and metric; None without any."""
    values: dict[object, dict[str, tuple[float, float]]] = {}
    for entry in options.reference_values:
        match = re.fullmatch(r"(.+):([^:=]+)=(.+?)(?:±|\+/?-)(.+)", entry)
        try:
            name, metric, value, error = match.groups()  # type: ignore[union-attr]  # None is caught
            estimate = (float(value), float(error))
        except (AttributeError, ValueError):
            raise InputError(
                f"--reference-values must be NAME:METRIC=VALUE+-ERROR; got {entry!r}. Write it as in "
                "old:recall@10=0.081+-0.006."
            ) from None
        subject: str | tuple[str, ...] = name
        if options.source == "randomised-ratio":
            subject = tuple(name.split("/"))
        values.setdefault(subject, {})[metric] = estimate
    return values or None


def load_random_exposure(options: argparse.Namespace, ids: HasIds) -> RandomExposure | None:
    """Return the random exposure of --random-exposure in the ids of a log or split, or None."""
    from ipseval.data.exposure_design import PROBABILITY
    from ipseval.data.random_exposure import RandomExposure
    from ipseval.data.reading.exposure_tables import read_random_exposure

    path = options.random_exposure
    allocation_path = getattr(options, "allocation", None)
    if path is None:
        if allocation_path is not None:
            raise InputError("--allocation requires --random-exposure; give the file with the answers.")
        return None
    frame = load_table(path, {"user": options.user, "item": options.item}, ("positive", "threshold"))
    threshold = parse_file_entry(path, None).parse_options().get("threshold")
    if threshold is None:
        threshold = getattr(options, "threshold", None)
    if "positive" not in frame.columns and "value" in frame.columns and isinstance(threshold, float):
        frame = frame.assign(positive=frame["value"] >= threshold)
    inclusion_probability: str | pd.DataFrame | None = None
    if allocation_path is not None:
        inclusion_probability = load_table(allocation_path, {"user": options.user, "item": options.item})
    elif PROBABILITY in frame.columns:
        inclusion_probability = PROBABILITY
    if inclusion_probability is None and "positive" not in frame.columns:
        return read_random_exposure(frame, ids, threshold)
    if inclusion_probability is None:
        return RandomExposure.from_frame(frame, ids)
    return RandomExposure.from_frame(
        frame,
        ids,
        inclusion_probability=inclusion_probability,
        missing=getattr(options, "unanswered", "raise"),
    )


def load_interactions(options: argparse.Namespace, split: Split) -> Interactions | None:
    """Return all pairs of --interactions, positive or not, in the ids of a split; None without it."""
    from ipseval.data.interactions import Interactions

    if getattr(options, "interactions", None) is None:
        return None
    all_pairs = argparse.Namespace(**vars(options) | {"threshold": "all", "unknown": "drop"})
    log = read_log(options.interactions, all_pairs, users=split.user_ids, items=split.item_ids)
    if not isinstance(log, Interactions):
        raise InputError("--interactions takes ratings or other pairs; an impression log is given as LOG.")
    return log


def load_universe(options: argparse.Namespace) -> dict[str, Any]:
    """Return the ids in the files of --users and --items as `users` and `items`, None where not given."""
    universe: dict[str, Any] = {"users": None, "items": None}
    if options.users is not None:
        universe["users"] = load_column(options.users, "user", options)
    if options.items is not None:
        universe["items"] = load_column(options.items, "item", options)
    return universe


def load_groups(options: argparse.Namespace) -> list[object]:
    """Return the groupings of --by: labels, and tables of attributes."""
    from ipseval.evaluation.segments.built_in_groups import BUILT_IN

    groupings: list[object] = []
    for entry in options.by:
        if entry.split(":")[0] in BUILT_IN:
            groupings.append(entry)
            continue
        path, _, column = entry.partition(":")
        if not Path(path).suffix:
            raise InputError(f"--by takes {', '.join(BUILT_IN)}, or FILE[:column]; got {entry!r}.")
        table = load_table(path, {"user": options.user, "item": options.item})
        ids = []
        for name in ("user", "item"):
            if name in table.columns:
                ids.append(name)

        if column and column not in table.columns:
            raise InputError(f"{path} has no column {column!r}; it has {', '.join(map(str, table.columns))}.")
        if column:
            table = table[[*ids, column]]
        groupings.append(table)
    return groupings
