"""Power-law propensity of Yang et al. (RecSys 2018): P_i = κ (n*_i)^η with η = (γ+1)/2."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ipseval.data.interactions import Interactions
from ipseval.data.random_exposure import RandomExposure, check_exposure
from ipseval.data.training_log import as_training_log
from ipseval.errors import HighGammaWarning, IdentificationWarning, InputError, PropensityError
from ipseval.propensity._base import Basis, Propensity, cap_at_one, check_same_ids, check_unseen
from ipseval.propensity._exposure import fit_gamma_from_exposure
from ipseval.propensity._gamma import (
    NOT_IDENTIFIED,
    SOURCES,
    GammaFit,
    Method,
    Source,
    describe_gamma_above_one,
    fit_gamma,
)
from ipseval.propensity._recommendations import count_recommendations
from ipseval.propensity.steps import PropensityTransform
from ipseval.utils.checks import check_choice, check_counts, check_real, to_real, warn_user
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray, IntArray


@public_class
@dataclass(frozen=True, eq=False)
class PowerLawPropensity:
    """Compute propensities from observed popularity, P_i = κ (n*_i)^η with η = (γ+1)/2.

    γ = −1 gives equal weights (AOA), γ = 0 the square root of popularity, γ = 1 inverse popularity. γ > 1
    implies that true popularity *falls* as observed popularity rises, n_i ∝ (n*_i)^((1−γ)/2), and warns.

    Parameters
    ----------
    gamma, eta : float
        Exponent as γ of Yang et al. [1]_ or as η of the propensity itself; exactly one. `gamma` may also be a
        `GammaFit`, or "fit": estimated by `fit` from `recommendations` or from `exposure`.
    scale : None, "max", "calibrated" or float, default None
        None: known up to a constant factor, enough for SNIPS. "max": the most popular item has P = 1. "calibrated":
        κ of a fit to random exposure, with smoothing multiplied by a factor that keeps Σ n*_i/P_i, the number of
        relevant pairs; values above 1 are set to 1, with a warning. A number: κ.
    unseen : {"smooth", "drop", "raise"}, default "smooth"
        Items with n* = 0 have P = 0. "smooth": `smoothing` is added to every n*, and the report states how
        many positives have a smoothed propensity. "drop": no propensity, their positives are excluded from all
        estimators and counted, as by the authors of [1]_. "raise": an error.
    smoothing : float, default 1.0
        Added to every n* under `unseen="smooth"`, in interactions, > 0.
    recommendations : lists, optional
        Top 50 of the recommender that produced the log, as in `count_recommendations`, with rng=0 for ties;
        or the counts.
    source : {"logging-policy", "evaluated", "unknown"}, default "unknown"
        Origin of the recommendations, as in `fit_gamma`.
    method : {"negative-binomial", "poisson", "cloglog", "level-ols"}, default "cloglog"
        How γ is fitted to them, as in `fit_gamma`.
    exposure : RandomExposure, optional
        Random-exposure sample in the id space of the training log, as in `fit_gamma_from_exposure`.

    See Also
    --------
    fit_gamma, fit_gamma_from_exposure : Estimate γ.

    References
    ----------
    .. [1] Yang et al., Unbiased Offline Recommender Evaluation for Missing-Not-At-Random Implicit Feedback,
       RecSys 2018, doi:10.1145/3240323.3240355

    Examples
    --------
    >>> PowerLawPropensity(gamma=1, scale="max").fit(popularity=[0, 1, 3]).item
    array([0.25, 0.5 , 1.  ])
    >>> PowerLawPropensity(gamma=1, scale="max", unseen="drop").fit(popularity=[0, 1, 4]).item
    array([ nan, 0.25, 1.  ])
    """

    gamma: float | GammaFit | Literal["fit"] | None = None
    eta: float | None = None
    scale: Literal["max", "calibrated"] | float | None = None
    unseen: Literal["smooth", "drop", "raise"] = "smooth"
    smoothing: float = 1.0
    recommendations: Any | None = None
    source: Source = "unknown"
    method: Method = "cloglog"
    exposure: RandomExposure | None = None

    def __post_init__(self) -> None:
        if (self.gamma is None) == (self.eta is None):
            raise InputError("PowerLawPropensity takes either gamma= or eta=, with eta = (gamma + 1) / 2.")
        check_choice("unseen", self.unseen, ("smooth", "drop", "raise"))
        check_choice("source", self.source, SOURCES)
        self._check_exponent()
        self._check_scale()
        check_real("smoothing", self.smoothing, low=0.0)

    def _check_exponent(self) -> None:
        if self.exposure is not None:
            check_exposure(self.exposure)
        n_sources = (self.recommendations is not None) + (self.exposure is not None)
        if isinstance(self.gamma, str) and self.gamma == "fit":
            if n_sources != 1:
                raise InputError(
                    f"gamma='fit' requires random exposure or recommendation lists. {NOT_IDENTIFIED}",
                    advice="Pass {exposure} or {recommendations}, or evaluate with several numbers, gamma=0 "
                    "first, and report evaluation.sensitivity(gamma=[-1, 0, 1])",
                    shell_advice="Pass --random-exposure or --recommendations, or evaluate with several "
                    "numbers, --gamma 0 first",
                )
            return
        if n_sources:
            raise InputError(
                "recommendation lists and random exposure are used by gamma='fit' alone.",
                advice="Pass {gamma=fit}, or leave them out",
            )
        exponent = self.gamma if self.gamma is not None else self.eta
        if not isinstance(exponent, GammaFit) and not np.isfinite(to_real(exponent)):
            raise InputError(
                f"gamma must be 'fit', a GammaFit or, like eta, finite numbers; got {exponent!r}."
            )

    def _check_scale(self) -> None:
        if isinstance(self.scale, str):
            check_choice("scale", self.scale, ("max", "calibrated"))
        elif self.scale is not None and not 0 < to_real(self.scale) < np.inf:
            raise InputError(
                f"scale must be None, 'max' or 'calibrated', or a number > 0; got {self.scale!r}."
            )
        calibration = self.gamma.scale if isinstance(self.gamma, GammaFit) else self.exposure
        if self.scale == "calibrated" and calibration is None:
            raise InputError(
                "scale='calibrated' needs random exposure.",
                advice="Pass gamma='fit' with exposure=, or a GammaFit from "
                "fit_gamma_from_exposure(…, n_users=…)",
                shell_advice="Pass --gamma fit with --random-exposure FILE",
            )

    def fit(
        self, train: Interactions | None = None, *, popularity: npt.ArrayLike | None = None
    ) -> Propensity:
        """Compute the propensity of every item from training interactions or from counts.

        Parameters
        ----------
        train : Interactions, optional
            Training log.
        popularity : (n_items,) array-like, optional
            n*_i, in place of the training log.

        Returns
        -------
        Propensity
            One value per item.

        Raises
        ------
        PropensityError
            When a scaled propensity exceeds 1, or an item is unseen under `unseen="raise"`.
        InputError
            When γ is to be fitted and there are no training interactions, or the exposure is of another id
            space.
        """
        if (train is None) == (popularity is None):
            raise InputError("fit takes either training interactions or popularity=.")
        if train is not None:
            if type(train) is not Interactions:
                train = as_training_log(train)
            popularity = train.popularity
        assert popularity is not None
        counts = check_counts("popularity", popularity)
        gamma, gamma_fit = self._resolve_gamma(counts, train)
        eta = (gamma + 1) / 2
        if gamma > 1 and self.gamma != "fit":  # a fit has warned already
            warn_user(describe_gamma_above_one(gamma), HighGammaWarning)
        if not counts.any():
            raise PropensityError(
                "all popularity counts are 0; a power law needs observed interactions. Without training "
                "data, fit it to counts from elsewhere: PowerLawPropensity(…).fit(popularity=counts)."
            )
        training_counts = counts
        smoothing = float(self.smoothing) if self.unseen == "smooth" else 0.0
        counts = counts + smoothing
        check_unseen(counts, self.unseen, ("smooth", "drop"))

        scale = self._resolve_scale(gamma_fit, training_counts, counts, eta)
        # NaN ** 0 is 1: at γ = −1 an unseen item would get P = 1.
        item, n_capped = self._apply_scale(np.where(counts > 0, counts**eta, np.nan), scale)
        options: dict[str, float | None] = {"gamma": gamma, "top": _compute_top(counts, eta, scale)}
        power_law = PropensityTransform("power-law", options)
        steps: tuple[PropensityTransform, ...] = (power_law,)
        if n_capped:
            steps = (power_law, PropensityTransform("cap"))
        model = f"power law, gamma = {gamma:.4g}"
        basis: Basis = "assumed"
        if gamma_fit is not None:
            model += f" ({gamma_fit.method})"
            basis = gamma_fit.basis
        return Propensity(
            item=item,
            is_probability=scale is not None,
            model=model,
            n_items=counts.size,
            gamma=gamma,
            eta=eta,
            popularity=counts,
            fit=gamma_fit,
            n_capped=n_capped,
            item_ids=None if train is None else train.item_ids,
            steps=steps,
            basis=basis,
            smoothing=smoothing,
        )

    def refit(
        self, train: Interactions, gamma: Callable[[FloatArray, IntArray], float] | None = None
    ) -> Callable[[IntArray], Propensity]:
        """Return a function that fits the propensity to resamples of the users of a log.

        For `evaluation.with_intervals(refit=…)`: n* is counted again in each resample of the users.

        Parameters
        ----------
        train : Interactions
            Training log.
        gamma : callable, optional
            (popularity (n_items,), counts (n_users,)) -> γ, which weights the users of its own data with the
            counts. Default: γ stays.

        Returns
        -------
        callable
            counts (n_users,) -> the propensity of a log in which user u occurs `counts[u]` times.
        """

        def fit_resample(counts: IntArray) -> Propensity:
            popularity = np.bincount(train.item, counts[train.user], train.n_items).astype(np.float64)
            model = self
            if gamma is not None:
                model = replace(self, gamma=float(gamma(popularity, counts)), eta=None)
            with warnings.catch_warnings():
                # The fit to the log has warned about γ > 1 already.
                warnings.simplefilter("ignore", IdentificationWarning)
                return model.fit(popularity=popularity)

        return fit_resample

    def _resolve_gamma(self, counts: FloatArray, train: Interactions | None) -> tuple[float, GammaFit | None]:
        """Return γ and, where it is fitted, its fit."""
        if isinstance(self.gamma, GammaFit):
            return self.gamma.gamma, self.gamma
        if not isinstance(self.gamma, str):
            if self.gamma is not None:
                return float(self.gamma), None
            assert self.eta is not None
            return 2 * float(self.eta) - 1, None
        if train is None:
            raise InputError("gamma='fit' needs training interactions: call fit(split.train).")
        if self.exposure is None:
            lists = count_recommendations(self.recommendations, train, rng=0)
            gamma_fit = fit_gamma(counts, lists, method=self.method, source=self.source)
        else:
            check_same_ids(self.exposure, train)
            gamma_fit = fit_gamma_from_exposure(
                counts, self.exposure.n_exposed, self.exposure.n_positive, n_users=train.n_users
            )
        return gamma_fit.gamma, gamma_fit

    def _resolve_scale(
        self, gamma_fit: GammaFit | None, training_counts: FloatArray, counts: FloatArray, eta: float
    ) -> str | float | None:
        """Return the scale as it was passed, or κ of a fit to random exposure for the counts of the power law."""
        if self.scale != "calibrated" or gamma_fit is None:
            return self.scale
        if gamma_fit.scale is None or self.unseen != "smooth":
            return gamma_fit.scale
        return _calibrate_scale(gamma_fit.scale, training_counts, counts, eta)

    def _apply_scale(self, powers: FloatArray, scale: str | float | None) -> tuple[FloatArray, int]:
        """Return the propensity, and the number of values that were set to 1."""
        if scale is None:
            return powers, 0
        if isinstance(scale, str):
            return powers / np.nanmax(powers), 0
        values = powers * float(scale)
        if self.scale == "calibrated":
            return cap_at_one(values)
        n_above = int((values > 1).sum())
        if n_above:
            raise PropensityError(
                f"scale = {scale:g} gives {n_above} of {powers.size} items a propensity above 1; "
                f"the largest scale that keeps all in (0, 1] is {1 / np.nanmax(powers):.6g}."
            )
        return values, 0


def _calibrate_scale(scale: float, counts: FloatArray, smoothed_counts: FloatArray, eta: float) -> float:
    """Return κ for smoothed counts, from κ that was fitted to the counts.

    With both, the items of the log have the same number of relevant pairs, Σ n*_i/P_i.
    """
    seen = counts > 0
    n_relevant = (counts[seen] ** (1 - eta)).sum()
    n_smoothed = (counts[seen] * smoothed_counts[seen] ** -eta).sum()
    return float(scale * n_smoothed / n_relevant)


def _compute_top(counts: FloatArray, eta: float, scale: str | float | None) -> float | None:
    """Return P of the most popular item before capping; None where P is known up to a constant factor."""
    if scale is None:
        return None
    if isinstance(scale, str):
        return 1.0
    return float(scale * counts.max() ** eta)
