"""A validation in one call: closed-form recommenders and the usual propensities on a known data set."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ipseval._base.registry import lookup
from ipseval._base.types import RngLike
from ipseval.data._interactions import Interactions
from ipseval.errors import IdentificationWarning, InputError
from ipseval.estimators._labels import SNIPS, SNIPS_GLOBAL, SNIPS_POOLED
from ipseval.metrics import Metric
from ipseval.propensity import (
    DensityRatioPropensity,
    DirectPropensity,
    PowerLawPropensity,
    Propensity,
    StratifiedPropensity,
    count_recommendations,
    fit_gamma,
    fit_gamma_from_exposure,
)
from ipseval.ranking import baselines
from ipseval.validation._calibration import Calibration
from ipseval.validation._harness import Trainer, validate
from ipseval.validation._result import Validation
from ipseval.validation.datasets import STUDIES, RandomExposureStudy

METRICS = ("atop", "recall@5", "recall@10", "recall@50", "mean_dcg", "mean_dcg@5")
GAMMAS = (-1.0, 0.0, 1.0, 1.5, 2.0, 3.0)
# Lists of these say nothing about what a logging recommender shows: one list for all, and no preference.
NOT_A_LOGGER = ("popularity", "random")


def run_validation(
    name: str,
    path: str | Path,
    *,
    models: Mapping[str, Trainer] | None = None,
    metrics: Iterable[str | Metric] = METRICS,
    estimators: Iterable[str] = (SNIPS, SNIPS_GLOBAL, SNIPS_POOLED),
    n_splits: int = 10,
    n_resamples: int = 500,
    exposure_sizes: Sequence[int] | None = None,
    n_draws: int = 20,
    rng: RngLike = None,
) -> Validation:
    """Return the validation of all usual propensities on a data set with random exposure.

    Parameters
    ----------
    name : {"coat", "yahoo-r3", "kuairec"}
    path : folder or archive
        As the loader of the data set takes it.
    models : mapping of name to trainer, optional
        Default: `default_models()`.
    exposure_sizes, n_draws
        As in `validate`: the errors when so many users have random exposure, in `.exposure_curve`.
    """
    study = lookup(STUDIES, name, "study")(path)
    return validate(
        default_models() if models is None else models,
        study,
        propensities=default_propensities(study),
        metrics=metrics,
        estimators=estimators,
        n_splits=n_splits,
        n_resamples=n_resamples,
        exposure_sizes=exposure_sizes,
        n_draws=n_draws,
        rng=rng,
    )


def default_models() -> dict[str, Trainer]:
    """Return seven trainers that need no other library: name -> function train -> scorer."""
    return {
        "popularity": baselines.popularity,
        "item-kNN": baselines.item_knn,
        "item-kNN 20": partial(baselines.item_knn, n_neighbors=20),
        "EASE": partial(baselines.ease, regularization=50.0),
        "EASE 500": partial(baselines.ease, regularization=500.0),
        "PureSVD 10": _svd(10),
        "PureSVD 50": _svd(50),
    }


def _svd(n_factors: int) -> Trainer:
    def train(log: Interactions) -> Any:
        return baselines.pure_svd(log, n_factors=min(n_factors, min(log.n_users, log.n_items) - 1))

    return train


def default_propensities(study: RandomExposureStudy) -> dict[str, Any]:
    """Return the propensities that a validation compares, as `validate` takes them.

    γ on a grid, with n* + 1 in place of n* so that every positive keeps a weight; γ calibrated on random
    exposure, on training counts and against the held-out positives; γ from the recommenders' lists; the
    propensities published with the data; direct and piecewise item propensities; the density ratio.
    """
    rules: dict[str, Any] = {
        f"gamma = {gamma:g}": PowerLawPropensity(gamma=gamma, unseen="smooth") for gamma in GAMMAS
    }
    rules["gamma calibrated"] = calibrated_gamma
    rules["gamma calibrated, held-out"] = partial(calibrated_gamma, held_out=True)
    rules["gamma from lists"] = gamma_from_lists
    if study.propensity is not None:
        rules["published"] = study.propensity
    rules["direct"] = _direct
    rules["piecewise"] = _piecewise
    rules["density ratio"] = DensityRatioPropensity(rng=0)
    return rules


def calibrated_gamma(calibration: Calibration, *, held_out: bool = False) -> Propensity:
    """Return the power law with γ from the random exposure of the calibration users."""
    # With `held_out` the slope of n* in their held-out positives replaces the slope 1 of training counts,
    # which noise in small counts flattens.
    exposure = calibration.exposure
    fitted = fit_gamma_from_exposure(
        calibration.train.popularity,
        exposure.n_exposed,
        exposure.n_positive,
        held_out=calibration.held_out.popularity if held_out else None,
    )
    return PowerLawPropensity(gamma=fitted.gamma, unseen="smooth").fit(calibration.train)


def gamma_from_lists(calibration: Calibration, *, length: int = 50) -> Propensity:
    """Return the power law with the mean γ (level-OLS) of the evaluated recommenders' lists of `length`."""
    # The fit of Yang et al., RecSys 2018, doi 10.1145/3240323.3240355. It reads no random exposure, and takes
    # the recommenders for the one that produced the log.
    gamma = calibration.once(("gamma of lists", length), partial(_mean_gamma, calibration, length))
    return PowerLawPropensity(gamma=gamma, unseen="smooth").fit(calibration.train)


def _mean_gamma(calibration: Calibration, length: int) -> float:
    train = calibration.train
    loggers = [scorer for name, scorer in calibration.models.items() if name not in NOT_A_LOGGER]
    if not loggers:
        raise InputError("γ from lists needs a recommender other than popularity and random.")
    with warnings.catch_warnings():
        # One sentence about the mean is enough; below, if it is above 1.
        warnings.simplefilter("ignore", IdentificationWarning)
        counts = (count_recommendations(scorer, train, k=length, rng=0) for scorer in loggers)
        gammas = [fit_gamma(train.popularity, one, method="level-ols").gamma for one in counts]
    return float(np.mean(gammas))


def _direct(calibration: Calibration) -> Propensity:
    return DirectPropensity(calibration.exposure).fit(calibration.train)


def _piecewise(calibration: Calibration) -> Propensity:
    return StratifiedPropensity(exposure=calibration.exposure, n_strata=5).fit(calibration.train)
