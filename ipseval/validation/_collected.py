"""Sums over splits: every estimate beside its reference and its baseline, with resamples of users."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval.correction import PPI
from ipseval.correction.prediction_powered import difference_totals
from ipseval.data.random_exposure import RandomExposure
from ipseval.data.splits import Split
from ipseval.errors import DataWarning
from ipseval.estimators import Estimator, LinearForm, Sample
from ipseval.estimators.base import Target
from ipseval.inference.weight_bounds import required_factors
from ipseval.inference.weight_diagnostics import Weighed, WeightSums, effective_sample_size, weight_flag
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import warn_user
from ipseval.utils.compute import one_blas_thread
from ipseval.utils.ids import union
from ipseval.utils.types import FloatArray, IntArray, TieChoice
from ipseval.validation._calibration import resolve_propensity, warn_of_whole_log
from ipseval.validation._criteria import Estimates, criteria, error_of_difference, resampled
from ipseval.validation._population import Compared, choose, liked_pairs
from ipseval.validation._result import RANDOM_SAMPLE, Cell, Validation
from ipseval.validation.datasets import RandomExposureStudy

Part = tuple[FloatArray, FloatArray, float]


@dataclass(eq=False)
class Collected:
    """Filled split by split by `add`, read by `result`."""

    metrics: list[Metric]
    estimators: list[Estimator]
    models: list[str]
    propensities: dict[str, Any]
    exposed: IntArray
    weights: FloatArray
    ties: TieChoice
    confidence_level: float
    columns: dict[str, list[Any]] = field(default_factory=dict)  # one frame, made at the end
    total: dict[tuple[str, str, str], list[Part]] = field(default_factory=dict)
    notes: dict[tuple[str, type[Warning]], str] = field(default_factory=dict)
    counts: list[tuple[int, int]] = field(default_factory=list)
    users: IntArray = field(init=False)  # of this split
    drawn: FloatArray = field(init=False)  # how often each of them is drawn
    # Resamples of the reference, and the criteria of the plain average.
    plain: dict[Compared, tuple[FloatArray, FloatArray]] = field(init=False)

    @one_blas_thread()  # many small products: two threads took as long, and twice the processor's time
    def add(
        self,
        number: int,
        split: Split,
        shown: RandomExposure,
        scorers: Mapping[str, Any],
        ranks: Mapping[str, RankedPositives],
        fold: IntArray,
        candidates: IntArray | None = None,
    ) -> None:
        """Compare every propensity and estimator with the random exposure, on one split.

        With `candidates`, keys of ranked pairs to predict, the difference estimator is one of them.
        """
        exposed = np.zeros(split.n_users, dtype=bool)
        exposed[self.exposed] = True
        sides = [choose(ranks, one, split.n_items) for one in (split.test.pair_key, liked_pairs(shown))]
        targets = dict.fromkeys([*(kind.target for kind in self.estimators), "pooled"])
        compared = Compared.of(targets, self.metrics, sides[0], sides[1], exposed, self.ties)
        self.plain = {}
        # Users without positives of either kind add nothing to any other estimate.
        with_positives = union(*(one.users for one in compared["pooled"].first))
        self.users = with_positives if candidates is None else self.exposed
        self.drawn = np.ascontiguousarray(self.weights[:, np.searchsorted(self.exposed, self.users)])
        self.counts.append((int(shown.positive.sum()), compared["user"].n_users if "user" in compared else 0))
        for one in compared.values():
            self._add_random_sample(number, one, compared["pooled"], fold)
        if candidates is not None:
            self._add_difference(number, split, shown, ranks, compared["pooled"], fold, candidates)
        for label, rule in self.propensities.items():
            fitted = self._fitted(label, rule, split, shown, scorers, fold)
            weighted = {target: one.weighted(fitted) for target, one in compared.items()}
            self._add_propensity(number, label, weighted)

    def _add_random_sample(self, number: int, compared: Compared, pooled: Compared, fold: IntArray) -> None:
        """Add the plain average of the random positives outside a fold, judged by those within it."""
        for place in np.unique(fold):
            own, others = compared.only(fold == place), compared.only(fold != place)
            if not all(len(side) for side in (*own.first, others.first[1])):
                continue
            found, label = others.reference, compared.plain.label
            self._add_estimates(number, RANDOM_SAMPLE, label, found, own, pooled, fold=int(place))

    def _add_difference(
        self,
        number: int,
        split: Split,
        shown: RandomExposure,
        ranks: Mapping[str, RankedPositives],
        pooled: Compared,
        fold: IntArray,
        candidates: IntArray,
    ) -> None:
        """Add the difference estimate from users outside a fold, judged by the positives within it."""
        for place in np.unique(fold):
            own, others = pooled.only(fold == place), shown.select(fold[shown.user] != place)
            if not (all(len(side) for side in own.first) and others.positive.any()):
                continue
            drawn = candidates[fold[candidates // split.n_items] != place]
            ranked = choose(ranks, union(others.pair_key, drawn), split.n_items)
            totals = difference_totals(ranked, others, drawn, split, self.metrics, self.ties)
            found = Estimates.of_totals(*totals, n_positives=int(others.positive.sum()))
            self._add_estimates(number, RANDOM_SAMPLE, PPI, found, own, pooled, fold=int(place))

    def _fitted(
        self,
        label: str,
        rule: Any,
        split: Split,
        exposure: RandomExposure,
        scorers: Mapping[str, Any],
        fold: IntArray,
    ) -> Propensity:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", "gamma = .* > 1 says")  # which asks for this very check
            fitted = resolve_propensity(label, rule, split, exposure, scorers, fold)
            warn_of_whole_log(fitted, split)
        for warning in caught:
            words = " ".join(str(warning.message).split())  # a note is one line
            self.notes.setdefault((label, warning.category), words)
        return fitted

    def _add_propensity(
        self, number: int, label: str, weighted: Mapping[Target, tuple[Compared, Mapping[str, Sample]]]
    ) -> None:
        for kind in self.estimators:
            compared, samples = weighted[kind.target]
            first = samples[self.models[0]]
            self._add_estimates(
                number,
                label,
                kind.label,
                compared.estimates(samples, kind),
                compared,
                weighted["pooled"][0],
                weights=_factor_weights(kind, self.metrics, first),
                **_of_weights(kind, first),
            )

    def _add_estimates(
        self,
        number: int,
        label: str,
        estimator: str,
        mine: Estimates,
        compared: Compared,
        pooled: Compared,
        weights: Sequence[tuple[IntArray, FloatArray]] = (),
        **more: Any,
    ) -> None:
        """Add a row for each metric and recommender, and the criteria that the estimates meet."""
        other, record = compared.reference, pooled.reference
        bias, bias_se = mine.value - other.value, error_of_difference(mine, other)
        row = {
            "split": number,
            "fold": pd.NA,
            "model": np.tile(self.models, len(self.metrics)),
            "metric": np.repeat([one.label for one in self.metrics], len(self.models)),
            "propensity": label,
            "estimator": estimator,
            "target": compared.target,
            "reference": other.value,
            "reference_se": other.std_error,
            "estimate": mine.value,
            "std_error": mine.std_error,
            "bias": bias,
            "bias_se": bias_se,
            "n_users": mine.n_users,
            "n_positives": mine.n_positives,
            "n_reference_users": other.n_users,
            "n_reference_positives": other.n_positives,
            "reference_pooled": record.value,
            "reference_pooled_se": record.std_error,
            "n_without_propensity": 0,
            "ess": np.nan,
            "max_weight_share": np.nan,
            "flag": np.nan,
            "factor": np.full(bias.size, np.nan),
            "factor_beyond_noise": np.full(bias.size, np.nan),
            **more,
        }
        # Λ to the reference, and to the near end of the bias's interval, one of as many as there are rows.
        noise = float(ndtri(1 - (1 - self.confidence_level) / (2 * bias.size))) * bias_se
        near = other.value + bias - np.sign(bias) * np.maximum(np.abs(bias) - noise, 0.0)
        for places, one in weights:
            part = np.arange(bias.size).reshape(len(self.metrics), -1)[places].ravel()
            c = np.take(compared.contributions, part, axis=1)
            row["factor"][part] = required_factors(c, one, other.value[part])
            row["factor_beyond_noise"][part] = required_factors(c, one, near[part])
        for name, cells in row.items():
            self.columns.setdefault(name, []).extend(np.broadcast_to(cells, bias.size).tolist())
        self._add_criteria(label, estimator, mine, compared)

    def _add_criteria(self, label: str, estimator: str, own: Estimates, compared: Compared) -> None:
        """Add the criteria of the estimates, of their baselines, and their noise."""
        if compared not in self.plain:  # made once a split
            target = self._resampled(compared.reference)
            self.plain[compared] = target, criteria(self._resampled(compared.baseline), target)
        target, met_plain = self.plain[compared]
        drawn = self._resampled(own)
        met, noise = criteria(drawn, target), _noise(drawn - target)
        for place, metric in enumerate(self.metrics):
            part = (met[:, place], met_plain[:, place], float(noise[place]))
            self.total.setdefault((metric.label, label, estimator), []).append(part)

    def _resampled(self, one: Estimates) -> FloatArray:
        """Return the resamples of estimates, (1 + n_resamples, n_metrics, n_models)."""
        found = resampled(one, self.users, self.drawn)
        return found.reshape(len(found), len(self.metrics), len(self.models))

    def result(self, study: RandomExposureStudy, n_liked: int) -> Validation:
        """Return the averages over splits, after a warning for what propensity models had to say."""
        said: dict[str, list[str]] = {}
        for (label, _), words in self.notes.items():
            said.setdefault(words, []).append(label)
        notes = tuple(f"{', '.join(labels)}: {words}" for words, labels in said.items())
        for text in notes:
            warn_user(text, DataWarning)
        cells = {}
        for key, parts in self.total.items():
            own, plain, noise = (np.mean(one, axis=0) for one in zip(*parts, strict=True))
            cells[key] = Cell(own, plain, float(noise))
        n_kept, n_both = np.mean(self.counts, axis=0)
        return Validation(
            pd.DataFrame(self.columns).astype({"fold": "Int64"}),
            cells,
            study.name,
            len(self.counts),
            self.weights.shape[0] - 1,
            study.biased.n_users,
            self.exposed.size,
            float(n_both),
            len(self.models),
            float(n_liked - n_kept),
            notes=notes,
            confidence_level=self.confidence_level,
        )


def _noise(error: FloatArray) -> FloatArray:
    """Return the mean of E|N(0, σ)| = σ√(2/π) over models, σ from the resamples; NaN without them."""
    if len(error) < 3:
        return np.full(error.shape[1], np.nan)
    return np.asarray(np.mean(np.sqrt(2 / np.pi) * error[1:].std(axis=0, ddof=1), axis=1))


def _of_weights(kind: Estimator, sample: Sample) -> dict[str, Any]:
    """Return what the rows of an estimator say of the weights."""
    sums = WeightSums.of(kind, sample, sample.with_equal_propensities())
    return {
        "n_without_propensity": sample.n_without_propensity,
        "ess": effective_sample_size(sample.weights),
        "max_weight_share": Weighed.of(sample.weights).max_share,
        "flag": weight_flag(sums, len(sample.ranked)) if kind.weighted else "",
    }


def _factor_weights(
    kind: Estimator, metrics: Sequence[Metric], sample: Sample
) -> list[tuple[IntArray, FloatArray]]:
    """Return places of metrics with a common normaliser, and the weight of their contributions, (n_pos,)."""
    places: dict[LinearForm, list[int]] = {}
    for place, metric in enumerate(metrics):
        form = kind.linear_form(metric, sample.ranked, is_probability=sample.is_probability)
        if form is not None and form.weighted and not (form.per_user or form.is_sum):
            places.setdefault(form, []).append(place)
    return [(np.array(of), form.base * sample.weights) for form, of in places.items()]
