"""Decomposition: which groups cause the difference of two estimates, and of two recommenders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.estimators import Estimator, Parts, Sample
from ipseval.estimators.base import describe_missing_method
from ipseval.estimators.labels import display_names
from ipseval.evaluation.segments._groups import Groups
from ipseval.evaluation.segments.segment_sums import positive_groups
from ipseval.metrics import Metric
from ipseval.reporting import Tables
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Cell, Notes, Table
from ipseval.utils.public import public_class
from ipseval.utils.types import BoolArray, FloatArray, IntArray, freeze

NAMED_SHARE = 0.5  # the groups that a sentence names make up at least this share of a difference


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class Decomposition(Result):
    """The difference between a weighted and an unweighted estimate, attributed exactly to groups.

    Parameters
    ----------
    by : str
        Name of the grouping.
    labels : tuple of str
        Names of the groups.
    models : tuple of str
        Names of the recommenders.
    metric, plain, weighted : str
        Labels of the metric and of the unweighted and the weighted estimator.
    n_positives : (n_groups,) int array
        Test positives in each group.
    share, share_weighted : (n_groups,) float arrays
        Share of each group in the weight, by the unweighted and by the weighted estimator.
    value, value_weighted : (n_models, n_groups) float arrays
        Value of each recommender in each group; NaN in a group without positives.
    note : str, default ""
        How the groups were built.

    See Also
    --------
    ipseval.evaluation.Evaluation.decomposition : Compute decompositions.

    Notes
    -----
    With s_g the share of the weight and v_g the value of group g, unweighted and weighted (w), R = Σ s_g v_g:

        R^w − R = Σ_g (s^w_g − s_g)(v_g − R)  +  Σ_g s^w_g (v^w_g − v_g).

    The first sum is the effect of weight that moves between groups, the second the effect of weights within
    groups [1]_. Shares are the same for all recommenders, so R_A − R_B = Σ_g s_g (v_g,A − v_g,B) attributes
    the difference of two recommenders to groups.

    References
    ----------
    .. [1] Kitagawa, "Components of a difference between two rates", JASA 50, 1955,
       doi:10.1080/01621459.1955.10501299

    Examples
    --------
    The weights increase the share of unpopular items, and both estimates become smaller:

    >>> from ipseval import PowerLawPropensity, evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> propensity = PowerLawPropensity(gamma=0, unseen="smooth")
    >>> evaluation = evaluate(models, split, propensity=propensity, metrics=["recall@10"])
    >>> decomposition = evaluation.decomposition(by="popularity")
    >>> frame = decomposition.frame
    >>> frame.loc[frame["model"] == "taste", ["group", "share", "share_weighted", "difference"]].round(3)
               group  share  share_weighted  difference
    0       1 (n* 0)  0.034           0.111      -0.047
    1       2 (n* 1)  0.037           0.085      -0.027
    2       3 (n* 2)  0.075           0.140      -0.038
    3     4 (n* 3–4)  0.078           0.121      -0.014
    4     5 (n* 5–6)  0.088           0.113      -0.003
    5    6 (n* 7–17)  0.195           0.188      -0.001
    6  7 (n* 21–102)  0.493           0.242      -0.074
    >>> frame.groupby("model")["difference"].sum().round(3).to_dict()
    {'popular': -0.261, 'taste': -0.204}
    """

    by: str
    labels: tuple[str, ...]
    models: tuple[str, ...]
    metric: str
    plain: str
    weighted: str
    n_positives: IntArray
    share: FloatArray
    share_weighted: FloatArray
    value: FloatArray
    value_weighted: FloatArray
    note: str = ""

    def __post_init__(self) -> None:
        freeze(self, "n_positives", "share", "share_weighted", "value", "value_weighted")

    @classmethod
    def from_samples(
        cls,
        groups: Groups,
        samples: Mapping[str, Sample],
        metric: Metric,
        plain: Estimator,
        weighted: Estimator,
    ) -> Decomposition:
        """Return the decomposition over the positives of some recommenders.

        Parameters
        ----------
        groups : Groups
            Groups of users or items.
        samples : mapping
            Name of a recommender -> its ranked positives, which are the same pairs for all.
        metric : Metric
            Metric whose difference is attributed.
        plain, weighted : Estimator
            The unweighted and the weighted estimator.

        Returns
        -------
        Decomposition
            Shares and values of the groups for every recommender.

        Raises
        ------
        InputError
            For a metric whose positives do not add up to its value under both estimators.
        """
        ranked = next(iter(samples.values())).ranked
        codes = positive_groups(groups, ranked)
        n_groups = len(groups.labels)
        share, value = _shares_and_values(plain, codes, n_groups, samples, metric)
        share_weighted, value_weighted = _shares_and_values(weighted, codes, n_groups, samples, metric)
        return cls(
            by=groups.name,
            labels=groups.labels,
            models=tuple(samples),
            metric=metric.label,
            plain=plain.label,
            weighted=weighted.label,
            n_positives=np.bincount(codes, minlength=n_groups),
            share=share,
            share_weighted=share_weighted,
            value=value,
            value_weighted=value_weighted,
            note=groups.note,
        )

    @property
    def frame(self) -> pd.DataFrame:
        """One row per recommender and group.

        by, model, group, n_positives; share and value, unweighted and weighted; moved = (s^w − s)(v − R) and
        within = s^w (v^w − v), which sum over groups to the difference; difference = moved + within.
        """
        n_models, n_groups = self.value.shape
        moved, within = self._terms()
        columns: dict[str, Any] = {
            "by": self.by,
            "model": np.repeat(np.array(self.models, dtype=object), n_groups),
            "group": np.tile(np.array(self.labels, dtype=object), n_models),
        }
        for name in ("n_positives", "share", "share_weighted"):
            columns[name] = np.tile(getattr(self, name), n_models)
        columns |= {
            "value": self.value.ravel(),
            "value_weighted": self.value_weighted.ravel(),
            "moved": moved.ravel(),
            "within": within.ravel(),
            "difference": (moved + within).ravel(),
        }
        return pd.DataFrame(columns)

    @property
    def totals(self) -> pd.DataFrame:
        """One row per recommender: plain, weighted, difference, and its two terms moved and within."""
        plain = _total_value(self.share, self.value)
        weighted = _total_value(self.share_weighted, self.value_weighted)
        moved, within = self._terms()
        return pd.DataFrame(
            {
                "model": self.models,
                "plain": plain,
                "weighted": weighted,
                "difference": weighted - plain,
                "moved": moved.sum(axis=1),
                "within": within.sum(axis=1),
            }
        )

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: shares and values by group, and the sources of the difference as text.

        Parameters
        ----------
        digits : int, default 2
            Values have two decimals more.
        page : bool, default False
            Accepted as in other results; the report is the same.

        Returns
        -------
        Tables
            Parts of the report, as every format prints them.
        """
        places = digits + 2
        plain_name, weighted_name = self._estimator_names()
        header = [self.by, f"share of weight, {plain_name}", f"share of weight, {weighted_name}"]
        for model in self.models:
            header.append(f"{model}, {plain_name}")
            header.append(f"{model}, {weighted_name}")

        rows = []
        for group, label in enumerate(self.labels):
            cells = [Cell(label), Cell(f"{self.share[group]:.1%}"), Cell(f"{self.share_weighted[group]:.1%}")]
            for number in range(len(self.models)):
                cells.append(_build_group_value_cell(float(self.value[number, group]), places))
                cells.append(_build_group_value_cell(float(self.value_weighted[number, group]), places))
            rows.append(tuple(cells))
        total_cells = [Cell("all"), Cell("100.0%"), Cell("100.0%")]
        for _, row in self.totals.iterrows():
            total_cells.append(Cell(f"{row['plain']:.{places}f}"))
            total_cells.append(Cell(f"{row['weighted']:.{places}f}"))
        rows.append(tuple(total_cells))

        table = Table(tuple(header), tuple(rows), f"{self.metric}, by {self.by}")
        return Tables(
            summary=(f"Difference between {weighted_name} and {plain_name}, by {self.by}",),
            parts=(table, Notes(tuple(self.statements(digits=places)))),
        )

    @property
    def verdict(self) -> str:
        """The statements as one text."""
        return " ".join(self.statements())

    def statements(self, *, digits: int = 4) -> list[str]:
        """Return sentences on the weight that moves, its effect, and the groups that recommenders differ in.

        Parameters
        ----------
        digits : int, default 4
            Decimals of values.

        Returns
        -------
        list of str
            One sentence per finding.
        """
        plain_name, weighted_name = self._estimator_names()
        sentences = self._describe_weights()
        for row in self.totals.to_dict("records"):
            sentences.append(
                f"{row['model']}: {row['plain']:.{digits}f} by {plain_name} and "
                f"{row['weighted']:.{digits}f} by {weighted_name}. Of the difference of "
                f"{row['difference']:+.{digits}f}, {row['moved']:+.{digits}f} is due to weight that moves "
                f"between groups and {row['within']:+.{digits}f} to weights within groups."
            )
        for model, reference in combinations(range(len(self.models)), 2):
            plain_parts = _model_differences(self.share, self.value, model, reference)
            weighted_parts = _model_differences(self.share_weighted, self.value_weighted, model, reference)
            sentences.append(self._describe_lead(model, reference, plain_name, plain_parts, digits))
            sentences.append(self._describe_lead(model, reference, weighted_name, weighted_parts, digits))
        return sentences

    def plot(self, *, ax: Any = None) -> Any:  # type: ignore[override]  # it has one metric
        """Draw both shares of each group, and the value of each recommender in it.

        Parameters
        ----------
        ax : matplotlib axes, optional
            Default: new axes.

        Returns
        -------
        matplotlib axes
            Axes with the plot, for further changes.
        """
        from ipseval.reporting.plots.estimates import plot_decomposition

        return plot_decomposition(self.frame, ax=ax)

    def _estimator_names(self) -> tuple[str, str]:
        """Return the display names of the unweighted and the weighted estimator."""
        names = display_names([self.plain, self.weighted])
        return names[self.plain], names[self.weighted]

    def _terms(self) -> tuple[FloatArray, FloatArray]:
        """Return (s^w − s)(v − R) and s^w (v^w − v); a group without unweighted value has R for v."""
        total = _total_value(self.share, self.value)[:, None]
        value = np.where(np.isnan(self.value), total, self.value)
        moved = (self.share_weighted - self.share) * (value - total)
        within = self.share_weighted * np.nan_to_num(self.value_weighted - value)
        return moved, within

    def _describe_weights(self) -> list[str]:
        """Return sentences on the groups with the largest fall and rise of weight, [] without a change."""
        change = self.share_weighted - self.share
        largest_rise = int(np.argmax(change))
        if change[largest_rise] <= 0:
            return []
        largest_fall = int(np.argmin(change))
        return [
            self._describe_share("falls", largest_fall),
            self._describe_share("rises", largest_rise),
        ]

    def _describe_share(self, verb: str, group: int) -> str:
        """Return both shares of a group as a sentence."""
        plain_name, weighted_name = self._estimator_names()
        return (
            f"The share of weight {verb} most in {self.labels[group]}: {self.share[group]:.1%} by "
            f"{plain_name} and {self.share_weighted[group]:.1%} by {weighted_name}."
        )

    def _describe_lead(
        self, model: int, reference: int, estimator: str, parts: FloatArray, digits: int
    ) -> str:
        """Return the difference of two recommenders, and the groups that make up most of it."""
        total = float(parts.sum())
        higher = model
        lower = reference
        if total < 0:
            higher = reference
            lower = model
        if f"{abs(total):.{digits}f}" == f"{0:.{digits}f}":
            return f"By {estimator}, {self.models[higher]} and {self.models[lower]} have the same value."

        signed_parts = parts * np.sign(total)
        sentence = (
            f"By {estimator}, {self.models[higher]} exceeds {self.models[lower]} by {abs(total):.{digits}f}:"
        )
        is_loss = signed_parts < 0
        if is_loss.any():
            is_gain = signed_parts > 0
            return (
                f"{sentence} it gains {signed_parts[is_gain].sum():.{digits}f} in "
                f"{self._name_groups(is_gain)} and loses {-signed_parts[is_loss].sum():.{digits}f} in "
                f"{self._name_groups(is_loss)}."
            )
        order = np.argsort(-signed_parts, kind="stable")
        cumulative = np.cumsum(signed_parts[order])
        n_named = int(np.searchsorted(cumulative, NAMED_SHARE * abs(total))) + 1
        is_named = np.isin(np.arange(signed_parts.size), order[:n_named])
        share = signed_parts[is_named].sum() / abs(total)
        return f"{sentence} {share:.0%} of the difference is in {self._name_groups(is_named)}."

    def _name_groups(self, is_selected: BoolArray) -> str:
        """Return the names of the selected groups; of several consecutive groups the first and the last."""
        numbers = np.flatnonzero(is_selected)
        runs = np.split(numbers, np.flatnonzero(np.diff(numbers) > 1) + 1)
        names = []
        for run in runs:
            name = self.labels[run[0]]
            if run.size > 1:
                name = f"{name} to {self.labels[run[-1]]}"
            names.append(name)
        return ", ".join(names)


def _build_group_value_cell(value: float, places: int) -> Cell:
    """Return the cell of the value of a group, "none" where it has no positives."""
    return Cell("none" if np.isnan(value) else f"{value:.{places}f}")


def _total_value(share: FloatArray, value: FloatArray) -> FloatArray:
    """Return Σ_g s_g v_g of each recommender."""
    return np.asarray((share * np.nan_to_num(value)).sum(axis=-1))


def _model_differences(share: FloatArray, value: FloatArray, model: int, reference: int) -> FloatArray:
    """Return the part of each group in the difference of two recommenders, s_g (v_g,A − v_g,B)."""
    return np.asarray(share * np.nan_to_num(value[model] - value[reference]))


def _shares_and_values(
    estimator: Estimator, codes: IntArray, n_groups: int, samples: Mapping[str, Sample], metric: Metric
) -> tuple[FloatArray, FloatArray]:
    """Return the share of each group in the weight, and its value for each recommender."""
    share = np.zeros(n_groups)
    values = []
    for sample in samples.values():
        parts = _require_parts(estimator, sample, metric)
        is_defined = ~np.isnan(parts.value)
        group_of_row = codes[is_defined]
        weight = parts.weight[is_defined]
        scale = 1.0 if parts.volume is None else float(parts.volume.mean())
        group_weight = np.bincount(group_of_row, weight, minlength=n_groups)
        weighted_sum = np.bincount(group_of_row, weight * parts.value[is_defined], minlength=n_groups)
        share = group_weight / group_weight.sum()
        with np.errstate(invalid="ignore", divide="ignore"):
            values.append(scale * weighted_sum / group_weight)
    return share, np.array(values)


def _require_parts(estimator: Estimator, sample: Sample, metric: Metric) -> Parts:
    """Return the weight and value of each positive, or raise `InputError` where they do not add up."""
    parts = estimator.parts(sample, metric)
    if parts is not None:
        return parts
    missing_method = describe_missing_method(estimator, "parts")
    if missing_method:
        raise InputError(f"{missing_method}, so its estimate cannot be decomposed.")
    raise InputError(
        f"{metric.label} by {estimator.label} is not a sum over positives, so groups have no part of "
        "it. Use recall@k, ndcg@k, dcg@k, precision@k or atop, by a self-normalised estimator."
    )
