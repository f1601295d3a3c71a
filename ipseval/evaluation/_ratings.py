"""Evaluation of predicted ratings when users choose what they rate (Schnabel et al., ICML 2016)."""

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
from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.pipeline import evaluate_ranks
from ipseval.metrics.rating_metrics import RatedPairs, RatingMetric, rating_metric
from ipseval.propensity import Propensity
from ipseval.ranking import RankedPositives
from ipseval.utils.border import guard
from ipseval.utils.checks import as_float_vector, as_list, check_finite, number_type, refuse_masked
from ipseval.utils.ids import as_ids, by_label, by_row, places
from ipseval.utils.types import AnyArray, FloatArray, IntervalMethod, LowEss, RngLike

__all__ = ["evaluate_ratings"]


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
    """Return the error of predicted ratings over all pairs, estimated from the pairs that were rated.

    With δ_ui the loss of a rated pair and P_ui its chance of being rated,

        aoa-pooled    Σ δ_ui / number of ratings
        ips           Σ δ_ui / P_ui / (|U|·|I|)
        snips-pooled  Σ δ_ui / P_ui / Σ 1/P_ui

    and rmse is the root of mse. The other estimators average over users first. Users are the independent
    units of the standard errors (delta method).

    Parameters
    ----------
    models : mapping
        Name -> predictions, in rating points: an (n_users, n_items) array in the order of `ratings.user_ids`,
        `ratings.item_ids`, or a DataFrame with ids as labels; or an (n_ratings,) array, one for each rating.
    ratings : Interactions
        The rated pairs that were held out, with their ratings as value.
    propensity : Propensity, optional
        Chance of each pair to be rated. Ratings without one leave every estimator and are counted. Where
        ratings were divided at random into training and held-out ones, it is the P of the held-out part:
        ρP / (1 − (1 − ρ)P) for a pair outside training, with ρ the share held out.
    metrics : labels
        "mae", "mse", "rmse".
    estimators : labels or objects
        Default: aoa-pooled and, with a propensity, ips (on the scale of probabilities) and snips-pooled.
    n_pairs : int or (n_users,) array, optional
        Number of pairs of each user that the average is over; default: the number of items. Pairs that could
        not be held out, such as training pairs, do not count.
    confidence_level, low_ess, interval, rng
        As in `evaluate`.

    Returns
    -------
    Evaluation
        In rating points (mse: their square); a positive is a rating here.

    Raises
    ------
    InputError
        For predictions of another shape or not finite, ratings without values, no ratings.
    PropensityError
        When an estimator needs a propensity that is not given or, for ips, not on the scale of probabilities.

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
    pairs = _rated_pairs(ratings, propensity, n_pairs)
    order = np.argsort(ratings.pair_key)
    return evaluate_ranks(
        {
            name: RatedPairs.trusted(**{**vars(pairs), "error": _errors(predictions, ratings, name)[order]})
            for name, predictions in models.items()
        },
        propensity=propensity,
        metrics=[rating_metric(one) for one in as_list(metrics, "metrics")],
        estimators=_default(propensity) if estimators is None else estimators,
        confidence_level=confidence_level,
        low_ess=low_ess,
        interval=interval,
        rng=rng,
    )


def _default(propensity: Propensity | None) -> list[str]:
    if propensity is None:
        return [AOA_POOLED]
    return [AOA_POOLED, *([IPS] if propensity.is_probability else []), SNIPS_POOLED]


def _rated_pairs(
    ratings: Interactions, propensity: Propensity | None, n_pairs: npt.ArrayLike | None
) -> RankedPositives:
    """Return the rated pairs, sorted by user and item, without errors yet."""
    check_interactions(ratings, "ratings", "Interactions.from_frame(frame, value=…)")
    if ratings.value is None:
        raise InputError("the ratings have no value; name the column with value= when they are read.")
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
    given = ratings.n_items if n_pairs is None else n_pairs
    one_for_all = np.full(ratings.n_users, given) if np.ndim(given) == 0 else given
    pairs = as_float_vector(
        "n_pairs", by_label(one_for_all, ratings.user_ids, "n_pairs"), size=ratings.n_users
    )
    check_finite("n_pairs", pairs)
    n_wrong = int(((pairs > ratings.n_items) | (pairs < ratings.activity)).sum())
    if n_wrong:
        raise InputError(
            f"n_pairs is above the number of items, {ratings.n_items:,}, or smaller than the number of "
            f"ratings, for {n_wrong} users."
        )
    order, zeros = np.argsort(ratings.pair_key), np.zeros(len(ratings), dtype=np.int64)
    return RatedPairs.trusted(
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
        n_pairs=pairs,
    )


def _errors(predictions: Any, ratings: Interactions, name: str) -> FloatArray:
    """Return predicted − rated, in the order of the ratings."""
    if isinstance(predictions, pd.DataFrame):
        predictions = _by_labels(predictions, ratings, name)
    refuse_masked(predictions, f"{name}: predictions")
    predictions = by_row(predictions, f"{name}: predictions")
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


def _by_labels(frame: pd.DataFrame, ratings: Interactions, name: str) -> AnyArray:
    """Return the values of a users × items frame in the order of the ids; NaN for what it does not hold."""
    if not (frame.index.is_unique and frame.columns.is_unique):
        raise InputError(f"{name}: row or column labels of the predictions repeat; each id may occur once.")
    moved = frame.set_axis(_places(frame.index, ratings.user_ids, name), axis=0)
    moved = moved.set_axis(_places(frame.columns, ratings.item_ids, name), axis=1)
    chosen = moved.reindex(index=range(ratings.n_users), columns=range(ratings.n_items))
    return chosen.to_numpy(number_type(chosen))


def _places(labels: pd.Index, ids: AnyArray, name: str) -> AnyArray:
    """Return the codes of the labels; distinct numbers below 0 for labels that are no ids."""
    codes = places(as_ids(labels, f"{name}: labels"), ids, f"{name}: labels", strict=False)
    return np.where(codes < 0, -1 - np.arange(codes.size), codes)


guard(__name__)
