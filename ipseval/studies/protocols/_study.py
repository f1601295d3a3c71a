"""study(): models, logs and protocols in, or a TOML file; how far the protocol changes the order out."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from ipseval.data import ImpressionLog, Interactions
from ipseval.data.reading import read
from ipseval.errors import DataWarning, InputError
from ipseval.estimators.labels import AOA, SNIPS, SNIPS_GLOBAL, resolve_estimator
from ipseval.metrics.sampled.sampled_metric import requested_metrics
from ipseval.ranking import SampledCandidates
from ipseval.studies.protocols._evaluate import FRAME_COLUMNS, Options, Result, evaluate_protocol
from ipseval.studies.protocols._protocol import Protocol, Tuned, grid
from ipseval.studies.protocols._result import ProtocolStudy
from ipseval.studies.protocols._run import FitFunction, Plan, Ranked, check_inputs, run
from ipseval.studies.protocols._store import Store
from ipseval.utils.artefacts import check_is_file, reading, writable
from ipseval.utils.border import fits
from ipseval.utils.checks import as_list, check_fraction, check_positive_int, examples, warn_user
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions, check_compute, quiet_tqdm

SETTING_COLUMNS = (
    *("log", "split", "k_core", "candidates", "model", "repeat", "setting", "metric", "value", "std_error"),
    *("n_tried", "n_settings", "chosen_share"),
)
# What each entry must be.
_TOP = {"path": str, "logs": dict, "models": dict, "protocols": dict, "study": dict}
_STUDY: dict[str, Any] = {
    "metrics": str | list[str],
    "estimators": str | list[str],
    "gammas": list[float],
    "k": int | list[int],
    "confidence_level": float,
    "n_resamples": int,
    "rng": int,
}
_PROTOCOLS: dict[str, Any] = {
    "order": list[str],
    "holdout": list[str],
    "k_core": list[int],
    "candidates": list[str | dict[str, Any]],
    "n_repeats": int,
    "test_fraction": float,
    "validation_fraction": float,
    "n_validation": int,
}
_READ = ("user", "item", "value", "timestamp", "clicked", "ignore", "duplicates", "missing", "units")
_LOG = {"file": str, "threshold": float, **dict.fromkeys(_READ, str)}
_MODEL = {"function": str, "options": dict}


def study(
    models: Mapping[str, FitFunction | Tuned],
    logs: Mapping[str, Interactions],
    protocols: Sequence[Protocol] | None = None,
    *,
    path: str | os.PathLike[str],
    metrics: str | Iterable[str] = ("auc", "recall@10", "ndcg@10"),
    estimators: Iterable[str] = (AOA, SNIPS, SNIPS_GLOBAL),
    gammas: Iterable[float] = (0.0, 1.0),
    k: Iterable[int] | None = None,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    rng: int = 0,
    progress: bool | None = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> ProtocolStudy:
    """Return how far the order of recommenders changes with the way they are evaluated.

    Every model is trained once per log, filter and split, and ranked once per choice of candidates; metrics,
    estimators and γ are computed from the stored ranks. Each ranking is a file in `path`, written
    whole or not at all: a study that was interrupted, at any moment, goes on where it stopped and gives the
    same tables, bit for bit, provided that the fit functions give the same scorer for the same training data.

    Parameters
    ----------
    models : mapping
        Name → fit function: takes training `Interactions`, returns a scorer (see `rank_positives`); or
        `Tuned`, whose settings are chosen on the validation part of every split and protocol. The
        stored ranks are found again by the version of this library and by the source of the function, its
        defaults, what it captured, the arguments of a `functools.partial`, and what it names in its module:
        your functions, classes and data are followed, other libraries count by their version. What it
        reads from files or the environment is not seen: after a change there use another name or folder.
    logs : mapping
        Name → `Interactions`. Protocols in time are left out, with a warning, for a log without timestamps.
    protocols : list of Protocol, optional
        Default: `grid()`, the four splits of Zhao et al. over the 5-core and the full catalogue.
    path : path
        Folder for the ranks; made if needed.
    metrics, estimators : labels
        As in `evaluate`.
    gammas : floats
        Exponents of the power-law propensity P_i ∝ (n*_i)^((γ+1)/2) for the weighted estimators, n* counted
        in the training part. Positives of items with n* = 0 are then left out everywhere.
    k : ints, optional
        Of OR@k; see `order_agreement`.
    confidence_level, n_resamples
        Of the intervals, from a bootstrap over users of the trained and ranked models: what another training
        set would have given is not in them.
    rng : int
        Seed of the random splits and of the bootstrap. A number, as a study goes on with the same splits.
    progress : bool, optional
        Show a progress bar; default: when the error stream is a terminal.
    compute : ComputeOptions
        As in `rank_positives`.

    Raises
    ------
    InputError, UnknownNameError
        For input that cannot be used. An error of a fit function passes through, with a note that says where.

    References
    ----------
    Zhao, Chen, Wang, Gu and Wen, "Revisiting Alternative Experimental Settings for Evaluating Top-N Item
    Recommendation Algorithms", CIKM 2020, https://doi.org/10.48550/arXiv.2010.04484
    """
    protocols = grid() if protocols is None else list(protocols)
    check_inputs(models, logs, protocols, rng)
    options = _options(metrics, estimators, gammas, n_resamples, rng)
    check_fraction("confidence_level", confidence_level)
    plan = Plan(models, logs, protocols, rng, Store.at(path), check_compute(compute))
    left_out = _without_time(plan)
    for text in left_out:
        warn_user(text, DataWarning)
    total = plan.n_ranks()
    if not total:
        raise InputError("no protocol can be applied to any log: all need timestamps, and no log has them.")
    results, rows, notes, settings = _evaluate_all(plan, options, total, progress)
    return ProtocolStudy(
        pd.DataFrame(rows, columns=list(FRAME_COLUMNS)),
        tuple(results),
        tuple(models),
        (*left_out, *notes),
        confidence_level,
        None if k is None else tuple(k),
        pd.DataFrame(settings, columns=list(SETTING_COLUMNS)),
    )


def _evaluate_all(
    plan: Plan, options: Options, total: int, progress: bool | None
) -> tuple[list[Result], list[Any], list[str], list[dict[str, Any]]]:
    """Return results, rows and notes of all protocols, in the order of logs and protocols, and settings."""
    found, settings = {}, []
    waiting: dict[tuple[str, str], list[Ranked]] = {}
    disable = None if progress is None else not progress
    with quiet_tqdm()(total=total, desc="study", unit="ranking", disable=disable) as bar:
        for ranked in run(plan, bar.update):
            key = (ranked.log, ranked.protocol.label)
            repeats = waiting.setdefault(key, [])
            repeats.append(ranked)
            settings += _settings(ranked)
            if len(repeats) == ranked.protocol.n_repeats:
                found[key] = evaluate_protocol(waiting.pop(key), plan.logs[ranked.log], options)
    parts = [
        found[name, protocol.label] for name, log in plan.logs.items() for protocol in plan.protocols_of(log)
    ]
    places: dict[str, list[str]] = {}
    for text, where in (note for part in parts for note in part[2]):
        places.setdefault(text, []).append(where)
    return (
        [result for part in parts for result in part[0]],
        [row for part in parts for row in part[1]],
        [f"{', '.join(dict.fromkeys(where))}: {text}" for text, where in places.items()],
        settings,
    )


def _settings(ranked: Ranked) -> list[dict[str, Any]]:
    """Return the rows of the settings that were chosen for one repeat of a protocol."""
    one = ranked.protocol
    where = {"log": ranked.log, "split": one.split_label, "k_core": one.core_label}
    where |= {"candidates": one.candidates_label}
    return [
        {**where, "model": model, "repeat": ranked.repeat, **chosen}
        for model, chosen in ranked.tuning.items()
    ]


def _options(
    metrics: Iterable[str],
    estimators: Iterable[str],
    gammas: Iterable[float],
    n_resamples: int,
    rng: int,
) -> Options:
    asked = [resolve_estimator(one) for one in as_list(estimators, "estimators")]
    chosen = Options(
        tuple(one.label for one in requested_metrics(metrics)),
        tuple(one.label for one in asked),
        tuple(float(gamma) for gamma in gammas),
        check_positive_int("n_resamples", n_resamples),
        rng,
    )
    weighted = [one.label for one in asked if one.weighted]
    if weighted and not chosen.gammas:
        raise InputError(f"{', '.join(weighted)} need gammas, for example gammas=[0.0, 1.0].")
    return chosen


def _without_time(plan: Plan) -> list[str]:
    """Return a sentence for each log that has no timestamps where protocols need them."""
    texts = []
    for name, log in plan.logs.items():
        labels = [one.split_label for one in plan.protocols if one not in plan.protocols_of(log)]
        if labels:
            texts.append(
                f"log {name!r} has no timestamps: {len(labels)} of {len(plan.protocols)} protocols are left "
                f"out for it ({', '.join(dict.fromkeys(labels))})."
            )
    return texts


def run_config(path: str | os.PathLike[str], *, progress: bool | None = None) -> ProtocolStudy:
    """Return the study that a TOML file describes, after writing its tables and report into its folder.

    ::

        path = "results"                    # folder for ranks, tables and report.md, relative to this file

        [logs.shop]                         # options of ipseval.read
        file = "shop.parquet"               # relative to this file
        timestamp = "time"                  # columns, where they have no usual name
        [logs.films]
        file = "ml-100k/u.data"
        threshold = 4                       # only pairs with this value or more are positives

        [models.popularity]
        function = "ipseval.ranking.baselines:popularity"    # module:function, train -> scorer
        [models.knn]
        function = "ipseval.ranking.baselines:item_knn"
        options = {n_neighbors = 50}

        [protocols]                         # as protocols.grid; k_core 0: no filter
        order = ["random", "temporal"]
        holdout = ["ratio", "leave-one-out", "global-time"]
        k_core = [5]
        candidates = ["all", {n_sampled = 100, distribution = "uniform", rng = 0}]

        [study]                             # as protocols.study
        metrics = ["auc", "recall@10"]
        gammas = [0.0, 1.0]

    Functions are imported, with the folder of the file on the path: use files that you trust.

    Raises
    ------
    InputError
        For a file that cannot be read, and for an unknown or missing entry.
    """
    source = Path(path)
    with reading(source, "It must be a TOML file."):
        check_is_file(source)
        config = tomllib.loads(source.read_text(encoding="utf-8"))
    _check_entries("the file", config, _TOP)
    for name in ("logs", "models"):
        if not config.get(name):
            raise InputError(f"{source} needs at least one [{name}.<name>].")
    folder = source.parent
    target = folder / config.get("path", f"{source.stem}-results")
    writable(target / "report.md")
    _check_entries("[study]", config.get("study", {}), _STUDY)
    found = study(
        {name: _model(name, entry, folder) for name, entry in config["models"].items()},
        {name: _log(name, entry, folder) for name, entry in config["logs"].items()},
        _protocols(config.get("protocols", {})),
        path=target,
        progress=progress,
        **config.get("study", {}),
    )
    found.to_folder(target)
    return found


def _log(name: str, entry: Any, folder: Path) -> Interactions:
    where = f"[logs.{name}]"
    _check_entries(where, entry, _LOG)
    if "file" not in entry:
        raise InputError(f"{where} needs file = '<path>'.")
    options = {key: value for key, value in entry.items() if key != "file"}
    log = read(folder / entry["file"], **options)
    log = log.positives if isinstance(log, ImpressionLog) else log
    return replace(log, value=None) if "threshold" in entry else log  # positives count alike


def _model(name: str, entry: Any, folder: Path) -> Callable[[Interactions], Any]:
    where = f"[models.{name}]"
    _check_entries(where, entry, _MODEL)
    module_name, colon, attribute = entry.get("function", "").partition(":")
    if not (module_name and colon and attribute):
        raise InputError(f"{where} needs function = 'module:function'; got {entry.get('function')!r}.")
    if str(folder.resolve()) not in sys.path:
        sys.path.insert(0, str(folder.resolve()))
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # a caller's module may raise anything, or end the program
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{where}: importing {entry['function']} failed ({reason}).") from error
    options = entry.get("options", {})
    _check_call(where, function, None, **options)
    return functools.partial(function, **options) if options else function


def _protocols(entry: Any) -> list[Protocol]:
    _check_entries("[protocols]", entry, _PROTOCOLS)
    options = dict(entry)
    if "k_core" in options:
        options["k_core"] = [core or None for core in options["k_core"]]
    if "candidates" in options:
        options["candidates"] = [_candidates(one) for one in options["candidates"]]
    return grid(**options)


def _candidates(entry: Any) -> Any:
    """Return "all", or sampled candidates from a table of their options."""
    if not isinstance(entry, dict):
        return entry
    if "rng" not in entry:
        raise InputError(f"candidates {entry}: give a seed (rng = 0), so that the study can be resumed.")
    _check_call(f"candidates {entry}", SampledCandidates, **entry)
    return SampledCandidates(**entry)


def _check_call(where: str, function: Any, *arguments: Any, **options: Any) -> None:
    """Raise `InputError` when a function does not take these options."""
    try:
        inspect.signature(function).bind(*arguments, **options)
    except TypeError as error:
        raise InputError(f"{where}: {getattr(function, '__name__', function)}: {error}.") from None
    except ValueError:  # compiled: it does not say what it takes
        return


def _check_entries(where: str, entry: Any, known: dict[str, Any]) -> None:
    if not isinstance(entry, dict):
        raise InputError(f"{where} must be a table; got {entry!r}.")
    unknown = [name for name in entry if name not in known]
    if unknown:
        raise InputError(f"{where} has unknown entries {examples(unknown)}; known: {', '.join(known)}.")
    for name, value in entry.items():
        if not fits(value, known[name]):
            said = getattr(known[name], "__name__", "") if isinstance(known[name], type) else known[name]
            raise InputError(f"{where}: {name} must be {said}; got {value!r:.80}.")
