"""From ranks to estimates, their covariance over users and their bootstrap replicates."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property

import numpy as np
import pandas as pd

from ipseval.data import Interactions
from ipseval.estimators import Estimate
from ipseval.estimators.labels import resolve_estimator
from ipseval.evaluation import Evaluation, evaluate_ranks
from ipseval.inference.orders import RowOrders
from ipseval.propensity import PowerLawPropensity
from ipseval.studies.protocols._run import Ranked
from ipseval.utils.types import FloatArray, IntArray

FRAME_COLUMNS = (
    *("log", "split", "k_core", "candidates", "model", "metric", "estimator", "gamma"),
    *("estimate", "std_error", "std_repeats", "n_repeats", "n_users", "n_positives"),
    *("n_cold_users", "n_cold_items", "leakage", "median_future", "note"),
)


@dataclass(frozen=True)
class Setting:
    """Where a number stands: everything but the model and the metric."""

    log: str
    split: str
    k_core: str
    candidates: str
    estimator: str
    gamma: float | None


@dataclass(frozen=True, eq=False)
class Result:
    """All models under one setting and metric."""

    setting: Setting
    metric: str
    estimates: FloatArray  # (n_models,) means over repeats
    covariance: FloatArray  # (n_models, n_models) of the estimates, over users
    replicates: FloatArray  # (n_resamples, n_models) over users: the same under every setting of a log
    repeats: FloatArray  # (n_repeats, n_models) estimates of each repeat
    n_users: int  # that entered any of the estimates
    note: str

    @cached_property
    def orders(self) -> RowOrders:
        """The order of the models in each replicate."""
        return RowOrders.of(self.replicates)


@dataclass(frozen=True)
class Options:
    """What to compute from the ranks."""

    metrics: tuple[str, ...]
    estimators: tuple[str, ...]
    gammas: tuple[float, ...]
    n_resamples: int
    rng: int


def evaluate_protocol(
    repeats: Sequence[Ranked], log: Interactions, options: Options
) -> tuple[list[Result], list[tuple[object, ...]], list[tuple[str, str]]]:
    """Return results, table rows and warnings of one protocol on one log, averaged over repeats."""
    # The influence of user u on the estimate of a repeat, ψ_u/n, is averaged over repeats: the variance is Σ
    # over users of its square, and a replicate adds Σ w_u ψ_u/n, w_u the number of times u was drawn. Models
    # are taken as trained; the variance between training sets is not in it.
    first = repeats[0]
    evaluations: dict[tuple[str, float | None], list[Evaluation]] = {}
    warned: list[str] = []
    for ranked in repeats:
        warned += ranked.warnings
        for key, evaluation in _evaluations(ranked, options, warned).items():
            evaluations.setdefault(key, []).append(evaluation)
    keys = [
        (metric, estimator, gamma)
        for metric in next(iter(evaluations.values()))[0].metrics
        for estimator, gamma in evaluations
    ]
    places = pd.Index(log.user_ids).get_indexer(pd.Index(first.split.user_ids))
    models = list(first.ranks)
    estimates = [
        [
            [one.estimate(model, metric, estimator) for one in evaluations[estimator, gamma]]
            for model in models
        ]
        for metric, estimator, gamma in keys
    ]
    parts = np.stack([_contribution(one, places, log.n_users) for row in estimates for one in row], axis=1)
    shifts = _replicates(parts, options, first.log).reshape(-1, len(keys), len(models))
    cubes = parts.reshape(log.n_users, len(keys), len(models))
    results, rows, protocol = [], [], first.protocol
    for number, (metric, estimator, gamma) in enumerate(keys):
        labels = (protocol.split_label, protocol.core_label, protocol.candidates_label)
        setting = Setting(first.log, *labels, estimator, gamma)
        values = np.array([np.mean([one.value for one in repeated]) for repeated in estimates[number]])
        n_entered = _entered(estimates[number]).size
        covariance = _covariance(cubes[:, number], n_entered)
        note = "; ".join(dict.fromkeys(note for one in estimates[number][0] for note in one.notes))
        replicates = values + shifts[:, number]
        each = np.array([[one.value for one in repeated] for repeated in estimates[number]]).T
        results.append(Result(setting, metric, values, covariance, replicates, each, n_entered, note))
        rows += _rows(results[-1], models, estimates[number], repeats)
    where = f"{first.log} {first.protocol.split_label}"
    return results, rows, [(text, where) for text in dict.fromkeys(warned)]


def _evaluations(
    ranked: Ranked, options: Options, warned: list[str]
) -> dict[tuple[str, float | None], Evaluation]:
    """Return the evaluation of each estimator and γ; unweighted estimators have no γ."""
    weighted = [label for label in options.estimators if resolve_estimator(label).weighted]
    plain = [label for label in options.estimators if label not in weighted]
    found: dict[tuple[str, float | None], Evaluation] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # Without weights there is no propensity, and every positive enters.
        for gamma in options.gammas if weighted else (None,):
            propensity = None if gamma is None else PowerLawPropensity(gamma=gamma).fit(ranked.split.train)
            asked = [label for label in options.estimators if label in weighted or not found]
            evaluation = evaluate_ranks(
                ranked.ranks, propensity=propensity, metrics=options.metrics, estimators=asked
            )
            if not found:
                found |= {(label, None): evaluation for label in plain}
            found |= {(label, gamma): evaluation for label in asked if label in weighted}
    warned += [str(one.message) for one in caught]
    return found


def _contribution(repeats: Sequence[Estimate], places: IntArray, n_users: int) -> FloatArray:
    """Return ψ_u/n of each user of the log, averaged over repeats; 0 for users that did not enter."""
    total = np.zeros(n_users)
    for one in repeats:
        if one.sums.n_users:
            users, effects = one.user_sums.effects()
            total[places[users]] += effects
        else:
            total[:] = np.nan
    return total / len(repeats)


def _entered(estimates: Iterable[Iterable[Estimate]]) -> IntArray:
    """Return the users that entered any of the estimates, ascending."""
    return np.unique(np.concatenate([one.user_sums.users for repeats in estimates for one in repeats]))


def _covariance(parts: FloatArray, n_entered: int) -> FloatArray:
    """Return m/(m − 1) Σ_u ψ_u ψ_uᵀ/n² over the m users that entered; NaN with fewer than two."""
    factor = n_entered / (n_entered - 1) if n_entered > 1 else np.nan
    covariance: FloatArray = np.einsum("um,un->mn", parts, parts) * factor
    return covariance


def _replicates(parts: FloatArray, options: Options, log: str) -> FloatArray:
    """Return Σ_u w_u ψ_u/n of each draw, (n_resamples, columns): the same draws in all protocols of a log."""
    generator = np.random.default_rng([options.rng, zlib.crc32(log.encode())])
    n_users = len(parts)
    shifts = np.empty((options.n_resamples, parts.shape[1]))
    for number in range(options.n_resamples):
        times = np.bincount(generator.integers(0, n_users, n_users), minlength=n_users)
        drawn = np.flatnonzero(times)
        # einsum, unlike a BLAS product, adds up in the same order whatever the number of threads.
        shifts[number] = np.einsum("u,um->m", times[drawn].astype(np.float64), parts[drawn])
    return shifts


def _rows(
    result: Result, models: list[str], estimates: list[list[Estimate]], repeats: Sequence[Ranked]
) -> list[tuple[object, ...]]:
    setting = result.setting
    where = (setting.log, setting.split, setting.k_core, setting.candidates)
    gamma = np.nan if setting.gamma is None else setting.gamma
    errors = np.sqrt(np.diag(result.covariance))
    n_cold = [sum(getattr(one.split, name) for one in repeats) for name in ("n_cold_users", "n_cold_items")]
    leaks = [one.split.leakage for one in repeats if one.split.leakage is not None]
    future = [
        float(np.mean(values)) if values else np.nan
        for values in ([leak.share for leak in leaks], [leak.median_future for leak in leaks])
    ]
    rows = []
    for model, value, error, repeated in zip(models, result.estimates, errors, estimates, strict=True):
        values = np.array([one.value for one in repeated])
        spread = float(values.std(ddof=1)) if values.size > 1 else np.nan
        n_positives = sum(one.n_positives for one in repeated)
        counts = (len(repeats), _entered([repeated]).size, n_positives, *n_cold)
        note = "; ".join(dict.fromkeys(note for one in repeated for note in one.notes))
        numbers = (float(value), float(error), spread, *counts, *future)
        rows.append((*where, model, result.metric, setting.estimator, gamma, *numbers, note))
    return rows


def winners(results: Sequence[Result], models: Sequence[str]) -> pd.DataFrame:
    """Return one row per result: the winner by the mean over repeats, and how firmly it wins."""
    rows = []
    for one in results:
        row = {**asdict(one.setting), "metric": one.metric}
        if np.isnan(one.estimates).any():
            rows.append(row | {"winner": None, "n_repeats": len(one.repeats)})
            continue
        best = int(np.argmax(one.estimates))
        first = one.repeats == one.repeats.max(axis=1, keepdims=True)
        share = (first / first.sum(axis=1, keepdims=True)).mean(axis=0)
        others = np.delete(one.estimates, best)
        row |= {"winner": models[best], "share_first": float(share[best]), "n_first": np.count_nonzero(share)}
        rows.append(
            row | {"margin": float(one.estimates[best] - others.max()), "n_repeats": len(one.repeats)}
        )
    return pd.DataFrame(rows)
