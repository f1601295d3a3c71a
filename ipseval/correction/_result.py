"""`Correction`: bias-corrected estimates, and what can be asked of them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval._version import __version__
from ipseval.correction._alpha import AlphaPosterior
from ipseval.correction._names import CORRECTED, ESTIMAND, PPI, RANDOM_SAMPLE
from ipseval.correction._order import MetricOrder, choose_recommender, find_leader, rank_by_aoa
from ipseval.correction._path import CorrectionPath
from ipseval.correction._posterior import Posterior, RandomSample, posterior
from ipseval.correction._prior import ALPHAS, INTERACTIONS, CorrectionPrior
from ipseval.correction._reference_values import CHECK_COLUMNS, ReferenceValues
from ipseval.correction._report import NOTED_TRUNCATION, CorrectionReport, correction_tables
from ipseval.correction.prediction_powered import PpiEstimate
from ipseval.data.random_exposure import RandomExposure
from ipseval.estimators import Claim
from ipseval.estimators.labels import AOA_POOLED, resolve_estimator
from ipseval.inference.comparisons import pairs_of
from ipseval.inference.estimate_frame import FRAME_COLUMNS
from ipseval.inference.intervals import normal_interval
from ipseval.reporting import Tables
from ipseval.reporting.formatting import deliver
from ipseval.reporting.results import Result
from ipseval.utils.checks import check_positive_int
from ipseval.utils.types import FloatArray

CLAIMS = {
    RANDOM_SAMPLE: str(Claim("consistent", "given users and items drawn at random; pooled over pairs")),
    PPI: str(Claim("consistent", "under the conditions of random-sample; usually with a smaller error")),
    CORRECTED: "posterior mean given the prior of the correction strength; converges to random-sample",
}
# Below this share of AOA's height above chance that a strength of 0.45 removes, the path is flat.
FLAT_PATH = 0.25
COMPARED = (
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


@dataclass(frozen=True, eq=False, repr=False, kw_only=True)
class Correction(Result):
    """Bias-corrected estimates of the mean over relevant interactions, made by `correct`.

    Attributes
    ----------
    path : CorrectionPath
    prior : CorrectionPrior
    sample : RandomSample or None
        Mean over the random-exposure positives; None without one: then the estimates depend on the prior.
    posterior : Posterior
    random_exposure : RandomExposure or None
    confidence_level : float
    ppi : PpiEstimate or None
        Prediction-powered estimate; None without random exposure, and where only positives were ranked.
    observations : ReferenceValues or None
        Reference values from an experiment.
    """

    path: CorrectionPath
    prior: CorrectionPrior
    sample: RandomSample | None
    posterior: Posterior
    random_exposure: RandomExposure | None = None
    confidence_level: float = 0.95
    ppi: PpiEstimate | None = None
    observations: ReferenceValues | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the recommenders, in the order in which they were passed."""
        return self.path.models

    @property
    def frame(self) -> pd.DataFrame:
        """One row per model, metric and estimator, with the columns of `Evaluation.frame`; a new copy.

        Estimators are `aoa-pooled` and `corrected`, with random exposure also `random-sample` and `ppi`. All
        estimate the mean over relevant interactions.
        """
        return self._frame.copy()

    @cached_property
    def _frame(self) -> pd.DataFrame:
        path = self.path
        sample = self.sample
        strongest = self._grid_position
        log_counts = (path.n_users, path.n_positives)
        rows = self._rows(AOA_POOLED, path.value[0], path.covariance[0], (*log_counts, path.ess[0]))
        if sample is not None:
            half_hit = path.half_hit(sample.size)
            counts = (sample.n_users, sample.n_positives, float(sample.size))
            note = (
                "" if sample.ess is None else "assumes that exploration slots were random; pairs are weighted"
            )
            rows += self._rows(RANDOM_SAMPLE, sample.value, sample.own + half_hit, counts, note)
            if self.ppi is not None:
                rows += self._rows(PPI, self.ppi.value, self.ppi.covariance + half_hit, counts)
        mean = self.posterior.total_mean
        covariance = self.posterior.total_covariance
        counts = (*log_counts, path.ess[strongest])
        rows += self._rows(CORRECTED, mean, covariance, counts, "; ".join(self._notes()))
        return pd.DataFrame(rows, columns=list(FRAME_COLUMNS))

    @property
    def _grid_position(self) -> int:
        """Position on the grid of the strength that is nearest to its posterior mean."""
        return int(np.argmin(np.abs(self.path.alpha[: ALPHAS.size] - self.alpha.mean)))

    @property
    def _truncated_share(self) -> float:
        """Share of the weight that is truncated at the posterior mean of the correction strength."""
        return float(self.path.clipped[self._grid_position])

    def _notes(self) -> list[str]:
        """Return what a reader must know of the bias-corrected estimates."""
        notes = []
        if self.sample is None and self.observations is None:
            notes.append("no random exposure: the level depends on the prior")
        elif self.sample is None:
            notes.append("no random exposure: the level depends on the reference values and the prior")
        if not self.explained:
            notes.append("the density ratio of the log does not explain exposure")
        if not self.explained and self.sample is not None:
            notes.append("read random-sample")
        if self._truncated_share >= NOTED_TRUNCATION:
            strength = f"{self.alpha.mean:.2f}"
            share = f"{self._truncated_share:.0%}"
            notes.append(f"at strength {strength} large weights are truncated, by {share} of all weight")
        return notes

    def _rows(
        self,
        estimator: str,
        value: FloatArray,
        covariance: FloatArray,
        counts: tuple[int, int, float],
        note: str = "",
    ) -> list[tuple[Any, ...]]:
        aoa = resolve_estimator(AOA_POOLED)
        claims: list[str] = []
        for metric in self.path.metrics:
            claim = CLAIMS.get(estimator, str(aoa.claim(metric)))
            claims += [claim] * len(self.models)
        error = np.sqrt(np.diagonal(covariance))
        if estimator == CORRECTED:
            low, high = self._interval(np.eye(value.size))
        else:
            low, high = normal_interval(value, error, confidence_level=self.confidence_level)
        numbers = zip(value, error, low, high, strict=True)
        no_weights = float("nan")
        return [
            (*cell, estimator, *estimate, *counts, no_weights, claim, note, ESTIMAND, "")
            for cell, estimate, claim in zip(self.path.cells, numbers, claims, strict=True)
        ]

    @cached_property
    def _metric_orders(self) -> tuple[MetricOrder, ...]:
        """The ranking of the recommenders by each metric, with the probabilities of the posterior."""
        n_models = len(self.models)
        low, high = self._interval(np.eye(self.path.metric_of.size))
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
                    corrected=self.posterior.total_mean[cells][ranked],
                    ci_low=np.clip(low[cells], 0, 1)[ranked],
                    ci_high=np.clip(high[cells], 0, 1)[ranked],
                    expected_regret=self.posterior.expected_regret(cells)[ranked],
                    p_better=p_better[np.ix_(ranked, ranked)],
                    is_informed=self.sample is not None or INTERACTIONS in self.path.bases,
                    is_explained=self.explained,
                )
            )
        return tuple(orders)

    @property
    def order(self) -> pd.DataFrame:
        """One row per metric and recommender, the first by AOA on top.

        Returns
        -------
        DataFrame
            metric, recommender, aoa_pooled; corrected with ci_low and ci_high, limited to [0, 1], where
            these metrics lie; p_better_than_next: the probability to be better than the recommender of the
            next row, NaN in the last one; expected_regret: E[max θ] − E[θ], what choosing this recommender
            loses on average to the best one.
        """
        rows = []
        for order in self._metric_orders:
            for place, model in enumerate(order.models):
                is_last = place + 1 == len(order.models)
                rows.append(
                    (
                        order.metric,
                        model,
                        order.aoa_pooled[place],
                        order.corrected[place],
                        order.ci_low[place],
                        order.ci_high[place],
                        float("nan") if is_last else order.p_better[place, place + 1],
                        order.expected_regret[place],
                    )
                )
        return pd.DataFrame(rows, columns=list(ORDER_COLUMNS))

    @property
    def leader(self) -> str | None:
        """The winner by the first metric; None where no recommender is named.

        Named where random exposure or interactions were passed, the density ratio of the log explains
        exposure, and the recommender is better than every other one with a probability of 0.95 or more.
        """
        return find_leader(self._metric_orders[0])

    @property
    def choice(self) -> str:
        """The recommender to keep until more is known, by the first metric.

        AOA's first, unless another one is better with a probability of 0.8 or more.
        """
        return choose_recommender(self._metric_orders[0])

    def _interval(self, contrast: FloatArray) -> tuple[FloatArray, FloatArray]:
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
        before = self.prior.grid_mass(self.path.bases).reshape(-1, grid.size).sum(axis=0)
        density = pd.DataFrame({"alpha": grid, "prior": before, "posterior": mass})
        return AlphaPosterior(float(mass @ grid), low, high, density)

    @cached_property
    def explained(self) -> bool:
        """Whether the density ratio of the log explains exposure.

        It does not where the path is flat, and where the random sample deviates too far from the path.
        """
        if self.path.reach < FLAT_PATH:
            return False
        return self.sample is None or self.posterior.strained <= 0.5

    @cached_property
    def reference_values(self) -> pd.DataFrame:
        """One row per reference value, with its expectation from all other data.

        model, reference ("" except for ratios), metric, value, std_error, expected, expected_error; z: their
        distance in standard errors of both; disagrees: whether it differs significantly from 0, at 0.05 over
        all recommenders; detectable_error: the error of a value that is detected with 80% power. Values of
        the same recommender are left out together.
        """
        if self.observations is None:
            return pd.DataFrame(columns=list(CHECK_COLUMNS))
        return self.observations.compare_with_rest(
            lambda rest: posterior(self.path, self.prior, self.sample, rest)
        )

    def compare(self, reference: str | None = None) -> pd.DataFrame:
        """Return differences of recommenders from the joint posterior.

        Parameters
        ----------
        reference : str, optional
            Compare the others with this one. Default: every pair.

        Returns
        -------
        DataFrame
            metric, estimator, model, reference, difference = R(model) − R(reference), std_error, ci_low,
            ci_high, probability_higher: the posterior probability that the difference is above 0.
        """
        pairs = pairs_of(self.path.models, reference)
        names = [(metric.label, CORRECTED, *pair) for metric in self.path.metrics for pair in pairs]
        if not names:
            return pd.DataFrame(columns=list(COMPARED))
        place = {cell: number for number, cell in enumerate(self.path.cells)}
        unit = np.eye(len(place))
        contrast = np.array([unit[place[a, metric]] - unit[place[b, metric]] for metric, _, a, b in names])
        variance = np.einsum("ik,kl,il->i", contrast, self.posterior.total_covariance, contrast)
        error = np.sqrt(np.maximum(variance, 0))  # equal recommenders: rounding may leave less than 0
        columns = (contrast @ self.posterior.total_mean, error, *self._interval(contrast))
        numbers = zip(*columns, self.posterior.above_zero(contrast), strict=True)
        return pd.DataFrame(
            [(*name, *five) for name, five in zip(names, numbers, strict=True)], columns=list(COMPARED)
        )

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: the verdict, and one table of means over relevant interactions per metric."""
        sample = self.sample
        report = CorrectionReport(
            frame=self._frame,
            orders=self._metric_orders,
            n_users=self.path.n_users,
            n_positives=self.path.n_positives,
            n_random_users=0 if sample is None else sample.n_users,
            n_random_positives=0 if sample is None else sample.n_positives,
            random_exposure=self.random_exposure,
            reference_values=self.reference_values,
            alpha=self.alpha,
            truncated_share=self._truncated_share,
            confidence_level=self.confidence_level,
        )
        check_positive_int("digits", digits)
        return correction_tables(report, digits=digits, page=page)

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the estimates, the order and the verdict as JSON; NaN becomes null.

        Returns the path instead where one is given.
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
        return deliver(json.dumps(record, indent=2), path)

    def plot(self, metric: str | None = None, estimator: str | None = None, *, ax: Any = None) -> Any:
        """Return axes with estimates and intervals by one metric (default: the first).

        Parameters
        ----------
        metric, estimator : str, optional
            Default: the first metric, and all estimators.
        ax : Axes, optional
        """
        from ipseval.reporting.plots.estimates import plot_result

        label = self.path.metrics[0].label if metric is None else metric
        frame = self._frame
        for order in self._metric_orders:
            if order.metric == label:
                position = {model: number for number, model in enumerate(order.models)}
                ordered = frame["model"].map(position).argsort(kind="stable")
                frame = frame.iloc[ordered.to_numpy()]
        axes = plot_result(frame, label, estimator, ax=ax)
        level = f"{100 * self.confidence_level:g}%"
        axes.set_xlabel(f"{label}: {ESTIMAND}, with {level} intervals", parse_math=False)
        return axes


def _records(frame: pd.DataFrame) -> list[dict[Any, Any]]:
    """Return the rows of a frame as JSON holds them."""
    return frame.astype(object).where(frame.notna(), None).to_dict(orient="records")
