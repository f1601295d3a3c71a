"""Propensities from an impression log: which items each user was shown, how often and at which position."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval.data.impression_log import ImpressionLog
from ipseval.data.reading import read_impressions
from ipseval.errors import DataWarning, IdentificationWarning, InputError, PropensityError
from ipseval.propensity._base import BASES, Basis, Propensity, check_shrinkage, weakest_basis
from ipseval.propensity._examination import ExaminationCurve
from ipseval.utils.checks import check_choice, check_fraction, check_type, warn_user
from ipseval.utils.columns import as_frame
from ipseval.utils.ids import find_positions, same_ids
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import BoolArray, FloatArray, HasIds, IntArray, assign, freeze

NEEDS_LOG = (
    "{model} reads impressions, which interactions do not have. Fit it to an ImpressionLog, or give it one: "
    "{model}(log=…)."
)
NO_PROPENSITY = "the log has no propensities; name their column with propensity=."
NO_IMPRESSIONS = "the log has no impressions; at least one is needed."

# K of a user whose pages are all the same: a user with one page then has the item's propensity.
SMALLEST_SHRINKAGE = 1e-9
# Below this K a policy is called deterministic if it never showed more than this share of pairs.
DETERMINISTIC_SHRINKAGE = 0.05
SMALL_UNSEEN_SHARE = 0.05

# `check_logged` decides on an item only if the skewness of its value is below this, in size.
LARGEST_SKEWNESS = 0.07
# An item whose propensities are all 1 has no variance; less than this is rounding.
SMALLEST_VARIANCE = 1e-9


@public_class
@dataclass(frozen=True, eq=False)
class _ImpressionModel:
    """Base of models that read the impressions of a log, with an optional examination curve."""

    log: Any | None = None  # an ImpressionLog after the checks
    examination: ExaminationCurve | None = None

    def __post_init__(self) -> None:
        if self.log is not None and not isinstance(self.log, ImpressionLog):
            assign(self, log=_read_impression_table(self.log))
        if self.examination is not None:
            check_type("examination", self.examination, ExaminationCurve)

    def _resolve_log(self, train: ImpressionLog | HasIds) -> ImpressionLog:
        """Return the log to fit: `train`, or the log of the model after a check of its ids."""
        if isinstance(train, ImpressionLog):
            return train
        name = type(self).__name__
        if self.log is None:
            raise InputError(NEEDS_LOG.format(model=name))
        log: ImpressionLog = _express_in_universe(self.log, train)
        check_same_universe(log, train, name)
        return log


def _read_impression_table(table: Any) -> ImpressionLog:
    """Return the impressions of a table or a file, or raise `InputError` for other objects."""
    is_readable = isinstance(table, (Mapping, list, str, os.PathLike)) or as_frame(table) is not None
    if not is_readable:
        check_type("log", table, ImpressionLog)
    return read_impressions(table)


def _express_in_universe(log: ImpressionLog, universe: HasIds) -> ImpressionLog:
    """Return impressions over the ids of a split, if these include the ids of the log; else unchanged."""
    if not (hasattr(universe, "user_ids") and hasattr(universe, "item_ids")) or same_ids(log, universe):
        return log
    user_positions = find_positions(log.user_ids, universe.user_ids, "the users of the log", strict=False)
    item_positions = find_positions(log.item_ids, universe.item_ids, "the items of the log", strict=False)
    if (user_positions < 0).any() or (item_positions < 0).any():
        return log
    return replace(
        log,
        user=user_positions[log.user],
        item=item_positions[log.item],
        user_ids=universe.user_ids,
        item_ids=universe.item_ids,
    )


@public_class
@dataclass(frozen=True, eq=False)
class ImpressionPropensity(_ImpressionModel):
    """Estimate the probability that a pair was shown and examined at least once, from impressions.

    Items that were never shown have no propensity.

    Parameters
    ----------
    log : ImpressionLog, data frame or path, optional
        The impressions behind the test positives; not needed where `fit` is given them.
    examination : ExaminationCurve, optional
        θ by position.
    shrinkage : "fit" or float > 0, default "fit"
        K of the notes.

    See Also
    --------
    LoggedPropensity : Use the propensities that the policy logged.
    ExaminationModel : Fit the examination curve.

    Notes
    -----
    With θ the examination of each impression (1 without a curve), n_u the slates of user u,
    s_i = Σ_u Σ θ / Σ_u n_u the probability per slate that item i is shown and examined, and t_ui the
    examinations of the pair, Σ over its slates of the probability that it was examined there:

    * e_ui = (t_ui (x_ui − 1)/x_ui + K s_i) / (n_u − 1 + K) for a pair shown in x_ui ≥ 1 slates;
    * e_ui = K s_i / (n_u + K) for a pair that was not shown;
    * P_ui = 1 − (1 − e_ui)^{n_u}.

    One slate is left out, because a positive was shown at least once, so that its own impressions overstate
    the propensity. e_ui is the prediction from the remaining slates of the user and the item, with a beta
    distribution around s_i.

    K = ∞ uses the item's probability only, for logs whose policy does not depend on the user. "fit" estimates
    from repetitions how much more often than by chance a user is shown the same items again:
    K = (1 − ρ)/ρ with their intra-class correlation ρ, and ∞ where no user has two slates. Knowledge of the
    policy about a user that appears in none of the remaining slates is not corrected, least of all where the
    policy is deterministic, and ρ is 1. P_ui is then too small for items that suit the user, and the weighted
    estimates of a recommender that lists such items are too high.

    `evaluate` checks this for each recommender. The pairs (u, i) of its listed items satisfy
    E[Σ θ_ui/P_ui] = number of pairs, with the sum over those that were shown, and θ_ui the probability that the pair
    was examined, 1 without a curve. The result warns in the line *Sanity* if the sum is above 1.5 or below 0.67 times
    this number, also in relation to all pairs, and if it is more than four standard errors away. The check needs a
    split in time, the impressions of its test part as `log`, at least 50 users with lists, and lists or scores; ranks
    and functions are not checked. It has little power for items that were rarely shown.

    Slates are the log's queries, else the distinct times of a user, else one per user.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": ["a", "a", "b", "c"], "item": [1, 2, 1, 1], "clicked": [1, 0, 0, 1]})
    >>> ImpressionPropensity().fit(ImpressionLog.from_frame(frame)).item.round(3)
    array([1.   , 0.333])
    """

    shrinkage: float | Literal["fit"] = "fit"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.shrinkage != np.inf:
            check_shrinkage(self.shrinkage)

    def fit(self, train: Any) -> Propensity:
        """Estimate the propensity of the pairs of an impression log.

        Parameters
        ----------
        train : ImpressionLog, or an object with its ids
            With `log` in the constructor anything with the same ids, such as `split.train`.

        Returns
        -------
        Propensity
            One value per item where no value depends on the user, else a function of pairs.

        Raises
        ------
        InputError
            Without an exposure log or an impression, and for a curve that lacks positions of the log.
        PropensityError
            When the ids are not those of the log.

        Warns
        -----
        IdentificationWarning
            Where K < 0.05 is fitted, and more than 5% of pairs were never shown.
        """
        log = self._resolve_log(train)
        counts = PairCounts.from_log(log, self.examination)
        shrinkage = _fit_shrinkage(counts) if self.shrinkage == "fit" else float(self.shrinkage)
        active_slates = counts.n_slates[counts.n_slates > 0]
        unseen_share = 1 - counts.pair_key.size / (active_slates.size * log.n_items)
        if shrinkage < DETERMINISTIC_SHRINKAGE and unseen_share > SMALL_UNSEEN_SHARE:
            warn_user(
                f"users are shown the same items again on every page, and {unseen_share:.0%} of pairs were "
                "never shown: a deterministic policy. Weights cannot correct for pairs that it never shows.",
                IdentificationWarning,
                advice="Use ipseval.correct(…, interactions=…), whose intervals account for them",
                shell_advice="Use `ipseval correct … --interactions FILE`, whose intervals account for them",
            )
        if shrinkage == np.inf:
            model = "from impressions, by item"
        else:
            model = (
                f"from impressions, K = {shrinkage:.3g} (the item's rate over all users counts as K visits)"
            )

        all_users_are_active = active_slates.size == counts.n_slates.size
        all_users_are_equal = all_users_are_active and (active_slates == active_slates[0]).all()
        if shrinkage == np.inf and all_users_are_equal:
            probability = 1 - (1 - counts.item_rate) ** active_slates[0]
            return Propensity(
                item=np.where(probability > 0, probability, np.nan),
                is_probability=True,
                model=model,
                n_items=log.n_items,
                item_ids=log.item_ids,
                basis="fitted",
            )
        return Propensity(
            item=None,
            is_probability=True,
            model=model,
            n_items=log.n_items,
            function=_ExposureProbability(
                pair_key=counts.pair_key,
                repeat_examinations=counts.repeat_examinations,
                item_rate=counts.item_rate,
                n_slates=counts.n_slates,
                shrinkage=shrinkage,
            ),
            item_ids=log.item_ids,
            user_ids=log.user_ids,
            basis="fitted",
        )


@public_class
@dataclass(frozen=True, eq=False)
class LoggedPropensity(_ImpressionModel):
    """Compute the probability that a pair was shown and examined at least once, from logged propensities.

    Parameters
    ----------
    log : ImpressionLog, data frame or path, optional
        With propensities; not needed where `fit` is given it.
    examination : ExaminationCurve, optional
        θ by position.
    basis : {"logged", "design", "exposure", "fitted", "assumed"}, default "logged"
        "design": the policy drew at random with the logged propensities, and could draw every pair that
        counts. A verdict then relies on them, unless an examination curve was fitted.

    See Also
    --------
    check_logged : Check the logged propensities against the impressions.
    ImpressionPropensity : Estimate the propensities where none were logged.

    Notes
    -----
    P_ui = 1 − (1 − p̄ θ̄)^{n_u}, with the mean logged propensity p̄ and examination θ̄ of the pair's impressions
    and n_u the slates of the user. A logged propensity is the probability that the item is anywhere in the
    slate, not at its position. It assumes that the policy's probability for a pair is the same in all
    slates of a user, and is exact where every user has one slate.

    Unless `basis` is "design", `evaluate` warns where the listed items of a recommender were shown too often for these
    propensities, as in the notes of `ImpressionPropensity`.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": ["a", "b"], "item": [1, 1], "clicked": [1, 0], "p": [0.5, 0.25]})
    >>> log = ImpressionLog.from_frame(frame, propensity="p")
    >>> LoggedPropensity().fit(log).for_pairs(np.array([0, 1]), np.array([0, 0]))
    array([0.5 , 0.25])
    """

    basis: Basis = "logged"

    def __post_init__(self) -> None:
        check_choice("basis", self.basis, BASES)
        super().__post_init__()

    def fit(self, train: Any) -> Propensity:
        """Compute the propensity of the pairs that were shown.

        Parameters
        ----------
        train : ImpressionLog, or an object with its ids
            As in `ImpressionPropensity.fit`.

        Returns
        -------
        Propensity
            One value per pair with impressions.

        Raises
        ------
        InputError
            Without an exposure log.
        PropensityError
            For a log without propensities, or with other ids.
        """
        log = self._resolve_log(train)
        counts = PairCounts.from_log(log, self.examination)
        if log.propensity is None:
            raise PropensityError(NO_PROPENSITY)
        theta = _compute_examination(log, self.examination)
        _, pair_codes, n_impressions = np.unique(log.pair_key, return_inverse=True, return_counts=True)
        slate_probability = np.bincount(pair_codes, log.propensity * theta) / n_impressions
        n_slates = counts.n_slates[counts.pair_key // log.n_items]
        basis = self.basis
        if self.examination is not None:
            basis = weakest_basis(basis, "logged")
        return Propensity(
            item=None,
            is_probability=True,
            model="logged by the policy",
            n_items=log.n_items,
            pair=1 - (1 - slate_probability) ** n_slates,
            pair_key=counts.pair_key,
            item_ids=log.item_ids,
            user_ids=log.user_ids,
            basis=basis,
        )


def check_same_universe(log: ImpressionLog, split: HasIds, model: str) -> None:
    """Raise unless a log and a split have the same users and items in the same order."""
    for name in ("user_ids", "item_ids"):
        if not hasattr(split, name):
            raise InputError(
                f"{model}.fit takes an ImpressionLog or a split's train; got {type(split).__name__}."
            )
        if not np.array_equal(getattr(log, name), getattr(split, name)):
            raise PropensityError(
                f"the {name} of the exposure log are not those of the split. Split log.positives, or read "
                "the log with users=split.user_ids, items=split.item_ids, unknown='drop'."
            )


@dataclass(frozen=True, eq=False)
class PairCounts:
    """Impressions of a log, counted by user–item pair."""

    pair_key: IntArray  # (n_pairs,) distinct user * n_items + item, ascending
    examination: FloatArray  # 1 − Π(1 − θ) over the impressions of the pair
    repeat_examinations: FloatArray  # t (x − 1)/x: expected examinations in all but one of its x slates
    clicked: BoolArray  # whether any impression was clicked
    n_pair_slates: FloatArray  # x, number of slates with the pair, at most n_u
    item_rate: FloatArray  # (n_items,) s_i, expected examinations of the item per slate
    n_slates: IntArray  # (n_users,) n_u

    def __post_init__(self) -> None:
        freeze(self, "pair_key", "examination", "repeat_examinations", "clicked")
        freeze(self, "n_pair_slates", "item_rate", "n_slates")

    @classmethod
    def from_log(cls, log: ImpressionLog, examination: ExaminationCurve | None = None) -> PairCounts:
        """Count the impressions of a log."""
        if len(log) == 0:
            raise InputError(NO_IMPRESSIONS)
        theta = _compute_examination(log, examination)
        slate = number_slates(log)
        n_codes = np.int64(slate.max() + 1)

        # First by pair and slate, then by pair: an item may appear twice in one slate.
        cell_key, cell_codes = np.unique(log.pair_key * n_codes + slate, return_inverse=True)
        with np.errstate(divide="ignore"):
            log_not_examined = np.bincount(cell_codes, np.log1p(-theta))  # log 0 where θ = 1
        pair_key, pair_codes, n_pair_slates = np.unique(
            cell_key // n_codes, return_inverse=True, return_counts=True
        )
        cell_examinations = -np.expm1(log_not_examined)
        with np.errstate(invalid="ignore"):
            pair_examination = -np.expm1(np.bincount(pair_codes, log_not_examined))
        pair_examinations = np.bincount(pair_codes, cell_examinations)

        user_slates = np.unique(log.user * n_codes + slate) // n_codes
        n_slates = np.bincount(user_slates, minlength=log.n_users)
        cell_item = pair_key[pair_codes] % log.n_items
        item_examinations = np.bincount(cell_item, cell_examinations, minlength=log.n_items)
        n_clicks = np.bincount(np.searchsorted(pair_key, log.pair_key), log.clicked)
        return cls(
            pair_key=pair_key,
            examination=pair_examination,
            repeat_examinations=pair_examinations * (n_pair_slates - 1) / n_pair_slates,
            clicked=n_clicks > 0,
            n_pair_slates=n_pair_slates.astype(float),
            item_rate=item_examinations / n_slates.sum(),
            n_slates=n_slates,
        )


def number_slates(log: ImpressionLog) -> IntArray:
    """Return the number of the slate of each row, (n,): of its query, else of its time, else 0."""
    number = log.query if log.query is not None else log.timestamp
    if number is None:
        return np.zeros(len(log), dtype=np.int64)
    return np.unique(number, return_inverse=True)[1].astype(np.int64)


def _compute_examination(log: ImpressionLog, examination: ExaminationCurve | None) -> FloatArray:
    """Return θ of each impression, 1 without a curve."""
    if examination is None:
        return np.ones(len(log))
    if log.position is None:
        raise InputError("an examination curve needs the log's positions; name their column with position=.")
    return examination.for_positions(log.position)


def _fit_shrinkage(counts: PairCounts) -> float:
    """Return K = (1 − ρ)/ρ, ρ the intra-class correlation of showing an item again to the same user."""
    # Moments of the number x of a user's n slates with the item, over all pairs, shown or not: E x(x − 1) =
    # n(n − 1)(s² + ρ s(1 − s)).
    n_slates = counts.n_slates.astype(float)
    n_slate_pairs = (n_slates * (n_slates - 1)).sum()
    if n_slate_pairs == 0:
        return np.inf
    n_items = counts.item_rate.size
    item_slates = np.bincount(counts.pair_key % n_items, counts.n_pair_slates, minlength=n_items)
    item_share = item_slates / n_slates.sum()
    repetition = (counts.n_pair_slates * (counts.n_pair_slates - 1)).sum() / n_slate_pairs
    share_variance = (item_share * (1 - item_share)).sum()
    if share_variance <= 0:
        return np.inf
    rho = (repetition - (item_share**2).sum()) / share_variance
    if rho <= 0:
        return np.inf
    return max(float((1 - rho) / rho), SMALLEST_SHRINKAGE)


@dataclass(frozen=True, eq=False)
class _ExposureProbability:
    """P_ui of pairs on request, predicted from the remaining slates of the user and of the item."""

    pair_key: IntArray
    repeat_examinations: FloatArray
    item_rate: FloatArray
    n_slates: IntArray
    shrinkage: float

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        n_slates = self.n_slates[user].astype(float)
        rate = self.item_rate[item]
        if self.shrinkage < np.inf:
            keys = user * np.int64(self.item_rate.size) + item
            rows = np.minimum(np.searchsorted(self.pair_key, keys), self.pair_key.size - 1)
            is_shown = self.pair_key[rows] == keys
            repeat_examinations = np.where(is_shown, self.repeat_examinations[rows], 0.0)
            rate = (repeat_examinations + self.shrinkage * rate) / (n_slates - is_shown + self.shrinkage)
        with np.errstate(divide="ignore"):  # log 0 where every slate shows the item
            probability = -np.expm1(n_slates * np.log1p(-rate))
        return np.where(probability > 0, probability, np.nan)


@public_function
def check_logged(log: ImpressionLog, *, significance: float = 0.01) -> pd.DataFrame:
    """Check whether items were shown as often as the logged propensities state.

    Parameters
    ----------
    log : ImpressionLog
        With propensities: the probability that the item is anywhere in the slate, which `LoggedPropensity`
        needs. For probabilities of the item at its position, which `evaluate_policies` needs, pass the rows
        of one position at a time: `log.select(log.position == 1)`.
    significance : float, default 0.01
        In (0, 1).

    Returns
    -------
    DataFrame
        One row for each check. Columns check, item (id, or missing), value, expected, std_error, z, passes
        (missing where the log is too small to decide).

    Raises
    ------
    PropensityError
        For a log without propensities.

    Warns
    -----
    DataWarning
        If items with less than half of the impressions have a decision.

    See Also
    --------
    LoggedPropensity : Propensities of user–item pairs from the logged ones.

    Notes
    -----
    With p the propensity of an item that is shown in one of T slates, and a policy that gives the item a
    chance in each slate:

    * "item": Σ 1/p over the slates that show the item, divided by T, is 1;
    * "sum": the mean over slates of Σ 1/p, over the items with a decision, is the number of these items.

    Both hold in expectation for correct propensities, because a slate shows the item with probability p. A
    value below 1 means that p is too large, or that the item could not be shown in some slates. Values near
    the number of positions mean that p is the probability of a position.

    z is the distance in standard errors. Slates are independent given their propensities, so the variance of
    an item's value is (m − 1)/T, with m the mean of 1/p over all slates, estimated by Σ 1/p² / Σ 1/p. `passes` is
    whether |z| stays below the normal quantile of `significance`, divided by the number of items with a
    decision for "item" rows.

    The normal distribution fits badly if an item was rarely shown, or if its p differs much between slates.
    Therefore an item has a decision only if the skewness of its value is below 0.07 in size; for a small and
    constant p, this takes 200 expected showings. "sum" has none if no item has one. In simulated logs with
    exact propensities, "sum" or an item failed in 0% to 5% of logs, nominally in 2%.

    Slates are the log's queries, else the distinct times of a user, else one per user. An item that is twice
    in a slate counts once, with the mean of its p.

    Examples
    --------
    >>> frame = pd.DataFrame({"user": range(4), "item": [1, 1, 2, 2], "clicked": 0, "p": 0.5})
    >>> checks = check_logged(ImpressionLog.from_frame(frame, propensity="p"))
    >>> checks[["check", "value", "expected", "passes"]]
      check  value  expected  passes
    0   sum    2.0       2.0    True
    1  item    1.0       1.0    True
    2  item    1.0       1.0    True
    """
    check_type("log", log, ImpressionLog)
    check_fraction("significance", significance)
    if log.propensity is None:
        raise PropensityError(NO_PROPENSITY)
    if len(log) == 0:
        raise InputError(NO_IMPRESSIONS)
    slate = number_slates(log)
    slate_key = log.user * np.int64(slate.max() + 1) + slate
    slate_codes = np.unique(slate_key, return_inverse=True)[1].astype(np.int64)
    n_slates = int(slate_codes.max()) + 1
    cell_key, cell_codes, n_rows = np.unique(
        slate_codes * log.n_items + log.item, return_inverse=True, return_counts=True
    )
    weight = n_rows / np.bincount(cell_codes, log.propensity)
    items, item_codes = np.unique(cell_key % log.n_items, return_inverse=True)

    item_checks = _check_items(item_codes, weight, n_slates, significance)
    has_decision = item_checks["passes"].notna().to_numpy()
    is_counted = has_decision[item_codes]
    if is_counted.mean() < 0.5:
        warn_user(
            f"check_logged can decide for {int(has_decision.sum()):,} of {has_decision.size:,} items, with "
            f"{is_counted.mean():.0%} of the impressions. The other items were shown too rarely, or their propensities "
            "differ too much between users, so that a wrong column can remain undetected. Compare the propensities "
            "with what the service does, such as with lists that it draws again.",
            category=DataWarning,
        )
    slate_sums = np.bincount((cell_key // log.n_items)[is_counted], weight[is_counted], minlength=n_slates)
    sum_check = _check_sum(slate_sums, int(has_decision.sum()), significance)

    item_checks.insert(0, "item", log.item_ids[items].astype(object))
    item_checks.insert(0, "check", "item")
    sum_check.insert(0, "item", None)
    sum_check.insert(0, "check", "sum")
    return pd.concat([sum_check, item_checks], ignore_index=True)


def _check_items(
    item_codes: IntArray, weight: FloatArray, n_slates: int, significance: float
) -> pd.DataFrame:
    """Return the check of each item, from the weights 1/p of the slates that show it."""
    weight_sum = np.bincount(item_codes, weight)
    mean_weight = np.bincount(item_codes, weight**2) / weight_sum  # over all slates, shown or not
    mean_square = np.bincount(item_codes, weight**3) / weight_sum
    variance = mean_weight - 1
    std_error = np.sqrt(variance / n_slates)
    third_moment = mean_square - 3 * mean_weight + 2
    has_variance = variance > SMALLEST_VARIANCE
    skewness = np.zeros(variance.size)
    skewness[has_variance] = third_moment[has_variance] / variance[has_variance] ** 1.5 / np.sqrt(n_slates)
    has_decision = np.abs(skewness) < LARGEST_SKEWNESS
    n_decisions = max(int(has_decision.sum()), 1)
    return _compare_with_expected(
        value=weight_sum / n_slates,
        expected=np.ones(weight_sum.size),
        std_error=std_error,
        has_decision=has_decision,
        significance=significance / n_decisions,
    )


def _check_sum(slate_sums: FloatArray, n_items: int, significance: float) -> pd.DataFrame:
    """Return the check of the sum of weights, from the sum of each slate over `n_items` items; NaN for none."""
    value = slate_sums.mean()
    std_error = slate_sums.std() / np.sqrt(slate_sums.size)
    figures = np.array([[value], [n_items], [std_error]], dtype=float)
    if n_items == 0:
        figures[:] = np.nan
    return _compare_with_expected(
        value=figures[0],
        expected=figures[1],
        std_error=figures[2],
        has_decision=np.array([n_items > 0]),
        significance=significance,
    )


def _compare_with_expected(
    *,
    value: FloatArray,
    expected: FloatArray,
    std_error: FloatArray,
    has_decision: BoolArray,
    significance: float,
) -> pd.DataFrame:
    """Return the columns of checks whose values have known expectations."""
    # Equal weights have no variance: what is left of it is rounding.
    z_without_error = np.where(np.abs(value - expected) <= 1e-6 * expected, 0.0, np.inf)
    has_no_error = std_error <= 1e-9 * expected
    with np.errstate(divide="ignore", invalid="ignore"):
        z = np.where(has_no_error, z_without_error, (value - expected) / std_error)
    passes = pd.array(np.abs(z) <= ndtri(1 - significance / 2), dtype="boolean")
    passes[~has_decision] = pd.NA
    return pd.DataFrame(
        {"value": value, "expected": expected, "std_error": std_error, "z": z, "passes": passes}
    )
