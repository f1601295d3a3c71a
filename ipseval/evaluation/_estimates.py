"""Estimates and what is computed from them alone: intervals, the tidy table, the verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.counts import Count, counts_frame
from ipseval._base.types import AnyArray
from ipseval.errors import InputError
from ipseval.estimators import Estimate, Estimator, Sample, card
from ipseval.estimators._sample import Extent
from ipseval.evaluation._explanation import basis, data_hash, versions
from ipseval.evaluation._sweeps import Drawn, drawn_of
from ipseval.evaluation._verdict import (
    Known,
    Verdict,
    Weights,
    first_claimed,
    order_frame,
    verdicts,
)
from ipseval.evaluation.sanity import SanityWarning
from ipseval.evaluation.segments import Segments, TrainingCounts
from ipseval.inference._comparisons import PairTests, compare, pair_tests
from ipseval.inference._frame import tidy_frame
from ipseval.inference._interval_methods import Interval, normal_intervals
from ipseval.inference._intervals import Key
from ipseval.inference._leads import Reach, reaches
from ipseval.inference._weights import WeightDiagnostics
from ipseval.inference.correction import Correction, OrderPosterior
from ipseval.metrics import Metric
from ipseval.propensity import Propensity
from ipseval.report._reported import Result

NOTHING = Extent(np.zeros(1, dtype=np.int64))


def distinct_of(held: Iterable[Key], place: int) -> list[str]:
    """Return the recommenders (0), metrics (1) or estimators (2) among keys, in their order."""
    return list(dict.fromkeys(key[place] for key in held))


@dataclass(frozen=True, eq=False, repr=False)
class Estimates(Result):
    """The fields of an `Evaluation`, which describes them, and what follows from them without a question.

    Those called given_… hold what else would be computed when it is asked for: intervals that are not normal,
    and what a file knows. `no_posterior` says in words why there is no posterior. No caller asks for these.
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
    sanity: tuple[SanityWarning, ...] = ()

    def __dir__(self) -> list[str]:
        return [one for one in super().__dir__() if not one.startswith(("given_", "no_posterior"))]

    @property
    def models(self) -> list[str]:
        """Names of the recommenders, in the order given."""
        return distinct_of(self.estimates, 0)

    @property
    def metrics(self) -> list[str]:
        """Labels of the metrics, in the order given."""
        return distinct_of(self.estimates, 1)

    @property
    def estimators(self) -> list[str]:
        """Labels of the estimators, in the order given."""
        return distinct_of(self.estimates, 2)

    def _whole(self) -> dict[str, Sample]:
        if not self.samples:
            raise InputError(
                "this needs the ranked positives, which stayed on the cluster, or out of the file. Rank them "
                "here, with ipseval.evaluate or evaluate_ranks. Groups: pass by= to evaluate_dask or "
                "evaluate_spark."
            )
        return self.samples

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
        random exposure, rows of `random-sample`, `difference` and `corrected` follow.
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

    @property
    def diagnostics(self) -> pd.DataFrame:
        """One row per estimator: what its weights say about the trust in it; see `WeightDiagnostics`.

        estimator, ess and ess_items (of positives, and of item totals), max_weight_share, n_positives,
        n_items, median_positives, rare_share (weight on items with n* <= 2), pareto_k, clipped_share,
        weighted, weighting, ess_own and share_own (of what the estimator makes of 1/P), ess_equal and
        share_equal (if all P were equal), flag (from the last four), cautions, remark (all in words).
        """
        rows = []
        for label, one in self.weights.items():
            words = {"flag": one.flag, "cautions": "; ".join(one.cautions), "remark": one.remark}
            rows.append({"estimator": label, **asdict(one), **words})
        return pd.DataFrame(rows)

    @property
    def _cards(self) -> dict[str, str]:
        return {one.label: card(one) for one in self.definitions[0]}

    @cached_property
    def _drawn(self) -> Drawn:
        if self.given_drawn is not None:
            return self.given_drawn
        return drawn_of(self.verdicts, self.samples, self.definitions, self.propensity)

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
        keys = [(model, one.metric, one.estimator) for model in one.leaders[:2]]
        pair = {key: self.estimates[key] for key in keys}
        found = compare(pair, correction=None, confidence_level=self.confidence_level)
        return replace(one, detectable=found["minimum_detectable_difference"].item())

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
            part = compare(own, reference=best, correction=None, confidence_level=self.confidence_level)
            keys = zip(part["estimator"], part["model"], strict=True)
            part["p_adjusted"] = [self._pairs[one.metric, label].of(model, best)[1] for label, model in keys]
            parts.append(part)
        return pd.concat(parts)
