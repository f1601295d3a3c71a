"""Propensities for a validation, calibrated on users other than those they weight."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ipseval.data.interactions import Interactions
from ipseval.data.random_exposure import RandomExposure
from ipseval.data.splits import Split
from ipseval.errors import DataWarning, InputError
from ipseval.propensity import DensityRatioPropensity, Propensity
from ipseval.utils.checks import kind_of, warn_user
from ipseval.utils.types import FloatArray, IntArray

WHOLE = 0.9  # probabilities of the log that change weights of held-out positives by less need no word


@dataclass(frozen=True, eq=False)
class Calibration:
    """What a propensity may be fitted to: everything but the random exposure of the users it will weight.

    Attributes
    ----------
    train : Interactions
        Training positives of all users.
    held_out : Interactions
        Held-out positives of the calibration users.
    exposure : RandomExposure
        Random exposure of the calibration users, without their training pairs.
    models : mapping of name to scorer
        The recommenders that are evaluated.
    """

    train: Interactions
    held_out: Interactions
    exposure: RandomExposure
    models: Mapping[str, Any]
    _made: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return `make()`, called once for all folds of users: for what no random exposure has a part in."""
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


PropensityRule = Callable[[Calibration], Propensity]


def resolve_propensity(
    name: str, rule: Any, split: Split, exposure: RandomExposure, models: Mapping[str, Any], fold: IntArray
) -> Propensity:
    """Return the propensity of held-out positives, by fold (n_users,) where a function calibrates it."""
    # A Propensity is used as it is; a density ratio, which keeps users apart itself, is given the held-out
    # positives and the exposure; any other model is fitted to the training positives; a function Calibration
    # -> Propensity is called once per fold of users, with the others to calibrate on. A model that holds an
    # exposure already is refused: its users would be evaluated with weights fitted to them.
    if isinstance(rule, Propensity):
        return rule
    if isinstance(rule, DensityRatioPropensity):
        given: dict[str, Any] = {"biased": split.test, "exposure": exposure}
        empty = {name: one for name, one in given.items() if getattr(rule, name) is None}
        return replace(rule, **empty).fit(split.train)
    if hasattr(rule, "fit"):
        if getattr(rule, "exposure", None) is not None:
            raise InputError(
                f"propensity {name!r} holds an exposure, so its users would be weighted by what was fitted "
                "to them. Pass a function: lambda calibration: Model(exposure=calibration.exposure).fit("
                "calibration.train)."
            )
        result: Propensity = rule.fit(split.train)
        return result
    if callable(rule):
        return _by_fold(name, rule, split, exposure, models, fold)
    raise InputError(
        f"propensity {name!r} is {kind_of(rule)}; expected a Propensity, a model with fit(train), or "
        "a function Calibration -> Propensity."
    )


def warn_of_whole_log(propensity: Propensity, split: Split) -> None:
    """Warn of probabilities that are those of the log and not of its held-out part, where weights differ."""
    if not propensity.is_probability or any(step.name == "held_out" for step in propensity.steps):
        return
    share = len(split.test) / (len(split.test) + len(split.train))
    left = 1 - (1 - share) * propensity.at(split.test.user, split.test.item)
    if np.nanmin(left, initial=1) < WHOLE * np.nanmax(left, initial=0):
        warn_user(
            "held-out positives are weighted by probabilities of the log, and large ones differ: pass "
            f'propensity.held_out(test_fraction={share:.2g}, counted_on="log").',
            DataWarning,
        )


def seeded(rules: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Return the rules by name; a density ratio without a seed of its own draws from `rng`."""
    return {
        name: replace(rule, rng=rng)
        if isinstance(rule, DensityRatioPropensity) and rule.rng is None
        else rule
        for name, rule in rules.items()
    }


def _by_fold(
    name: str,
    rule: PropensityRule,
    split: Split,
    exposure: RandomExposure,
    models: Mapping[str, Any],
    fold: IntArray,
) -> Propensity:
    """Return pair propensities put together from one calibration per fold of users."""
    test = split.test
    values, parts = np.full(len(test), np.nan), []
    made: dict[Hashable, Any] = {}
    for number in np.unique(fold):
        others, own = fold != number, fold[test.user] == number
        seen = test.select(~own), exposure.select(others[exposure.user])
        part = rule(Calibration(split.train, *seen, dict(models), made))
        if not isinstance(part, Propensity):
            raise InputError(
                f"the function of propensity {name!r} returned {kind_of(part)}; expected a Propensity."
            )
        parts.append(part)
        values[own] = _on_common_scale(part, test.user[own], test.item[own])
    items = [part.item for part in parts if part.item is not None]
    if len(items) == len(parts) and all(np.array_equal(one, items[0], equal_nan=True) for one in items):
        return parts[0]
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(test.pair_key[known])]
    return Propensity(
        None,
        all(part.is_probability for part in parts),
        parts[0].model,
        split.n_items,
        pair=values[order],
        pair_key=test.pair_key[order],
        fit=tuple(part.fit for part in parts),
        steps=parts[0].steps,
    )


def _on_common_scale(part: Propensity, user: IntArray, item: IntArray) -> FloatArray:
    """Return P of some pairs; without a scale of its own, such that users' mean weights average to 1."""
    # Factors differ from fold to fold; without this a fold with a large one would count more.
    values = part.at(user, item)
    known = ~np.isnan(values)
    if part.is_probability or not known.any():
        return values
    per_user = np.bincount(user[known], 1 / values[known])
    counts = np.bincount(user[known])
    mean_weight = float(np.mean(per_user[counts > 0] / counts[counts > 0]))
    return values * mean_weight
