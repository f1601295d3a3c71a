"""Power-law propensity of Yang et al. (RecSys 2018): P_i = κ (n*_i)^η with η = (γ+1)/2."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ipseval._checks import check_choice, check_counts
from ipseval._types import FloatArray
from ipseval.errors import IdentificationWarning, InputError, PropensityError
from ipseval.interactions import Interactions
from ipseval.propensity._base import Propensity


@dataclass(frozen=True)
class PowerLawPropensity:
    """P_i = κ (n*_i)^η, η = (γ+1)/2, from observed popularity n*_i.

    γ = −1 gives equal weights (AOA), γ = 0 the square root of popularity, γ = 1 inverse popularity. γ > 1
    says that true popularity *falls* as observed popularity rises, n_i ∝ (n*_i)^((1−γ)/2), and warns.

    Parameters
    ----------
    gamma, eta : float
        Exponent as γ of Yang et al. or as η of the propensity itself; exactly one.
    scale : None, "max" or float
        None: known up to a factor, enough for SNIPS. "max": the most popular item has P = 1. A number: κ.
    unseen : {"drop", "smooth", "raise"}
        Items with n* = 0 have P = 0. "drop": no propensity, their positives leave every estimator and are
        counted. "smooth": `smoothing` is added to every n*. "raise": an error.
    smoothing : float
        Added to every n* under `unseen="smooth"`, in interactions, > 0.

    References
    ----------
    Yang et al., Unbiased Offline Recommender Evaluation for Missing-Not-At-Random Implicit Feedback,
    RecSys 2018, doi 10.1145/3240323.3240355.

    Examples
    --------
    >>> PowerLawPropensity(gamma=1, scale="max").fit(popularity=[1, 4]).item
    array([0.25, 1.  ])
    """

    gamma: float | None = None
    eta: float | None = None
    scale: Literal["max"] | float | None = None
    unseen: Literal["drop", "smooth", "raise"] = "drop"
    smoothing: float = 1.0

    def __post_init__(self) -> None:
        if (self.gamma is None) == (self.eta is None):
            raise InputError("PowerLawPropensity takes either gamma= or eta=, with eta = (gamma + 1) / 2.")
        exponent = self.gamma if self.gamma is not None else self.eta
        if not isinstance(exponent, (int, float, np.number)) or not np.isfinite(exponent):
            raise InputError(f"gamma and eta must be finite numbers; got {exponent!r}.")
        check_choice("unseen", self.unseen, ("drop", "smooth", "raise"))
        if isinstance(self.scale, str):
            check_choice("scale", self.scale, ("max",))
        elif self.scale is not None and not (np.isfinite(self.scale) and self.scale > 0):
            raise InputError(f"scale must be None, 'max' or a number > 0; got {self.scale!r}.")
        if not self.smoothing > 0:
            raise InputError(f"smoothing must be > 0; got {self.smoothing!r}.")

    def fit(
        self, train: Interactions | None = None, *, popularity: npt.ArrayLike | None = None
    ) -> Propensity:
        """Return the propensity of every item, from training interactions or from counts n*_i (n_items,).

        Raises
        ------
        PropensityError
            When a scaled propensity exceeds 1, or an item is unseen under `unseen="raise"`.
        """
        if (train is None) == (popularity is None):
            raise InputError("fit takes either training interactions or popularity=.")
        counts = check_counts("popularity", train.popularity if train is not None else popularity)  # type: ignore[arg-type]  # exactly one is None
        gamma = float(self.gamma) if self.gamma is not None else 2 * float(self.eta) - 1  # type: ignore[arg-type]  # exactly one is None
        eta = (gamma + 1) / 2
        if gamma > 1:
            warnings.warn(
                f"gamma = {gamma:g} > 1 says that true popularity falls as observed popularity rises "
                f"(n_i ∝ n*_i^{(1 - gamma) / 2:g}). Check it on a random-exposure sample if there is one.",
                IdentificationWarning,
                stacklevel=2,
            )
        item, is_probability = self._scaled(self._raw(counts, eta))
        return Propensity(
            item,
            is_probability,
            f"power law, gamma = {gamma:g}",
            counts.size,
            gamma=gamma,
            eta=eta,
            popularity=counts + self.smoothing if self.unseen == "smooth" else counts,
        )

    def _raw(self, counts: FloatArray, eta: float) -> FloatArray:
        """Return (n*_i)^η, NaN for items left out."""
        n_unseen = int((counts == 0).sum())
        if n_unseen == counts.size:
            raise PropensityError("all popularity counts are 0; a power law needs observed interactions.")
        if self.unseen == "smooth":
            counts = counts + self.smoothing
        elif n_unseen and self.unseen == "raise":
            raise PropensityError(
                f"{n_unseen} of {counts.size} items have no training interaction, so P = 0. "
                "Use unseen='smooth' or 'drop'."
            )
        seen = np.where(counts > 0, counts, np.nan)
        return np.asarray(seen**eta, dtype=np.float64)

    def _scaled(self, raw: FloatArray) -> tuple[FloatArray, bool]:
        if self.scale is None:
            return raw, False
        if isinstance(self.scale, str):
            return raw / np.nanmax(raw), True
        scaled = raw * float(self.scale)
        n_above = int((scaled > 1).sum())
        if n_above:
            raise PropensityError(
                f"scale = {self.scale:g} gives {n_above} of {raw.size} items a propensity above 1; "
                f"the largest scale that keeps all in (0, 1] is {1 / np.nanmax(raw):.6g}."
            )
        return scaled, True
