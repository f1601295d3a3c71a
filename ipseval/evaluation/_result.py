"""Evaluation: all estimates of recommenders on one set of positives, and what can be asked of them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

from ipseval._base.checks import check_choice
from ipseval._base.codec import save
from ipseval._base.types import IntervalMethod, RngLike
from ipseval.evaluation._explanation import (
    explained_tables,
    headline,
    rows_read,
    versions,
)
from ipseval.evaluation._questions import Questions
from ipseval.evaluation._sentences import verdict_lines
from ipseval.evaluation._tables import evaluation_tables
from ipseval.evaluation._verdict import Verdict
from ipseval.inference._interval_methods import (
    Interval,
    Refit,
    bootstrap_intervals,
    refit_intervals,
)
from ipseval.inference._intervals import INTERVAL_METHODS, Key
from ipseval.inference._leads import Reach
from ipseval.report import Explanation, Tables
from ipseval.report._words import deliver


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
    counted : tuple of Count
        What was read, left out and added; `data` shows it.
    training : TrainingCounts or None
        Training interactions of users and items, for groups by count.
    segments : dict
        Name -> the `Segments` that a cluster was asked for, where the positives stay; `by` reads them.
    correction : Correction or None
        What evidence makes of it, for metrics that are averages over relevant items.
    posteriors : dict
        Metric -> what the correction says of the order of the recommenders.
    beside : dict
        Metric -> who is first by weights from the impressions, where other weights were asked for.
    sanity : tuple of SanityWarning
        What looks like reversed scores, shuffled rows or columns, or training on the test part; see
        `ipseval.evaluation.sanity`.
    """

    @property
    def verdict(self) -> str:
        """What to conclude, in words; "" where nothing is concluded."""
        return " ".join(verdict_lines(self.verdicts)) or super().verdict

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report as a value: a table per metric, and the verdict; see `ipseval.report`."""
        return evaluation_tables(self, digits=digits, page=page)

    def explain(self, *, digits: int = 2) -> Explanation:
        """Return everything that can be said of the numbers: all orders, claims, notes and definitions."""
        return Explanation(
            explained_tables(
                self._frame,
                self.diagnostics,
                self.verdicts,
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

    def to_json(self, path: str | Path | None = None) -> str:
        """Return the frame with versions, options and the hash of the data as JSON; NaN becomes null."""
        record = {**self._record, "counted": [asdict(one) for one in self.counted], **self.basis}
        rows = self._frame.astype(object).where(self._frame.notna(), None).to_dict(orient="records")
        return deliver(json.dumps(record | {"estimates": rows}, indent=2), path)

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
        made = self._prepared()
        save(path, made if ranks else replace(made, samples={}, training=None))

    def _prepared(self) -> Evaluation:
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
        if n_resamples is None:
            n_resamples = 10_000 if refit is None else 1000
        options: dict[str, Any] = {"method": interval, "n_resamples": n_resamples, "rng": rng}
        options["confidence_level"] = self.confidence_level
        found: dict[Key, Interval] | None = None
        if refit is not None:
            found = refit_intervals(self.estimates, self._whole(), *self.definitions, refit=refit, **options)
        elif interval != "normal":
            found = bootstrap_intervals(self.estimates, **options)
        said = {**self.provenance, "interval": interval, "refit": refit is not None}
        return replace(self, given_intervals=found, provenance=said)
