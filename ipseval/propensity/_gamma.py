"""Estimate γ from recommendation lists: how steeply the exposure of an item rises with its popularity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from scipy.special import ndtri

from ipseval.data.interactions import Interactions
from ipseval.errors import DataWarning, HighGammaWarning, IdentificationWarning, InputError
from ipseval.propensity._base import Basis
from ipseval.propensity._count_models import fit_glm, fit_negative_binomial, group_rows, refit_levels
from ipseval.propensity._recommendations import build_list_matrix
from ipseval.utils.checks import (
    as_generator,
    check_choice,
    check_counts,
    check_fraction,
    check_positive_int,
    check_same_labels,
    warn_user,
)
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import BoolArray, FloatArray, RngLike, freeze

NOT_IDENTIFIED = (
    "n* = (number of users who like the item) × P, so that n* alone does not identify P: only random exposure or\n"
    "the lists of the recommender that produced the log show how P depends on n*."
)
EVALUATED_LISTS = (
    "γ was fitted to lists of the recommender under evaluation, not of the one that made the log.\n"
    + NOT_IDENTIFIED
)
UNKNOWN_SOURCE = (
    "γ describes the recommender that made the lists; pass source='logging-policy' if it produced the log."
)
NOT_CONVERGED = "the fit of γ did not converge; do not use it."

RESAMPLES_PER_BLOCK = 64  # keeps the memory of a bootstrap at 64 × (n_lists + n_levels) numbers
FEW_LEVELS = 5  # a fit with fewer distinct values of n* warns

Method = Literal["negative-binomial", "poisson", "cloglog", "level-ols"]
Source = Literal["logging-policy", "evaluated", "unknown"]
METHODS = ("negative-binomial", "poisson", "cloglog", "level-ols")
SOURCES = ("logging-policy", "evaluated", "unknown")


@dataclass(frozen=True, eq=False)
class ListLevels:
    """Number of items of each popularity level in each list, from which a bootstrap refits γ."""

    x: FloatArray  # (n_levels,) log n*
    size: FloatArray  # (n_levels,) items of the level
    counts: Any  # (n_lists, n_levels) sparse

    def fit_resamples(
        self, method: str, start: FloatArray, dispersion: float, n_resamples: int, rng: RngLike
    ) -> FloatArray:
        """Return γ of each resample of the lists, (n_resamples,)."""
        generator = as_generator(rng)
        n_lists = self.counts.shape[0]
        list_shares = np.full(n_lists, 1 / n_lists)
        blocks = []
        for first in range(0, n_resamples, RESAMPLES_PER_BLOCK):
            block_size = min(RESAMPLES_PER_BLOCK, n_resamples - first)
            list_counts = generator.multinomial(n_lists, list_shares, size=block_size)
            totals = np.asarray((self.counts.T @ list_counts.T).T, dtype=np.float64)
            blocks.append(self._fit_totals(method, totals, start, dispersion))
        return np.concatenate(blocks)

    def _fit_totals(
        self, method: str, totals: FloatArray, start: FloatArray, dispersion: float
    ) -> FloatArray:
        """Return γ of each row of total counts per level, (n_resamples,)."""
        if method == "level-ols":
            return _fit_level_slopes(self.x, totals / self.size)
        n_trials = float(self.counts.shape[0]) if method == "cloglog" else None
        return refit_levels(self.x, totals, self.size, start, dispersion=dispersion, n_lists=n_trials)


def _fit_level_slopes(x: FloatArray, mean_counts: FloatArray) -> FloatArray:
    """Return the least-squares slope of log mean count on x over the levels with a positive mean, per row."""
    is_positive = mean_counts > 0
    y = np.log(np.where(is_positive, mean_counts, 1.0))
    n_points = is_positive.sum(1)
    x_mean = (is_positive * x).sum(1) / n_points
    y_mean = y.sum(1) / n_points
    x_centred = is_positive * (x - x_mean[:, None])
    y_centred = y - y_mean[:, None]
    return np.asarray((x_centred * y_centred).sum(1) / (x_centred**2).sum(1), dtype=np.float64)


@public_class
@dataclass(frozen=True, eq=False)
class GammaFit:
    """Estimate of γ, the exponent of P^select ∝ (n*)^γ, and of η = (γ+1)/2, the exponent of P ∝ (n*)^η.

    Parameters
    ----------
    gamma : float
        γ, the exponent of the selection.
    standard_error : float
        Standard error of γ, from the sandwich over items: items are the sample, and the spread of items about
        the line counts. The standard error of η is half of it.
    method : str
        How γ was fitted.
    result : statsmodels result
        The fit, for inspection; its slope b gives γ = b (lists) or γ = 1 − 2b (random exposure).
    slope : (2,) float array
        Intercept and slope of the statsmodels result.
    n_items, n_levels : int
        Items that entered, and their distinct values of n*.
    n_unseen, n_top_dropped, n_rare_dropped : int
        Items left out: with n* = 0, with the highest n*, and with n* below `min_popularity`.
    dispersion : float or None
        α of Var = μ + αμ² (negative binomial), or Pearson χ² per degree of freedom (the other count models).
    scale : float or None
        κ of P_i = κ (n*_i)^η, where the data identify it (random exposure and the number of users).
    warnings : tuple of str
        Everything that limits the fit. Limits that could mislead were also issued as warnings.
    replicates : (n_resamples,) float array or None
        γ of each bootstrap resample of the lists.
    lists : ListLevels or None
        The data that `bootstrap` resamples; None when only counts were passed.
    basis : {"fitted", "exposure"}
        Evidence behind γ: "exposure" of items shown at random, or "fitted" to lists; see `Propensity`.

    Attributes
    ----------
    eta : float
        η = (γ+1)/2, the exponent of the propensity.

    See Also
    --------
    fit_gamma : Estimate γ from recommendation lists.
    fit_gamma_from_exposure : Estimate γ from random exposure.

    Examples
    --------
    With every doubling of popularity, 1.5 times the recommendations: γ = ln 1.5/ln 2.

    >>> counts = [16, 24, 36, 54, 81]
    >>> fit = fit_gamma([1, 2, 4, 8, 16], counts, 100, method="poisson", source="logging-policy")
    >>> round(fit.gamma, 3), round(fit.eta, 3), fit.n_items
    (0.585, 0.792, 5)
    """

    gamma: float
    standard_error: float
    method: str
    result: Any
    slope: FloatArray
    n_items: int
    n_levels: int
    n_unseen: int = 0
    n_top_dropped: int = 0
    n_rare_dropped: int = 0
    dispersion: float | None = None
    scale: float | None = None
    warnings: tuple[str, ...] = ()
    replicates: FloatArray | None = None
    lists: ListLevels | None = None
    basis: Basis = "fitted"

    def __post_init__(self) -> None:
        freeze(self, "slope", "replicates")

    @property
    def eta(self) -> float:
        """Exponent of the propensity, (γ+1)/2."""
        return (self.gamma + 1) / 2

    def conf_int(self, confidence_level: float = 0.95, *, kind: str = "robust") -> tuple[float, float]:
        """Return a confidence interval for γ.

        Parameters
        ----------
        confidence_level : float, default 0.95
            In (0, 1).
        kind : {"robust", "bootstrap"}, default "robust"
            "robust": normal, from the sandwich over items. "bootstrap": percentiles over resampled lists,
            with the items fixed. It accounts for the noise of the lists only, not for the spread of items
            about the line.

        Returns
        -------
        tuple of float
            The lower and the upper limit.

        Raises
        ------
        InputError
            For "bootstrap" before `bootstrap` was called.
        """
        check_choice("kind", kind, ("robust", "bootstrap"))
        tail = (1 - check_fraction("confidence_level", confidence_level)) / 2
        if kind == "robust":
            half_width = -float(ndtri(tail)) * self.standard_error
            return self.gamma - half_width, self.gamma + half_width
        if self.replicates is None:
            raise InputError("there are no bootstrap replicates yet; use fit.bootstrap(rng=…).conf_int(…).")
        low, high = np.nanquantile(self.replicates, [tail, 1 - tail])
        return float(low), float(high)

    def bootstrap(self, n_resamples: int = 999, *, rng: RngLike = None) -> GammaFit:
        """Return this fit with γ refitted on `n_resamples` samples of lists, drawn with replacement.

        n* stays fixed, and so does the dispersion of the negative binomial: resampling doubles the listing
        noise of a count, which a new fit would take for a larger spread of the items.

        Parameters
        ----------
        n_resamples : int, default 999
            Number of samples of lists.
        rng : int, Generator or None, default None
            Draws the samples.

        Returns
        -------
        GammaFit
            The same fit with `replicates`, for ``conf_int(kind="bootstrap")``.

        Raises
        ------
        InputError
            When the fit was made from counts: resampling needs the lists.
        """
        check_positive_int("n_resamples", n_resamples)
        if self.lists is None:
            raise InputError(
                f"a bootstrap over lists needs the lists, and this fit ({self.method}) was given counts per "
                "item. Pass an (n_lists, k) array of item codes, or count_recommendations(…), to fit_gamma."
            )
        dispersion = 0.0
        if self.method == "negative-binomial" and self.dispersion is not None:
            dispersion = self.dispersion
        replicates = self.lists.fit_resamples(self.method, self.slope, dispersion, n_resamples, rng)

        notes = list(self.warnings)
        n_failures = int(np.isnan(replicates).sum())
        if n_failures:
            notes.append(f"{n_failures} of {n_resamples} bootstrap refits did not converge and are left out.")
        return replace(self, replicates=replicates, warnings=tuple(notes))

    def frequency(
        self,
        popularity: npt.ArrayLike,
        recommendations: npt.ArrayLike | sparse.csr_array,
        n_lists: int | None = None,
    ) -> pd.DataFrame:
        """Return how often items of each observed popularity are recommended, f(n*) of Yang et al. (2018).

        Parameters
        ----------
        popularity : (n_items,) array-like
            n*_i, training interactions of each item, as in `fit_gamma`.
        recommendations : (n_items,) array-like, or (n_lists, k) int array, or sparse array
            Number of lists that contain each item, or the lists themselves, as in `fit_gamma`.
        n_lists : int, optional
            Number of lists; not needed with lists.

        Returns
        -------
        DataFrame
            Columns popularity (n* > 0, ascending), frequency (mean number of lists that contain an item of
            that level), n_items, and fitted = exp(a) (n*)^γ. For the method "cloglog", fitted is the
            saturating curve n_lists (1 − exp(−exp(a) (n*)^γ)).
        """
        check_same_labels(popularity=popularity, recommendations=recommendations)
        counts = check_counts("popularity", popularity)
        totals, n_lists, _ = _count_lists(recommendations, n_lists, counts.size)
        seen = counts > 0
        levels, level_codes, n_items = np.unique(counts[seen], return_inverse=True, return_counts=True)
        mean_counts = np.bincount(level_codes, weights=totals[seen]) / n_items
        expected = np.exp(self.slope[0]) * levels ** self.slope[1]
        if self.method == "cloglog":
            expected = -n_lists * np.expm1(-expected)
        return pd.DataFrame(
            {"popularity": levels, "frequency": mean_counts, "n_items": n_items, "fitted": expected}
        )

    def __repr__(self) -> str:
        low, high = self.conf_int()
        exclusions = {
            "n* = 0": self.n_unseen,
            "most popular": self.n_top_dropped,
            "rare": self.n_rare_dropped,
        }
        exclusion_texts = []
        for reason, count in exclusions.items():
            if count:
                exclusion_texts.append(f"{reason}: {count:,}")

        data_line = f"  {self.n_items:,} items at {self.n_levels:,} levels of n*"
        if exclusion_texts:
            data_line += f"; left out: {', '.join(exclusion_texts)}"
        lines = [
            f"GammaFit ({self.method}): gamma = {self.gamma:.3f} ± {self.standard_error:.3f} "
            f"(95% {low:.3f} to {high:.3f}), eta = {self.eta:.3f}",
            data_line,
        ]
        if self.replicates is not None:
            low, high = self.conf_int(kind="bootstrap")
            lines.append(f"  over {self.replicates.size:,} resamples of the lists: {low:.3f} to {high:.3f}")
        if self.scale is not None:
            lines.append(f"  scale kappa = {self.scale:.4g}")
        warning_lines = [text.replace("\n", "\n    ") for text in self.warnings]
        lines.extend(f"  ! {text}" for text in warning_lines)
        return "\n".join(lines)


@public_function
def fit_gamma(
    popularity: npt.ArrayLike,
    recommendations: npt.ArrayLike | sparse.csr_array | None = None,
    n_lists: int | None = None,
    method: Method = "cloglog",
    *,
    drop_top: float = 0.005,
    source: Source = "unknown",
) -> GammaFit:
    """Estimate γ of E[times item i is recommended] ∝ (n*_i)^γ from recommendation lists.

    γ describes the recommender that made the lists. It is the γ of the log only if that recommender decided
    which items the users of the log were shown.

    Parameters
    ----------
    popularity : (n_items,) array-like
        n*_i, training interactions of each item, >= 0. Items with 0 are left out, and counted.
    recommendations : (n_items,) array-like, or (n_lists, k) int array, or sparse array
        Number of lists that contain each item, or the lists themselves: item codes with −1 in empty
        positions, or the result of `count_recommendations`. Lists allow a bootstrap.
    n_lists : int, optional
        Number of lists; not needed with lists.
    method : {"negative-binomial", "poisson", "cloglog", "level-ols"}, default "cloglog"
        See Notes.
    drop_top : float, default 0.005
        Share in [0, 1) of the items, those with the highest n*, that is left out; fewer where n* is tied.
    source : {"logging-policy", "evaluated", "unknown"}, default "unknown"
        Whether the lists are of the recommender that produced the log, or of the recommender to be evaluated,
        which warns.

    Returns
    -------
    GammaFit
        γ with its standard error, and the numbers of items that were used and left out.

    Raises
    ------
    InputError
        For counts that are negative, not finite, all 0, or above `n_lists`; for fewer than two levels of n*;
        for lists that contain one item only, and for counts that admit no fit.

    Warns
    -----
    IdentificationWarning
        γ > 1; lists of the evaluated recommender; fewer than five levels of n*; separation, where the lists
        contain the most popular items and no other.
    DataWarning
        The fit did not converge.

    See Also
    --------
    fit_gamma_from_exposure : Estimate γ from random exposure instead of lists.
    count_recommendations : Build the lists from a frame or from the best items of a scorer.

    Notes
    -----
    Every item with n* > 0 is a row, whether it was recommended or not.

    ===================  ====================================================================
    "negative-binomial"  maximum likelihood, Var = μ + αμ²
    "poisson"            Poisson likelihood, for its mean only (quasi-Poisson)
    "cloglog"            lists with i ~ Binomial(n_lists, 1 − exp(−τ (n*_i)^γ)): exact, up to the
                         variation of τ between lists, for lists drawn without replacement, however full
    "level-ols"          unweighted line through the log mean count of each popularity level, levels
                         without any recommendation left out: Yang et al. [1]_ It is biased towards 0
    ===================  ====================================================================

    References
    ----------
    .. [1] Yang et al., RecSys 2018, doi:10.1145/3240323.3240355.

    Examples
    --------
    Twice the popularity, twice the recommendations: γ = 1.

    >>> fit = fit_gamma([1, 2, 4, 8, 16], [2, 4, 8, 16, 32], 100, method="poisson", source="logging-policy")
    >>> round(fit.gamma, 6), round(fit.eta, 6)
    (1.0, 1.0)
    """
    if recommendations is None:
        raise InputError(
            "recommendations must be the lists that users were shown; a log alone does not identify γ. Pass "
            "fit_gamma(split.train.popularity, recommendations), or use fit_gamma_from_exposure on random "
            "exposure."
        )
    if hasattr(popularity, "columns") or isinstance(popularity, Interactions):
        raise InputError(
            "popularity must be the number of training interactions of each item; got a log. Pass "
            "fit_gamma(split.train.popularity, recommendations) for lists; random exposure is read by "
            "ipseval.PowerLawPropensity(gamma='fit', exposure=ipseval.RandomExposure.from_frame(frame, split))."
        )
    check_choice("method", method, METHODS)
    check_choice("source", source, SOURCES)
    check_same_labels(popularity=popularity, recommendations=recommendations)
    counts = check_counts("popularity", popularity)
    totals, n_lists, lists = _count_lists(recommendations, n_lists, counts.size)

    keep, numbers = select_items(counts, drop_top=drop_top)
    item_counts = counts[keep]
    item_totals = totals[keep]
    if item_totals.sum() == 0:
        raise InputError(
            f"none of the {item_totals.size:,} items with n* > 0 that are kept was ever recommended."
        )
    n_recommended = int((item_totals > 0).sum())
    if n_recommended == 1 and method != "level-ols":  # which counts levels itself
        raise InputError(
            "the lists must contain at least two different items with n* > 0; they contain one, so that γ is not "
            "identified. Pass longer lists, or lists of more users."
        )
    separation = _describe_separation(item_counts, item_totals)
    try:
        result, dispersion = _fit_lists(method, item_counts, item_totals, n_lists)
    except InputError as error:
        if separation is None:
            raise
        raise InputError(f"{separation} {error}") from error

    gamma = float(result.params[1])
    if not np.isfinite(gamma):
        raise InputError(f"γ by {method} is not finite. {separation or 'The counts admit no fit.'}")
    extra_notes = [EVALUATED_LISTS] if source == "evaluated" else []
    if separation is not None:
        extra_notes.append(separation)
    notes = warn_about_fit(
        gamma,
        numbers["n_levels"],
        extra_note="\n".join(extra_notes) or None,
        failure=None if getattr(result, "converged", True) else NOT_CONVERGED,
    )
    if source == "unknown":
        notes = (*notes, UNKNOWN_SOURCE)
    return GammaFit(
        gamma=gamma,
        standard_error=float(result.bse[1]),
        method=method,
        result=result,
        slope=np.asarray(result.params),
        dispersion=dispersion,
        warnings=notes,
        lists=None if lists is None else _count_level_items(item_counts, keep, lists),
        **numbers,
    )


def _describe_separation(popularity: FloatArray, totals: FloatArray) -> str | None:
    """Return the text about lists that contain only the most popular items; None where they do not."""
    is_recommended = totals > 0
    if is_recommended.all():
        return None
    lowest = popularity[is_recommended].min()
    if popularity[~is_recommended].max() >= lowest:
        return None
    return (
        f"separation: the lists contain all items with n* ≥ {lowest:g} and no other, so that γ depends on the "
        "form of the model and may be arbitrarily large."
    )


def select_items(
    popularity: FloatArray,
    *,
    drop_top: float = 0.0,
    min_popularity: float = 0.0,
    eligible: BoolArray | None = None,
) -> tuple[BoolArray, dict[str, Any]]:
    """Return a mask of the items that enter a fit, (n_items,), and the counts of items for `GammaFit`."""
    share = check_fraction("drop_top", drop_top, low_open=False)
    seen = popularity > 0
    if not seen.any():
        raise InputError(f"all {popularity.size:,} popularity counts are 0; γ needs observed interactions.")
    if eligible is not None:
        seen &= eligible
    if not seen.any():
        raise InputError("no item has both n* > 0 and an exposure; γ cannot be fitted.")

    # A limit on n*, not a number of items: the choice among equally popular items must not matter.
    ascending_counts = np.sort(popularity[seen])
    limit = ascending_counts[-1 - int(share * ascending_counts.size + 1e-9)]
    below_top = seen & (popularity <= limit)
    keep = below_top & (popularity >= min_popularity)

    n_items = int(keep.sum())
    n_levels = int(np.unique(popularity[keep]).size)
    if n_levels < 2:
        raise InputError(
            f"γ is a slope over n*, and the {n_items:,} items kept have {n_levels} distinct value of "
            f"n*; at least 2 are needed ({FEW_LEVELS} for a usable fit)."
        )
    return keep, {
        "n_items": n_items,
        "n_levels": n_levels,
        "n_unseen": int((popularity == 0).sum()),
        "n_top_dropped": int(seen.sum() - below_top.sum()),
        "n_rare_dropped": int(below_top.sum() - keep.sum()),
    }


def warn_about_fit(
    gamma: float, n_levels: int, *, extra_note: str | None, failure: str | None
) -> tuple[str, ...]:
    """Warn, at the line of the user, of the limits of a fit of γ, and return the texts."""
    warnings: list[tuple[str, type[Warning]]] = []
    if gamma > 1:
        warnings.append((describe_gamma_above_one(gamma), HighGammaWarning))
    if extra_note:
        warnings.append((extra_note, IdentificationWarning))
    if n_levels < FEW_LEVELS:
        few_levels = (
            f"n* has {n_levels} levels only: γ rests on too few points for its standard error to mean much."
        )
        warnings.append((few_levels, IdentificationWarning))
    if failure:
        warnings.append((failure, DataWarning))
    for text, category in warnings:
        warn_user(text, category)
    return tuple(text for text, _ in warnings)


def describe_gamma_above_one(gamma: float) -> str:
    """Return the text of the warning about γ > 1."""
    return (
        f"gamma = {gamma:.3g} > 1 implies that true popularity falls as observed popularity rises "
        f"(n_i ∝ n*_i^{(1 - gamma) / 2:.3g}).\nCheck it against a random-exposure sample if there is one."
    )


def _count_lists(
    recommendations: npt.ArrayLike | sparse.csr_array, n_lists: int | None, n_items: int
) -> tuple[FloatArray, int, sparse.csr_array | None]:
    """Return the number of lists that contain each item, the number of lists, and the lists if passed."""
    matrix: Any = recommendations
    if np.ndim(matrix) == 2 and not hasattr(matrix, "tocsr"):
        if n_lists not in (None, len(matrix)):
            raise InputError(
                f"recommendations holds {len(matrix)} lists, and n_lists is {n_lists}; leave it out."
            )
        matrix = build_list_matrix(np.asarray(matrix), n_items)
    if hasattr(matrix, "tocsr"):
        lists = sparse.csr_array(matrix)
        if lists.shape[1] != n_items:
            raise InputError(
                f"recommendations counts {lists.shape[1]} items, popularity {n_items}; they must agree."
            )
        return np.asarray(lists.sum(axis=0), dtype=np.float64), lists.shape[0], lists

    counts = check_counts("recommendations", matrix, size=n_items)
    if n_lists is None:
        raise InputError("n_lists is needed with counts: the number of lists that were counted.")
    check_positive_int("n_lists", n_lists)
    n_above = int((counts > n_lists).sum())
    if n_above:
        raise InputError(
            f"a list holds an item at most once, so that recommendations <= n_lists = {n_lists}; "
            f"{n_above} of {counts.size} items have more."
        )
    return counts, int(n_lists), None


def _fit_lists(
    method: Method, popularity: FloatArray, totals: FloatArray, n_lists: int
) -> tuple[Any, float | None]:
    """Return the statsmodels result of a method of `fit_gamma`, and the dispersion."""
    if method == "level-ols":
        return _fit_level_line(popularity, totals), None
    (levels, y), frequency = group_rows(popularity, totals)
    x = np.log(levels)
    if method == "negative-binomial":
        return fit_negative_binomial(x, y, frequency)
    if method == "cloglog":
        result = fit_glm(np.column_stack([y, n_lists - y]), x, frequency, "cloglog")
    else:
        result = fit_glm(y, x, frequency, "poisson")
    return result, compute_pearson_dispersion(result)


def _fit_level_line(popularity: FloatArray, totals: FloatArray) -> Any:
    """Return the least-squares line through the log mean count of each popularity level."""
    from statsmodels.regression.linear_model import OLS
    from statsmodels.tools import add_constant

    levels, level_codes = np.unique(popularity, return_inverse=True)
    mean_counts = np.bincount(level_codes, totals) / np.bincount(level_codes)
    is_positive = mean_counts > 0
    if is_positive.sum() < 2:
        raise InputError("fewer than 2 popularity levels were ever recommended; a line needs 2.")
    x = add_constant(np.log(levels[is_positive]), has_constant="add")
    with np.errstate(divide="ignore", invalid="ignore"):
        return OLS(np.log(mean_counts[is_positive]), x).fit(cov_type="HC1")


def compute_pearson_dispersion(result: Any) -> float | None:
    """Return Pearson χ² per degree of freedom; None without a residual degree of freedom."""
    if result.df_resid <= 0:
        return None
    return float(result.pearson_chi2 / result.df_resid)


def _count_level_items(popularity: FloatArray, keep: BoolArray, lists: sparse.csr_array) -> ListLevels:
    """Return the number of items of each popularity level in each list."""
    levels, level_codes = np.unique(popularity, return_inverse=True)
    coordinates = (np.flatnonzero(keep), level_codes)
    item_levels = sparse.csr_array((np.ones(level_codes.size), coordinates), (keep.size, levels.size))
    sizes = np.bincount(level_codes).astype(np.float64)
    return ListLevels(np.log(levels), sizes, lists @ item_levels)
