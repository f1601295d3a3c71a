"""The check of a metric of one's own: constant weights change nothing."""

from __future__ import annotations

import warnings

import numpy as np

from ipseval._base.registry import from_outside
from ipseval.errors import InputError
from ipseval.metrics._base import Metric
from ipseval.ranking import RankedPositives


def checked(metric: Metric) -> Metric:
    """Return a metric; one from outside only if weights of 1 and of 2 leave its values as they are.

    A value that grows with the weights, such as Σwc, is no average: `snips` of it would be a wrong number.
    """
    if not from_outside(metric) or metric.corrects_sampling:
        return metric
    ranked = _sample()
    ones = np.ones(len(ranked))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            plain, *weighted = (metric.user_values(ranked, one) for one in (None, ones, 2 * ones))
            wrong = [not np.allclose(one, plain, rtol=1e-9, atol=1e-12, equal_nan=True) for one in weighted]
    except Exception:  # it may read data of the real ranks, which this sample has not
        return metric
    if any(wrong):
        constant = wrong.index(True) + 1
        found, expected = (float(np.nanmean(one)) for one in (weighted[constant - 1], plain))
        raise InputError(
            f"{metric.label} changes with constant weights (on a small example {found:.4g} on average with "
            f"weights of {constant}, {expected:.4g} without); divide by the sum of the user's weights, as in "
            "Σwc/Σw."
        )
    return metric


def _sample() -> RankedPositives:
    """Return made-up ranks: three users with one, two and four positives among a hundred items, one tie."""
    return RankedPositives(
        user=np.array([0, 1, 1, 2, 2, 2, 2]),
        item=np.array([0, 0, 1, 0, 1, 2, 3]),
        n_above=np.array([0, 1, 4, 0, 2, 2, 60]),
        n_tied=np.array([0, 0, 0, 0, 1, 1, 0]),
        n_candidates=np.full(7, 100),
        user_ids=np.arange(3),
        item_ids=np.arange(100),
        gain=np.array([1.0, 2.0, 1.0, 1.0, 2.0, 1.0, 1.0]),
        candidates_by_user=np.full(3, 100),
    )
