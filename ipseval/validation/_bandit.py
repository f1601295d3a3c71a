"""Click rates of items under a random policy, estimated from the log of another policy."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ipseval._checks import check_choice, check_fraction
from ipseval._types import BoolArray, FloatArray
from ipseval.datasets import BanditLog, BanditStudy
from ipseval.estimators import IPS, SNIPS
from ipseval.validation._rates import difference_interval, weighted_rate_interval

BANDIT_ESTIMATORS = ("naive", IPS, SNIPS)


def validate_bandit(study: BanditStudy, *, confidence_level: float = 0.95) -> pd.DataFrame:
    """Return the click rate of every item under the random policy: seen there, and estimated from `bts`.

    With shown items a_t, clicks r_t and logged propensities p_t (given the position), n impressions:

    * naive: Σ 1{a_t = i} r_t / Σ 1{a_t = i}, as if the policy had shown items at random;
    * ips: (1/n) Σ 1{a_t = i} r_t / p_t, unbiased given the logged p;
    * snips: Σ 1{a_t = i} r_t/p_t / Σ 1{a_t = i}/p_t, consistent given the logged p.

    Row item = −1 is the whole uniform policy: (1/n) Σ r_t / (n_items p_t), self-normalised for snips, and the
    plain click rate of the log for naive. Clicks are rare, so intervals are those of weighted Poisson counts
    (weights taken as fixed). `difference_low`, `difference_high` are an interval for estimate minus the
    random log's rate, which holds the noise of both; `agrees` says whether it contains 0, as it must in at
    least `confidence_level` of all items when the estimator is right.

    For the whole policy the few large weights decide, and the interval is too short where they are seldom
    seen (see docs/validation.md).

    Returns
    -------
    DataFrame
        Columns campaign, item, estimator, random_rate, random_low, random_high, estimate, ci_low, ci_high,
        difference_low, difference_high, agrees, n_random, n_bts, clicks_random, clicks_bts. NaN, and agrees
        missing, for naive and snips where `bts` never showed the item.

    References
    ----------
    Saito et al., Open Bandit Dataset and Pipeline, NeurIPS 2021, arXiv 2008.07146.
    """
    check_fraction("confidence_level", confidence_level)
    rows = []
    for item in [-1, *range(study.random.n_items)]:
        seen = _rate(study.random, _shown(study.random, item), "naive", item, confidence_level)
        logs = (study.random, study.bts)
        sizes = [int(_shown(log, item).sum()) for log in logs]
        sizes += [int(log.click[_shown(log, item)].sum()) for log in logs]
        for name in BANDIT_ESTIMATORS:
            shown = _shown(study.bts, item)
            own = _rate(study.bts, shown, name, item, confidence_level)
            low, high = difference_interval(own, seen)
            agrees = None if np.isnan(low) else bool(low <= 0 <= high)
            rows.append((study.campaign, item, name, *seen, *own, low, high, agrees, *sizes))
    columns = ["campaign", "item", "estimator", "random_rate", "random_low", "random_high", "estimate"]
    columns += ["ci_low", "ci_high", "difference_low", "difference_high", "agrees"]
    columns += ["n_random", "n_bts", "clicks_random", "clicks_bts"]
    return pd.DataFrame(rows, columns=columns).astype({"agrees": "boolean"})


def _shown(log: BanditLog, item: int) -> BoolArray:
    return np.ones(len(log), dtype=bool) if item < 0 else log.item == item


def _rate(
    log: BanditLog, shown: BoolArray, estimator: str, item: int, confidence_level: float
) -> tuple[float, float, float]:
    """Return (estimate, low, high); NaN where the item was never shown and the estimator divides by that."""
    check_choice("estimator", estimator, BANDIT_ESTIMATORS)
    if not shown.any() and estimator != IPS:
        return (float("nan"),) * 3
    inverse: FloatArray = 1 / log.propensity
    if estimator == "naive":
        weights = np.full(len(log), 1 / shown.sum())
    elif estimator == IPS:
        weights = inverse / (len(log) * (log.n_items if item < 0 else 1))
    else:
        weights = inverse / inverse[shown].sum()
    events = weights[shown & log.click]
    possible = weights[shown] if shown.any() else weights
    return (
        float(events.sum()),
        *weighted_rate_interval(events, possible, confidence_level=confidence_level),
    )
