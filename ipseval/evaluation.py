"""evaluate(): recommenders, split and propensity in, one table of estimates out."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import pandas as pd

from ipseval._checks import check_choice, check_fraction
from ipseval._types import AnyArray, TieChoice
from ipseval.adapters import adapt
from ipseval.errors import DataWarning, InputError, PositivityWarning, PropensityError
from ipseval.estimators import (
    Estimate,
    Estimator,
    NRelevantLike,
    Sample,
    estimate,
    resolve_estimator,
    weighted_sample,
)
from ipseval.inference import WeightDiagnostics, normal_interval, weight_diagnostics
from ipseval.metrics import Metric, metric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.splits import Split

FEW_POSITIVES = 5
FRAME_COLUMNS = (
    "model",
    "metric",
    "estimator",
    "estimate",
    "std_error",
    "ci_low",
    "ci_high",
    "n_users",
    "n_positives",
    "ess",
    "max_weight_share",
    "claim",
    "note",
)


class PropensityModel(Protocol):
    """A propensity model that can still be fitted to training interactions."""

    def fit(self, train: Any) -> Propensity:
        """Return the propensity."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """All estimates of an evaluation, keyed (model, metric, estimator); `frame` is the tidy table.

    Attributes
    ----------
    estimates : dict
        (model, metric label, estimator label) -> Estimate.
    samples : dict
        Model -> its ranked positives with their propensities.
    weights : dict
        Estimator label -> diagnostics of its weights (the same for all models: they share the positives).
    user_ids : (n_users,) array
        Ids of the population.
    confidence_level : float
        Of the intervals in `frame`.
    propensity : Propensity or None
    provenance : dict
        Versions and options, for the report.
    """

    estimates: dict[tuple[str, str, str], Estimate]
    samples: dict[str, Sample]
    weights: dict[str, WeightDiagnostics]
    user_ids: AnyArray
    confidence_level: float = 0.95
    propensity: Propensity | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per model, metric and estimator.

        estimate, std_error, ci_low, ci_high in the unit of the metric (NaN: undefined, the note says why);
        n_users and n_positives that entered; ess and max_weight_share of the weights; claim; note.
        """
        rows = []
        for (model, metric_label, estimator_label), one in self.estimates.items():
            low, high = normal_interval(one.value, one.standard_error, confidence_level=self.confidence_level)
            weights = self.weights[estimator_label]
            notes = [note for note in (*one.notes, weights.flag) if note]
            rows.append(
                (
                    model,
                    metric_label,
                    estimator_label,
                    one.value,
                    one.standard_error,
                    low,
                    high,
                    one.sums.n_users,
                    one.n_positives,
                    weights.ess,
                    weights.max_weight_share,
                    str(one.claim),
                    "; ".join(notes),
                )
            )
        return pd.DataFrame(rows, columns=list(FRAME_COLUMNS))

    @property
    def models(self) -> list[str]:
        """Names of the recommenders, in the order given."""
        return list(dict.fromkeys(key[0] for key in self.estimates))

    @property
    def metrics(self) -> list[str]:
        """Labels of the metrics, in the order given."""
        return list(dict.fromkeys(key[1] for key in self.estimates))

    @property
    def estimators(self) -> list[str]:
        """Labels of the estimators, in the order given."""
        return list(dict.fromkeys(key[2] for key in self.estimates))

    def __repr__(self) -> str:
        from ipseval.report import to_text

        return to_text(self)

    @cached_property
    def data_hash(self) -> str:
        """SHA-256 of the positives (user id, item id) and their numbers of candidates, as hex."""
        ranked = next(iter(self.samples.values())).ranked
        digest = hashlib.sha256()
        for column in (ranked.user_ids[ranked.user], ranked.item_ids[ranked.item], ranked.n_candidates):
            digest.update("\x1f".join(map(str, column)).encode())
            digest.update(b"\x1e")
        return digest.hexdigest()

    def to_json(self, path: str | Path) -> None:
        """Write the frame with versions, options and the hash of the data as JSON; NaN becomes null."""
        from ipseval.report import to_json

        Path(path).write_text(to_json(self), encoding="utf-8")

    def estimate(self, model: str, metric: str, estimator: str) -> Estimate:
        """Return one estimate.

        Raises
        ------
        InputError
            When the evaluation does not hold it.
        """
        try:
            return self.estimates[model, metric, estimator]
        except KeyError:
            raise InputError(
                f"no estimate ({model!r}, {metric!r}, {estimator!r}); models: {', '.join(self.models)}; "
                f"metrics: {', '.join(self.metrics)}; estimators: {', '.join(self.estimators)}."
            ) from None

    def per_user(self, model: str, metric: str, estimator: str) -> pd.Series[float]:
        """Return each user's own value N_u/D_u, indexed by user id, for the users that entered."""
        sums = self.estimate(model, metric, estimator).sums
        index = pd.Index(self.user_ids[sums.users], name="user")
        return pd.Series(sums.user_estimates(), index=index, name=f"{model} {metric} {estimator}")


def evaluate(
    models: Mapping[str, Any],
    split: Split,
    *,
    propensity: Propensity | PropensityModel | None = None,
    metrics: Iterable[str | Metric] = ("auc", "recall@10", "dcg@10"),
    estimators: Iterable[str | Estimator] | None = None,
    candidates: Any = "all",
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    n_relevant: NRelevantLike = None,
    on_low_ess: Literal["warn", "raise", "nan", "ignore"] = "warn",
    n_threads: int | None = None,
    progress: bool | None = None,
    max_memory: int | str | None = None,
) -> Evaluation:
    """Return estimates of every metric by every estimator for every recommender, with standard errors.

    Parameters
    ----------
    models : mapping
        Name -> scorer: see `rank_positives`, or a trained model of a library that `ipseval.adapters` knows;
        RankedPositives are used as they are.
    split : Split
        `split.test` holds the positives, `split.train` is excluded from the candidates.
    propensity : Propensity, an unfitted propensity model, or None
        A model is fitted to `split.train`. None: only unweighted estimators.
    metrics, estimators : labels or objects
        Default estimators: aoa, snips, snips-global; aoa alone without a propensity.
    candidates : "all" or a sampling scheme
        Which items compete. A sample of negatives changes the metric; see `expected_sampled`.
    ties : {"default", "mean", "min", "max", "expected"}
        "default": mean rank for AUC-type metrics, exact expectation over random order for the others.
    confidence_level : float
        In (0, 1).
    n_relevant : int, (n_users,) array, "estimated" or None
        s_u, the number of relevant items of each user, for `ips` of metrics that divide by it.
    on_low_ess : {"warn", "raise", "nan", "ignore"}
        What to do with weighted estimates whose weights are worth few observations.
    n_threads, progress, max_memory
        As in `rank_positives`.

    Raises
    ------
    InputError, UnknownNameError, PropensityError
        For input that cannot be used; the text says what came and what to do.
    """
    if not isinstance(models, Mapping) or not models:
        raise InputError(
            f'models must be a non-empty mapping {{"name": scorer}}; got {type(models).__name__}.'
        )
    options = {
        "candidates": candidates,
        "n_threads": n_threads,
        "progress": progress,
        "max_memory": max_memory,
    }
    ranks = {
        name: rank_positives(adapt(model, split, name=name), split, name=name, **options)
        for name, model in models.items()
    }
    fitted = (
        propensity
        if isinstance(propensity, Propensity) or propensity is None
        else propensity.fit(split.train)
    )
    return evaluate_ranks(
        ranks,
        propensity=fitted,
        metrics=metrics,
        estimators=estimators,
        ties=ties,
        confidence_level=confidence_level,
        n_relevant=n_relevant,
        on_low_ess=on_low_ess,
    )


def evaluate_ranks(
    ranks: Mapping[str, RankedPositives],
    *,
    propensity: Propensity | None = None,
    metrics: Iterable[str | Metric] = ("auc", "recall@10", "dcg@10"),
    estimators: Iterable[str | Estimator] | None = None,
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    n_relevant: NRelevantLike = None,
    on_low_ess: Literal["warn", "raise", "nan", "ignore"] = "warn",
) -> Evaluation:
    """Return the evaluation of positives that are already ranked; parameters as in `evaluate`."""
    check_fraction("confidence_level", confidence_level)
    check_choice("on_low_ess", on_low_ess, ("warn", "raise", "nan", "ignore"))
    check_choice("ties", ties, ("default", "mean", "min", "max", "expected"))
    if estimators is None:
        estimators = ("aoa",) if propensity is None else ("aoa", "snips", "snips-global")
    chosen_metrics = _distinct([metric(one) for one in _listed(metrics, "metrics")], "metrics")
    chosen = _distinct([resolve_estimator(one) for one in _listed(estimators, "estimators")], "estimators")
    weighted = [one.label for one in chosen if one.weighted]
    if weighted and propensity is None:
        raise PropensityError(
            f"{', '.join(weighted)} need a propensity; pass propensity=PowerLawPropensity(gamma=…) or "
            "another model, or ask for aoa only."
        )
    _check_same_positives(ranks)
    samples = {name: weighted_sample(ranked, propensity, n_relevant, ties) for name, ranked in ranks.items()}
    first = next(iter(samples.values()))
    weights = {one.label: weight_diagnostics(first, weighted=one.weighted) for one in chosen}
    _warn_about_few_positives(first, chosen)
    _report_low_ess(weights, on_low_ess)
    estimates = {
        (name, one_metric.label, one.label): estimate(sample, one_metric, one)
        for name, sample in samples.items()
        for one_metric in chosen_metrics
        for one in chosen
    }
    return Evaluation(
        estimates,
        samples,
        weights,
        next(iter(ranks.values())).user_ids,
        confidence_level,
        propensity,
        provenance={"ties": ties, "on_low_ess": on_low_ess, "candidates": first.ranked.candidates},
    )


def _listed(values: Any, name: str) -> list[Any]:
    listed = [values] if isinstance(values, str) else list(values)
    if not listed:
        raise InputError(f"{name} is empty; name at least one.")
    return listed


def _distinct(values: list[Any], name: str) -> list[Any]:
    labels = [value.label for value in values]
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if repeated:
        raise InputError(f"{name} repeats {', '.join(repeated)}; each label may occur once.")
    return values


def _check_same_positives(ranks: Mapping[str, RankedPositives]) -> None:
    if not isinstance(ranks, Mapping) or not ranks:
        raise InputError('ranks must be a non-empty mapping {"name": RankedPositives}.')
    first_name, first = next(iter(ranks.items()))
    if not len(first):
        raise InputError("there is no positive to evaluate.")
    for name, ranked in ranks.items():
        same = len(ranked) == len(first) and np.array_equal(ranked.user, first.user)
        same = same and np.array_equal(ranked.item, first.item)
        if not (same and np.array_equal(ranked.item_ids, first.item_ids)):
            raise InputError(
                f"{name!r} ranks {len(ranked):,} positives other than the {len(first):,} of {first_name!r}; "
                "recommenders can be compared on the same positives only."
            )


def _warn_about_few_positives(sample: Sample, estimators: list[Estimator]) -> None:
    if not any(one.label == "snips" for one in estimators):
        return
    median = float(np.median(sample.ranked.counts))
    if median < FEW_POSITIVES:
        detail = (
            "every user has one positive, so snips is identical to aoa"
            if (sample.ranked.counts == 1).all()
            else "per-user snips keeps a bias of order 1/|S*_u|"
        )
        warnings.warn(
            f"users have {median:g} test positives in the median: {detail}. "
            "Prefer snips-global or snips-pooled.",
            DataWarning,
            stacklevel=4,
        )


def _report_low_ess(weights: dict[str, WeightDiagnostics], on_low_ess: str) -> None:
    flagged = {label: one.flag for label, one in weights.items() if one.flag}
    if not flagged or on_low_ess == "ignore":
        return
    text = "; ".join(f"{label}: {flag}" for label, flag in flagged.items())
    if on_low_ess == "raise":
        raise PropensityError(f"{text}. Clip the propensity, use a smaller gamma, or on_low_ess='warn'.")
    warnings.warn(text, PositivityWarning, stacklevel=4)
