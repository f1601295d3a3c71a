"""Evaluation: all estimates of recommenders on one set of held-out interactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.data.splits.split import SplitSummary
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Estimate, Estimator, Sample, card
from ipseval.estimators.guarantees import CONSISTENT_LEVELS
from ipseval.estimators.labels import (
    SNIPS_GLOBAL,
    SNIPS_POOLED,
    get_unweighted_estimator,
    resolve_estimator,
)
from ipseval.estimators.sample import SampleSize, build_sample
from ipseval.evaluation._explanation import (
    build_explanation,
    collect_basis,
    collect_versions,
    hash_positives,
    hash_ranks,
)
from ipseval.evaluation._json import evaluation_record, hide_precision
from ipseval.evaluation._latex import write_joint_latex, write_latex
from ipseval.evaluation._page_curves import PageCurves, compute_page_curves
from ipseval.evaluation.cold_start import ColdStart, measure_cold_start
from ipseval.evaluation.differences import EvaluationDiff
from ipseval.evaluation.plotting import plot_evaluation
from ipseval.evaluation.report_content import PageContent, ReportContent, sort_rows
from ipseval.evaluation.report_tables import build_tables
from ipseval.evaluation.sanity import SanityWarning, find_failing_models
from ipseval.evaluation.segments import Decomposition, Groups, Segments, TrainingCounts
from ipseval.evaluation.segments.build import segment_evaluation
from ipseval.evaluation.segments.built_in_groups import resolve_groups
from ipseval.evaluation.tracking import log_to_tracker
from ipseval.evaluation.verdict import (
    Evidence,
    FirstPlace,
    Outcome,
    Verdict,
    choose_headline,
    decide_verdicts,
    tabulate_order,
)
from ipseval.evaluation.verdict_text import VerdictText, write_verdict
from ipseval.inference import Sensitivity, bounds, compare
from ipseval.inference.bootstrap_intervals import Refit, compute_bootstrap_intervals, compute_refit_intervals
from ipseval.inference.comparisons import Correction, Family, PairTests, compute_pair_tests
from ipseval.inference.estimate_frame import Row, add_reliability_notes, collect_rows, tidy_frame
from ipseval.inference.gamma_range import GammaRange, find_gamma_ranges
from ipseval.inference.gamma_sensitivity import sensitivity
from ipseval.inference.intervals import INTERVAL_METHODS, Interval, Key, compute_normal_intervals
from ipseval.inference.weight_diagnostics import WeightDiagnostics, group_weights_by_popularity
from ipseval.metrics import Metric
from ipseval.metrics import metric as parse_metric
from ipseval.propensity import PowerLawPropensity, Propensity
from ipseval.ranking import RankedPositives
from ipseval.reporting import Explanation, Tables
from ipseval.reporting.formatting import format_csv, write_or_return
from ipseval.reporting.results import Result
from ipseval.utils.checks import as_float_vector, check_choice, resolve_choice
from ipseval.utils.codec import save
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions, check_compute
from ipseval.utils.notes import Count, Note, counts_frame, join_notes
from ipseval.utils.public import public_class
from ipseval.utils.registry import find_match
from ipseval.utils.types import AnyArray, IntervalMethod, RngLike

STORED = {"stored": True}  # a private field that files hold
NO_USERS = SampleSize(np.zeros(1, dtype=np.int64))
GAMMA_GRID = np.linspace(-1, 3, 41)
FINE_GAMMA_GRID = np.linspace(-1, 3, 201)
N_RESAMPLES = 10_000
N_REFIT_RESAMPLES = 1000
LatexLayout = Literal["models x metrics", "long"]


@dataclass(frozen=True, eq=False)
class StoredParts:
    """Results that a file keeps, and that an evaluation otherwise computes on demand; None: not yet known.

    Attributes
    ----------
    intervals : dict or None
        Intervals that are not normal ones.
    gamma_ranges : dict or None
        Metric -> range of γ in which the recommender that ranks first by AOA stays first.
    curves : PageCurves or None
        Curves of the HTML page.
    basis : dict or None
        Hashes of the data, options and definitions.
    rank_hashes : dict or None
        Recommender -> hash of its ranks.
    cold_start : ColdStart or None
        Evaluated users and items without training interactions.
    """

    intervals: dict[Key, Interval] | None = None
    gamma_ranges: dict[str, GammaRange] | None = None
    curves: PageCurves | None = None
    basis: dict[str, Any] | None = None
    rank_hashes: dict[str, str] | None = None
    cold_start: ColdStart | None = None


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Result):
    """All estimates of an evaluation; `frame` is the tidy table.

    `evaluate`, `evaluate_ranks` and the functions for clusters return it; it is not constructed by hand.

    Parameters
    ----------
    estimates : dict
        (model, metric label, estimator label) -> Estimate.
    samples : dict
        Model -> its ranked positives with their propensities; empty where users were evaluated in partitions
        on a cluster, and where the file was saved without them. Methods that need them raise an error then.
    weights : dict
        Estimator label -> diagnostics of its weights (the same for all models: they share the positives).
    user_ids : (n_users,) array
        Ids of the population; empty where a cluster did not send them.
    ranks : dict
        Model -> the ranks of every held-out interaction, those without a propensity included; empty where
        `samples` is. `correct` reuses them.
    confidence_level : float
        Confidence level of the intervals in `frame`.
    propensity : Propensity or None
        Propensities behind the weighted estimates; None: there are only unweighted ones.
    provenance : dict
        Versions and options, for the report.
    definitions : (metrics, estimators)
        The objects behind the labels.
    segments : dict
        Name -> the `Segments` that were computed on a cluster, where the positives stay; `by` reads them.
    sanity : tuple of SanityWarning
        Signs of reversed scores, shuffled rows or columns, or training on the test part; see
        `ipseval.evaluation.sanity`.

    Other Parameters
    ----------------
    _size : SampleSize
        Numbers of users and positives.
    _counts : tuple of Count
        Counts of rows that were read, excluded and held out.
    _training_counts : TrainingCounts or None
        Training interactions of users and items.
    _split_summary : SplitSummary or None
        Summary of the split.
    _stored : StoredParts
        Results of earlier calls, which a file holds in place of the data.

    See Also
    --------
    ipseval.evaluate : Rank held-out positives and evaluate them.
    ipseval.evaluate_ranks : Evaluate positives that are already ranked.
    ipseval.reporting.load : Read an evaluation from a file.

    Examples
    --------
    Two recommenders of a simulated log, and the test of their difference:

    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> models = world.example_models(split, rng=2)
    >>> compared = {name: models[name] for name in ("taste", "popular")}
    >>> evaluation = evaluate(compared, split, metrics=["recall@10"])
    >>> evaluation.models, evaluation.metrics, evaluation.estimators
    (['taste', 'popular'], ['recall@10'], ['aoa'])
    >>> evaluation.frame[["model", "estimate", "std_error"]].round(3)
         model  estimate  std_error
    0    taste     0.618      0.028
    1  popular     0.599      0.029
    >>> evaluation.compare()[["model", "reference", "difference", "p_value"]].round(3)
       model reference  difference  p_value
    0  taste   popular       0.018    0.501
    """

    estimates: dict[Key, Estimate]
    samples: dict[str, Sample]
    weights: dict[str, WeightDiagnostics]
    user_ids: AnyArray
    ranks: dict[str, RankedPositives] = field(default_factory=dict)
    confidence_level: float = 0.95
    propensity: Propensity | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    definitions: tuple[Sequence[Metric], Sequence[Estimator]] = ((), ())
    segments: dict[str, Segments] = field(default_factory=dict)
    sanity: tuple[SanityWarning, ...] = ()
    _size: SampleSize = field(default=NO_USERS, metadata=STORED)
    _counts: tuple[Count, ...] = field(default=(), metadata=STORED)
    _training_counts: TrainingCounts | None = field(default=None, metadata=STORED)
    _split_summary: SplitSummary | None = field(default=None, metadata=STORED)
    _stored: StoredParts = field(default=StoredParts(), metadata=STORED)

    # ---- names -----------------------------------------------------------------------------------

    if not TYPE_CHECKING:  # for type checkers a subscript stays an error

        def __getitem__(self, key: object) -> NoReturn:
            """Raise `TypeError`, because estimates are rows of `frame`."""
            raise TypeError(
                "'Evaluation' object has no items. Use .frame, or .estimate(model, metric, estimator)."
            )

    @property
    def models(self) -> list[str]:
        """Names of the recommenders, in the order given."""
        return list(dict.fromkeys(model for model, _, _ in self.estimates))

    @property
    def metrics(self) -> list[str]:
        """Labels of the metrics, in the order given."""
        return list(dict.fromkeys(metric for _, metric, _ in self.estimates))

    @property
    def estimators(self) -> list[str]:
        """Labels of the estimators, in the order given."""
        return list(dict.fromkeys(estimator for _, _, estimator in self.estimates))

    def estimate(self, model: str, metric: str, estimator: str) -> Estimate:
        """Return one estimate.

        Parameters
        ----------
        model : str
            Name of the recommender.
        metric, estimator : str
            Labels of the metric and the estimator.

        Returns
        -------
        Estimate
            Value, standard error, per-user sums and guarantee.

        Raises
        ------
        InputError
            When the evaluation has no such estimate.
        """
        key = (model, self._metric_label(metric), self._estimator_label(estimator))
        try:
            return self.estimates[key]
        except KeyError:
            raise InputError(
                f"no estimate ({model!r}, {metric!r}, {estimator!r}); models: {', '.join(self.models)}; "
                f"metrics: {', '.join(self.metrics)}; estimators: {', '.join(self.estimators)}. Pass names of "
                f"these, as in {self._word_names((model, metric, estimator))}."
            ) from None

    def _metric_label(self, label: str) -> str:
        """Return the metric of this evaluation that `label` names, ignoring case; else `label`."""
        return match_label(label, self.metrics, parse_metric)

    def _estimator_label(self, label: str) -> str:
        """Return the estimator of this evaluation that `label` names, ignoring case; else `label`."""
        return match_label(label, self.estimators, resolve_estimator)

    # ---- estimates -------------------------------------------------------------------------------

    @cached_property
    def intervals(self) -> dict[Key, Interval]:
        """(model, metric, estimator) -> standard error, bounds and their note."""
        if self._stored.intervals is not None:
            return self._stored.intervals
        return compute_normal_intervals(
            self.estimates, confidence_level=self.confidence_level, metrics=self.definitions[0]
        )

    @property
    def frame(self) -> pd.DataFrame:
        """One row per model, metric and estimator; a new copy each time, so that it can be changed freely.

        estimate, std_error, ci_low, ci_high in the unit of the metric (NaN: undefined, the note says why);
        n_users and n_positives that entered; ess and max_weight_share of the weights w = 1/P (1 for AOA), before
        users are weighted; claim; note; estimand ("mean over users" or "mean over interactions"); flag (why the
        estimate is unreliable, else ""). The printed effective sample size is that of the weights in the
        estimate, ess_own in `diagnostics`: in a mean over users, an interaction of a user with many of them
        has a smaller weight.
        """
        return self._frame.copy()

    @cached_property
    def _rows(self) -> list[Row]:
        """The estimate, interval and weight diagnostics behind each row of `frame`."""
        return collect_rows(self.estimates, self.intervals, self.weights)

    @cached_property
    def _frame(self) -> pd.DataFrame:
        return tidy_frame(self._rows)

    def per_user(self, model: str, metric: str, estimator: str) -> pd.Series[float]:
        """Return the metric value of each user; their mean is the estimate only if all users count equally.

        All users count equally in ``aoa`` and ``snips``. In ``snips-global``, ``snips-pooled`` and ``aoa-pooled``,
        the mean of these values is not the estimate, and a t-test of them tests another quantity: use `compare`.

        Parameters
        ----------
        model : str
            Name of the recommender.
        metric, estimator : str
            Labels of the metric and the estimator.

        Returns
        -------
        Series
            Values N_u/D_u indexed by user id; NaN where D_u = 0.

        Raises
        ------
        InputError
            When the evaluation has no such estimate.

        See Also
        --------
        compare : Test the differences of two recommenders on the same users, for every estimator.
        ipseval.estimators.Snips : The formulas of N_u and D_u.

        Notes
        -----
        An estimate is a ratio of sums over users, Σ_u N_u / Σ_u D_u. For ``snips-global`` of a mean over the
        positives, N_u is the mean of w c over the user's positives, and D_u the mean of their weights w. The value
        N_u/D_u is then that of ``snips``, and users with larger weights count more in the estimate.
        ``estimate(model, metric, estimator).user_sums`` has both, as `numerator` and `denominator`. Metrics of sum
        type, such as ``dcg``, have a further factor `volume`.

        Examples
        --------
        >>> from ipseval import evaluate, simulation
        >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
        >>> split = world.split(rng=1)
        >>> models = {"taste": world.example_models(split, rng=2)["taste"]}
        >>> evaluation = evaluate(models, split, propensity="power-law:gamma=0", metrics=["recall@10"])
        >>> sums = evaluation.estimate("taste", "recall@10", "snips-global").user_sums
        >>> estimate = sums.numerator.sum() / sums.denominator.sum()
        >>> mean = evaluation.per_user("taste", "recall@10", "snips-global").mean()
        >>> round(float(estimate), 3), round(float(mean), 3)
        (0.414, 0.567)
        """
        sums = self.estimate(model, metric, estimator).user_sums
        index = pd.Index(self.user_ids[sums.users], name="user")
        return pd.Series(sums.user_estimates(), index=index, name=f"{model} {metric} {estimator}")

    def _word_example(self, function: str, values: Sequence[object]) -> str | None:
        """Return a call that works of a method that names an estimate, with the names among `values`."""
        if function == "compare":
            names = [value for value in values if value in self.models]
            return f"compare(reference={(names or self.models)[0]!r})"
        if function not in ("per_user", "estimate"):
            return None
        return f"{function}{self._word_names(values)}"

    def _word_names(self, values: Sequence[object]) -> str:
        """Return the arguments that name an estimate, with the names among `values`."""
        names = []
        for labels, default in (
            (self.models, self.models[0]),
            (self.metrics, self.metrics[0]),
            (self.estimators, self.estimators[-1]),
        ):
            named = [value for value in values if isinstance(value, str) and value in labels]
            names.append(named[0] if named else default)
        return f"({', '.join(map(repr, names))})"

    def with_intervals(
        self,
        interval: IntervalMethod = "bca",
        *,
        n_resamples: int | None = None,
        rng: RngLike = None,
        refit: Refit | None = None,
        compute: ComputeOptions = DEFAULT_COMPUTE,
    ) -> Evaluation:
        """Return this evaluation with intervals by another method, from the same ranks.

        Parameters
        ----------
        interval : {"normal", "percentile", "bca"}, default "bca"
            "normal" reads no resamples unless `refit` is given.
        n_resamples : int, optional
            Number of bootstrap resamples of the users; default: 10,000, and 1,000 with `refit`.
        rng : int, Generator or None, default None
            Random seed of the resamples.
        refit : callable, optional
            Fits the propensity again to each resample of the users, so that the standard errors and intervals
            account for its uncertainty; see `PowerLawPropensity.refit`. "bca" is not available then.
        compute : ComputeOptions, optional
            Threads. Resamples are drawn in at most two, and those with `refit` in one.

        Returns
        -------
        Evaluation
            A copy with other intervals and the same estimates.
        """
        check_choice("interval", interval, INTERVAL_METHODS)
        intervals: dict[Key, Interval] | None = None
        if refit is not None:
            metrics, estimators = self.definitions
            intervals = compute_refit_intervals(
                self.estimates,
                self._need_samples(),
                metrics,
                estimators,
                refit=refit,
                method=interval,
                confidence_level=self.confidence_level,
                n_resamples=N_REFIT_RESAMPLES if n_resamples is None else n_resamples,
                rng=rng,
            )
        elif interval != "normal":
            intervals = compute_bootstrap_intervals(
                self.estimates,
                method=interval,
                confidence_level=self.confidence_level,
                n_resamples=N_RESAMPLES if n_resamples is None else n_resamples,
                rng=rng,
                n_threads=check_compute(compute).threads,
            )
        provenance = {**self.provenance, "interval": interval, "refit": refit is not None}
        parts = replace(self._stored, intervals=intervals)
        return replace(self, provenance=provenance, _stored=parts)

    # ---- conclusions -----------------------------------------------------------------------------

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """Verdict of each metric: the ranking, the recommender that is named, or the reason why none is."""
        return tuple(self._add_details(verdict) for verdict in self._verdicts_without_gamma)

    @cached_property
    def _verdicts_without_gamma(self) -> tuple[Verdict, ...]:
        """The verdicts without the details that take longer to compute, such as the range of γ."""
        evidence = Evidence(
            estimators=self.definitions[1],
            propensity=self.propensity,
            weights=self.weights,
            flags=self._flags,
            cells_with_guarantee=self._cells_with_guarantee,
            consistent_cells=self._consistent_cells,
            cells_with_equal_exposure=self._cells_with_equal_exposure,
            metrics_weighted_between_users=self._metrics_weighted_between_users,
            failing_models=find_failing_models(self.sanity),
        )
        verdicts = decide_verdicts(self._frame, self._pair_tests, evidence)
        return tuple(self._add_first_among_warm(verdict) for verdict in verdicts)

    def _add_first_among_warm(self, verdict: Verdict) -> Verdict:
        """Return a verdict with the first place among users with training interactions, where it differs.

        Two first places of which none is significant do not contradict each other.
        """
        if self._cold_start is None or len(verdict.primary_ranking.ranked) < 2:
            return verdict
        among_warm = self._cold_start.first_places.get((verdict.metric, verdict.primary_estimator))
        if among_warm is None:
            return verdict
        first = FirstPlace.from_ranking(verdict.primary_ranking)
        if among_warm.significant_model == first.significant_model:
            return verdict
        return replace(verdict, first_among_warm=among_warm)

    @cached_property
    def _cold_start(self) -> ColdStart | None:
        """The evaluated users and items without training interactions; None where every user has some."""
        counts = self._training_counts
        if counts is not None and counts.activity.all():
            return None
        return self._measure_cold_start()

    def _measure_cold_start(self) -> ColdStart | None:
        """Return the evaluated users and items without training interactions; None without training data."""
        if self._stored.cold_start is not None:
            return self._stored.cold_start
        return measure_cold_start(self.samples, self._training_counts, self.estimates, self.definitions[1])

    def _add_details(self, verdict: Verdict) -> Verdict:
        """Return a verdict with the smallest detectable difference, or with its range of γ."""
        if verdict.outcome == Outcome.NOT_SIGNIFICANT:
            return replace(verdict, detectable=self._detectable_difference(verdict))
        gamma_range = self._gamma_ranges.get(verdict.metric)
        if gamma_range is None or gamma_range.highest_model != verdict.highest_model:
            return verdict
        if verdict.outcome not in (Outcome.NOT_IDENTIFIED, Outcome.NO_VERDICT):
            return verdict
        if not verdict.weighted:
            verdict = replace(verdict, needs_equal_exposure=self._range_needs_equal_exposure(verdict.metric))
        return replace(verdict, gamma_range=gamma_range)

    def _range_needs_equal_exposure(self, metric: str) -> bool:
        """Return whether the estimates behind the range of γ of a metric need equally exposed users."""
        metrics, estimators = self.definitions
        definition = next(definition for definition in metrics if definition.label == metric)
        unweighted = next(estimator for estimator in estimators if not estimator.weighted)
        return self._find_weighted_counterpart(unweighted).claim(definition).needs_equal_exposure

    def _detectable_difference(self, verdict: Verdict) -> float:
        """Return the smallest difference of the two highest that the paired test finds with 80% power."""
        estimates = {}
        for model in verdict.primary_ranking.top_group[:2]:
            key = (model, verdict.metric, verdict.primary_estimator)
            estimates[key] = self.estimates[key]
        frame = compare(estimates, correction=None, confidence_level=self.confidence_level)
        return float(frame["minimum_detectable_difference"].item())

    @property
    def _text(self) -> VerdictText:
        return write_verdict(self.verdicts)

    @property
    def verdict(self) -> str:
        """The conclusion, its assumption and the next step, in sentences."""
        return str(self._text)

    @property
    def leader(self) -> str | None:
        """The recommender that the verdict names; None where the data do not name one.

        A recommender is named only where the propensities are known by design (logged randomisation) and a
        paired test of the weighted estimates finds it better than every other recommender. The leader is that
        of the first metric that has a guarantee after weighting.
        """
        return choose_headline(self.verdicts).leader

    @property
    def order(self) -> pd.DataFrame:
        """One row per metric and recommender, in the order in which every output lists them.

        metric, model, rank (from 1), estimator (the first printed one, which decides the order), estimate,
        difference (from the first; 0 for itself) and p_adjusted (paired test, Holm over all pairs; NaN where
        it was not tested).
        """
        return tabulate_order(self.verdicts)

    @property
    def _flags(self) -> dict[tuple[str, str], tuple[Note, ...]]:
        """(metric, estimator) -> why estimates of any recommender are unreliable; empty where all are reliable."""
        flags: dict[tuple[str, str], tuple[Note, ...]] = {}
        for (_, metric, estimator), estimate in self.estimates.items():
            known_flags = flags.get((metric, estimator), ())
            new_flags = tuple(flag for flag in estimate.flags if flag not in known_flags)
            flags[metric, estimator] = known_flags + new_flags
        return flags

    @property
    def _cells_with_guarantee(self) -> frozenset[tuple[str, str]]:
        """The (metric, estimator) cells with a statistical guarantee."""
        cells = set()
        for (_, metric, estimator), estimate in self.estimates.items():
            if estimate.claim.level != "no guarantee":
                cells.add((metric, estimator))
        return frozenset(cells)

    @property
    def _consistent_cells(self) -> frozenset[tuple[str, str]]:
        """The (metric, estimator) cells with an estimator that is at least nearly consistent."""
        cells = set()
        for (_, metric, estimator), estimate in self.estimates.items():
            if estimate.claim.level in CONSISTENT_LEVELS:
                cells.add((metric, estimator))
        return frozenset(cells)

    @property
    def _cells_with_equal_exposure(self) -> frozenset[tuple[str, str]]:
        """The (metric, estimator) cells that need equally exposed users."""
        cells = set()
        for (_, metric, estimator), estimate in self.estimates.items():
            if estimate.claim.needs_equal_exposure:
                cells.add((metric, estimator))
        return frozenset(cells)

    @property
    def _metrics_weighted_between_users(self) -> frozenset[str]:
        """Metrics for which the weights of a user's interactions do not change the value of the user.

        Where no user has several interactions, weights of every metric act between users, so there are none.
        """
        if self._size.users_by_n_positives.size <= 2:
            return frozenset()
        labels = set()
        for metric in self.definitions[0]:
            if not metric.is_weighted_within_users:
                labels.add(metric.label)
        return frozenset(labels)

    @cached_property
    def _pair_tests(self) -> dict[tuple[str, str], PairTests]:
        """(metric, estimator) -> paired tests of all pairs; empty for a single recommender."""
        if len(self.models) < 2:
            return {}
        return compute_pair_tests(self.estimates)

    @cached_property
    def _gamma_ranges(self) -> dict[str, GammaRange]:
        """Metric -> range of γ in which the first by AOA stays first; empty where it cannot be computed.

        Impressions show which items were exposed, so that a power law of popularity is assumed only if it is requested.
        """
        if self._stored.gamma_ranges is not None:
            return self._stored.gamma_ranges
        if not self.samples or len(self.models) < 2:
            return {}
        if (
            self.propensity is None
            and self._split_summary is not None
            and self._split_summary.has_impressions
        ):
            return {}
        samples, propensity = self._power_law_samples()
        unweighted = next((estimator for estimator in self.definitions[1] if not estimator.weighted), None)
        # A range of the other metrics would be wide because weights hardly act, and not because γ does not matter.
        metrics = []
        for metric in self.definitions[0]:
            if metric.label not in self._metrics_weighted_between_users:
                metrics.append(metric)
        if propensity is None or unweighted is None or not metrics:
            return {}
        estimator = self._find_weighted_counterpart(unweighted)
        try:
            return find_gamma_ranges(samples, metrics, estimator, propensity, start=-1.0)
        except (PropensityError, InputError):
            # The propensity is not a power law, or a loaded file lacks the code of a custom metric.
            return {}

    def _find_weighted_counterpart(self, unweighted: Estimator) -> Estimator:
        """Return the weighted estimator of this evaluation with the same estimand; else SNIPS.

        The default estimator comes first, because the verdict states where it ranks another recommender first.
        """
        counterparts = []
        for estimator in self.definitions[1]:
            if estimator.weighted and estimator.target == unweighted.target:
                counterparts.append(estimator)
        counterparts.sort(key=lambda estimator: estimator.label != SNIPS_GLOBAL)
        if counterparts:
            return counterparts[0]
        if unweighted.target == "pooled":
            return resolve_estimator(SNIPS_POOLED)
        return resolve_estimator(SNIPS_GLOBAL)

    def _power_law_samples(self) -> tuple[dict[str, Sample], Propensity | None]:
        """Return samples under the power law of this evaluation; without weights, under one of the counts."""
        if self.propensity is not None:
            if self.propensity.gamma is None:
                return self.samples, None
            return self.samples, self.propensity
        counts = self._training_counts
        if counts is None or not counts.popularity.any() or not self.ranks:
            return {}, None
        propensity = PowerLawPropensity(gamma=0.0).fit(popularity=counts.popularity)
        ties = self.provenance.get("ties", "default")
        samples = {}
        for model, ranked in self.ranks.items():
            samples[model] = build_sample(ranked, propensity, None, ties, allow_empty=True)

        if not all(len(sample.ranked) for sample in samples.values()):
            return samples, None
        return samples, propensity

    # ---- data and diagnostics --------------------------------------------------------------------

    @property
    def data(self) -> pd.DataFrame:
        """Counts of the rows that were read, left out and added.

        Columns: subject (the log, a part of the split, a recommender, the evaluation), what (description of
        the rows), count, and of (their total; NA where there is none).
        """
        return counts_frame(self._counts)

    @property
    def diagnostics(self) -> pd.DataFrame:
        """Diagnostics of the weights, one row per estimator; see `WeightDiagnostics`.

        estimator, ess and ess_items (of w = 1/P of positives, and of its totals by item), max_weight_share,
        n_positives, n_items, median_positives, rare_share (weight on items with n* <= 2), n_smoothed and smoothed_share
        (positives whose propensity comes from smoothing, and their weight), pareto_k, clipped_share,
        weighted, weighting, ess_own and share_own (of the weights that the estimator makes of 1/P; the printed
        effective sample size is ess_own), ess_equal
        and share_equal (if all P were equal), flag (from the last four), cautions, remark (all as text).
        """
        rows = []
        for label, diagnostics in self.weights.items():
            row = {"estimator": label, **asdict(diagnostics)}
            row["flag"] = diagnostics.flag
            row["cautions"] = join_notes(*diagnostics.cautions)
            row["remark"] = diagnostics.remark
            rows.append(row)
        return pd.DataFrame(rows)

    @cached_property
    def basis(self) -> dict[str, Any]:
        """Hashes of the data, options, and definitions of the metrics.

        Evaluations that differ in these estimate different quantities.
        """
        if self._stored.basis is not None:
            return self._stored.basis
        missing_lists = self.provenance.get("missing_lists")
        return collect_basis(self._first_sample, self.propensity, self.metrics, missing_lists, self.data_hash)

    @cached_property
    def data_hash(self) -> str:
        """SHA-256 of the positives (user id, item id) and their numbers of candidates, as hex."""
        if self._stored.basis is not None:
            return str(self._stored.basis["data"]["positives_sha256"])
        return hash_positives(self._first_sample)

    @property
    def _hash(self) -> str | None:
        """`data_hash`; None where neither the positives nor their stored hash are at hand."""
        if not self.samples and not self._stored.basis:
            return None
        return self.data_hash

    @cached_property
    def _rank_hashes(self) -> dict[str, str]:
        """Recommender -> hash of the ranks of all its held-out interactions; "" where some are unknown."""
        if self._stored.rank_hashes is not None:
            return self._stored.rank_hashes
        return {model: hash_ranks(sample.ranked) for model, sample in self.samples.items()}

    @property
    def _first_sample(self) -> Sample:
        """The sample of the first recommender; all share the positives and their propensities."""
        return next(iter(self._need_samples().values()))

    def _need_samples(self) -> dict[str, Sample]:
        """Return the samples; raise an error where this evaluation has none."""
        if not self.samples:
            raise InputError(
                "this needs the ranked positives, which stayed on the cluster, or out of the file. Rank them "
                "here, with ipseval.evaluate or evaluate_ranks. Groups: pass by= to evaluate_dask or "
                "evaluate_spark."
            )
        return self.samples

    @property
    def _record(self) -> dict[str, Any]:
        """Versions, options and hashes from which the numbers can be reproduced."""
        record: dict[str, Any] = collect_versions()
        record["data_sha256"] = self._hash
        record["confidence_level"] = self.confidence_level
        record["propensity"] = None
        if self.propensity is not None:
            record["propensity"] = self.propensity.model
        if self._split_summary is not None:
            record["split"] = self._split_summary.description
        return {**record, **self.provenance}

    # ---- comparisons and sensitivity -------------------------------------------------------------

    def compare(
        self,
        reference: str | None = None,
        *,
        correction: Correction = "holm",
        family: Family = "cell",
        power: float = 0.8,
        difference: float | None = None,
    ) -> pd.DataFrame:
        """Return paired differences of recommenders on the same users.

        Parameters
        ----------
        reference : str, optional
            Compare every recommender with this one; default: all pairs.
        correction : {"holm", "bh", "bonferroni"} or None, default "holm"
            Correction of the p-values for multiple tests.
        family : {"cell", "estimator", "all"}, default "cell"
            Tests that are corrected together: the pairs within a metric and estimator, those within an
            estimator, or the whole table.
        power : float, default 0.8
            Power of the test for `minimum_detectable_difference` and `n_users_needed`.
        difference : float, optional
            Difference that `n_users_needed` refers to; default: the observed one.

        Returns
        -------
        DataFrame
            One row per pair, metric and estimator; see `ipseval.inference.compare`.
        """
        return compare(
            self.estimates,
            reference=reference,
            correction=correction,
            family=family,
            confidence_level=self.confidence_level,
            power=power,
            difference=difference,
        )

    @property
    def _differences_from_first(self) -> pd.DataFrame:
        """The differences from the first recommender of each table; p-values are adjusted over all pairs."""
        parts = []
        for layout in self._content().layouts:
            columns = set()
            for label in layout.labels:
                columns.add((layout.metric, label))

            estimates = {}
            for key, estimate in self.estimates.items():
                if key[1:] in columns:
                    estimates[key] = estimate

            first = layout.models[0]
            part = compare(
                estimates, reference=first, correction=None, confidence_level=self.confidence_level
            )
            p_values = []
            for estimator, model in zip(part["estimator"], part["model"], strict=True):
                _, p_value = self._pair_tests[layout.metric, estimator].get_difference_and_p_value(
                    model, first
                )
                p_values.append(p_value)
            part["p_adjusted"] = p_values
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def sensitivity(self, gamma: npt.ArrayLike | None = None, *, standard_errors: bool = True) -> Sensitivity:
        """Return the estimates R(γ) over a grid of γ, the parameter of the power law.

        Without a propensity, these are the estimates of SNIPS under the power law of the training counts, as in
        the verdict.

        Parameters
        ----------
        gamma : array, optional
            Default: −1, −0.9, …, 3.
        standard_errors : bool, default True
            Whether to compute standard errors and intervals, too.

        Returns
        -------
        Sensitivity
            `frame` has a row per recommender, metric, estimator and γ; `tipping_points()` returns the γ at
            which two recommenders change order.
        """
        if isinstance(gamma, str):
            raise InputError(
                f"gamma must be numbers; got {gamma!r}. Pass sensitivity(gamma=[-1, 0, 1]); .frame has a column metric."
            )
        if self.propensity is None:
            return self._sensitivity_without_weights(gamma, standard_errors=standard_errors)
        return self._sensitivity(self.definitions, gamma, standard_errors=standard_errors)

    def _sensitivity_without_weights(
        self, gamma: npt.ArrayLike | None, *, standard_errors: bool
    ) -> Sensitivity:
        """Return the estimates of SNIPS over γ for an evaluation without a propensity."""
        self._need_samples()
        samples, propensity = self._power_law_samples()
        metrics, estimators = self.definitions
        weighted: dict[str, Estimator] = {}
        for estimator in estimators:
            counterpart = self._find_weighted_counterpart(estimator)
            weighted[counterpart.label] = counterpart
        return sensitivity(
            samples,
            metrics,
            tuple(weighted.values()),
            propensity,
            gamma=GAMMA_GRID if gamma is None else gamma,
            confidence_level=self.confidence_level,
            standard_errors=standard_errors,
        )

    def _sensitivity(
        self,
        definitions: tuple[Sequence[Metric], Sequence[Estimator]],
        gamma: npt.ArrayLike | None = None,
        *,
        standard_errors: bool = True,
    ) -> Sensitivity:
        """Return the estimates over γ of some metrics and estimators."""
        if gamma is None:
            gamma = GAMMA_GRID
        return sensitivity(
            self._need_samples(),
            *definitions,
            self.propensity,
            gamma=gamma,
            confidence_level=self.confidence_level,
            standard_errors=standard_errors,
        )

    def tipping_points(
        self, gamma: npt.ArrayLike | None = None, *, reference: str | None = None
    ) -> pd.DataFrame:
        """Return the values of γ at which pairs of recommenders change order.

        Parameters
        ----------
        gamma : array, optional
            Grid that is searched; default: −1 to 3 in steps of 0.02.
        reference : str, optional
            Only the pairs with this recommender.

        Returns
        -------
        DataFrame
            One row per pair, metric and estimator; see `Sensitivity.tipping_points`.
        """
        if gamma is None:
            gamma = FINE_GAMMA_GRID
        points = self.sensitivity(gamma, standard_errors=False).tipping_points(reference)
        if self.propensity is None:  # SNIPS is not among the estimates, which hold the notes
            return points
        return add_reliability_notes(points, self.estimates)

    def bounds(self, factor: float | Sequence[float] = 2.0) -> pd.DataFrame:
        """Return bounds of every estimate when each weight 1/P may be wrong by a factor.

        Parameters
        ----------
        factor : float or sequence of float, default 2.0
            Largest factor between the true 1/P and the assumed one.

        Returns
        -------
        DataFrame
            One row per recommender, metric, estimator and factor; see `ipseval.inference.bounds`.
        """
        factors = as_float_vector("factor", np.atleast_1d(np.asarray(factor))).tolist()
        frame = bounds(self._need_samples(), *self.definitions, factors=factors)
        return add_reliability_notes(frame, self.estimates)

    def diff(self, other: Evaluation, *, models: Mapping[str, str] | None = None) -> EvaluationDiff:
        """Return the changes of the estimates since another evaluation: this one minus `other`.

        Differences are paired by user where both evaluations have the same users; otherwise, they are
        differences of independent samples. p-values are adjusted over all of them (Holm).

        Parameters
        ----------
        other : Evaluation
            The earlier one, such as `Evaluation.load("last_week.npz")`.
        models : mapping, optional
            Name here -> name there; default: recommenders of the same name.

        Returns
        -------
        EvaluationDiff
            `frame` has one row per model, metric and estimator, with both values and their difference.

        Raises
        ------
        InputError
            When `other` is not an evaluation, or the two have nothing in common.
        """
        if not isinstance(other, Evaluation):
            raise InputError(f"diff takes an evaluation; got {type(other).__name__}.")
        return EvaluationDiff.from_evaluations(self, other, models)

    # ---- groups ----------------------------------------------------------------------------------

    def by(self, by: Any, *, counts: TrainingCounts | None = None) -> Segments:
        """Return the estimates in groups of users or items, with simultaneous confidence intervals.

        The intervals of a recommender, metric and estimator cover all groups at once: they are widened to the
        largest |t| over the groups.

        Parameters
        ----------
        by : label, frame, Series, or the result of `user_groups` or `item_groups`
            "popularity" (items in 10 groups by n*; "popularity:5"), "activity" (users in 4 groups by training
            interactions), "cold-users" or "cold-items" (fewer than 1 training interaction; "cold-users:5");
            a frame with a column of users or items, under a usual name, and one attribute; a Series or mapping
            by id; an array of groups in the order of the users or items.
        counts : TrainingCounts, optional
            For groups by count of ranks that were made without a split.

        Returns
        -------
        Segments
            Estimates by group; `frame` has one row per model, metric, estimator and group.

        Raises
        ------
        InputError
            For groups that do not match the ids, several groupings at once, and where the ranked positives
            stayed on a cluster.

        Notes
        -----
        In a group of users, the estimate is that over these users. In a group of items, numerator and
        denominator are those of the positives in the group, R_g = Σ_g a c / Σ_g a, where a is the weight of a
        positive in the estimate and c its contribution. The share of the group is Σ_g a / Σ a, so that
        Σ share_g R_g is the estimate over all items. Metrics whose positives do not add up (hit, rr, ap) are
        computed from the positives of the group only, and a note says so.
        """
        if isinstance(by, str) and by in self.segments:
            return self.segments[by]
        groups = self._groups(by, counts)
        if len(groups) > 1:
            names = ", ".join(group.name for group in groups)
            raise InputError(f"by= holds {len(groups)} groupings ({names}); ask for one at a time.")
        return segment_evaluation(self, groups[0])

    def _groups(self, by: object, counts: TrainingCounts | None) -> tuple[Groups, ...]:
        """Return the groupings that `by` names."""
        ranked = self._first_sample.ranked
        return resolve_groups(by, ranked.unit_ids, ranked.item_ids, counts or self._training_counts)

    def decomposition(
        self,
        metric: str | None = None,
        *,
        by: Any = "popularity",
        weighted: str | Estimator | None = None,
        plain: str | Estimator | None = None,
        counts: TrainingCounts | None = None,
    ) -> Decomposition:
        """Return the differences of weighted and unweighted estimates, exactly divided among groups.

        Parameters
        ----------
        metric : label, optional
            Default: the first metric of the evaluation.
        by : as in `by`, default "popularity"
            Groups of items or users; default: items in 10 groups by popularity.
        weighted, plain : label or Estimator, optional
            Default: the first weighted estimator of the evaluation, and its unweighted counterpart.
        counts : TrainingCounts, optional
            As in `by`.

        Returns
        -------
        Decomposition
            Shares and values of each group; printing shows the tables and sentences.

        Raises
        ------
        InputError
            Without a weighted estimator; for a metric whose positives do not add up, such as hit@k.
        """
        groups = self._groups(by, counts)
        if len(groups) > 1:
            raise InputError(f"by= holds {len(groups)} groupings; a decomposition takes one.")
        metrics = {definition.label: definition for definition in self.definitions[0]}
        label = next(iter(metrics))
        if metric is not None:
            label = resolve_choice("metric", metric, metrics)
        estimator = self._find_weighted_estimator(weighted)
        baseline = get_unweighted_estimator(estimator.target) if plain is None else resolve_estimator(plain)
        return Decomposition.from_samples(groups[0], self.samples, metrics[label], baseline, estimator)

    def _find_weighted_estimator(self, weighted: str | Estimator | None) -> Estimator:
        """Return the estimator of a label; by default the first weighted one of this evaluation."""
        if weighted is not None:
            return resolve_estimator(weighted)
        for estimator in self.definitions[1]:
            if estimator.weighted:
                return estimator
        raise InputError(
            "a decomposition compares weighted with unweighted values, and this evaluation has no weights; "
            "evaluate with propensity= and a weighted estimator."
        )

    @property
    def popularity(self) -> pd.DataFrame:
        """Weight of the test positives in groups by the popularity of their item.

        estimator (every weighted one), by ("n*", or "P" where n* is not known), group, low, high, n_items,
        n_positives, share (of the positives) and weight_share (of the weight of the estimator), in [0, 1].
        """
        return group_weights_by_popularity(self._first_sample, self.definitions[1], self.propensity)

    # ---- output ----------------------------------------------------------------------------------

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: the verdict and a table per metric.

        Parameters
        ----------
        digits : int, default 2
            Significant digits of the intervals' half width.
        page : bool, default False
            Whether to include the sections that only an HTML page shows.

        Returns
        -------
        Tables
            See `ipseval.reporting`.
        """
        return build_tables(self._content(page=page), digits=digits)

    def _content(self, *, page: bool = False) -> ReportContent:
        """Return the contents of the report; `page`: with the sections of an HTML page."""
        page_content = None
        if page:
            page_content = self._page_content()
        return ReportContent(
            models=tuple(self.models),
            frame=self._frame,
            diagnostics=self.diagnostics,
            verdicts=self.verdicts,
            text=self._text,
            estimators=tuple(self.definitions[1]),
            propensity=self.propensity,
            flags=self._flags,
            notes={row.key: row.notes for row in self._rows},
            size=self._size,
            candidates=str(self.provenance.get("candidates", "")),
            confidence_level=self.confidence_level,
            counts=self._counts,
            split=self._split_summary,
            sanity=self.sanity,
            cold_start=self._cold_start,
            page=page_content,
        )

    def _page_content(self) -> PageContent:
        """Return the contents of the sections that only an HTML page shows."""
        differences = pd.DataFrame()
        if len(self.models) > 1:
            differences = self._differences_from_first
        cards = {}
        for metric in self.definitions[0]:
            cards[metric.label] = card(metric)

        record = {}
        for name, value in self._record.items():
            record[name] = str(value)

        return PageContent(
            differences=differences,
            curves=self._curves,
            record=record,
            definitions=cards,
        )

    @cached_property
    def _curves(self) -> PageCurves:
        """The curves over γ and the weights by popularity of an HTML page."""
        if self._stored.curves is not None:
            return self._stored.curves
        return compute_page_curves(self.verdicts, self.samples, self.definitions, self.propensity)

    def explain(self, *, digits: int = 2) -> Explanation:
        """Return a detailed report: all orders, guarantees, notes and definitions.

        Parameters
        ----------
        digits : int, default 2
            Significant digits of the standard errors.

        Returns
        -------
        Explanation
            A report that prints as text, and has `to_html`, `to_markdown` and `to_latex`.
        """
        content = self._content(page=True)
        return Explanation(build_explanation(content, digits=digits))

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the estimates as CSV, in the order of the report.

        Unreliable estimates, whose `flag` gives the reason, have neither standard error nor interval; `frame`
        has both. Names that a spreadsheet would evaluate as formulae begin with an apostrophe.

        Parameters
        ----------
        path : path, optional
            File that the text is written to.

        Returns
        -------
        str
            The CSV; with a path, the path.
        """
        return write_or_return(format_csv(self._output_frame), path)

    @property
    def _output_frame(self) -> pd.DataFrame:
        """The frame in the order of the report, without standard errors and intervals of unreliable rows."""
        frame = self._frame
        parts = []
        for layout in self._content().layouts:
            is_in_table = (frame["metric"] == layout.metric) & frame["estimator"].isin(layout.labels)
            parts.append(sort_rows(frame[is_in_table], layout))
        output = pd.concat(parts, ignore_index=True)
        return hide_precision(output, output["flag"])

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the contents of the HTML page as JSON; NaN becomes null.

        The keys are documented in docs/json.md; `schema_version` changes when one of them does.

        Parameters
        ----------
        path : path, optional
            File that the text is written to.

        Returns
        -------
        str
            The JSON; with a path, the path.
        """
        text = evaluation_record(
            self._content(page=True), self._output_frame, self.order, self._record, self.basis
        )
        return write_or_return(text, path)

    def to_latex(
        self,
        path: str | Path | None = None,
        *,
        columns: Sequence[str] | None = None,
        layout: LatexLayout = "long",
        caption: str | None = None,
        label: str | None = None,
        notes: bool = True,
        bold: bool = True,
        significance: bool = True,
        digits: int = 2,
    ) -> str:
        r"""Return one table for booktabs, of all metrics.

        Load the packages in the document by ``\usepackage{booktabs,threeparttable}``; without notes, booktabs is
        enough. Rows are sorted by the first column. An unreliable estimate has a mark and no interval.

        Parameters
        ----------
        path : path, optional
            File that the table is written to.
        columns : sequence of str, optional
            Labels of estimators, such as ["aoa", "snips-global"]; default: those of the evaluation.
        layout : {"long", "models x metrics"}
            "long": one block of rows per metric, with confidence intervals. "models x metrics": one row per
            recommender, the metrics side by side, without intervals.
        caption : str, optional
            Plain text; with a caption or a label the table floats in a `table` environment.
        label : str, optional
            Label for `\ref`, of letters, digits and ``: . _ / -``.
        notes : bool, default True
            Whether a note below the table states the estimand, the numbers of users and interactions, the
            confidence level, the assumption and which numbers are unreliable (package threeparttable).
        bold : bool, default True
            Whether the highest estimate of each column is bold, with those that are printed with the same
            digits; unreliable columns have none.
        significance : bool, default True
            Whether a dagger marks estimates that are significantly lower than the highest of their column and
            metric, by paired tests with Holm's correction at a level of 0.05. A note states if no difference
            is significant. `compare` returns the p-values.
        digits : int, default 2
            Significant digits of the intervals' half width.

        Returns
        -------
        str
            The table; with a path, the path.

        Raises
        ------
        InputError
            For an estimator that the evaluation does not have, and for columns of different estimands.
        """
        content = self._content()
        labels = self.estimators
        if columns is not None:
            labels = [self._estimator_label(name) for name in columns]
        for name in labels:
            check_choice("columns", name, self.estimators)
        text = write_latex(
            content,
            labels,
            layout=layout,
            caption=caption,
            label=label,
            notes=notes,
            bold=bold,
            significance=significance,
            digits=digits,
        )
        return write_or_return(text, path)

    @classmethod
    def _write_joint_latex(cls, results: Mapping[str, Evaluation], digits: int) -> str:
        contents = {name: evaluation._content() for name, evaluation in results.items()}
        return write_joint_latex(contents, digits)

    def save(self, path: str | PathLike[str], *, ranks: bool = True) -> None:
        """Write the whole evaluation as one file, which must end in .npz; nothing is pickled.

        The file stores the labels and results of custom metrics and estimators, but not their code. Methods
        that would run it again, such as `bounds`, raise an error after loading.

        Parameters
        ----------
        path : path
            File that is written.
        ranks : bool, default True
            False: without the ranked positives, for a smaller file, such as the baseline of a gate. Reports
            and comparisons are the same as with them; methods that need the ranks raise an error after
            loading.

        Raises
        ------
        InputError
            When the file cannot be written, or ids are neither numbers nor text.
        """
        complete = self._prepared()
        if not ranks:
            complete = replace(complete, samples={}, ranks={}, _training_counts=None)
        save(path, complete)

    def _prepared(self) -> Evaluation:
        """Return the evaluation with the results that a file keeps."""
        if self._stored.curves is not None:
            return self
        basis = self._stored.basis
        if self.samples:
            basis = self.basis
        parts = replace(
            self._stored,
            gamma_ranges=self._gamma_ranges,
            curves=self._curves,
            basis=basis,
            rank_hashes=self._rank_hashes,
            cold_start=self._measure_cold_start(),
        )
        return replace(self, provenance=collect_versions() | self.provenance, _stored=parts)

    def plot(  # type: ignore[override]  # several kinds
        self,
        kind: str = "estimates",
        *,
        metric: str | None = None,
        estimator: str | None = None,
        by: Any = None,
        ax: Any = None,
    ) -> Any:
        """Return axes with a plot of the evaluation; this needs matplotlib.

        Parameters
        ----------
        kind : str, default "estimates"
            "estimates": every recommender by the estimators of one estimand (means over users, or over
            interactions). "differences": paired differences from the first recommender. "sensitivity":
            estimates over γ, with the γ at which two recommenders change order. "weights": effective sample
            sizes. "popularity": the share of the weight and the share of the positives. "segments" and
            "decomposition": by groups.
        metric, estimator : str, optional
            Default: the first metric, and the weighted estimator, if there is one.
        by : optional
            For "segments" and "decomposition": the groups, as in `by`; default: those of the evaluation, and
            popularity.
        ax : matplotlib axes, optional
            Axes to draw on; default: new ones.

        Returns
        -------
        matplotlib axes
            Axes with the plot, for further changes.

        Raises
        ------
        UnknownNameError
            For an unknown kind, metric or estimator.
        InputError
            Where the evaluation lacks the data of the plot.
        """
        if isinstance(kind, str) and Path(kind).suffix:
            raise InputError(
                f"kind must be a kind of plot; got the file {kind!r:.60}. Pass plot().figure.savefig({kind!r:.60})."
            )
        return plot_evaluation(self, kind, metric=metric, estimator=estimator, by=by, ax=ax)

    def log(self, tracker: Any) -> None:
        """Log metrics, table, page, versions and the hash of the data to an open run of MLflow or W&B.

        Metrics are named metric/estimator/recommender, with "_at_" for "@". Undefined estimates appear in
        the table only.

        Parameters
        ----------
        tracker : module
            `mlflow` (an active run, or one that it opens) or `wandb` (after `wandb.init()`).

        Raises
        ------
        InputError
            For another tracker, without an open run of W&B, and for two estimates that get the same name.
        """
        record = {name: str(value)[:5000] for name, value in self._record.items()}
        log_to_tracker(tracker, self._frame, {"verdict": self.verdict, **record}, self.to_html())


def match_label(label: str, labels: Iterable[str], parse: Callable[[str], Metric | Estimator]) -> str:
    """Return the label among `labels` that `label` names, also in another spelling; else `label`."""
    match = find_match(label, list(labels))
    if match is not None:
        return match
    try:
        return parse(label).label
    except InputError:
        return label
