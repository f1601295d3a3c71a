"""Piecewise-constant propensities: one value per stratum of observed popularity."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ipseval._checks import as_float_vector, check_positive_int
from ipseval._types import FloatArray, IntArray
from ipseval.errors import InputError, PropensityError
from ipseval.interactions import Interactions, check_interactions
from ipseval.propensity._base import Propensity, PropensityModel
from ipseval.propensity._common import cap, check_same_ids
from ipseval.propensity._exposure import Exposure, check_exposure


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
        if self.exposure is not None:
            value, is_probability = self._measured(train, self.exposure, counts, seen, stratum), True
        else:
            assert self.model is not None
            base = self.model.fit(train)
            if base.item is None:
                raise InputError("model= must give one propensity per item, not per pair.")
            weight = np.bincount(stratum, counts[seen] / base.item[seen])
            value, is_probability = np.bincount(stratum, counts[seen]) / weight, base.is_probability
        item = np.full(counts.size, np.nan)
        item[seen] = value[stratum]
        item, n_capped = cap(item) if self.exposure is not None else (item, 0)
        kind = "measured on random exposure" if self.exposure is not None else "of a model"
        return Propensity(
            item,
            is_probability,
            f"{int(stratum.max()) + 1} strata of popularity, {kind}",
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

    def _measured(
        self,
        train: Interactions,
        exposure: Exposure,
        counts: FloatArray,
        seen: IntArray,
        stratum: IntArray,
    ) -> FloatArray:
        check_same_ids(exposure, train)
        exposed = np.bincount(stratum, exposure.n_exposed[seen])
        liked = np.bincount(stratum, exposure.n_positive[seen])
        if (liked == 0).any():
            empty = int((liked == 0).sum())
            raise PropensityError(
                f"{empty} of {liked.size} strata have no positive random exposure, so that their propensity "
                "is not bounded. Use fewer strata, or a power law fitted to the exposure."
            )
        total = np.bincount(stratum, counts[seen])
        return np.asarray(total / (train.n_users * np.bincount(stratum) * liked / exposed), dtype=np.float64)
