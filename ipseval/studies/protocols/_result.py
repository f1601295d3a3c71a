"""ProtocolStudy: the estimates of every protocol, and how far their orders agree."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.reporting import Tables
from ipseval.reporting.formatting import csv_text
from ipseval.reporting.results import Result as Printable
from ipseval.reporting.tables import Heading, Notes, Part, Remark, Table
from ipseval.reporting.text import to_text
from ipseval.studies.agreement._blocks import Blocks, blocks
from ipseval.studies.protocols._compare import (
    FACTORS,
    ProtocolComparison,
    compare,
    conclusions,
    level,
    mean_of_comparisons,
    verdict_section,
)
from ipseval.studies.protocols._evaluate import Result, winners
from ipseval.studies.protocols._protocol import LEGEND
from ipseval.utils.artefacts import write_text
from ipseval.utils.checks import check_choice, chosen, counted

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = {"split": "splits", "k_core": "filters", "candidates": "candidates", "estimator": "estimators"}
NAMES["log"] = "logs"
FALLING = {"ipc": 0.0}  # what falls with agreement, and its value where two orders agree in full
IDENTICAL = "snips is identical to aoa here"


@dataclass(frozen=True, eq=False, repr=False)
class ProtocolStudy(Printable):
    """The result of `study`.

    Attributes
    ----------
    frame : data frame
        One row per log, protocol, model, metric and estimator: estimate with its standard error over users;
        std_repeats between repeated splits (NaN: one split); n_positives summed over repeats; cold users and
        items of the splits; leakage, the share of test rows with later training rows, and median_future, the
        median share of training rows that are later (means over repeats; NaN without timestamps); note.
    models : tuple of str
        Names, in the order given.
    notes : tuple of str
        What was left out, and the warnings of the evaluations.
    confidence_level : float
        Of all intervals; differences are judged at one minus it.
    k : tuple of int or None
        The k of OR@k.
    settings : data frame
        One row per log, protocol, repeat and `Tuned` recommender: the setting chosen on the validation part,
        its validation metric with the standard error over users, the settings tried of how many, and
        chosen_share, how often the same setting is best when the validation users are drawn again.
    """

    frame: pd.DataFrame
    results: tuple[Result, ...]
    models: tuple[str, ...]
    notes: tuple[str, ...] = ()
    confidence_level: float = 0.95
    k: tuple[int, ...] | None = None
    settings: pd.DataFrame = field(default_factory=pd.DataFrame)
    _compared: dict[str, list[ProtocolComparison]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return to_text(Tables(self._headline(), (), verdict=self._remarks(), hint="More: .explain()"))

    def _headline(self) -> tuple[str, ...]:
        counts = (
            (len(self.models), "recommender"),
            (len(self.levels("log")), "log"),
            (len({result.setting for result in self.results}), "setting"),
        )
        return (" · ".join([*(counted(*one) for one in counts), f"metrics {', '.join(self.metrics)}"]),)

    def _remarks(self) -> tuple[Remark, ...]:
        found = {NAMES[factor]: self.comparisons(factor) for factor in FACTORS}
        return conclusions(found, self.notes, 1 - self.confidence_level)

    @property
    def metrics(self) -> list[str]:
        """Labels of the metrics, in the order given."""
        return list(dict.fromkeys(result.metric for result in self.results))

    def levels(self, factor: str) -> list[str]:
        """Return the levels of a factor, in the order in which they first occur."""
        check_choice("factor", factor, FACTORS)
        return list(dict.fromkeys(level(result.setting, factor) for result in self.results))

    def comparisons(
        self, factor: str, *, metric: str | None = None, reference: str | None = None
    ) -> list[ProtocolComparison]:
        """Return every comparison of two results that differ in one factor only.

        Parameters
        ----------
        factor : {"split", "k_core", "candidates", "estimator", "log"}
            The estimator counts with its γ: ``"snips (γ = 1)"``.
        metric : str, optional
            One metric; default: all.
        reference : str, optional
            Compare with this level only; default: every pair of levels.

        Raises
        ------
        UnknownNameError
            For a factor, metric or level that the study does not have.
        """
        levels = self.levels(factor)
        if metric is not None:
            metric = chosen("metric", metric, self.metrics)
        if reference is not None:
            check_choice("reference", reference, levels)
        if factor not in self._compared:
            self._compared[factor] = compare(self.results, self.models, factor, self.k, self.confidence_level)
        return [
            one.swapped() if one.level_b == reference else one
            for one in self._compared[factor]
            if metric in (None, one.metric) and reference in (None, one.level_a, one.level_b)
        ]

    def between(
        self, factor: str, *, metric: str | None = None, reference: str | None = None
    ) -> pd.DataFrame:
        """Return the agreement of every comparison as a tidy frame; parameters as in `comparisons`.

        Columns: the two levels, the other factors, metric; or@k, src, ipc, tau_b, each with its interval
        from a bootstrap over users (`_low`, `_high`); n_beyond: pairs of models that swap beyond their
        uncertainty (Gail–Simon test, Holm over pairs of models); swaps: which ones; note.

        References
        ----------
        Gail and Simon, "Testing for qualitative interactions between treatment effects and patient subsets",
        Biometrics 41 (1985), https://doi.org/10.2307/2530862
        """
        rows = []
        for one in self.comparisons(factor, metric=metric, reference=reference):
            beyond = one.beyond_uncertainty(1 - self.confidence_level)
            swaps = "; ".join(
                f"{swap.better_in_a} > {swap.better_in_b} becomes {swap.better_in_b} > {swap.better_in_a}"
                for swap in beyond
            )
            measures = {} if one.agreement is None else one.agreement.to_dict()
            tail = {"n_beyond": len(beyond), "swaps": swaps, "note": one.note}
            rows.append(_where(one) | measures | tail)
        return pd.DataFrame(rows)

    def table(
        self,
        factor: str,
        *,
        metric: str | None = None,
        reference: str | None = None,
    ) -> pd.DataFrame:
        """Return the agreement averaged over logs, as in Tables 1 and 2 of Zhao et al. (CIKM 2020).

        One row per pair of levels, other factors and metric. n_beyond counts the pairs of models that swap
        beyond their uncertainty, summed over logs; n_logs the logs with defined estimates. Intervals are over
        the users of these logs.

        Parameters
        ----------
        factor, metric, reference
            As in `comparisons`; not "log".
        """
        if factor == "log":
            raise InputError("a table averages over logs; for agreement between logs use between or matrix.")
        groups: dict[tuple[str, ...], list[ProtocolComparison]] = {}
        for one in self.comparisons(factor, metric=metric, reference=reference):
            where = _where(one)
            groups.setdefault(tuple(where[name] for name in where if name != "log"), []).append(one)
        rows = []
        for group in groups.values():
            row: dict[str, object] = {key: text for key, text in _where(group[0]).items() if key != "log"}
            mean = mean_of_comparisons(group, self.confidence_level)
            row |= {} if mean is None else mean.to_dict()
            alpha = 1 - self.confidence_level
            row["n_beyond"] = sum(len(one.beyond_uncertainty(alpha)) for one in group)
            row["n_logs"] = sum(one.agreement is not None for one in group)
            rows.append(row)
        return pd.DataFrame(rows)

    def matrix(self, factor: str, measure: str = "src", *, metric: str | None = None) -> pd.DataFrame:
        """Return a square frame of one measure between the levels of a factor, for a heat map.

        An entry is the mean over all comparisons of the two levels (logs, other factors, and metrics unless
        one is named); the diagonal is full agreement.

        Raises
        ------
        UnknownNameError
            For an unknown factor, metric or measure.
        """
        levels = self.levels(factor)
        values: dict[tuple[str, str], list[float]] = {}
        for one in self.comparisons(factor, metric=metric):
            if one.agreement is not None:
                check_choice("measure", measure, one.agreement.values)
                values.setdefault((one.level_a, one.level_b), []).append(one.agreement.values[measure])
        square = pd.DataFrame(np.nan, index=levels, columns=levels)
        for name in levels:
            square.loc[name, name] = FALLING.get(measure, 1.0)
        for (a, b), found in values.items():
            square.loc[a, b] = square.loc[b, a] = pd.Series(found).mean()
        return square

    def blocks(self, factor: str = "log", measure: str = "src", *, metric: str | None = None) -> Blocks:
        """Return the blocks of levels that agree, by clustering `matrix`.

        Raises
        ------
        InputError
            For undefined entries, and for "ipc", which falls with agreement.
        """
        if measure in FALLING:
            raise InputError("blocks are of what agrees: src, tau_b or or@k; ipc falls with agreement.")
        return blocks(self.matrix(factor, measure, metric=metric).to_numpy())

    def winners(self, *, metric: str | None = None) -> pd.DataFrame:
        """Return which recommender each setting puts first, and how often it does so over the repeats.

        Columns: log, split, k_core, candidates, estimator, gamma, metric; winner (by the mean over repeats);
        share_first, its share of the repeats (ties count in parts); n_first, how many recommenders are first
        in some repeat; margin, its mean lead over the runner-up; n_repeats.
        """
        if metric is not None:
            metric = chosen("metric", metric, self.metrics)
        return winners([one for one in self.results if metric in (None, one.metric)], self.models)

    def plot(  # type: ignore[override]  # of a factor
        self, factor: str, measure: str = "src", *, metric: str | None = None, ax: Axes | None = None
    ) -> Axes:
        """Return axes with the heat map of `matrix`, for "split", "log" or another factor, in its blocks.

        Raises
        ------
        InputError
            For "ipc", which is no share or correlation.
        """
        from ipseval.reporting.plots import plot_agreement

        if measure in FALLING:
            raise InputError("a heat map shows measures up to 1: src, tau_b or or@k; ipc counts pairs.")
        square = self.matrix(factor, measure, metric=metric)
        ends: list[int] = []
        if square.notna().to_numpy().all():
            found = blocks(square.to_numpy())
            square, ends = square.iloc[found.order, found.order], found.ends
        return plot_agreement(square, value=measure, ends=ends, ax=ax)

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: tables, what differs beyond its uncertainty, and what to know about it."""
        found = {factor: self.comparisons(factor, reference=_reference(self, factor)) for factor in FACTORS}
        compared = {factor: comparisons for factor, comparisons in found.items() if comparisons}
        parts: list[Part] = list(_summary(self))
        for factor in compared:  # logs come last
            parts += (
                _table_section(self, factor, digits) if factor != "log" else _matrix_section(self, digits)
            )
        parts += verdict_section(compared, NAMES, 1 - self.confidence_level)
        parts += [Heading("What to know"), Notes(_notes(self))]
        summary = (*self._headline(), *self._remarks()[0].lines)
        return Tables(summary, tuple(parts), title="Protocol study")

    def to_folder(self, path: str | os.PathLike[str]) -> list[Path]:
        """Write report.md, estimates.csv and one agreement_<factor>.csv per factor; return the files."""
        folder = Path(path)
        texts = {"report.md": self.to_markdown(), "estimates.csv": csv_text(self.frame)}
        for factor in FACTORS:
            frame = self.between(factor)
            if len(frame):
                texts[f"agreement_{factor}.csv"] = csv_text(frame)
        return [write_text(folder / name, text) for name, text in texts.items()]


def _where(one: ProtocolComparison) -> dict[str, str]:
    """Return the columns that say what a comparison is about."""
    row = {f"{one.factor}_a": one.level_a, f"{one.factor}_b": one.level_b}
    return row | one.other_levels() | {"metric": one.metric}


def _summary(study: ProtocolStudy) -> tuple[str, ...]:
    counts = ", ".join(
        f"{len(study.levels(factor))} {NAMES[factor]} ({', '.join(study.levels(factor))})"
        for factor in FACTORS
    )
    n_pairs = len(study.models) * (len(study.models) - 1) // 2
    return (
        f"{counted(len(study.models), 'recommender')} ({', '.join(study.models)}); {counts}; metrics "
        f"{', '.join(study.metrics)}.",
        LEGEND,
        "or@k is the share of the top k in common, src Spearman's correlation, tau_b Kendall's. ipc is the "
        f"number of inverted pairs of recommenders, of {n_pairs}. n_beyond counts, over all logs, the pairs "
        "that swap beyond their uncertainty.",
        f"Brackets hold {study.confidence_level:.0%} bootstrap intervals over the users of these logs. A "
        "replicate carries the noise of the data twice. Intervals therefore lean towards less agreement, and "
        "need not hold the value.",
        "Tables show the first level of what they do not compare. agreement_*.csv have all levels.",
    )


def _reference(study: ProtocolStudy, factor: str) -> str | None:
    """Return the level that tables compare with: the full catalogue, the first estimator; else all pairs."""
    if factor not in ("candidates", "estimator"):
        return None
    levels = study.levels(factor)
    return "full" if "full" in levels else levels[0]


def _table_section(study: ProtocolStudy, factor: str, digits: int) -> list[Part]:
    """Return one table per metric, with every split, and the first level of what else does not differ."""
    others = (name for name in ("k_core", "candidates", "estimator") if name != factor)
    fixed = {name: study.levels(name)[0] for name in others}
    parts: list[Part] = [Heading(f"Between {NAMES[factor]} ({', '.join(fixed.values())})")]
    for metric in study.metrics:
        table = study.table(factor, metric=metric, reference=_reference(study, factor))
        for name, value in fixed.items():
            table = table[table[name] == value]
        constant = ["split"] if "split" in table and table["split"].nunique() == 1 else []
        table = table.drop(columns=["metric", *fixed, *constant])
        parts += [Heading(metric, 3), Table.of(table, formats=f".{digits}f", n_keys=2)]
    return parts


def _matrix_section(study: ProtocolStudy, digits: int) -> list[Part]:
    parts: list[Part] = [Heading("Between logs: mean src over all settings")]
    for metric in study.metrics:
        matrix = study.matrix("log", "src", metric=metric).reset_index(names="log")
        parts += [Heading(metric, 3), Table.of(matrix, formats=f".{digits}f")]
    return parts


def _notes(study: ProtocolStudy) -> tuple[str, ...]:
    notes = list(study.notes)
    same = study.frame[study.frame["note"].str.contains(IDENTICAL)]
    if len(same):
        splits = same.groupby("split", sort=False)["log"].unique()
        where = "; ".join(f"{split} ({', '.join(logs)})" for split, logs in splits.items())
        notes.insert(
            0,
            f"Every user has one positive under {where}: there per-user snips equals aoa for every γ, "
            "whatever the propensity. Their agreement is no evidence of anything; snips-global does use the "
            "weights.",
        )
    notes.append(
        "Intervals and tests are over users of the recommenders as trained. Another training set or seed "
        "adds to the uncertainty; std_repeats in estimates.csv shows it for repeated splits."
    )
    return tuple(dict.fromkeys(notes))
