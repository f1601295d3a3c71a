"""Open Bandit, item by item: click rates under the random policy, seen there and from the other log."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ipseval import ImpressionLog
from ipseval.policies._click_rates import count_interval, difference_interval
from ipseval.validation.datasets import BanditStudy

IPS, SNIPS = "ips", "snips"
NAIVE = "naive"
RATES = ["random_rate", "random_low", "random_high", "estimate", "ci_low", "ci_high"]
COUNTS = ["n_random", "n_bts", "clicks_random", "clicks_bts"]
COLUMNS = ["campaign", "item", "estimator", *RATES, "difference_low", "difference_high", "agrees", *COUNTS]


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
    rows, logs = [], (study.random, study.bts)
    for item in [-1, *range(study.random.n_items)]:
        shown = [np.ones(len(log), dtype=bool) if item < 0 else log.item == item for log in logs]
        counts = [int(one.sum()) for one in shown]
        counts += [int(log.clicked[one].sum()) for log, one in zip(logs, shown, strict=True)]
        seen = _rate(study.random, shown[0], NAIVE, item < 0, confidence_level)
        for name in (NAIVE, IPS, SNIPS):
            own = _rate(study.bts, shown[1], name, item < 0, confidence_level)
            low, high = difference_interval(own, seen)
            agrees = None if np.isnan(low) else bool(low <= 0 <= high)
            rows.append((study.campaign, item, name, *seen, *own, low, high, agrees, *counts))
    return pd.DataFrame(rows, columns=COLUMNS).astype({"agrees": "boolean"})


def _rate(
    log: ImpressionLog, shown: np.ndarray, estimator: str, of_all: bool, confidence_level: float
) -> tuple[float, float, float]:
    """Return (estimate, low, high); NaN where the item was never shown and the estimator divides by that."""
    if not shown.any() and estimator != IPS:
        return (float("nan"),) * 3
    assert log.propensity is not None
    weights = np.ones(len(log)) if estimator == NAIVE else 1 / log.propensity
    weights = weights / (
        len(log) * (log.n_items if of_all else 1) if estimator == IPS else weights[shown].sum()
    )
    events, possible = weights[shown & log.clicked], weights[shown] if shown.any() else weights
    total, variance = float(events.sum()), float((events**2).sum())
    further = float(possible.mean()), float((possible**2).mean())
    return total, *count_interval(total, variance, *further, confidence_level=confidence_level)
