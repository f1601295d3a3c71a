"""The design of an exposure experiment: inclusion probabilities, and the answers to the allocated pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ipseval.data.interactions import Interactions
from ipseval.errors import DataWarning, InputError
from ipseval.utils.checks import check_choice, format_count, warn_user
from ipseval.utils.columns import as_frame, to_pandas_series
from ipseval.utils.types import BoolArray, FloatArray, HasIds, IntArray

PROBABILITY = "inclusion_probability"

# Columns from which the inclusion probability of an allocated pair follows.
DESIGN_COLUMNS = ("is_listed", "n_slots", "n_listed", "n_candidates", "n_draws")
ALLOCATION_COLUMNS = ("user", "item", "batch", PROBABILITY, *DESIGN_COLUMNS)

# Probabilities in files may be rounded; a relative difference below this number is rounding.
ROUNDING = 1e-4

# The inverse probabilities of the shown pairs add up to the number of candidates, up to chance. A larger
# relative difference with a larger z is no chance.
MAX_RELATIVE_GAP = 0.05
CRITICAL_Z = 4.0

READ_ALLOCATION = "Pass the allocation as plan_exposure returned it, or as `ipseval plan --design` wrote it."


def count_listed_slots(n_slots: IntArray, n_listed: IntArray) -> IntArray:
    """Return b = min(⌊m/2⌋, L): the number of slots that are drawn from the listed items."""
    return np.minimum(n_slots // 2, n_listed)


def compute_inclusion_probability(
    is_listed: BoolArray,
    *,
    n_slots: IntArray,
    n_listed: IntArray,
    n_candidates: IntArray,
    n_draws: IntArray | int = 1,
) -> FloatArray:
    """Return the probability that a pair is shown, π = 1 − (1 − π₁)^draws.

    In one draw, b of the L listed items are drawn without replacement, then a of the remaining n − b
    candidates: π₁ = b/L + (1 − b/L) · a/(n − b) for a listed item, and a/(n − b) for the remaining items.
    """
    listed_slots = count_listed_slots(n_slots, n_listed)
    remaining = n_candidates - listed_slots
    remaining_slots = np.minimum(n_slots - listed_slots, remaining)
    remaining_share = remaining_slots / np.maximum(remaining, 1)
    listed_share = listed_slots / np.maximum(n_listed, 1)
    probability = np.where(is_listed, listed_share + (1 - listed_share) * remaining_share, remaining_share)
    # The power of an array differs from the product in the last digit, which one draw does not need.
    repeated = 1 - (1 - probability) ** np.asarray(n_draws)
    return np.asarray(np.where(np.asarray(n_draws) == 1, probability, repeated))


@dataclass(frozen=True, eq=False, kw_only=True)
class AnsweredPairs:
    """Allocated pairs with their answers.

    Attributes
    ----------
    user, item : (n,) int arrays
    positive : (n,) float array
        1 and 0.
    probability : (n,) float array
        Inclusion probability.
    n_unanswered : int
        Users who are left out because an answer is missing.
    """

    user: IntArray
    item: IntArray
    positive: FloatArray
    probability: FloatArray
    n_unanswered: int


def read_answers(
    answers: object,
    ids: HasIds,
    *,
    names: tuple[str, str, str],
    inclusion_probability: object,
    missing: str,
) -> AnsweredPairs:
    """Return the allocated pairs with their answers, after the checks of both.

    `names` are the columns of users, items and positives in `answers`. `inclusion_probability` is the
    allocation, or the name of the column of `answers` that holds the probabilities.
    """
    check_choice("missing", missing, ("raise", "drop"))
    answer_table = _to_pandas(answers, "answers")
    user_name, item_name, positive_name = names
    _check_columns(answer_table, names, "answers")
    if isinstance(inclusion_probability, str):
        _check_columns(answer_table, (inclusion_probability,), "answers")
        allocation = answer_table.rename(
            columns={user_name: "user", item_name: "item", inclusion_probability: PROBABILITY}
        )
        pairs = _encode_pairs(allocation, ids)
        positive = _to_floats(answer_table[positive_name])
    else:
        allocation = _to_pandas(inclusion_probability, "inclusion_probability")
        _check_columns(allocation, ("user", "item", PROBABILITY), "inclusion_probability")
        pairs = _encode_pairs(allocation, ids)
        answered = answer_table.rename(columns={user_name: "user", item_name: "item"})
        answered_pairs = _encode_pairs(answered, ids)
        positive = _match_answers(pairs, answered_pairs, _to_floats(answer_table[positive_name]))
    probability = _to_floats(allocation[PROBABILITY])
    _check_range(probability)
    if set(DESIGN_COLUMNS) <= set(allocation.columns):
        _check_design(allocation, pairs, probability)
    else:
        _warn_about_totals(pairs, probability, ids)
    return _select_answered_users(pairs, positive, probability, missing)


def _to_pandas(frame: object, what: str) -> pd.DataFrame:
    """Return a data frame of any engine as one of pandas."""
    table: Any = as_frame(frame)
    if table is None:
        raise InputError(
            f"{what} must be a data frame (pandas, polars, pyarrow, …); got {type(frame).__name__}. "
            f"{READ_ALLOCATION}"
        )
    native = table.to_native()
    if isinstance(native, pd.DataFrame):
        return native.reset_index(drop=True)
    columns = {}
    for name in table.columns:
        columns[name] = to_pandas_series(table[name]).reset_index(drop=True)
    return pd.DataFrame(columns)


def _check_columns(table: pd.DataFrame, names: tuple[str, ...], what: str) -> None:
    """Raise `InputError` unless a table has the named columns."""
    for name in names:
        if name not in table.columns:
            columns = ", ".join(str(column) for column in table.columns)
            raise InputError(
                f"{what} must have a column {name!r}; got the columns {columns}. Add the column."
            )


def _to_floats(column: pd.Series) -> FloatArray:
    """Return a column of numbers or truth values, NaN where an entry is missing."""
    try:
        return np.asarray(column.astype("Float64").to_numpy(dtype=np.float64, na_value=np.nan))
    except (TypeError, ValueError):
        raise InputError(
            f"column {column.name!r} must hold numbers or truth values; got {column.iloc[0]!r}. Convert them."
        ) from None


def _encode_pairs(table: pd.DataFrame, ids: HasIds) -> Interactions:
    """Return the pairs of a table in the order of its rows, in the id space of `ids`."""
    return Interactions.from_frame(table[["user", "item"]], users=ids.user_ids, items=ids.item_ids)


def _match_answers(allocated: Interactions, answered: Interactions, positive: FloatArray) -> FloatArray:
    """Return the answer to each allocated pair, NaN where there is none."""
    rows = pd.Index(allocated.pair_key).get_indexer(pd.Index(answered.pair_key))
    is_unknown = rows < 0
    if is_unknown.any():
        first = int(np.flatnonzero(is_unknown)[0])
        user = answered.user_ids[answered.user[first]]
        item = answered.item_ids[answered.item[first]]
        raise InputError(
            f"answers must be to allocated pairs; {int(is_unknown.sum())} of {is_unknown.size} rows are not in "
            f"the allocation (e.g. user {user}, item {item}). Remove pairs that were shown for other reasons."
        )
    answers = np.full(len(allocated), np.nan)
    answers[rows] = positive
    return answers


def _check_range(probability: FloatArray) -> None:
    """Raise `InputError` unless all probabilities are in (0, 1]."""
    is_invalid = ~((probability > 0) & (probability <= 1))
    if is_invalid.any():
        raise InputError(
            f"inclusion_probability must be in (0, 1]; {int(is_invalid.sum())} of {is_invalid.size} entries are "
            f"not (e.g. {probability[is_invalid][0]:g}). {READ_ALLOCATION}"
        )


def _check_design(allocation: pd.DataFrame, pairs: Interactions, probability: FloatArray) -> None:
    """Raise `InputError` unless probabilities and numbers of rows are those of the design."""
    design = {}
    for name in DESIGN_COLUMNS:
        design[name] = _to_floats(allocation[name]).astype(np.int64)
    n_draws = design["n_draws"]
    expected = compute_inclusion_probability(
        design["is_listed"] == 1,
        n_slots=design["n_slots"],
        n_listed=design["n_listed"],
        n_candidates=design["n_candidates"],
        n_draws=n_draws,
    )
    is_wrong = np.abs(probability - expected) > ROUNDING * expected
    if is_wrong.any():
        first = int(np.flatnonzero(is_wrong)[0])
        raise InputError(
            "inclusion_probability must add up to the slots of each user; "
            f"{int(is_wrong.sum())} of {is_wrong.size} entries do not (e.g. {probability[first]:g}, where "
            f"{design['n_slots'][first]} slots, {design['n_listed'][first]} listed items and "
            f"{design['n_candidates'][first]} candidates give {expected[first]:g}). {READ_ALLOCATION}"
        )
    slots = np.minimum(design["n_slots"], design["n_candidates"])
    most = np.minimum(n_draws * slots, design["n_candidates"])
    n_rows = np.bincount(pairs.user, minlength=pairs.n_users)[pairs.user]
    is_wrong = (n_rows < slots) | (n_rows > most)
    if is_wrong.any():
        first = int(np.flatnonzero(is_wrong)[0])
        n_wrong = np.unique(pairs.user[is_wrong]).size
        raise InputError(
            f"the allocation must hold all slots of each user; {format_count(n_wrong, 'user')} have another "
            f"number of rows (e.g. user {pairs.user_ids[pairs.user[first]]}: {n_rows[first]} rows of "
            f"{slots[first]} slots). {READ_ALLOCATION}"
        )


def _warn_about_totals(pairs: Interactions, probability: FloatArray, ids: HasIds) -> None:
    """Warn if Σ 1/π over the shown pairs differs from the number of candidates by more than chance.

    The number of candidates is known where `ids` is a split.
    """
    excluded = getattr(ids, "excluded_pairs", None)
    if excluded is None:
        return
    users = np.unique(pairs.user)
    if users.size < 2:
        return
    estimated_counts = np.bincount(pairs.user, 1 / probability, pairs.n_users)[users]
    candidate_counts = pairs.n_items - np.bincount(excluded.user, minlength=pairs.n_users)[users]
    gap = estimated_counts - candidate_counts
    relative_gap = gap.mean() / candidate_counts.mean()
    standard_error = gap.std(ddof=1) / np.sqrt(users.size)
    if abs(relative_gap) > MAX_RELATIVE_GAP and abs(gap.mean()) > CRITICAL_Z * standard_error:
        warn_user(
            f"the inclusion probabilities do not add up: Σ 1/π over the shown pairs of a user is "
            f"{estimated_counts.mean():,.1f} on average, and a user has {candidate_counts.mean():,.1f} items "
            "outside training. Weighted totals are biased. Check whether the probabilities are of single pairs "
            "and whether all shown pairs are among the answers.",
            DataWarning,
        )


def _select_answered_users(
    pairs: Interactions, positive: FloatArray, probability: FloatArray, missing: str
) -> AnsweredPairs:
    """Return the pairs of the users without a missing answer, or raise `InputError` for missing answers."""
    is_missing = np.isnan(positive)
    incomplete_users = np.unique(pairs.user[is_missing])
    if is_missing.any() and missing == "raise":
        first = int(np.flatnonzero(is_missing)[0])
        raise InputError(
            f"answers must be complete; {int(is_missing.sum())} of {is_missing.size} allocated pairs of "
            f"{format_count(incomplete_users.size, 'user')} have no answer (e.g. user "
            f"{pairs.user_ids[pairs.user[first]]}, item {pairs.item_ids[pairs.item[first]]}).",
            advice="Add a row with positive = 0 for each pair that was shown and not liked, or pass "
            "{missing=drop} to leave out these users",
            shell_advice="Add a row with positive = 0 for each pair that was shown and not liked, or pass "
            "{unanswered=drop} to leave out these users",
        )
    is_kept = ~np.isin(pairs.user, incomplete_users)
    return AnsweredPairs(
        user=pairs.user[is_kept],
        item=pairs.item[is_kept],
        positive=positive[is_kept],
        probability=probability[is_kept],
        n_unanswered=int(incomplete_users.size),
    )
