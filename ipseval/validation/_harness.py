"""The harness: are corrected estimates closer to what random exposure shows than plain ones are."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from ipseval._checks import as_generator, check_fraction, check_positive_int
from ipseval._types import FloatArray, IntArray, RngLike, TieChoice
from ipseval.adapters import adapt
from ipseval.datasets import RandomExposureStudy, StudyPositives
from ipseval.errors import DataWarning, InputError
from ipseval.estimators import Estimate, Estimator, Sample, estimate, resolve_estimator, weighted_sample
from ipseval.inference import diagnostics_by_estimator, weight_diagnostics
from ipseval.inference._linear import contributions, linear_form
from ipseval.interactions import Interactions
from ipseval.metrics import Metric, metric
from ipseval.propensity import Exposure, Propensity
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.splits import Split, split_random
from ipseval.validation._balance import Balance, SplitBalance
from ipseval.validation._calibration import resolve_propensity
from ipseval.validation._criteria import criteria, resampled_ratios, user_weights
from ipseval.validation._factors import factor_weights, factors
from ipseval.validation._gammas import Gammas
from ipseval.validation._result import Cell, Validation

# Estimators that average over positives; their target and their baseline are the pooled average.
POOLED = ("aoa-pooled", "snips-pooled", "stratified", "stratified-observed")
Trainer = Callable[[Interactions], Any]


def validate(
    models: Mapping[str, Any],
    study: RandomExposureStudy,
    *,
    propensities: Mapping[str, Any],
    metrics: Iterable[str | Metric] = ("atop", "recall@5", "recall@10", "mean_dcg"),
    estimators: Iterable[str | Estimator] = ("snips", "snips-global"),
    split: Split | None = None,
    n_splits: int = 1,
    test_fraction: float = 0.2,
    threshold: float | None = None,
    n_folds: int = 2,
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    n_resamples: int = 500,
    rng: RngLike = 0,
) -> Validation:
    """Return how far estimates from the biased log are from the truth seen under random exposure.

    Per split: the biased positives are divided at random into training and held-out ones; every model is
    trained and ranks the held-out and the random-exposure positives in one pass, among the same candidates
    (the catalogue minus the user's training items). The positives of a uniformly random sample of items are a
    simple random sample of a user's relevant items, so their plain average is the reference: per user, or
    pooled for pooled estimators. Then each propensity × estimator is held against it, beside the plain
    average on the same held-out positives.

    Propensities that read random exposure are calibrated on users other than those they weight (`n_folds`).

    Parameters
    ----------
    models : mapping
        Name -> function train -> scorer, called for every split; or name -> scorer, with `split`.
    study : RandomExposureStudy
        From `ipseval.datasets`, or `World.study`.
    propensities : mapping
        Name -> Propensity, model with `fit(train)`, `DensityRatioPropensity`, or function
        `Calibration` -> Propensity.
    metrics : labels or Metric objects of mean type
        Others have no reference: a few random positives give the average of c(rank) over all relevant items,
        but not the NDCG of all relevant items.
    split : Split, optional
        A split of the biased positives made before, on which `models` (scorers) were trained.
    n_splits, test_fraction, threshold
        Number of random splits, held-out share, and rating from which a pair is positive (default: the
        study's).
    n_resamples : int
        Bootstrap over users, of the errors given the fitted propensities and models.

    Raises
    ------
    InputError
        For metrics of another type, an id space that differs from the study's, or fewer than two models.

    Warns
    -----
    DataWarning
        Once per propensity that warned while it was fitted; all texts are in `.notes`.
    """
    if not isinstance(models, Mapping) or len(models) < 2:
        raise InputError('models must map at least two names to trainers: {"name": train -> scorer}.')
    if not isinstance(propensities, Mapping) or not propensities:
        raise InputError('propensities must be a non-empty mapping {"name": propensity}.')
    check_fraction("confidence_level", confidence_level)
    check_positive_int("n_folds", n_folds, minimum=2)
    chosen = [metric(one) if isinstance(one, str) else one for one in metrics]
    _check_metrics(chosen)
    generator = as_generator(rng)
    positives = study.positives(threshold)
    collected = _Collected(
        chosen,
        [resolve_estimator(one) for one in estimators],
        list(models),
        dict(propensities),
        user_weights(
            study.biased.n_users, check_positive_int("n_resamples", n_resamples, minimum=0), generator
        ),
        ties,
        confidence_level,
    )
    for number in range(1 if split is not None else check_positive_int("n_splits", n_splits)):
        one = split or split_random(positives.biased, test_fraction=test_fraction, rng=generator)
        fold = generator.permutation(np.arange(one.n_users) % n_folds)
        scorers = {name: model if split is not None else model(one.train) for name, model in models.items()}
        collected.add(number, one, _Truth.of(positives, one, study), scorers, fold)
    return collected.result(study)


def _check_metrics(chosen: list[Metric]) -> None:
    if not chosen:
        raise InputError("metrics is empty; name at least one.")
    others = [one.label for one in chosen if one.kind != "mean"]
    if others:
        raise InputError(
            f"{', '.join(others)}: only metrics of mean type (recall@k, mean_dcg@k, atop) have a reference, "
            "as random exposure shows a sample of the relevant items and not all of them."
        )


@dataclass(frozen=True, eq=False)
class _Truth:
    """Random exposure without the training pairs of a split."""

    exposure: Exposure
    positives: Interactions
    n_dropped: int

    @classmethod
    def of(cls, positives: StudyPositives, split: Split, study: RandomExposureStudy) -> _Truth:
        same = np.array_equal(split.user_ids, study.biased.user_ids)
        if not (same and np.array_equal(split.item_ids, study.biased.item_ids)):
            raise InputError("the split must be over the user_ids and item_ids of the study.")
        liked = np.isin(study.random.pair_key, positives.random.pair_key)
        exposure = Exposure(
            study.random.user, study.random.item, liked, split.n_users, split.n_items
        ).without(split.train)
        kept = positives.random.select(~np.isin(positives.random.pair_key, split.train.pair_key))
        if not len(kept):
            raise InputError("every random-exposure positive is a training pair: there is no reference.")
        return cls(exposure, kept, len(positives.random) - len(kept))


class _Collected:
    """Sums over splits; filled by `add`, read by `result`."""

    def __init__(
        self,
        metrics: list[Metric],
        estimators: list[Estimator],
        models: list[str],
        propensities: dict[str, Any],
        weights: FloatArray,
        ties: TieChoice,
        confidence_level: float,
    ) -> None:
        self.metrics, self.estimators, self.models = metrics, estimators, models
        self.propensities, self.weights, self.ties = propensities, weights, ties
        self.confidence_level = confidence_level
        self.balance = Balance(models, weights.shape[1])
        self.gammas = Gammas(models, [one.label for one in metrics], weights.shape[1])
        self.rows: list[dict[str, Any]] = []
        self.total: dict[tuple[str, str, str], list[tuple[FloatArray, FloatArray, float]]] = {}
        self.notes: dict[tuple[str, type[Warning]], str] = {}
        self.dropped: list[int] = []

    def add(
        self, number: int, split: Split, truth: _Truth, scorers: Mapping[str, Any], fold: IntArray
    ) -> None:
        """Rank every model once on the union of both sets of positives, then evaluate each propensity."""
        scorers = {name: adapt(scorer, split, name=name) for name, scorer in scorers.items()}
        self.dropped.append(truth.n_dropped)
        keys = np.union1d(split.test.pair_key, truth.positives.pair_key)
        both = replace(
            split.train, user=keys // split.n_items, item=keys % split.n_items, value=None, timestamp=None
        )
        union = Split(split.train, both, description="held-out and random-exposure positives")
        ranks = {name: rank_positives(scorer, union, name=name) for name, scorer in scorers.items()}
        biased = {name: _choose(ranked, split.test) for name, ranked in ranks.items()}
        random = {name: _choose(ranked, truth.positives) for name, ranked in ranks.items()}
        reference = {
            (name, one.label, kind.label): estimate(weighted_sample(ranked, None, None, self.ties), one, kind)
            for name, ranked in random.items()
            for one in self.metrics
            for kind in (resolve_estimator("aoa"), resolve_estimator("aoa-pooled"))
        }
        log_popularity = np.log(split.train.popularity + 1.0)
        checks = SplitBalance.of(biased, random, log_popularity, split.n_users)
        self.balance.add_split(checks)
        self._add_gammas(biased, checks, reference)
        for label, rule in self.propensities.items():
            fitted = self._fitted(label, rule, split, truth.exposure, scorers, fold)
            samples = {
                name: weighted_sample(ranked, fitted, None, self.ties) for name, ranked in biased.items()
            }
            self._add_propensity(number, label, samples, reference)
            pairs = [(kind, _plain(kind)) for kind in self.estimators]
            self.balance.add_propensity(label, fitted, samples[self.models[0]], checks, pairs, fold)

    def _add_gammas(
        self,
        biased: Mapping[str, RankedPositives],
        checks: SplitBalance,
        reference: Mapping[tuple[str, str, str], Estimate],
    ) -> None:
        samples = {name: weighted_sample(one, None, None, self.ties) for name, one in biased.items()}
        values = {
            (name, m.label): contributions(m, one) for name, one in samples.items() for m in self.metrics
        }
        known = {key: value for key, value in values.items() if value is not None}
        ranked = biased[self.models[0]]
        for kind in self.estimators:
            form = linear_form(kind, False, ranked)
            if form is None or not form.weighted or len(known) < len(values):
                continue
            targets = [reference[name, m, _plain(kind).label] for name, m in self.gammas.keys]
            self.gammas.add(kind.label, known, checks.log_popularity[ranked.item], form, targets)

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
            text = f"{label}: {warning.category.__name__}: {warning.message}"
            self.notes.setdefault((label, warning.category), text)
        return fitted

    def _add_propensity(
        self,
        number: int,
        label: str,
        samples: Mapping[str, Sample],
        reference: Mapping[tuple[str, str, str], Estimate],
    ) -> None:
        diagnostics = weight_diagnostics(next(iter(samples.values())), weighted=True)
        by_estimator = diagnostics_by_estimator(next(iter(samples.values())), self.estimators)
        keys = [(one, kind) for one in self.metrics for kind in self.estimators]
        values = {
            (name, m.label): contributions(m, one) for name, one in samples.items() for m in self.metrics
        }
        weights = {kind.label: factor_weights(kind, samples[self.models[0]]) for kind in self.estimators}
        groups: list[list[Estimate]] = []
        for one, kind in keys:
            plain = _plain(kind)
            own = [estimate(samples[name], one, kind) for name in self.models]
            aoa = [estimate(samples[name], one, plain) for name in self.models]
            target = [reference[name, one.label, plain.label] for name in self.models]
            groups += [own, aoa, target]
            for name, mine, other in zip(self.models, own, target, strict=True):
                row = _row(mine, other)
                c, w = values[name, one.label], weights[kind.label]
                self.rows.append(
                    {
                        "split": number,
                        "model": name,
                        "metric": one.label,
                        "propensity": label,
                        **row,
                        **factors(c, w, row, confidence_level=self.confidence_level, n_tests=len(values)),
                        "n_without_propensity": samples[name].n_without_propensity,
                        "ess": diagnostics.ess,
                        "max_weight_share": diagnostics.max_weight_share,
                        "flag": by_estimator[kind.label].flag,
                    }
                )
        # One product for all of them: many small ones would spend their time on starting threads.
        every = self._resampled([one for group in groups for one in group])
        parts = np.split(every, len(groups), axis=1)
        for place, (one, kind) in enumerate(keys):
            own_values, aoa_values, targets = parts[3 * place : 3 * place + 3]
            self.total.setdefault((one.label, label, kind.label), []).append(
                (
                    criteria(own_values, targets),
                    criteria(aoa_values, targets),
                    _noise(own_values - targets),
                )
            )

    def _resampled(self, estimates: list[Estimate]) -> FloatArray:
        """Return the estimates under every row of user weights, (1 + n_resamples, n_estimates)."""
        numerator = np.zeros((len(estimates), self.weights.shape[1]))
        denominator = np.zeros_like(numerator)
        for row, one in enumerate(estimates):
            numerator[row, one.sums.users] = one.sums.numerator
            denominator[row, one.sums.users] = one.sums.denominator
        return resampled_ratios(numerator, denominator, self.weights)

    def result(self, study: RandomExposureStudy) -> Validation:
        """Return the averages over splits, after a warning for what propensity models had to say."""
        for text in self.notes.values():
            warnings.warn(text, DataWarning, stacklevel=3)
        cells = {
            key: Cell(
                np.mean([part[0] for part in parts], axis=0),
                np.mean([part[1] for part in parts], axis=0),
                float(np.mean([part[2] for part in parts])),
            )
            for key, parts in self.total.items()
        }
        return Validation(
            pd.DataFrame(self.rows),
            cells,
            study.name,
            len(self.dropped),
            self.weights.shape[0] - 1,
            study.biased.n_users,
            len(self.models),
            float(np.mean(self.dropped)),
            self.balance.frame(self.confidence_level),
            self.gammas.frame(self.confidence_level),
            self.balance.per_item,
            notes=tuple(self.notes.values()),
            confidence_level=self.confidence_level,
        )


def _plain(kind: Estimator) -> Estimator:
    return resolve_estimator("aoa-pooled" if kind.label in POOLED else "aoa")


def _choose(ranked: RankedPositives, positives: Interactions) -> RankedPositives:
    """Return the ranked positives that are among `positives`."""
    key = ranked.user * np.int64(positives.n_items) + ranked.item
    return ranked.select(np.isin(key, positives.pair_key))


def _noise(error: FloatArray) -> float:
    """Return the mean of E|N(0, σ)| = σ√(2/π) over models, σ from the resamples; NaN without them."""
    if error.shape[0] < 3:
        return float("nan")
    return float(np.mean(np.sqrt(2 / np.pi) * error[1:].std(axis=0, ddof=1)))


def _row(mine: Estimate, reference: Estimate) -> dict[str, Any]:
    """Return reference, estimate and bias; the standard error of the bias counts users as paired."""
    last = max(int(one.sums.users.max(initial=-1)) for one in (mine, reference)) + 1
    error = np.zeros(last)
    error[mine.sums.users] += mine.influence / mine.sums.n_users
    error[reference.sums.users] -= reference.influence / reference.sums.n_users
    n = np.union1d(mine.sums.users, reference.sums.users).size
    return {
        "estimator": mine.estimator,
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
