"""ProtocolStudy: the estimates of every protocol, and the agreement of their rankings."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.reporting import Tables
from ipseval.reporting.formatting import format_csv
from ipseval.reporting.results import Result as Printable
from ipseval.reporting.tables import EXPLAIN_HINT, Heading, Notes, Part, Remark, Table
from ipseval.studies.agreement._blocks import Blocks, blocks
from ipseval.studies.protocols._compare import (
    FACTORS,
    Inversion,
    ProtocolComparison,
    average_comparisons,
    build_verdict_section,
    compare_results,
    get_level,
    summarize_comparisons,
)
from ipseval.studies.protocols._evaluate import ProtocolResult, tabulate_winners
from ipseval.studies.protocols._protocol import LEGEND
from ipseval.utils.artefacts import write_text
from ipseval.utils.checks import check_choice, format_count, resolve_choice
from ipseval.utils.public import public_class

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = {
    "split": "splits",
    "k_core": "filters",
    "candidates": "candidates",
    "estimator": "estimators",
    "log": "logs",
}
FALLING = {"ipc": 0.0}  # measures that fall with agreement, with their values for equal rankings


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class ProtocolStudy(Printable):
    """The result of `study`.

    Parameters
    ----------
    frame : DataFrame
        One row per log, protocol, model, metric and estimator: estimate with its standard error over users;
        std_repeats between repeated splits (NaN: one split); n_positives summed over repeats; cold users and
        items of the splits; leakage, the share of test rows with later training rows, and median_future, the
        median share of training rows that are later (means over repeats; NaN without timestamps); note.
    results : tuple of ProtocolResult
        Estimates of all models, for each setting and metric.
    models : tuple of str
        Names, in the given order.
    notes : tuple of str
        Protocols that were left out, and the warnings of the evaluations.
    confidence_level : float
        Level of all intervals; the significance level of differences is one minus it.
    k : tuple of int or None
        The k of OR@k.
    settings : DataFrame
        One row per log, protocol, repeat and `Tuned` recommender: the setting chosen on the validation part,
        its validation metric with the standard error over users, the numbers of settings tried and of all
        settings, and chosen_share, how often the same setting is best when the validation users are drawn
        again.
    _comparisons_by_factor : dict
        Comparisons that were computed before.

    See Also
    --------
    study : Run the study.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from ipseval import baselines, simulation
    >>> from ipseval.studies.protocols import grid, study
    >>> log = simulation.World(n_users=200, n_items=60, mean_relevant=12, rng=0).observe(rng=1)
    >>> protocols = grid(order=["random"], holdout=["ratio", "leave-one-out"], k_core=[2])
    >>> models = {"popular": baselines.popularity, "kNN": baselines.item_knn, "EASE": baselines.ease}
    >>> with TemporaryDirectory() as folder:
    ...     result = study(
    ...         models, {"simulated": log}, protocols, path=folder, metrics=["recall@10"], estimators=["aoa"]
    ...     )
    >>> result.levels("split")
    ['RO_RS', 'RO_LS']
    >>> result.frame[["split", "model", "metric", "estimate"]].round(2)
       split    model     metric  estimate
    0  RO_RS  popular  recall@10      0.85
    1  RO_RS      kNN  recall@10      0.75
    2  RO_RS     EASE  recall@10      0.70
    3  RO_LS  popular  recall@10      0.74
    4  RO_LS      kNN  recall@10      0.53
    5  RO_LS     EASE  recall@10      0.55
    """

    frame: pd.DataFrame
    results: tuple[ProtocolResult, ...]
    models: tuple[str, ...]
    notes: tuple[str, ...] = ()
    confidence_level: float = 0.95
    k: tuple[int, ...] | None = None
    settings: pd.DataFrame = field(default_factory=pd.DataFrame)
    _comparisons_by_factor: dict[str, list[ProtocolComparison]] = field(default_factory=dict)

    def _printed_tables(self) -> Tables:
        """Return the headline and the remarks, without the tables of all protocols."""
        return Tables(self._build_headline(), (), remarks=self._build_remarks(), hint=EXPLAIN_HINT)

    def _build_headline(self) -> tuple[str, ...]:
        """Return the sizes of the study in one line."""
        n_settings = len({result.setting for result in self.results})
        items = [
            format_count(len(self.models), "recommender"),
            format_count(len(self.levels("log")), "log"),
            format_count(n_settings, "setting"),
            f"metrics {', '.join(self.metrics)}",
        ]
        return (" · ".join(items),)

    def _build_remarks(self) -> tuple[Remark, ...]:
        """Return the verdict and the notes."""
        comparisons = {}
        for factor in FACTORS:
            comparisons[NAMES[factor]] = self.comparisons(factor)

        return summarize_comparisons(comparisons, self.notes, 1 - self.confidence_level)

    @property
    def metrics(self) -> list[str]:
        """Labels of the metrics, in the given order."""
        return list(dict.fromkeys(result.metric for result in self.results))

    def levels(self, factor: str) -> list[str]:
        """Return the levels of a factor, in the order in which they first occur.

        Parameters
        ----------
        factor : {"split", "k_core", "candidates", "estimator", "log"}
            Factor in which settings differ.

        Returns
        -------
        list of str
            Labels of the levels.
        """
        check_choice("factor", factor, FACTORS)
        return list(dict.fromkeys(get_level(result.setting, factor) for result in self.results))

    def comparisons(
        self, factor: str, *, metric: str | None = None, reference: str | None = None
    ) -> list[ProtocolComparison]:
        """Return every comparison of two results that differ in one factor only.

        Parameters
        ----------
        factor : {"split", "k_core", "candidates", "estimator", "log"}
            An estimator with γ is a level of its own for each γ: ``"snips (γ = 1)"``.
        metric : str, optional
            Label of one metric. Default: all.
        reference : str, optional
            Compare with this level only. Default: every pair of levels.

        Returns
        -------
        list of ProtocolComparison
            One comparison per pair of results.

        Raises
        ------
        UnknownNameError
            For a factor, metric or level that the study does not have.
        """
        levels = self.levels(factor)
        if metric is not None:
            metric = resolve_choice("metric", metric, self.metrics)
        if reference is not None:
            check_choice("reference", reference, levels)
        if factor not in self._comparisons_by_factor:
            self._comparisons_by_factor[factor] = compare_results(self.results, self.models, factor, self.k)
        comparisons = []
        for comparison in self._comparisons_by_factor[factor]:
            if metric is not None and comparison.metric != metric:
                continue
            if reference is None or comparison.level_a == reference:
                comparisons.append(comparison)
            elif comparison.level_b == reference:
                comparisons.append(comparison.swap())
        return comparisons

    def compare_levels(
        self, factor: str, *, metric: str | None = None, reference: str | None = None
    ) -> pd.DataFrame:
        """Return the agreement of every comparison as a tidy frame.

        Parameters
        ----------
        factor : {"split", "k_core", "candidates", "estimator", "log"}
            Factor in which the settings differ.
        metric : str, optional
            Label of one metric. Default: all.
        reference : str, optional
            Compare with this level only. Default: every pair of levels.

        Returns
        -------
        DataFrame
            Columns: the two levels, the other factors, metric; or@k, src, ipc, tau_b, each with its interval
            (`_low`, `_high`); n_beyond: number of pairs of models that swap beyond their uncertainty
            (Gail–Simon test, Holm over pairs of models); swaps: these pairs; note.

        Notes
        -----
        The intervals are of the agreement of the true values, over users. The noise of the estimates makes two
        rankings less alike than they truly are. So a measured value can lie outside its interval, and with
        much noise the interval contains nearly all values.

        References
        ----------
        Gail and Simon, "Testing for qualitative interactions between treatment effects and patient subsets",
        Biometrics 41 (1985), https://doi.org/10.2307/2530862
        """
        rows = []
        for comparison in self.comparisons(factor, metric=metric, reference=reference):
            inversions = comparison.beyond_uncertainty(1 - self.confidence_level)
            row: dict[str, object] = {**_list_levels(comparison)}
            agreement = comparison.with_intervals(self.confidence_level)
            if agreement is not None:
                row.update(agreement.to_dict())
            row["n_beyond"] = len(inversions)
            row["swaps"] = "; ".join(_describe_swap(inversion) for inversion in inversions)
            row["note"] = comparison.note
            rows.append(row)
        return pd.DataFrame(rows)

    def table(
        self,
        factor: str,
        *,
        metric: str | None = None,
        reference: str | None = None,
    ) -> pd.DataFrame:
        """Return the agreement averaged over logs, as in Tables 1 and 2 of Zhao et al. (CIKM 2020).

        Parameters
        ----------
        factor : {"split", "k_core", "candidates", "estimator"}
            Factor in which the settings differ.
        metric : str, optional
            Label of one metric. Default: all.
        reference : str, optional
            Compare with this level only. Default: every pair of levels.

        Returns
        -------
        DataFrame
            One row per pair of levels, other factors and metric. n_beyond counts the pairs of models that
            swap beyond their uncertainty, summed over logs; n_logs the logs with defined estimates. Intervals
            are over the users of these logs.
        """
        if factor == "log":
            raise InputError(
                "a table averages over logs; for the agreement between logs use compare_levels or matrix."
            )
        groups: dict[tuple[str, ...], list[ProtocolComparison]] = {}
        for comparison in self.comparisons(factor, metric=metric, reference=reference):
            levels = _list_levels(comparison, with_log=False)
            groups.setdefault(tuple(levels.values()), []).append(comparison)
        alpha = 1 - self.confidence_level
        rows = []
        for group in groups.values():
            row: dict[str, object] = {**_list_levels(group[0], with_log=False)}
            mean = average_comparisons(group, self.confidence_level)
            if mean is not None:
                row.update(mean.to_dict())
            row["n_beyond"] = sum(len(comparison.beyond_uncertainty(alpha)) for comparison in group)
            row["n_logs"] = sum(comparison.agreement is not None for comparison in group)
            rows.append(row)
        return pd.DataFrame(rows)

    def matrix(self, factor: str, measure: str = "src", *, metric: str | None = None) -> pd.DataFrame:
        """Return a square frame of one measure between the levels of a factor, for a heat map.

        Parameters
        ----------
        factor : {"split", "k_core", "candidates", "estimator", "log"}
        measure : str, default "src"
            "src", "tau_b", "ipc" or "or@k".
        metric : str, optional
            Label of one metric. Default: all.

        Returns
        -------
        DataFrame
            Each entry is the mean over all comparisons of the two levels (logs, other factors, and metrics
            unless one is named); the diagonal is full agreement.

        Raises
        ------
        UnknownNameError
            For an unknown factor, metric or measure.
        """
        values_of_levels: dict[tuple[str, str], list[float]] = {}
        for comparison in self.comparisons(factor, metric=metric):
            if comparison.agreement is not None:
                check_choice("measure", measure, comparison.agreement.values)
                levels = (comparison.level_a, comparison.level_b)
                values_of_levels.setdefault(levels, []).append(comparison.agreement.values[measure])
        names = self.levels(factor)
        matrix = pd.DataFrame(np.nan, index=names, columns=names)
        for name in names:
            matrix.loc[name, name] = FALLING.get(measure, 1.0)
        for (level_a, level_b), values in values_of_levels.items():
            mean = pd.Series(values).mean()
            matrix.loc[level_a, level_b] = mean
            matrix.loc[level_b, level_a] = mean
        return matrix

    def blocks(self, factor: str = "log", measure: str = "src", *, metric: str | None = None) -> Blocks:
        """Return the blocks of similar levels, by clustering `matrix`.

        Parameters
        ----------
        factor : {"split", "k_core", "candidates", "estimator", "log"}, default "log"
            Factor in which the settings differ.
        measure : str, default "src"
            "src", "tau_b" or "or@k"; not "ipc".
        metric : str, optional
            Label of one metric. Default: all.

        Returns
        -------
        Blocks
            Order of the levels, label of each block and silhouette.

        Raises
        ------
        InputError
            For undefined entries, and for "ipc", which falls with agreement.
        """
        if measure in FALLING:
            raise InputError(
                "measure must rise with agreement: src, tau_b or or@k; ipc falls with agreement."
            )
        return blocks(self.matrix(factor, measure, metric=metric).to_numpy())

    def winners(self, *, metric: str | None = None) -> pd.DataFrame:
        """Return the recommender that ranks first under each setting, and its share of the repeats.

        Parameters
        ----------
        metric : str, optional
            Label of one metric. Default: all.

        Returns
        -------
        DataFrame
            Columns: log, split, k_core, candidates, estimator, gamma, metric; winner (by the mean over
            repeats); share_first, the share of the repeats in which it ranks first (ties count in parts);
            n_first, the number of recommenders that rank first in some repeat; margin, its mean lead over the
            runner-up; n_repeats.
        """
        if metric is not None:
            metric = resolve_choice("metric", metric, self.metrics)
        results = []
        for result in self.results:
            if metric in (None, result.metric):
                results.append(result)

        return tabulate_winners(results, self.models)

    def plot(  # type: ignore[override]  # of a factor
        self, factor: str, measure: str = "src", *, metric: str | None = None, ax: Axes | None = None
    ) -> Axes:
        """Plot the heat map of `matrix`, for "split", "log" or another factor, in its blocks.

        Parameters
        ----------
        factor : {"split", "k_core", "candidates", "estimator", "log"}
            Factor in which the settings differ.
        measure : str, default "src"
            "src", "tau_b" or "or@k"; not "ipc".
        metric : str, optional
            Label of one metric. Default: all.
        ax : matplotlib axes, optional
            Axes to draw on.

        Returns
        -------
        matplotlib axes
            Axes with the plot, for further changes.

        Raises
        ------
        InputError
            For "ipc", which is neither a share nor a correlation.
        """
        from ipseval.reporting.plots import plot_agreement

        if measure in FALLING:
            raise InputError("a heat map shows measures up to 1: src, tau_b or or@k; ipc counts pairs.")
        matrix = self.matrix(factor, measure, metric=metric)
        ends: list[int] = []
        if matrix.notna().to_numpy().all():
            matrix_blocks = blocks(matrix.to_numpy())
            matrix = matrix.iloc[matrix_blocks.order, matrix_blocks.order]
            ends = matrix_blocks.ends
        return plot_agreement(matrix, value=measure, ends=ends, ax=ax)

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: tables, differences beyond their uncertainty, and notes.

        Parameters
        ----------
        digits : int, default 2
            Number of decimal places.
        page : bool, default False
            Not used: pages have the same content.

        Returns
        -------
        Tables
            The tables of the agreement for each factor, the differences and the notes.
        """
        comparisons_by_factor = {}
        for factor in FACTORS:
            comparisons = self.comparisons(factor, reference=_choose_reference(self, factor))
            if comparisons:
                comparisons_by_factor[factor] = comparisons
        parts: list[Part] = list(_describe_study(self))
        for factor in comparisons_by_factor:  # logs come last
            if factor == "log":
                parts.extend(_build_matrix_section(self, digits))
            else:
                parts.extend(_build_table_section(self, factor, digits))
        parts.extend(build_verdict_section(comparisons_by_factor, NAMES, 1 - self.confidence_level))
        parts.append(Heading("Notes"))
        parts.append(Notes(_list_study_notes(self)))
        summary = (*self._build_headline(), *self._build_remarks()[0].lines)
        return Tables(summary, tuple(parts), title="Protocol study")

    def to_folder(self, path: str | os.PathLike[str]) -> list[Path]:
        """Write report.md, estimates.csv and one agreement_<factor>.csv per factor.

        Parameters
        ----------
        path : str or path
            Folder, created if needed.

        Returns
        -------
        list of Path
            The files.
        """
        folder = Path(path)
        texts = {"report.md": self.to_markdown(), "estimates.csv": format_csv(self.frame)}
        for factor in FACTORS:
            frame = self.compare_levels(factor)
            if len(frame):
                texts[f"agreement_{factor}.csv"] = format_csv(frame)
        paths: list[Path] = []
        for name, text in texts.items():
            paths.append(write_text(folder / name, text))

        return paths


def _list_levels(comparison: ProtocolComparison, *, with_log: bool = True) -> dict[str, str]:
    """Return the columns with the levels of all factors and the metric of a comparison."""
    factor = comparison.factor
    row = {f"{factor}_a": comparison.level_a, f"{factor}_b": comparison.level_b}
    row.update(comparison.other_levels())
    if not with_log:
        row.pop("log", None)
    row["metric"] = comparison.metric
    return row


def _describe_swap(inversion: Inversion) -> str:
    """Return the change of order of two models as text."""
    return (
        f"{inversion.better_in_a} > {inversion.better_in_b} becomes "
        f"{inversion.better_in_b} > {inversion.better_in_a}"
    )


def _describe_study(study: ProtocolStudy) -> tuple[str, ...]:
    """Return the sentences that explain the sizes, abbreviations and measures of a report."""
    counts = []
    for factor in FACTORS:
        levels = study.levels(factor)
        counts.append(f"{len(levels)} {NAMES[factor]} ({', '.join(levels)})")
    n_pairs = len(study.models) * (len(study.models) - 1) // 2
    return (
        f"{format_count(len(study.models), 'recommender')} ({', '.join(study.models)}); {', '.join(counts)}; "
        f"metrics {', '.join(study.metrics)}.",
        LEGEND,
        "or@k is the share of the top k in common, src Spearman's correlation, tau_b Kendall's. ipc is the "
        f"number of inverted pairs of recommenders, of {n_pairs}. n_beyond counts, over all logs, the pairs "
        "that swap beyond their uncertainty.",
        f"Brackets contain {study.confidence_level:.0%} intervals of the agreement of the true values, over the "
        "users of these logs. Noise makes the rankings of the estimates less alike than the true ones, so that "
        "a value can lie outside its interval.",
        "Tables show the first level of each factor that they do not compare. agreement_*.csv have all "
        "levels.",
    )


def _choose_reference(study: ProtocolStudy, factor: str) -> str | None:
    """Return the reference level of tables: the full catalogue, the first estimator; else None, all pairs."""
    if factor not in ("candidates", "estimator"):
        return None
    levels = study.levels(factor)
    return "full" if "full" in levels else levels[0]


def _build_table_section(study: ProtocolStudy, factor: str, digits: int) -> list[Part]:
    """Return one table per metric, with every split, and the first level of the other factors."""
    fixed_levels = {}
    for name in ("k_core", "candidates", "estimator"):
        if name != factor:
            fixed_levels[name] = study.levels(name)[0]
    parts: list[Part] = [Heading(f"Between {NAMES[factor]} ({', '.join(fixed_levels.values())})")]
    for metric in study.metrics:
        table = study.table(factor, metric=metric, reference=_choose_reference(study, factor))
        for name, level in fixed_levels.items():
            table = table[table[name] == level]
        table = table.drop(columns=["metric", *fixed_levels])
        if "split" in table and table["split"].nunique() == 1:
            table = table.drop(columns="split")
        parts.append(Heading(metric, 3))
        parts.append(Table.from_frame(table, formats=f".{digits}f", n_keys=2))
    return parts


def _build_matrix_section(study: ProtocolStudy, digits: int) -> list[Part]:
    """Return the agreement between logs, one matrix per metric."""
    parts: list[Part] = [Heading("Between logs: mean src over all settings")]
    for metric in study.metrics:
        matrix = study.matrix("log", "src", metric=metric).reset_index(names="log")
        parts.append(Heading(metric, 3))
        parts.append(Table.from_frame(matrix, formats=f".{digits}f"))
    return parts


def _list_study_notes(study: ProtocolStudy) -> tuple[str, ...]:
    """Return the notes of the study, with the limits of its conclusions."""
    notes = list(study.notes)
    logs_by_split: dict[str, dict[str, None]] = {}
    for result in study.results:
        if any(note.code == "identical_to_aoa" for note in result.notes):
            logs_by_split.setdefault(result.setting.split, {})[result.setting.log] = None
    if logs_by_split:
        split_texts = []
        for split, logs in logs_by_split.items():
            split_texts.append(f"{split} ({', '.join(logs)})")

        subjects = "; ".join(split_texts)
        notes.insert(
            0,
            f"Every user has one positive under {subjects}: there per-user snips equals aoa for every γ, "
            "whatever the propensity. Their agreement is not evidence about the weights; snips-global does "
            "use the weights.",
        )
    notes.append(
        "Intervals and tests are over users of the recommenders as trained. Another training set or seed "
        "adds to the uncertainty; std_repeats in estimates.csv shows it for repeated splits."
    )
    return tuple(dict.fromkeys(notes))
