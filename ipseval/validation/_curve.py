"""exposure_curve(): errors of estimates against the number of users with random exposure."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

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
from ipseval.data.interactions import Interactions
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
from ipseval.utils.checks import (
    as_generator,
    check_callable,
    check_fraction,
    check_positive_int,
    check_type,
    format_count,
)
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions
from ipseval.utils.ids import unique_keys
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import FloatArray, IntArray, RngLike
from ipseval.validation._criteria import CRITERIA, compute_criteria
from ipseval.validation._population import (
    Ranks,
    exposure_outside_training,
    positive_pair_keys,
    rank_with_pairs,
    select_pairs,
)
from ipseval.validation.datasets import RandomExposureStudy

POWER_LAW = "power law"
DENSITY_RATIO = "density ratio"
WITH_INTERACTIONS = "correction, all interactions"
METRICS = ("atop", "recall@5", "mean_dcg@10")
SIZES = (0, 25, 50, 100, 200)
# The first three scores are in the unit of the metric.
SCORES = ("error", "covered", "half_width", "tau_b", "regret")


class PropensityModel(Protocol):
    """A propensity model that is fitted to training interactions."""

    def fit(self, train: Interactions, /) -> Propensity:
        """Return the fitted propensities."""


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class ExposureCurve(Result):
    """Error, coverage and ranking of estimates against the number of users with random exposure.

    Parameters
    ----------
    scores : DataFrame
        One row per split, draw, n_users, metric and estimator: error, mean over recommenders of
        |estimate − reference|; covered, share of recommenders whose difference is within its interval;
        half_width of the interval; tau_b of the ranking; regret, the loss of choosing the best recommender by
        the estimate.
    name : str
        Name of the study.
    confidence_level : float, default 0.95
        Level of the intervals of the differences.

    See Also
    --------
    exposure_curve : Compute the curve.

    Examples
    --------
    >>> from ipseval import baselines, simulation
    >>> world = simulation.World(n_users=300, n_items=60, mean_relevant=12, rng=0)
    >>> models = {"popular": baselines.popularity, "kNN": baselines.item_knn}
    >>> curve = exposure_curve(
    ...     models, world.study(rng=2), n_users=[0, 50], metrics=["recall@5"], n_draws=3, rng=0
    ... )
    >>> curve.scores[["draw", "n_users", "estimator", "error", "covered"]].tail(3).round(3)
        draw  n_users      estimator  error  covered
    15     2       50      corrected  0.013      1.0
    16     2       50      power law  0.040      1.0
    17     2       50  density ratio  0.023      1.0
    """

    scores: pd.DataFrame
    name: str
    confidence_level: float = 0.95

    @cached_property
    def frame(self) -> pd.DataFrame:
        """One row per n_users, metric and estimator: means over splits and draws.

        error, removed = 1 − error/error of aoa-pooled, coverage (in [0, 1], of the difference to a reference
        that is noisy itself), half_width, tau_b, regret; removed_se, tau_b_se and regret_se are standard
        errors over splits (NaN with one split), regret_change = regret − the regret of aoa-pooled, with its
        regret_change_se.
        """
        keys = ["n_users", "metric", "estimator"]
        draw_keys = ["split", "draw", "n_users", "metric"]
        is_aoa = self.scores["estimator"] == AOA_POOLED
        aoa = self.scores.loc[is_aoa, [*draw_keys, "error", "regret"]]
        scores = self.scores.merge(aoa, on=draw_keys, suffixes=("", "_aoa"))
        scores["regret_change"] = scores["regret"] - scores["regret_aoa"]

        columns = [*SCORES, "error_aoa", "regret_change"]
        split_means = scores.groupby(["split", *keys], sort=False)[columns].mean()
        split_means["removed"] = 1 - split_means["error"] / split_means["error_aoa"]
        over_splits = split_means.groupby(keys, sort=False)
        frame = over_splits.mean()
        frame["removed"] = 1 - frame["error"] / frame["error_aoa"]
        deviations = over_splits.std(ddof=1)
        n_splits = over_splits.size()
        for column in ("removed", "tau_b", "regret", "regret_change"):
            frame[f"{column}_se"] = deviations[column] / np.sqrt(n_splits)

        frame = frame.rename(columns={"covered": "coverage"}).drop(columns="error_aoa").reset_index()
        return frame[
            [
                *keys,
                "error",
                "removed",
                "removed_se",
                "coverage",
                "half_width",
                "tau_b",
                "tau_b_se",
                "regret",
                "regret_se",
                "regret_change",
                "regret_change_se",
            ]
        ]

    def plot(self, metric: str | None = None, estimator: str | None = None, *, ax: Any = None) -> Any:
        """Plot the error of every estimator, and half-widths, against the number of users.

        Parameters
        ----------
        metric : str, optional
            Label of the metric. Default: all metrics.
        estimator : str, optional
            Label of the estimator. Default: all estimators.
        ax : matplotlib axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib axes
            Axes with the plot, for further changes.
        """
        from ipseval.reporting.plots.curves import plot_exposure_curve

        return plot_exposure_curve(self.frame, metric=metric, estimator=estimator, ax=ax)

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: one table per metric.

        Parameters
        ----------
        digits : int, default 2
            One less than the number of decimal places.
        page : bool, default False
            Not used: pages have the same content.

        Returns
        -------
        Tables
            The tables, which explain the columns.
        """
        del page
        columns = ["n_users", "estimator", "error", "removed", "coverage", "half_width", "tau_b", "regret"]
        parts: list[Part] = []
        for name, rows in self.frame.groupby("metric", sort=False):
            parts.append(Heading(str(name)))
            parts.append(Table.from_frame(rows[columns].reset_index(drop=True), formats=f".{digits + 1}f"))
        n_splits = self.scores["split"].nunique()
        n_draws = self.scores["draw"].nunique()
        notes = Notes(
            (
                "removed: reduction of the error relative to aoa-pooled. "
                "coverage: how often the interval of the difference contains 0.",
                "The reference is the unweighted average over the random positives of all other users.",
            )
        )
        splits = format_count(n_splits, "split")
        draws = format_count(n_draws, "draw")
        summary = (f"{self.name}: {splits}, up to {draws} of users with random exposure",)
        return Tables(summary=summary, parts=(*parts, notes))


@public_function
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
    """Measure the error of estimates against the number of users with random exposure.

    Per split, recommenders are trained on a part of the biased positives. Some of the users with random
    exposure are drawn; the pooled mean over the random positives of all others is the reference. The
    estimators are aoa-pooled, snips-pooled with a power law and with a density ratio fitted to the draw, the
    random sample itself, and the correction strength. Where the log has pairs that are not positive, the
    correction is also computed with all interactions. |estimate − reference| is compared with the interval of
    their difference.

    Parameters
    ----------
    models : mapping
        Name -> function train -> scorer, at least two.
    study : RandomExposureStudy
        Biased log and random-exposure log.
    n_users : sequence of int, default (0, 25, 50, 100, 200)
        Numbers of users with random exposure; fewer than the study has.
    metrics : iterable of str or Metric, default ("atop", "recall@5", "mean_dcg@10")
        Averages over relevant items: atop, recall@k, mean_dcg@k.
    propensity : model with fit(train), optional
        Default: the power law with γ = 0, items without interactions smoothed.
    prior : CorrectionPrior, optional
        Prior of the correction.
    n_splits, n_draws : int, default 1 and 20
        Splits of the biased positives, and draws of users for each number (one where it is 0).
    test_fraction, confidence_level : float, default 0.2 and 0.95
        In (0, 1).
    rng : int, Generator or None, default None
        Source of splits, draws and fits.
    compute : ComputeOptions
        As in `rank_positives`.

    Returns
    -------
    ExposureCurve
        Scores of every draw, and their means in `.frame`.

    Raises
    ------
    InputError
        For fewer than two models, other metrics, or a number of users that leaves no user for the reference.

    See Also
    --------
    validate : Compare weighted estimators with random exposure.

    Examples
    --------
    Mean absolute errors of recall@5 without random exposure, and with that of 50 users:

    >>> from ipseval import baselines, simulation
    >>> world = simulation.World(n_users=300, n_items=60, mean_relevant=12, rng=0)
    >>> models = {"popular": baselines.popularity, "kNN": baselines.item_knn}
    >>> curve = exposure_curve(
    ...     models, world.study(rng=2), n_users=[0, 50], metrics=["recall@5"], n_draws=3, rng=0
    ... )
    >>> curve.frame[["n_users", "estimator", "error", "removed"]].round(2)
       n_users      estimator  error  removed
    0        0     aoa-pooled   0.24     0.00
    1        0      corrected   0.03     0.87
    2        0      power law   0.04     0.83
    3       50     aoa-pooled   0.24     0.00
    4       50  random-sample   0.02     0.93
    5       50      corrected   0.02     0.92
    6       50      power law   0.04     0.83
    7       50  density ratio   0.04     0.84
    """
    check_trainers(models)
    check_type("study", study, RandomExposureStudy, " Load one with ipseval.datasets.")
    check_fraction("confidence_level", confidence_level)
    check_positive_int("n_draws", n_draws)
    sizes = _check_sizes(n_users, study)
    metric_objects = [metric(request) for request in metrics]
    if propensity is None:
        propensity = PowerLawPropensity(gamma=0, unseen="smooth")
    if not hasattr(propensity, "fit"):
        raise InputError(f"propensity must be a model with fit(train); got {type(propensity).__name__}.")
    generator = as_generator(rng)
    rows: list[dict[str, object]] = []
    for split_number in range(check_positive_int("n_splits", n_splits)):
        split = split_random(study.positives().biased, test_fraction=test_fraction, rng=generator)
        exposure = exposure_outside_training(study, split)
        scorers = {}
        for name, train in models.items():
            scorers[name] = train(split.train)

        ranks = rank_with_pairs(scorers, split, positive_pair_keys(exposure), compute)
        experiment = _SplitExperiment.from_ranks(
            ranks,
            study=study,
            exposure=exposure,
            split=split,
            metrics=metric_objects,
            propensity=propensity,
            rng=generator,
        )
        for size in sizes:
            for draw in range(n_draws if size else 1):
                users = generator.choice(experiment.exposed_users, size, replace=False)
                estimates = experiment.compute_estimates(users, prior, confidence_level, generator)
                key = {"split": split_number, "draw": draw, "n_users": size}
                scores = experiment.iterate_scores(users, estimates, confidence_level)
                rows.extend(key | row for row in scores)
    return ExposureCurve(pd.DataFrame(rows), study.name, confidence_level)


def check_trainers(models: object, *, is_trained: bool = False) -> None:
    """Raise `InputError` unless `models` names at least two trainers, or two that are `trained` already."""
    if not isinstance(models, Mapping) or len(models) < 2:
        raise InputError('models must map at least two names to trainers: {"name": train -> scorer}.')
    if is_trained:
        return
    for name, trainer in models.items():
        check_callable(f"the model {name!r}", trainer)


def _check_sizes(n_users: Sequence[int], study: RandomExposureStudy) -> list[int]:
    """Return the numbers of users; raise `InputError` unless each leaves a user for the reference."""
    sizes = [check_positive_int("n_users", size, minimum=0) for size in n_users]
    n_exposed = unique_keys(study.random.user).size
    if not sizes or max(sizes) >= n_exposed:
        raise InputError(
            f"n_users must be numbers below {n_exposed:,}, the users with random exposure; got {sizes}."
        )
    return sizes


@dataclass(frozen=True, eq=False)
class _SplitExperiment:
    """Ranks and exposure of one split, with the estimates that do not depend on the drawn users."""

    split: Split
    metrics: list[Metric]
    held_out: Ranks
    random: Ranks
    exposure: RandomExposure
    paths: dict[str, CorrectionPath]
    power_law_estimates: pd.DataFrame

    @classmethod
    def from_ranks(
        cls,
        ranks: Ranks,
        *,
        study: RandomExposureStudy,
        exposure: RandomExposure,
        split: Split,
        metrics: list[Metric],
        propensity: PropensityModel,
        rng: np.random.Generator,
    ) -> _SplitExperiment:
        """Return the experiment of a split, from the ranks of its held-out and random positives."""
        held_out = select_pairs(ranks, split.test.pair_key, split.n_items)
        random = select_pairs(ranks, positive_pair_keys(exposure), split.n_items)
        paths = {CORRECTED: correction_path(held_out, split, metrics=metrics, rng=rng)}
        if len(study.biased) > len(study.positives().biased):
            paths[WITH_INTERACTIONS] = correction_path(
                held_out, split, metrics=metrics, interactions=study.biased, rng=rng
            )
        return cls(
            split=split,
            metrics=metrics,
            held_out=held_out,
            random=random,
            exposure=exposure,
            paths=paths,
            power_law_estimates=_estimate_snips(held_out, propensity.fit(split.train), metrics),
        )

    @property
    def exposed_users(self) -> IntArray:
        """Codes of the users with random exposure."""
        return unique_keys(self.exposure.user)

    def select_random_ranks(self, users: IntArray) -> Ranks:
        """Return the ranks of the random positives of these users."""
        selected = {}
        for name, ranked in self.random.items():
            selected[name] = ranked.select(np.isin(ranked.user, users))
        return selected

    def compute_estimates(
        self, users: IntArray, prior: CorrectionPrior | None, level: float, rng: np.random.Generator
    ) -> dict[str, pd.DataFrame]:
        """Return the estimates of all recommenders and metrics by every estimator, with intervals."""
        random = self.select_random_ranks(users) if users.size else None
        estimates = {}
        for name, path in self.paths.items():
            correction = correct_path(path, random, prior=prior, confidence_level=level)
            frame = correction.frame
            # From the log alone the frame has no estimates. The curve shows the error of the posterior mean.
            frame.loc[frame["estimator"] == CORRECTED, "estimate"] = correction.posterior.total_mean
            for estimator, rows in frame.groupby("estimator", sort=False):
                label = name if estimator == CORRECTED else str(estimator)
                estimates[label] = rows
        estimates[POWER_LAW] = self.power_law_estimates
        density_ratio = self._fit_density_ratio(users, rng) if users.size else None
        if density_ratio is not None:
            estimates[DENSITY_RATIO] = _estimate_snips(self.held_out, density_ratio, self.metrics)
        return estimates

    def _fit_density_ratio(self, users: IntArray, rng: np.random.Generator) -> Propensity | None:
        """Return the density ratio fitted to the exposure of some users; None if it is too small to fit."""
        exposure = self.exposure.select(np.isin(self.exposure.user, users))
        try:
            model = DensityRatioPropensity(exposure, biased=self.split.test, rng=rng)
            with warnings.catch_warnings():
                # The fit warns of small samples, whose effect this study measures.
                warnings.simplefilter("ignore")
                return model.fit(self.split.train)
        except IpsevalError:
            return None

    def iterate_scores(
        self, users: IntArray, estimates: Mapping[str, pd.DataFrame], level: float
    ) -> Iterator[dict[str, object]]:
        """Yield the scores of each estimator and metric; the users that were not drawn are the reference."""
        reference_ranks = self.select_random_ranks(np.setdiff1d(self.exposed_users, users))
        reference_frame = evaluate_ranks(reference_ranks, metrics=self.metrics, estimators=[AOA_POOLED]).frame
        labels = [metric.label for metric in self.metrics]
        models = list(reference_ranks)
        reference, reference_se = _pivot_columns(reference_frame, ("estimate", "std_error"), models, labels)
        z = float(ndtri((1 + level) / 2))
        for name, frame in estimates.items():
            values, low, high = _pivot_columns(frame, ("estimate", "ci_low", "ci_high"), models, labels)
            scores = _score_estimates(values, (high - low) / 2, reference, z * reference_se)
            for label, row in zip(labels, scores.tolist(), strict=True):
                yield {"metric": label, "estimator": name, **dict(zip(SCORES, row, strict=True))}


def _estimate_snips(ranks: Ranks, propensity: Propensity, metrics: list[Metric]) -> pd.DataFrame:
    """Return the estimates of all recommenders by pooled SNIPS."""
    return evaluate_ranks(
        ranks, propensity=propensity, metrics=metrics, estimators=[SNIPS_POOLED], low_ess="ignore"
    ).frame


def _score_estimates(
    estimates: FloatArray, half_widths: FloatArray, reference: FloatArray, reference_half_widths: FloatArray
) -> FloatArray:
    """Return the five `SCORES` of each metric, (n_metrics, 5), from arrays (n_metrics, n_models)."""
    tolerance = np.hypot(half_widths, reference_half_widths)
    covered = (np.abs(estimates - reference) <= tolerance).mean(axis=1)
    criteria = dict(zip(CRITERIA, compute_criteria(estimates, reference).T, strict=True))
    return np.column_stack(
        [criteria["mae"], covered, half_widths.mean(axis=1), criteria["tau_b"], criteria["regret"]]
    )


def _pivot_columns(
    frame: pd.DataFrame, columns: tuple[str, ...], models: list[str], metrics: list[str]
) -> tuple[FloatArray, ...]:
    """Return columns of a frame with one row per recommender and metric, each (n_metrics, n_models)."""
    cells = zip(frame["metric"], frame["model"], strict=True)
    row_of_cell = {cell: row for row, cell in enumerate(cells)}
    rows: list[int] = []
    for metric_label in metrics:
        rows.extend(row_of_cell[metric_label, model] for model in models)
    pivoted_columns = []
    for column in columns:
        pivoted_columns.append(frame[column].to_numpy()[rows].reshape(len(metrics), -1))

    return tuple(pivoted_columns)
