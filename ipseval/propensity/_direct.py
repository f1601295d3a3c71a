"""Propensities measured item by item on random exposure: P_i = n*_i / (|U| q_i)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from ipseval._checks import check_choice, check_real
from ipseval._types import FloatArray
from ipseval.interactions import Interactions
from ipseval.propensity._base import Propensity
from ipseval.propensity._common import cap, check_same_ids, refuse_unseen
from ipseval.propensity._exposure import Exposure, check_exposure, fit_gamma_from_exposure


@dataclass(frozen=True, eq=False)
class DirectPropensity:
    """P_i = n*_i/(|U| q_i), q_i = (pos_i + K λ_i)/(expo_i + K): no power law, on the scale of probabilities.

    q_i, the share of users who like item i, is estimated from its random exposures and shrunk to the
    power-law fit λ_i with the weight of K exposures.

    Parameters
    ----------
    exposure : Exposure
        Random-exposure sample in the id space of the training log.
    shrinkage : "fit" or float
        K > 0; "fit": by moments, 1/K = Σ((pos_i − μ_i)² − μ_i)/Σ expo_i² λ_i with μ_i = expo_i λ_i; where
        the positives vary no more than chance would have them, q_i = λ_i.
    unseen : {"drop", "raise"}
        Items with n* = 0: no propensity (their positives are left out and counted), or an error.
    """

    exposure: Exposure
    shrinkage: float | Literal["fit"] = "fit"
    unseen: Literal["drop", "raise"] = "drop"

    def __post_init__(self) -> None:
        check_exposure(self.exposure)
        check_choice("unseen", self.unseen, ("drop", "raise"))
        if isinstance(self.shrinkage, str):
            check_choice("shrinkage", self.shrinkage, ("fit",))
        else:
            check_real("shrinkage", self.shrinkage, low=0.0)

    def fit(self, train: Interactions) -> Propensity:
        """Return the propensity of every item.

        Raises
        ------
        InputError
            When the exposure is of another id space, or γ cannot be fitted to it.
        PropensityError
            When an item is unseen under `unseen="raise"`.

        Warns
        -----
        DataWarning
            When values above 1 were set to 1.
        """
        counts = check_same_ids(self.exposure, train)
        refuse_unseen(counts, self.unseen, "unseen='drop'")
        exposed = self.exposure.n_exposed.astype(np.float64)
        liked = self.exposure.n_positive.astype(np.float64)
        line = fit_gamma_from_exposure(counts, exposed, liked, n_users=train.n_users)
        seen = counts > 0
        expected = np.exp(line.slope[0] + line.slope[1] * np.log(np.where(seen, counts, 1.0)))
        strength = self._strength(exposed[seen], liked[seen], expected[seen])
        rate = expected if np.isinf(strength) else (liked + strength * expected) / (exposed + strength)
        item = np.where(seen, counts / (train.n_users * rate), np.nan)
        item, n_capped = cap(item)
        shrunk = "λ itself" if np.isinf(strength) else f"K = {strength:.3g}"
        return Propensity(
            item,
            True,
            f"direct from random exposure, shrunk with {shrunk}",
            counts.size,
            popularity=counts,
            fit=line,
            n_capped=n_capped,
            item_ids=train.item_ids,
        )

    def _strength(self, exposed: FloatArray, liked: FloatArray, rate: FloatArray) -> float:
        if not isinstance(self.shrinkage, str):
            return float(self.shrinkage)
        mean = exposed * rate
        extra = float(((liked - mean) ** 2 - mean).sum())
        return float((exposed**2 * rate).sum()) / extra if extra > 0 else np.inf
