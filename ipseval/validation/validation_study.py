"""validate(): estimates from the biased log compared with random exposure."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from ipseval.correction import PPI
from ipseval.correction.prediction_powered import (
    list_pairs_to_predict,
    measure_training_overlap,
    warn_about_overlap,
)
from ipseval.data.interactions import Interactions
from ipseval.data.random_exposure import READ_ADVICE, RandomExposure, check_exposure
from ipseval.data.splits import Split, split_random
from ipseval.errors import IdentificationWarning, InputError
from ipseval.estimators import Estimator
from ipseval.estimators.labels import SNIPS_GLOBAL, SNIPS_PER_USER, SNIPS_POOLED, resolve_estimator
from ipseval.metrics import Metric, metric
from ipseval.propensity import (
    CountedPropensity,
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
from ipseval.utils.ids import union_keys, unique_keys
from ipseval.utils.public import public_function
from ipseval.utils.types import RngLike, TieChoice
from ipseval.validation._accumulator import ValidationAccumulator
from ipseval.validation._calibration import Calibration, with_seeds
from ipseval.validation._criteria import draw_user_weights
from ipseval.validation._curve import check_trainers
from ipseval.validation._population import (
    exposure_outside_training,
    positive_pair_keys,
    rank_with_pairs,
    remove_training_pairs,
)
from ipseval.validation._result import RANDOM_SAMPLE, Validation
from ipseval.validation.datasets import RandomExposureStudy

Trainer = Callable[[Interactions], Any]
METRICS = ("atop", "recall@5", "recall@10", "recall@50", "mean_dcg", "mean_dcg@5")
ESTIMATORS = (SNIPS_PER_USER, SNIPS_GLOBAL, SNIPS_POOLED)
GAMMAS = (-1.0, 0.0, 1.0, 1.5, 2.0, 3.0)
# The lists of these models are one list for all users and random lists, unlike a logging recommender.
NOT_A_LOGGER = ("popularity", "random")


@public_function
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
    """Measure the bias of estimates from the biased log against random exposure.

    Per split: the biased positives are divided at random into training and held-out positives; every model is
    trained and ranks the held-out and the random-exposure positives in one pass, among the same candidates
    (the catalogue minus the user's training items). The random positives of a user are a simple random sample
    of its relevant items, so their unweighted average is the reference.

    Estimates and references are over the same users. An estimator of the pooled average (`target` "pooled")
    is compared over all users with random exposure, and its reference is the average over them. An estimator
    of the average over users (`target` "user") is compared over users with both kinds of positives. That
    average differs from the average over all users, because users with many relevant items more often have
    random positives.

    Rows of the propensity `random-sample` are the unweighted average over the random positives of other
    users, on whom the weights are calibrated. They show the error of the calibration sample without weights.

    Propensities that read random exposure are calibrated on users other than the users that they weight
    (`n_folds`).

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
        Replaces a study: pairs shown at random, over the ids of `split`. They are the reference. With the
        inclusion probabilities π of a design, the reference is Σ c/π / Σ 1/π over the positive pairs, with an
        error from the sums of users.
    metrics : iterable of str or Metric, default ("atop", "recall@5", "recall@10", "mean_dcg")
        Metrics of mean type. Other metrics have no reference: a few random positives give the average of
        c(rank) over all relevant items, but not the NDCG of all relevant items.
    estimators : iterable of str or Estimator, default ("snips-global", "snips-pooled")
        Each is computed with every propensity. AOA with the same target is always included. "ppi" adds rows
        to `random-sample`: the random sample minus the noise that the density ratio of the log predicts, as
        in `correct`. It also ranks candidates of the exposed users.
    split : Split, optional
        A split of the biased positives, on which `models` (scorers) were trained. Required with
        `random_exposure`.
    n_splits, test_fraction, threshold : int, float and float or None
        Number of random splits (default 1), held-out share (default 0.2), and rating from which a pair is
        positive (default: the threshold of the study).
    n_folds : int, default 2
        Folds of users; a propensity that reads random exposure weights a fold by a fit to the others.
    ties : {"default", "mean", "min", "max", "expected"}, default "default"
        Treatment of tied scores, as in `evaluate`.
    confidence_level : float, default 0.95
        Level of all intervals, in (0, 1).
    n_resamples : int, default 500
        Bootstrap resamples of users, which give the errors for fixed propensities and models.
    rng : int, Generator or None, default None
        Source of splits, folds, resamples, and fits without a seed.
    compute : ComputeOptions
        As in `rank_positives`.

    Returns
    -------
    Validation
        `.summary` with one row per metric, propensity and estimator, `.frame` with all estimates, and a
        report.

    Raises
    ------
    InputError
        For metrics of another type, an id space that differs from the study's, or fewer than two models.
        Unless there is either a study or a random exposure. With unequal weights of the random exposure, for
        averages over users, "ppi", and propensities that are fitted to it.

    Warns
    -----
    DataWarning
        Once for each text of the warnings of fitted propensities, with their names; all are in `.notes`. The
        warning that γ is above 1 is omitted, because it advises to make this validation.

    See Also
    --------
    exposure_curve : Errors against the number of users with random exposure.
    default_models : Recommenders to validate with.
    default_propensities : Propensities to compare.

    Examples
    --------
    Weights with the γ of this simulation remove about three quarters of the mean absolute error of AOA:

    >>> from ipseval import PowerLawPropensity, baselines, simulation
    >>> world = simulation.World(n_users=300, n_items=60, mean_relevant=12, rng=0)
    >>> validation = validate(
    ...     {"popular": baselines.popularity, "kNN": baselines.item_knn},
    ...     world.study(rng=2),
    ...     propensities={"gamma = 0": PowerLawPropensity(gamma=0)},
    ...     metrics=["recall@5"],
    ...     n_resamples=100,
    ...     rng=0,
    ... )
    >>> validation.summary[["propensity", "estimator", "mae_aoa", "mae", "reduction"]].round(2)
          propensity     estimator  mae_aoa   mae  reduction
    0  random-sample           aoa     0.26  0.04       0.85
    1  random-sample    aoa-pooled     0.26  0.00       0.99
    2      gamma = 0  snips-global     0.26  0.07       0.74
    3      gamma = 0  snips-pooled     0.26  0.07       0.73
    """
    check_trainers(models, is_trained=split is not None)
    if not isinstance(propensities, Mapping) or not propensities:
        raise InputError('propensities must be a non-empty mapping {"name": propensity}.')
    if RANDOM_SAMPLE in propensities:
        raise InputError(
            f"propensities must not contain {RANDOM_SAMPLE!r}, which names the unweighted average of the "
            "random sample. Choose another name."
        )
    check_fraction("confidence_level", confidence_level)
    check_positive_int("n_folds", n_folds, minimum=2)
    metric_objects = []
    for request in as_list(metrics, "metrics"):
        metric_objects.append(metric(request))

    _check_metrics(metric_objects)
    requested_estimators = as_list(estimators, "estimators")
    estimator_objects = []
    for request in requested_estimators:
        if request != PPI:
            estimator_objects.append(resolve_estimator(request))

    _check_weighted_estimators(random_exposure, requested_estimators, estimator_objects)
    check_compute(compute)
    generator = as_generator(rng)
    study = _resolve_study(study, random_exposure, split, threshold)
    positives = study.positives(threshold)
    exposed = unique_keys(study.random.user)
    n_resamples = check_positive_int("n_resamples", n_resamples, minimum=0)
    # Fits draw from a generator of their own, so that all other draws are the same with and without them.
    (fit_generator,) = generator.spawn(1)
    accumulator = ValidationAccumulator(
        metrics=metric_objects,
        estimators=estimator_objects,
        models=list(models),
        propensities=with_seeds(propensities, fit_generator),
        exposed_users=exposed,
        weights=draw_user_weights(exposed.size, n_resamples, generator),
        ties=ties,
        confidence_level=confidence_level,
    )
    if split is None:
        check_positive_int("n_splits", n_splits)
    else:
        n_splits = 1
    for number in range(n_splits):
        if split is None:
            current_split = split_random(positives.biased, test_fraction=test_fraction, rng=generator)
        else:
            current_split = split
        fold = generator.permutation(np.arange(current_split.n_users) % n_folds)
        exposure = _find_exposure(study, random_exposure, current_split, threshold)
        scorers = _build_scorers(models, current_split, is_trained=split is not None)
        pairs = positive_pair_keys(exposure)
        candidates = None
        if PPI in requested_estimators and not _overlaps_with_training(study, current_split):
            candidates = list_pairs_to_predict(exposure, current_split)
            pairs = union_keys(exposure.pair_key, candidates)
        ranks = rank_with_pairs(scorers, current_split, pairs, compute)
        accumulator.add(
            number=number,
            split=current_split,
            exposure=exposure,
            scorers=scorers,
            ranks=ranks,
            fold=fold,
            candidates=candidates,
        )
    return accumulator.result(study, len(positives.random))


def _overlaps_with_training(study: RandomExposureStudy, split: Split) -> bool:
    """Return whether PPI is biased, because more exposed pairs are in training than chance explains; warn."""
    shown = RandomExposure.from_ratings(study.random, threshold=study.threshold)
    overlap = measure_training_overlap(shown, split)
    if overlap.is_excessive:
        warn_about_overlap(overlap)
    return overlap.is_excessive


def _find_exposure(
    study: RandomExposureStudy,
    random_exposure: RandomExposure | None,
    split: Split,
    threshold: float | None,
) -> RandomExposure:
    """Return the pairs outside training that are compared, with the weights of a random exposure."""
    if random_exposure is None:
        return exposure_outside_training(study, split, threshold)
    return remove_training_pairs(random_exposure, split)


def _check_weighted_estimators(
    exposure: object, requests: Sequence[str | Estimator], estimators: Sequence[Estimator]
) -> None:
    """Raise `InputError` for estimators that have no reference where random exposure has unequal weights."""
    if not isinstance(exposure, RandomExposure) or exposure.weight is None:
        return
    if PPI in requests:
        raise InputError(
            f"estimators must not contain {PPI!r} where random_exposure has unequal weights, because its "
            "predictions are fitted to pairs with equal weights. Remove it."
        )
    for estimator in estimators:
        if estimator.target == "user":
            raise InputError(
                f"estimators must average over pairs where random_exposure has unequal weights; got "
                f"{estimator.label!r}, an average over users. The weighted mean of the few random positives of "
                "one user is biased. Pass estimators=['snips-pooled']."
            )


def _build_scorers(models: Mapping[str, Any], split: Split, *, is_trained: bool) -> dict[str, object]:
    """Return the scorers of a split: the models themselves, or the results of training them."""
    scorers = models if is_trained else {name: train(split.train) for name, train in models.items()}
    adapted_scorers: dict[str, object] = {}
    for name, scorer in scorers.items():
        adapted_scorers[name] = adapt(scorer, split, name=name)

    return adapted_scorers


def _resolve_study(
    study: RandomExposureStudy | None,
    random_exposure: RandomExposure | None,
    split: Split | None,
    threshold: float | None,
) -> RandomExposureStudy:
    """Return the study, or the study of a split and a random exposure."""
    if (study is None) == (random_exposure is None):
        raise InputError("validate requires either study, or random_exposure and split. Pass one of the two.")
    if study is not None:
        advice = " Load one with ipseval.datasets, or pass random_exposure and split."
        check_type("study", study, RandomExposureStudy, advice)
        return study
    check_type("random_exposure", random_exposure, RandomExposure, READ_ADVICE)
    if split is None:
        raise InputError("random_exposure requires split. Pass the split on which the models were trained.")
    if threshold is not None:
        raise InputError(
            "threshold must be left out with random_exposure, which specifies the positive pairs; got "
            f"{threshold!r}. Remove it."
        )
    assert random_exposure is not None
    random_exposure.check_ids(split, "split")
    random = Interactions(
        random_exposure.user,
        random_exposure.item,
        split.user_ids,
        split.item_ids,
        value=random_exposure.positive.astype(np.float64),
    )
    biased = replace(split.test, value=np.ones(len(split.test)))
    return RandomExposureStudy("random exposure", biased, random, threshold=1.0)


def _check_metrics(metrics: list[Metric]) -> None:
    """Raise `InputError` unless all metrics are of mean type."""
    labels = [metric.label for metric in metrics if metric.kind != "mean"]
    if labels:
        raise InputError(
            f"{', '.join(labels)}: only metrics of mean type (recall@k, mean_dcg@k, atop) have a reference, "
            "as random exposure shows a sample of the relevant items and not all of them."
        )


@public_function
def default_models() -> dict[str, Trainer]:
    """Return seven trainers that need no other library.

    Returns
    -------
    dict
        Name -> function train -> scorer.

    See Also
    --------
    validate : Evaluate the models against random exposure.

    Examples
    --------
    >>> list(default_models())
    ['popularity', 'item-kNN', 'item-kNN 20', 'EASE', 'EASE 500', 'PureSVD 10', 'PureSVD 50']
    """
    return {
        "popularity": baselines.popularity,
        "item-kNN": baselines.item_knn,
        "item-kNN 20": partial(baselines.item_knn, n_neighbors=20),
        "EASE": partial(baselines.ease, regularization=50.0),
        "EASE 500": partial(baselines.ease, regularization=500.0),
        "PureSVD 10": partial(_train_pure_svd, n_factors=10),
        "PureSVD 50": partial(_train_pure_svd, n_factors=50),
    }


def _train_pure_svd(log: Interactions, n_factors: int) -> Any:
    """Return the scorer of PureSVD with at most as many factors as the log allows."""
    return baselines.pure_svd(log, n_factors=min(n_factors, log.n_users - 1, log.n_items - 1))


@public_function
def default_propensities(study: RandomExposureStudy) -> dict[str, Any]:
    """Return the propensities that a validation compares.

    γ on a grid, with n* + 1 in place of n* so that every positive keeps a weight; γ calibrated on random
    exposure, on training counts and against the held-out positives; γ from the recommenders' lists; the
    propensities published with the data, or counted on it; direct and piecewise item propensities; the
    density ratio.

    Parameters
    ----------
    study : RandomExposureStudy
        Study, whose published or counted propensities are included.

    Returns
    -------
    dict
        Name -> propensity, as `validate` takes them.

    See Also
    --------
    validate : Compare the propensities with random exposure.

    Examples
    --------
    >>> from ipseval import simulation
    >>> study = simulation.World(n_users=300, n_items=60, mean_relevant=12, rng=0).study(rng=2)
    >>> propensities = default_propensities(study)
    >>> propensities["gamma = 1"].gamma
    1.0
    >>> list(propensities)[-4:]
    ['published', 'direct', 'piecewise', 'density ratio']
    """
    rules: dict[str, object] = {}
    for gamma in GAMMAS:
        rules[f"gamma = {gamma:g}"] = PowerLawPropensity(gamma=gamma, unseen="smooth")
    rules["gamma calibrated"] = calibrate_gamma
    rules["gamma calibrated, held-out"] = partial(calibrate_gamma, held_out=True)
    rules["gamma from lists"] = fit_gamma_from_lists
    if study.propensity is not None:
        rules["published"] = _make_relative(study.propensity)
    if study.counted_propensity is not None:
        rules["counted"] = partial(_fit_counted, study.counted_propensity)
    rules["direct"] = _fit_direct
    rules["piecewise"] = _fit_piecewise
    rules["density ratio"] = DensityRatioPropensity(rng=0)
    return rules


def _fit_counted(model: CountedPropensity, calibration: Calibration) -> Propensity:
    """Return the counted propensities, up to the held-out share of the log.

    The pairs of the reference are never in the log, so P needs no change for pairs that training took out.
    """
    return _make_relative(model.fit(calibration.train))


def _make_relative(propensity: Propensity) -> Propensity:
    """Return a propensity of the log as one that is known up to a common factor, the held-out share.

    The values stay the same. This is exact for small probabilities, and the default estimators, which normalise
    their weights, need no more.
    """
    return replace(propensity, is_probability=False)


def _fit_direct(calibration: Calibration) -> Propensity:
    """Return the direct item propensities of the calibration users.

    The warning about noise in training counts is on the power law of the shrinkage, as in `calibrate_gamma`.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        propensity = DirectPropensity(calibration.exposure).fit(calibration.train)
    return _make_relative(propensity)


def _fit_piecewise(calibration: Calibration) -> Propensity:
    """Return the item propensities of the calibration users in five strata."""
    model = StratifiedPropensity(exposure=calibration.exposure, n_strata=5)
    return _make_relative(model.fit(calibration.train))


def calibrate_gamma(calibration: Calibration, *, held_out: bool = False) -> Propensity:
    """Return the power law with γ from the random exposure of the calibration users.

    With `held_out`, the slope of n* in their held-out positives replaces the slope 1 of training counts,
    which noise in small counts flattens. Without it, the warning about this noise is not issued, because a
    validation compares both.
    """
    exposure = calibration.exposure
    check_exposure(exposure)
    held_out_popularity = calibration.held_out.popularity if held_out else None
    with warnings.catch_warnings():
        if not held_out:
            warnings.simplefilter("ignore", IdentificationWarning)
        fit = fit_gamma_from_exposure(
            calibration.train.popularity,
            exposure.n_exposed,
            exposure.n_positive,
            held_out=held_out_popularity,
        )
    return PowerLawPropensity(gamma=fit.gamma, unseen="smooth").fit(calibration.train)


def fit_gamma_from_lists(calibration: Calibration, *, length: int = 50) -> Propensity:
    """Return the power law with the mean γ (level-OLS) of the evaluated recommenders' lists of `length`.

    The fit is by Yang et al., RecSys 2018, doi 10.1145/3240323.3240355. It reads no random exposure, and
    takes the evaluated recommenders for the recommender that produced the log.
    """
    key = ("gamma from lists", length)
    gamma = calibration.compute_once(key, partial(_mean_gamma_of_lists, calibration, length))
    return PowerLawPropensity(gamma=gamma, unseen="smooth").fit(calibration.train)


def _mean_gamma_of_lists(calibration: Calibration, length: int) -> float:
    """Return the mean γ of the lists of all recommenders that may resemble a logging recommender."""
    train = calibration.train
    split = Split(train, calibration.held_out)
    scorers = []
    for name, scorer in calibration.models.items():
        if name not in NOT_A_LOGGER:
            scorers.append(scorer)

    if not scorers:
        raise InputError("γ from lists needs a recommender other than popularity and random.")
    gammas = []
    with warnings.catch_warnings():
        # The power law warns once if the mean is above 1, so the warnings of single recommenders are dropped.
        warnings.simplefilter("ignore", IdentificationWarning)
        for scorer in scorers:
            lists = scorer if is_list_frame(scorer) else top_items(scorer, split, k=length)
            counts = count_recommendations(lists, train, k=length, rng=0)
            gammas.append(fit_gamma(train.popularity, counts, method="level-ols").gamma)
    return float(np.mean(gammas))
