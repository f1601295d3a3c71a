"""study(): models, logs and protocols in; how far the protocol changes the order out."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from ipseval._base.checks import as_list, check_fraction, check_positive_int, warn_user
from ipseval._base.compute import DEFAULT_COMPUTE, ComputeOptions, check_compute, quiet_tqdm
from ipseval.data import Interactions
from ipseval.errors import DataWarning, InputError
from ipseval.estimators._labels import AOA, SNIPS, SNIPS_GLOBAL, resolve_estimator
from ipseval.metrics.sampled._metric import requested_metrics
from ipseval.studies.protocols._evaluate import FRAME_COLUMNS, Options, Result, evaluate_protocol
from ipseval.studies.protocols._protocol import Protocol, grid
from ipseval.studies.protocols._result import ProtocolStudy
from ipseval.studies.protocols._run import FitFunction, Plan, Ranked, check_inputs, run
from ipseval.studies.protocols._store import Store
from ipseval.studies.protocols._tuned import Tuned

SETTING_COLUMNS = (
    *("log", "split", "k_core", "candidates", "model", "repeat", "setting", "metric", "value", "std_error"),
    *("n_tried", "n_settings", "chosen_share"),
)


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
    if total == 0:
        raise InputError("no protocol can be applied to any log: all need timestamps, and no log has them.")
    settings: list[dict[str, Any]] = []
    results, rows, notes = _evaluate_all(plan, options, total, progress, settings)
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
    plan: Plan, options: Options, total: int, progress: bool | None, settings: list[dict[str, Any]]
) -> tuple[list[Result], list[Any], list[str]]:
    """Return results, rows and notes of all protocols, in the order of logs and protocols as given."""
    found = {}
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
