"""Checks and repairs of the columns of an impression log."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ipseval.data._audit import Audit, ColumnProblem
from ipseval.errors import InputError, Problem, PropensityError
from ipseval.utils.checks import check_choice, format_examples
from ipseval.utils.types import AnyArray, BoolArray, IntArray

SUM_TOLERANCE = 1e-3  # logs store propensities in single precision or rounded
IMPRESSION_COLUMNS = ("user", "item", "clicked", "timestamp", "position", "propensity", "query")
# Two rows with equal values in these columns are copies of one impression.
KEY_COLUMNS = ("user", "item", "timestamp", "position", "query")

Columns = dict[str, AnyArray]


def check_options(**options: str) -> None:
    """Raise `UnknownNameError` unless each option is "raise" or its alternative ("keep" or "drop")."""
    for name, value in options.items():
        alternative = "keep" if name == "gaps" else "drop"
        check_choice(name, value, ("raise", alternative))


def clean_impressions(
    columns: Columns, audit: Audit, *, duplicates: str, gaps: str, unshown_clicks: str
) -> Columns:
    """Return the impressions that remain after all repairs; add problems and counts to `audit`."""
    shown_columns = _drop_unshown(columns, unshown_clicks, audit)
    merged_columns = _merge_repeated_impressions(shown_columns, duplicates, audit)
    _check_position_gaps(merged_columns, gaps, audit)
    check_positions_and_propensities(merged_columns, audit)
    return merged_columns


def check_positions_and_propensities(columns: Columns, audit: Audit) -> None:
    """Add the problems of positions and propensities; replace the positions by whole numbers."""
    if "position" in columns:
        columns["position"] = _to_positions(columns["position"], audit)
        if "query" in columns:
            _check_distinct_positions(columns, audit)
    if "propensity" in columns:
        _check_propensities(columns["propensity"], audit)


def raise_impression_problems(problems: list[Problem]) -> None:
    """Raise one error for all problems: `PropensityError` if all are problems of propensities."""
    if not problems:
        return
    introduction = ""
    if len(problems) > 1:
        introduction = f"the log has {len(problems)} problems. "
    text = introduction + " ".join(problem.to_text() for problem in problems)
    if all(_concerns_propensity(problem) for problem in problems):
        raise PropensityError(text)
    raise InputError(text)


def _concerns_propensity(problem: Problem) -> bool:
    """Return whether a problem is a problem of the column of propensities."""
    return isinstance(problem, ColumnProblem) and problem.role == "propensity"


def select_rows(columns: Columns, keep: BoolArray) -> Columns:
    """Return the rows of a mask; the arrays of ids stay complete."""
    selected = {}
    for name, values in columns.items():
        selected[name] = values if name.endswith("_ids") else values[keep]
    return selected


def format_first_pair(columns: Columns, mask: BoolArray) -> str:
    """Return the ids of user and item in the first row of a mask as text."""
    row = int(mask.argmax())
    user = columns["user_ids"][columns["user"][row]]
    item = columns["item_ids"][columns["item"][row]]
    return format_examples((user, item))


def _drop_unshown(columns: Columns, unshown_clicks: str, audit: Audit) -> Columns:
    """Return the rows that were shown, after the checks that need the rows that were not."""
    columns = dict(columns)
    shown = columns.pop("shown", None)
    if shown is None:
        return columns
    if "query" in columns and "propensity" in columns and not shown.all():
        _check_propensity_sums(columns, shown, audit)
    clicks_unshown = columns["clicked"] & ~shown
    n_clicks_unshown = int(clicks_unshown.sum())
    if n_clicks_unshown and unshown_clicks == "raise":
        n_clicks = int(columns["clicked"].sum())
        audit.add_problem(
            f"{n_clicks_unshown} of {n_clicks} clicks are on rows that were not shown",
            "Mark these rows as shown, or pass {unshown_clicks=drop} to leave them out",
        )
    n_unclicked = int((~shown & ~clicks_unshown).sum())
    audit.add_count("clicks without an impression, left out", n_clicks_unshown, shown.size)
    audit.add_count("candidates that were not shown, left out", n_unclicked, shown.size)
    return select_rows(columns, shown)


def _check_propensity_sums(columns: Columns, is_shown: BoolArray, audit: Audit) -> None:
    """Add a problem where the propensities of a slate do not sum to its number of rows shown."""
    n_slates = columns["query_ids"].size
    totals = np.bincount(columns["query"], columns["propensity"], minlength=n_slates)
    n_shown = np.bincount(columns["query"], is_shown, minlength=n_slates)
    is_wrong = np.abs(totals - n_shown) > SUM_TOLERANCE * np.maximum(n_shown, 1)
    if not is_wrong.any():
        return
    slate = int(np.flatnonzero(is_wrong)[0])
    audit.add_problem(
        f"the propensities of {int(is_wrong.sum())} of {n_slates} slates do not sum to their number of "
        f"rows shown (slate {columns['query_ids'][slate]}: sum {totals[slate]:.4g}, shown "
        f"{n_shown[slate]:.0f})",
        "List all candidates of a slate with their probability of being shown",
        role="propensity",
    )


def _merge_repeated_impressions(columns: Columns, duplicates: str, audit: Audit) -> Columns:
    """Merge impressions that are logged more than once; a copy is clicked if any of them is."""
    # Without a time or a slate, two equal rows may be two impressions, so that nothing is merged.
    if "query" not in columns and "timestamp" not in columns:
        return columns
    key_names = []
    for name in KEY_COLUMNS:
        if name in columns:
            key_names.append(name)

    keys = pd.DataFrame({name: columns[name] for name in key_names})
    is_repeat = keys.duplicated().to_numpy()
    if not is_repeat.any():
        return columns
    n_repeats = int(is_repeat.sum())
    if duplicates == "raise":
        audit.add_problem(
            f"{n_repeats} of {is_repeat.size} rows repeat an impression of the same user, item, time, "
            f"position and slate (first: {format_first_pair(columns, is_repeat)})",
            "Pass {duplicates=drop} to keep one row of each",
            role=_first_present(columns, ("position", "query")),
        )
    audit.add_count("repeated impressions, merged", n_repeats, is_repeat.size)
    impression = keys.groupby(key_names, sort=False).ngroup().to_numpy()
    is_clicked = np.bincount(impression, columns["clicked"]) > 0
    return select_rows({**columns, "clicked": is_clicked[impression]}, ~is_repeat)


def _first_present(columns: Columns, roles: tuple[str, ...]) -> str:
    """Return the first of the roles that has a column; "" if none has."""
    for role in roles:
        if role in columns:
            return role
    return ""


def _check_position_gaps(columns: Columns, gaps: str, audit: Audit) -> None:
    """Add a problem or a count for slates with gaps in their positions 1, 2, 3, …."""
    if "query" not in columns or "position" not in columns:
        return
    n_slates = columns["query_ids"].size
    last_position = np.zeros(n_slates)
    np.maximum.at(last_position, columns["query"], columns["position"])
    has_gap = last_position > np.bincount(columns["query"], minlength=n_slates)
    n_with_gap = int(has_gap.sum())
    if n_with_gap and gaps == "raise":
        slate = int(np.flatnonzero(has_gap)[0])
        positions = np.sort(columns["position"][columns["query"] == slate])
        audit.add_problem(
            f"{n_with_gap} of {n_slates} slates lack positions (slate {columns['query_ids'][slate]} has "
            f"{format_examples(positions, 6)})",
            "Add the rows, or pass {gaps=keep} if only these were shown",
            role="position",
        )
    audit.add_count("slates with gaps in their positions, kept", n_with_gap, n_slates, code="number")


def _to_positions(values: AnyArray, audit: Audit) -> IntArray:
    """Return positions as whole numbers; add a problem where they are not whole numbers from 1."""
    is_numeric = values.dtype.kind in "iuf"
    is_valid = np.zeros(values.size, dtype=bool)
    if is_numeric:
        is_valid = (values >= 1) & (values == np.floor(values))
    if is_valid.all():
        return values.astype(np.int64)
    fix = "Correct them"
    if is_numeric and values.min() == 0:
        fix = "Add 1 where the first position is 0"
    n_invalid = int((~is_valid).sum())
    audit.add_problem(
        f"{n_invalid} of {values.size} positions are not whole numbers of at least 1 "
        f"(first: {format_examples(values[~is_valid][:1])})",
        fix,
        role="position",
    )
    return np.arange(1, values.size + 1)


def _check_distinct_positions(columns: Columns, audit: Audit) -> None:
    """Add a problem where two rows of a slate have the same position."""
    keys = pd.DataFrame({"query": columns["query"], "position": columns["position"]})
    is_repeat = keys.duplicated()
    if is_repeat.any():
        n_repeats = int(is_repeat.sum())
        audit.add_problem(
            f"{n_repeats} of {is_repeat.size} rows have the position of another row of their slate",
            "Each position of a slate must hold one item",
            role="position",
        )


def _check_propensities(values: AnyArray, audit: Audit) -> None:
    """Add the problems of propensities outside (0, 1]."""
    n_low = int((~(values > 0)).sum())
    n_high = int((values > 1).sum())
    if n_low:
        audit.add_problem(
            f"{n_low} of {values.size} propensities are 0, negative or missing, though these rows were shown",
            "Leave out the rows of policies whose probabilities are not known",
            role="propensity",
        )
    if n_high:
        audit.add_problem(
            f"{n_high} of {values.size} propensities are above 1 (largest: {values.max():.4g})",
            "A propensity is a probability, not an expected number of impressions. Do not leave out these "
            "rows, which are of the most-shown items. Propensities can be estimated from the impressions "
            'without this column (docs/cookbook.md, "I have impressions, and the lists of two versions"). '
            "Correct the values",
            role="propensity",
        )
