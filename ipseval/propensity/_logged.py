"""Checks of logged propensities against what was shown."""

from __future__ import annotations

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval._base.checks import check_fraction, check_type
from ipseval._base.types import FloatArray, IntArray
from ipseval.data._exposure_log import ExposureLog
from ipseval.errors import PropensityError

COLUMNS = ["check", "position", "item", "value", "expected", "std_error", "z", "passes"]


def check_logged(log: ExposureLog, *, significance: float = 0.01) -> pd.DataFrame:
    """Return checks of a log's propensities against what it shows, one row for each check.

    With p the propensity of each of T impressions at a position, and a policy that gives every item shown
    there a chance each time:

    * "sum": the mean of 1/p over the impressions is the number of items, as chances sum to 1;
    * "item": the mean of 1/p over all T, counting the impressions of one item, is 1;
    * "smallest propensity", and "largest weights": the share of all weight Σ1/p that the largest tenth of a
      percent of impressions carries.

    The first two hold in expectation for right propensities; z is the distance in standard errors, which
    treat slates as independent. `passes` is whether |z| stays below the normal quantile of `significance`,
    divided by the number of items in the row's position for "item" rows; missing where nothing is tested.

    Parameters
    ----------
    log : ExposureLog
        With propensities of showing the item at its position, given the slate's context.
    significance : float
        In (0, 1).

    Returns
    -------
    DataFrame
        Columns check, position (0: the log has none), item (id, or missing), value, expected, std_error, z,
        passes.

    Raises
    ------
    PropensityError
        For a log without propensities.
    """
    check_type("log", log, ExposureLog)
    check_fraction("significance", significance)
    if log.propensity is None:
        raise PropensityError("the log has no propensities; name their column with propensity=.")
    position = np.zeros(len(log), dtype=np.int64) if log.position is None else log.position
    rows: list[tuple[object, ...]] = []
    for place in np.unique(position):
        at = position == place
        rows += _checks_at(int(place), log.item[at], 1 / log.propensity[at], log, significance)
    return pd.DataFrame(rows, columns=COLUMNS).astype({"passes": "boolean"})


def _checks_at(
    place: int, item: IntArray, weight: FloatArray, log: ExposureLog, significance: float
) -> list[tuple[object, ...]]:
    """Return the rows of one position."""
    present, code = np.unique(item, return_inverse=True)
    n = weight.size
    by_item = np.bincount(code, weight) / n
    error = np.sqrt(np.maximum(np.bincount(code, weight**2) / n - by_item**2, 0) / n)
    total = float(weight.mean())
    total_error = float(weight.std() / np.sqrt(n))
    rows = [_row("sum", place, None, total, float(present.size), total_error, significance)]
    for one, value, se in zip(present, by_item, error, strict=True):
        level = significance / present.size
        rows.append(_row("item", place, log.item_ids[one], float(value), 1.0, float(se), level))
    largest = np.sort(weight)[-max(1, round(n / 1000)) :]
    nothing = (float("nan"),) * 3
    rows.append(("smallest propensity", place, None, float(1 / weight.max()), *nothing, None))
    rows.append(
        ("share of largest weights", place, None, float(largest.sum() / weight.sum()), *nothing, None)
    )
    return rows


def _row(
    check: str, place: int, item: object, value: float, expected: float, error: float, level: float
) -> tuple[object, ...]:
    # Equal weights have no spread: what is left of it is rounding.
    off = abs(value - expected)
    exact = error <= 1e-9 * expected
    z = (0.0 if off <= 1e-6 * expected else np.inf) if exact else (value - expected) / error
    return check, place, item, value, expected, error, z, bool(abs(z) <= ndtri(1 - level / 2))
