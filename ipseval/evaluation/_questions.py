"""What can be asked of an evaluation: comparisons, sensitivity, bounds, groups, pictures, logs."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval._base.checks import as_float_vector, check_choice, chosen
from ipseval._base.registry import matching
from ipseval.errors import InputError
from ipseval.estimators import Estimate, Estimator
from ipseval.estimators._labels import plain_estimator, resolve_estimator, spoken
from ipseval.evaluation._differences import EvaluationDiff
from ipseval.evaluation._estimates import Estimates, distinct_of
from ipseval.evaluation.segments import Decomposition, Groups, Segments, TrainingCounts
from ipseval.evaluation.segments._build import segment
from ipseval.evaluation.segments._built_in import resolve
from ipseval.inference import Sensitivity, bounds, compare
from ipseval.inference._comparisons import Correction, Family
from ipseval.inference._frame import with_trust
from ipseval.inference._intervals import Key
from ipseval.inference._sensitivity import sensitivity
from ipseval.inference._weights import popularity_weights
from ipseval.metrics import Metric, metric
from ipseval.report._words import csv_text

FOLDER = "ipseval"
TABLE = f"{FOLDER}/estimates.csv"
TRACKERS = "mlflow, wandb, or objects with the same functions"


def metric_names(frame: pd.DataFrame) -> dict[str, float]:
    """Return metric/estimator/recommender -> estimate, if defined, in the characters that trackers take."""
    found: dict[str, float] = {}
    for row in frame.to_dict("records"):
        parts = (row["metric"], row["estimator"], row["model"])
        name = "/".join(re.sub(r"[^\w.\- ]", "_", str(part).replace("@", "_at_")) for part in parts)
        if name in found:
            raise InputError(
                f"two estimates would be logged as {name!r}. Rename a recommender: letters, digits, spaces "
                "and ._- are kept, other characters become _."
            )
        found[name] = float(row["estimate"])
    return {name: value for name, value in found.items() if np.isfinite(value)}


KINDS = (
    "estimates",
    "differences",
    "sensitivity",
    "weights",
    "popularity",
    "segments",
    "decomposition",
)


def metric_label(label: str, held: Iterable[Key]) -> str:
    """Return the label of the metric among keys that `label` stands for, in any case; else `label`."""
    return _held(label, distinct_of(held, 1), metric)


def estimator_label(label: str, held: Iterable[Key]) -> str:
    """Return the label of the estimator among keys that `label` stands for, in any case; else `label`."""
    return _held(label, distinct_of(held, 2), resolve_estimator)


def _held(label: str, held: list[str], read: Callable[[str], Metric | Estimator]) -> str:
    found = matching(label, held)
    if found is not None:
        return found
    try:
        return read(label).label  # another name of it
    except InputError:
        return label


def in_words(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose estimators are named in words, for those who see a picture."""
    return frame.assign(estimator=frame["estimator"].map(spoken)) if "estimator" in frame else frame


class Questions(Estimates):
    """What is asked of estimates and of the ranked positives behind them; `Evaluation` holds these."""

    def estimate(self, model: str, metric: str, estimator: str) -> Estimate:
        """Return one estimate.

        Raises
        ------
        InputError
            When the evaluation does not hold it.
        """
        key = model, metric_label(metric, self.estimates), estimator_label(estimator, self.estimates)
        try:
            return self.estimates[key]
        except KeyError:
            raise InputError(
                f"no estimate ({model!r}, {metric!r}, {estimator!r}); models: {', '.join(self.models)}; "
                f"metrics: {', '.join(self.metrics)}; estimators: {', '.join(self.estimators)}."
            ) from None

    def per_user(self, model: str, metric: str, estimator: str) -> pd.Series[float]:
        """Return each user's own value N_u/D_u, indexed by user id, for the users that entered."""
        sums = self.estimate(model, metric, estimator).user_sums
        index = pd.Index(self.user_ids[sums.users], name="user")
        return pd.Series(sums.user_estimates(), index=index, name=f"{model} {metric} {estimator}")

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

    def sensitivity(self, gamma: npt.ArrayLike | None = None, *, standard_errors: bool = True) -> Sensitivity:
        """Return R(γ) over a grid (default −1, −0.9, …, 3); its `.frame`, and its `.tipping_points()`."""
        return sensitivity(
            self._whole(),
            *self.definitions,
            self.propensity,
            gamma=np.linspace(-1, 3, 41) if gamma is None else gamma,
            confidence_level=self.confidence_level,
            standard_errors=standard_errors,
        )

    def tipping_points(
        self, gamma: npt.ArrayLike | None = None, *, reference: str | None = None
    ) -> pd.DataFrame:
        """Return where pairs of recommenders swap as γ varies (default grid −1 … 3 in steps of .02).

        `reference`: only the pairs with this recommender.
        """
        grid = np.linspace(-1, 3, 201) if gamma is None else gamma
        found = self.sensitivity(grid, standard_errors=False).tipping_points(reference)
        return with_trust(found, self.estimates)

    def bounds(self, factor: float | Sequence[float] = 2.0) -> pd.DataFrame:
        """Return bounds of every estimate when each 1/P may be wrong by a factor; see `inference.bounds`."""
        factors = as_float_vector("factor", np.atleast_1d(np.asarray(factor))).tolist()
        return with_trust(bounds(self._whole(), *self.definitions, factors=factors), self.estimates)

    @property
    def popularity(self) -> pd.DataFrame:
        """What is weighted how: the test positives in groups by the popularity of their item.

        estimator (every weighted one), by ("n*", or "P" where n* is not known), group, low, high, n_items,
        n_positives, share (of the positives) and weight_share (of the weight of the estimator), in [0, 1].
        """
        first = next(iter(self._whole().values()))
        return popularity_weights(first, self.definitions[1], self.propensity)

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
            "estimates": every recommender by every estimator. "differences": to the highest one, paired.
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
        from ipseval.report import plots
        from ipseval.report.plots import _estimates as drawn

        labels = [one.metric for one in self.verdicts]
        if metric_label(kind, self.estimates) in labels:
            raise InputError(
                f'the first argument is the kind of picture: plot("estimates", metric={kind!r}).'
            )
        check_choice("kind", kind, KINDS)
        chosen = labels[0] if metric is None else metric_label(metric, self.estimates)
        check_choice("metric", chosen, labels)
        verdict = self.verdicts[labels.index(chosen)]
        label = verdict.weighted or verdict.estimator
        label = label if estimator is None else estimator_label(estimator, self.estimates)
        check_choice("estimator", label, list(verdict.standings))
        place = {model: row for row, model in enumerate(verdict.order)}  # as text and page list them

        def ordered(rows: pd.DataFrame) -> pd.DataFrame:
            own = rows[rows["metric"] == chosen] if "metric" in rows else rows
            return in_words(own).sort_values("model", key=lambda names: names.map(place), kind="stable")

        if kind == "estimates":
            return plots.plot_estimates(ordered(self.frame), ax=ax)
        if kind == "differences":
            return drawn.plot_differences(ordered(self.compare(verdict.first)), ax=ax)
        if kind == "sensitivity":
            swept = self._swept(chosen, label)
            tipping = in_words(swept.tipping_points())
            return plots.plot_sensitivity(ordered(swept.frame), tipping=tipping, ax=ax)
        if kind == "weights":
            return plots.plot_weights(in_words(self.diagnostics), ax=ax)
        if kind == "popularity":
            return drawn.plot_weight_shares(in_words(self.popularity), ax=ax)
        if kind == "decomposition":
            found = self.decomposition(chosen, by="popularity" if by is None else by)
            return drawn.plot_decomposition(ordered(found.frame), ax=ax)
        groups = self.by(next(iter(self.segments), "popularity") if by is None else by)
        return drawn.plot_segments(ordered(groups.frame), metric=chosen, estimator=spoken(label), ax=ax)

    def _swept(self, metric: str, estimator: str) -> Sensitivity:
        """Return R(γ) by one metric and estimator alone, as the others take their time and are not drawn."""
        metrics = [one for one in self.definitions[0] if one.label == metric]
        estimators = [one for one in self.definitions[1] if one.label == estimator]
        return replace(self, definitions=(metrics, estimators)).sensitivity()

    def diff(self, other: Questions, *, models: Mapping[str, str] | None = None) -> EvaluationDiff:
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
        if not isinstance(other, Questions):
            raise InputError(f"diff takes an evaluation; got {type(other).__name__}.")
        return EvaluationDiff.of(self, other, models)

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
        metrics = metric_names(self.frame)
        record = {name: str(value)[:5000] for name, value in self._record.items()}
        tags = {"verdict": self.verdict, **record}
        if all(hasattr(tracker, name) for name in ("log_metrics", "log_text", "set_tags")):
            tracker.log_metrics(metrics)
            tracker.set_tags({f"{FOLDER}.{name}": text for name, text in tags.items()})
            tracker.log_text(csv_text(self.frame), TABLE)
            tracker.log_text(self.to_html(), f"{FOLDER}/report.html")
        elif all(hasattr(tracker, name) for name in ("log", "Table", "Html", "run")):
            if tracker.run is None:
                raise InputError("no run of wandb is open; call wandb.init() first.")
            tracker.run.config.update({FOLDER: tags}, allow_val_change=True)
            table, page = tracker.Table(dataframe=self.frame), tracker.Html(self.to_html(), inject=False)
            tracker.log({**metrics, f"{FOLDER}/estimates": table, f"{FOLDER}/report": page})
        else:
            raise InputError(f"log takes {TRACKERS}; got {type(tracker).__name__}.")

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
            names = ", ".join(one.name for one in groups)
            raise InputError(f"by= holds {len(groups)} groupings ({names}); ask for one at a time.")
        return segment(self, groups[0])

    def _groups(self, by: Any, counts: TrainingCounts | None) -> tuple[Groups, ...]:
        first = next(iter(self._whole().values())).ranked
        return resolve(by, first.unit_ids, first.item_ids, counts or self.training)

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
        groups, definitions = self._groups(by, counts), self.definitions
        if len(groups) > 1:
            raise InputError(f"by= holds {len(groups)} groupings; a decomposition takes one.")
        known = {one.label: one for one in definitions[0]}
        one = definitions[0][0] if metric is None else known[chosen("metric", metric, known)]
        found = [one for one in definitions[1] if one.weighted]
        if weighted is None and not found:
            raise InputError(
                "a decomposition compares weighted with plain values, and this evaluation has no weights; "
                "evaluate with propensity=."
            )
        heavy = found[0] if weighted is None else resolve_estimator(weighted)
        light = plain_estimator(heavy.target) if plain is None else resolve_estimator(plain)
        return Decomposition.of(groups[0], self.samples, one, light, heavy)
