"""Sums over splits: every estimate beside its reference and its baseline, with resamples of users."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd

from ipseval._checks import warn_user
from ipseval._keys import union
from ipseval._types import FloatArray, IntArray, TieChoice
from ipseval.datasets import RandomExposureStudy
from ipseval.errors import DataWarning
from ipseval.estimators import Estimate, Estimator, Sample, Target
from ipseval.inference import diagnostics_by_estimator, weight_diagnostics
from ipseval.metrics import Metric
from ipseval.propensity import Exposure, Propensity
from ipseval.ranking import RankedPositives
from ipseval.splits import Split
from ipseval.validation._balance import Balance, SplitBalance
from ipseval.validation._calibration import resolve_propensity
from ipseval.validation._criteria import criteria, resampled_ratios
from ipseval.validation._factors import factor_weights, factors
from ipseval.validation._gammas import Gammas
from ipseval.validation._population import Compared, RandomExposure, choose
from ipseval.validation._result import Cell, Validation

RANDOM_SAMPLE = "random-sample"
Part = tuple[FloatArray, FloatArray, float]


class Collected:
    """Filled split by split by `add`, read by `result`."""

    def __init__(
        self,
        metrics: list[Metric],
        estimators: list[Estimator],
        models: list[str],
        propensities: dict[str, Any],
        exposed: IntArray,
        weights: FloatArray,
        ties: TieChoice,
        confidence_level: float,
    ) -> None:
        self.metrics, self.estimators, self.models = metrics, estimators, models
        self.propensities, self.exposed, self.weights, self.ties = propensities, exposed, weights, ties
        self.confidence_level = confidence_level
        self.balance = Balance(models)
        self.gammas = Gammas(models, metrics)
        self.rows: list[dict[str, Any]] = []
        self.total: dict[tuple[str, str, str], list[Part]] = {}
        # Estimates of this split by identity (they are held, so no identity returns), and their resamples.
        self.resampled: dict[int, tuple[Estimate, FloatArray]] = {}
        # Arrays of users, by identity, and the places of both among all users of either, with their number.
        self.together: dict[tuple[int, int], tuple[IntArray, IntArray, IntArray, IntArray, int]] = {}
        self.notes: dict[tuple[str, type[Warning]], str] = {}
        self.counts: list[tuple[int, int]] = []

    def add(
        self,
        number: int,
        split: Split,
        truth: RandomExposure,
        scorers: Mapping[str, Any],
        ranks: Mapping[str, RankedPositives],
        fold: IntArray,
    ) -> None:
        """Compare every propensity and estimator with the random exposure, on one split."""
        exposed = np.zeros(split.n_users, dtype=bool)
        exposed[self.exposed] = True
        self.resampled.clear()
        self.together.clear()
        sides = choose(ranks, split.test), choose(ranks, truth.positives)
        targets = dict.fromkeys([*(kind.target for kind in self.estimators), "pooled"])
        compared = {target: Compared.of(target, *sides, exposed, self.ties) for target in targets}
        self.counts.append((truth.n_dropped, compared["user"].n_users if "user" in compared else 0))
        for one in compared.values():
            self._add_random_sample(number, one, compared["pooled"], fold)
        log_popularity = np.log(split.train.popularity + 1.0)
        checks = SplitBalance(compared["pooled"], log_popularity)
        self.balance.add_split(checks)
        self._add_gammas(compared, log_popularity)
        for label, rule in self.propensities.items():
            fitted = self._fitted(label, rule, split, truth.exposure, scorers, fold)
            weighted = {target: one.weighted(fitted) for target, one in compared.items()}
            self._add_propensity(number, label, weighted)
            pairs = [(kind, *weighted[kind.target]) for kind in self.estimators]
            self.balance.add_propensity(label, fitted, pairs, checks, fold)

    def _add_random_sample(self, number: int, compared: Compared, pooled: Compared, fold: IntArray) -> None:
        """Add the plain average of the random positives outside a fold, judged by those within it."""
        for place in np.unique(fold):
            own, others = compared.only(fold == place), compared.only(fold != place)
            if not all(len(side) for side in (*own.first, others.first[1])):
                continue
            groups = []
            for one in self.metrics:
                guess = [others.reference(name, one) for name in self.models]
                groups.append((one, compared.plain, guess, own))
                for name, mine in zip(self.models, guess, strict=True):
                    self._add_row(
                        number, name, one, RANDOM_SAMPLE, compared.plain, mine, own, pooled, fold=place
                    )
            self._add_criteria(RANDOM_SAMPLE, groups)

    def _add_gammas(self, compared: Mapping[Target, Compared], log_popularity: FloatArray) -> None:
        for kind in self.estimators:
            one = compared[kind.target]
            ranked = one.first[0]
            forms = {kind.linear_form(metric, ranked) for metric in self.metrics}
            form = forms.pop() if len(forms) == 1 else None
            if form is not None and form.weighted and not form.is_sum:
                self.gammas.add(kind.label, one, log_popularity[ranked.item], form)

    def _fitted(
        self,
        label: str,
        rule: Any,
        split: Split,
        exposure: Exposure,
        scorers: Mapping[str, Any],
        fold: IntArray,
    ) -> Propensity:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = resolve_propensity(label, rule, split, exposure, scorers, fold)
        for warning in caught:
            words = " ".join(str(warning.message).split())  # a note is one line
            text = f"{label}: {warning.category.__name__}: {words}"
            self.notes.setdefault((label, warning.category), text)
        return fitted

    def _add_propensity(
        self, number: int, label: str, weighted: Mapping[Target, tuple[Compared, dict[str, Sample]]]
    ) -> None:
        groups = []
        for kind in self.estimators:
            compared, samples = weighted[kind.target]
            first = samples[self.models[0]]
            worth = weight_diagnostics(first, weighted=True)
            known = {
                "n_without_propensity": first.n_without_propensity,
                "ess": worth.ess,
                "max_weight_share": worth.max_weight_share,
                "flag": diagnostics_by_estimator(first, [kind])[kind.label].flag,
            }
            made = compared.estimates(samples, self.metrics, kind)
            for one, own in zip(self.metrics, made, strict=True):
                weights = factor_weights(kind, one, first)
                groups.append((one, kind, own, compared))
                for name, mine in zip(self.models, own, strict=True):
                    row = self._add_row(
                        number, name, one, label, kind, mine, compared, weighted["pooled"][0], **known
                    )
                    row |= factors(
                        compared.contributions(name, one),
                        weights,
                        row,
                        confidence_level=self.confidence_level,
                        n_tests=len(self.models) * len(self.metrics),
                    )
        self._add_criteria(label, groups)

    def _add_row(
        self,
        number: int,
        model: str,
        metric: Metric,
        label: str,
        kind: Estimator,
        mine: Estimate,
        compared: Compared,
        pooled: Compared,
        **more: Any,
    ) -> dict[str, Any]:
        record = pooled.reference(model, metric)
        self.rows.append(
            {
                "split": number,
                "fold": None,
                "model": model,
                "metric": metric.label,
                "propensity": label,
                "estimator": kind.label,
                "target": compared.target,
                **self._difference(mine, compared.reference(model, metric)),
                "reference_pooled": record.value,
                "reference_pooled_se": record.standard_error,
                "n_without_propensity": 0,
                **more,
            }
        )
        return self.rows[-1]

    def _difference(self, mine: Estimate, reference: Estimate) -> dict[str, Any]:
        """Return reference, estimate and bias; the standard error of the bias counts users as paired."""
        own, other, n = self._places(mine.user_sums.users, reference.user_sums.users)
        error = np.zeros(n)
        error[own] = mine.influence / mine.sums.n_users
        error[other] -= reference.influence / reference.sums.n_users
        return {
            "reference": reference.value,
            "reference_se": reference.standard_error,
            "estimate": mine.value,
            "std_error": mine.standard_error,
            "bias": mine.value - reference.value,
            "bias_se": float(np.sqrt(np.sum(error**2) * n / (n - 1))) if n > 1 else float("nan"),
            "n_users": mine.sums.n_users,
            "n_positives": mine.n_positives,
            "n_reference_users": reference.sums.n_users,
            "n_reference_positives": reference.n_positives,
        }

    def _places(self, own: IntArray, other: IntArray) -> tuple[IntArray, IntArray, int]:
        """Return the places of two arrays of users among those of either, and how many these are."""
        key = (id(own), id(other))
        if key not in self.together:
            every = union(own, other)
            places = np.searchsorted(every, own), np.searchsorted(every, other)
            self.together[key] = (own, other, *places, int(every.size))
        return self.together[key][2:]

    def _add_criteria(
        self, label: str, groups: list[tuple[Metric, Estimator, list[Estimate], Compared]]
    ) -> None:
        """Add the criteria of each group of estimates, of its baselines, and their noise."""
        sides = [
            side
            for metric, _, own, compared in groups
            for side in (own, self._all(compared.baseline, metric), self._all(compared.reference, metric))
        ]
        # One product for all of them: many small ones would spend their time on starting threads. Baselines
        # and references are the same for all propensities, and resampled once.
        new = {id(one): one for side in sides for one in side if id(one) not in self.resampled}
        made = resampled_ratios([one.user_sums for one in new.values()], self.exposed, self.weights)
        self.resampled |= dict(zip(new, zip(new.values(), made.T, strict=True), strict=True))
        parts = [np.column_stack([self.resampled[id(one)][1] for one in side]) for side in sides]
        for place, (metric, kind, _, _) in enumerate(groups):
            own_values, plain_values, targets = parts[3 * place : 3 * place + 3]
            self.total.setdefault((metric.label, label, kind.label), []).append(
                (
                    criteria(own_values, targets),
                    criteria(plain_values, targets),
                    _noise(own_values - targets),
                )
            )

    def _all(self, average: Callable[[str, Metric], Estimate], metric: Metric) -> list[Estimate]:
        return [average(name, metric) for name in self.models]

    def result(self, study: RandomExposureStudy) -> Validation:
        """Return the averages over splits, after a warning for what propensity models had to say."""
        for text in self.notes.values():
            warn_user(text, DataWarning)
        cells = {
            key: Cell(
                np.mean([part[0] for part in parts], axis=0),
                np.mean([part[1] for part in parts], axis=0),
                float(np.mean([part[2] for part in parts])),
            )
            for key, parts in self.total.items()
        }
        n_dropped, n_both = np.mean(self.counts, axis=0)
        return Validation(
            pd.DataFrame(self.rows).astype({"fold": "Int64"}),
            cells,
            study.name,
            len(self.counts),
            self.weights.shape[0] - 1,
            study.biased.n_users,
            self.exposed.size,
            float(n_both),
            len(self.models),
            float(n_dropped),
            self.balance.frame(self.confidence_level),
            self.gammas.frame(self.confidence_level),
            self.balance.per_item,
            notes=tuple(self.notes.values()),
            confidence_level=self.confidence_level,
        )


def _noise(error: FloatArray) -> float:
    """Return the mean of E|N(0, σ)| = σ√(2/π) over models, σ from the resamples; NaN without them."""
    if error.shape[0] < 3:
        return float("nan")
    return float(np.mean(np.sqrt(2 / np.pi) * error[1:].std(axis=0, ddof=1)))
