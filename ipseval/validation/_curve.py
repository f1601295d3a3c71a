"""exposure_curve(): how near each estimate comes to the truth as more users have random exposure."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval.correction import (
    CORRECTED,
    CorrectionPath,
    CorrectionPrior,
    correct_path,
    correction_path,
)
from ipseval.data.random_exposure import RandomExposure
from ipseval.data.splits import Split, split_random
from ipseval.errors import InputError, IpsevalError
from ipseval.estimators.labels import AOA_POOLED, SNIPS_POOLED
from ipseval.evaluation import evaluate_ranks
from ipseval.metrics import Metric, metric
from ipseval.propensity import DensityRatioPropensity, PowerLawPropensity, Propensity
from ipseval.reporting import Tables
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Heading, Notes, Part, Table
from ipseval.utils.checks import as_generator, check_callable, check_fraction, check_positive_int, check_type
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval.utils.ids import distinct
from ipseval.utils.types import FloatArray, IntArray, RngLike
from ipseval.validation._criteria import CRITERIA, criteria
from ipseval.validation._population import Ranks, choose, liked_pairs, rank_beside, shown_outside
from ipseval.validation.datasets import RandomExposureStudy

POWER_LAW = "power law"
DENSITY_RATIO = "density ratio"
WITH_INTERACTIONS = "correction, all interactions"
METRICS = ("atop", "recall@5", "mean_dcg@10")
SIZES = (0, 25, 50, 100, 200)
# Of the metrics' own unit, except the last three.
SCORES = ("error", "covered", "half_width", "tau_b", "regret")


@dataclass(frozen=True, eq=False, repr=False)
class ExposureCurve(Result):
    """Error, coverage and order of estimates against the number of users with random exposure.

    Attributes
    ----------
    scores : DataFrame
        One row per split, draw, n_users, metric and estimator: error, mean over recommenders of
        |estimate − reference|; covered, share of recommenders for which the difference is within its
        interval; half_width of the interval; tau_b of the order; regret, what the best by the estimate lacks.
    name : str
        Of the study.
    confidence_level : float
    """

    scores: pd.DataFrame
    name: str
    confidence_level: float = 0.95

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per n_users, metric and estimator: means over splits and draws.

        error, removed = 1 − error/error of aoa-pooled, coverage (in [0, 1], of the difference to a reference
        that is noisy itself), half_width, tau_b, regret; removed_se, tau_b_se and regret_se are standard
        errors over splits (NaN with one split), regret_change = regret − that of aoa-pooled with its
        regret_change_se.
        """
        keys = ["n_users", "metric", "estimator"]
        draw = ["split", "draw", *keys[:2]]
        plain = self.scores.loc[self.scores["estimator"] == AOA_POOLED, [*draw, "error", "regret"]]
        scores = self.scores.merge(plain, on=draw, suffixes=("", "_aoa"))
        scores["regret_change"] = scores["regret"] - scores["regret_aoa"]
        names = [*SCORES, "error_aoa", "regret_change"]
        each = scores.groupby(["split", *keys], sort=False)[names].mean()
        each["removed"] = 1 - each["error"] / each["error_aoa"]
        grouped = each.groupby(keys, sort=False)
        mean, spread, n = grouped.mean(), grouped.std(ddof=1), grouped.size()
        mean["removed"] = 1 - mean["error"] / mean["error_aoa"]
        for one in ("removed", "tau_b", "regret", "regret_change"):
            mean[f"{one}_se"] = spread[one] / np.sqrt(n)
        made = mean.rename(columns={"covered": "coverage"}).drop(columns="error_aoa").reset_index()
        columns = ["error", "removed", "removed_se", "coverage", "half_width", "tau_b", "tau_b_se", "regret"]
        return made[[*keys, *columns, "regret_se", "regret_change", "regret_change_se"]]

    def plot(self, metric: str | None = None, estimator: str | None = None, *, ax: Any = None) -> Any:
        """Return axes with the error of every estimator, and half-widths, against the number of users."""
        from ipseval.reporting.plots.curves import plot_exposure_curve

        return plot_exposure_curve(self.frame, metric=metric, estimator=estimator, ax=ax)

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: one table per metric."""
        del page
        parts: list[Part] = []
        for name, part in self.frame.groupby("metric", sort=False):
            shown = part[
                ["n_users", "estimator", "error", "removed", "coverage", "half_width", "tau_b", "regret"]
            ]
            parts += [Heading(str(name)), Table.of(shown.reset_index(drop=True), formats=f".{digits + 1}f")]
        n_splits, n_draws = self.scores["split"].nunique(), self.scores["draw"].nunique()
        said = (
            "removed: share of the error of aoa-pooled that is gone. "
            "coverage: how often the interval of the difference holds 0.",
            "The truth is the plain mean over the random positives of all other users.",
        )
        summary = (f"{self.name}: {n_splits} splits, up to {n_draws} draws of users with random exposure",)
        return Tables(summary=summary, parts=(*parts, Notes(said)))


def exposure_curve(
    models: Mapping[str, Any],
    study: RandomExposureStudy,
    *,
    n_users: Sequence[int] = SIZES,
    metrics: Iterable[str | Metric] = METRICS,
    propensity: Any = None,
    prior: CorrectionPrior | None = None,
    n_splits: int = 1,
    n_draws: int = 20,
    test_fraction: float = 0.2,
    confidence_level: float = 0.95,
    rng: RngLike = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> ExposureCurve:
    """Return how near estimates come to the truth when so many users have random exposure.

    Per split, recommenders are trained on a part of the biased positives. Of the users with random exposure
    some are drawn; the pooled mean over the random positives of all others is the reference. Compared are
    aoa-pooled, snips-pooled with a power law and with a density ratio fitted to the draw, the random sample
    itself, and the correction strength; that once more with all interactions, where the log has pairs that
    are not positive. |estimate − reference| is compared with the interval of their difference.

    Parameters
    ----------
    models : mapping
        Name -> function train -> scorer, at least two.
    study : RandomExposureStudy
    n_users : sequence of int
        Numbers of users with random exposure; fewer than the study has.
    metrics : labels or objects
        Averages over relevant items: atop, recall@k, mean_dcg@k.
    propensity : model with fit(train), optional
        Default: the power law with γ = 0, items without interactions smoothed.
    prior : CorrectionPrior, optional
    n_splits, n_draws : int
        Splits of the biased positives, and draws of users for each number (one where it is 0).
    test_fraction, confidence_level : float
        In (0, 1).
    rng : int, Generator or None
    compute : ComputeOptions
        As in `rank_positives`.

    Raises
    ------
    InputError
        For fewer than two models, other metrics, and numbers of users that leave nobody to judge.
    """
    check_trainers(models)
    check_type("study", study, RandomExposureStudy, " Load one with ipseval.datasets.")
    check_fraction("confidence_level", confidence_level)
    check_positive_int("n_draws", n_draws)
    sizes, chosen = _sizes(n_users, study), [metric(one) for one in metrics]
    rule = PowerLawPropensity(gamma=0, unseen="smooth") if propensity is None else propensity
    if not hasattr(rule, "fit"):
        raise InputError(f"propensity must be a model with fit(train); got {type(rule).__name__}.")
    generator, rows = as_generator(rng), []
    for number in range(check_positive_int("n_splits", n_splits)):
        split = split_random(study.positives().biased, test_fraction=test_fraction, rng=generator)
        shown = shown_outside(study, split)
        scorers = {name: model(split.train) for name, model in models.items()}
        ranks = rank_beside(scorers, split, liked_pairs(shown), compute)
        one = _Prepared.of(ranks, study, shown, split, chosen, rule, generator)
        for size in sizes:
            for draw in range(n_draws if size else 1):
                users = generator.choice(one.exposed, size, replace=False)
                found = one.estimates(users, prior, confidence_level, generator)
                place = {"split": number, "draw": draw, "n_users": size}
                rows += [place | score for score in one.judged(users, found, confidence_level)]
    return ExposureCurve(pd.DataFrame(rows), study.name, confidence_level)


def check_trainers(models: Any, *, trained: bool = False) -> None:
    """Raise `InputError` unless `models` names at least two trainers, or two that are `trained` already."""
    if not isinstance(models, Mapping) or len(models) < 2:
        raise InputError('models must map at least two names to trainers: {"name": train -> scorer}.')
    for name, model in models.items():
        if not trained:
            check_callable(f"the model {name!r}", model)


def _sizes(n_users: Sequence[int], study: RandomExposureStudy) -> list[int]:
    sizes = [check_positive_int("n_users", one, minimum=0) for one in n_users]
    n_exposed = distinct(study.random.user).size
    if not sizes or max(sizes) >= n_exposed:
        raise InputError(
            f"n_users must be numbers below {n_exposed:,}, the users with random exposure; got {sizes}."
        )
    return sizes


@dataclass(frozen=True, eq=False)
class _Prepared:
    """One split: ranks of held-out and of random positives, what was shown, and what needs no exposure."""

    split: Split
    metrics: list[Metric]
    held_out: Ranks
    random: Ranks
    exposure: RandomExposure
    paths: dict[str, CorrectionPath]
    weighted: pd.DataFrame

    @classmethod
    def of(
        cls,
        ranks: Ranks,
        study: RandomExposureStudy,
        shown: RandomExposure,
        split: Split,
        metrics: list[Metric],
        rule: Any,
        rng: np.random.Generator,
    ) -> _Prepared:
        keys = split.test.pair_key, liked_pairs(shown)
        held_out, random = (choose(ranks, one, split.n_items) for one in keys)
        paths = {CORRECTED: correction_path(held_out, split, metrics=metrics, rng=rng)}
        if len(study.biased) > len(study.positives().biased):
            paths[WITH_INTERACTIONS] = correction_path(
                held_out, split, metrics=metrics, interactions=study.biased, rng=rng
            )
        weighted = _weighted(held_out, rule.fit(split.train), metrics)
        return cls(split, metrics, held_out, random, shown, paths, weighted)

    @property
    def exposed(self) -> IntArray:
        return distinct(self.exposure.user)

    def of_users(self, users: IntArray) -> Ranks:
        """Return the ranks of the random positives of these users."""
        return {name: one.select(np.isin(one.user, users)) for name, one in self.random.items()}

    def estimates(
        self, users: IntArray, prior: CorrectionPrior | None, level: float, rng: np.random.Generator
    ) -> dict[str, pd.DataFrame]:
        """Return the estimates of all recommenders and metrics by every estimator, with intervals."""
        random = self.of_users(users) if users.size else None
        made = {}
        for name, path in self.paths.items():
            frame = correct_path(path, random, prior=prior, confidence_level=level).frame
            for estimator, part in frame.groupby("estimator", sort=False):
                made[name if estimator == CORRECTED else str(estimator)] = part
        made[POWER_LAW] = self.weighted
        if users.size:
            shown = self.exposure.select(np.isin(self.exposure.user, users))
            try:
                model = DensityRatioPropensity(shown, biased=self.split.test, rng=rng)
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")  # it warns of small samples, which are the question here
                    propensity = model.fit(self.split.train)
            except IpsevalError:  # too little exposure to fit: there is no such estimate then
                return made
            made[DENSITY_RATIO] = _weighted(self.held_out, propensity, self.metrics)
        return made

    def judged(
        self, users: IntArray, found: Mapping[str, pd.DataFrame], level: float
    ) -> Iterator[dict[str, Any]]:
        """Yield the scores of each estimator and metric, by the users that were not drawn."""
        others = self.of_users(np.setdiff1d(self.exposed, users))
        frame = evaluate_ranks(others, metrics=self.metrics, estimators=[AOA_POOLED]).frame
        models, labels = list(others), [one.label for one in self.metrics]
        right, error = _cells(frame, ("estimate", "std_error"), models, labels)
        reach = float(ndtri((1 + level) / 2))
        for name, frame in found.items():
            own, low, high = _cells(frame, ("estimate", "ci_low", "ci_high"), models, labels)
            scores = _scores(own, (high - low) / 2, right, reach * error)
            for label, row in zip(labels, scores.tolist(), strict=True):
                yield {"metric": label, "estimator": name, **dict(zip(SCORES, row, strict=True))}


def _weighted(ranks: Ranks, propensity: Propensity, metrics: list[Metric]) -> pd.DataFrame:
    return evaluate_ranks(
        ranks, propensity=propensity, metrics=metrics, estimators=[SNIPS_POOLED], low_ess="ignore"
    ).frame


def _scores(own: FloatArray, half: FloatArray, right: FloatArray, noise: FloatArray) -> FloatArray:
    """Return scores (n_metrics, 5) of estimates, half-widths, truth and its noise, (n_metrics, n_models)."""
    covered = (np.abs(own - right) <= np.hypot(half, noise)).mean(axis=1)
    met = dict(zip(CRITERIA, criteria(own, right).T, strict=True))
    return np.column_stack([met["mae"], covered, half.mean(axis=1), met["tau_b"], met["regret"]])


def _cells(
    frame: pd.DataFrame, columns: tuple[str, ...], models: list[str], metrics: list[str]
) -> tuple[FloatArray, ...]:
    """Return columns of a frame with one row per recommender and metric, each (n_metrics, n_models)."""
    place = {cell: row for row, cell in enumerate(zip(frame["metric"], frame["model"], strict=True))}
    rows = [place[metric, model] for metric in metrics for model in models]
    return tuple(frame[one].to_numpy()[rows].reshape(len(metrics), -1) for one in columns)
