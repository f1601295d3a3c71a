"""Propensities for a validation, calibrated on users other than the users that they weight."""

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
from ipseval.utils.checks import describe_type, warn_user
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray, IntArray

# Propensities of the whole log that change the relative weights of held-out positives by less than 10% are
# close enough to the propensities of the held-out part; no warning is needed.
MIN_RELATIVE_WEIGHT = 0.9


@public_class
@dataclass(frozen=True, eq=False)
class Calibration:
    """Data that a propensity may be fitted to: no random exposure of the users that it will weight.

    Parameters
    ----------
    train : Interactions
        Training positives of all users.
    held_out : Interactions
        Held-out positives of the calibration users.
    exposure : RandomExposure
        Random exposure of the calibration users, without their training pairs.
    models : mapping of name to scorer
        The recommenders that are evaluated.
    _cache : dict
        Results of `compute_once` by their keys, which all folds share.

    See Also
    --------
    validate : Calls propensity functions with a calibration for each fold of users.

    Examples
    --------
    A function fits the propensity to the random exposure of each calibration, and `validate` calls it:

    >>> from ipseval import baselines, propensity, simulation, validate
    >>> def fit_direct(calibration):
    ...     log_propensity = propensity.DirectPropensity(calibration.exposure).fit(calibration.train)
    ...     return log_propensity.held_out(test_fraction=0.2, popularity_source="train")
    >>> world = simulation.World(n_users=300, n_items=60, mean_relevant=12, rng=0)
    >>> validation = validate(
    ...     {"popular": baselines.popularity, "kNN": baselines.item_knn},
    ...     world.study(rng=2),
    ...     propensities={"direct": fit_direct},
    ...     metrics=["recall@5"],
    ...     n_resamples=100,
    ...     rng=0,
    ... )
    >>> validation.summary.loc[2:, ["propensity", "estimator", "mae_aoa", "mae", "reduction"]].round(2)
      propensity     estimator  mae_aoa   mae  reduction
    2     direct  snips-global     0.27  0.01       0.95
    3     direct  snips-pooled     0.27  0.01       0.97
    """

    train: Interactions
    held_out: Interactions
    exposure: RandomExposure
    models: Mapping[str, Any]
    _cache: dict[Hashable, Any] = field(default_factory=dict, repr=False)

    def compute_once(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return `make()`, called once for all folds of users.

        Use it for computations that do not depend on the random exposure.

        Parameters
        ----------
        key : hashable
            Name of the result.
        make : callable
            Function without arguments that computes the result.

        Returns
        -------
        object
            The result of the first call.
        """
        if key not in self._cache:
            self._cache[key] = make()
        return self._cache[key]


PropensityRule = Callable[[Calibration], Propensity]


def resolve_propensity(
    name: str,
    rule: object,
    split: Split,
    exposure: RandomExposure,
    models: Mapping[str, object],
    fold: IntArray,
) -> Propensity:
    """Return the propensity of held-out positives, by fold (n_users,) where a function calibrates it.

    A Propensity is used as it is. A density ratio, which keeps users apart itself, is given the held-out
    positives and the exposure. Any other model is fitted to the training positives. A function
    `Calibration` -> Propensity is called once per fold of users, with the other users to calibrate on. A
    model that contains an exposure is refused, because the users of this exposure would be evaluated with
    weights that were fitted to them.
    """
    if isinstance(rule, Propensity):
        return rule
    if isinstance(rule, DensityRatioPropensity):
        return _with_default_data(rule, split, exposure).fit(split.train)
    if hasattr(rule, "fit"):
        if getattr(rule, "exposure", None) is not None:
            raise InputError(
                f"propensity {name!r} contains an exposure, so its users would be weighted by a fit to "
                "themselves. Pass a function: lambda calibration: Model(exposure=calibration.exposure).fit("
                "calibration.train)."
            )
        fitted: Propensity = rule.fit(split.train)
        return fitted
    if callable(rule):
        return _calibrate_by_fold(
            name=name, rule=rule, split=split, exposure=exposure, models=models, fold=fold
        )
    raise InputError(
        f"propensity {name!r} is {describe_type(rule)}; expected a Propensity, a model with fit(train), or "
        "a function Calibration -> Propensity."
    )


def _with_default_data(
    rule: DensityRatioPropensity, split: Split, exposure: RandomExposure
) -> DensityRatioPropensity:
    """Return a density ratio with held-out positives and exposure, unless it has its own."""
    defaults: dict[str, Any] = {}
    if rule.biased is None:
        defaults["biased"] = split.test
    if rule.exposure is None:
        defaults["exposure"] = exposure
    return replace(rule, **defaults)


def warn_if_log_propensity(propensity: Propensity, split: Split) -> None:
    """Warn of probabilities of the whole log where probabilities of its held-out part are needed."""
    if not propensity.is_probability:
        return
    if any(step.name == "held_out" for step in propensity.steps):
        return
    share = len(split.test) / (len(split.test) + len(split.train))
    relative_weights = 1 - (1 - share) * propensity.for_pairs(split.test.user, split.test.item)
    smallest = np.nanmin(relative_weights, initial=1)
    largest = np.nanmax(relative_weights, initial=0)
    if smallest < MIN_RELATIVE_WEIGHT * largest:
        warn_user(
            "held-out positives are weighted by probabilities of the log, and large ones differ: pass "
            f'propensity.held_out(test_fraction={share:.2g}, popularity_source="log").',
            DataWarning,
        )


def with_seeds(rules: Mapping[str, object], rng: np.random.Generator) -> dict[str, object]:
    """Return the rules by name; a density ratio without a seed draws from `rng`."""
    seeded_rules: dict[str, object] = {}
    for name, rule in rules.items():
        if isinstance(rule, DensityRatioPropensity) and rule.rng is None:
            rule = replace(rule, rng=rng)
        seeded_rules[name] = rule
    return seeded_rules


def _calibrate_by_fold(
    name: str,
    rule: PropensityRule,
    split: Split,
    exposure: RandomExposure,
    models: Mapping[str, object],
    fold: IntArray,
) -> Propensity:
    """Return the propensities of pairs, each calibrated on the users of the other folds."""
    test = split.test
    values = np.full(len(test), np.nan)
    propensities = []
    cache: dict[Hashable, object] = {}
    for number in np.unique(fold):
        is_weighted = fold[test.user] == number
        calibration = Calibration(
            train=split.train,
            held_out=test.select(~is_weighted),
            exposure=exposure.select(fold[exposure.user] != number),
            models=dict(models),
            _cache=cache,
        )
        propensity = rule(calibration)
        if not isinstance(propensity, Propensity):
            raise InputError(
                f"the function of propensity {name!r} returned {describe_type(propensity)}; expected a Propensity."
            )
        propensities.append(propensity)
        values[is_weighted] = _normalize_scale(propensity, test.user[is_weighted], test.item[is_weighted])
    if _have_equal_items(propensities):
        return propensities[0]
    known = np.flatnonzero(~np.isnan(values))
    order = known[np.argsort(test.pair_key[known])]
    return Propensity(
        item=None,
        is_probability=all(propensity.is_probability for propensity in propensities),
        model=propensities[0].model,
        n_items=split.n_items,
        pair=values[order],
        pair_key=test.pair_key[order],
        fit=tuple(propensity.fit for propensity in propensities),
        steps=propensities[0].steps,
    )


def _have_equal_items(propensities: list[Propensity]) -> bool:
    """Return whether all are propensities of items, with the same values."""
    first = propensities[0].item
    if first is None:
        return False
    for propensity in propensities:
        if propensity.item is None or not np.array_equal(propensity.item, first, equal_nan=True):
            return False
    return True


def _normalize_scale(propensity: Propensity, user: IntArray, item: IntArray) -> FloatArray:
    """Return P of some pairs; relative propensities are scaled so that users' mean weights average to 1.

    Constant factors of relative propensities differ between folds, and a fold with a large factor would
    otherwise count more.
    """
    values = propensity.for_pairs(user, item)
    known = ~np.isnan(values)
    if propensity.is_probability or not known.any():
        return values
    weight_sums = np.bincount(user[known], 1 / values[known])
    counts = np.bincount(user[known])
    has_positives = counts > 0
    mean_weight = float(np.mean(weight_sums[has_positives] / counts[has_positives]))
    return values * mean_weight
