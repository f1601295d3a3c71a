"""Validation: estimates compared with what random exposure shows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ipseval.correction import PPI
from ipseval.correction.prediction_powered import pairs_to_predict
from ipseval.data.interactions import Interactions
from ipseval.data.random_exposure import RandomExposure, check_exposure
from ipseval.data.splits import Split, split_random
from ipseval.errors import IdentificationWarning, InputError
from ipseval.estimators import Estimator
from ipseval.estimators.labels import SNIPS, SNIPS_GLOBAL, SNIPS_POOLED, resolve_estimator
from ipseval.metrics import Metric, metric
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
from ipseval.ranking import baselines, top_items
from ipseval.ranking.adapters import adapt
from ipseval.ranking.lists import is_list_frame
from ipseval.utils.checks import as_generator, as_list, check_fraction, check_positive_int, check_type
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions, check_compute
from ipseval.utils.ids import distinct, union
from ipseval.utils.types import RngLike, TieChoice
from ipseval.validation._calibration import Calibration, seeded
from ipseval.validation._collected import Collected
from ipseval.validation._criteria import user_weights
from ipseval.validation._curve import check_trainers
from ipseval.validation._population import liked_pairs, rank_beside, shown_outside
from ipseval.validation._result import RANDOM_SAMPLE, Validation
from ipseval.validation.datasets import RandomExposureStudy

Trainer = Callable[[Interactions], Any]
METRICS = ("atop", "recall@5", "recall@10", "recall@50", "mean_dcg", "mean_dcg@5")
ESTIMATORS = (SNIPS, SNIPS_GLOBAL, SNIPS_POOLED)
GAMMAS = (-1.0, 0.0, 1.0, 1.5, 2.0, 3.0)
# Lists of these say nothing about what a logging recommender shows: one list for all, and no preference.
NOT_A_LOGGER = ("popularity", "random")


def validate(
    models: Mapping[str, Any],
    study: RandomExposureStudy | None = None,
    *,
    propensities: Mapping[str, Any],
    random_exposure: RandomExposure | None = None,
    metrics: Iterable[str | Metric] = ("atop", "recall@5", "recall@10", "mean_dcg"),
    estimators: Iterable[str | Estimator] = (SNIPS_GLOBAL, SNIPS_POOLED),
    split: Split | None = None,
    n_splits: int = 1,
    test_fraction: float = 0.2,
    threshold: float | None = None,
    n_folds: int = 2,
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    n_resamples: int = 500,
    rng: RngLike = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> Validation:
    """Return how far estimates from the biased log are from the truth seen under random exposure.

    Per split: the biased positives are divided at random into training and held-out ones; every model is
    trained and ranks the held-out and the random-exposure positives in one pass, among the same candidates
    (the catalogue minus the user's training items). The random positives of a user are a simple random sample
    of its relevant items, so their plain average is the reference.

    Estimates and references are over the same users. An estimator of the pooled average (`target` "pooled")
    is compared over all users with random exposure, and its reference is the truth over them. One of the
    average over users (`target` "user") is compared over users with both kinds of positives. That average is
    not the one over all users: random positives are met more often where there are many relevant items.

    Rows of the propensity `random-sample` are the plain average over the random positives of other users:
    those on whom the weights are calibrated. They show what the calibration sample gives without any weights.

    Propensities that read random exposure are calibrated on users other than those they weight (`n_folds`).

    Parameters
    ----------
    models : mapping
        Name -> function train -> scorer, called for every split; or name -> scorer, with `split`.
    study : RandomExposureStudy, optional
        From `ipseval.datasets`, or `World.study`; or pass `random_exposure` and `split`.
    propensities : mapping
        Name -> Propensity, model with `fit(train)`, `DensityRatioPropensity`, or function
        `Calibration` -> Propensity.
    random_exposure : RandomExposure, optional
        In place of a study: pairs shown at random, over the ids of `split`. They are the reference.
    metrics : labels or Metric objects of mean type
        Others have no reference: a few random positives give the average of c(rank) over all relevant items,
        but not the NDCG of all relevant items.
    estimators : labels or Estimator objects
        Each is computed with every propensity. The plain average with the same target stands beside it
        without being named. "ppi" adds rows to `random-sample`: the random sample less what the log's
        odds predict of its noise, as in `correct`. It ranks candidates of the exposed users, too.
    split : Split, optional
        A split of the biased positives made before, on which `models` (scorers) were trained.
        Required with `random_exposure`.
    n_splits, test_fraction, threshold
        Number of random splits, held-out share, and rating from which a pair is positive (default: the
        study's).
    n_folds : int
        Folds of users; a propensity that reads random exposure weights a fold by a fit to the others.
    ties, confidence_level
        As in `evaluate`; the level is that of all intervals.
    n_resamples : int
        Bootstrap over users, of the errors given the fitted propensities and models.
    rng : int, Generator or None
        Of splits, folds, resamples, and fits without a seed of their own.
    compute : ComputeOptions
        As in `rank_positives`.

    Raises
    ------
    InputError
        For metrics of another type, an id space that differs from the study's, or fewer than two models.
        Unless there is either a study or a random exposure, whose pairs must have equal weights.

    Warns
    -----
    DataWarning
        Once for each text that fitting propensities warned of, with their names; all are in `.notes`. That
        γ is above 1 is no warning here: it asks for this very check.
    """
    check_trainers(models, trained=split is not None)
    if not isinstance(propensities, Mapping) or not propensities:
        raise InputError('propensities must be a non-empty mapping {"name": propensity}.')
    if RANDOM_SAMPLE in propensities:
        raise InputError(f"{RANDOM_SAMPLE!r} names the plain average of the random sample; choose another.")
    check_fraction("confidence_level", confidence_level)
    check_positive_int("n_folds", n_folds, minimum=2)
    chosen = [metric(one) for one in as_list(metrics, "metrics")]
    _check_metrics(chosen)
    asked = as_list(estimators, "estimators")
    compared = [resolve_estimator(one) for one in asked if one != PPI]
    check_compute(compute)
    generator = as_generator(rng)
    study = _study_of(study, random_exposure, split, threshold)
    positives = study.positives(threshold)
    exposed = distinct(study.random.user)
    n_resamples = check_positive_int("n_resamples", n_resamples, minimum=0)
    (fits,) = generator.spawn(1)  # so that all else is the same with and without them
    collected = Collected(
        chosen,
        compared,
        list(models),
        seeded(propensities, fits),
        exposed,
        user_weights(exposed.size, n_resamples, generator),
        ties,
        confidence_level,
    )
    for number in range(1 if split is not None else check_positive_int("n_splits", n_splits)):
        one = split or split_random(positives.biased, test_fraction=test_fraction, rng=generator)
        fold = generator.permutation(np.arange(one.n_users) % n_folds)
        shown = shown_outside(study, one, threshold)
        scorers = {name: model if split is not None else model(one.train) for name, model in models.items()}
        scorers = {name: adapt(scorer, one, name=name) for name, scorer in scorers.items()}
        candidates = pairs_to_predict(shown, one) if PPI in asked else None
        pairs = liked_pairs(shown) if candidates is None else union(shown.pair_key, candidates)
        ranks = rank_beside(scorers, one, pairs, compute)
        collected.add(number, one, shown, scorers, ranks, fold, candidates)
    return collected.result(study, len(positives.random))


def _study_of(
    study: RandomExposureStudy | None,
    random_exposure: RandomExposure | None,
    split: Split | None,
    threshold: float | None,
) -> RandomExposureStudy:
    """Return the study, or that of a split and a random exposure."""
    if (study is None) == (random_exposure is None):
        raise InputError("validate requires either study, or random_exposure and split. Pass one of the two.")
    if study is not None:
        advice = " Load one with ipseval.datasets, or pass random_exposure and split."
        check_type("study", study, RandomExposureStudy, advice)
        return study
    check_exposure(random_exposure, "random_exposure")
    if split is None:
        raise InputError("random_exposure requires split. Pass the split on which the models were trained.")
    if threshold is not None:
        raise InputError(
            "threshold must be left out with random_exposure, which specifies the positive pairs; got "
            f"{threshold!r}. Remove it."
        )
    shown = random_exposure
    assert shown is not None
    shown.check_ids(split, "split")
    liked = Interactions(
        shown.user, shown.item, split.user_ids, split.item_ids, value=shown.positive.astype(np.float64)
    )
    held_out = replace(split.test, value=np.ones(len(split.test)))
    return RandomExposureStudy("random exposure", held_out, liked, threshold=1.0)


def _check_metrics(chosen: list[Metric]) -> None:
    others = [one.label for one in chosen if one.kind != "mean"]
    if others:
        raise InputError(
            f"{', '.join(others)}: only metrics of mean type (recall@k, mean_dcg@k, atop) have a reference, "
            "as random exposure shows a sample of the relevant items and not all of them."
        )


def default_models() -> dict[str, Trainer]:
    """Return seven trainers that need no other library: name -> function train -> scorer."""
    return {
        "popularity": baselines.popularity,
        "item-kNN": baselines.item_knn,
        "item-kNN 20": partial(baselines.item_knn, n_neighbors=20),
        "EASE": partial(baselines.ease, regularization=50.0),
        "EASE 500": partial(baselines.ease, regularization=500.0),
        "PureSVD 10": partial(_pure_svd, n_factors=10),
        "PureSVD 50": partial(_pure_svd, n_factors=50),
    }


def _pure_svd(log: Interactions, n_factors: int) -> Any:
    return baselines.pure_svd(log, n_factors=min(n_factors, log.n_users - 1, log.n_items - 1))


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
    rules["direct"] = lambda given: DirectPropensity(given.exposure).fit(given.train)
    rules["piecewise"] = lambda given: StratifiedPropensity(exposure=given.exposure, n_strata=5).fit(
        given.train
    )
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
    split = Split(train, calibration.held_out)
    loggers = [scorer for name, scorer in calibration.models.items() if name not in NOT_A_LOGGER]
    if not loggers:
        raise InputError("γ from lists needs a recommender other than popularity and random.")
    with warnings.catch_warnings():
        # One sentence about the mean is enough; below, if it is above 1.
        warnings.simplefilter("ignore", IdentificationWarning)
        tops = (one if is_list_frame(one) else top_items(one, split, k=length) for one in loggers)
        counts = (count_recommendations(one, train, k=length, rng=0) for one in tops)
        gammas = [fit_gamma(train.popularity, one, method="level-ols").gamma for one in counts]
    return float(np.mean(gammas))
