"""Decomposition: in which groups weighted and plain values differ, and where one recommender's lead lies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.estimators import Estimator, Sample
from ipseval.estimators.base import missing_method_message
from ipseval.evaluation.segments._groups import Groups
from ipseval.metrics import Metric
from ipseval.reporting import Tables
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Cell, Notes, Table
from ipseval.utils.types import BoolArray, FloatArray, IntArray, freeze

MOST = 0.5  # of a lead or shift: the groups that are named make up at least this share of it


@dataclass(frozen=True, eq=False, repr=False)
class Decomposition(Result):
    """Why a weighted estimate differs from the plain one, group by group, exactly.

    With s_g the share of the weight and v_g the value of group g, plain and weighted (w), R = Σ s_g v_g:

        R^w − R = Σ_g (s^w_g − s_g)(v_g − R)  +  Σ_g s^w_g (v^w_g − v_g).

    The first sum is weight that moves between groups, the second what weights do inside them. As shares are
    the same for all recommenders, R_A − R_B = Σ_g s_g (v_g,A − v_g,B) says in which groups A leads.

    Attributes
    ----------
    by : str
        Name of the grouping.
    labels : tuple of str
        Names of the groups.
    models : tuple of str
    metric, plain, weighted : str
        Labels of the metric and the two estimators.
    n_positives : (n_groups,) int array
    share, share_weighted : (n_groups,) float arrays
    value, value_weighted : (n_models, n_groups) float arrays
        NaN in a group without positives.

    References
    ----------
    Kitagawa, Components of a difference between two rates, JASA 50, 1955, doi
    10.1080/01621459.1955.10501299.
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
    note: str = ""  # how the groups were made

    def __post_init__(self) -> None:
        freeze(self, "n_positives", "share", "share_weighted", "value", "value_weighted")

    @classmethod
    def of(
        cls,
        groups: Groups,
        samples: Mapping[str, Sample],
        metric: Metric,
        plain: Estimator,
        weighted: Estimator,
    ) -> Decomposition:
        """Return the decomposition over the positives of some recommenders.

        Raises
        ------
        InputError
            For a metric whose positives do not add up to its value under both estimators.
        """
        first = next(iter(samples.values())).ranked
        code = groups.codes[first.unit(first.user) if groups.axis == "user" else first.item]
        n_groups = len(groups.labels)
        share, value = _shares_and_values(plain, code, n_groups, samples, metric)
        share_weighted, value_weighted = _shares_and_values(weighted, code, n_groups, samples, metric)
        return cls(
            groups.name,
            groups.labels,
            tuple(samples),
            metric.label,
            plain.label,
            weighted.label,
            np.bincount(code, minlength=n_groups),
            share,
            share_weighted,
            value,
            value_weighted,
            groups.note,
        )

    @property
    def frame(self) -> pd.DataFrame:
        """One row per recommender and group.

        by, model, group, n_positives; share and value, plain and weighted; moved = (s^w − s)(v − R) and
        within = s^w (v^w − v), which sum over groups to the difference; difference = moved + within.
        """
        n, groups = self.value.shape
        moved, within = self._terms()
        of_groups = {name: getattr(self, name) for name in ("n_positives", "share", "share_weighted")}
        of_both = {"value": self.value, "value_weighted": self.value_weighted}
        of_both |= {"moved": moved, "within": within, "difference": moved + within}
        return pd.DataFrame(
            {
                "by": self.by,
                "model": np.repeat(np.array(self.models, dtype=object), groups),
                "group": np.tile(np.array(self.labels, dtype=object), n),
                **{name: np.tile(one, n) for name, one in of_groups.items()},
                **{name: one.ravel() for name, one in of_both.items()},
            }
        )

    @property
    def totals(self) -> pd.DataFrame:
        """One row per recommender: plain, weighted, difference, and its two terms moved and within."""
        plain, weighted = _total(self.share, self.value), _total(self.share_weighted, self.value_weighted)
        moved, within = (one.sum(axis=1) for one in self._terms())
        terms = {"difference": weighted - plain, "moved": moved, "within": within}
        return pd.DataFrame({"model": self.models, "plain": plain, "weighted": weighted, **terms})

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: shares and values by group, and in words where the difference comes from."""
        shown = digits + 2
        header = (
            self.by,
            f"positives ({self.plain})",
            f"weight ({self.weighted})",
            *(f"{model}, {kind}" for model in self.models for kind in ("plain", "weighted")),
        )
        rows = [
            (
                Cell(label),
                Cell(f"{self.share[group]:.1%}"),
                Cell(f"{self.share_weighted[group]:.1%}"),
                *(
                    Cell("none" if np.isnan(one) else f"{one:.{shown}f}")
                    for number in range(len(self.models))
                    for one in (self.value[number, group], self.value_weighted[number, group])
                ),
            )
            for group, label in enumerate(self.labels)
        ]
        totals = self.totals
        ends = [
            Cell(f"{row[kind]:.{shown}f}") for _, row in totals.iterrows() for kind in ("plain", "weighted")
        ]
        rows.append((Cell("all"), Cell("100.0%"), Cell("100.0%"), *ends))
        table = Table(header, tuple(rows), f"{self.metric}, by {self.by}")
        return Tables(
            summary=(f"Where {self.weighted} and {self.plain} differ, by {self.by}",),
            parts=(table, Notes(tuple(self.statements(digits=shown)))),
        )

    @property
    def verdict(self) -> str:
        """Where weight moves, what that changes, and in which groups leads lie."""
        return " ".join(self.statements())

    def statements(self, *, digits: int = 4) -> list[str]:
        """Return in words where weight moves, what that changes, and in which groups leads lie."""
        lines = self._weight_moves()
        for row in self.totals.to_dict("records"):
            lines.append(
                f"{row['model']}: {row['plain']:.{digits}f} plain, {row['weighted']:.{digits}f} weighted. "
                f"Of the {row['difference']:+.{digits}f}, {row['moved']:+.{digits}f} is weight that moves "
                f"between groups, {row['within']:+.{digits}f} is inside them."
            )
        for one, other in combinations(range(len(self.models)), 2):
            lines += [self._said(one, other, *each, digits) for each in self._lead(one, other)]
        return lines

    def plot(self, *, ax: Any = None) -> Any:  # type: ignore[override]  # it has one metric
        """Return axes with both shares of each group, and the value of each recommender in it."""
        from ipseval.reporting.plots.estimates import plot_decomposition

        return plot_decomposition(self.frame, ax=ax)

    def _terms(self) -> tuple[FloatArray, FloatArray]:
        """Return (s^w − s)(v − R) and s^w (v^w − v); a group without plain weight has R for v."""
        whole = _total(self.share, self.value)[:, None]
        own = np.where(np.isnan(self.value), whole, self.value)
        moved = (self.share_weighted - self.share) * (own - whole)
        return moved, self.share_weighted * np.nan_to_num(self.value_weighted - own)

    def _lead(self, one: int, other: int) -> list[tuple[str, FloatArray]]:
        """Return estimator, and what each group adds to the difference of two recommenders."""
        plain = self.plain, self.share, self.value
        weighted = self.weighted, self.share_weighted, self.value_weighted
        return [
            (label, np.asarray(share * np.nan_to_num(value[one] - value[other])))
            for label, share, value in (plain, weighted)
        ]

    def _weight_moves(self) -> list[str]:
        step = self.share_weighted - self.share
        down, up = int(np.argmin(step)), int(np.argmax(step))
        if step[up] <= 0:
            return []
        return [
            f"{kind}: {self.labels[group]}, {self.share[group]:.1%} of the positives and "
            f"{self.share_weighted[group]:.1%} of the weight."
            for kind, group in (("Loses most weight", down), ("Gains most weight", up))
        ]

    def _said(self, one: int, other: int, estimator: str, parts: FloatArray, digits: int) -> str:
        """Return who leads by how much, and the groups that make up most of it."""
        total = float(parts.sum())
        ahead, behind = (one, other) if total >= 0 else (other, one)
        names = f"{self.models[ahead]} and {self.models[behind]}"
        if f"{abs(total):.{digits}f}" == f"{0:.{digits}f}":
            return f"{estimator}: {names} have the same value."
        signed = parts * np.sign(total)
        said = f"{estimator}: {self.models[ahead]} leads {self.models[behind]} by {abs(total):.{digits}f}."
        if (signed < 0).any():
            gain, loss = signed > 0, signed < 0
            return (
                f"{said} It gains {signed[gain].sum():.{digits}f} in {self._named(gain)} and loses "
                f"{-signed[loss].sum():.{digits}f} in {self._named(loss)}."
            )
        order = np.argsort(-signed, kind="stable")
        n_named = int(np.searchsorted(np.cumsum(signed[order]), MOST * abs(total))) + 1
        named = np.isin(np.arange(signed.size), order[:n_named])
        return f"{said} {signed[named].sum() / abs(total):.0%} of the lead is in {self._named(named)}."

    def _named(self, groups: BoolArray) -> str:
        """Return the names of some groups; of several in a row the first and the last."""
        places = np.flatnonzero(groups)
        runs = np.split(places, np.flatnonzero(np.diff(places) > 1) + 1)
        names = [
            self.labels[run[0]] if run.size == 1 else f"{self.labels[run[0]]} to {self.labels[run[-1]]}"
            for run in runs
        ]
        return ", ".join(names)


def _total(share: FloatArray, value: FloatArray) -> FloatArray:
    return np.asarray((share * np.nan_to_num(value)).sum(axis=-1))


def _shares_and_values(
    estimator: Estimator, code: IntArray, n_groups: int, samples: Mapping[str, Sample], metric: Metric
) -> tuple[FloatArray, FloatArray]:
    """Return the share of each group in the weight, and its value for each recommender."""
    share, values = np.zeros(n_groups), []
    for sample in samples.values():
        parts = estimator.parts(sample, metric)
        if parts is None and missing_method_message(estimator, "parts"):
            raise InputError(
                f"{missing_method_message(estimator, 'parts')}, so its estimate cannot be decomposed."
            )
        if parts is None:
            raise InputError(
                f"{metric.label} by {estimator.label} is no sum over positives, so that no group has a part "
                "of it. Use recall@k, ndcg@k, dcg@k, precision@k or atop, by a self-normalised estimator."
            )
        defined = ~np.isnan(parts.value)
        rows, weight = code[defined], parts.weight[defined]
        scale = 1.0 if parts.volume is None else float(parts.volume.mean())
        low = np.bincount(rows, weight, minlength=n_groups)
        top = np.bincount(rows, weight * parts.value[defined], minlength=n_groups)
        share = low / low.sum()
        with np.errstate(invalid="ignore", divide="ignore"):
            values.append(scale * top / low)
    return share, np.array(values)
