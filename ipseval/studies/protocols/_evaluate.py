"""Evaluation of a protocol: estimates from ranks, their covariance over users and bootstrap replicates."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Iterable, Iterator, Sequence
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
from ipseval.studies.protocols._run import RankedProtocol
from ipseval.utils.notes import Note, join_notes
from ipseval.utils.types import FloatArray, IntArray

FRAME_COLUMNS = (
    "log",
    "split",
    "k_core",
    "candidates",
    "model",
    "metric",
    "estimator",
    "gamma",
    "estimate",
    "std_error",
    "std_repeats",
    "n_repeats",
    "n_users",
    "n_positives",
    "n_cold_users",
    "n_cold_items",
    "leakage",
    "median_future",
    "note",
)
EstimatorKey = tuple[str, float | None]  # the label of an estimator and its γ


@dataclass(frozen=True)
class Setting:
    """The log, the protocol and the estimator of a number."""

    log: str
    split: str
    k_core: str
    candidates: str
    estimator: str
    gamma: float | None


@dataclass(frozen=True, eq=False)
class ProtocolResult:
    """All models under one setting and metric."""

    setting: Setting
    metric: str
    estimates: FloatArray  # (n_models,) means over repeats
    covariance: FloatArray  # (n_models, n_models) of the estimates, over users
    replicates: FloatArray  # (n_resamples, n_models) over users: the same under every setting of a log
    repeats: FloatArray  # (n_repeats, n_models) estimates of each repeat
    n_users: int  # that entered any of the estimates
    notes: tuple[Note, ...] = ()

    @property
    def note(self) -> str:
        """The notes as text; "" without any."""
        return join_notes(*self.notes)

    @cached_property
    def orders(self) -> RowOrders:
        """The order of the models in each replicate."""
        return RowOrders.from_values(self.replicates)


@dataclass(frozen=True)
class Options:
    """Metrics, estimators and resamples to compute from the ranks."""

    metrics: tuple[str, ...]
    estimators: tuple[str, ...]
    gammas: tuple[float, ...]
    n_resamples: int
    rng: int


@dataclass(frozen=True, eq=False)
class ProtocolEvaluation:
    """Results, table rows and warnings of one protocol on one log."""

    results: list[ProtocolResult]
    rows: list[tuple[object, ...]]
    warnings: list[str]
    subject: str  # the log and the split, for warnings


@dataclass(frozen=True, eq=False)
class _RepeatedEstimates:
    """The estimates of all models under one estimator and metric, in every repeat."""

    metric: str
    estimator: str
    gamma: float | None
    estimates: list[list[Estimate]]  # one list per model, with one estimate per repeat

    @property
    def values(self) -> FloatArray:
        """Values of the estimates, (n_models, n_repeats)."""
        rows = []
        for repeats in self.estimates:
            rows.append([estimate.value for estimate in repeats])

        return np.array(rows)


def evaluate_protocol(
    repeats: Sequence[RankedProtocol], log: Interactions, options: Options
) -> ProtocolEvaluation:
    """Return the results of one protocol on one log, averaged over repeats.

    The influence of user u on the estimate of a repeat, ψ_u/n, is averaged over repeats: the variance is the
    sum over users of its square, and a replicate adds Σ w_u ψ_u/n, w_u the number of times that u was drawn.
    Models are taken as trained; the variance between training sets is not included.
    """
    first = repeats[0]
    protocol = first.protocol
    models = list(first.ranks)
    messages: list[str] = []
    evaluations: dict[EstimatorKey, list[Evaluation]] = {}
    for ranked in repeats:
        messages.extend(ranked.warnings)
        for key, evaluation in _evaluate_repeat(ranked, options, messages).items():
            evaluations.setdefault(key, []).append(evaluation)
    columns = list(_iterate_estimates(evaluations, models))

    user_indices = pd.Index(log.user_ids).get_indexer(pd.Index(first.split.user_ids))
    influences: list[FloatArray] = []
    for column in columns:
        influences.extend(
            _average_influence(model_repeats, user_indices, log.n_users) for model_repeats in column.estimates
        )
    influence = np.stack(influences, axis=1)
    shape = (-1, len(columns), len(models))
    shifts = _draw_shifts(influence, options, first.log).reshape(shape)
    influence_of_models = influence.reshape(shape)

    results = []
    rows: list[tuple[object, ...]] = []
    for number, column in enumerate(columns):
        values = column.values
        means = np.array([np.mean(model_values) for model_values in values])
        n_users = _list_users(column.estimates).size
        setting = Setting(
            log=first.log,
            split=protocol.split_label,
            k_core=protocol.core_label,
            candidates=protocol.candidates_label,
            estimator=column.estimator,
            gamma=column.gamma,
        )
        result = ProtocolResult(
            setting=setting,
            metric=column.metric,
            estimates=means,
            covariance=_compute_covariance(influence_of_models[:, number], n_users),
            replicates=means + shifts[:, number],
            repeats=values.T,
            n_users=n_users,
            notes=_collect_notes(column.estimates[0]),
        )
        results.append(result)
        rows.extend(_iterate_rows(result, models, column.estimates, repeats))
    return ProtocolEvaluation(
        results=results,
        rows=rows,
        warnings=list(dict.fromkeys(messages)),
        subject=f"{first.log} {protocol.split_label}",
    )


def _iterate_estimates(
    evaluations: dict[EstimatorKey, list[Evaluation]], models: Sequence[str]
) -> Iterator[_RepeatedEstimates]:
    """Yield the estimates of every metric and, within it, of every estimator and γ."""
    first_evaluation = next(iter(evaluations.values()))[0]
    for metric in first_evaluation.metrics:
        for (estimator, gamma), repeats in evaluations.items():
            estimates = []
            for model in models:
                estimates.append([evaluation.estimate(model, metric, estimator) for evaluation in repeats])

            yield _RepeatedEstimates(metric=metric, estimator=estimator, gamma=gamma, estimates=estimates)


def _evaluate_repeat(
    positives: RankedProtocol, options: Options, messages: list[str]
) -> dict[EstimatorKey, Evaluation]:
    """Return the evaluation of each estimator and γ, and add warnings to `messages`.

    Unweighted estimators have no γ.
    """
    weighted: list[str] = []
    unweighted: list[str] = []
    for label in options.estimators:
        if resolve_estimator(label).weighted:
            weighted.append(label)
        else:
            unweighted.append(label)
    # Without weighted estimators there is no propensity, and every positive enters.
    gammas: tuple[float | None, ...] = options.gammas if weighted else (None,)
    evaluations: dict[EstimatorKey, Evaluation] = {}
    with warnings.catch_warnings(record=True) as caught_warnings:
        warnings.simplefilter("always")
        for number, gamma in enumerate(gammas):
            propensity = None
            if gamma is not None:
                propensity = PowerLawPropensity(gamma=gamma).fit(positives.split.train)
            evaluation = evaluate_ranks(
                positives.ranks,
                propensity=propensity,
                metrics=options.metrics,
                estimators=options.estimators if number == 0 else weighted,
            )
            if number == 0:
                for label in unweighted:
                    evaluations[label, None] = evaluation
            for label in weighted:
                evaluations[label, gamma] = evaluation
    messages.extend(str(warning.message) for warning in caught_warnings)
    return evaluations


def _average_influence(repeats: Sequence[Estimate], user_indices: IntArray, n_users: int) -> FloatArray:
    """Return ψ_u/n of each user of the log, averaged over repeats; 0 for users that did not enter."""
    total = np.zeros(n_users)
    for estimate in repeats:
        if estimate.sums.n_users:
            users, effects = estimate.user_sums.effects()
            total[user_indices[users]] += effects
        else:
            total[:] = np.nan
    return total / len(repeats)


def _list_users(estimates: Iterable[Iterable[Estimate]]) -> IntArray:
    """Return the users that entered any of the estimates, ascending."""
    users: list[IntArray] = []
    for repeats in estimates:
        users.extend(estimate.user_sums.users for estimate in repeats)
    return np.unique(np.concatenate(users))


def _collect_notes(estimates: Iterable[Estimate]) -> tuple[Note, ...]:
    """Return the notes of estimates, each once."""
    notes: dict[Note, None] = {}
    for estimate in estimates:
        notes.update(dict.fromkeys(estimate.notes))
    return tuple(notes)


def _compute_covariance(influence: FloatArray, n_users: int) -> FloatArray:
    """Return m/(m − 1) Σ_u ψ_u ψ_uᵀ/n² over the m users that entered; NaN with fewer than two."""
    factor = n_users / (n_users - 1) if n_users > 1 else np.nan
    covariance: FloatArray = np.einsum("um,un->mn", influence, influence) * factor
    return covariance


def _draw_shifts(influence: FloatArray, options: Options, log: str) -> FloatArray:
    """Return Σ_u w_u ψ_u/n of each draw, (n_resamples, columns): the same draws in all protocols of a log."""
    generator = np.random.default_rng([options.rng, zlib.crc32(log.encode())])
    n_users = len(influence)
    shifts = np.empty((options.n_resamples, influence.shape[1]))
    for number in range(options.n_resamples):
        multiplicity = np.bincount(generator.integers(0, n_users, n_users), minlength=n_users)
        drawn = np.flatnonzero(multiplicity)
        weights = multiplicity[drawn].astype(np.float64)
        # einsum, unlike a BLAS product, adds up in the same order whatever the number of threads.
        shifts[number] = np.einsum("u,um->m", weights, influence[drawn])
    return shifts


def _iterate_rows(
    result: ProtocolResult,
    models: list[str],
    estimates: list[list[Estimate]],
    repeats: Sequence[RankedProtocol],
) -> Iterator[tuple[object, ...]]:
    """Yield the rows of `FRAME_COLUMNS` of one result, one per model."""
    setting = result.setting
    splits = [ranked.split for ranked in repeats]
    leakages = []
    for split in splits:
        if split.leakage is not None:
            leakages.append(split.leakage)

    columns: dict[str, object] = {
        "log": setting.log,
        "split": setting.split,
        "k_core": setting.k_core,
        "candidates": setting.candidates,
        "metric": result.metric,
        "estimator": setting.estimator,
        "gamma": np.nan if setting.gamma is None else setting.gamma,
        "n_repeats": len(repeats),
        "n_cold_users": sum(split.n_cold_users for split in splits),
        "n_cold_items": sum(split.n_cold_items for split in splits),
        "leakage": _mean_or_nan([leakage.share for leakage in leakages]),
        "median_future": _mean_or_nan([leakage.median_future for leakage in leakages]),
    }
    errors = np.sqrt(np.diag(result.covariance))
    for index, model in enumerate(models):
        model_estimates = estimates[index]
        values = result.repeats[:, index]
        row = columns | {
            "model": model,
            "estimate": float(result.estimates[index]),
            "std_error": float(errors[index]),
            "std_repeats": float(values.std(ddof=1)) if values.size > 1 else np.nan,
            "n_users": _list_users([model_estimates]).size,
            "n_positives": sum(estimate.n_positives for estimate in model_estimates),
            "note": join_notes(*_collect_notes(model_estimates)),
        }
        yield tuple(row[column] for column in FRAME_COLUMNS)


def _mean_or_nan(values: Sequence[float]) -> float:
    """Return the mean; NaN without values."""
    if not values:
        return float("nan")
    return float(np.mean(values))


def tabulate_winners(results: Sequence[ProtocolResult], models: Sequence[str]) -> pd.DataFrame:
    """Return one row per result: the winner by the mean over repeats, and its share of the repeats."""
    rows = []
    for result in results:
        n_repeats = len(result.repeats)
        row: dict[str, object] = {**asdict(result.setting), "metric": result.metric}
        if np.isnan(result.estimates).any():
            rows.append({**row, "winner": None, "n_repeats": n_repeats})
            continue
        best = int(np.argmax(result.estimates))
        is_first = result.repeats == result.repeats.max(axis=1, keepdims=True)
        shares = (is_first / is_first.sum(axis=1, keepdims=True)).mean(axis=0)
        runner_up = np.delete(result.estimates, best).max()
        rows.append(
            {
                **row,
                "winner": models[best],
                "share_first": float(shares[best]),
                "n_first": np.count_nonzero(shares),
                "margin": float(result.estimates[best] - runner_up),
                "n_repeats": n_repeats,
            }
        )
    return pd.DataFrame(rows)
