"""What type checkers make of the main expressions: read by mypy and pyright, never run.

`assert_type` is an error for any other type, `Any` included. `python -m tests.typed` runs the checkers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_type

import numpy as np
import numpy.typing as npt
import pandas as pd

import ipseval
from ipseval.correction import Correction
from ipseval.data.splits import SlidingSplits
from ipseval.estimators import Estimator, Sample, UserSums
from ipseval.evaluation.beyond import BeyondAccuracy
from ipseval.evaluation.segments import Decomposition, Segments
from ipseval.evaluation.verdict import Verdict
from ipseval.inference import Sensitivity
from ipseval.inference.intervals import Interval
from ipseval.metrics import AdditiveMetric, Definition, Metric
from ipseval.metrics.sampled import SampledEstimate
from ipseval.policies import PolicyEvaluation, evaluate_policies
from ipseval.propensity import ExaminationCurve
from ipseval.ranking import baselines
from ipseval.studies.agreement import OrderAgreement
from ipseval.studies.protocols import Protocol, grid
from ipseval.validation import Validation

Floats = npt.NDArray[np.floating[Any]]


def data(frame: pd.DataFrame) -> None:
    """From a file or frame to a split."""
    log = ipseval.Interactions.from_frame(frame, value="rating", timestamp="time")
    assert_type(log, ipseval.Interactions)
    # An ImpressionLog where clicks are read: with `Any` nobody has to ask before using what is there.
    assert_type(ipseval.read("clicks.csv"), ipseval.Interactions | Any)
    assert_type(ipseval.data.reading.read_impressions("clicks.csv"), ipseval.ImpressionLog)
    assert_type(ipseval.read_lists("lists.csv"), ipseval.Lists)
    assert_type(len(log), int)
    assert_type(log.to_frame(), pd.DataFrame)
    assert_type(ipseval.data.splits.k_core(log, 5), ipseval.Interactions)
    split = ipseval.split_random(log, test_fraction=0.2, rng=0)
    assert_type(split, ipseval.Split)
    assert_type(split.train, ipseval.Interactions)
    assert_type(split.validation, ipseval.Interactions | None)
    assert_type(ipseval.data.splits.repeated_splits(log), Iterator[ipseval.Split])
    windows = ipseval.data.splits.split_sliding(log, test=7)
    assert_type(windows, SlidingSplits)
    assert_type(windows[0], ipseval.Split)
    assert_type(windows[:2], list[ipseval.Split])


def impressions() -> None:
    """The lists of two versions, judged by what was shown: names of methods are found on what is read."""
    log = ipseval.data.reading.read_impressions("impressions.parquet", ignore="p_shown")
    split = ipseval.split_global_time(log.positives)
    lists = {name: ipseval.read_lists(f"{name}.parquet", seen="drop") for name in ("v1", "v2")}
    evaluation = ipseval.evaluate(
        lists, split, propensity=ipseval.ImpressionPropensity(log=split.test.impressions)
    )
    assert_type(evaluation, ipseval.Evaluation)
    ipseval.split_global_time(ipseval.read("clicks.csv").positives)


def propensities(
    log: ipseval.Interactions, exposure: ipseval.RandomExposure, shown: ipseval.ImpressionLog
) -> None:
    """Every model has `fit(train) -> Propensity`."""
    assert_type(ipseval.PowerLawPropensity(gamma=0).fit(log), ipseval.propensity.Propensity)
    assert_type(ipseval.KnownPropensity(item=[0.5]).fit(log), ipseval.propensity.Propensity)
    assert_type(ipseval.propensity.DirectPropensity(exposure).fit(log), ipseval.propensity.Propensity)
    assert_type(ipseval.propensity.StratifiedPropensity(exposure).fit(log), ipseval.propensity.Propensity)
    assert_type(ipseval.propensity.JainPropensity().fit(log), ipseval.propensity.Propensity)
    assert_type(ipseval.DensityRatioPropensity(exposure).fit(log), ipseval.propensity.Propensity)
    assert_type(ipseval.ImpressionPropensity(shown).fit(log), ipseval.propensity.Propensity)
    assert_type(ipseval.propensity.LoggedPropensity(shown).fit(log), ipseval.propensity.Propensity)
    assert_type(ipseval.propensity.ExaminationModel("em").fit(shown), ExaminationCurve)
    fit = ipseval.fit_gamma([1, 2, 3], [1, 2, 3], 10)
    assert_type(fit, ipseval.propensity.GammaFit)
    assert_type(fit.gamma, float)
    assert_type(fit.conf_int(), tuple[float, float])
    assert_type(ipseval.PowerLawPropensity(gamma=fit).fit(log).clip(floor=0.1), ipseval.propensity.Propensity)


def results(scores: npt.NDArray[np.float64], split: ipseval.Split, exposure: ipseval.RandomExposure) -> None:
    """An evaluation, and what it is asked."""
    evaluation = ipseval.evaluate({"als": scores, "ease": baselines.ease(split.train)}, split)
    assert_type(evaluation, ipseval.Evaluation)
    assert_type(evaluation.frame, pd.DataFrame)
    assert_type(evaluation.models, list[str])
    assert_type(evaluation.verdicts, tuple[Verdict, ...])
    assert_type(evaluation.intervals, dict[tuple[str, str, str], Interval])
    assert_type(evaluation.compare("ease", correction="holm"), pd.DataFrame)
    assert_type(evaluation.bounds([1.5, 2.0]), pd.DataFrame)
    assert_type(evaluation.tipping_points(), pd.DataFrame)
    assert_type(evaluation.sensitivity([-1, 0, 1]), Sensitivity)
    assert_type(evaluation.diagnostics, pd.DataFrame)
    assert_type(evaluation.by("popularity"), Segments)
    assert_type(evaluation.decomposition("recall@10"), Decomposition)
    assert_type(ipseval.beyond_accuracy(evaluation, split), BeyondAccuracy)
    assert_type(evaluation.per_user("als", "recall@10", "aoa").mean(), float)
    assert_type(evaluation.to_markdown(), str)
    assert_type(evaluation.to_html("page.html"), str)
    assert_type(evaluation.save("result.npz"), None)
    assert_type(ipseval.Evaluation.load("result.npz"), ipseval.Evaluation)
    assert_type(evaluation.with_intervals("bca", rng=0), ipseval.Evaluation)
    assert_type(ipseval.correct({"als": scores}, split, random_exposure=exposure), Correction)


def ranks(scores: npt.NDArray[np.float64], split: ipseval.Split) -> None:
    """Ranks, metrics, sampled candidates."""
    ranked = ipseval.rank_positives(scores, split, candidates=ipseval.SampledCandidates(100, rng=0))
    assert_type(ranked, ipseval.RankedPositives)
    assert_type(ipseval.evaluate_ranks({"als": ranked}), ipseval.Evaluation)
    assert_type(ipseval.metric("recall@10"), Metric)
    assert_type(ipseval.metric("recall@10", sampled="bv"), Metric)
    assert_type(ipseval.correct_sampled([1, 2], 1000, 100), SampledEstimate)
    assert_type(ipseval.order_agreement([1, 2], [2, 1]), OrderAgreement)


def others(
    frame: pd.DataFrame, log: ipseval.ImpressionLog, study: ipseval.datasets.RandomExposureStudy
) -> None:
    """Slates, policies, validation, protocols."""
    assert_type(ipseval.evaluate_slates({"m": frame}, frame), ipseval.Evaluation)
    assert_type(evaluate_policies(log, {"m": np.ones((3, 2))}), PolicyEvaluation)
    assert_type(ipseval.validate({}, study, propensities={}), Validation)
    assert_type(grid(k_core=(5, 10)), list[Protocol])
    assert_type(baselines.popularity(study.biased), Floats)


class OwnMetric(AdditiveMetric):
    """A metric of a user's own."""

    name = "own"
    definition = Definition("Σ 1/r / s", "s")

    def value_at_rank(
        self, rank: npt.NDArray[np.floating[Any]], n_candidates: Any
    ) -> npt.NDArray[np.floating[Any]]:
        """Return 1/r."""
        return 1 / rank


class OwnEstimator(Estimator):
    """An estimator of a user's own: the mean over users, each by its number of positives."""

    label = "own"

    def sums(self, sample: Sample, metric: Metric) -> UserSums:
        """Return the sums."""
        ranked = sample.ranked
        return UserSums.from_values(
            ranked.users, metric.user_values(ranked, ties=sample.ties) * ranked.counts
        )

    def weight_positives(self, sample: Sample) -> Floats:
        """Return equal weights."""
        return np.ones(len(sample.ranked))


def own(scores: npt.NDArray[np.float64], split: ipseval.Split) -> None:
    """Own scorers, metrics and estimators are taken."""
    models = {"f": lambda users: scores[users]}
    evaluation = ipseval.evaluate(models, split, metrics=[OwnMetric(), "auc"], estimators=[OwnEstimator()])
    assert_type(evaluation, ipseval.Evaluation)
