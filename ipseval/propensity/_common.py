"""What every propensity model shares: ids, and checks of values."""

from __future__ import annotations

from typing import Any

import narwhals as nw
import numpy as np

from ipseval._base.checks import check_choice, check_real, warn_user
from ipseval._base.types import FloatArray
from ipseval.data._interactions import check_interactions
from ipseval.errors import DataWarning, PropensityError


def as_frame(values: Any) -> Any | None:
    """Return a data frame for any engine's, None for what is none."""
    try:
        table: Any = nw.from_native(values)
        return table.collect() if isinstance(table, nw.LazyFrame) else table
    except (TypeError, nw.exceptions.NarwhalsError):  # such as columns of one name
        return None


def check_shrinkage(value: object) -> None:
    """Raise `InputError` unless this is "fit" or a number > 0."""
    if isinstance(value, str):
        check_choice("shrinkage", value, ("fit",))
    else:
        check_real("shrinkage", value, low=0.0)


def check_range(values: FloatArray, *, is_probability: bool) -> None:
    """Raise `PropensityError`, with the count, unless all are in (0, 1] or, up to a factor, in (0, ∞)."""
    bad = ~((values > 0) & ((values <= 1) if is_probability else np.isfinite(values)))
    if bad.any():
        n_bad, interval = int(bad.sum()), "(0, 1]" if is_probability else "(0, inf)"
        only_zeros = not values[bad].any()
        detail = f"{n_bad} are 0" if only_zeros else f"{n_bad} are not (e.g. {values[bad][0]:g})"
        raise PropensityError(
            f"propensity must be in {interval}; of {values.size:,} values {detail}. An item that can never "
            "be observed cannot be weighted: give it a positive propensity, or NaN to leave its positives "
            "out."
        )
    with np.errstate(over="ignore"):
        n_infinite = int(np.isinf(1 / values).sum())
    if n_infinite:
        raise PropensityError(
            f"propensity is too small: the weight 1/P is infinite for {n_infinite:,} of {values.size:,} "
            f"values (smallest: {values.min():g}). Give larger values; up to a factor, multiply all by one "
            "number."
        )


def check_same_ids(exposure: Any, train: Any) -> FloatArray:
    """Return n* of `train` after a check that the exposure has its id space."""
    check_interactions(train, "train", "split.train")
    exposure.check_ids(train, "training log")
    return np.asarray(train.popularity, dtype=np.float64)


def refuse_unseen(counts: FloatArray, unseen: str, ways: str) -> None:
    """Raise `PropensityError` for items without training interactions under `unseen="raise"`."""
    n_unseen = int((counts == 0).sum())
    if n_unseen and unseen == "raise":
        raise PropensityError(
            f"{n_unseen} of {counts.size} items have no training interaction, so P = 0. Use {ways}."
        )


def cap(item: FloatArray) -> tuple[FloatArray, int]:
    """Return propensities with values above 1 set to 1, after a warning, and their number."""
    n_above = int((item > 1).sum())
    if n_above:
        warn_user(
            f"{n_above} of {item.size} items came out with a propensity above 1 (at most "
            f"{np.nanmax(item):.3g}) and were set to 1: n* exceeds the users who seem to like the item.",
            DataWarning,
        )
    return np.minimum(item, 1.0), n_above
