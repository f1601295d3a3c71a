"""Random exposure: γ calibrated on it, and propensities measured on it, by item or in strata of n*."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ipseval.data.interactions import Interactions
from ipseval.data.random_exposure import RandomExposure, check_exposure
from ipseval.errors import InputError, PropensityError
from ipseval.propensity._base import (
    Propensity,
    cap,
    check_same_ids,
    check_shrinkage,
    refuse_unseen,
)
from ipseval.propensity._count_models import fit_glm, group_rows
from ipseval.propensity._gamma import NOT_CONVERGED, GammaFit, pearson_dispersion, select_items, warn_of_fit
from ipseval.utils.checks import (
    check_choice,
    check_counts,
    check_positive_int,
    check_real,
    check_same_labels,
)
from ipseval.utils.types import FloatArray

# Loss of slope through counting noise of n*, from which a fit warns.
ATTENUATION_LIMIT = 0.1


def fit_gamma_from_exposure(
    popularity: npt.ArrayLike,
    n_exposed: npt.ArrayLike,
    n_positive: npt.ArrayLike,
    *,
    n_users: int | None = None,
    held_out: npt.ArrayLike | None = None,
    family: Literal["poisson", "binomial"] = "poisson",
    min_popularity: float = 0.0,
) -> GammaFit:
    """Return γ calibrated on a random-exposure sample, and the scale κ where the number of users is given.

    The share q_i of users who like item i is seen without selection: n_positive_i has mean
    n_exposed_i q_i. With q_i = e^a (n*_i)^b, a generalised linear model with log link and offset
    log n_exposed gives b, and n*_i = |U| q_i P_i gives P_i = κ (n*_i)^η with η = 1 − b, γ = 1 − 2b,
    SE(γ) = 2 SE(b), κ = e^{−a}/|U|.

    Counting noise in small n* flattens the slope b and so raises γ: it warns, with the size of the effect.
    `held_out` calibrates the weights of given positives instead: their counts h_i have mean ∝ (n*_i)^d, and
    η = d − b, free of the assumption d = 1.

    Parameters
    ----------
    popularity : (n_items,) array-like
        n*_i, training interactions, >= 0; items with 0 are left out, and counted.
    n_exposed, n_positive : (n_items,) array-like
        How often the item was shown at random, and liked; n_positive <= n_exposed.
    n_users : int, optional
        Users of the training log, for κ.
    held_out : (n_items,) array-like, optional
        Counts of the held-out positives that are to be weighted; disjoint from the exposures.
    family : {"poisson", "binomial"}
        Both with log link and sandwich errors; they agree while q is small.
    min_popularity : float
        Items with a smaller n* are left out.

    Raises
    ------
    InputError
        For counts that are negative or not finite, n_positive > n_exposed, no positive at all, or fewer than
        two levels of n*; for a binomial fit that reaches a rate of 1.

    Warns
    -----
    IdentificationWarning
        γ > 1; fewer than five levels of n*; noise of small n*.
    DataWarning
        The fit did not converge.

    Examples
    --------
    Ten times the popularity, ten times the share of users who like it (b = 1): γ = −1, nothing to correct.

    >>> popularity = [100, 200, 300, 500, 1000]
    >>> fit = fit_gamma_from_exposure(popularity, [500] * 5, [5, 10, 15, 25, 50], n_users=20_000)
    >>> bool(abs(fit.gamma + 1) < 1e-6), round(fit.scale, 6)  # P = 100 / (20,000 × 5/500) = 0.5
    (True, 0.5)
    """
    check_choice("family", family, ("poisson", "binomial"))
    check_same_labels(popularity=popularity, n_exposed=n_exposed, n_positive=n_positive, held_out=held_out)
    counts = check_counts("popularity", popularity)
    shown = check_counts("n_exposed", n_exposed, size=counts.size)
    liked = check_counts("n_positive", n_positive, size=counts.size)
    n_above = int((liked > shown).sum())
    if n_above:
        raise InputError(
            f"n_positive must not exceed n_exposed; it does for {n_above} of {counts.size} items. "
            "Count positives among the random exposures only."
        )
    minimum = check_real("min_popularity", min_popularity)
    keep, numbers = select_items(counts, min_popularity=minimum, extra=shown > 0)
    counts, shown, liked = counts[keep], shown[keep], liked[keep]
    if liked.sum() == 0:
        raise InputError(f"none of the exposures of the {liked.size:,} items kept is positive.")
    result = _fit_rate(counts, shown, liked, family)
    intercept, slope = (float(value) for value in result.params)
    level, variance, scale_log, converged = 1.0, float(result.bse[1]) ** 2, -intercept, bool(result.converged)
    if held_out is not None:
        held = check_counts("held_out", held_out, size=keep.size)[keep]
        other = _fit_rate(counts, np.ones_like(held), held, "poisson")
        level, scale_log = float(other.params[1]), scale_log + float(other.params[0])
        variance += float(other.bse[1]) ** 2
        converged = converged and bool(other.converged)
    gamma = 2 * (level - slope) - 1
    if n_users is not None:
        check_positive_int("n_users", n_users)
    notes = warn_of_fit(
        gamma,
        numbers["n_levels"],
        more=_noise(counts, shown, slope) if held_out is None and slope > 0 else None,
        unusable=None if converged else NOT_CONVERGED,
    )
    return GammaFit(
        gamma=gamma,
        standard_error=2 * float(np.sqrt(variance)),
        method=f"random exposure, {family}" + ("" if held_out is None else ", against held-out positives"),
        result=result,
        slope=np.asarray(result.params),
        dispersion=pearson_dispersion(result),
        scale=None if n_users is None else float(np.exp(scale_log)) / n_users,
        warnings=notes,
        **numbers,
    )


def _fit_rate(popular: FloatArray, shown: FloatArray, liked: FloatArray, family: str) -> Any:
    (level, exposed, y), frequency = group_rows(popular, shown, liked)
    x = np.log(level)
    if family == "poisson":
        return fit_glm(y, x, frequency, "poisson", offset=np.log(exposed))
    share = float((frequency * y).sum() / (frequency * exposed).sum())
    start = np.array([np.log(min(share, 0.999)), 0.0])
    result = fit_glm(np.column_stack([y, exposed - y]), x, frequency, "binomial", start=start)
    if not (result.params[0] + result.params[1] * x).max() < -1e-6:
        raise InputError(
            "the binomial fit of γ reaches a rate of 1 for the most or least popular items. family='poisson' "
            "has no such edge."
        )
    return result


def _noise(popular: FloatArray, shown: FloatArray, slope: float) -> str | None:
    """Return the text about counting noise of n*, where there is enough of it to warn."""
    noise = noise_share(popular, shown, slope)
    if noise <= ATTENUATION_LIMIT:
        return None
    repaired = f"about {1 - 2 * slope / (1 - noise):.2f}" if noise < 0.9 else "far lower"
    return (
        f"counting noise of small n* (median {np.median(popular):g}) takes about {noise:.0%} off the "
        f"slope of true on observed popularity: γ without it would be {repaired}.\n"
        "Pass held_out= to calibrate the positives that are weighted; min_popularity= shows how γ moves."
    )


def noise_share(popular: FloatArray, shown: FloatArray, slope: float) -> float:
    """Return about which share of the slope on log n* the counting noise of n* takes away, in [0, 1]."""
    # The share of Var(log n*) that is noise, items weighted by n_exposed (n*)^b. The variance of the log of a
    # Poisson count is taken as 1/(n* + 1): 1/n* would count the noise of the smallest items twice or more, as
    # those with n* = 0 are not in the fit. Simulated, mean counts of 3 to 100: .8 to 1.4 times the true loss.
    x, weight = np.log(popular), shown * popular**slope
    spread = float(np.average((x - np.average(x, weights=weight)) ** 2, weights=weight))
    return min(1.0, float(np.average(1 / (popular + 1), weights=weight)) / spread)


@dataclass(frozen=True, eq=False)
class DirectPropensity:
    """P_i = n*_i/(|U| q_i), q_i = (pos_i + K λ_i)/(expo_i + K): no power law, on the scale of probabilities.

    q_i, the share of users who like item i, is estimated from its random exposures and shrunk to the
    power-law fit λ_i with the weight of K exposures.

    Parameters
    ----------
    exposure : RandomExposure
        Random-exposure sample in the id space of the training log.
    shrinkage : "fit" or float
        K > 0; "fit": by moments, 1/K = Σ((pos_i − μ_i)² − μ_i)/Σ expo_i² λ_i with μ_i = expo_i λ_i; where
        the positives vary no more than chance would have them, q_i = λ_i.
    unseen : {"drop", "raise"}
        Items with n* = 0: no propensity (their positives are left out and counted), or an error.
    """

    exposure: RandomExposure
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
        shrunk = "λ itself" if np.isinf(strength) else f"K = {strength:.3g}"
        return replace(_measured(item, f"direct from random exposure, shrunk with {shrunk}", train), fit=line)

    def _strength(self, exposed: FloatArray, liked: FloatArray, rate: FloatArray) -> float:
        if not isinstance(self.shrinkage, str):
            return float(self.shrinkage)
        mean = exposed * rate
        extra = float(((liked - mean) ** 2 - mean).sum())
        return float((exposed**2 * rate).sum()) / extra if extra > 0 else np.inf


@dataclass(frozen=True, eq=False)
class StratifiedPropensity:
    """P_s = Σ_{i∈s} n*_i / (|U| |s| q_s), q_s = Σ pos_i / Σ expo_i, of all items of a stratum s of n*.

    No power law, on the scale of probabilities. Items with n* = 0 have no propensity: their positives are
    left out, and counted.

    Parameters
    ----------
    exposure : RandomExposure
        Random-exposure sample in the id space of the training log.
    n_strata : int
        Strata of about equally many items with n* > 0; fewer where counts are tied.
    """

    exposure: RandomExposure
    n_strata: int = 10

    def __post_init__(self) -> None:
        check_exposure(self.exposure)
        check_positive_int("n_strata", self.n_strata)

    def fit(self, train: Interactions) -> Propensity:
        """Return the propensity of every item.

        Raises
        ------
        PropensityError
            When a stratum has no positive exposure, or no item is seen.
        """
        counts = check_same_ids(self.exposure, train)
        seen = np.flatnonzero(counts)
        if seen.size == 0:
            raise PropensityError("all popularity counts are 0; strata need observed interactions.")
        edges = np.quantile(counts[seen], np.arange(1, self.n_strata) / self.n_strata, method="lower")
        place = np.searchsorted(np.unique(edges), counts[seen], side="left")
        stratum = np.unique(place, return_inverse=True)[1]  # none is empty
        exposed = np.bincount(stratum, self.exposure.n_exposed[seen])
        liked = np.bincount(stratum, self.exposure.n_positive[seen])
        if (liked == 0).any():
            raise PropensityError(
                f"{int((liked == 0).sum())} of {liked.size} strata have no positive random exposure, so "
                "that their propensity is not bounded. Use fewer strata, or a power law fitted to the "
                "exposure."
            )
        rate = train.n_users * np.bincount(stratum) * liked / exposed
        item = np.full(counts.size, np.nan)
        item[seen] = (np.bincount(stratum, counts[seen]) / rate)[stratum]
        return _measured(item, f"{liked.size} strata of popularity, measured on random exposure", train)


def _measured(item: FloatArray, model: str, train: Interactions) -> Propensity:
    """Return a propensity on the scale of probabilities, by item, with values above 1 set to 1."""
    item, n_capped = cap(item)
    return Propensity(
        item,
        True,
        model,
        item.size,
        popularity=train.popularity.astype(np.float64),
        n_capped=n_capped,
        item_ids=train.item_ids,
        basis="exposure",
    )
