"""Propensities from impressions: what was shown to whom, how often, and at which place."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ipseval.data.impression_log import ImpressionLog
from ipseval.errors import IdentificationWarning, InputError, PropensityError
from ipseval.propensity._base import BASES, Basis, Propensity, check_shrinkage, weakest_basis
from ipseval.propensity._examination import ExaminationCurve
from ipseval.utils.checks import check_choice, check_fraction, check_type, warn_user
from ipseval.utils.types import FloatArray, HasIds, IntArray, freeze

NEEDS_LOG = (
    "{model} reads impressions, which interactions do not have. Fit it to an ImpressionLog, or give it one: "
    "{model}(log=…)."
)
# K where every page of a user is the same: it leaves a user with one page the item's chance. Below SAME a
# policy is called deterministic, unless the share of pairs that it never showed is slight.
LEAST, SAME, SLIGHT = 1e-9, 0.05, 0.05
NO_PROPENSITY = "the log has no propensities; name their column with propensity=."
NO_IMPRESSIONS = "the log has no impressions; at least one is needed."


@dataclass(frozen=True, eq=False)
class _OfImpressions:
    """A model that reads the impressions of a log, and how likely each place of a page is looked at."""

    log: ImpressionLog | None = None
    examination: ExaminationCurve | None = None

    def __post_init__(self) -> None:
        if self.log is not None:
            check_type("log", self.log, ImpressionLog)
        if self.examination is not None:
            check_type("examination", self.examination, ExaminationCurve)

    def _read(self, train: Any) -> tuple[ImpressionLog, PairCounts]:
        """Return the log to fit, or the model's own, which must have the ids, and its counts by pair."""
        log = train if isinstance(train, ImpressionLog) else self.log
        name = type(self).__name__
        if log is None:
            raise InputError(NEEDS_LOG.format(model=name))
        if log is not train:
            check_same_universe(log, train, name)
        return log, PairCounts.of(log, self.examination)


@dataclass(frozen=True, eq=False)
class ImpressionPropensity(_OfImpressions):
    """The chance that a pair was shown and examined at least once, from the impressions of a log.

    With θ the examination of each impression (1 without a curve), n_u the slates of user u,
    s_i = Σ_u Σ θ / Σ_u n_u the chance per slate that item i is shown and examined, and t_ui the examinations
    of the pair, Σ over its slates of the chance that it was examined there:

    * e_ui = (t_ui (x_ui − 1)/x_ui + K s_i) / (n_u − 1 + K) for a pair shown in x_ui ≥ 1 slates;
    * e_ui = K s_i / (n_u + K) for a pair that was not shown;
    * P_ui = 1 − (1 − e_ui)^{n_u}.

    One showing is left out: a positive was shown at least once, so that its own impressions say too much.
    e_ui is what the other slates of the user and the item predict, with a beta distribution around s_i.

    K = ∞ is the item's chance alone, for logs whose policy does not depend on the user. "fit" reads from the
    repetitions how much more often than by chance a user is shown the same items again: K = (1 − ρ)/ρ with
    their intra-class correlation ρ, and ∞ where no user has two slates. What the policy knows of a user and
    no other slate shows is not corrected: least of all where it is deterministic, and ρ is 1.

    Slates are the log's queries, else the distinct times of a user, else one per user. Items that were
    never shown have no propensity.

    Parameters
    ----------
    log : ImpressionLog, optional
        The impressions behind the test positives; not needed where `fit` is given them.
    examination : ExaminationCurve, optional
        θ by position.
    shrinkage : "fit" or float > 0
        K.

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
        """Return the propensity of the pairs of an exposure log.

        Parameters
        ----------
        train : ImpressionLog, or what has its ids
            With `log` in the constructor anything with the same ids, such as `split.train`.

        Raises
        ------
        InputError
            Without an exposure log or an impression, and for a curve that lacks positions of the log.
        PropensityError
            When the ids are not those of the log.

        Warns
        -----
        IdentificationWarning
            Where K < .05 is fitted, and more than 5% of pairs were never shown.
        """
        log, counts = self._read(train)
        slates = counts.slates[counts.slates > 0]
        amount = _repetition(counts) if self.shrinkage == "fit" else float(self.shrinkage)
        unseen = 1 - counts.pair_key.size / (slates.size * log.n_items)
        if amount < SAME and unseen > SLIGHT:
            warn_user(
                f"users are shown the same items again on every page, and {unseen:.0%} of pairs were never "
                "shown: a deterministic policy. Weights say nothing of what it leaves out; read "
                "ipseval.correct(…, interactions=…), whose intervals account for it.",
                IdentificationWarning,
            )
        model = "from impressions, by item" if amount == np.inf else f"from impressions, K = {amount:.3g}"
        ids: dict[str, Any] = {"n_items": log.n_items, "item_ids": log.item_ids}
        if amount == np.inf and slates.size == counts.slates.size and (slates == slates[0]).all():
            chance = 1 - (1 - counts.rate) ** slates[0]
            return Propensity(np.where(chance > 0, chance, np.nan), True, model, basis="fitted", **ids)
        mixed = _Chance(counts.pair_key, counts.again, counts.rate, counts.slates, amount)
        return Propensity(None, True, model, function=mixed, user_ids=log.user_ids, basis="fitted", **ids)


@dataclass(frozen=True, eq=False)
class LoggedPropensity(_OfImpressions):
    """The chance that a pair was shown and examined at least once, from the log's own propensities.

    P_ui = 1 − (1 − p̄ θ̄)^{n_u}, with the mean logged propensity p̄ and examination θ̄ of the pair's impressions
    and n_u the slates of the user. It rests on the policy's chance for a pair being the same in all slates
    of a user, and is exact where every user has one slate.

    Parameters
    ----------
    log : ImpressionLog, optional
        With propensities; not needed where `fit` is given it.
    examination : ExaminationCurve, optional
        θ by position.
    basis : {"fitted", "design", "exposure", "assumed"}
        "design": the policy drew at random with the logged propensities, and could draw every pair that
        counts. A verdict rests on them then, unless a curve of examination was fitted.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"user": ["a", "b"], "item": [1, 1], "clicked": [1, 0], "p": [0.5, 0.25]})
    >>> log = ImpressionLog.from_frame(frame, propensity="p")
    >>> LoggedPropensity().fit(log).at(np.array([0, 1]), np.array([0, 0]))
    array([0.5 , 0.25])
    """

    basis: Basis = "fitted"

    def __post_init__(self) -> None:
        check_choice("basis", self.basis, BASES)
        super().__post_init__()

    def fit(self, train: Any) -> Propensity:
        """Return the propensity of the shown pairs; see `ImpressionPropensity.fit`.

        Raises
        ------
        InputError
            Without an exposure log.
        PropensityError
            For a log without propensities, or with other ids.
        """
        log, counts = self._read(train)
        if log.propensity is None:
            raise PropensityError(NO_PROPENSITY)
        theta = _examination_of(log, self.examination)
        _, group, shown = np.unique(log.pair_key, return_inverse=True, return_counts=True)
        chance = np.bincount(group, log.propensity * theta) / shown
        slates = counts.slates[counts.pair_key // log.n_items]
        return Propensity(
            None,
            True,
            "logged by the policy",
            log.n_items,
            pair=1 - (1 - chance) ** slates,
            pair_key=counts.pair_key,
            item_ids=log.item_ids,
            user_ids=log.user_ids,
            basis=self.basis if self.examination is None else weakest_basis(self.basis, "fitted"),
        )


def check_same_universe(log: ImpressionLog, other: HasIds, name: str) -> None:
    """Raise unless a log and a split have the same users and items in the same order."""
    for what in ("user_ids", "item_ids"):
        if not hasattr(other, what):
            raise InputError(
                f"{name}.fit takes an ImpressionLog or a split's train; got {type(other).__name__}."
            )
        if not np.array_equal(getattr(log, what), getattr(other, what)):
            raise PropensityError(
                f"the {what} of the exposure log are not those of the split. Split log.positives, or read "
                "the log with users=split.user_ids, items=split.item_ids."
            )


@dataclass(frozen=True, eq=False)
class PairCounts:
    """An exposure log by user–item pair."""

    pair_key: IntArray  # (n_pairs,) distinct user * n_items + item, ascending
    examined: FloatArray  # 1 − Π(1 − θ) over the impressions of the pair
    again: FloatArray  # t (x − 1)/x: expected examinations in its slates but one, of x
    clicked: Any  # whether any impression was clicked
    shown: FloatArray  # number of slates with the pair, at most n_u
    rate: FloatArray  # (n_items,) s_i, expected examinations of the item per slate
    slates: IntArray  # (n_users,) n_u

    def __post_init__(self) -> None:
        freeze(self, "pair_key", "examined", "again", "clicked", "shown", "rate", "slates")

    @classmethod
    def of(cls, log: ImpressionLog, examination: ExaminationCurve | None = None) -> PairCounts:
        """Return the counts of a log."""
        if len(log) == 0:
            raise InputError(NO_IMPRESSIONS)
        theta = _examination_of(log, examination)
        slate = slate_codes(log)
        # First the slates with the pair, then the pair: an item may stand twice on one page.
        size = np.int64(slate.max() + 1)
        cell, row = np.unique(log.pair_key * size + slate, return_inverse=True)
        with np.errstate(divide="ignore"):
            missed = np.bincount(row, np.log1p(-theta))  # log 0 where θ = 1
        key, group, shown = np.unique(cell // size, return_inverse=True, return_counts=True)
        in_slate = -np.expm1(missed)
        slates = np.bincount(np.unique(log.user * size + slate) // size, minlength=log.n_users)
        total = np.bincount(key[group] % log.n_items, in_slate, minlength=log.n_items)
        with np.errstate(invalid="ignore"):
            examined = -np.expm1(np.bincount(group, missed))
        clicked = np.bincount(np.searchsorted(key, log.pair_key), log.clicked) > 0
        again = np.bincount(group, in_slate) * (shown - 1) / shown
        return cls(key, examined, again, clicked, shown.astype(float), total / slates.sum(), slates)


def slate_codes(log: ImpressionLog) -> IntArray:
    """Return the slate of each row, (n,): its query, else its time, else one for all."""
    number = log.query if log.query is not None else log.timestamp
    if number is None:
        return np.zeros(len(log), dtype=np.int64)
    return np.unique(number, return_inverse=True)[1].astype(np.int64)


def _examination_of(log: ImpressionLog, examination: ExaminationCurve | None) -> FloatArray:
    if examination is None:
        return np.ones(len(log))
    if log.position is None:
        raise InputError("an examination curve needs the log's positions; name their column with position=.")
    return examination.at(log.position)


def _repetition(counts: PairCounts) -> float:
    """Return K = (1 − ρ)/ρ, ρ the intra-class correlation of showing an item again to the same user."""
    # Moments of the number x of a user's n slates with the item, over all pairs, shown or not: E x(x − 1) =
    # n(n − 1)(s² + ρ s(1 − s)).
    n = counts.slates.astype(float)
    pairs = (n * (n - 1)).sum()
    if pairs == 0:
        return np.inf
    item = counts.pair_key % counts.rate.size
    s = np.bincount(item, counts.shown, minlength=counts.rate.size) / n.sum()
    again = (counts.shown * (counts.shown - 1)).sum() / pairs
    spread = (s * (1 - s)).sum()
    rho = (again - (s**2).sum()) / spread if spread > 0 else 0.0
    return np.inf if rho <= 0 else max(float((1 - rho) / rho), LEAST)


@dataclass(frozen=True, eq=False)
class _Chance:
    """P_ui of pairs that are asked for: what the other slates of the user and the item predict."""

    pair_key: IntArray
    again: FloatArray
    rate: FloatArray
    slates: IntArray
    shrinkage: float

    def __call__(self, user: IntArray, item: IntArray) -> FloatArray:
        n, each = self.slates[user].astype(float), self.rate[item]
        if self.shrinkage < np.inf:
            key = user * np.int64(self.rate.size) + item
            place = np.minimum(np.searchsorted(self.pair_key, key), self.pair_key.size - 1)
            shown = self.pair_key[place] == key
            again = np.where(shown, self.again[place], 0.0)
            each = (again + self.shrinkage * each) / (n - shown + self.shrinkage)
        with np.errstate(divide="ignore"):  # log 0 where every slate shows the item
            chance = -np.expm1(n * np.log1p(-each))
        return np.where(chance > 0, chance, np.nan)


def check_logged(log: ImpressionLog, *, significance: float = 0.01) -> pd.DataFrame:
    """Return checks of a log's propensities against what it shows, one row for each check.

    With p the propensity of each of T impressions at a position, and a policy that gives every item shown
    there a chance each time:

    * "sum": the mean of 1/p over the impressions is the number of items, as chances sum to 1;
    * "item": the mean of 1/p over all T, counting the impressions of one item, is 1.

    Both hold in expectation for right propensities; z is the distance in standard errors, which treat slates
    as independent. `passes` is whether |z| stays below the normal quantile of `significance`, divided by the
    number of items in the row's position for "item" rows.

    Parameters
    ----------
    log : ImpressionLog
        With propensities of showing the item at its position, given the slate's context.
    significance : float
        In (0, 1).

    Returns
    -------
    DataFrame
        Columns check, position (0: the log has none), item (id, or missing), value, expected, std_error, z,
        passes.

    Raises
    ------
    PropensityError
        For a log without propensities.
    """
    check_type("log", log, ImpressionLog)
    check_fraction("significance", significance)
    if log.propensity is None:
        raise PropensityError(NO_PROPENSITY)
    if len(log) == 0:
        raise InputError(NO_IMPRESSIONS)
    position = np.zeros(len(log), dtype=np.int64) if log.position is None else log.position
    frames = []
    for place in np.unique(position):
        at = position == place
        weight, n = 1 / log.propensity[at], int(at.sum())
        present, code = np.unique(log.item[at], return_inverse=True)
        by_item, squares = np.bincount(code, weight) / n, np.bincount(code, weight**2) / n
        value = np.append(weight.mean(), by_item)
        expected = np.append(float(present.size), np.ones(present.size))
        error = np.sqrt(np.append(weight.var(), np.maximum(squares - by_item**2, 0)) / n)
        # Equal weights have no spread: what is left of it is rounding.
        same = np.where(np.abs(value - expected) <= 1e-6 * expected, 0.0, np.inf)
        with np.errstate(divide="ignore", invalid="ignore"):
            z = np.where(error <= 1e-9 * expected, same, (value - expected) / error)
        level = significance / np.append(1, np.full(present.size, present.size))
        columns = {
            "check": ["sum", *["item"] * present.size],
            "position": int(place),
            "item": np.append([None], log.item_ids[present].astype(object)),
            "value": value,
            "expected": expected,
            "std_error": error,
            "z": z,
            "passes": np.abs(z) <= ndtri(1 - level / 2),
        }
        frames.append(pd.DataFrame(columns))
    return pd.concat(frames, ignore_index=True)
