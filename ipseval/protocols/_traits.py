"""Traits of logs, and how far agreement follows them from log to log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
from scipy.special import stdtr, stdtrit
from scipy.stats import rankdata

from ipseval._checks import check_choice, check_fraction, examples
from ipseval._keys import distinct
from ipseval._types import FloatArray
from ipseval.errors import InputError
from ipseval.interactions import Interactions, check_interactions

TRAITS = ("n_users", "n_items", "n_pairs", "density", "gini", "drift", "repeat_rate", "median_profile")


def log_traits(logs: Mapping[str, Interactions]) -> pd.DataFrame:
    """Return the traits of each log, one row per log, indexed by name.

    n_users, n_items : with interactions.
    n_pairs : interactions.
    density : n_pairs / (n_users · n_items).
    gini : Gini coefficient of the interactions per item, 0 (all items alike) to 1.
    drift : 1 − Spearman's correlation of the items' interactions before and from the median time on, over
        items with any; 0: popularity stays. NaN without timestamps.
    repeat_rate : share of the rows read that repeated an earlier user–item pair.
    median_profile : median interactions of a user.

    Raises
    ------
    InputError
        For what is no log.

    Examples
    --------
    >>> frame = pd.DataFrame({"user": [0, 0, 1, 1], "item": [0, 1, 0, 2], "time": [1, 2, 3, 4]})
    >>> found = log_traits({"a": Interactions.from_frame(frame, timestamp="time")}).loc["a"]
    >>> found["density"].round(3), found["median_profile"], found["gini"].round(3)
    (np.float64(0.667), np.float64(2.0), np.float64(0.167))
    """
    rows = {}
    for name, log in logs.items():
        check_interactions(log, f"log {name!r}")
        users, items = log.activity[log.activity > 0], log.popularity[log.popularity > 0]
        if not users.size:
            raise InputError(f"log {name!r} has no interactions.")
        n_rows = len(log) + log.n_duplicates_dropped
        n_pairs = distinct(log.pair_key).size
        rows[name] = {
            "n_users": float(users.size),
            "n_items": float(items.size),
            "n_pairs": float(len(log)),
            "density": n_pairs / (users.size * items.size),
            "gini": gini(items.astype(np.float64)),
            "drift": _drift(log),
            "repeat_rate": (n_rows - n_pairs) / n_rows,
            "median_profile": float(np.median(users)),
        }
    return pd.DataFrame.from_dict(rows, orient="index", columns=list(TRAITS))


def gini(counts: FloatArray) -> float:
    """Return the Gini coefficient, Σ_i (2i − n − 1) x_(i) / (n Σ x), x ascending.

    Examples
    --------
    >>> gini(np.array([1.0, 1.0])), gini(np.array([0.0, 0.0, 0.0, 8.0]))
    (0.0, 0.75)
    """
    n = counts.size
    return float(((2 * np.arange(1, n + 1) - n - 1) * np.sort(counts)).sum() / (n * counts.sum()))


def _drift(log: Interactions) -> float:
    if log.timestamp is None:
        return np.nan
    late = log.timestamp >= np.median(log.timestamp)
    known = log.popularity > 0
    early, later = (log.select(part).popularity[known] for part in (~late, late))
    ranks = [rankdata(part) - (known.sum() + 1) / 2 for part in (early, later)]
    scale = np.sqrt((ranks[0] ** 2).sum() * (ranks[1] ** 2).sum())
    return float(1 - (ranks[0] * ranks[1]).sum() / scale) if scale else np.nan


def regress_on_traits(
    agreement: Any,
    traits: pd.DataFrame,
    *,
    columns: Iterable[str] | None = None,
    logs: Iterable[str] = ("n_users", "n_items", "n_pairs", "density", "median_profile"),
    joint: bool = False,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Return how agreement changes from log to log with their traits: slopes by least squares.

    Traits are standardised over the logs, so that a slope is the change of agreement per standard deviation
    of the trait. Standard errors are HC3 (they hold when the noise differs between logs), intervals and
    p-values from Student's t with n − p degrees of freedom. A slope is an association between these logs, not
    an effect: traits of few logs go together.

    Parameters
    ----------
    agreement : mapping or Series
        Log → a measure of agreement, such as a column of `ProtocolStudy.between`. Undefined ones are left
        out.
    traits : DataFrame
        One row per log, indexed by name: `log_traits`.
    columns : names, optional
        Which traits. Default: all that differ between the logs and are known for all.
    logs : names
        Traits that enter by their logarithm (they must be > 0).
    joint : bool
        All traits in one regression, which needs more logs than traits + 1; otherwise one at a time.
    confidence_level : float

    Returns
    -------
    DataFrame
        trait, slope, std_error, ci_low, ci_high, p_value, r_squared, n_logs.

    Raises
    ------
    InputError
        For fewer than four logs, unknown traits, or more traits than the logs can tell apart.

    References
    ----------
    MacKinnon and White, Some heteroskedasticity-consistent covariance matrix estimators, J. Econometrics 29
    (1985), doi 10.1016/0304-4076(85)90158-7
    """
    from statsmodels.regression.linear_model import OLS
    from statsmodels.tools import add_constant

    level = check_fraction("confidence_level", confidence_level)
    if not hasattr(agreement, "items"):
        raise InputError("agreement must map the name of each log to a number.")
    try:
        values = pd.Series({name: float(one) for name, one in agreement.items()}, dtype=np.float64).dropna()
    except (TypeError, ValueError):
        raise InputError("agreement must map the name of each log to a number.") from None
    missing = [name for name in values.index if name not in traits.index]
    if missing:
        raise InputError(f"traits has no row for {examples(missing)}; make it with log_traits(logs).")
    if len(values) < 4:
        raise InputError(f"a slope needs at least four logs with defined agreement; got {len(values)}.")
    table = _standardised(traits.loc[values.index], columns, set(logs))
    if joint and table.shape[1] + 2 > len(values):
        raise InputError(
            f"{table.shape[1]} traits need more than {len(values)} logs in one regression; choose columns=, "
            "or joint=False."
        )
    groups = [list(table)] if joint else [[name] for name in table]
    rows = []
    for names in groups:
        # Least squares; the response is not scaled: slopes are in units of the measure.
        fit = OLS(values.to_numpy(), add_constant(table[names].to_numpy())).fit(cov_type="HC3")
        reach = stdtrit(fit.df_resid, (1 + level) / 2) * fit.bse
        p_values = 2 * stdtr(fit.df_resid, -np.abs(fit.tvalues))
        for place, name in enumerate(names, start=1):
            slope, error = float(fit.params[place]), float(fit.bse[place])
            bounds = (slope - float(reach[place]), slope + float(reach[place]))
            rows.append((name, slope, error, *bounds, float(p_values[place]), fit.rsquared, len(values)))
    header = ["trait", "slope", "std_error", "ci_low", "ci_high", "p_value", "r_squared", "n_logs"]
    return pd.DataFrame(rows, columns=header)


def _standardised(traits: pd.DataFrame, columns: Iterable[str] | None, logs: set[str]) -> pd.DataFrame:
    """Return the traits in standard deviations from their mean, those of `logs` on a logarithmic scale."""
    names = list(map(str, traits)) if columns is None else list(columns)
    for name in names:
        check_choice("trait", name, list(map(str, traits)))
    table = pd.DataFrame(index=traits.index)
    for name in names:
        one = traits[name].astype(np.float64)
        if name in logs:
            if not (one > 0).all():
                raise InputError(f"trait {name!r} enters by its logarithm and must be > 0.")
            one = pd.Series(np.log(one), index=one.index)
        spread = float(one.std(ddof=1))
        if one.notna().all() and spread > 0:
            table[name] = (one - one.mean()) / spread
        elif columns is not None:
            raise InputError(f"trait {name!r} is unknown for a log, or the same for all; leave it out.")
    if table.empty:
        raise InputError("no trait is known for all logs and differs between them.")
    return table
