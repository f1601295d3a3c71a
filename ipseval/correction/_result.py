"""`Correction`: the bias-corrected estimates, with the ranking, comparisons and the report."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval._version import __version__
from ipseval.correction._alpha import AlphaPosterior
from ipseval.correction._names import CORRECTED, ESTIMAND, PPI, RANDOM_SAMPLE
from ipseval.correction._order import MetricOrder, choose_recommender, find_leader, rank_by_aoa
from ipseval.correction._path import CorrectionPath
from ipseval.correction._posterior import SMALLEST_VARIANCE, Posterior, RandomSample, compute_posterior
from ipseval.correction._prior import ALPHAS, INTERACTIONS, CorrectionPrior
from ipseval.correction._reference_values import CHECK_COLUMNS, ReferenceValues
from ipseval.correction._report import NOTED_TRUNCATION, CorrectionReport, correction_tables
from ipseval.correction.prediction_powered import PpiEstimate
from ipseval.data.random_exposure import RandomExposure
from ipseval.estimators import Claim
from ipseval.estimators.labels import AOA_POOLED, resolve_estimator
from ipseval.inference.comparisons import list_pairs
from ipseval.inference.estimate_frame import FRAME_COLUMNS
from ipseval.inference.intervals import compute_normal_interval
from ipseval.reporting import Tables
from ipseval.reporting.formatting import join_names, write_or_return
from ipseval.reporting.results import Result
from ipseval.utils.checks import check_positive_int
from ipseval.utils.ids import unique_keys
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray

CLAIMS = {
    RANDOM_SAMPLE: str(Claim("consistent", "given users and items drawn at random; pooled over pairs")),
    PPI: str(Claim("consistent", "under the conditions of random-sample; usually with a smaller error")),
    CORRECTED: "posterior mean given the prior of the correction strength; converges to random-sample",
}
DESIGN_NOTE = "pairs are weighted by the inverse of their inclusion probability"
# Range of the metrics that a correction estimates, to which intervals are limited.
METRIC_RANGE = (0.0, 1.0)
# The path is flat if the correction at a strength of 0.45 is below this share of AOA above chance.
FLAT_PATH = 0.25
COMPARE_COLUMNS = (
    "metric",
    "estimator",
    "model",
    "reference",
    "difference",
    "std_error",
    "ci_low",
    "ci_high",
    "probability_higher",
)
ORDER_COLUMNS = (
    "metric",
    "recommender",
    "aoa_pooled",
    "corrected",
    "ci_low",
    "ci_high",
    "p_better_than_next",
    "expected_regret",
)


@public_class
@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Correction(Result):
    """Bias-corrected estimates of the mean over relevant interactions, computed by `correct`.

    Parameters
    ----------
    path : CorrectionPath
        Values by correction strength, from the log.
    prior : CorrectionPrior
        Prior of the correction strength and of the deviations.
    sample : RandomSample or None
        Mean over the random-exposure positives; None without any, so that the estimates depend on the prior.
    posterior : Posterior
        Posterior of the values.
    random_exposure : RandomExposure or None
        The random exposure outside training.
    confidence_level : float
        Probability of all intervals.
    ppi : PpiEstimate or None
        Prediction-powered estimate; None without random exposure, and where only positives were ranked.
    observations : ReferenceValues or None
        Reference values from an experiment.
    diagnostic_posterior : Posterior or None
        Posterior of the diagnostic path given the random sample; None without a sample, and if the path is its own
        diagnostic path.

    See Also
    --------
    correct : Compute the correction of recommenders.
    plan_exposure : Plan the random exposure that makes it more precise.

    Examples
    --------
    >>> from ipseval import RandomExposure, correct, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> exposure = RandomExposure.from_ratings(world.expose(rng=3), threshold=4)
    >>> correction = correct(models, split, random_exposure=exposure, metrics=["recall@10"], rng=4)
    >>> correction.frame[["model", "estimator", "estimate", "std_error"]].round(3)
         model      estimator  estimate  std_error
    0    taste     aoa-pooled     0.599      0.025
    1  popular     aoa-pooled     0.597      0.025
    2    taste  random-sample     0.385      0.022
    3  popular  random-sample     0.301      0.021
    4    taste            ppi     0.385      0.020
    5  popular            ppi     0.297      0.020
    6    taste      corrected     0.382      0.021
    7  popular      corrected     0.302      0.021
    """

    path: CorrectionPath
    prior: CorrectionPrior
    sample: RandomSample | None
    posterior: Posterior
    random_exposure: RandomExposure | None = None
    confidence_level: float = 0.95
    ppi: PpiEstimate | None = None
    observations: ReferenceValues | None = None
    diagnostic_posterior: Posterior | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the recommenders, in the order in which they were passed."""
        return self.path.models

    @property
    def has_point_estimate(self) -> bool:
        """Whether the bias-corrected estimates have values, in addition to intervals.

        They have with random exposure, interactions or reference values. The positives of the log alone do
        not identify the level: the posterior mean is then no more accurate than half of AOA above chance.
        """
        is_measured = self.sample is not None or self.observations is not None
        return is_measured or INTERACTIONS in self.path.bases

    @property
    def frame(self) -> pd.DataFrame:
        """One row per model, metric and estimator, with the columns of `Evaluation.frame`; a new copy.

        Estimators are `aoa-pooled` and `corrected`, with random exposure also `random-sample` and `ppi`. All
        estimate the mean over relevant interactions. From the positives of the log alone, the estimate and
        the standard error of `corrected` are NaN, and its interval is what the log can say. All intervals are
        limited to [0, 1], the range of these metrics, as in the report.
        """
        return self._frame.copy()

    @cached_property
    def _frame(self) -> pd.DataFrame:
        path = self.path
        sample = self.sample
        aoa_counts = (path.n_users, path.n_positives, path.ess[0])
        rows = self._estimator_rows(AOA_POOLED, path.value[0], path.covariance[0], aoa_counts)
        if sample is not None:
            half_hit = sample.half_hit(path)
            counts = (sample.n_users, sample.n_positives, float(sample.size))
            note = ""
            if sample.ess is not None:
                note = "assumes that randomised slots were random; pairs are weighted"
            if sample.hit_weight is not None:
                note = "; ".join(filter(None, (DESIGN_NOTE, self._precision_loss)))
            covariance = sample.interval_covariance(path)
            rows += self._estimator_rows(RANDOM_SAMPLE, sample.value, covariance, counts, note)
            if self.ppi is not None:
                covariance = self.ppi.covariance + half_hit
                rows += self._estimator_rows(PPI, self.ppi.value, covariance, counts)
        rows += self._estimator_rows(
            CORRECTED,
            self.posterior.total_mean,
            self.posterior.total_covariance,
            (path.n_users, path.n_positives, path.ess[self._grid_position]),
            "; ".join(self._notes()),
        )
        return pd.DataFrame(rows, columns=list(FRAME_COLUMNS))

    @property
    def _precision_loss(self) -> str:
        """Sentence on the effective sample of metrics of the whole ranking; empty without designed exposure."""
        sample = self.sample
        if sample is None or sample.hit_weight is None:
            return ""
        labels = []
        for metric in self.path.metrics:
            if metric.cutoff is None:
                labels.append(metric.label)
        if not labels:
            return ""
        return (
            f"{join_names(labels)}: metrics of the whole ranking lose precision by the design; their effective "
            f"sample is {sample.size:,.0f} of {sample.n_positives:,} positives."
        )

    @property
    def _grid_position(self) -> int:
        """Position on the grid of the strength that is nearest to its posterior mean."""
        return int(np.argmin(np.abs(self.path.alpha[: ALPHAS.size] - self.alpha.mean)))

    @property
    def _truncated_share(self) -> float:
        """Share of the weight that is truncated at the posterior mean of the correction strength."""
        return float(self.path.clipped[self._grid_position])

    def _notes(self) -> list[str]:
        """Return notes on the assumptions and the reliability of the bias-corrected estimates."""
        notes = []
        if not self.has_point_estimate:
            notes.append("no random exposure: an interval without an estimate, which depends on the prior")
        elif self.sample is None and self.observations is None:
            notes.append("no random exposure: the level depends on the prior")
        elif self.sample is None:
            notes.append("no random exposure: the level depends on the reference values and the prior")
        if not self.explained:
            notes.append("the model of exposure does not fit the log")
        if not self.explained and self.sample is not None:
            notes.append("report random-sample instead")
        if self._truncated_share >= NOTED_TRUNCATION:
            strength = f"{self.alpha.mean:.2f}"
            share = f"{self._truncated_share:.0%}"
            notes.append(f"at strength {strength} large weights are truncated, by {share} of all weight")
        return notes

    def _estimator_rows(
        self,
        estimator: str,
        value: FloatArray,
        covariance: FloatArray,
        counts: tuple[int, int, float],
        note: str = "",
    ) -> list[tuple[object, ...]]:
        """Return the rows of one estimator, with the columns of `FRAME_COLUMNS`."""
        aoa = resolve_estimator(AOA_POOLED)
        claims: list[str] = []
        for metric in self.path.metrics:
            claim = CLAIMS.get(estimator, str(aoa.claim(metric)))
            claims += [claim] * len(self.models)
        error = np.sqrt(np.diagonal(covariance))
        if estimator == CORRECTED:
            low, high = self._interval(np.eye(value.size))
        else:
            low, high = compute_normal_interval(value, error, confidence_level=self.confidence_level)
        low = np.clip(low, *METRIC_RANGE)
        high = np.clip(high, *METRIC_RANGE)
        if estimator == CORRECTED and not self.has_point_estimate:
            value = np.full(value.size, np.nan)
            error = value
        max_weight_share = float("nan")
        flag = ""
        rows: list[tuple[object, ...]] = []
        for number, (cell, claim) in enumerate(zip(self.path.cells, claims, strict=True)):
            numbers = (value[number], error[number], low[number], high[number])
            rows.append((*cell, estimator, *numbers, *counts, max_weight_share, claim, note, ESTIMAND, flag))
        return rows

    @cached_property
    def _metric_orders(self) -> tuple[MetricOrder, ...]:
        """The ranking of the recommenders by each metric, with the probabilities of the posterior."""
        n_models = len(self.models)
        rows = self._frame[self._frame["estimator"] == CORRECTED]
        low = rows["ci_low"].to_numpy()
        high = rows["ci_high"].to_numpy()
        corrected = self.posterior.total_mean
        if not self.has_point_estimate:
            corrected = np.full(corrected.size, np.nan)
        orders = []
        for number, metric in enumerate(self.path.metrics):
            cells = slice(number * n_models, (number + 1) * n_models)
            ranked = rank_by_aoa(self.path.value[0, cells])
            p_better = self.posterior.probability_better(cells)
            orders.append(
                MetricOrder(
                    metric=metric.label,
                    models=tuple(self.models[position] for position in ranked),
                    aoa_pooled=self.path.value[0, cells][ranked],
                    corrected=corrected[cells][ranked],
                    ci_low=low[cells][ranked],
                    ci_high=high[cells][ranked],
                    expected_regret=self.posterior.expected_regret(cells)[ranked],
                    p_better=p_better[np.ix_(ranked, ranked)],
                    is_explained=self.explained,
                    n_exposed=self._n_exposed_users,
                    sample_lead=self._compute_sample_lead(cells, ranked),
                )
            )
        return tuple(orders)

    @property
    def _n_exposed_users(self) -> int:
        """Number of users with random exposure; of those with a positive where only positives were passed."""
        if self.sample is None:
            return 0
        return count_exposed_users(self.random_exposure, self.sample)

    def _compute_sample_lead(self, cells: slice, ranked: list[int]) -> FloatArray | None:
        """Return differences in the random sample in standard errors, row minus column; None without one."""
        if self.sample is None:
            return None
        value = self.sample.value[cells][ranked]
        covariance = self.sample.sample_covariance + self.sample.half_hit(self.path)
        covariance = covariance[cells, cells][np.ix_(ranked, ranked)]
        variance = np.diagonal(covariance)
        gap_variance = np.maximum(variance[:, None] + variance - 2 * covariance, 0)
        gap = value[:, None] - value
        has_error = gap_variance > SMALLEST_VARIANCE
        return np.divide(gap, np.sqrt(gap_variance), out=np.zeros(gap.shape), where=has_error)

    @property
    def order(self) -> pd.DataFrame:
        """One row per metric and recommender, in the order of AOA.

        Returns
        -------
        DataFrame
            metric, recommender, aoa_pooled; corrected, NaN from the positives of the log alone, with ci_low
            and ci_high, limited to [0, 1], the range of these metrics; p_better_than_next: the probability to
            be better than the recommender of the next row, NaN in the last row; expected_regret: E[max θ] −
            E[θ], the average loss of choosing this recommender instead of the best recommender. Without random
            items, and if the model of exposure does not fit the log, the last two rest mainly on the prior, so
            the printed result omits them.
        """
        rows = []
        for order in self._metric_orders:
            for row, model in enumerate(order.models):
                is_last = row + 1 == len(order.models)
                rows.append(
                    (
                        order.metric,
                        model,
                        order.aoa_pooled[row],
                        order.corrected[row],
                        order.ci_low[row],
                        order.ci_high[row],
                        float("nan") if is_last else order.p_better[row, row + 1],
                        order.expected_regret[row],
                    )
                )
        return pd.DataFrame(rows, columns=list(ORDER_COLUMNS))

    @property
    def leader(self) -> str | None:
        """The winner by the first metric; None without a winner.

        There is a winner if random exposure was passed, the model of exposure fits the log, a
        recommender is better than every other with a probability of 0.95 or more, and the random sample
        itself has it ahead of every other by at least half a standard error of their difference.
        """
        return find_leader(self._metric_orders[0])

    @property
    def choice(self) -> str:
        """The best choice given the present data, by the first metric.

        It ranks first by AOA, unless another recommender is better with a probability above a threshold. The
        threshold is 0.8 with nobody exposed, and falls to 0.5 with 100 exposed users or more.
        """
        return choose_recommender(self._metric_orders[0])

    def _interval(self, contrast: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the ends of the credible intervals of contrasts of the cells."""
        tail = (1 - self.confidence_level) / 2
        return self.posterior.quantile(contrast, tail), self.posterior.quantile(contrast, 1 - tail)

    @cached_property
    def alpha(self) -> AlphaPosterior:
        """The posterior of the correction strength."""
        grid = self.path.alpha[: ALPHAS.size]
        mass = self.posterior.alpha_mass
        tail = (1 - self.confidence_level) / 2
        ends = np.searchsorted(np.cumsum(mass), [tail, 1 - tail]).clip(max=grid.size - 1)
        low, high = grid[ends].tolist()
        prior_mass = self.prior.grid_mass(self.path.bases).reshape(-1, grid.size).sum(axis=0)
        density = pd.DataFrame({"alpha": grid, "prior": prior_mass, "posterior": mass})
        return AlphaPosterior(mean=float(mass @ grid), low=low, high=high, density=density)

    @cached_property
    def explained(self) -> bool:
        """Whether the model of exposure fits the log.

        It does not where the path is flat, and where the random sample deviates too far from the path. Both are
        computed by atop, recall@5 and mean_dcg@10 (recommendation lists have no atop), so that the answer depends
        on the log, the random sample and the recommenders, but not on the requested metrics.
        """
        path = self.path
        if path.diagnostic_path is not None:
            path = path.diagnostic_path
        posterior = self.posterior
        if self.diagnostic_posterior is not None:
            posterior = self.diagnostic_posterior
        if path.reach < FLAT_PATH:
            return False
        return self.sample is None or posterior.misfit_probability <= 0.5

    @cached_property
    def reference_values(self) -> pd.DataFrame:
        """One row per reference value, with its expectation from all other data.

        model, reference ("" except for ratios), metric, value, std_error, expected, expected_error; z: the
        difference of value and expectation over its standard error; disagrees: whether it differs
        significantly from 0, at 0.05 over all recommenders; detectable_error: the error of a value that is
        detected with 80% power. All values of one recommender are excluded from its expectations.
        """
        if self.observations is None:
            return pd.DataFrame(columns=list(CHECK_COLUMNS))
        return self.observations.compare_with_expectation(
            lambda observations: compute_posterior(self.path, self.prior, self.sample, observations)
        )

    def compare(self, reference: str | None = None) -> pd.DataFrame:
        """Compare recommenders by the joint posterior of their values.

        Parameters
        ----------
        reference : str, optional
            Recommender with which the remaining recommenders are compared. Default: every pair.

        Returns
        -------
        DataFrame
            metric, estimator, model, reference, difference = R(model) − R(reference), std_error, ci_low,
            ci_high, probability_higher: the posterior probability that the difference is above 0.
        """
        pairs = list_pairs(self.path.models, reference)
        if not pairs:
            return pd.DataFrame(columns=list(COMPARE_COLUMNS))
        position = {cell: number for number, cell in enumerate(self.path.cells)}
        unit = np.eye(len(position))
        rows = []
        contrasts = []
        for metric, (first, second) in product(self.path.metrics, pairs):
            rows.append((metric.label, CORRECTED, first, second))
            contrasts.append(unit[position[first, metric.label]] - unit[position[second, metric.label]])
        frame = pd.DataFrame(rows, columns=list(COMPARE_COLUMNS[:4]))

        contrast = np.array(contrasts)
        variance = np.einsum("ik,kl,il->i", contrast, self.posterior.total_covariance, contrast)
        low, high = self._interval(contrast)
        frame["difference"] = contrast @ self.posterior.total_mean
        # For equal recommenders rounding can make a variance negative.
        frame["std_error"] = np.sqrt(np.maximum(variance, 0))
        frame["ci_low"] = low
        frame["ci_high"] = high
        frame["probability_higher"] = self.posterior.probability_positive(contrast)
        return frame

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: the verdict, and one table of means over relevant interactions per metric.

        Parameters
        ----------
        digits : int, default 2
            One less than the smallest number of decimal places.
        page : bool, default False
            Whether to add a title, as an HTML page has.

        Returns
        -------
        Tables
            The verdict, and one table per metric.

        Raises
        ------
        InputError
            When `digits` is not a positive integer.
        """
        sample = self.sample
        report = CorrectionReport(
            frame=self._frame,
            orders=self._metric_orders,
            n_users=self.path.n_users,
            n_positives=self.path.n_positives,
            n_random_users=0 if sample is None else sample.n_users,
            n_random_positives=0 if sample is None else sample.n_positives,
            random_exposure=self.random_exposure,
            precision_loss=self._precision_loss,
            reference_values=self.reference_values,
            alpha=self.alpha,
            truncated_share=self._truncated_share,
            confidence_level=self.confidence_level,
        )
        check_positive_int("digits", digits)
        return correction_tables(report, digits=digits, page=page)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the estimates, the order and the verdict as JSON, or write them to a file.

        Parameters
        ----------
        path : str or Path, optional
            The file to write.

        Returns
        -------
        str
            The JSON text, or the path if one is given. NaN becomes null.

        Raises
        ------
        InputError
            When the file cannot be written.
        """
        record = {
            "ipseval": __version__,
            "estimand": ESTIMAND,
            "confidence_level": self.confidence_level,
            "leader": self.leader,
            "choice": self.choice,
            "verdict": self.verdict,
            "order": _records(self.order),
            "estimates": _records(self._frame),
        }
        return write_or_return(json.dumps(record, indent=2), path)

    def plot(self, metric: str | None = None, estimator: str | None = None, *, ax: Any = None) -> Any:
        """Plot estimates and intervals by one metric.

        Parameters
        ----------
        metric, estimator : str, optional
            Labels. Default: the first metric, and all estimators.
        ax : Axes, optional
            Axes of Matplotlib to draw into. Default: new axes.

        Returns
        -------
        Axes
            The axes of the plot.
        """
        from ipseval.reporting.plots.estimates import plot_result

        label = self.path.metrics[0].label if metric is None else metric
        frame = self._frame
        for order in self._metric_orders:
            if order.metric == label:
                position = {model: number for number, model in enumerate(order.models)}
                row_order = frame["model"].map(position).argsort(kind="stable")
                frame = frame.iloc[row_order.to_numpy()]
        axes = plot_result(frame, label, estimator, ax=ax)
        level = f"{100 * self.confidence_level:g}%"
        axes.set_xlabel(f"{label}: {ESTIMAND}, with {level} intervals", parse_math=False)
        return axes


def count_exposed_users(random_exposure: RandomExposure | None, sample: RandomSample | None) -> int:
    """Return the number of exposed users; of those with a positive where only positives were passed."""
    if random_exposure is not None:
        return int(unique_keys(random_exposure.user).size)
    if sample is not None:
        return sample.n_users
    return 0


def _records(frame: pd.DataFrame) -> list[dict[object, object]]:
    """Return the rows of a frame as dictionaries, with None for NaN."""
    return frame.astype(object).where(frame.notna(), None).to_dict(orient="records")
