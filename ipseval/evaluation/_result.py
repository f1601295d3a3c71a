"""Evaluation: all estimates of recommenders on one set of positives, and what can be asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.checks import check_choice
from ipseval._base.codec import save
from ipseval._base.counts import Count, counts_frame
from ipseval._base.types import AnyArray, IntervalMethod, RngLike
from ipseval.estimators import Estimate, Estimator, Sample, card
from ipseval.estimators._sample import Extent
from ipseval.evaluation._explanation import (
    basis,
    data_hash,
    dated,
    explained_tables,
    headline,
    json_text,
    rows_read,
    short_headline,
    versions,
)
from ipseval.evaluation._page import Drawn, PageData, drawn_of, page_parts
from ipseval.evaluation._questions import Questions
from ipseval.evaluation._sentences import verdict_lines
from ipseval.evaluation._tables import evaluation_tables, with_correction
from ipseval.evaluation._verdict import (
    Known,
    Verdict,
    Weights,
    first_claimed,
    order_frame,
    verdicts,
)
from ipseval.evaluation.segments import Segments, TrainingCounts
from ipseval.inference._comparisons import PairTests, compare, pair_tests
from ipseval.inference._frame import tidy_frame
from ipseval.inference._interval_methods import (
    Interval,
    Refit,
    bootstrap_intervals,
    normal_intervals,
    refit_intervals,
)
from ipseval.inference._intervals import INTERVAL_METHODS, Key
from ipseval.inference._leads import Reach, reaches
from ipseval.inference._weights import WeightDiagnostics
from ipseval.inference.correction import Correction, OrderPosterior
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.report import Explanation, Tables
from ipseval.report._tables import Part
from ipseval.report._words import deliver

NOTHING = Extent(np.zeros(1, dtype=np.int64))


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation(Questions):
    """All estimates of an evaluation, keyed (model, metric, estimator); `frame` is the tidy table.

    Attributes
    ----------
    estimates : dict
        (model, metric label, estimator label) -> Estimate.
    samples : dict
        Model -> its ranked positives with their propensities; empty where users were evaluated in partitions
        on a cluster, and where the file was saved without them. What needs them is an error then.
    weights : dict
        Estimator label -> diagnostics of its weights (the same for all models: they share the positives).
    user_ids : (n_users,) array
        Ids of the population; empty where a cluster did not send them.
    confidence_level : float
        Of the intervals in `frame`.
    propensity : Propensity or None
    provenance : dict
        Versions and options, for the report.
    definitions : (metrics, estimators)
        The objects behind the labels.
    extent : Extent
        Numbers of users and positives.
    given_intervals : dict or None
        (model, metric, estimator) -> Interval; None: normal intervals.
    counted : tuple of Count
        What was read, left out and added; `data` shows it.
    given_reach : dict or None
        Metric -> Reach of its verdict, as a file holds it; None: computed when it is asked for.
    given_drawn : Drawn or None
        What a page draws, which a file holds; None: it is computed when it is asked for.
    given_basis : dict or None
        `basis`, as a file holds it; None: it is computed when it is asked for.
    training : TrainingCounts or None
        Training interactions of users and items, for groups by count.
    segments : dict
        Name -> the `Segments` that a cluster was asked for, where the positives stay; `by` reads them.
    correction : Correction or None
        What evidence makes of it, for metrics that are averages over relevant items.
    posteriors : dict
        Metric -> what the correction says of the order of the recommenders.
    no_posterior : str
        Why it says nothing, in words.
    beside : dict
        Metric -> who is first by weights from the impressions, where other weights were asked for.
    """

    estimates: dict[Key, Estimate]
    samples: dict[str, Sample]
    weights: dict[str, WeightDiagnostics]
    user_ids: AnyArray
    confidence_level: float = 0.95
    propensity: Propensity | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
    definitions: tuple[Sequence[Metric], Sequence[Estimator]] = ((), ())
    extent: Extent = NOTHING
    given_intervals: dict[Key, Interval] | None = None
    counted: tuple[Count, ...] = ()
    given_reach: dict[str, Reach] | None = None
    given_drawn: Drawn | None = None
    given_basis: dict[str, Any] | None = None
    training: TrainingCounts | None = None
    segments: dict[str, Segments] = field(default_factory=dict)
    correction: Correction | None = None
    posteriors: dict[str, OrderPosterior] = field(default_factory=dict)
    no_posterior: str = ""
    beside: dict[str, Weights] = field(default_factory=dict)

    @cached_property
    def intervals(self) -> dict[Key, Interval]:
        """(model, metric, estimator) -> standard error, bounds and their note."""
        if self.given_intervals is not None:
            return self.given_intervals
        level, metrics = self.confidence_level, self.definitions[0]
        return normal_intervals(self.estimates, confidence_level=level, metrics=metrics)

    @property
    def frame(self) -> pd.DataFrame:
        """One row per model, metric and estimator; a new copy each time, so that it can be changed freely.

        estimate, std_error, ci_low, ci_high in the unit of the metric (NaN: undefined, the note says why);
        n_users and n_positives that entered; ess and max_weight_share of the weights; claim; note. With
        random exposure, rows of `random-sample`, `difference` and `correction-strength` follow.
        """
        if self.correction is None:
            return self._frame.copy()
        return pd.concat([self._frame, self.correction.joined_rows], ignore_index=True)

    @cached_property
    def _frame(self) -> pd.DataFrame:
        return tidy_frame(self.estimates, self.intervals, self.weights)

    @property
    def data(self) -> pd.DataFrame:
        """What was read, left out and added: one row for each thing that was counted.

        subject (the log, a part of the split, a recommender, the evaluation), what (in words), count, and of
        (NA where there is no whole).
        """
        return counts_frame(self.counted)

    @cached_property
    def basis(self) -> dict[str, Any]:
        """What the numbers are of: hashes of the data, options, and definitions of the metrics.

        Numbers of evaluations that differ in these are not of the same quantity.
        """
        if self.given_basis is not None:
            return self.given_basis
        missing = self.provenance.get("missing")
        return basis(self._sample, self.propensity, self.metrics, missing, self.data_hash)

    @cached_property
    def data_hash(self) -> str:
        """SHA-256 of the positives (user id, item id) and their numbers of candidates, as hex."""
        if self.given_basis is not None:
            return str(self.given_basis["data"]["positives_sha256"])
        return data_hash(self._sample)

    @property
    def _hash(self) -> str | None:
        return self.data_hash if self.samples or self.given_basis else None

    @property
    def _sample(self) -> Sample:
        return next(iter(self._whole().values()))

    @property
    def _record(self) -> dict[str, Any]:
        """What is needed to know where the numbers come from."""
        return {
            **versions(),
            "data_sha256": self._hash,
            "confidence_level": self.confidence_level,
            "propensity": None if self.propensity is None else self.propensity.model,
            **self.provenance,
        }

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report as a value: a table per metric, and the verdict; see `ipseval.report`."""
        diagnostics = self.diagnostics
        said = short_headline(len(self.models), self.extent, self.provenance, self.confidence_level)
        parts: list[Part] = []
        if page:
            size = f"{self.extent.units} × {diagnostics['n_items'].max():,} test items"
            said.append(dated(self.counted, size))
            behind = self._behind if len(self.models) > 1 else None
            numbers = (behind, diagnostics, self.data, self.verdicts, self._flags, self.models)
            parts = page_parts(PageData(*numbers, self._drawn, self._cards, self._record))
        made = evaluation_tables(
            self._frame,
            diagnostics,
            self.verdicts,
            estimators=self.definitions[1],
            flags=self._flags,
            summary=said,
            data=self.data,
            propensity=self.propensity,
            leakage=str(self.provenance.get("leakage", "")),
            digits=digits,
            title="Evaluation of recommenders" if page else "",
            appendix=parts,
        )
        if self.correction is None:
            return made
        return with_correction(made, self.correction.tables(digits=digits))

    @property
    def _cards(self) -> dict[str, str]:
        return {one.label: card(one) for one in self.definitions[0]}

    @cached_property
    def _drawn(self) -> Drawn:
        if self.given_drawn is not None:
            return self.given_drawn
        return drawn_of(self.verdicts, self.samples, self.definitions, self.propensity)

    def explain(self, *, digits: int = 2) -> Explanation:
        """Return everything that can be said of the numbers: all orders, claims, notes and definitions."""
        return Explanation(
            explained_tables(
                self._frame,
                self.diagnostics,
                self._differences,
                flags=self._flags,
                summary=(
                    *headline(len(self.models), self.extent, self.provenance, self.propensity),
                    *rows_read(self.counted),
                ),
                verdict=[*map(self._explained, self.verdicts)],
                digits=digits,
                cards=self._cards,
            )
        )

    def _explained(self, one: Verdict) -> str:
        reach = self._reach.get(one.metric, Reach()).said(one.weights[0].best if one.weighted else "")
        return " ".join(filter(None, (f"{one.metric}:", *verdict_lines([one]), reach)))

    @cached_property
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict of each metric: who leads or why nobody does, and how sure that is."""
        known = Known(
            self.definitions[1],
            self._flags,
            self.weights,
            self.propensity,
            self.posteriors,
            self.no_posterior,
            frozenset(one.label for one in self.definitions[0] if one.kind == "mean"),
            self.beside,
        )
        return tuple(map(self._with_power, verdicts(self._frame, self._pairs, known)))

    def _with_power(self, one: Verdict) -> Verdict:
        """Return a verdict with the smallest difference that the test of the two highest would find."""
        if len(one.leaders) < 2:
            return one
        pair = {key: each for key, each in self.estimates.items() if key[1:] == (one.metric, one.estimator)}
        pair = {key: each for key, each in pair.items() if key[0] in one.leaders[:2]}
        found = compare(pair, confidence_level=self.confidence_level)["minimum_detectable_difference"]
        return replace(one, detectable=float(found.iloc[0]))

    @property
    def leader(self) -> str | None:
        """The recommender that the verdict names; None where what is known does not name one.

        That of the first metric with a claim. `order` says whom to keep until more is known.
        """
        return first_claimed(self.verdicts).leader

    @property
    def order(self) -> pd.DataFrame:
        """One row per metric and recommender, in the order in which every output lists them.

        metric, recommender, plain, weighted; corrected, ci_low, ci_high: the average over relevant pairs by
        `correct`, and its interval; p_ahead_of_next: the probability of being ahead of the next one;
        expected_loss of choosing it, in the unit of the metric. Beside probabilities, plain is the average
        over held-out pairs, `aoa-pooled`. NaN where the correction says nothing.
        """
        return order_frame(self.verdicts, self._frame)

    @cached_property
    def _reach(self) -> dict[str, Reach]:
        if self.given_reach is not None:
            return self.given_reach
        by_weights = {(one.metric, one.weighted): one.standings.get(one.weighted) for one in self.verdicts}
        first = {cell: one.best for cell, one in by_weights.items() if one is not None and one.ahead}
        return reaches(self.samples, self.definitions, self.propensity, first)

    @property
    def _flags(self) -> dict[tuple[str, str], str]:
        return {key[1:]: one.flag for key, one in self.estimates.items()}

    @cached_property
    def _pairs(self) -> dict[tuple[str, str], PairTests]:
        return pair_tests(self.estimates) if len(self.models) > 1 else {}

    @property
    def _behind(self) -> pd.DataFrame:
        """The differences to the highest recommender of each verdict; their family is all pairs."""
        parts = []
        for one in self.verdicts:
            own = {key: each for key, each in self.estimates.items() if key[1] == one.metric}
            best = one.first or self.models[0]
            part = compare(own, reference=best, confidence_level=self.confidence_level)
            keys = zip(part["estimator"], part["model"], strict=True)
            part["p_adjusted"] = [self._pairs[one.metric, label].of(model, best)[1] for label, model in keys]
            parts.append(part)
        return pd.concat(parts, ignore_index=True)

    @cached_property
    def _differences(self) -> pd.DataFrame | None:
        return self.compare() if len(self.models) > 1 else None

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the frame with versions, options and the hash of the data as JSON; NaN becomes null."""
        record = {**self._record, "counted": [asdict(one) for one in self.counted]}
        return deliver(json_text(self._frame, record | self.basis), path)

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
        made = self.prepared()
        save(path, made if ranks else replace(made, samples={}, training=None))

    def prepared(self) -> Evaluation:
        """Return what a file holds: the evaluation with what it computes when it is asked."""
        if self.given_drawn is not None:
            return self
        return replace(
            self,
            provenance=versions() | self.provenance,
            given_reach=self._reach,
            given_drawn=self._drawn,
            given_basis=self.basis if self.samples else self.given_basis,
        )

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
        level = self.confidence_level
        found: dict[Key, Interval] | None = None
        if refit is not None:
            found = refit_intervals(
                self.estimates,
                self._whole(),
                *self.definitions,
                refit=refit,
                method=interval,
                confidence_level=level,
                n_resamples=1000 if n_resamples is None else n_resamples,
                rng=rng,
            )
        elif interval != "normal":
            found = bootstrap_intervals(
                self.estimates,
                method=interval,
                confidence_level=level,
                n_resamples=10_000 if n_resamples is None else n_resamples,
                rng=rng,
            )
        said = {**self.provenance, "interval": interval, "refit": refit is not None}
        return replace(self, given_intervals=found, provenance=said)
