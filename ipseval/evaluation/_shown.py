"""What is done with an evaluation: draw it, compare it with an earlier one, log it."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd

from ipseval._base.checks import check_choice
from ipseval.errors import InputError
from ipseval.evaluation._differences import EvaluationDiff, Side
from ipseval.evaluation._questions import Questions, estimator_label, metric_label
from ipseval.evaluation._trackers import Logged, log_to, metric_names
from ipseval.evaluation._verdict import Verdict, verdict_lines
from ipseval.inference import Sensitivity
from ipseval.inference._sensitivity import sensitivity
from ipseval.inference._weights import popularity_weights
from ipseval.report._words import csv_text

KINDS = (
    "estimates",
    "differences",
    "sensitivity",
    "weights",
    "popularity",
    "segments",
    "decomposition",
)


class Shown(Questions):
    """What is done with results; `Evaluation` holds them."""

    segments: dict[str, Any]

    @cached_property
    @abstractmethod
    def verdicts(self) -> tuple[Verdict, ...]:
        """The verdict of each metric."""

    @property
    def popularity(self) -> pd.DataFrame:
        """What is weighted how: the test positives in groups by the popularity of their item.

        estimator (every weighted one), by ("n*", or "P" where n* is not known), group, low, high, n_items,
        n_positives, share (of the positives) and weight_share (of the weight of the estimator), in [0, 1].
        """
        first = next(iter(self._whole().values()))
        return popularity_weights(first, self.definitions[1], self.propensity)

    def plot(
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
            "estimates": every recommender by every estimator. "differences": to the highest one, paired.
            "sensitivity": over γ, with the γ at which two swap. "weights": effective sample sizes.
            "popularity": the share of the weight beside the share of the positives. "segments" and
            "decomposition": by groups.
        metric, estimator : str, optional
            Default: the first metric, and the estimator on which its verdict rests.
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
        from ipseval.report import plots
        from ipseval.report.plots._estimates import plot_differences, plot_weight_shares

        labels = [one.metric for one in self.verdicts]
        if metric_label(kind, self.estimates) in labels:
            raise InputError(
                f'the first argument is the kind of picture: plot("estimates", metric={kind!r}).'
            )
        check_choice("kind", kind, KINDS)
        chosen = labels[0] if metric is None else metric_label(metric, self.estimates)
        check_choice("metric", chosen, labels)
        verdict = self.verdicts[labels.index(chosen)]
        label = verdict.estimator if estimator is None else estimator_label(estimator, self.estimates)
        check_choice("estimator", label, list(verdict.standings))
        if kind == "estimates":
            return plots.plot_estimates(self, metric=chosen, ax=ax)
        if kind == "differences":
            return plot_differences(self, metric=chosen, reference=verdict.standing.best, ax=ax)
        if kind == "sensitivity":
            swept = self._swept(chosen, label)
            return plots.plot_sensitivity(swept, tipping=swept.tipping_points(), ax=ax)
        if kind == "weights":
            return plots.plot_weights(self, ax=ax)
        if kind == "popularity":
            return plot_weight_shares(self, ax=ax)
        return self._plot_groups(kind, by, chosen, label, ax)

    def _swept(self, metric: str, estimator: str) -> Sensitivity:
        """Return R(γ) by one metric and estimator alone, as the others take their time and are not drawn."""
        metrics, estimators = self.definitions
        return sensitivity(
            self._whole(),
            [one for one in metrics if one.label == metric],
            [one for one in estimators if one.label == estimator],
            self.propensity,
            gamma=np.linspace(-1, 3, 41),
            confidence_level=self.confidence_level,
        )

    def _plot_groups(self, kind: str, by: Any, metric: str, estimator: str, ax: Any) -> Any:
        from ipseval.report.plots._estimates import plot_decomposition, plot_segments

        whole: Any = self  # with the methods of segments
        if kind == "decomposition":
            return plot_decomposition(
                whole.decomposition(metric, by="popularity" if by is None else by), ax=ax
            )
        if isinstance(by, str) and by in self.segments:
            segments = self.segments[by]
        elif by is None and self.segments:
            segments = next(iter(self.segments.values()))
        else:
            segments = whole.by("popularity" if by is None else by)
        return plot_segments(segments, metric=metric, estimator=estimator, ax=ax)

    def diff(self, other: Shown, *, models: Mapping[str, str] | None = None) -> EvaluationDiff:
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
        if not isinstance(other, Shown):
            raise InputError(f"diff takes an evaluation; got {type(other).__name__}.")
        return EvaluationDiff.of(self._side, other._side, models, self.confidence_level)

    @property
    def _side(self) -> Side:
        whole: Any = self
        return Side(self.estimates, self.user_ids, whole._hash or "", whole._record)

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
        whole: Any = self
        frame = whole.frame
        known = {name: value for name, value in metric_names(frame).items() if np.isfinite(value)}
        said = {name: str(value)[:5000] for name, value in whole._record.items()}
        tags = {"verdict": " ".join(verdict_lines(self.verdicts)), **said}
        log_to(tracker, Logged(known, tags, frame, whole.to_html(), csv_text(frame)))
