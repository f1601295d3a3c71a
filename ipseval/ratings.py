"""Evaluation of predicted ratings when users choose what they rate (Schnabel et al., ICML 2016)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval._checks import check_choice, check_finite, check_fraction, counted, number_type, refuse_masked
from ipseval._ids import as_ids, places
from ipseval._types import AnyArray, FloatArray
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import IPS, UserSums, rating_claim
from ipseval.estimators import RATING_ESTIMATORS as ESTIMATORS
from ipseval.inference import effective_sample_size, normal_interval
from ipseval.interactions import Interactions, check_interactions
from ipseval.metrics import RatingMetric, rating_metric
from ipseval.propensity import Propensity

COLUMNS = (
    "model",
    "metric",
    "estimator",
    "estimate",
    "std_error",
    "ci_low",
    "ci_high",
    "n_users",
    "n_ratings",
    "ess",
    "max_weight_share",
    "claim",
    "note",
)


def evaluate_ratings(
    models: Mapping[str, Any],
    ratings: Interactions,
    *,
    propensity: Propensity | None = None,
    metrics: Iterable[str | RatingMetric] = ("mae", "mse", "rmse"),
    estimators: Iterable[str] | None = None,
    n_pairs: npt.ArrayLike | None = None,
    confidence_level: float = 0.95,
) -> pd.DataFrame:
    """Return the error of predicted ratings over all pairs, estimated from the pairs that were rated.

    With δ_ui the loss of a rated pair and P_ui its chance of being rated,

        naive         Σ δ_ui / number of ratings
        ips           Σ δ_ui / P_ui / (|U|·|I|)
        snips-pooled  Σ δ_ui / P_ui / Σ 1/P_ui

    and rmse is the root of mse. Users are the independent units of the standard errors (delta method).

    Parameters
    ----------
    models : mapping
        Name -> predictions, in rating points: an (n_users, n_items) array in the order of `ratings.user_ids`,
        `ratings.item_ids`, or a DataFrame with ids as labels; or an (n_ratings,) array, one for each rating.
    ratings : Interactions
        The rated pairs that were held out, with their ratings as value.
    propensity : Propensity, optional
        Chance of each pair to be rated. Ratings without one leave every estimator and are counted. For
        ratings that were split at random from a log, P of the held-out part: of a pair that is not in
        training, ρP / (1 − (1 − ρ)P) with ρ the share held out.
    metrics : labels
        "mae", "mse", "rmse".
    estimators : labels
        "naive", "ips", "snips-pooled"; default: all that the propensity allows.
    n_pairs : int or (n_users,) array, optional
        Number of pairs of each user that the average is over; default: the number of items. Pairs that could
        not be held out, such as training pairs, do not count.
    confidence_level : float
        In (0, 1).

    Returns
    -------
    DataFrame
        One row per model, metric and estimator: estimate, std_error, ci_low, ci_high in rating points (mse:
        their square), n_users, n_ratings, ess and max_weight_share of the weights, claim, note.

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
    >>> evaluate_ratings({"always 3": np.full((2, 2), 3.0)}, ratings, metrics=["mae"])["estimate"].item()
    1.3333333333333333
    """
    check_fraction("confidence_level", confidence_level)
    sample = _sample(ratings, propensity, n_pairs)
    chosen = _estimators(estimators, propensity)
    parsed = [
        rating_metric(one) for one in ([metrics] if isinstance(metrics, (str, RatingMetric)) else metrics)
    ]
    if not isinstance(models, Mapping) or not models or not parsed:
        raise InputError('expected models {"name": predictions}, and at least one metric.')
    rows = []
    for name, predictions in models.items():
        error = sample.errors(predictions, name)
        for one in parsed:
            loss = np.asarray(one.loss(error), dtype=np.float64)
            for estimator in chosen:
                value, std_error = _estimate(sample, loss, estimator, root=one.root)
                low, high = normal_interval(value, std_error, confidence_level=confidence_level)
                weights = np.ones(loss.size) if estimator == "naive" else sample.weights
                rows.append(
                    (
                        *(name, one.label, estimator, value, std_error, low, high),
                        *(_n_users(sample, estimator), loss.size),
                        *(effective_sample_size(weights), float(weights.max() / weights.sum())),
                        *(str(rating_claim(one, estimator)), sample.note),
                    )
                )
    return pd.DataFrame(rows, columns=list(COLUMNS))


@dataclass(frozen=True, eq=False)
class _RatedPairs:
    """Ratings that have a propensity, with their weights 1/P and the number of pairs of each user."""

    ratings: Interactions
    kept: npt.NDArray[np.bool_]
    weights: FloatArray
    n_pairs: FloatArray

    @property
    def note(self) -> str:
        left_out = int((~self.kept).sum())
        return f"{counted(left_out, 'rating')} without a propensity left out" if left_out else ""

    def errors(self, predictions: Any, name: str) -> FloatArray:
        """Return predicted − rated of the kept ratings."""
        ratings = self.ratings
        if isinstance(predictions, pd.DataFrame):
            predictions = _by_labels(predictions, ratings, name)
        refuse_masked(predictions, f"{name}: predictions")
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
        return np.asarray((array - ratings.value)[self.kept], dtype=np.float64)

    def by_user(self, values: FloatArray) -> FloatArray:
        """Return the sum over each user's kept ratings, (n_users,)."""
        user = self.ratings.user[self.kept]
        return np.bincount(user, weights=values, minlength=self.ratings.n_users).astype(np.float64)


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


def _sample(
    ratings: Interactions, propensity: Propensity | None, n_pairs: npt.ArrayLike | None
) -> _RatedPairs:
    check_interactions(ratings, "ratings", "Interactions.from_frame(frame, value=…)")
    if ratings.value is None:
        raise InputError("the ratings have no value; name the column with value= when they are read.")
    kept = np.ones(len(ratings), dtype=bool)
    chance: FloatArray = np.ones(len(ratings))
    if propensity is not None:
        if not isinstance(propensity, Propensity):
            raise PropensityError(
                f"propensity must be a Propensity; got {type(propensity).__name__}. A model is fitted first: "
                "KnownPropensity(…).fit(ratings), PowerLawPropensity(…).fit(train)."
            )
        propensity.check_ids(ratings)
        chance = propensity.at(ratings.user, ratings.item)
        kept = ~np.isnan(chance)
    if not kept.any():
        raise InputError(f"there is no rating to evaluate; {len(ratings):,} were given.")
    pairs = np.broadcast_to(
        np.asarray(ratings.n_items if n_pairs is None else n_pairs, dtype=np.float64), (ratings.n_users,)
    )
    n_short = int((pairs < np.bincount(ratings.user, minlength=ratings.n_users)).sum())
    if n_short:
        raise InputError(f"n_pairs is smaller than the number of ratings for {n_short} users.")
    return _RatedPairs(ratings, kept, 1 / chance[kept], pairs)


def _estimators(estimators: Iterable[str] | None, propensity: Propensity | None) -> list[Any]:
    if estimators is None:
        if propensity is None:
            return ["naive"]
        return [name for name in ESTIMATORS if name != IPS or propensity.is_probability]
    chosen = [estimators] if isinstance(estimators, str) else list(estimators)
    for name in chosen:
        check_choice("estimators", name, ESTIMATORS)
        if name != "naive" and propensity is None:
            raise PropensityError(f"{name} needs a propensity; pass propensity=, or ask for naive only.")
        if name == IPS and propensity is not None and not propensity.is_probability:
            raise PropensityError(
                "ips divides by the number of pairs and so needs P on the scale of probabilities. This "
                "propensity is known up to a factor only; use snips-pooled, where the factor cancels."
            )
    if not chosen:
        raise InputError("estimators is empty; name at least one.")
    return chosen


def _estimate(sample: _RatedPairs, loss: FloatArray, estimator: str, *, root: bool) -> tuple[float, float]:
    """Return the estimate and its standard error over users."""
    sums = _sums(sample, loss, estimator)
    value, n = sums.value(), sums.n_users
    std_error = float(np.sqrt(np.sum(sums.influence() ** 2) / (n * (n - 1.0)))) if n > 1 else float("nan")
    if not root:
        return value, std_error
    rooted = float(np.sqrt(value))
    # d√R = dR / (2√R); at 0 the root has no derivative.
    return rooted, std_error / (2 * rooted) if rooted > 0 else float("nan")


def _sums(sample: _RatedPairs, loss: FloatArray, estimator: str) -> UserSums:
    rated = np.flatnonzero(sample.by_user(np.ones(loss.size)))
    if estimator == IPS:
        everyone = np.arange(sample.ratings.n_users)
        return UserSums.of(everyone, sample.by_user(loss * sample.weights), sample.n_pairs)
    weights = np.ones(loss.size) if estimator == "naive" else sample.weights
    return UserSums.of(rated, sample.by_user(loss * weights)[rated], sample.by_user(weights)[rated])


def _n_users(sample: _RatedPairs, estimator: str) -> int:
    if estimator == IPS:
        return sample.ratings.n_users
    return int(np.unique(sample.ratings.user[sample.kept]).size)
