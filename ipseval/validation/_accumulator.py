"""Accumulation over splits: every estimate with its reference and its baseline, and resamples of users."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval.correction import PPI
from ipseval.correction.prediction_powered import compute_difference_totals
from ipseval.data.random_exposure import RandomExposure
from ipseval.data.splits import Split
from ipseval.errors import DataWarning, HighGammaWarning
from ipseval.estimators import Estimator, LinearForm, Sample
from ipseval.estimators.base import Target
from ipseval.inference.weight_bounds import compute_required_factors
from ipseval.inference.weight_diagnostics import (
    WeightMoments,
    WeightSums,
    effective_sample_size,
    find_weight_flags,
)
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import warn_user
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.ids import union_keys
from ipseval.utils.notes import Note, join_notes
from ipseval.utils.types import FloatArray, IntArray, TieChoice
from ipseval.validation._calibration import resolve_propensity, warn_if_log_propensity
from ipseval.validation._criteria import Estimates, compute_criteria, error_of_difference, resample_estimates
from ipseval.validation._population import PairedPositives, positive_pair_keys, select_pairs
from ipseval.validation._result import RANDOM_SAMPLE, Cell, Validation
from ipseval.validation.datasets import RandomExposureStudy


@dataclass(frozen=True, eq=False)
class SplitCriteria:
    """Criteria of one metric, propensity and estimator on one split, with resamples of users."""

    estimator: FloatArray  # (1 + n_resamples, 6)
    baseline: FloatArray  # (1 + n_resamples, 6)
    noise: float


@dataclass(frozen=True, eq=False)
class BaselineCriteria:
    """Resamples of a reference, and the criteria of the unweighted average (AOA) against it."""

    reference: FloatArray  # (1 + n_resamples, n_metrics, n_models)
    criteria: FloatArray  # (1 + n_resamples, n_metrics, 6)


@dataclass(eq=False)
class ValidationAccumulator:
    """Estimates and criteria of a validation: filled split by split by `add`, read by `result`."""

    metrics: list[Metric]
    estimators: list[Estimator]
    models: list[str]
    propensities: dict[str, object]
    exposed_users: IntArray
    weights: FloatArray
    ties: TieChoice
    confidence_level: float
    columns: dict[str, list[object]] = field(default_factory=dict)  # of the frame that `result` builds
    criteria: dict[tuple[str, str, str], list[SplitCriteria]] = field(default_factory=dict)
    notes: dict[tuple[str, type[Warning]], str] = field(default_factory=dict)
    # Per split, the number of random positives and of users that averages over users compare.
    counts: list[tuple[int, int]] = field(default_factory=list)
    # Of the current split: its users, how often each resample contains them, and its baselines.
    users: IntArray = field(init=False)
    user_multiplicities: FloatArray = field(init=False)
    baselines: dict[PairedPositives, BaselineCriteria] = field(init=False)

    @one_blas_thread()  # many small products: two threads took as long, and twice the processor's time
    def add(
        self,
        number: int,
        split: Split,
        exposure: RandomExposure,
        scorers: Mapping[str, object],
        ranks: Mapping[str, RankedPositives],
        fold: IntArray,
        candidates: IntArray | None = None,
    ) -> None:
        """Compare every propensity and estimator with the random exposure, on one split.

        With `candidates`, keys of ranked pairs to predict, the difference estimator is one of them.
        """
        is_exposed = np.zeros(split.n_users, dtype=bool)
        is_exposed[self.exposed_users] = True
        held_out = select_pairs(ranks, split.test.pair_key, split.n_items)
        random = select_pairs(ranks, positive_pair_keys(exposure), split.n_items)
        targets = dict.fromkeys([*(estimator.target for estimator in self.estimators), "pooled"])
        comparisons = PairedPositives.build_by_target(
            targets=targets,
            metrics=self.metrics,
            held_out=held_out,
            random=random,
            has_exposure=is_exposed,
            ties=self.ties,
            exposure=exposure if exposure.weight is not None else None,
        )
        pooled = comparisons["pooled"]
        self.baselines = {}
        self._set_users(pooled, with_candidates=candidates is not None)
        n_compared_users = comparisons["user"].n_users if "user" in comparisons else 0
        self.counts.append((int(exposure.positive.sum()), n_compared_users))
        for comparison in comparisons.values():
            self._add_random_sample(number, comparison, pooled, fold)
        if candidates is not None:
            self._add_difference_estimates(
                number=number,
                split=split,
                exposure=exposure,
                ranks=ranks,
                pooled=pooled,
                fold=fold,
                candidates=candidates,
            )
        for label, rule in self.propensities.items():
            propensity = self._fit_propensity(
                label=label, rule=rule, split=split, exposure=exposure, scorers=scorers, fold=fold
            )
            weighted = {}
            for target, comparison in comparisons.items():
                weighted[target] = comparison.weighted(propensity)
            self._add_propensity(number, label, weighted)

    def _set_users(self, pooled: PairedPositives, *, with_candidates: bool) -> None:
        """Set the users of the current split and how often each resample contains them.

        Users without positives contribute nothing to any estimate except the difference estimator.
        """
        if with_candidates:
            self.users = self.exposed_users
        else:
            held_out, random = pooled.first
            self.users = union_keys(held_out.users, random.users)
        user_columns = np.searchsorted(self.exposed_users, self.users)
        self.user_multiplicities = np.ascontiguousarray(self.weights[:, user_columns])

    def _add_random_sample(
        self, number: int, comparison: PairedPositives, pooled: PairedPositives, fold: IntArray
    ) -> None:
        """Add the unweighted average of the random positives outside each fold.

        Its reference are the random positives within the fold.
        """
        for fold_number in np.unique(fold):
            inside = comparison.select_users(fold == fold_number)
            outside = comparison.select_users(fold != fold_number)
            _, outside_random = outside.first
            if not _all_nonempty([*inside.first, outside_random]):
                continue
            self._add_estimates(
                number,
                RANDOM_SAMPLE,
                comparison.plain.label,
                estimates=outside.reference,
                comparison=inside,
                pooled=pooled,
                cells={"fold": int(fold_number)},
            )

    def _add_difference_estimates(
        self,
        number: int,
        split: Split,
        exposure: RandomExposure,
        ranks: Mapping[str, RankedPositives],
        pooled: PairedPositives,
        fold: IntArray,
        candidates: IntArray,
    ) -> None:
        """Add the difference estimate from the users outside each fold.

        Its reference are the random positives within the fold.
        """
        candidate_fold = fold[candidates // split.n_items]
        for fold_number in np.unique(fold):
            inside = pooled.select_users(fold == fold_number)
            outside_exposure = exposure.select(fold[exposure.user] != fold_number)
            if not _all_nonempty(inside.first) or not outside_exposure.positive.any():
                continue
            outside_candidates = candidates[candidate_fold != fold_number]
            pairs = union_keys(outside_exposure.pair_key, outside_candidates)
            users, numerator, denominator = compute_difference_totals(
                ranks=select_pairs(ranks, pairs, split.n_items),
                exposure=outside_exposure,
                candidate_keys=outside_candidates,
                split=split,
                metrics=self.metrics,
                ties=self.ties,
            )
            estimates = Estimates.from_totals(
                users, numerator, denominator, n_positives=int(outside_exposure.positive.sum())
            )
            self._add_estimates(
                number,
                RANDOM_SAMPLE,
                PPI,
                estimates=estimates,
                comparison=inside,
                pooled=pooled,
                cells={"fold": int(fold_number)},
            )

    def _fit_propensity(
        self,
        label: str,
        rule: object,
        split: Split,
        exposure: RandomExposure,
        scorers: Mapping[str, object],
        fold: IntArray,
    ) -> Propensity:
        """Return the fitted propensity, and keep the warnings of its fit as notes."""
        with warnings.catch_warnings(record=True) as caught_warnings:
            warnings.simplefilter("always")
            # This warning advises to compare with random exposure, which a validation does.
            warnings.simplefilter("ignore", HighGammaWarning)
            propensity = resolve_propensity(
                name=label, rule=rule, split=split, exposure=exposure, models=scorers, fold=fold
            )
            warn_if_log_propensity(propensity, split)
        for warning in caught_warnings:
            text = " ".join(str(warning.message).split())  # a note is one line
            self.notes.setdefault((label, warning.category), text)
        return propensity

    def _add_propensity(
        self, number: int, label: str, weighted: Mapping[Target, tuple[PairedPositives, Mapping[str, Sample]]]
    ) -> None:
        """Add the estimates of every estimator with one propensity."""
        pooled, _ = weighted["pooled"]
        for estimator in self.estimators:
            comparison, samples = weighted[estimator.target]
            sample = samples[self.models[0]]
            self._add_estimates(
                number,
                label,
                estimator.label,
                estimates=comparison.compute_estimates(samples, estimator),
                comparison=comparison,
                pooled=pooled,
                weights=_group_contribution_weights(estimator, self.metrics, sample),
                cells=_compute_weight_columns(estimator, sample),
            )

    def _add_estimates(
        self,
        number: int,
        label: str,
        estimator: str,
        *,
        estimates: Estimates,
        comparison: PairedPositives,
        pooled: PairedPositives,
        weights: Sequence[tuple[IntArray, FloatArray]] = (),
        cells: Mapping[str, object],
    ) -> None:
        """Add a row for each metric and recommender, and the criteria of the estimates.

        `weights` are the groups of `_group_contribution_weights`; `cells` are further columns of the rows.
        """
        reference = comparison.reference
        pooled_reference = pooled.reference
        bias = estimates.value - reference.value
        bias_se = error_of_difference(estimates, reference)
        factor, factor_beyond_noise = self._compute_required_factors(comparison, bias, bias_se, weights)
        columns: dict[str, Any] = {
            "split": number,
            "fold": pd.NA,
            "model": np.tile(self.models, len(self.metrics)),
            "metric": np.repeat([metric.label for metric in self.metrics], len(self.models)),
            "propensity": label,
            "estimator": estimator,
            "target": comparison.target,
            "reference": reference.value,
            "reference_se": reference.std_error,
            "estimate": estimates.value,
            "std_error": estimates.std_error,
            "bias": bias,
            "bias_se": bias_se,
            "n_users": estimates.n_users,
            "n_positives": estimates.n_positives,
            "n_reference_users": reference.n_users,
            "n_reference_positives": reference.n_positives,
            "reference_pooled": pooled_reference.value,
            "reference_pooled_se": pooled_reference.std_error,
            "n_without_propensity": 0,
            "ess": np.nan,
            "max_weight_share": np.nan,
            "flag": np.nan,
            "factor": factor,
            "factor_beyond_noise": factor_beyond_noise,
            **cells,
        }
        for name, values in columns.items():
            column = self.columns.setdefault(name, [])
            column.extend(np.broadcast_to(values, bias.size).tolist())
        self._add_criteria(label, estimator, estimates, comparison)

    def _compute_required_factors(
        self,
        comparison: PairedPositives,
        bias: FloatArray,
        bias_se: FloatArray,
        weights: Sequence[tuple[IntArray, FloatArray]],
    ) -> tuple[FloatArray, FloatArray]:
        """Return Λ to reach the reference, and to reach it within noise, (K,); NaN without weights.

        Within noise: to reach the end of the interval of the bias that is nearer to 0, adjusted for as many
        comparisons as there are rows.
        """
        factor = np.full(bias.size, np.nan)
        factor_beyond_noise = np.full(bias.size, np.nan)
        reference = comparison.reference.value
        z = float(ndtri(1 - (1 - self.confidence_level) / (2 * bias.size)))
        smallest_bias = np.sign(bias) * np.maximum(np.abs(bias) - z * bias_se, 0.0)
        reference_within_noise = reference + bias - smallest_bias
        for metric_indices, contribution_weights in weights:
            columns = np.arange(bias.size).reshape(len(self.metrics), -1)[metric_indices].ravel()
            contributions = np.take(comparison.contributions, columns, axis=1)
            factor[columns] = compute_required_factors(
                contributions, contribution_weights, reference[columns]
            )
            factor_beyond_noise[columns] = compute_required_factors(
                contributions, contribution_weights, reference_within_noise[columns]
            )
        return factor, factor_beyond_noise

    def _add_criteria(
        self, label: str, estimator: str, estimates: Estimates, comparison: PairedPositives
    ) -> None:
        """Add the criteria of the estimates, the criteria of their baselines, and their noise."""
        if comparison not in self.baselines:  # computed once per split
            self.baselines[comparison] = self._compute_baseline(comparison)
        baseline = self.baselines[comparison]
        resamples = self._resample(estimates)
        criteria = compute_criteria(resamples, baseline.reference)
        noise = _mean_absolute_noise(resamples - baseline.reference)
        for index, metric in enumerate(self.metrics):
            split_criteria = SplitCriteria(
                criteria[:, index], baseline.criteria[:, index], float(noise[index])
            )
            self.criteria.setdefault((metric.label, label, estimator), []).append(split_criteria)

    def _compute_baseline(self, comparison: PairedPositives) -> BaselineCriteria:
        """Return the resamples of the reference and the criteria of AOA against it."""
        reference = self._resample(comparison.reference)
        return BaselineCriteria(reference, compute_criteria(self._resample(comparison.baseline), reference))

    def _resample(self, estimates: Estimates) -> FloatArray:
        """Return the resamples of estimates, (1 + n_resamples, n_metrics, n_models)."""
        resamples = resample_estimates(estimates, self.users, self.user_multiplicities)
        return resamples.reshape(len(resamples), len(self.metrics), len(self.models))

    def result(self, study: RandomExposureStudy, n_liked: int) -> Validation:
        """Return the averages over splits, and issue the warnings of the propensity models.

        `n_liked` is the number of random positives of the study.
        """
        notes = tuple(self._iterate_notes())
        for note in notes:
            warn_user(note, DataWarning)
        n_random_positives, n_compared_users = np.mean(self.counts, axis=0)
        cells = {}
        for key, splits in self.criteria.items():
            cells[key] = _average_criteria(splits)

        return Validation(
            frame=pd.DataFrame(self.columns).astype({"fold": "Int64"}),
            cells=cells,
            name=study.name,
            n_splits=len(self.counts),
            n_resamples=self.weights.shape[0] - 1,
            n_users=study.biased.n_users,
            n_exposed=self.exposed_users.size,
            n_compared=float(n_compared_users),
            n_models=len(self.models),
            n_random_dropped=float(n_liked - n_random_positives),
            notes=notes,
            confidence_level=self.confidence_level,
        )

    def _iterate_notes(self) -> Iterator[str]:
        """Yield each note once, with the names of all propensities that it concerns."""
        labels_by_text: dict[str, list[str]] = {}
        for (label, _), text in self.notes.items():
            labels_by_text.setdefault(text, []).append(label)
        for text, labels in labels_by_text.items():
            yield f"{', '.join(labels)}: {text}"


def _all_nonempty(ranked_positives: Iterable[RankedPositives]) -> bool:
    """Return whether none of some ranked positives is empty."""
    return all(len(positives) for positives in ranked_positives)


def _average_criteria(splits: Sequence[SplitCriteria]) -> Cell:
    """Return the means of criteria over splits."""
    return Cell(
        np.mean([split.estimator for split in splits], axis=0),
        np.mean([split.baseline for split in splits], axis=0),
        float(np.mean([split.noise for split in splits], axis=0)),
    )


def _mean_absolute_noise(error: FloatArray) -> FloatArray:
    """Return the mean of E|N(0, σ)| = σ√(2/π) over models, σ from the resamples; NaN without them."""
    if len(error) < 3:
        return np.full(error.shape[1], np.nan)
    deviations = np.sqrt(2 / np.pi) * error[1:].std(axis=0, ddof=1)
    return np.asarray(np.mean(deviations, axis=1))


def _compute_weight_columns(estimator: Estimator, sample: Sample) -> dict[str, object]:
    """Return the columns that describe the weights of an estimator."""
    sums = WeightSums.from_samples(estimator, sample, sample.with_equal_propensities())
    flags: tuple[Note, ...] = ()
    if estimator.weighted:
        flags = find_weight_flags(sums, len(sample.ranked))
    return {
        "n_without_propensity": sample.n_without_propensity,
        "ess": effective_sample_size(sample.weights),
        "max_weight_share": WeightMoments.from_weights(sample.weights).max_share,
        "flag": join_notes(*flags),
    }


def _group_contribution_weights(
    estimator: Estimator, metrics: Sequence[Metric], sample: Sample
) -> list[tuple[IntArray, FloatArray]]:
    """Return groups of metrics with a common normaliser, and the weights of their contributions, (n_pos,).

    A group is given by the indices of its metrics. Metrics that are not such a weighted ratio are left out.
    """
    indices_by_form: dict[LinearForm, list[int]] = {}
    for index, metric in enumerate(metrics):
        form = estimator.linear_form(metric, sample.ranked, is_probability=sample.is_probability)
        if form is None or not form.weighted or form.per_user or form.is_sum:
            continue
        indices_by_form.setdefault(form, []).append(index)

    groups: list[tuple[IntArray, FloatArray]] = []
    for common_form, indices in indices_by_form.items():
        groups.append((np.array(indices), common_form.base * sample.weights))
    return groups
