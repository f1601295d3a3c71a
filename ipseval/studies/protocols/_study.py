"""study(): the effect of evaluation protocols on the ranking of recommenders, from Python or a TOML file."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

import pandas as pd

from ipseval.data import ImpressionLog, Interactions
from ipseval.data.reading import read
from ipseval.errors import DataWarning, InputError
from ipseval.estimators.labels import AOA, SNIPS_GLOBAL, SNIPS_PER_USER, resolve_estimator
from ipseval.metrics.labels import resolve_metrics
from ipseval.ranking import SampledCandidates
from ipseval.studies.protocols._evaluate import (
    FRAME_COLUMNS,
    Options,
    ProtocolEvaluation,
    ProtocolResult,
    evaluate_protocol,
)
from ipseval.studies.protocols._protocol import Protocol, Tuned, grid
from ipseval.studies.protocols._result import ProtocolStudy
from ipseval.studies.protocols._run import FitFunction, Plan, RankedProtocol, check_inputs, run_plan
from ipseval.studies.protocols._store import Store
from ipseval.utils.annotations import fits_annotation
from ipseval.utils.artefacts import check_is_file, check_writable, reading
from ipseval.utils.checks import as_list, check_fraction, check_positive_int, format_examples, warn_user
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions, check_compute, quiet_tqdm
from ipseval.utils.public import public_function

SETTING_COLUMNS = (
    "log",
    "split",
    "k_core",
    "candidates",
    "model",
    "repeat",
    "setting",
    "metric",
    "value",
    "std_error",
    "n_tried",
    "n_settings",
    "chosen_share",
)
TomlTable: TypeAlias = dict[str, Any]
# Types of the entries of a TOML file.
_TOP_LEVEL_ENTRIES = {"path": str, "logs": dict, "models": dict, "protocols": dict, "study": dict}
_STUDY_ENTRIES: dict[str, object] = {
    "metrics": str | list[str],
    "estimators": str | list[str],
    "gammas": list[float],
    "k": int | list[int],
    "confidence_level": float,
    "n_resamples": int,
    "rng": int,
}
_PROTOCOLS_ENTRIES: dict[str, object] = {
    "order": list[str],
    "holdout": list[str],
    "k_core": list[int],
    "candidates": list[str | dict[str, Any]],
    "n_repeats": int,
    "test_fraction": float,
    "validation_fraction": float,
    "n_validation": int,
}
_LOG_ENTRIES = {
    "file": str,
    "threshold": float,
    "user": str,
    "item": str,
    "value": str,
    "timestamp": str,
    "clicked": str,
    "ignore": str,
    "duplicates": str,
    "missing": str,
    "units": str,
}
_MODEL_ENTRIES = {"function": str, "options": dict}


@dataclass(frozen=True, eq=False)
class _StudyTables:
    """Results of all protocols, with the rows and notes of a study."""

    results: list[ProtocolResult]
    rows: list[tuple[object, ...]]
    notes: list[str]
    settings: list[dict[str, object]]


@public_function
def study(
    models: Mapping[str, FitFunction | Tuned],
    logs: Mapping[str, Interactions],
    protocols: Sequence[Protocol] | None = None,
    *,
    path: str | os.PathLike[str],
    metrics: str | Iterable[str] = ("auc", "recall@10", "ndcg@10"),
    estimators: Iterable[str] = (AOA, SNIPS_PER_USER, SNIPS_GLOBAL),
    gammas: Iterable[float] = (0.0, 1.0),
    k: Iterable[int] | None = None,
    confidence_level: float = 0.95,
    n_resamples: int = 1000,
    rng: int = 0,
    progress: bool | None = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> ProtocolStudy:
    """Compare the ranking of recommenders between evaluation protocols.

    Every model is trained once per log, filter and split, and ranked once per choice of candidates; metrics,
    estimators and γ are computed from the stored ranks. Each ranking is a file in `path`, written completely
    or not at all. An interrupted study therefore continues where it stopped and gives the same tables, bit
    for bit, provided that the fit functions give the same scorer for the same training data.

    Parameters
    ----------
    models : mapping
        Name → fit function: takes training `Interactions`, returns a scorer (see `rank_positives`); or
        `Tuned`, whose settings are chosen on the validation part of every split and protocol. The stored
        ranks are found again by the version of this library and by the source of the function, its defaults,
        captured variables, the arguments of a `functools.partial`, and the names in its module that it refers
        to: your functions, classes and data are followed, other libraries count by their version. Files and
        environment variables that it reads are not included: after a change there use another name or folder.
    logs : mapping
        Name → `Interactions`. Protocols in time are left out, with a warning, for a log without timestamps.
    protocols : list of Protocol, optional
        Default: `grid()`, the four splits of Zhao et al. over the 5-core and the full catalogue.
    path : str or path
        Folder for the ranks; created if needed.
    metrics, estimators : labels
        As in `evaluate`.
    gammas : iterable of float, default (0.0, 1.0)
        Exponents of the power-law propensity P_i ∝ (n*_i)^((γ+1)/2) for the weighted estimators, n* counted
        in the training part, plus 1.
    k : iterable of int, optional
        The k of OR@k; see `order_agreement`.
    confidence_level, n_resamples : float and int, default 0.95 and 1000
        Level of the intervals, and resamples of the users, from which the correlations between the noise of
        the estimates are computed. The uncertainty from other training sets is not included.
    rng : int, default 0
        Seed of the random splits and of the bootstrap. It is a number, so that a study can be resumed with
        the same splits.
    progress : bool, optional
        Show a progress bar; default: when the error stream is a terminal.
    compute : ComputeOptions
        As in `rank_positives`.

    Returns
    -------
    ProtocolStudy
        Estimates of every protocol, and the agreement of their rankings.

    Raises
    ------
    InputError, UnknownNameError
        For input that cannot be used. An error of a fit function is raised with a note of the model, log and
        split.

    See Also
    --------
    grid : Combine the options of protocols.
    run_config : Run the study that a TOML file describes.

    References
    ----------
    Zhao, Chen, Wang, Gu and Wen, "Revisiting Alternative Experimental Settings for Evaluating Top-N Item
    Recommendation Algorithms", CIKM 2020, https://doi.org/10.48550/arXiv.2010.04484

    Examples
    --------
    Two protocols for three recommenders; the ranks are stored in a folder, here a temporary one:

    >>> from tempfile import TemporaryDirectory
    >>> from ipseval import baselines, simulation
    >>> from ipseval.studies.protocols import grid
    >>> log = simulation.World(n_users=200, n_items=60, mean_relevant=12, rng=0).observe(rng=1)
    >>> protocols = grid(order=["random"], holdout=["ratio", "leave-one-out"], k_core=[2])
    >>> models = {"popular": baselines.popularity, "kNN": baselines.item_knn, "EASE": baselines.ease}
    >>> with TemporaryDirectory() as folder:
    ...     result = study(
    ...         models, {"simulated": log}, protocols, path=folder, metrics=["recall@10"], estimators=["aoa"]
    ...     )
    >>> result.compare_levels("split")[["split_a", "split_b", "metric", "src", "tau_b"]].round(2)
      split_a split_b     metric  src  tau_b
    0   RO_RS   RO_LS  recall@10  0.5   0.33
    """
    protocols = grid() if protocols is None else list(protocols)
    check_inputs(models, logs, protocols, rng)
    options = _check_options(metrics, estimators, gammas, n_resamples, rng)
    check_fraction("confidence_level", confidence_level)
    plan = Plan(
        models=models,
        logs=logs,
        protocols=protocols,
        rng=rng,
        store=Store.from_path(path),
        compute=check_compute(compute),
    )
    omissions = _describe_omitted_protocols(plan)
    for text in omissions:
        warn_user(text, DataWarning)
    if not plan.count_rankings():
        raise InputError("no protocol can be applied to any log: all need timestamps, and no log has them.")
    tables = _evaluate_all(plan, options, progress)
    return ProtocolStudy(
        frame=pd.DataFrame(tables.rows, columns=list(FRAME_COLUMNS)),
        results=tuple(tables.results),
        models=tuple(models),
        notes=(*omissions, *tables.notes),
        confidence_level=confidence_level,
        k=None if k is None else tuple(k),
        settings=pd.DataFrame(tables.settings, columns=list(SETTING_COLUMNS)),
    )


def _evaluate_all(plan: Plan, options: Options, progress: bool | None) -> _StudyTables:
    """Return results, rows and notes of all protocols, in the order of logs and protocols, and settings."""
    evaluations: dict[tuple[str, str], ProtocolEvaluation] = {}
    settings = []
    pending: dict[tuple[str, str], list[RankedProtocol]] = {}
    disable = None if progress is None else not progress
    n_rankings = plan.count_rankings()
    with quiet_tqdm()(total=n_rankings, desc="study", unit="ranking", disable=disable) as bar:
        for ranked in run_plan(plan, bar.update):
            key = (ranked.log, ranked.protocol.label)
            repeats = pending.setdefault(key, [])
            repeats.append(ranked)
            settings.extend(_list_settings(ranked))
            if len(repeats) == ranked.protocol.n_repeats:
                evaluations[key] = evaluate_protocol(pending.pop(key), plan.logs[ranked.log], options)
    ordered: list[ProtocolEvaluation] = []
    for name, log in plan.logs.items():
        ordered.extend(evaluations[name, protocol.label] for protocol in plan.list_protocols(log))
    results = []
    rows = []
    for evaluation in ordered:
        results.extend(evaluation.results)
        rows.extend(evaluation.rows)
    return _StudyTables(results=results, rows=rows, notes=_merge_notes(ordered), settings=settings)


def _merge_notes(evaluations: Iterable[ProtocolEvaluation]) -> list[str]:
    """Return each warning once, with the logs and splits that it concerns."""
    subjects_by_text: dict[str, list[str]] = {}
    for evaluation in evaluations:
        for text in evaluation.warnings:
            subjects_by_text.setdefault(text, []).append(evaluation.subject)
    notes = []
    for text, subjects in subjects_by_text.items():
        notes.append(f"{', '.join(dict.fromkeys(subjects))}: {text}")
    return notes


def _list_settings(positives: RankedProtocol) -> list[dict[str, object]]:
    """Return the rows of the settings that were chosen for one repeat of a protocol."""
    protocol = positives.protocol
    rows = []
    for model, tuning in positives.tuning.items():
        row = {
            "log": positives.log,
            "split": protocol.split_label,
            "k_core": protocol.core_label,
            "candidates": protocol.candidates_label,
            "model": model,
            "repeat": positives.repeat,
        }
        rows.append({**row, **tuning})
    return rows


def _check_options(
    metrics: Iterable[str],
    estimators: Iterable[str],
    gammas: Iterable[float],
    n_resamples: int,
    rng: int,
) -> Options:
    """Return the options of the evaluations; raise `InputError` for weighted estimators without γ."""
    estimator_objects = []
    for request in as_list(estimators, "estimators"):
        estimator_objects.append(resolve_estimator(request))

    options = Options(
        metrics=tuple(metric.label for metric in resolve_metrics(metrics)),
        estimators=tuple(estimator.label for estimator in estimator_objects),
        gammas=tuple(float(gamma) for gamma in gammas),
        n_resamples=check_positive_int("n_resamples", n_resamples),
        rng=rng,
    )
    weighted = []
    for estimator in estimator_objects:
        if estimator.weighted:
            weighted.append(estimator.label)

    if weighted and not options.gammas:
        raise InputError(f"{', '.join(weighted)} need gammas, for example gammas=[0.0, 1.0].")
    return options


def _describe_omitted_protocols(plan: Plan) -> list[str]:
    """Return a sentence for each log that has no timestamps where protocols need them."""
    sentences = []
    for name, log in plan.logs.items():
        included = plan.list_protocols(log)
        labels = []
        for protocol in plan.protocols:
            if protocol not in included:
                labels.append(protocol.split_label)

        if labels:
            sentences.append(
                f"log {name!r} has no timestamps: {len(labels)} of {len(plan.protocols)} protocols are left "
                f"out for it ({', '.join(dict.fromkeys(labels))})."
            )
    return sentences


@public_function
def run_config(path: str | os.PathLike[str], *, progress: bool | None = None) -> ProtocolStudy:
    """Run the study that a TOML file describes, and write its tables and report into its folder.

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

    Parameters
    ----------
    path : str or path
        TOML file.
    progress : bool, optional
        Show a progress bar; default: when the error stream is a terminal.

    Returns
    -------
    ProtocolStudy
        The study, whose tables are in the folder.

    Raises
    ------
    InputError
        For a file that cannot be read, and for an unknown or missing entry.

    See Also
    --------
    study : Run a study from Python.

    Examples
    --------
    A log and two recommenders, with the splits of `grid` that need no timestamps:

    >>> from tempfile import TemporaryDirectory
    >>> from ipseval import simulation
    >>> log = simulation.World(n_users=200, n_items=60, mean_relevant=12, rng=0).observe(rng=1)
    >>> config = '''
    ... [logs.simulated]
    ... file = "log.csv"
    ... [models.popularity]
    ... function = "ipseval.ranking.baselines:popularity"
    ... [models.knn]
    ... function = "ipseval.ranking.baselines:item_knn"
    ... [protocols]
    ... order = ["random"]
    ... k_core = [2]
    ... [study]
    ... metrics = ["recall@10"]
    ... estimators = ["aoa"]
    ... '''
    >>> with TemporaryDirectory() as folder:
    ...     log.to_frame().to_csv(f"{folder}/log.csv", index=False)
    ...     _ = Path(f"{folder}/study.toml").write_text(config)
    ...     result = run_config(f"{folder}/study.toml", progress=False)
    >>> result.frame[["split", "model", "metric", "estimate"]].round(2)
       split       model     metric  estimate
    0  RO_RS  popularity  recall@10      0.85
    1  RO_RS         knn  recall@10      0.75
    2  RO_LS  popularity  recall@10      0.74
    3  RO_LS         knn  recall@10      0.53
    """
    source = Path(path)
    with reading(source, "It must be a TOML file."):
        check_is_file(source)
        config = tomllib.loads(source.read_text(encoding="utf-8"))
    _check_entries("the file", config, _TOP_LEVEL_ENTRIES)
    for name in ("logs", "models"):
        if not config.get(name):
            raise InputError(f"{source} needs at least one [{name}.<name>].")
    folder = source.parent
    target = folder / config.get("path", f"{source.stem}-results")
    check_writable(target / "report.md")
    study_options = config.get("study", {})
    _check_entries("[study]", study_options, _STUDY_ENTRIES)
    models = {}
    for name, entry in config["models"].items():
        models[name] = _load_model(name, entry, folder)

    logs = {}
    for name, entry in config["logs"].items():
        logs[name] = _read_log(name, entry, folder)

    result = study(
        models,
        logs,
        _build_protocols(config.get("protocols", {})),
        path=target,
        progress=progress,
        **study_options,
    )
    result.to_folder(target)
    return result


def _read_log(name: str, entry: TomlTable, folder: Path) -> Interactions:
    """Return the log of an entry [logs.<name>]."""
    section = f"[logs.{name}]"
    _check_entries(section, entry, _LOG_ENTRIES)
    if "file" not in entry:
        raise InputError(f"{section} needs file = '<path>'.")
    options = {}
    for key, value in entry.items():
        if key != "file":
            options[key] = value

    log = read(folder / entry["file"], **options)
    if isinstance(log, ImpressionLog):
        log = log.positives
    if "threshold" in entry:
        return replace(log, value=None)  # every pair from the threshold on is an equal positive
    return log


def _load_model(name: str, entry: TomlTable, folder: Path) -> Callable[[Interactions], object]:
    """Return the fit function of an entry [models.<name>]."""
    section = f"[models.{name}]"
    _check_entries(section, entry, _MODEL_ENTRIES)
    module_name, colon, attribute = entry.get("function", "").partition(":")
    if not (module_name and colon and attribute):
        raise InputError(f"{section} needs function = 'module:function'; got {entry.get('function')!r}.")
    search_path = str(folder.resolve())
    if search_path not in sys.path:
        sys.path.insert(0, search_path)
    try:
        function = getattr(importlib.import_module(module_name), attribute)
    except (Exception, SystemExit) as error:  # a caller's module may raise anything, or end the program
        reason = f"{type(error).__name__}: {error}"
        raise InputError(f"{section}: importing {entry['function']} failed ({reason}).") from error
    options = entry.get("options", {})
    _check_call(section, function, None, **options)
    if options:
        return functools.partial(function, **options)
    return cast(Callable[[Interactions], Any], function)


def _build_protocols(entry: TomlTable) -> list[Protocol]:
    """Return the protocols of the entry [protocols]."""
    _check_entries("[protocols]", entry, _PROTOCOLS_ENTRIES)
    options = dict(entry)
    if "k_core" in options:
        options["k_core"] = [core or None for core in options["k_core"]]  # 0: no filter
    if "candidates" in options:
        options["candidates"] = [_build_candidates(value) for value in options["candidates"]]
    return grid(**options)


def _build_candidates(entry: object) -> Any:
    """Return "all", or sampled candidates from a table of their options."""
    if not isinstance(entry, dict):
        return entry
    if "rng" not in entry:
        raise InputError(f"candidates {entry}: give a seed (rng = 0), so that the study can be resumed.")
    _check_call(f"candidates {entry}", SampledCandidates, **entry)
    return SampledCandidates(**entry)


def _check_call(section: str, function: Any, *arguments: Any, **options: Any) -> None:
    """Raise `InputError` when a function does not take these options."""
    try:
        inspect.signature(function).bind(*arguments, **options)
    except TypeError as error:
        raise InputError(f"{section}: {getattr(function, '__name__', function)}: {error}.") from None
    except ValueError:  # compiled functions may have no signature
        return


def _check_entries(section: str, entry: object, types: Mapping[str, object]) -> None:
    """Raise `InputError` unless an entry is a table with known names and values of their types."""
    if not isinstance(entry, dict):
        raise InputError(f"{section} must be a table; got {entry!r}.")
    unknown = []
    for name in entry:
        if name not in types:
            unknown.append(name)

    if unknown:
        raise InputError(
            f"{section} has unknown entries {format_examples(unknown)}; known: {', '.join(types)}."
        )
    for name, value in entry.items():
        if not fits_annotation(value, types[name]):
            type_name = getattr(types[name], "__name__", "") if isinstance(types[name], type) else types[name]
            raise InputError(f"{section}: {name} must be {type_name}; got {value!r:.80}.")
