"""Evaluation of predicted ratings when users choose which items they rate (Schnabel et al., ICML 2016)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.data.interactions import Interactions, check_interactions
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import Estimator
from ipseval.estimators.labels import AOA_POOLED, IPS, SNIPS_POOLED
from ipseval.evaluation._evaluate import evaluate_ranks
from ipseval.evaluation.evaluation import Evaluation
from ipseval.metrics.rating_metrics import RatedPairs, RatingMetric, resolve_rating_metric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import as_float_vector, as_list, check_finite, common_number_type, refuse_masked
from ipseval.utils.ids import align_labels, align_rows, as_ids, find_positions
from ipseval.utils.public import public_function
from ipseval.utils.types import AnyArray, FloatArray, IntervalMethod, LowEss, RngLike

__all__ = ["evaluate_ratings"]


@public_function
def evaluate_ratings(
    models: Mapping[str, Any],
    ratings: Interactions,
    *,
    propensity: Propensity | None = None,
    metrics: Iterable[str | RatingMetric] = ("mae", "mse", "rmse"),
    estimators: Iterable[str | Estimator] | None = None,
    n_pairs: npt.ArrayLike | None = None,
    confidence_level: float = 0.95,
    low_ess: LowEss = "warn",
    interval: IntervalMethod = "normal",
    rng: RngLike = None,
) -> Evaluation:
    """Estimate the error of predicted ratings over all pairs from the pairs that were rated.

    Parameters
    ----------
    models : mapping
        Name -> predictions, in rating points: an (n_users, n_items) array in the order of `ratings.user_ids`,
        `ratings.item_ids`, or a DataFrame with ids as labels; or an (n_ratings,) array, one for each rating.
    ratings : Interactions
        The held-out rated pairs, with their ratings as value.
    propensity : Propensity, optional
        Probability that each pair is rated. Ratings without one are excluded from every estimator and
        counted. If ratings were divided at random into training and held-out ones, it is the P of the
        held-out part: ρP / (1 − (1 − ρ)P) for a pair outside training, with ρ the held-out share.
    metrics : labels, default ("mae", "mse", "rmse")
        "mae", "mse", "rmse".
    estimators : labels or objects, optional
        Default: aoa-pooled and, with a propensity, ips (if the propensity is calibrated) and snips-pooled.
    n_pairs : int or (n_users,) array, optional
        Number of pairs of each user that the average includes; default: the number of items. Pairs that could
        not be held out, such as training pairs, do not count.
    confidence_level : float, default 0.95
        Level of the intervals, in (0, 1).
    low_ess : {"warn", "raise", "nan", "ignore"}, default "warn"
        Treatment of weighted estimates of a small effective sample size, as in `evaluate`.
    interval : {"normal", "percentile", "bca"}, default "normal"
        Method of the intervals, as in `evaluate`.
    rng : int, Generator or None, default None
        Random seed of the bootstrap.

    Returns
    -------
    Evaluation
        In rating points (mse: their square); its positives are the ratings.

    Raises
    ------
    InputError
        For predictions of another shape or not finite, ratings without values, and no ratings.
    PropensityError
        When an estimator lacks its propensity or, for ips, one that is calibrated.

    See Also
    --------
    ipseval.evaluate : Evaluate rankings by held-out positives.

    Notes
    -----
    With δ_ui the loss of a rated pair and P_ui the probability that it is rated,

    ============  ============================
    aoa-pooled    Σ δ_ui / number of ratings
    ips           Σ δ_ui / P_ui / (|U|·|I|)
    snips-pooled  Σ δ_ui / P_ui / Σ 1/P_ui
    ============  ============================

    and rmse is the root of mse. All other estimators average over users first. Users are the independent
    units of the standard errors (delta method).

    References
    ----------
    Schnabel, Swaminathan, Singh, Chandak, Joachims, Recommendations as Treatments: Debiasing Learning and
    Evaluation, ICML 2016, arXiv 1602.05352.

    Examples
    --------
    >>> ratings = Interactions.from_frame(
    ...     pd.DataFrame({"user": [0, 0, 1], "item": [0, 1, 0], "value": [4, 2, 5]}), value="value")
    >>> always = {"always 3": np.full((2, 2), 3.0)}
    >>> evaluate_ratings(always, ratings, metrics=["mae"]).frame["estimate"].item()
    1.3333333333333333
    """
    if not isinstance(models, Mapping) or not models:
        raise InputError('expected models {"name": predictions}, at least one.')
    pairs = _build_rated_pairs(ratings, propensity, n_pairs)
    order = np.argsort(ratings.pair_key)
    ranks = {}
    for model, predictions in models.items():
        errors = _compute_prediction_errors(predictions, ratings, model)[order]
        ranks[model] = RatedPairs.from_validated(**{**vars(pairs), "error": errors})
    if estimators is None:
        estimators = _choose_default_estimators(propensity)
    rating_metrics = []
    for metric in as_list(metrics, "metrics"):
        rating_metrics.append(resolve_rating_metric(metric))

    return evaluate_ranks(
        ranks,
        propensity=propensity,
        metrics=rating_metrics,
        estimators=estimators,
        confidence_level=confidence_level,
        low_ess=low_ess,
        interval=interval,
        rng=rng,
    )


def _choose_default_estimators(propensity: Propensity | None) -> list[str]:
    """Return the labels of the estimators that the propensity allows."""
    if propensity is None:
        return [AOA_POOLED]
    if propensity.is_probability:
        return [AOA_POOLED, IPS, SNIPS_POOLED]
    return [AOA_POOLED, SNIPS_POOLED]


def _build_rated_pairs(
    ratings: Interactions, propensity: Propensity | None, n_pairs: npt.ArrayLike | None
) -> RankedPositives:
    """Return the rated pairs, sorted by user and item, without errors yet."""
    check_interactions(ratings, "ratings", "Interactions.from_frame(frame, value=…)")
    if ratings.value is None:
        raise InputError("the ratings have no value.", advice="Name the column by {value} when they are read")
    if ratings.n_repeats:
        raise InputError(
            f"{ratings.n_repeats} ratings repeat a user–item pair, of one rating each; pass ratings.distinct."
        )
    if propensity is not None and not isinstance(propensity, Propensity):
        raise PropensityError(
            f"propensity must be a Propensity; got {type(propensity).__name__}. A model is fitted first: "
            "KnownPropensity(…).fit(ratings), PowerLawPropensity(…).fit(train)."
        )
    if not len(ratings):
        raise InputError("there is no rating to evaluate.")
    order = np.argsort(ratings.pair_key)
    zeros = np.zeros(len(ratings), dtype=np.int64)
    return RatedPairs.from_validated(
        user=ratings.user[order],
        item=ratings.item[order],
        n_above=zeros,
        n_tied=zeros,
        n_candidates=zeros + ratings.n_items,
        user_ids=ratings.user_ids,
        item_ids=ratings.item_ids,
        gain=ratings.value[order].astype(np.float64),
        candidates="rated pairs",
        error=zeros.astype(np.float64),
        n_pairs=_check_n_pairs(n_pairs, ratings),
    )


def _check_n_pairs(n_pairs: npt.ArrayLike | None, ratings: Interactions) -> FloatArray:
    """Return the number of pairs of each user; raise an error below the ratings or above the items."""
    if n_pairs is None:
        n_pairs = ratings.n_items
    if np.ndim(n_pairs) == 0:
        n_pairs = np.full(ratings.n_users, n_pairs)
    user_counts = as_float_vector(
        "n_pairs", align_labels(n_pairs, ratings.user_ids, "n_pairs"), size=ratings.n_users
    )
    check_finite("n_pairs", user_counts)
    n_wrong = int(((user_counts > ratings.n_items) | (user_counts < ratings.activity)).sum())
    if n_wrong:
        raise InputError(
            f"n_pairs is above the number of items, {ratings.n_items:,}, or smaller than the number of "
            f"ratings, for {n_wrong} users."
        )
    return user_counts


def _compute_prediction_errors(predictions: object, ratings: Interactions, name: str) -> FloatArray:
    """Return predicted − rated, in the order of the ratings."""
    if isinstance(predictions, pd.DataFrame):
        predictions = _align_prediction_frame(predictions, ratings, name)
    refuse_masked(predictions, f"{name}: predictions")
    predictions = align_rows(predictions, f"{name}: predictions")
    array = np.asarray(predictions)
    if array.shape == (ratings.n_users, ratings.n_items):
        array = array[ratings.user, ratings.item]
    elif array.shape != (len(ratings),):
        raise InputError(
            f"{name}: predictions must have shape ({ratings.n_users}, {ratings.n_items}), users × items, "
            f"or ({len(ratings)},), one for each rating; got {array.shape}."
        )
    if array.dtype.kind not in "fiu":
        raise InputError(f"{name}: predictions must be numbers; got {array.dtype}.")
    check_finite(f"{name}: predictions of rated pairs", array)
    assert ratings.value is not None
    return np.asarray(array - ratings.value, dtype=np.float64)


def _align_prediction_frame(frame: pd.DataFrame, ratings: Interactions, name: str) -> AnyArray:
    """Return the values of a users × items frame in the order of the ids; NaN for missing ids."""
    if not (frame.index.is_unique and frame.columns.is_unique):
        raise InputError(f"{name}: row or column labels of the predictions repeat; each id may occur once.")
    coded = frame.set_axis(_encode_prediction_labels(frame.index, ratings.user_ids, name), axis=0)
    coded = coded.set_axis(_encode_prediction_labels(frame.columns, ratings.item_ids, name), axis=1)
    aligned = coded.reindex(index=range(ratings.n_users), columns=range(ratings.n_items))
    return aligned.to_numpy(common_number_type(aligned))


def _encode_prediction_labels(labels: pd.Index, ids: AnyArray, name: str) -> AnyArray:
    """Return the codes of the labels; distinct numbers below 0 for unknown labels."""
    codes = find_positions(as_ids(labels, f"{name}: labels"), ids, f"{name}: labels", strict=False)
    return np.where(codes < 0, -1 - np.arange(codes.size), codes)
