"""The error of fitted weights in every estimate: what each user of the fit moves it by."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from ipseval._base.types import FloatArray
from ipseval.estimators import Estimator, Sample
from ipseval.estimators._sums import ROUNDING
from ipseval.inference._bootstrap import Key
from ipseval.inference._linear import stacks
from ipseval.inference._refit import replicate
from ipseval.metrics import Metric
from ipseval.propensity import FitError


def drifts(
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimators: Sequence[Estimator],
    error: FitError,
) -> dict[Key, FloatArray]:
    """Return (recommender, metric, estimator) -> what each user moves the estimate by through the weights."""
    # With a_j half the difference of the estimates with weights one standard error up and down axis j of the
    # fit, user u moves the estimate by Σ_j z_uj a_j, (n_users,). It holds for every estimator, by two
    # estimates for each axis. Estimators without weights have none. A difference that rounding makes is 0.
    weighted = [one for one in estimators if one.weighted]
    if not weighted:
        return {}
    first = next(iter(samples.values()))
    assert first.propensity is not None
    change = error.change(first.ranked.user, first.ranked.item)
    parts, ones = stacks(samples, metrics), np.ones(first.ranked.unit_ids.size)
    moved: dict[Key, list[float]] = {}
    for column in change.T:
        ends = []
        for sign in (1, -1):
            values = first.propensity * np.exp(sign * column)
            now = {name: one.under(values, one.is_probability) for name, one in samples.items()}
            ends.append(replicate(now, metrics, weighted, parts, ones))
        for key, up in ends[0].items():
            down = ends[1][key]
            same = abs(up - down) <= ROUNDING * max(abs(up), abs(down))
            moved.setdefault(key, []).append(0.0 if same else (up - down) / 2)
    return {key: np.asarray(error.users @ np.array(one)) for key, one in moved.items()}
