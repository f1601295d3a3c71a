"""What the driver decides once, before the workers start."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from ipseval._checks import check_choice, check_fraction
from ipseval._requests import requested_estimators, requested_metrics
from ipseval._types import AnyArray, IntArray, TieChoice
from ipseval.distributed._partition import Factors, NRelevant, Plan
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import ESTIMATORS, Estimator
from ipseval.metrics import Metric
from ipseval.propensity import Propensity, parse_propensity


def make_plan(
    items: AnyArray,
    popularity: IntArray,
    *,
    propensity: Any,
    metrics: Iterable[str | Metric],
    estimators: Iterable[str | Estimator] | None,
    ties: TieChoice,
    n_relevant: NRelevant,
    confidence_level: float,
    per_user: bool,
) -> Plan:
    """Return the plan, with the propensity fitted to the counts of all training interactions."""
    check_fraction("confidence_level", confidence_level)
    check_choice("ties", ties, ("default", "mean", "min", "max", "expected"))
    if isinstance(n_relevant, str):
        check_choice("n_relevant", n_relevant, ("estimated",))
    fitted = _fitted(propensity, popularity)
    chosen = requested_estimators(estimators, fitted)
    others = [one.label for one in chosen if not one.separable]
    if others:
        raise InputError(
            f"{', '.join(others)} read all users at once and cannot be computed in partitions; "
            f"use {', '.join(one.label for one in ESTIMATORS.values() if one.separable)}."
        )
    return Plan(
        items,
        tuple(requested_metrics(metrics)),
        tuple(chosen),
        fitted,
        ties,
        n_relevant,
        per_user,
    )


def _fitted(propensity: Any, popularity: IntArray) -> Propensity | None:
    if propensity is None:
        return None
    if isinstance(propensity, str):
        propensity = parse_propensity(propensity)
    if not isinstance(propensity, Propensity):
        try:
            propensity = propensity.fit(popularity=popularity)
        except (TypeError, AttributeError):
            raise PropensityError(
                f"{type(propensity).__name__} cannot be fitted to item counts alone; fit it first and pass "
                "the Propensity."
            ) from None
    fitted: Propensity = propensity
    if fitted.item is None:
        raise PropensityError("a propensity per user-item pair is not supported here; use one per item.")
    return fitted


def universe(ids: Any) -> AnyArray:
    """Return distinct ids, sorted, as `Split.from_frames` orders them."""
    array = np.asarray(ids)
    return np.sort(array.astype(object) if array.dtype.kind in "US" else array)


def popularity_of(items: AnyArray, counted: AnyArray, counts: AnyArray) -> IntArray:
    """Return the counts in the order of `items`, 0 for an item that was not counted."""
    import pandas as pd

    place = pd.Index(items).get_indexer(pd.Index(counted))
    if (place < 0).any():
        raise InputError(f"{int((place < 0).sum())} items of the training data are not in the given items.")
    popularity = np.zeros(len(items), dtype=np.int64)
    popularity[place] = counts
    return popularity


def split_models(models: Any, users: Any | None, n_items: int) -> tuple[dict[str, Any], dict[str, Factors]]:
    """Return the models given as frames and those given as factors."""
    if not isinstance(models, dict) or not models:
        raise InputError(f'models must be a non-empty dict {{"name": lists}}; got {type(models).__name__}.')
    frames, factors = {}, {}
    for name, model in models.items():
        if not isinstance(model, tuple):
            frames[name] = model
            continue
        if users is None:
            raise InputError(f"{name} is given by factors; pass users=, the ids of their rows.")
        user_factors, item_factors, *rest = model
        if len(user_factors) != len(users) or len(item_factors) != n_items:
            raise InputError(
                f"{name} has factors of {len(user_factors)} users and {len(item_factors)} items; expected "
                f"{len(users)} as in users= and {n_items} as in items=."
            )
        factors[name] = Factors(np.asarray(users), user_factors, item_factors, rest[0] if rest else None)
    return frames, factors
