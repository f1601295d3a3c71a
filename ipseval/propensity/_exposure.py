"""Calibrate γ on random exposure, and measure propensities on it per item or per stratum of popularity."""

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
    cap_at_one,
    check_same_ids,
    check_shrinkage,
    check_unseen,
)
from ipseval.propensity._count_models import fit_glm, group_rows
from ipseval.propensity._gamma import (
    NOT_CONVERGED,
    GammaFit,
    compute_pearson_dispersion,
    select_items,
    warn_about_fit,
)
from ipseval.utils.checks import (
    check_choice,
    check_counts,
    check_positive_int,
    check_real,
    check_same_labels,
)
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import FloatArray

# Share of the slope that is lost to counting noise of n*, above which a fit warns.
ATTENUATION_LIMIT = 0.1


@public_function
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
    """Estimate γ from a random-exposure sample, and the scale κ where the number of users is known.

    Parameters
    ----------
    popularity : (n_items,) array-like
        n*_i, training interactions, >= 0; items with 0 are left out, and counted.
    n_exposed, n_positive : (n_items,) array-like
        How often the item was shown at random, and liked; n_positive <= n_exposed. Every pair of a user and
        an item must have been shown with equal probability, unlike in an allocation for lists.
    n_users : int, optional
        Users of the training log, for κ.
    held_out : (n_items,) array-like, optional
        Counts of the held-out positives that are to be weighted; disjoint from the exposures.
    family : {"poisson", "binomial"}, default "poisson"
        Both with log link and sandwich errors; they agree while q is small.
    min_popularity : float, default 0.0
        Items with a smaller n* are left out.

    Returns
    -------
    GammaFit
        γ with its standard error; `scale` is κ, or None without `n_users`.

    Raises
    ------
    InputError
        For counts that are negative or not finite, n_positive > n_exposed, fewer than two positives, or fewer than
        two levels of n*; for a binomial fit that reaches a rate of 1.

    Warns
    -----
    IdentificationWarning
        γ > 1; fewer than five levels of n*; noise of small n*.
    DataWarning
        The fit did not converge.

    See Also
    --------
    fit_gamma : Estimate γ from recommendation lists instead of random exposure.

    Notes
    -----
    The share q_i of users who like item i is observed without selection: n_positive_i has mean
    n_exposed_i q_i. With q_i = e^a (n*_i)^b, a generalised linear model with log link and offset
    log n_exposed gives b, and n*_i = |U| q_i P_i gives P_i = κ (n*_i)^η with η = 1 − b, γ = 1 − 2b,
    SE(γ) = 2 SE(b), κ = e^{−a}/|U|.

    Counting noise in small n* flattens the slope b and so raises γ: the fit warns, with the size of the
    effect. Items with n* = 0 are left out. If there are many, the items with n* = 1 or 2 are mostly items
    whose count is too high by chance, which steepens the slope and so lowers γ. `held_out` calibrates the
    weights of these positives instead: their counts h_i have mean ∝ (n*_i)^d, and η = d − b, free of the
    assumption d = 1.

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
    all_counts = check_counts("popularity", popularity)
    all_exposures = check_counts("n_exposed", n_exposed, size=all_counts.size)
    all_positives = check_counts("n_positive", n_positive, size=all_counts.size)
    n_above = int((all_positives > all_exposures).sum())
    if n_above:
        raise InputError(
            f"n_positive must not exceed n_exposed; it does for {n_above} of {all_counts.size} items. "
            "Count positives among the random exposures only."
        )
    minimum = check_real("min_popularity", min_popularity)
    keep, numbers = select_items(all_counts, min_popularity=minimum, eligible=all_exposures > 0)
    counts = all_counts[keep]
    exposures = all_exposures[keep]
    positives = all_positives[keep]
    if positives.sum() == 0:
        raise InputError(f"none of the exposures of the {positives.size:,} items kept is positive.")
    if positives.sum() == 1:
        raise InputError(
            f"at least two exposures must be positive; 1 of {exposures.sum():,.0f} is, so that γ is not identified. "
            "Show more items at random."
        )

    result = _fit_rate(counts, exposures, positives, family)
    intercept, slope = (float(value) for value in result.params)
    variance = float(result.bse[1]) ** 2
    log_scale = -intercept
    has_converged = bool(result.converged)
    method = f"random exposure, {family}"
    level_slope = 1.0  # d of the notes
    if held_out is not None:
        held_out_counts = check_counts("held_out", held_out, size=keep.size)[keep]
        level_result = _fit_rate(counts, np.ones_like(held_out_counts), held_out_counts, "poisson")
        level_slope = float(level_result.params[1])
        log_scale += float(level_result.params[0])
        variance += float(level_result.bse[1]) ** 2
        has_converged = has_converged and bool(level_result.converged)
        method += ", against held-out positives"
    gamma = 2 * (level_slope - slope) - 1

    if n_users is not None:
        check_positive_int("n_users", n_users)
    noise_note = None
    if held_out is None and slope > 0:
        noise_note = _describe_noise(counts, exposures, slope)
    notes = warn_about_fit(
        gamma,
        numbers["n_levels"],
        extra_note=noise_note,
        failure=None if has_converged else NOT_CONVERGED,
    )
    return GammaFit(
        gamma=gamma,
        standard_error=2 * float(np.sqrt(variance)),
        method=method,
        result=result,
        slope=np.asarray(result.params),
        dispersion=compute_pearson_dispersion(result),
        scale=None if n_users is None else float(np.exp(log_scale)) / n_users,
        warnings=notes,
        basis="exposure",
        **numbers,
    )


def _fit_rate(popularity: FloatArray, exposures: FloatArray, positives: FloatArray, family: str) -> Any:
    """Return the statsmodels result of log(positives/exposures) = a + b log n*."""
    (levels, level_exposures, y), frequency = group_rows(popularity, exposures, positives)
    x = np.log(levels)
    if family == "poisson":
        return fit_glm(y, x, frequency, "poisson", offset=np.log(level_exposures))

    share = float((frequency * y).sum() / (frequency * level_exposures).sum())
    start = np.array([np.log(min(share, 0.999)), 0.0])
    outcomes = np.column_stack([y, level_exposures - y])
    result = fit_glm(outcomes, x, frequency, "binomial", start=start)
    if not (result.params[0] + result.params[1] * x).max() < -1e-6:
        raise InputError(
            "the binomial fit of γ reaches a rate of 1 for the most or least popular items. family='poisson' "
            "has no such edge."
        )
    return result


def _describe_noise(popularity: FloatArray, exposures: FloatArray, slope: float) -> str | None:
    """Return the text about counting noise of n*; None where it is too small to warn."""
    share = compute_noise_share(popularity, exposures, slope)
    if share <= ATTENUATION_LIMIT:
        return None
    noise_free_gamma = "far lower"
    if share < 0.9:
        noise_free_gamma = f"about {1 - 2 * slope / (1 - share):.2f}"
    return (
        f"counting noise of small n* (median {np.median(popularity):g}) takes about {share:.0%} off the "
        f"slope of true on observed popularity: γ without it would be {noise_free_gamma}.\n"
        "Pass held_out= to calibrate the positives that are weighted; min_popularity= shows how γ moves."
    )


def compute_noise_share(popularity: FloatArray, exposures: FloatArray, slope: float) -> float:
    """Return the approximate share of the slope on log n* that counting noise of n* removes, in [0, 1]."""
    # The share of Var(log n*) that is noise, items weighted by n_exposed (n*)^b. The variance of the log of a
    # Poisson count is taken as 1/(n* + 1): 1/n* would count the noise of the smallest items twice or more,
    # because items with n* = 0 are not in the fit. In simulations with mean counts of 3 to 100 the result is
    # 0.8 to 1.4 times the true loss.
    x = np.log(popularity)
    weights = exposures * popularity**slope
    total_variance = float(np.average((x - np.average(x, weights=weights)) ** 2, weights=weights))
    noise_variance = float(np.average(1 / (popularity + 1), weights=weights))
    return min(1.0, noise_variance / total_variance)


@public_class
@dataclass(frozen=True, eq=False)
class DirectPropensity:
    """Measure the propensity of each item on random exposure, without assuming a power law.

    The propensities are calibrated: they are probabilities.

    Parameters
    ----------
    exposure : RandomExposure
        Random-exposure sample in the id space of the training log.
    shrinkage : "fit" or float, default "fit"
        K > 0, the weight of the power-law fit in exposures; "fit" estimates it by moments.
    unseen : {"drop", "raise"}, default "drop"
        Items with n* = 0: no propensity (their positives are left out and counted), or an error.

    See Also
    --------
    StratifiedPropensity : Measure one propensity for each stratum of popularity.
    fit_gamma_from_exposure : Estimate the exponent of a power law from the same data.

    Notes
    -----
    P_i = n*_i/(|U| q_i) with q_i = (pos_i + K λ_i)/(expo_i + K).

    q_i, the share of users who like item i, is estimated from its random exposures and shrunk to the
    power-law fit λ_i with the weight of K exposures. By moments, 1/K = Σ((pos_i − μ_i)² − μ_i)/Σ expo_i² λ_i
    with μ_i = expo_i λ_i. Where the positives vary no more than by chance, q_i = λ_i.

    Examples
    --------
    >>> from ipseval import RandomExposure, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> exposure = RandomExposure.from_ratings(world.expose(rng=2), threshold=4)
    >>> propensity = DirectPropensity(exposure).fit(split.train)
    >>> propensity
    Propensity(direct from random exposure, shrunk with λ itself; per item; probability)
    >>> propensity.item[:4].round(3)
    array([0.099, 0.238, 0.099, 0.048])
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

        Parameters
        ----------
        train : Interactions
            Training log.

        Returns
        -------
        Propensity
            One calibrated value per item: a probability.

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
        check_same_ids(self.exposure, train)
        counts = np.asarray(train.popularity, dtype=np.float64)
        check_unseen(counts, self.unseen, ("drop",))
        exposures = self.exposure.n_exposed.astype(np.float64)
        positives = self.exposure.n_positive.astype(np.float64)

        power_law = fit_gamma_from_exposure(counts, exposures, positives, n_users=train.n_users)
        seen = counts > 0
        log_counts = np.log(np.where(seen, counts, 1.0))
        expected_rate = np.exp(power_law.slope[0] + power_law.slope[1] * log_counts)
        shrinkage = self._resolve_shrinkage(exposures[seen], positives[seen], expected_rate[seen])
        if np.isinf(shrinkage):
            rate = expected_rate
            target = "λ itself"
        else:
            rate = (positives + shrinkage * expected_rate) / (exposures + shrinkage)
            target = f"K = {shrinkage:.3g}"

        item = np.where(seen, counts / (train.n_users * rate), np.nan)
        model = f"direct from random exposure, shrunk with {target}"
        return replace(_build_item_propensity(item, model, train), fit=power_law)

    def _resolve_shrinkage(self, exposures: FloatArray, positives: FloatArray, rate: FloatArray) -> float:
        """Return K; infinite where the positives vary no more than by chance."""
        if not isinstance(self.shrinkage, str):
            return float(self.shrinkage)
        mean = exposures * rate
        excess_variance = float(((positives - mean) ** 2 - mean).sum())
        if excess_variance <= 0:
            return np.inf
        return float((exposures**2 * rate).sum()) / excess_variance


@public_class
@dataclass(frozen=True, eq=False)
class StratifiedPropensity:
    """Measure one propensity for each stratum of popularity on random exposure.

    The propensities assume no power law and are calibrated probabilities. Items with n* = 0 have no
    propensity: their positives are left out, and counted.

    Parameters
    ----------
    exposure : RandomExposure
        Random-exposure sample in the id space of the training log.
    n_strata : int, default 10
        Strata of about equally many items with n* > 0; fewer where counts are tied.

    See Also
    --------
    DirectPropensity : Measure one propensity for each item.

    Notes
    -----
    P_s = Σ_{i∈s} n*_i / (|U| |s| q_s), q_s = Σ pos_i / Σ expo_i, for all items of a stratum s of n*.

    Examples
    --------
    >>> import numpy as np
    >>> from ipseval import RandomExposure, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> exposure = RandomExposure.from_ratings(world.expose(rng=2), threshold=4)
    >>> propensity = StratifiedPropensity(exposure, n_strata=3).fit(split.train)
    >>> propensity
    Propensity(3 strata of popularity, measured on random exposure; per item; probability)
    >>> np.unique(propensity.item[split.train.popularity > 0]).round(3)
    array([0.062, 0.092, 0.262])
    """

    exposure: RandomExposure
    n_strata: int = 10

    def __post_init__(self) -> None:
        check_exposure(self.exposure)
        check_positive_int("n_strata", self.n_strata)

    def fit(self, train: Interactions) -> Propensity:
        """Return the propensity of every item.

        Parameters
        ----------
        train : Interactions
            Training log.

        Returns
        -------
        Propensity
            One calibrated value per item: a probability.

        Raises
        ------
        PropensityError
            When a stratum has no positive exposure, or no item is seen.
        """
        check_same_ids(self.exposure, train)
        counts = np.asarray(train.popularity, dtype=np.float64)
        seen_items = np.flatnonzero(counts)
        if seen_items.size == 0:
            raise PropensityError("all popularity counts are 0; strata need observed interactions.")

        seen_counts = counts[seen_items]
        edges = np.quantile(seen_counts, np.arange(1, self.n_strata) / self.n_strata, method="lower")
        intervals = np.searchsorted(np.unique(edges), seen_counts, side="left")
        stratum = np.unique(intervals, return_inverse=True)[1]  # numbered without empty strata

        exposures = np.bincount(stratum, self.exposure.n_exposed[seen_items])
        positives = np.bincount(stratum, self.exposure.n_positive[seen_items])
        if (positives == 0).any():
            raise PropensityError(
                f"{int((positives == 0).sum())} of {positives.size} strata have no positive random exposure, "
                "so that their propensity is not bounded. Use fewer strata, or a power law fitted to the "
                "exposure."
            )
        expected_positives = train.n_users * np.bincount(stratum) * positives / exposures
        item = np.full(counts.size, np.nan)
        item[seen_items] = (np.bincount(stratum, seen_counts) / expected_positives)[stratum]
        model = f"{positives.size} strata of popularity, measured on random exposure"
        return _build_item_propensity(item, model, train)


def _build_item_propensity(item: FloatArray, model: str, train: Interactions) -> Propensity:
    """Return a calibrated propensity per item, with values above 1 set to 1."""
    values, n_capped = cap_at_one(item)
    return Propensity(
        item=values,
        is_probability=True,
        model=model,
        n_items=values.size,
        popularity=train.popularity.astype(np.float64),
        n_capped=n_capped,
        item_ids=train.item_ids,
        basis="exposure",
    )
