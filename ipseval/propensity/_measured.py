"""Propensities measured on random exposure: P_i = n*_i / (|U| q_i), item by item or in strata of n*."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ipseval._base.checks import as_float_vector, check_choice, check_positive_int
from ipseval._base.types import FloatArray, IntArray
from ipseval.data._evidence import Exposure, check_exposure
from ipseval.data._interactions import Interactions, check_interactions
from ipseval.errors import InputError, PropensityError
from ipseval.propensity._base import Propensity, PropensityModel
from ipseval.propensity._common import cap, check_same_ids, check_shrinkage, refuse_unseen
from ipseval.propensity._exposure import fit_gamma_from_exposure


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
        check_shrinkage(self.shrinkage)

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


@dataclass(frozen=True, eq=False)
class StratifiedPropensity:
    """P_i constant within strata of n*: measured on random exposure, or a coarser form of another model.

    With exposure, P_s = Σ_{i∈s} n*_i / (|U| |s| q_s), q_s = Σ pos_i / Σ expo_i: no power law, on the scale of
    probabilities. With a model, P_s = Σ n*_i / Σ (n*_i / P_i), which keeps the weight that the stratum's
    training interactions have in total.

    Parameters
    ----------
    n_strata : int
        Strata of about equally many items with n* > 0; fewer where counts are tied.
    edges : array-like, optional
        Ascending values of n*: a stratum ends at, and includes, each of them; in place of `n_strata`.
    exposure : Exposure, optional
        Random-exposure sample in the id space of the training log.
    model : optional
        A propensity model with `fit(train)`, such as `PowerLawPropensity`; either this or `exposure`.

    Notes
    -----
    Items with n* = 0 have no propensity: their positives are left out, and counted.
    """

    n_strata: int = 10
    edges: npt.ArrayLike | None = None
    exposure: Exposure | None = None
    model: PropensityModel | None = None

    def __post_init__(self) -> None:
        check_positive_int("n_strata", self.n_strata)
        if (self.exposure is None) == (self.model is None):
            raise InputError("StratifiedPropensity takes either exposure= or model=.")
        if self.exposure is not None:
            check_exposure(self.exposure)
        elif not hasattr(self.model, "fit"):
            raise InputError(f"model must have fit(train); got {type(self.model).__name__}.")
        if self.edges is not None:
            edges = as_float_vector("edges", self.edges)
            if edges.size == 0 or not np.isfinite(edges).all() or (np.diff(edges) <= 0).any():
                raise InputError("edges must be finite and strictly ascending values of n*.")

    def fit(self, train: Interactions) -> Propensity:
        """Return the propensity of every item.

        Raises
        ------
        PropensityError
            When a stratum has no positive exposure, or no item is seen.
        """
        check_interactions(train, "train", "split.train")
        counts = train.popularity.astype(np.float64)
        seen = np.flatnonzero(counts)
        if seen.size == 0:
            raise PropensityError("all popularity counts are 0; strata need observed interactions.")
        stratum = self._strata(counts[seen])
        weight: FloatArray
        if self.exposure is not None:
            check_same_ids(self.exposure, train)
            exposed = np.bincount(stratum, self.exposure.n_exposed[seen])
            liked = np.bincount(stratum, self.exposure.n_positive[seen])
            if (liked == 0).any():
                raise PropensityError(
                    f"{int((liked == 0).sum())} of {liked.size} strata have no positive random exposure, so "
                    "that their propensity is not bounded. Use fewer strata, or a power law fitted to the "
                    "exposure."
                )
            weight, is_probability = train.n_users * np.bincount(stratum) * liked / exposed, True
        else:
            assert self.model is not None
            base = self.model.fit(train)
            if base.item is None:
                raise InputError("model= must give one propensity per item, not per pair.")
            weight = np.asarray(np.bincount(stratum, counts[seen] / base.item[seen]), dtype=np.float64)
            is_probability = base.is_probability
        item = np.full(counts.size, np.nan)
        item[seen] = (np.bincount(stratum, counts[seen]) / weight)[stratum]
        item, n_capped = cap(item) if self.exposure is not None else (item, 0)
        kind = "measured on random exposure" if self.exposure is not None else "of a model"
        return Propensity(
            item,
            is_probability,
            f"{weight.size} strata of popularity, {kind}",
            counts.size,
            popularity=counts,
            n_capped=n_capped,
            item_ids=train.item_ids,
        )

    def _strata(self, counts: FloatArray) -> IntArray:
        """Return the stratum of each item, 0, 1, …; none is empty."""
        if self.edges is None:
            edges = np.quantile(counts, np.arange(1, self.n_strata) / self.n_strata, method="lower")
        else:
            edges = np.asarray(self.edges, dtype=np.float64)
        place = np.searchsorted(np.unique(edges), counts, side="left")
        return np.asarray(np.unique(place, return_inverse=True)[1], dtype=np.int64)
