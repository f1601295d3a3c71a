"""One report of several evaluations: who leads on which data set, and who is not told from the leader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ipseval._base.border import guard
from ipseval._base.checks import check_choice, counted
from ipseval.errors import InputError
from ipseval.evaluation._result import Evaluation
from ipseval.report import Tables
from ipseval.report._reported import Result
from ipseval.report._tables import Cell, Heading, Notes, Part, Remark, Table
from ipseval.report._words import LEVEL, decimals, fixed, listed


@dataclass(frozen=True, eq=False, repr=False)
class Leaderboard(Result):
    """Several evaluations side by side, of one metric or of all that they share.

    Attributes
    ----------
    evaluations : dict
        Name, such as that of a data set -> Evaluation.
    metrics : tuple of str
        Labels of the metrics that are shown.
    estimator : str or None
        Label; None: for each evaluation that on which its own verdict rests.
    """

    evaluations: dict[str, Evaluation]
    metrics: tuple[str, ...]
    estimator: str | None = None

    @property
    def frame(self) -> pd.DataFrame:
        """One row per metric, evaluation and recommender.

        metric, data, estimator, model, estimate, ci_low, ci_high; leads: whether it is the highest or is not
        told from it by the paired test (Holm within the evaluation), missing where nothing can be compared,
        and where average and weights contradict each other and no estimator was asked for.
        """
        parts = []
        for metric in self.metrics:
            for name, one in self.evaluations.items():
                verdict = next(each for each in one.verdicts if each.metric == metric)
                label = self.estimator or verdict.estimator
                found = one.frame
                found = found[(found["metric"] == metric) & (found["estimator"] == label)].assign(data=name)
                standing = verdict.standings[label]
                told = self.estimator is not None or verdict.reason != "contradiction"
                known = found["estimate"].notna() & (len(standing.ranked) > 1) & told
                leads = found["model"].isin(standing.leaders).astype("boolean")
                parts.append(found.assign(leads=leads.where(known)))
        columns = ["metric", "data", "estimator", "model", "estimate", "ci_low", "ci_high", "leads"]
        return pd.concat(parts, ignore_index=True)[columns]

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: a table per metric with a column per evaluation, and what leads how often."""
        frame, parts = self.frame, []
        verdict: list[str] = []
        # One data set counts once, however often it is evaluated.
        once = {
            each.data_hash if each.samples else name: name for name, each in self.evaluations.items()
        }.values()
        for metric, rows in frame.groupby("metric", sort=False):
            order = _order(rows)
            untold = self._untold(str(metric))
            if not untold or rows["leads"].notna().any():
                known = rows[rows["data"].isin(once)]
                verdict.append(_sentence(str(metric), known, order, len(self.metrics) > 1))
            verdict += untold
            parts.append(self._table(str(metric), rows, order, digits))
        unreliable = [
            f"Unreliable: {name}, {key[1]} by {key[2]}. {one.flag}."
            for name, each in self.evaluations.items()
            for key, one in each.estimates.items()
            if one.flag
            and key[1] in self.metrics
            and key[2] in set(frame.loc[frame["data"] == name, "estimator"])
        ]
        data = [counted(len(one.user_ids), "user") for one in self.evaluations.values()]
        sizes = ", ".join(f"{name} ({users})" for name, users in zip(self.evaluations, data, strict=True))
        note = Notes(
            (
                "Rows are ordered by the number of columns in which a recommender leads, then by mean rank. "
                "That order is no test.",
            )
        )
        appendix: list[Part] = []
        for name, each in self.evaluations.items() if page else ():
            whole = each.tables(digits=digits)
            said = [Notes((f"{one.name}: {' '.join(one.lines)}",)) for one in whole.verdict]
            appendix += [Heading(name), *whole.summary, *whole.parts, *said]
        return Tables(
            (f"{counted(len(self.evaluations), 'evaluation')}: {sizes}",),
            (*parts, note),
            title="Leaderboard" if page else "",
            warnings=tuple(dict.fromkeys(unreliable)),
            verdict=(Remark("Verdict", tuple(verdict)),),
            legend=(
                "Bold: highest of its column. †: the paired test tells it from the highest, with Holm's "
                f"correction over the pairs of the column, p < {LEVEL:g}. Columns without a "
                "verdict have neither.",
            ),
            appendix=tuple(appendix),
        )

    def _untold(self, metric: str) -> list[str]:
        """Return where there is no verdict by a metric, and why."""
        reasons = {
            name: next(one.reason for one in each.verdicts if one.metric == metric)
            for name, each in self.evaluations.items()
        }
        names = [name for name, reason in reasons.items() if reason == "contradiction"]
        if self.estimator is not None or not names:
            return []
        return [f"By {metric} there is no verdict on {listed(names)}: weights contradict the plain average."]

    def _table(self, metric: str, rows: pd.DataFrame, order: Sequence[str], digits: int) -> Table:
        header, columns = ["recommender"], []
        for name, part in rows.groupby("data", sort=False):
            header.append(f"{name} ({part['estimator'].iloc[0]})")
            cells = _column(part, digits)
            columns.append([cells.get(model, Cell("not evaluated")) for model in order])
        leads = rows[rows["leads"].fillna(False).astype(bool)].groupby("model").size()
        tested = rows.dropna(subset="leads").groupby("model").size()
        counts = [
            Cell(f"{leads.get(model, 0)} of {tested[model]}") if model in tested else Cell("–")
            for model in order
        ]
        body = tuple(
            (Cell(model), *(column[place] for column in columns), counts[place])
            for place, model in enumerate(order)
        )
        words = frozenset(range(len(header) + 1))
        return Table((*header, "leads"), body, metric, words=words, metric=metric)


def _order(rows: pd.DataFrame) -> list[str]:
    """Return the recommenders, those that lead most often first, then by mean rank."""
    ranks = rows.groupby("data")["estimate"].rank(ascending=False)
    means = ranks.groupby(rows["model"]).mean()
    leads = rows["leads"].fillna(False).astype(int).groupby(rows["model"]).sum()
    return sorted(
        dict.fromkeys(rows["model"]), key=lambda model: (-leads[model], means.fillna(np.inf)[model])
    )


def _sentence(metric: str, rows: pd.DataFrame, order: Sequence[str], several: bool) -> str:
    """Return who leads, or is not told from the leader, how often."""
    tested = rows.dropna(subset="leads")
    n = tested["data"].nunique()
    if not n:
        return f"By {metric} there is nothing to compare."
    leads = tested[tested["leads"].astype(bool)].groupby("model")["data"].nunique()
    first = [model for model in order if leads.get(model, 0) == leads.max()]
    by = f"By {metric}, " if several else ""
    one = len(first) == 1
    everywhere = {1: "on one data set", 2: "on both data sets"}.get(n, f"on all {n} data sets")
    times = everywhere if leads.max() == n else f"on {leads.max()} of {n} data sets"
    return (
        f"{by}{listed(first)} {'leads' if one else 'lead'} most often: highest, or not told apart from it, "
        f"{times}."
    )


def _column(part: pd.DataFrame, digits: int) -> dict[str, Cell]:
    places = decimals((part["ci_high"] - part["ci_low"]) / 2, digits)
    best = part["estimate"].max()
    cells = {}
    for row in part.to_dict("records"):
        value, low, high = row["estimate"], row["ci_low"], row["ci_high"]
        if np.isnan(value):
            cells[row["model"]] = Cell("undefined")
            continue
        bounds = "" if np.isnan(low) else f"[{fixed(low, places)}, {fixed(high, places)}]"
        known = pd.notna(row["leads"])
        told, strong = known and not row["leads"], known and value == best
        cells[row["model"]] = Cell(
            f"{value:.{places}f}", bounds, strong=strong, mark="†" if told else "", at=(low, value, high)
        )
    return cells


def report_of(
    evaluations: Mapping[str, Evaluation] | Iterable[Evaluation],
    *,
    metrics: str | Iterable[str] | None = None,
    estimator: str | None = None,
) -> Leaderboard:
    """Return one report of several evaluations, such as one per data set: who leads, and how often.

    Parameters
    ----------
    evaluations : mapping of name to Evaluation, or sequence of Evaluation
        Of a sequence the names are 1, 2, … .
    metrics : label or labels, optional
        Default: those that all evaluations have.
    estimator : label, optional
        Default: in each evaluation that on which its own verdict rests, which may differ.

    Returns
    -------
    Leaderboard
        Prints, and has `frame`, `to_html`, `to_markdown` and `to_latex`. Tests are within each evaluation;
        none is made over the evaluations, which are few and not a sample.

    Raises
    ------
    InputError
        Without evaluations, or when they share no metric.
    UnknownNameError
        For a metric or estimator that one of them lacks.
    """
    named = dict(evaluations) if isinstance(evaluations, Mapping) else None
    if named is None:
        named = {str(place): one for place, one in enumerate(evaluations, start=1)}
    if not named or not all(isinstance(one, Evaluation) for one in named.values()):
        kinds = ", ".join(sorted({type(one).__name__ for one in named.values()})) or "none"
        raise InputError(f"report_of takes evaluations, {{name: evaluation}} or a list; got {kinds}.")
    shared = [
        one for one in next(iter(named.values())).metrics if all(one in e.metrics for e in named.values())
    ]
    chosen = tuple(shared if metrics is None else [metrics] if isinstance(metrics, str) else metrics)
    if not chosen:
        raise InputError("the evaluations share no metric; evaluate them by the same metrics.")
    for one in named.values():
        for label in chosen:
            check_choice("metrics", label, one.metrics)
        if estimator is not None:
            check_choice("estimator", estimator, one.estimators)
    return Leaderboard({str(name): one for name, one in named.items()}, chosen, estimator)


guard(__name__)
