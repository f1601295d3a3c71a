"""The propensity from repeats: how often pairs of one period are met again in the next."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import expit

from ipseval._keys import among
from ipseval._logistic import fit_logistic
from ipseval._types import FloatArray
from ipseval.errors import InputError, PropensityError
from ipseval.interactions import Interactions, check_interactions
from ipseval.propensity._base import Propensity
from ipseval.propensity._common import check_shrinkage

# Of the prior of the regression: all but flat, and N(0, 1) for the bend, which few repeats do not tell.
PRECISION = np.array([1e-3, 1e-3, 1.0])


@dataclass(frozen=True)
class RecaptureFit:
    """What the repeats gave.

    Attributes
    ----------
    n_pairs, n_again : int
        Pairs of the first period, and those of them that the second one holds, too.
    shrinkage : float
        K; inf: items of one popularity differ no more than chance would have them.
    """

    n_pairs: int
    n_again: int
    shrinkage: float

    def __repr__(self) -> str:
        share = self.n_again / self.n_pairs
        return (
            f"RecaptureFit({self.n_again:,} of {self.n_pairs:,} pairs met again, {share:.1%}; "
            f"K = {self.shrinkage:.3g})"
        )


@dataclass(frozen=True, eq=False)
class RecapturePropensity:
    """P_i = (m_i + K λ_i)/(n_i + K): capture and recapture of relevant pairs, for logs with repeats.

    n_i users took item i in the first period, and m_i of them took it again in the second. All n_i are known
    to like it, so that m_i/n_i is the chance that a relevant pair is observed in the second period, on its
    true scale (Lincoln and Petersen). It is shrunk to λ_i, a logistic
    regression on log(n_i + ½) and its square, with the weight of K pairs. No random exposure is needed.

    **Condition.** Given the item, the periods must be independent: a user who took it once meets it again
    with the chance of any user who likes it. Where what is liked most is met most, by personal
    recommendation, taste or habit, the pairs of the first period are those that are met more easily. P is
    too high then, above all of rare items, and too little is corrected. Nothing in the log shows it.

    Parameters
    ----------
    again : Interactions
        All interactions of the second period, those with pairs of the first included, over the ids of the
        training log. New pairs of it are what may be held out: `Split.from_frames(first, second)`.
    shrinkage : "fit" or float
        K > 0; "fit": by moments, (1 − ρ)/ρ with ρ = Σ((m_i − n_i λ_i)² − v_i)/Σ(n_i − 1) v_i and
        v_i = n_i λ_i (1 − λ_i).

    References
    ----------
    Seber 1982, The Estimation of Animal Abundance, ch. 3.

    Examples
    --------
    >>> import pandas as pd
    >>> users = pd.DataFrame({"user": range(8), "item": "waltz"})
    >>> train = Interactions.from_frame(users)
    >>> met_again = train.select(train.user < 2)
    >>> RecapturePropensity(met_again).fit(train).item.round(2)
    array([0.25])
    """

    again: Interactions
    shrinkage: float | Literal["fit"] = "fit"

    def __post_init__(self) -> None:
        check_interactions(self.again, "again")
        check_shrinkage(self.shrinkage)

    def fit(self, train: Interactions) -> Propensity:
        """Return the propensity of every item in the second period; `train` is the first.

        Raises
        ------
        PropensityError
            When the periods have other ids.
        InputError
            When no pair of the first period is met again, or all are: then P is not known.
        """
        check_interactions(train, "train", "split.train")
        for side in ("user", "item"):
            if not np.array_equal(getattr(train, f"{side}_ids"), getattr(self.again, f"{side}_ids")):
                raise PropensityError(f"again and the training log must have the same {side} ids, in order.")
        first = train.distinct
        met = among(first.pair_key, self.again.pair_key)
        if not met.any() or met.all():
            raise InputError(
                f"{int(met.sum()):,} of {met.size:,} pairs of the training log are met again; capture and "
                "recapture needs some that are and some that are not. Pass all interactions of the second "
                "period as again=, with those that repeat."
            )
        taken = np.bincount(first.item, minlength=train.n_items).astype(np.float64)
        again = np.bincount(first.item[met], minlength=train.n_items).astype(np.float64)
        chance = _by_popularity(taken, again)
        amount = _amount(taken, again, chance) if self.shrinkage == "fit" else float(self.shrinkage)
        item = chance if np.isinf(amount) else (again + amount * chance) / (taken + amount)
        fit = RecaptureFit(int(met.size), int(met.sum()), amount)
        name = f"recapture of {fit.n_pairs:,} pairs"
        return Propensity(item, True, name, train.n_items, popularity=taken, fit=fit, item_ids=train.item_ids)


def _by_popularity(taken: FloatArray, again: FloatArray) -> FloatArray:
    """Return the chance of every item by its popularity."""
    x = np.log(taken + 0.5)
    x = (x - x.mean()) / (float(x.std()) or 1.0)
    design = np.column_stack([np.ones_like(x), x, x**2])
    both, weight = np.concatenate([design, design]), np.concatenate([again, taken - again])
    y = np.arange(weight.size) < taken.size
    return np.asarray(expit(design @ fit_logistic(both, y, weight, np.zeros(3), PRECISION)))


def _amount(taken: FloatArray, again: FloatArray, chance: FloatArray) -> float:
    """Return K by moments; inf where items vary no more than chance would have them."""
    noise = taken * chance * (1 - chance)
    extra = float(((again - taken * chance) ** 2 - noise).sum())
    room = float((np.maximum(taken - 1, 0) * noise).sum())
    share = min(extra / room, 1.0) if room > 0 else 0.0
    return max((1 - share) / share, 1e-6) if share > 0 else np.inf
