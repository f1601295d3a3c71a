"""Evaluation: all estimates of recommenders on one set of held-out interactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Estimate, Estimator, Sample, card
from ipseval.estimators.labels import (
    SNIPS_GLOBAL,
    SNIPS_POOLED,
    plain_estimator,
    resolve_estimator,
)
from ipseval.estimators.sample import Extent, weighted_sample
from ipseval.evaluation._explanation import basis, data_hash, explained_tables, versions
from ipseval.evaluation._json import evaluation_record, hide_precision
from ipseval.evaluation._latex import write_latex
from ipseval.evaluation._sweeps import PageCurves, compute_page_curves
from ipseval.evaluation.differences import EvaluationDiff
from ipseval.evaluation.report_content import PageContent, ReportContent, TableLayout
from ipseval.evaluation.report_tables import build_tables
from ipseval.evaluation.sanity import SanityWarning
from ipseval.evaluation.segments import Decomposition, Groups, Segments, TrainingCounts
from ipseval.evaluation.segments.build import segment
from ipseval.evaluation.segments.built_in_groups import resolve
from ipseval.evaluation.split_summary import SplitSummary
from ipseval.evaluation.tracking import log_to_tracker
from ipseval.evaluation.verdict import (
    Evidence,
    Outcome,
    Verdict,
    choose_headline,
    decide_verdicts,
    tabulate_order,
)
from ipseval.evaluation.verdict_text import VerdictText, write_verdict
from ipseval.inference import Sensitivity, bounds, compare
from ipseval.inference.comparisons import Correction, Family, PairTests, pair_tests
from ipseval.inference.estimate_frame import tidy_frame, with_trust
from ipseval.inference.gamma_range import GammaRange, find_gamma_ranges
from ipseval.inference.gamma_sensitivity import sensitivity
from ipseval.inference.interval_methods import (
    Interval,
    Refit,
    bootstrap_intervals,
    normal_intervals,
    refit_intervals,
)
from ipseval.inference.intervals import INTERVAL_METHODS, Key
from ipseval.inference.weight_diagnostics import WeightDiagnostics, popularity_weights
from ipseval.metrics import Metric, metric
from ipseval.propensity import PowerLawPropensity, Propensity
from ipseval.ranking import RankedPositives
from ipseval.reporting import Explanation, Tables
from ipseval.reporting.formatting import csv_text, deliver
from ipseval.reporting.results import Result
from ipseval.utils.border import guard
from ipseval.utils.checks import as_float_vector, check_choice, chosen
from ipseval.utils.codec import save
from ipseval.utils.counts import Count, counts_frame
from ipseval.utils.registry import matching
from ipseval.utils.types import AnyArray, IntervalMethod, RngLike

STORED = {"stored": True}  # a private field that files hold
NOBODY = Extent(np.zeros(1, dtype=np.int64))
PLOT_KINDS = (
    "estimates",
    "differences",
    "sensitivity",
    "weights",
    "popularity",
    "segments",
    "decomposition",
)
LatexLayout = Literal["models x metrics", "long"]


@dataclass(frozen=True, eq=False)
class StoredParts:
    """What an evaluation otherwise computes when it is asked, and what a file keeps; None: not yet known.

    Attributes
    ----------
    intervals : dict or None
        Intervals that are not normal ones.
    gamma_ranges : dict or None
        Metric -> for which γ the first by AOA stays first.
    curves : PageCurves or None
        What the page draws.
    basis : dict or None
        Hashes of the data, options and definitions.
    """

    intervals: dict[Key, Interval] | None = None
    gamma_ranges: dict[str, GammaRange] | None = None
    curves: PageCurves | None = None
    basis: dict[str, Any] | None = None


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Result):
    """All estimates of an evaluation, keyed (model, metric, estimator); `frame` is the tidy table.

    `evaluate`, `evaluate_ranks` and the functions for clusters make it; it is not built by hand.

    Attributes
    ----------
    estimates : dict
        (model, metric label, estimator label) -> Estimate.
    samples : dict
        Model -> its ranked positives with their propensities; empty where users were evaluated in partitions
        on a cluster, and where the file was saved without them. What needs them raises an error then.
    weights : dict
        Estimator label -> diagnostics of its weights (the same for all models: they share the positives).
    user_ids : (n_users,) array
        Ids of the population; empty where a cluster did not send them.
    ranks : dict
        Model -> the ranks of every held-out interaction, those without a propensity included; empty where
        `samples` is. `correct` reuses them.
    confidence_level : float
        Of the intervals in `frame`.
    propensity : Propensity or None
    provenance : dict
        Versions and options, for the report.
    definitions : (metrics, estimators)
        The objects behind the labels.
    segments : dict
        Name -> the `Segments` that a cluster was asked for, where the positives stay; `by` reads them.
    sanity : tuple of SanityWarning
        What looks like reversed scores, shuffled rows or columns, or training on the test part; see
        `ipseval.evaluation.sanity`.
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
    _size: Extent = field(default=NOBODY, metadata=STORED)
    _counts: tuple[Count, ...] = field(default=(), metadata=STORED)
    _training_counts: TrainingCounts | None = field(default=None, metadata=STORED)
    _split_summary: SplitSummary | None = field(default=None, metadata=STORED)
    _stored: StoredParts = field(default=StoredParts(), metadata=STORED)

    # ---- names -----------------------------------------------------------------------------------

    @property
    def models(self) -> list[str]:
        """Names of the recommenders, in the order given."""
        return _distinct(self.estimates, 0)

    @property
    def metrics(self) -> list[str]:
        """Labels of the metrics, in the order given."""
        return _distinct(self.estimates, 1)

    @property
    def estimators(self) -> list[str]:
        """Labels of the estimators, in the order given."""
        return _distinct(self.estimates, 2)

    def estimate(self, model: str, metric: str, estimator: str) -> Estimate:
        """Return one estimate.

        Raises
        ------
        InputError
            When the evaluation does not hold it.
        """
        key = (model, self._metric_label(metric), self._estimator_label(estimator))
        try:
            return self.estimates[key]
        except KeyError:
            raise InputError(
                f"no estimate ({model!r}, {metric!r}, {estimator!r}); models: {', '.join(self.models)}; "
                f"metrics: {', '.join(self.metrics)}; estimators: {', '.join(self.estimators)}."
            ) from None

    def _metric_label(self, label: str) -> str:
        """Return the label of this evaluation that `label` stands for, in any case; else `label`."""
        return find_label(label, self.metrics, metric)

    def _estimator_label(self, label: str) -> str:
        return find_label(label, self.estimators, resolve_estimator)

    # ---- estimates -------------------------------------------------------------------------------

    @cached_property
    def intervals(self) -> dict[Key, Interval]:
        """(model, metric, estimator) -> standard error, bounds and their note."""
        if self._stored.intervals is not None:
            return self._stored.intervals
        level, metrics = self.confidence_level, self.definitions[0]
        return normal_intervals(self.estimates, confidence_level=level, metrics=metrics)

    @property
    def frame(self) -> pd.DataFrame:
        """One row per model, metric and estimator; a new copy each time, so that it can be changed freely.

        estimate, std_error, ci_low, ci_high in the unit of the metric (NaN: undefined, the note says why);
        n_users and n_positives that entered; ess and max_weight_share of the weights; claim; note; estimand
        ("mean over users" or "mean over interactions"); flag (why the estimate is unreliable, else "").
        """
        return self._frame.copy()

    @cached_property
    def _frame(self) -> pd.DataFrame:
        return tidy_frame(self.estimates, self.intervals, self.weights)

    def per_user(self, model: str, metric: str, estimator: str) -> pd.Series[float]:
        """Return each user's own value N_u/D_u, indexed by user id, for the users that entered."""
        sums = self.estimate(model, metric, estimator).user_sums
        index = pd.Index(self.user_ids[sums.users], name="user")
        return pd.Series(sums.user_estimates(), index=index, name=f"{model} {metric} {estimator}")

    def with_intervals(
        self,
        interval: IntervalMethod = "bca",
        *,
        n_resamples: int | None = None,
        rng: RngLike = None,
        refit: Refit | None = None,
    ) -> Evaluation:
        """Return this evaluation with other intervals, from the same ranks.

        Parameters
        ----------
        interval : {"normal", "percentile", "bca"}
            "normal" reads no resamples unless `refit` is given.
        n_resamples : int
            Of the users; default 10,000, and 1,000 with `refit`.
        rng : int, Generator or None
        refit : callable or None
            Fits the propensity anew to each resample of the users, so that its uncertainty reaches
            std_error and interval; see `PowerLawPropensity.refit`. "bca" is not available then.
        """
        check_choice("interval", interval, INTERVAL_METHODS)
        if n_resamples is None:
            n_resamples = 10_000 if refit is None else 1000
        options: dict[str, Any] = {"method": interval, "n_resamples": n_resamples, "rng": rng}
        options["confidence_level"] = self.confidence_level
        intervals: dict[Key, Interval] | None = None
        if refit is not None:
            samples = self._need_samples()
            intervals = refit_intervals(self.estimates, samples, *self.definitions, refit=refit, **options)
        elif interval != "normal":
            intervals = bootstrap_intervals(self.estimates, **options)
        provenance = {**self.provenance, "interval": interval, "refit": refit is not None}
        stored = replace(self._stored, intervals=intervals)
        return replace(self, provenance=provenance, _stored=stored)

    # ---- conclusions -----------------------------------------------------------------------------

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict of each metric: who ranks first, whether a recommender is named, and why not."""
        evidence = Evidence(
            estimators=self.definitions[1],
            propensity=self.propensity,
            weights=self.weights,
            flags=self._flags,
            with_guarantee=self._cells_with_guarantee,
        )
        verdicts = decide_verdicts(self._frame, self._pair_tests, evidence)
        return tuple(self._with_details(verdict) for verdict in verdicts)

    def _with_details(self, verdict: Verdict) -> Verdict:
        """Return a verdict with the smallest detectable difference, or with its range of γ."""
        if verdict.outcome == Outcome.NOT_SIGNIFICANT:
            return replace(verdict, detectable=self._detectable_difference(verdict))
        gamma_range = self._gamma_ranges.get(verdict.metric)
        if gamma_range is None or gamma_range.first != verdict.first:
            return verdict
        if verdict.outcome not in (Outcome.NOT_IDENTIFIED, Outcome.NO_VERDICT):
            return verdict
        return replace(verdict, gamma_range=gamma_range)

    def _detectable_difference(self, verdict: Verdict) -> float:
        """Return the smallest difference of the two highest that the paired test finds with 80% power."""
        keys = [(model, verdict.metric, verdict.primary) for model in verdict.standing.leaders[:2]]
        pair = {key: self.estimates[key] for key in keys}
        frame = compare(pair, correction=None, confidence_level=self.confidence_level)
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
        """The recommender that the verdict names; None where what is known does not name one.

        One is named only where the propensities are known by design (logged randomisation) and a paired
        test of
        the weighted estimates finds it better than every other recommender. It is that of the first metric
        that
        has a guarantee after weighting.
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
    def _flags(self) -> dict[tuple[str, str], str]:
        return {key[1:]: estimate.flag for key, estimate in self.estimates.items()}

    @property
    def _cells_with_guarantee(self) -> frozenset[tuple[str, str]]:
        """The (metric, estimator) cells of which something is claimed."""
        return frozenset(
            key[1:] for key, estimate in self.estimates.items() if estimate.claim.level != "no claim"
        )

    @cached_property
    def _pair_tests(self) -> dict[tuple[str, str], PairTests]:
        return pair_tests(self.estimates) if len(self.models) > 1 else {}

    @cached_property
    def _gamma_ranges(self) -> dict[str, GammaRange]:
        """Metric -> for which γ the first by AOA stays first; empty where that cannot be computed."""
        if self._stored.gamma_ranges is not None:
            return self._stored.gamma_ranges
        if not self.samples or len(self.models) < 2:
            return {}
        samples, propensity = self._power_law_samples()
        if propensity is None:
            return {}
        weighted = [estimator for estimator in self.definitions[1] if estimator.weighted]
        unweighted = [estimator for estimator in self.definitions[1] if not estimator.weighted]
        if not unweighted:
            return {}
        default_label = SNIPS_POOLED if unweighted[0].target == "pooled" else SNIPS_GLOBAL
        comparable = [estimator for estimator in weighted if estimator.target == unweighted[0].target]
        estimator = comparable[0] if comparable else resolve_estimator(default_label)
        try:
            return find_gamma_ranges(samples, self.definitions[0], estimator, propensity, start=-1.0)
        except (
            PropensityError,
            InputError,
        ):  # no power law; or the file lacks the code of a caller's own metric
            return {}

    def _power_law_samples(self) -> tuple[dict[str, Sample], Propensity | None]:
        """Return samples under the given power law, or under one of the training counts without weights."""
        if self.propensity is not None:
            is_power_law = self.propensity.gamma is not None
            return self.samples, self.propensity if is_power_law else None
        counts = self._training_counts
        if counts is None or not counts.popularity.any() or not self.ranks:
            return {}, None
        propensity = PowerLawPropensity(gamma=0.0).fit(popularity=counts.popularity)
        ties = self.provenance.get("ties", "default")
        samples = {
            name: weighted_sample(ranked, propensity, None, ties, allow_empty=True)
            for name, ranked in self.ranks.items()
        }
        has_positives = all(len(sample.ranked) for sample in samples.values())
        return samples, propensity if has_positives else None

    # ---- data and diagnostics --------------------------------------------------------------------

    @property
    def data(self) -> pd.DataFrame:
        """What was read, left out and added: one row for each thing that was counted.

        subject (the log, a part of the split, a recommender, the evaluation), what (in words), count, and of
        (NA where there is no whole).
        """
        return counts_frame(self._counts)

    @property
    def diagnostics(self) -> pd.DataFrame:
        """One row per estimator: what its weights say about the trust in it; see `WeightDiagnostics`.

        estimator, ess and ess_items (of positives, and of item totals), max_weight_share, n_positives,
        n_items, median_positives, rare_share (weight on items with n* <= 2), pareto_k, clipped_share,
        weighted, weighting, ess_own and share_own (of what the estimator makes of 1/P), ess_equal and
        share_equal (if all P were equal), flag (from the last four), cautions, remark (all in words).
        """
        rows = []
        for label, diagnostics in self.weights.items():
            words = {
                "flag": diagnostics.flag,
                "cautions": "; ".join(diagnostics.cautions),
                "remark": diagnostics.remark,
            }
            rows.append({"estimator": label, **asdict(diagnostics), **words})
        return pd.DataFrame(rows)

    @cached_property
    def basis(self) -> dict[str, Any]:
        """What the numbers are of: hashes of the data, options, and definitions of the metrics.

        Numbers of evaluations that differ in these are not of the same quantity.
        """
        if self._stored.basis is not None:
            return self._stored.basis
        missing_lists = self.provenance.get("missing_lists")
        return basis(self._first_sample, self.propensity, self.metrics, missing_lists, self.data_hash)

    @cached_property
    def data_hash(self) -> str:
        """SHA-256 of the positives (user id, item id) and their numbers of candidates, as hex."""
        if self._stored.basis is not None:
            return str(self._stored.basis["data"]["positives_sha256"])
        return data_hash(self._first_sample)

    @property
    def _hash(self) -> str | None:
        return self.data_hash if self.samples or self._stored.basis else None

    @property
    def _first_sample(self) -> Sample:
        return next(iter(self._need_samples().values()))

    def _need_samples(self) -> dict[str, Sample]:
        if not self.samples:
            raise InputError(
                "this needs the ranked positives, which stayed on the cluster, or out of the file. Rank them "
                "here, with ipseval.evaluate or evaluate_ranks. Groups: pass by= to evaluate_dask or "
                "evaluate_spark."
            )
        return self.samples

    @property
    def _record(self) -> dict[str, Any]:
        """What is needed to know where the numbers come from."""
        return {
            **versions(),
            "data_sha256": self._hash,
            "confidence_level": self.confidence_level,
            "propensity": None if self.propensity is None else self.propensity.model,
            **({} if self._split_summary is None else {"split": self._split_summary.description}),
            **self.provenance,
        }

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
        """Return paired differences of recommenders on the same users; see `inference.compare`.

        `reference` None: all pairs. `correction` "holm", "bh", "bonferroni" or None, over a `family`: "cell"
        (the pairs within a metric and estimator), "estimator" or "all" (the whole table). `difference`: what
        `n_users_needed` is for; None: the observed one.
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
            columns = [(layout.metric, label) for label in layout.labels]
            estimates = {key: value for key, value in self.estimates.items() if key[1:] in columns}
            first = layout.models[0]
            part = compare(
                estimates, reference=first, correction=None, confidence_level=self.confidence_level
            )
            part["p_adjusted"] = [
                self._pair_tests[layout.metric, estimator].of(model, first)[1]
                for estimator, model in zip(part["estimator"], part["model"], strict=True)
            ]
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    def sensitivity(self, gamma: npt.ArrayLike | None = None, *, standard_errors: bool = True) -> Sensitivity:
        """Return R(γ) over a grid (default −1, −0.9, …, 3); its `.frame`, and its `.tipping_points()`."""
        return self._sensitivity(self.definitions, gamma, standard_errors=standard_errors)

    def _sensitivity(
        self,
        definitions: tuple[Sequence[Metric], Sequence[Estimator]],
        gamma: npt.ArrayLike | None = None,
        *,
        standard_errors: bool = True,
    ) -> Sensitivity:
        return sensitivity(
            self._need_samples(),
            *definitions,
            self.propensity,
            gamma=np.linspace(-1, 3, 41) if gamma is None else gamma,
            confidence_level=self.confidence_level,
            standard_errors=standard_errors,
        )

    def tipping_points(
        self, gamma: npt.ArrayLike | None = None, *, reference: str | None = None
    ) -> pd.DataFrame:
        """Return where pairs of recommenders swap as γ varies (default grid −1 … 3 in steps of 0.02).

        `reference`: only the pairs with this recommender.
        """
        grid = np.linspace(-1, 3, 201) if gamma is None else gamma
        points = self.sensitivity(grid, standard_errors=False).tipping_points(reference)
        return with_trust(points, self.estimates)

    def bounds(self, factor: float | Sequence[float] = 2.0) -> pd.DataFrame:
        """Return bounds of every estimate when each 1/P may be wrong by a factor; see `inference.bounds`."""
        factors = as_float_vector("factor", np.atleast_1d(np.asarray(factor))).tolist()
        frame = bounds(self._need_samples(), *self.definitions, factors=factors)
        return with_trust(frame, self.estimates)

    def diff(self, other: Evaluation, *, models: Mapping[str, str] | None = None) -> EvaluationDiff:
        """Return what changed since another evaluation: this one minus `other`, for every estimate of both.

        Differences are paired by user where both are of the same users, and of independent samples otherwise.
        p-values are adjusted over all of them (Holm).

        Parameters
        ----------
        other : Evaluation
            The earlier one, such as `Evaluation.load("last_week.npz")`.
        models : mapping, optional
            Name here -> name there; default: recommenders of the same name.

        Raises
        ------
        InputError
            When `other` is no evaluation, or they have nothing in common.
        """
        if not isinstance(other, Evaluation):
            raise InputError(f"diff takes an evaluation; got {type(other).__name__}.")
        return EvaluationDiff.from_evaluations(self, other, models)

    # ---- groups ----------------------------------------------------------------------------------

    def by(self, by: Any, *, counts: TrainingCounts | None = None) -> Segments:
        """Return the estimates in groups of users or items, with intervals that hold for all at once.

        Intervals of a recommender, metric and estimator are widened to the largest |t| over its groups.

        A group of users: the estimate over these users. A group of items: numerator and denominator of the
        positives in it, R_g = Σ_g a c / Σ_g a with a what a positive weighs in the estimate, and its share
        Σ_g a / Σ a, so that Σ share_g R_g is the whole. Metrics whose positives do not add up (hit, rr, ap)
        are computed over the positives of the group alone, and say so.

        Parameters
        ----------
        by : label, frame, Series, or what `user_groups` and `item_groups` return
            "popularity" (items in 10 groups by n*; "popularity:5"), "activity" (users in 4 groups by training
            interactions), "cold-users" or "cold-items" (fewer than 1 training interaction; "cold-users:5");
            a frame with a column `user` or `item` and one attribute; a Series by id.
        counts : TrainingCounts, optional
            For groups by count of ranks that were made without a split.

        Raises
        ------
        InputError
            For groups that do not match the ids, several groupings at once, and where the ranked positives
            stayed on a cluster.
        """
        if isinstance(by, str) and by in self.segments:
            return self.segments[by]
        groups = self._groups(by, counts)
        if len(groups) > 1:
            names = ", ".join(grouping.name for grouping in groups)
            raise InputError(f"by= holds {len(groups)} groupings ({names}); ask for one at a time.")
        return segment(self, groups[0])

    def _groups(self, by: Any, counts: TrainingCounts | None) -> tuple[Groups, ...]:
        ranked = self._first_sample.ranked
        return resolve(by, ranked.unit_ids, ranked.item_ids, counts or self._training_counts)

    def decomposition(
        self,
        metric: str | None = None,
        *,
        by: Any = "popularity",
        weighted: str | Estimator | None = None,
        plain: str | Estimator | None = None,
        counts: TrainingCounts | None = None,
    ) -> Decomposition:
        """Return why weighted and plain values differ, group by group, and where leads lie; both exactly.

        Parameters
        ----------
        metric : label, optional
            Default: the first metric of the evaluation.
        by : as in `by`
            Default: items in 10 groups by popularity.
        weighted, plain : label or Estimator, optional
            Default: the first weighted estimator of the evaluation, and its unweighted counterpart.
        counts : TrainingCounts, optional
            As in `by`.

        Raises
        ------
        InputError
            Without a weighted estimator; for a metric whose positives do not add up, such as hit@k.
        """
        groups = self._groups(by, counts)
        if len(groups) > 1:
            raise InputError(f"by= holds {len(groups)} groupings; a decomposition takes one.")
        metrics = {candidate.label: candidate for candidate in self.definitions[0]}
        asked = self.definitions[0][0] if metric is None else metrics[chosen("metric", metric, metrics)]
        weighted_estimators = [estimator for estimator in self.definitions[1] if estimator.weighted]
        if weighted is None and not weighted_estimators:
            raise InputError(
                "a decomposition compares weighted with plain values, and this evaluation has no weights; "
                "evaluate with propensity=."
            )
        heavy = weighted_estimators[0] if weighted is None else resolve_estimator(weighted)
        light = plain_estimator(heavy.target) if plain is None else resolve_estimator(plain)
        return Decomposition.of(groups[0], self.samples, asked, light, heavy)

    @property
    def popularity(self) -> pd.DataFrame:
        """What is weighted how: the test positives in groups by the popularity of their item.

        estimator (every weighted one), by ("n*", or "P" where n* is not known), group, low, high, n_items,
        n_positives, share (of the positives) and weight_share (of the weight of the estimator), in [0, 1].
        """
        return popularity_weights(self._first_sample, self.definitions[1], self.propensity)

    # ---- output ----------------------------------------------------------------------------------

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report as a value: the verdict and a table per metric; see `ipseval.reporting`."""
        return build_tables(self._content(page=page), digits=digits)

    def _content(self, *, page: bool = False) -> ReportContent:
        """Return what the report is made of; `page`: with what only a page shows."""
        return ReportContent(
            models=tuple(self.models),
            frame=self._frame,
            diagnostics=self.diagnostics,
            verdicts=self.verdicts,
            text=self._text,
            estimators=tuple(self.definitions[1]),
            propensity=self.propensity,
            flags=self._flags,
            size=self._size,
            candidates=str(self.provenance.get("candidates", "")),
            confidence_level=self.confidence_level,
            counts=self._counts,
            split=self._split_summary,
            sanity=self.sanity,
            page=self._page_content() if page else None,
        )

    def _page_content(self) -> PageContent:
        several = len(self.models) > 1
        return PageContent(
            differences=self._differences_from_first if several else pd.DataFrame(),
            curves=self._curves,
            record={name: str(value) for name, value in self._record.items()},
            definitions={metric.label: card(metric) for metric in self.definitions[0]},
        )

    @cached_property
    def _curves(self) -> PageCurves:
        if self._stored.curves is not None:
            return self._stored.curves
        return compute_page_curves(self.verdicts, self.samples, self.definitions, self.propensity)

    def explain(self, *, digits: int = 2) -> Explanation:
        """Return everything that can be said of the numbers: all orders, claims, notes and definitions."""
        content = self._content(page=True)
        return Explanation(explained_tables(content, digits=digits))

    def to_csv(self, path: str | Path | None = None) -> str:
        """Return the estimates as CSV, in the order of the report.

        Unreliable ones, whose `flag` says why, have neither standard error nor interval; `frame` has both.
        An apostrophe stands before names that a spreadsheet would compute.
        """
        return deliver(csv_text(self._published_frame), path)

    @property
    def _published_frame(self) -> pd.DataFrame:
        """The frame as files hold it: rows in the order of the report, no interval or error with a flag."""
        frame = self._frame
        parts = []
        for layout in self._content().layouts:
            is_column = (frame["metric"] == layout.metric) & frame["estimator"].isin(layout.labels)
            parts.append(_sort_rows(frame[is_column], layout))
        published = pd.concat(parts, ignore_index=True)
        return hide_precision(published, published["flag"])

    def to_json(self, path: str | Path | None = None) -> str:
        """Return everything that the page shows as JSON; NaN becomes null.

        The keys are documented in docs/json.md; `schema_version` changes when one of them does.
        """
        record = evaluation_record(
            self._content(page=True), self._published_frame, self.order, self._record, self.basis
        )
        return deliver(record, path)

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
        digits: int = 2,
    ) -> str:
        r"""Return one table for booktabs, of all metrics.

        It needs the package booktabs, and threeparttable with notes. Rows are sorted by the first column. An
        unreliable estimate has a mark and no interval.

        Parameters
        ----------
        path : path, optional
            Where to write it.
        columns : sequence of str, optional
            Labels of estimators, such as ["aoa", "snips-global"]; default: those of the evaluation.
        layout : {"long", "models x metrics"}
            "long": one block of rows per metric, with confidence intervals. "models x metrics": one row per
            recommender, the metrics side by side, without intervals.
        caption : str, optional
            Plain text; with a caption or a label the table floats in a `table` environment.
        label : str, optional
            What `\ref` names it by, of letters, digits and ``: . _ / -``.
        notes : bool
            Whether a note below the table says the estimand, the numbers of users and interactions, the
            confidence level, the assumption and which numbers are unreliable (package threeparttable).
        bold : bool
            Whether the highest estimate of each column is bold, with those that are printed with the same
            digits; unreliable columns have none.
        digits : int
            Significant digits of the intervals' half width.

        Raises
        ------
        InputError
            For an estimator that the evaluation does not hold, and for columns of different estimands.
        """
        content = self._content()
        labels = self.estimators if columns is None else [self._estimator_label(name) for name in columns]
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
            digits=digits,
        )
        return deliver(text, path)

    def save(self, path: str | PathLike[str], *, ranks: bool = True) -> None:
        """Write the whole evaluation as one file, which must end in .npz; nothing is pickled.

        Of metrics and estimators of your own the file holds labels and results, not the code: what would run
        it again, such as `bounds`, is an error after loading.

        Parameters
        ----------
        ranks : bool
            False: without the ranked positives, for a smaller file, such as the baseline of a gate. It prints
            and compares as the whole one does; what needs the ranks is an error after loading.

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
        """Return what a file holds: the evaluation with what it computes when it is asked."""
        if self._stored.curves is not None:
            return self
        stored = replace(
            self._stored,
            gamma_ranges=self._gamma_ranges,
            curves=self._curves,
            basis=self.basis if self.samples else self._stored.basis,
        )
        return replace(self, provenance=versions() | self.provenance, _stored=stored)

    def plot(  # type: ignore[override]  # several kinds
        self,
        kind: str = "estimates",
        *,
        metric: str | None = None,
        estimator: str | None = None,
        by: Any = None,
        ax: Any = None,
    ) -> Any:
        """Return axes with a picture of the evaluation; needs matplotlib.

        Parameters
        ----------
        kind : str
            "estimates": every recommender by every estimator. "differences": from the first one, paired.
            "sensitivity": over γ, with the γ at which two swap. "weights": effective sample sizes.
            "popularity": the share of the weight beside the share of the positives. "segments" and
            "decomposition": by groups.
        metric, estimator : str, optional
            Default: the first metric, and the weighted estimator, where there is one.
        by : optional
            For "segments" and "decomposition": the groups, as in `by`; default: those of the evaluation, and
            popularity.
        ax : matplotlib axes, optional

        Raises
        ------
        UnknownNameError
            For a kind, metric or estimator that does not exist.
        InputError
            Where the picture needs what the evaluation does not have.
        """
        from ipseval.reporting import plots
        from ipseval.reporting.plots import estimates as estimate_plots

        labels = [verdict.metric for verdict in self.verdicts]
        if self._metric_label(kind) in labels:
            raise InputError(
                f'the first argument is the kind of picture: plot("estimates", metric={kind!r}).'
            )
        check_choice("kind", kind, PLOT_KINDS)
        chosen_metric = labels[0] if metric is None else self._metric_label(metric)
        check_choice("metric", chosen_metric, labels)
        verdict = self.verdicts[labels.index(chosen_metric)]
        chosen_estimator = verdict.weighted or verdict.unweighted
        if estimator is not None:
            chosen_estimator = self._estimator_label(estimator)
        check_choice("estimator", chosen_estimator, list(verdict.standings))
        content = self._content()
        layout = _layout_of(content, chosen_metric, estimator and chosen_estimator)
        names = content.names
        heads = content.column_names

        if kind == "estimates":
            return plots.plot_estimates(_plotted_rows(self._frame, layout, heads), ax=ax)
        if kind == "differences":
            frame = self.compare(layout.models[0])
            flags = [self._flags[cell] for cell in zip(frame["metric"], frame["estimator"], strict=True)]
            rows = _plotted_rows(frame.assign(flag=flags), layout, heads)
            return estimate_plots.plot_differences(rows, ax=ax)
        if kind == "sensitivity":
            swept = self._sensitivity(self._definitions_of(chosen_metric, chosen_estimator))
            tipping = _plotted_rows(swept.tipping_points(), layout, names)
            return plots.plot_sensitivity(_plotted_rows(swept.frame, layout, names), tipping=tipping, ax=ax)
        if kind == "weights":
            return plots.plot_weights(_with_names(self.diagnostics, names), ax=ax)
        if kind == "popularity":
            return estimate_plots.plot_weight_shares(_with_names(self.popularity, names), ax=ax)
        if kind == "decomposition":
            parts = self.decomposition(chosen_metric, by="popularity" if by is None else by)
            return estimate_plots.plot_decomposition(_plotted_rows(parts.frame, layout, heads), ax=ax)
        groups = self.by(next(iter(self.segments), "popularity") if by is None else by)
        rows = _plotted_rows(groups.frame, layout, heads)
        return estimate_plots.plot_segments(
            rows, metric=chosen_metric, estimator=heads[chosen_estimator], ax=ax
        )

    def _definitions_of(self, metric: str, estimator: str) -> tuple[list[Metric], list[Estimator]]:
        """Return one metric and one estimator, as others would take their time and are not drawn."""
        metrics = [candidate for candidate in self.definitions[0] if candidate.label == metric]
        estimators = [candidate for candidate in self.definitions[1] if candidate.label == estimator]
        return metrics, estimators

    def log(self, tracker: Any) -> None:
        """Log metrics, table, page, versions and the hash of the data to an open run of MLflow or W&B.

        Metrics are named metric/estimator/recommender, with "_at_" for "@". Undefined estimates are left out
        of them and stand in the table.

        Parameters
        ----------
        tracker : module
            `mlflow` (an active run, or one that it opens) or `wandb` (after `wandb.init()`).

        Raises
        ------
        InputError
            When the tracker is none of these, no run of W&B is open, or two names become the same.
        """
        record = {name: str(value)[:5000] for name, value in self._record.items()}
        log_to_tracker(tracker, self._frame, {"verdict": self.verdict, **record}, self.to_html())


def _distinct(keys: Iterable[Key], place: int) -> list[str]:
    """Return the recommenders (0), metrics (1) or estimators (2) among keys, in their order."""
    return list(dict.fromkeys(key[place] for key in keys))


def find_label(label: str, labels: Iterable[str], parse: Callable[[str], Metric | Estimator]) -> str:
    """Return the label among `labels` that `label` stands for, by any name; `label` if there is none."""
    match = matching(label, list(labels))
    if match is not None:
        return match
    try:
        return parse(label).label
    except InputError:
        return label


def _with_names(frame: pd.DataFrame, names: Mapping[str, str]) -> pd.DataFrame:
    """Return a frame whose estimators have the names that tables print."""
    return frame.assign(estimator=frame["estimator"].map(names)) if "estimator" in frame else frame


def _layout_of(content: ReportContent, metric: str, estimator: str | None) -> TableLayout:
    """Return the table of a metric that has an estimator; without one the first table of the metric."""
    layouts = [layout for layout in content.layouts if layout.metric == metric]
    return next((layout for layout in layouts if estimator in layout.labels), layouts[0])


def _plotted_rows(frame: pd.DataFrame, layout: TableLayout, names: Mapping[str, str]) -> pd.DataFrame:
    """Return the rows of one table in its order, with the names of estimators."""
    rows = frame
    if "metric" in rows:
        rows = rows[rows["metric"] == layout.metric]
    if "estimator" in rows:
        rows = rows[rows["estimator"].isin(layout.labels)]
    return _sort_rows(_with_names(rows, names), layout)


def _sort_rows(rows: pd.DataFrame, layout: TableLayout) -> pd.DataFrame:
    """Return rows in the order of the recommenders of a table."""
    places = {model: place for place, model in enumerate(layout.models)}
    return rows.sort_values("model", key=lambda models: models.map(places), kind="stable")


guard(__name__)
