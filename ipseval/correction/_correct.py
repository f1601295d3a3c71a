"""`correct`: bias-corrected estimates from recommenders, a split and further data about exposure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.correction._path import (
    CorrectionPath,
    check_averages,
    compute_path_with_odds,
    pad_for_diagnosis,
)
from ipseval.correction._posterior import Posterior, RandomSample, compute_posterior
from ipseval.correction._prior import CorrectionPrior
from ipseval.correction._reference_values import (
    ReferenceValues,
    ReferenceValuesLike,
    Source,
    check_reference_names,
    parse_reference_values,
)
from ipseval.correction._result import Correction
from ipseval.correction.prediction_powered import (
    TrainingOverlap,
    compute_difference_totals,
    compute_ratio,
    list_pairs_to_predict,
    measure_training_overlap,
    warn_about_overlap,
)
from ipseval.data.interactions import Interactions, check_interactions
from ipseval.data.random_exposure import READ_ADVICE, RandomExposure
from ipseval.data.reading import read
from ipseval.data.reading.column_names import match_columns
from ipseval.data.reading.exposure_tables import read_random_exposure
from ipseval.data.reading.rating_scale import Threshold, check_threshold
from ipseval.data.splits import Split
from ipseval.data.splits.split import resolve_split
from ipseval.errors import InputError
from ipseval.evaluation import Evaluation
from ipseval.evaluation.request import name_models, pair_models
from ipseval.metrics import Metric
from ipseval.metrics.labels import resolve_metrics
from ipseval.ranking import RankedPositives, rank_positives
from ipseval.ranking.list_coverage import check_lists, resolve_missing
from ipseval.ranking.ranked_positives import ALL_ITEMS, check_same_positives
from ipseval.utils.checks import check_choice, check_fraction, check_models, check_type
from ipseval.utils.columns import as_frame
from ipseval.utils.compute import DEFAULT_COMPUTE, ComputeOptions, one_blas_thread
from ipseval.utils.ids import is_member, same_ids, union_keys, unique_keys
from ipseval.utils.public import public_function
from ipseval.utils.types import FloatArray, IntArray, Missing, RngLike, TieChoice

DEFAULT_METRICS = ("recall@10", "mean_dcg@10")


@public_function
def correct(
    models: Any,
    split: Any | None = None,
    test: Any | None = None,
    *,
    train: Any | None = None,
    threshold: Threshold | None = None,
    users: npt.ArrayLike | None = None,
    items: npt.ArrayLike | None = None,
    random_exposure: Any | None = None,
    interactions: Any | None = None,
    reference_values: ReferenceValuesLike | None = None,
    source: Source | None = None,
    metrics: Iterable[str | Metric] = DEFAULT_METRICS,
    prior: CorrectionPrior | None = None,
    missing_lists: Missing = "zero",
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    rng: RngLike = None,
    compute: ComputeOptions = DEFAULT_COMPUTE,
) -> Correction:
    """Estimate metrics over all relevant interactions, with intervals that account for unknown propensities.

    The estimand is the mean over all relevant user-item pairs outside training. The log alone does not
    identify it; a random-exposure sample, the log's pairs that are not positive, and values from an
    experiment narrow the intervals.

    Parameters
    ----------
    models : mapping, one recommender or Evaluation
        Name -> scorer or trained model, as in `evaluate`. An `Evaluation` of the same split is not ranked
        again; it cannot be combined with `random_exposure`, whose pairs it has not ranked.
    split : Split, optional
        Training and test part of the log, from which the odds and AOA are computed.
    train, test : data frames, logs, mappings, matrices or paths, optional
        Training and held-out interactions, as in `evaluate`; pass these or `split`.
    threshold : float, "all" or None, default None
        Smallest value of a positive in `train`, `test` and a table of `random_exposure`.
    users, items : array-like of ids, optional
        All users and items of `train` and `test`, as in `evaluate`.
    random_exposure : RandomExposure, data frame, path, mapping or list of tuples, optional
        Pairs shown at random to users drawn at random. A table has users, items, and an outcome of 0 and 1
        (positive, label, clicked, …) or ratings. Pairs of the training part are excluded and counted.
    interactions : Interactions, data frame, path, mapping or list of tuples, optional
        Every pair of the log, positive or not, such as all ratings or all shown items, over the ids of the
        split. The exposure of the log can be estimated more directly from them than from positives. Of a
        table, the users and items are read, and repeated pairs count once. Ids that the split does not have are
        an error; `ipseval.read` can leave such rows out (`unknown="drop"`).
    reference_values : mapping, optional
        Name of a recommender -> metric -> (value, standard error), measured in an experiment where items were
        shown at random: the mean over all relevant pairs outside training. With source="randomised-ratio" the
        keys are pairs of names, and the values are ratios of such means, which were measured on the same users
        and items: {("new", "old"): {"recall@10": (1.08, 0.03)}}. A click-through rate is neither.
    source : {"randomised", "randomised-ratio"}, optional
        How the reference values were measured; required with them.
    metrics : labels or objects, default ("recall@10", "mean_dcg@10")
        Averages over relevant items: atop, recall@k, mean_dcg@k.
    prior : CorrectionPrior, optional
        Prior distribution of the correction strength.
    missing_lists : {"zero", "drop", "raise"}, default "zero"
        Treatment of users without a recommendation list, as in `evaluate`.
    ties : {"default", "mean", "min", "max", "expected"}, default "default"
        Treatment of tied scores, as in `evaluate`.
    confidence_level : float, default 0.95
        Probability of all intervals, in (0, 1).
    rng : int, Generator or None, default None
        Random seed of the uniform pairs to which the density ratio is fitted.
    compute : ComputeOptions
        Threads, memory, engine, and whether a progress bar is shown.

    Returns
    -------
    Correction
        `.frame` with rows `aoa-pooled` and `corrected`, and with random exposure also `random-sample` and
        `ppi`, unless the exposure overlaps with training by more than chance; `.order`, `.leader`, `.choice`
        and `.compare()` for the ranking of the recommenders.

    Raises
    ------
    InputError
        For metrics that are not averages over relevant items, data over other ids, an `Evaluation` of other
        pairs, and reference values that cannot be used.

    Warns
    -----
    DataWarning
        If significantly more pairs of the random exposure are in training than independent exposure explains,
        so that PPI would be biased and is left out.

    See Also
    --------
    evaluate : AOA, IPS and SNIPS with assumed or measured propensities.
    plan_exposure : How many users must be shown random items to settle a comparison.

    Notes
    -----
    θ(α) = Σ odds^−α c / Σ odds^−α over the held-out positives, where c is the contribution of a positive to
    the metric, and the odds compare it with uniformly drawn pairs, by popularity and the user's profile or by
    popularity alone. α, the correction strength, is the part of the log's concentration that is caused by
    exposure: θ(0) is AOA. α has a prior, which random exposure updates; the more random positives there are,
    the closer the estimates are to their unweighted mean.

    Examples
    --------
    >>> from ipseval.validation.simulation import World
    >>> world = World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> models = {"popular": world.example_models(split, rng=2)["popular"]}
    >>> frame = correct(models, split, metrics=["recall@10"], rng=3).frame
    >>> frame["estimator"].tolist(), frame["estimate"].isna().tolist()
    (['aoa-pooled', 'corrected'], [False, True])

    Without random exposure, the log does not identify the level, so the second row is an interval only.
    """
    split_threshold = None
    if not isinstance(split, Split) and any(_holds_values(part) for part in (split, train, test)):
        split_threshold = threshold
    training_data = split if train is None else train
    split = resolve_split(
        split, train, test, threshold=split_threshold, users=users, items=items, function="correct"
    )
    if not isinstance(models, Evaluation):
        models = name_models(models, split)
        check_models(models, "models", "scorer")
        models = pair_models(models, training_data)
    split.check_seen_excluded("the correction")
    check_fraction("confidence_level", confidence_level)
    check_choice("missing_lists", missing_lists, ("zero", "drop", "raise"))
    if random_exposure is not None and not isinstance(random_exposure, RandomExposure):
        _refuse_other_objects(random_exposure)
        random_exposure = read_random_exposure(random_exposure, split, check_threshold(threshold))
    elif split_threshold is None and threshold is not None:
        raise InputError("threshold applies to ratings; got none. Leave it out.")
    if interactions is not None:
        interactions = _read_interactions(interactions, split)
    parsed_values = parse_reference_values(reference_values, source)
    # Checked before the ranking, which may take hours.
    path_metrics = check_averages(resolve_metrics(metrics))
    names = list(models.ranks) if isinstance(models, Evaluation) else list(models)
    check_reference_names(parsed_values, names, [metric.label for metric in path_metrics])
    depth = max(metric.cutoff or 1 for metric in path_metrics)
    if isinstance(models, Evaluation):
        ranks = _ranks_of_evaluation(models, split, random_exposure, missing_lists, depth)
    else:
        ranks = rank_with_exposure(models, split, random_exposure, compute=compute)
        ranks = _resolve_lists(ranks, missing_lists, depth)
    return correct_ranks(
        ranks,
        split,
        interactions=interactions,
        reference_values=reference_values,
        source=source,
        metrics=path_metrics,
        prior=prior,
        ties=ties,
        confidence_level=confidence_level,
        rng=rng,
    )


def _holds_values(part: object) -> bool:
    """Return whether a threshold applies to a part: not to frames of users and items alone."""
    if part is None:
        return False
    frame = as_frame(part)
    if frame is None:
        return True
    columns = [str(column) for column in frame.columns]
    return bool(match_columns(columns, {}, ("value",), essential=()).columns)


def _is_table(pairs: object) -> bool:
    """Return whether an object is a table of pairs, or the path of one."""
    return isinstance(pairs, (Mapping, list, str, os.PathLike, pd.Series)) or as_frame(pairs) is not None


def _refuse_other_objects(random_exposure: object) -> None:
    """Raise `InputError` unless an object is a table of pairs."""
    if not _is_table(random_exposure):
        check_type("random_exposure", random_exposure, RandomExposure, READ_ADVICE)


def _read_interactions(interactions: Any, split: Split) -> Interactions:
    """Return all pairs of a log, positive or not, in the ids of a split."""
    if isinstance(interactions, Interactions):
        return interactions
    if not _is_table(interactions):
        check_interactions(interactions, "interactions")  # an error that says what to pass
    threshold: Threshold | None = "all" if _holds_values(interactions) else None
    log = read(
        interactions,
        threshold=threshold,
        users=split.user_ids,
        items=split.item_ids,
        duplicates="drop",
    )
    if not isinstance(log, Interactions):
        raise InputError(
            "interactions must be pairs of users and items; got a log of impressions. Pass only these two columns."
        )
    return log


@dataclass(frozen=True, eq=False, kw_only=True)
class RanksWithExposure:
    """Ranks of held-out positives, randomly exposed pairs and candidates of the exposed users.

    Attributes
    ----------
    ranks : dict of name to RankedPositives
    test_keys : (n,) int array
        Keys of the held-out positives.
    liked_keys : (n,) int array
        Keys of the positive pairs of the random exposure outside training.
    exposure : RandomExposure or None
        The random exposure outside training.
    candidate_keys : (n,) int array
        Keys of candidates of the exposed users, to which predictions are compared.
    overlap : TrainingOverlap or None
        How many exposed pairs are in training.
    """

    ranks: dict[str, RankedPositives]
    test_keys: IntArray
    liked_keys: IntArray
    exposure: RandomExposure | None
    candidate_keys: IntArray
    overlap: TrainingOverlap | None = None

    def select(self, keys: IntArray) -> dict[str, RankedPositives]:
        """Return the ranks of the pairs with these keys."""
        reference = next(iter(self.ranks.values()))
        pair_keys = reference.user * np.int64(reference.item_ids.size) + reference.item
        is_selected = is_member(pair_keys, keys)
        if is_selected.all():
            return dict(self.ranks)
        selected_ranks: dict[str, RankedPositives] = {}
        for name, ranked in self.ranks.items():
            selected_ranks[name] = ranked.select(is_selected)

        return selected_ranks


@public_function
def rank_with_exposure(
    models: Mapping[str, Any], split: Split, random_exposure: RandomExposure | None, **options: Any
) -> RanksWithExposure:
    """Rank the test positives of a split and the pairs of the random exposure.

    Parameters
    ----------
    models : mapping
        Name -> scorer or trained model.
    split : Split
        Its test positives are ranked.
    random_exposure : RandomExposure or None
        Its pairs outside training are ranked, too.
    **options
        As in `rank_positives`.

    Returns
    -------
    RanksWithExposure
        The ranks, for `correct_ranks`.

    Raises
    ------
    InputError
        For random exposure over other ids, and for stored ranks that lack its pairs.

    See Also
    --------
    correct_ranks : Compute the correction from the ranks.
    ipseval.rank_positives : Rank test positives only.

    Examples
    --------
    >>> from ipseval import RandomExposure, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> exposure = RandomExposure.from_ratings(world.expose(rng=3), threshold=4)
    >>> ranks = rank_with_exposure(models, split, exposure)
    >>> list(ranks.ranks), ranks.test_keys.size, ranks.liked_keys.size
    (['taste', 'popular'], 362, 535)
    """
    test_keys = split.test.pair_key
    if random_exposure is None:
        ranks = _rank_models(models, split, **options)
        return _without_exposure(ranks, test_keys)
    random_exposure.check_ids(split, "split")
    exposure = random_exposure.exclude(split.excluded_pairs)
    candidate_keys = list_pairs_to_predict(exposure, split)
    ranked_keys = union_keys(test_keys, union_keys(exposure.pair_key, candidate_keys))
    extended_split = replace(split, test=_interactions_from_keys(ranked_keys, split))
    ranks = _rank_models(models, extended_split, **options)
    ranked = next(iter(ranks.values()))
    if not np.array_equal(ranked.user * np.int64(split.n_items) + ranked.item, extended_split.test.pair_key):
        raise InputError(
            "models must not contain ranks that lack pairs of the random exposure. Pass the scorers, or use "
            "correction_path and correct_path."
        )
    return RanksWithExposure(
        ranks=ranks,
        test_keys=test_keys,
        liked_keys=exposure.pair_key[exposure.positive],
        exposure=exposure,
        candidate_keys=candidate_keys,
        overlap=measure_training_overlap(random_exposure, split),
    )


def _rank_models(models: Mapping[str, Any], split: Split, **options: Any) -> dict[str, RankedPositives]:
    """Return the ranks of the test positives by every recommender."""
    ranks = {}
    for name, model in models.items():
        ranks[name] = rank_positives(model, split, name=name, **options)

    check_same_positives(ranks)
    return ranks


def _without_exposure(ranks: dict[str, RankedPositives], test_keys: IntArray) -> RanksWithExposure:
    """Return ranks of test positives only."""
    no_keys: IntArray = np.zeros(0, dtype=np.int64)
    return RanksWithExposure(
        ranks=ranks, test_keys=test_keys, liked_keys=no_keys, exposure=None, candidate_keys=no_keys
    )


def _resolve_lists(ranks: RanksWithExposure, missing_lists: Missing, depth: int) -> RanksWithExposure:
    """Return the ranks with users without a list resolved, and lists padded to `depth`."""
    complete_ranks = resolve_missing(ranks.ranks, missing_lists, depth)
    left_out = next(iter(complete_ranks.values())).left_out
    n_left_out = 0
    if left_out is not None:
        n_left_out = int(left_out.sum())

    list_counts = {}
    for name, ranked in complete_ranks.items():
        list_counts[name] = ranked.list_counts(depth)

    check_lists(list_counts, missing_lists, n_left_out)
    return replace(ranks, ranks=complete_ranks)


def _ranks_of_evaluation(
    evaluation: Evaluation,
    split: Split,
    random_exposure: RandomExposure | None,
    missing_lists: Missing,
    depth: int,
) -> RanksWithExposure:
    """Return the ranks of an evaluation, or raise `InputError` unless it evaluated the split."""
    if random_exposure is not None:
        raise InputError(
            "models must be the recommenders and not an Evaluation with random_exposure, because an "
            "Evaluation has not ranked the exposed pairs. Pass the models."
        )
    if missing_lists != "zero":
        raise InputError(
            "missing_lists must be left out with an Evaluation, which has resolved users without a list; got "
            f"{missing_lists!r}. Pass missing_lists to evaluate."
        )
    if not evaluation.ranks:
        raise InputError("models must be an Evaluation that has its ranks; got one without. Pass the models.")
    check_evaluated_pairs(evaluation.ranks, split)
    complete_ranks = {}
    for name, ranked in evaluation.ranks.items():
        complete_ranks[name] = ranked.pad_lists(depth)

    _warn_about_short_lists(complete_ranks, depth)
    return _without_exposure(complete_ranks, split.test.pair_key)


def _warn_about_short_lists(ranks: Mapping[str, RankedPositives], depth: int) -> None:
    """Warn where all lists are shorter than the largest cutoff; `evaluate` has warned of missing lists."""
    list_counts = {}
    for name, ranked in ranks.items():
        list_counts[name] = ranked.list_counts(depth)

    for counts in list_counts.values():
        counts[0] = 0
    check_lists(list_counts, "zero", 0)


def check_evaluated_pairs(ranks: Mapping[str, RankedPositives], split: Split) -> None:
    """Raise `InputError` unless the test part of the split was ranked among all its candidates."""
    ranked = next(iter(ranks.values()))
    advice = "Pass the split that was evaluated, or the models."
    if not same_ids(ranked, split):
        raise InputError(f"the Evaluation and split must have the same users and items. {advice}")
    if ranked.candidates != ALL_ITEMS:
        raise InputError(
            "models must be an Evaluation in which all items are candidates; got candidates = "
            f"{ranked.candidates}. Pass the models."
        )
    test_keys = unique_keys(split.test.pair_key)
    if ranked.left_out is not None:
        test_keys = test_keys[~ranked.left_out[test_keys // split.n_items]]
    ranked_keys = ranked.user * np.int64(split.n_items) + ranked.item
    n_missing = int((~is_member(test_keys, ranked_keys)).sum())
    n_unknown = int((~is_member(ranked_keys, test_keys)).sum())
    if n_missing or n_unknown:
        raise InputError(
            "the Evaluation and split must have the same held-out interactions; got "
            f"{n_missing:,} that were not evaluated and {n_unknown:,} that are not in the split. {advice}"
        )
    excluded_keys = unique_keys(split.excluded_pairs.pair_key)
    n_excluded = np.bincount(excluded_keys // split.n_items, minlength=split.n_users)
    if not np.array_equal(ranked.n_candidates, split.n_items - n_excluded[ranked.user]):
        raise InputError(f"the Evaluation and split must have the same training interactions. {advice}")


@public_function
def correct_ranks(
    ranks: RanksWithExposure,
    split: Split,
    *,
    metrics: Sequence[Metric],
    interactions: Interactions | None = None,
    reference_values: ReferenceValuesLike | None = None,
    source: Source | None = None,
    prior: CorrectionPrior | None = None,
    ties: TieChoice = "default",
    confidence_level: float = 0.95,
    rng: RngLike = None,
) -> Correction:
    """Compute the correction from ranks, as `correct` does from recommenders.

    Parameters
    ----------
    ranks : RanksWithExposure
        Ranks by `rank_with_exposure`, with the random exposure.
    split : Split
        The split that was ranked.
    metrics : sequence of Metric
        Averages over relevant items.
    interactions : Interactions, optional
        As in `correct`. Default: the impressions from which the positives come, where there are any.
    reference_values : mapping, optional
        Values of recommenders that were measured in an experiment, as in `correct`.
    source : {"randomised", "randomised-ratio"}, optional
        How the reference values were measured; required with them.
    prior : CorrectionPrior, optional
        Prior distribution of the correction strength.
    ties : {"default", "mean", "min", "max", "expected"}, default "default"
        Treatment of tied scores, as in `evaluate`.
    confidence_level : float, default 0.95
        Level of the intervals, in (0, 1).
    rng : int, Generator or None, default None
        Random seed of the uniform pairs.

    Returns
    -------
    Correction
        As from `correct`.

    See Also
    --------
    correct : The correction of recommenders.
    rank_with_exposure : The ranks.

    Examples
    --------
    Ranks that were computed once serve several metrics:

    >>> from ipseval import RandomExposure, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> models = {name: examples[name] for name in ("taste", "popular")}
    >>> exposure = RandomExposure.from_ratings(world.expose(rng=3), threshold=4)
    >>> from ipseval import metric
    >>> ranks = rank_with_exposure(models, split, exposure)
    >>> correction = correct_ranks(ranks, split, metrics=[metric("recall@10")], rng=4)
    >>> frame = correction.frame
    >>> frame.loc[frame["estimator"] == "corrected", ["model", "estimate", "std_error"]].round(3)
         model  estimate  std_error
    6    taste     0.382      0.021
    7  popular     0.302      0.021
    """
    if interactions is None:
        interactions = _pairs_of_impressions(split)
    path, compute_odds = compute_path_with_odds(
        ranks.select(ranks.test_keys),
        split,
        metrics=metrics,
        interactions=interactions,
        ties=ties,
        rng=rng,
    )
    correction = correct_path(
        path,
        ranks.select(ranks.liked_keys),
        random_exposure=ranks.exposure,
        reference_values=reference_values,
        source=source,
        prior=prior,
        confidence_level=confidence_level,
    )
    has_weights = ranks.exposure is not None and ranks.exposure.weight is not None
    if correction.sample is None or ranks.exposure is None or has_weights:
        return correction
    if ranks.overlap is not None and ranks.overlap.is_excessive:
        warn_about_overlap(ranks.overlap)
        return correction
    exposure_ranks = ranks.select(union_keys(ranks.exposure.pair_key, ranks.candidate_keys))
    with one_blas_thread():
        _, numerators, denominators = compute_difference_totals(
            exposure_ranks,
            ranks.exposure,
            candidate_keys=ranks.candidate_keys,
            split=split,
            metrics=path.metrics,
            ties=ties,
            compute_odds=compute_odds,
        )
        return replace(correction, ppi=compute_ratio(numerators, denominators))


def _pairs_of_impressions(split: Split) -> Interactions | None:
    """Return the pairs of the impressions that the training part comes from; None if all are positive."""
    log = split.train.impressions
    if log is None:
        return None
    keys = unique_keys(log.pair_key)
    is_positive = is_member(keys, split.test.pair_key) | is_member(keys, split.excluded_pairs.pair_key)
    if is_positive.all():
        return None
    return _interactions_from_keys(keys, split)


@public_function
def correct_path(
    path: CorrectionPath,
    random_ranks: Mapping[str, RankedPositives] | None = None,
    *,
    random_exposure: RandomExposure | None = None,
    reference_values: ReferenceValuesLike | None = None,
    source: Source | None = None,
    prior: CorrectionPrior | None = None,
    confidence_level: float = 0.95,
) -> Correction:
    """Compute the correction from a path, with random exposure and reference values where they are passed.

    Parameters
    ----------
    path : CorrectionPath
        Values by correction strength, by `correction_path`.
    random_ranks : mapping, optional
        Name -> ranks of the random-exposure positives outside training, by the recommenders of the path.
    random_exposure : RandomExposure, optional
        The exposure from which they come, for their weights and for the counts in the report and the plan.
    reference_values : mapping, optional
        Values of recommenders that were measured in an experiment, as in `correct`.
    source : {"randomised", "randomised-ratio"}, optional
        How the reference values were measured; required with them.
    prior : CorrectionPrior, optional
        Prior distribution of the correction strength.
    confidence_level : float, default 0.95
        Level of the intervals, in (0, 1).

    Returns
    -------
    Correction
        As from `correct`, without `ppi`.

    Raises
    ------
    InputError
        For ranks of other recommenders, and reference values that cannot be used.

    See Also
    --------
    correction_path : The path.

    Examples
    --------
    A path that is computed once serves several priors. The posterior mean of the correction strength α:

    >>> from ipseval import rank_positives, simulation
    >>> from ipseval.correction import correction_path
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> ranks = {name: rank_positives(examples[name], split) for name in ("taste", "popular")}
    >>> path = correction_path(ranks, split, metrics=["recall@10"], rng=4)
    >>> round(correct_path(path).alpha.mean, 2)
    0.62
    >>> round(correct_path(path, prior=CorrectionPrior(no_bias=0.5)).alpha.mean, 2)
    0.34
    """
    check_fraction("confidence_level", confidence_level)
    if prior is None:
        prior = CorrectionPrior()
    check_type("prior", prior, CorrectionPrior)
    if random_exposure is not None:
        check_type("random_exposure", random_exposure, RandomExposure, READ_ADVICE)
    parsed_values = parse_reference_values(reference_values, source)
    sample = _random_sample(path, random_ranks, random_exposure)
    posterior = compute_posterior(path, prior, sample)
    observations = None
    if parsed_values:
        observations = ReferenceValues.from_values(parsed_values, path, posterior.total_mean)
        posterior = compute_posterior(path, prior, sample, observations)
    diagnostic_posterior = None
    if sample is not None:
        diagnostic_posterior = _diagnose_fit(path, prior, random_ranks, random_exposure)
    return Correction(
        path=path,
        prior=prior,
        sample=sample,
        posterior=posterior,
        random_exposure=random_exposure,
        confidence_level=confidence_level,
        observations=observations,
        diagnostic_posterior=diagnostic_posterior,
    )


def _diagnose_fit(
    path: CorrectionPath,
    prior: CorrectionPrior,
    random_ranks: Mapping[str, RankedPositives] | None,
    random_exposure: RandomExposure | None,
) -> Posterior | None:
    """Return the posterior of the diagnostic path given the random sample; None if the path is its own."""
    if path.diagnostic_path is None or random_ranks is None:
        return None
    sample = _random_sample(path.diagnostic_path, pad_for_diagnosis(random_ranks), random_exposure)
    return compute_posterior(path.diagnostic_path, prior, sample)


def _random_sample(
    path: CorrectionPath,
    random_ranks: Mapping[str, RankedPositives] | None,
    random_exposure: RandomExposure | None,
) -> RandomSample | None:
    """Return the mean over random-exposure positives; None without a positive."""
    if random_ranks is None:
        return None
    if list(random_ranks) != list(path.models):
        raise InputError(
            f"random_ranks must have the recommenders {list(path.models)} in this order; got "
            f"{list(random_ranks)}. Rank them by the models of the path."
        )
    ranked = next(iter(random_ranks.values()))
    if not len(ranked):
        return None
    check_same_positives(random_ranks)
    return RandomSample.from_ranks(
        random_ranks,
        path,
        _positive_weights(ranked, random_exposure),
        is_designed=random_exposure is not None and random_exposure.is_designed,
    )


def _positive_weights(positives: RankedPositives, exposure: RandomExposure | None) -> FloatArray | None:
    """Return the weights of ranked random positives, the largest 1; None where all weights are equal."""
    if exposure is None or exposure.weight is None:
        return None
    keys = positives.user * np.int64(exposure.n_items) + positives.item
    order = np.argsort(exposure.pair_key)
    rows = order[np.searchsorted(exposure.pair_key, keys, sorter=order)]
    weight = exposure.weight[rows]
    return np.asarray(weight / weight.max())


def _interactions_from_keys(keys: IntArray, split: Split) -> Interactions:
    """Return the pairs with these keys, over the ids of the split."""
    return Interactions(keys // split.n_items, keys % split.n_items, split.user_ids, split.item_ids)
