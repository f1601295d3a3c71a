"""The difference of two evaluations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import pandas as pd

from ipseval.errors import InputError
from ipseval.estimators import Estimate, UserSums
from ipseval.estimators.labels import display_names
from ipseval.inference.comparisons import adjust_p_values, compute_paired_test
from ipseval.inference.intervals import Key, compute_normal_interval
from ipseval.reporting import Tables
from ipseval.reporting.formatting import (
    LEVEL,
    count_decimals,
    format_fixed,
    format_level,
    format_p_value,
    format_signed,
    join_names,
)
from ipseval.reporting.results import Result
from ipseval.reporting.tables import Cell, Heading, Part, Remark, Table
from ipseval.utils.checks import format_count
from ipseval.utils.notes import join_notes
from ipseval.utils.types import AnyArray

KEY_COLUMNS = ("model", "metric", "estimator")
TEST_COLUMNS = ("difference", "std_error", "ci_low", "ci_high", "p_value")


class _ComparedEvaluation(Protocol):
    """The parts of an `Evaluation` that a difference reads; the class itself imports this module."""

    @property
    def models(self) -> list[str]: ...

    @property
    def estimates(self) -> dict[Key, Estimate]: ...

    @property
    def user_ids(self) -> AnyArray: ...

    @property
    def confidence_level(self) -> float: ...

    @property
    def _record(self) -> dict[str, object]: ...

    @property
    def _hash(self) -> str | None: ...


@dataclass(frozen=True, eq=False, repr=False)
class EvaluationDiff(Result):
    """The changes of estimates from an old evaluation to a new one.

    Attributes
    ----------
    frame : DataFrame
        model, metric, estimator; old and new estimate, difference = new − old with std_error, ci_low, ci_high
        and p_value; p_adjusted by Holm over all rows; paired (True: from the differences of users; False:
        from the two standard errors as if independent, because the users differ); note (why the estimates
        are unreliable, else ""). NaN where an estimate is undefined.
    changed : DataFrame
        what, old, new: versions, options and hashes that differ.
    only_new, only_old : tuple of str
        Recommenders that only one of the two evaluations has.
    same_data : bool
        Whether both evaluations use the same held-out positives.
    confidence_level : float
        Confidence level of the intervals in `frame`.
    """

    frame: pd.DataFrame
    changed: pd.DataFrame
    only_new: tuple[str, ...]
    only_old: tuple[str, ...]
    same_data: bool
    confidence_level: float
    _weighted: tuple[str, ...] = field(default=(), metadata={"stored": True})  # labels of estimators

    @classmethod
    def from_evaluations(
        cls, new: _ComparedEvaluation, old: _ComparedEvaluation, models: Mapping[str, str] | None
    ) -> EvaluationDiff:
        """Return the differences of the estimates that two evaluations share.

        Parameters
        ----------
        new, old : Evaluation
        models : mapping or None
            Name in `new` -> name in `old`; None: recommenders of the same name.

        Raises
        ------
        InputError
            When they have no recommender, or no metric and estimator, in common.
        """
        old_names = _match_models(new, old, models)
        frame = _compare_estimates(new, old, old_names)
        old_models = set(old_names.values())
        weighted: dict[str, None] = {}
        for estimate in new.estimates.values():
            if estimate.weighted:
                weighted[estimate.estimator] = None
        compared_names = {*old_names, *old_models}
        only_new = _list_missing(new.models, old.models, compared_names)
        only_old = _list_missing(old.models, new.models, compared_names)

        return cls(
            frame=frame,
            changed=tabulate_changes(new._record, old._record),
            only_new=tuple(only_new),
            only_old=tuple(only_old),
            same_data=new._hash is not None and new._hash == old._hash,
            confidence_level=new.confidence_level,
            _weighted=tuple(weighted),
        )

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        """Return the report: the significant changes, a table per metric, and the changed options.

        Parameters
        ----------
        digits : int, default 2
            Significant digits of the standard errors.
        page : bool, default False
            Whether the report is a page, which has a title.

        Returns
        -------
        Tables
        """
        parts: list[Part] = []
        for metric, rows in self.frame.groupby("metric", sort=False):
            parts.append(_build_old_new_table(str(metric), rows, self._names, digits))
        if len(self.changed):
            parts.append(Heading("What else changed"))
            parts.append(Table.from_frame(self.changed, "Versions, options and data"))
        title = ""
        if page:
            title = "Difference of two evaluations"
        n_estimates = format_count(len(self.frame), "estimate")
        return Tables(
            (f"{n_estimates} in both, new minus old, {format_level(self.confidence_level)} intervals",),
            tuple(parts),
            title=title,
            warnings=tuple(self._write_warnings()),
            remarks=(Remark("Verdict", self._write_conclusion()),),
        )

    @property
    def _names(self) -> dict[str, str]:
        """Estimator label -> its name in tables and sentences."""
        return display_names(list(self.frame["estimator"].unique()))

    def _write_conclusion(self) -> tuple[str, ...]:
        """Return which estimates changed significantly, and the correction of their p-values."""
        frame = self.frame
        if (frame["difference"] == 0).all():
            return ("Nothing changed: every estimate is the same.",)
        sentences = []
        propensity = self.changed[self.changed["what"] == "propensity"]
        if len(propensity):
            sentences.append(
                f"The propensity changed from {propensity['old'].item()} to {propensity['new'].item()}, so "
                "weighted estimates are of another quantity, and their differences are not tested."
            )
            frame = frame[~frame["estimator"].isin(self._weighted)]
            if not len(frame):
                return tuple(sentences)
        sentences += _describe_significant_changes(frame, self._names)
        correction = f"Holm's correction is over all {len(frame):,} differences, p < {LEVEL:g}."
        return (" ".join(sentences), correction)

    def _write_warnings(self) -> list[str]:
        """Return why differences may not be comparable, and the recommenders that were not compared."""
        lines = []
        if not self.same_data:
            lines.append("The held-out positives are not the same, so differences are of data as well.")
        if not self.frame["paired"].all():
            lines.append("The users are not the same, so standard errors are those of independent samples.")
        unreliable = self.frame[self.frame["note"] != ""]
        if len(unreliable):
            reason = unreliable["note"].iloc[0]
            names = join_names(_describe_estimates(unreliable, self._names))
            lines.append(f"Unreliable: {names}. {reason[:1].upper()}{reason[1:]}.")
        if self.only_new:
            lines.append(f"Only in the new evaluation: {join_names(self.only_new)}.")
        if self.only_old:
            lines.append(f"Only in the old evaluation: {join_names(self.only_old)}.")
        return lines


def _match_models(
    new: _ComparedEvaluation, old: _ComparedEvaluation, models: Mapping[str, str] | None
) -> dict[str, str]:
    """Return name in `new` -> name in `old`; raise an error for unknown names, and for none in common."""
    if models is None:
        old_names = {}
        for model in new.models:
            if model in old.models:
                old_names[model] = model

    else:
        old_names = dict(models)
    unknown = []
    for model in old_names:
        if model not in new.models:
            unknown.append(model)

    for model in old_names.values():
        if model not in old.models:
            unknown.append(model)

    if old_names and not unknown:
        return old_names
    problem = "in common"
    if unknown:
        problem = ", ".join(map(repr, unknown))
    raise InputError(
        f"no recommender {problem}; the new evaluation has {', '.join(new.models)}, the old one "
        f"{', '.join(old.models)}. Pass models={{new name: old name}}."
    )


def _list_missing(models: Sequence[str], other_models: Sequence[str], compared_names: Set[str]) -> list[str]:
    """Return the models that the other evaluation lacks and that are not compared under another name."""
    missing = []
    for model in models:
        if model not in other_models and model not in compared_names:
            missing.append(model)
    return missing


def _compare_estimates(
    new: _ComparedEvaluation, old: _ComparedEvaluation, old_names: Mapping[str, str]
) -> pd.DataFrame:
    """Return one row for each estimate that both evaluations have; `old_names`: name in new -> in old."""
    is_paired = _have_same_users(new, old)
    has_other_weights = new._record.get("propensity") != old._record.get("propensity")
    rows = []
    for key, estimate in new.estimates.items():
        model, metric, estimator = key
        if model not in old_names:
            continue
        old_key = (old_names[model], metric, estimator)
        if old_key not in old.estimates:
            continue
        row = compute_difference(
            estimate, old.estimates[old_key], is_paired=is_paired, level=new.confidence_level
        )
        if has_other_weights and estimate.weighted:
            row["p_value"] = np.nan  # the two estimates are of different quantities
        rows.append(dict(zip(KEY_COLUMNS, key, strict=True)) | row)
    if not rows:
        raise InputError("the two evaluations have no metric and estimator in common.")
    frame = pd.DataFrame(rows)
    position = list(frame.columns).index("p_value") + 1
    frame.insert(position, "p_adjusted", adjust_p_values(frame, "holm", []))
    return frame


def _have_same_users(new: _ComparedEvaluation, old: _ComparedEvaluation) -> bool:
    """Return whether the users of two evaluations can be paired.

    Moments that were merged on a cluster cannot be paired with the users of another evaluation.
    """
    estimates = [*new.estimates.values(), *old.estimates.values()]
    have_user_sums = all(isinstance(estimate.sums, UserSums) for estimate in estimates)
    return have_user_sums and np.array_equal(new.user_ids, old.user_ids)


def compute_difference(new: Estimate, old: Estimate, *, is_paired: bool, level: float) -> dict[str, object]:
    """Return old, new and their difference, with its standard error, interval, p-value and note."""
    test = _test_old_new_difference(new, old, is_paired=is_paired, level=level)
    note = join_notes(*new.reliability_notes, *old.reliability_notes)
    return {"old": old.value, "new": new.value, **test, "paired": is_paired, "note": note}


def _test_old_new_difference(
    new: Estimate, old: Estimate, *, is_paired: bool, level: float
) -> dict[str, object]:
    """Return the test columns: from the differences of the users, or as of independent samples."""
    if not is_paired:
        return _test_independent(new, old, level)
    test, _ = compute_paired_test(new, old, confidence_level=level)
    return {name: float(test[name]) for name in TEST_COLUMNS}


def _test_independent(new: Estimate, old: Estimate, level: float) -> dict[str, object]:
    """Return the test columns from the standard errors of two independent estimates."""
    difference = new.value - old.value
    error = float(np.hypot(new.standard_error, old.standard_error))
    low, high = compute_normal_interval(difference, error, confidence_level=level)
    p_value = np.nan
    if error > 0:
        p_value = math.erfc(abs(difference) / error / math.sqrt(2))
    values = (difference, error, float(low), float(high), p_value)
    return dict(zip(TEST_COLUMNS, values, strict=True))


def tabulate_changes(new: Mapping[str, object], old: Mapping[str, object]) -> pd.DataFrame:
    """Return a table of the options that differ between two evaluations."""
    rows = []
    for name in dict.fromkeys([*old, *new]):
        old_value = old.get(name)
        new_value = new.get(name)
        if old_value != new_value:
            rows.append((name, str(old_value), str(new_value)))
    return pd.DataFrame(rows, columns=["what", "old", "new"])


def _describe_significant_changes(frame: pd.DataFrame, names: Mapping[str, str]) -> list[str]:
    """Return a sentence for the estimates that rose, for those that fell, and for unreliable ones."""
    is_unreliable = frame["note"] != ""
    significant = frame[(frame["p_adjusted"] < LEVEL) & ~is_unreliable]
    directions = {
        "higher": significant[significant["difference"] > 0],
        "lower": significant[significant["difference"] < 0],
    }
    sentences = []
    for direction, rows in directions.items():
        if len(rows):
            verb = "are"
            if len(rows) == 1:
                verb = "is"
            sentences.append(
                f"{len(rows):,} of {len(frame):,} estimates {verb} significantly {direction}: "
                f"{join_names(_describe_estimates(rows, names))}."
            )
    if not sentences and is_unreliable.any():
        sentences.append("No change of a reliable estimate is statistically significant.")
    elif not sentences:
        sentences.append("No change is statistically significant.")
    if is_unreliable.any():
        sentences.append("Unreliable estimates support no conclusion.")
    return sentences


def _describe_estimates(rows: pd.DataFrame, names: Mapping[str, str]) -> list[str]:
    """Return the recommender, metric and estimator of each row as text."""
    keys = zip(rows["model"], rows["metric"], rows["estimator"], strict=True)
    return [f"{model} ({metric} by {names[estimator]})" for model, metric, estimator in keys]


def _build_old_new_table(metric: str, rows: pd.DataFrame, names: Mapping[str, str], digits: int) -> Table:
    """Return the table of one metric: old, new and difference by each estimator."""
    models = list(dict.fromkeys(rows["model"]))
    header = ["recommender"]
    cells_by_model: dict[str, list[Cell]] = {}
    for model in models:
        cells_by_model[model] = [Cell(model)]

    for estimator, estimator_rows in rows.groupby("estimator", sort=False):
        header += [f"{names[str(estimator)]}: old", "new", "difference"]
        for row in estimator_rows.to_dict("records"):
            cells_by_model[row["model"]] += build_difference_cells(row, digits)
    body = tuple(tuple(cells) for cells in cells_by_model.values())
    return Table(tuple(header), body, metric, signed=True, metric=metric)


def build_difference_cells(row: Mapping[Any, Any], digits: int) -> tuple[Cell, Cell, Cell]:
    """Return the cells old, new and difference; an unreliable difference has no interval and no p-value."""
    places = count_decimals([row["std_error"]], digits)
    difference = row["difference"]
    low = row["ci_low"]
    high = row["ci_high"]
    p_value = row["p_adjusted"]
    flag = row["note"]

    text = "undefined"
    if difference == 0:
        text = "0"
    elif not np.isnan(difference):
        text = format_signed(difference, places)

    test = ""
    is_tested = difference != 0 and not np.isnan(p_value)
    if is_tested and not flag:
        test = f"[{format_signed(low, places)}, {format_signed(high, places)}] {format_p_value(p_value)}"

    bounds = (low, difference, high)
    if flag:
        bounds = (np.nan, difference, np.nan)
    is_significant = p_value < LEVEL and not flag
    cell = Cell(text, test, strong=is_significant, flag=flag, at=bounds)
    return (
        Cell(_format_number_or_undefined(row["old"], places)),
        Cell(_format_number_or_undefined(row["new"], places)),
        cell,
    )


def _format_number_or_undefined(value: float, places: int) -> str:
    if np.isnan(value):
        return "undefined"
    return format_fixed(value, places)
