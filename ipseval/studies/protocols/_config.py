"""A study from a TOML file: `ipseval study config.toml`."""

from __future__ import annotations

import functools
import importlib
import inspect
import os
import sys
import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from ipseval._base.artefacts import check_is_file, read_table, reading, writable
from ipseval._base.checks import examples
from ipseval.data import Interactions
from ipseval.errors import InputError, UnknownNameError
from ipseval.ranking import SampledCandidates
from ipseval.studies.protocols._protocol import Protocol, grid
from ipseval.studies.protocols._result import ProtocolStudy
from ipseval.studies.protocols._study import study
from ipseval.validation import datasets

# What each entry must be: a type, a list of it, or one of several.
_TOP = {"path": str, "logs": dict, "models": dict, "protocols": dict, "study": dict}
_STUDY = {
    "metrics": (str, [str]),
    "estimators": (str, [str]),
    "gammas": [float],
    "k": (int, [int]),
    "confidence_level": float,
    "n_resamples": int,
    "rng": int,
}
_PROTOCOLS = {
    "order": [str],
    "holdout": [str],
    "k_core": [int],
    "candidates": [(str, dict)],
    "n_repeats": int,
    "test_fraction": float,
    "validation_fraction": float,
    "n_validation": int,
}
_COLUMNS = {"user": str, "item": str, "value": str, "timestamp": str, "duplicates": str}
_LOG = {"file": str, "dataset": str, "options": dict, "min_value": float, **_COLUMNS}
_MODEL = {"function": str, "options": dict}
_WORDS = {str: "text", int: "a whole number", float: "a number", dict: "a table"}


def run_config(path: str | os.PathLike[str], *, progress: bool | None = None) -> ProtocolStudy:
    """Return the study that a TOML file describes, after writing its tables and report into its folder.

    ::

        path = "results"                    # folder for ranks, tables and report.md, relative to this file

        [logs.shop]                         # a table of interactions …
        file = "shop.parquet"               # CSV, TSV or Parquet, relative to this file
        timestamp = "time"                  # columns; user and item are the default of these two
        [logs.films]                        # … or a data set by its loader
        dataset = "movielens"               # ipseval.datasets.load_movielens
        file = "ml-100k"                    # options = {…} are passed to the loader
        # min_value = 4: only pairs with this value or more are positives, and count alike

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
    found.save(target)
    return found


def _log(name: str, entry: Any, folder: Path) -> Interactions:
    where = f"[logs.{name}]"
    _check_entries(where, entry, _LOG)
    if "file" not in entry:
        raise InputError(f"{where} needs file = '<path>'.")
    log = _read_log(where, entry, folder / entry["file"])
    if "min_value" not in entry:
        return log
    if log.value is None:
        raise InputError(f"{where}: min_value needs values, and this log has none.")
    with reading(where, "min_value is for numbers."):
        keep = log.value >= entry["min_value"]
    return replace(log.select(keep), value=None, n_pairs_removed=log.n_pairs_removed + int((~keep).sum()))


def _read_log(where: str, entry: dict[str, Any], file: Path) -> Interactions:
    columns = {key: entry[key] for key in _COLUMNS if key in entry}
    options = entry.get("options", {})
    if "dataset" not in entry:
        if options:
            raise InputError(f"{where}: options are for the loader of a dataset; this is a file.")
        return Interactions.from_frame(read_table(file), **columns)
    if columns:
        raise InputError(f"{where}: a dataset is read by its loader; remove {', '.join(columns)}.")
    loader = getattr(datasets, f"load_{entry['dataset']}", None)
    if loader is None:
        known = [one.removeprefix("load_") for one in dir(datasets) if one.startswith("load_")]
        raise UnknownNameError(f"dataset in {where}:", entry["dataset"], known)
    with reading(where, "See the documentation of its loader for the options."):
        loaded = loader(file, **options)
    if isinstance(loaded, datasets.RandomExposureStudy):
        # Of biased against random exposure, the self-selected positives are the log.
        return loaded.positives().biased
    if not isinstance(loaded, Interactions):
        raise InputError(f"{where}: {entry['dataset']} is no log of interactions.")
    return loaded


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
        if not _is(value, known[name]):
            raise InputError(f"{where}: {name} must be {_words(known[name])}; got {value!r:.80}.")


def _is(value: Any, kind: Any) -> bool:
    if isinstance(kind, tuple):
        return any(_is(value, one) for one in kind)
    if isinstance(kind, list):
        return isinstance(value, list) and all(_is(one, kind[0]) for one in value)
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float) if kind is float else kind)


def _words(kind: Any) -> str:
    if isinstance(kind, tuple):
        return " or ".join(map(_words, kind))
    return f"a list, each entry {_words(kind[0])}" if isinstance(kind, list) else _WORDS[kind]
