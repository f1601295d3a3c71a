"""γ from recommended lists: how steeply the chance to be shown rises with observed popularity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse
from scipy.special import ndtri

from ipseval.errors import DataWarning, IdentificationWarning, InputError
from ipseval.propensity._base import Basis
from ipseval.propensity._count_models import fit_glm, fit_negative_binomial, group_rows, refit_levels
from ipseval.propensity._recommendations import list_matrix
from ipseval.utils.checks import (
    as_generator,
    check_choice,
    check_counts,
    check_fraction,
    check_positive_int,
    check_same_labels,
    warn_user,
)
from ipseval.utils.types import BoolArray, FloatArray, RngLike, freeze

NOT_IDENTIFIED = (
    "n* = (number of users who like the item) × P, so that n* alone fits every P: only random exposure or\n"
    "the lists of the recommender that produced the log say how P depends on n*."
)


@dataclass(frozen=True, eq=False)
class ListLevels:
    """What a refit over resampled lists reads: how often each list holds items of each popularity level."""

    x: FloatArray  # (n_levels,) log n*
    size: FloatArray  # (n_levels,) items of the level
    counts: Any  # (n_lists, n_levels) sparse

    def slopes(
        self, method: str, start: FloatArray, dispersion: float, n_resamples: int, rng: RngLike
    ) -> FloatArray:
        """Return γ of each resample of the lists, (n_resamples,)."""
        generator = as_generator(rng)
        n_lists = self.counts.shape[0]
        slopes = []
        # 64 resamples at a time keep the memory at 64 × (n_lists + n_levels) numbers.
        for first in range(0, n_resamples, 64):
            block = min(64, n_resamples - first)
            times = generator.multinomial(n_lists, np.full(n_lists, 1 / n_lists), size=block)
            totals = np.asarray((self.counts.T @ times.T).T, dtype=np.float64)
            if method == "level-ols":
                slopes.append(_level_slopes(self.x, totals / self.size))
            else:
                trials = float(n_lists) if method == "cloglog" else None
                slopes.append(
                    refit_levels(self.x, totals, self.size, start, dispersion=dispersion, n_lists=trials)
                )
        return np.concatenate(slopes)


def _level_slopes(x: FloatArray, mean: FloatArray) -> FloatArray:
    """Return unweighted least-squares slopes of log mean on x over the levels with a mean above 0."""
    used = mean > 0
    y = np.log(np.where(used, mean, 1.0))
    n = used.sum(1)
    x_mean, y_mean = (used * x).sum(1) / n, y.sum(1) / n
    dx = used * (x - x_mean[:, None])
    return np.asarray((dx * (y - y_mean[:, None])).sum(1) / (dx**2).sum(1), dtype=np.float64)


@dataclass(frozen=True, eq=False)
class GammaFit:
    """Estimate of γ, the exponent of P^select ∝ (n*)^γ, and of η = (γ+1)/2, the exponent of P ∝ (n*)^η.

    Attributes
    ----------
    gamma, eta : float
        Exponents; η = (γ+1)/2.
    standard_error : float
        Of γ, from the sandwich over items: items are the sample, and the spread of items about the line
        counts. The standard error of η is half of it.
    method : str
        How γ was fitted.
    result : statsmodels result
        The fit, for inspection; its slope b gives γ = b (lists) or γ = 1 − 2b (random exposure).
    warnings : tuple of str
        Everything that limits the fit; those that could mislead were also issued as warnings.
    n_items, n_levels : int
        Items that entered, and their distinct values of n*.
    n_unseen, n_top_dropped, n_rare_dropped : int
        Items left out: with n* = 0, with the highest n*, and with n* below `min_popularity`.
    dispersion : float or None
        α of Var = μ + αμ² (negative binomial), or Pearson χ² per degree of freedom (the other count models).
    scale : float or None
        κ of P_i = κ (n*_i)^η, where the data identify it (random exposure and the number of users).
    slope : (2,) float array
        Intercept and slope of the statsmodels result.
    replicates : (n_resamples,) float array or None
        γ of each bootstrap resample of the lists.
    lists : ListLevels or None
        What `bootstrap` resamples; None when only counts were given.
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

    def __post_init__(self) -> None:
        freeze(self, "slope", "replicates")

    @property
    def basis(self) -> Basis:
        """What it rests on: "exposure" of items shown at random, "fitted" to lists; see `Propensity`."""
        return "exposure" if self.method.startswith("random exposure") else "fitted"

    @property
    def eta(self) -> float:
        """Exponent of the propensity, (γ+1)/2."""
        return (self.gamma + 1) / 2

    def conf_int(self, confidence_level: float = 0.95, *, kind: str = "robust") -> tuple[float, float]:
        """Return a confidence interval for γ.

        Parameters
        ----------
        confidence_level : float
            In (0, 1).
        kind : {"robust", "bootstrap"}
            "robust": normal, from the sandwich over items. "bootstrap": percentiles over resampled lists,
            items fixed; it holds the listing noise only, not the spread of items about the line.

        Raises
        ------
        InputError
            For "bootstrap" before `bootstrap` was called.
        """
        check_choice("kind", kind, ("robust", "bootstrap"))
        tail = (1 - check_fraction("confidence_level", confidence_level)) / 2
        if kind == "robust":
            half = -float(ndtri(tail)) * self.standard_error
            return self.gamma - half, self.gamma + half
        if self.replicates is None:
            raise InputError("there are no bootstrap replicates yet; use fit.bootstrap(rng=…).conf_int(…).")
        low, high = np.nanquantile(self.replicates, [tail, 1 - tail])
        return float(low), float(high)

    def bootstrap(self, n_resamples: int = 999, *, rng: RngLike = None) -> GammaFit:
        """Return this fit with γ refitted on `n_resamples` samples of lists, drawn with replacement.

        n* stays fixed, and so does the dispersion of the negative binomial: resampling doubles the listing
        noise of a count, which a new fit would take for a larger spread of the items.

        Raises
        ------
        InputError
            When the fit was given counts only: resampling needs the lists.
        """
        check_positive_int("n_resamples", n_resamples)
        if self.lists is None:
            raise InputError(
                f"a bootstrap over lists needs the lists, and this fit ({self.method}) was given counts per "
                "item. Pass an (n_lists, k) array of item codes, or count_recommendations(…), to fit_gamma."
            )
        dispersion = (self.dispersion or 0.0) if self.method == "negative-binomial" else 0.0
        slopes = self.lists.slopes(self.method, self.slope, dispersion, n_resamples, rng)
        n_failed = int(np.isnan(slopes).sum())
        failed = f"{n_failed} of {n_resamples} bootstrap refits did not converge and are left out."
        return replace(self, replicates=slopes, warnings=(*self.warnings, *([failed] if n_failed else [])))

    def frequency(
        self,
        popularity: npt.ArrayLike,
        recommended: npt.ArrayLike | sparse.csr_array,
        n_lists: int | None = None,
    ) -> pd.DataFrame:
        """Return how often items of each observed popularity are recommended, f(n*) of Yang et al. (2018).

        Of lists that are given as in `fit_gamma`. Columns popularity (n* > 0, ascending), frequency (mean
        number of lists that contain an item of that level), n_items, and fitted = exp(a) (n*)^γ, of method
        "cloglog" the saturating curve n_lists (1 − exp(−exp(a) (n*)^γ)).
        """
        check_same_labels(popularity=popularity, recommended=recommended)
        counts = check_counts("popularity", popularity)
        total, n_lists, _ = _as_counts(recommended, n_lists, counts.size)
        seen = counts > 0
        levels, level, n_items = np.unique(counts[seen], return_inverse=True, return_counts=True)
        mean = np.bincount(level, weights=total[seen]) / n_items
        rate = np.exp(self.slope[0]) * levels ** self.slope[1]
        fitted = -n_lists * np.expm1(-rate) if self.method == "cloglog" else rate
        return pd.DataFrame({"popularity": levels, "frequency": mean, "n_items": n_items, "fitted": fitted})

    def __repr__(self) -> str:
        low, high = self.conf_int()
        left = {"n* = 0": self.n_unseen, "most popular": self.n_top_dropped, "rare": self.n_rare_dropped}
        out = [f"{name}: {count:,}" for name, count in left.items() if count]
        lines = [
            f"GammaFit ({self.method}): gamma = {self.gamma:.3f} ± {self.standard_error:.3f} "
            f"(95% {low:.3f} to {high:.3f}), eta = {self.eta:.3f}",
            f"  {self.n_items:,} items at {self.n_levels:,} levels of n*"
            + (f"; left out: {', '.join(out)}" if out else ""),
        ]
        if self.replicates is not None:
            low, high = self.conf_int(kind="bootstrap")
            lines.append(f"  over {self.replicates.size:,} resamples of the lists: {low:.3f} to {high:.3f}")
        if self.scale is not None:
            lines.append(f"  scale kappa = {self.scale:.4g}")
        return "\n".join([*lines, *("  ! " + text.replace("\n", "\n    ") for text in self.warnings)])


Method = Literal["negative-binomial", "poisson", "cloglog", "level-ols"]
Source = Literal["logging-policy", "evaluated", "unknown"]
METHODS = ("negative-binomial", "poisson", "cloglog", "level-ols")
SOURCES = ("logging-policy", "evaluated", "unknown")
FEW_LEVELS = 5
NOT_CONVERGED = "the fit of γ did not converge; do not use it."


def fit_gamma(
    popularity: npt.ArrayLike,
    recommended: npt.ArrayLike | sparse.csr_array,
    n_lists: int | None = None,
    method: Method = "negative-binomial",
    *,
    drop_top: float = 0.005,
    source: Source = "unknown",
) -> GammaFit:
    """Return γ of E[times item i is recommended] ∝ (n*_i)^γ, with a standard error.

    Every item with n* > 0 is a row, whether it was recommended or not.

    ===================  ====================================================================
    "negative-binomial"  maximum likelihood, Var = μ + αμ²
    "poisson"            Poisson likelihood, for its mean only (quasi-Poisson)
    "cloglog"            lists holding i ~ Binomial(n_lists, 1 − exp(−τ (n*_i)^γ)): exact, up to the
                         variation of τ between lists, for lists drawn without replacement, however full
    "level-ols"          unweighted line through the log mean count of each popularity level, levels
                         without any recommendation left out: Yang et al. It is biased towards 0
    ===================  ====================================================================

    γ describes the recommender that made the lists. It is the γ of the log only if that recommender decided
    what the users of the log were shown.

    Parameters
    ----------
    popularity : (n_items,) array-like
        n*_i, training interactions of each item, >= 0. Items with 0 are left out, and counted.
    recommended : (n_items,) array-like, or (n_lists, k) int array, or sparse array
        How many lists hold each item; or the lists themselves, as item codes, −1 in empty places, or as
        `count_recommendations` returns them, which allow a bootstrap.
    n_lists : int
        Number of lists; not needed with lists.
    method : {"negative-binomial", "poisson", "cloglog", "level-ols"}
        See the table.
    drop_top : float
        Share in [0, 1) of the items, those with the highest n*, that is left out; fewer where n* is tied.
    source : {"logging-policy", "evaluated", "unknown"}
        Whose lists these are: of the recommender that produced the log, or of the one to be evaluated, which
        warns.

    Raises
    ------
    InputError
        For counts that are negative, not finite, all 0, or above `n_lists`; for fewer than two levels of n*.

    Warns
    -----
    IdentificationWarning
        γ > 1; lists of the evaluated recommender; fewer than five levels of n*.
    DataWarning
        The fit did not converge.

    References
    ----------
    Yang et al., RecSys 2018, doi 10.1145/3240323.3240355.

    Examples
    --------
    Twice the popularity, twice the recommendations: γ = 1.

    >>> fit = fit_gamma([1, 2, 4, 8, 16], [2, 4, 8, 16, 32], 100, method="poisson", source="logging-policy")
    >>> round(fit.gamma, 6), round(fit.eta, 6)
    (1.0, 1.0)
    """
    check_choice("method", method, METHODS)
    check_choice("source", source, SOURCES)
    check_same_labels(popularity=popularity, recommended=recommended)
    counts = check_counts("popularity", popularity)
    total, n_lists, lists = _as_counts(recommended, n_lists, counts.size)
    keep, numbers = select_items(counts, drop_top=drop_top)
    popular, total = counts[keep], total[keep]
    if total.sum() == 0:
        raise InputError(f"none of the {total.size:,} items with n* > 0 that are kept was ever recommended.")
    result, dispersion = _fit(method, popular, total, n_lists)
    gamma = float(result.params[1])
    evaluated = (
        "γ was fitted to lists of the recommender under evaluation, not of the one that made the log.\n"
        + NOT_IDENTIFIED
    )
    notes = warn_of_fit(
        gamma,
        numbers["n_levels"],
        more=evaluated if source == "evaluated" else None,
        unusable=None if getattr(result, "converged", True) else NOT_CONVERGED,
    )
    if source == "unknown":
        notes = (
            *notes,
            "γ describes whoever made the lists; say source='logging-policy' if that produced the log.",
        )
    return GammaFit(
        gamma=gamma,
        standard_error=float(result.bse[1]),
        method=method,
        result=result,
        slope=np.asarray(result.params),
        dispersion=dispersion,
        warnings=notes,
        lists=None if lists is None else _list_levels(popular, keep, lists),
        **numbers,
    )


def select_items(
    popularity: FloatArray,
    *,
    drop_top: float = 0.0,
    min_popularity: float = 0.0,
    extra: BoolArray | None = None,
) -> tuple[BoolArray, dict[str, Any]]:
    """Return which items enter a fit, (n_items,), and `GammaFit`'s counts of them and of the others."""
    share = check_fraction("drop_top", drop_top, low_open=False)
    seen = popularity > 0
    if not seen.any():
        raise InputError(f"all {popularity.size:,} popularity counts are 0; γ needs observed interactions.")
    if extra is not None:
        seen &= extra
    if not seen.any():
        raise InputError("no item has both n* > 0 and an exposure; γ cannot be fitted.")
    # Above a limit, not the first so many: which of several equal items is left out must not matter.
    ordered = np.sort(popularity[seen])
    limit = ordered[-1 - int(share * ordered.size + 1e-9)]
    below_top = seen & (popularity <= limit)
    keep = below_top & (popularity >= min_popularity)
    n_items, n_levels = int(keep.sum()), int(np.unique(popularity[keep]).size)
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


def warn_of_fit(gamma: float, n_levels: int, *, more: str | None, unusable: str | None) -> tuple[str, ...]:
    """Warn, at the line of the user, of what limits a fit of γ or makes it useless; return the texts."""
    notes = [] if gamma <= 1 else [gamma_above_one(gamma)]
    notes += [more] if more else []
    if n_levels < FEW_LEVELS:
        notes.append(
            f"n* has {n_levels} levels only: γ rests on too few points for its standard error to mean much."
        )
    for text in notes:
        warn_user(text, IdentificationWarning)
    if unusable:
        warn_user(unusable, DataWarning)
        notes.append(unusable)
    return tuple(notes)


def gamma_above_one(gamma: float) -> str:
    """Return the text of the warning about γ > 1."""
    return (
        f"gamma = {gamma:.3g} > 1 says that true popularity falls as observed popularity rises "
        f"(n_i ∝ n*_i^{(1 - gamma) / 2:.3g}).\nCheck it against a random-exposure sample if there is one."
    )


def _as_counts(
    recommended: npt.ArrayLike | sparse.csr_array, n_lists: int | None, n_items: int
) -> tuple[FloatArray, int, sparse.csr_array | None]:
    """Return how many lists hold each item, how many there are, and the lists where they are given."""
    given: Any = recommended
    if np.ndim(given) == 2 and not hasattr(given, "tocsr"):
        if n_lists not in (None, len(given)):
            raise InputError(f"recommended holds {len(given)} lists, and n_lists is {n_lists}; leave it out.")
        given = list_matrix(np.asarray(given), n_items)
    if hasattr(given, "tocsr"):
        lists = sparse.csr_array(given)
        if lists.shape[1] != n_items:
            raise InputError(
                f"recommended counts {lists.shape[1]} items, popularity {n_items}; they must agree."
            )
        return np.asarray(lists.sum(axis=0), dtype=np.float64), lists.shape[0], lists
    counts = check_counts("recommended", given, size=n_items)
    if n_lists is None:
        raise InputError("n_lists is needed with counts: the number of lists that were counted.")
    check_positive_int("n_lists", n_lists)
    n_above = int((counts > n_lists).sum())
    if n_above:
        raise InputError(
            f"a list holds an item at most once, so that recommended <= n_lists = {n_lists}; "
            f"{n_above} of {counts.size} items have more."
        )
    return counts, int(n_lists), None


def _fit(method: Method, popular: FloatArray, total: FloatArray, n_lists: int) -> tuple[Any, float | None]:
    """Return the statsmodels result and the dispersion."""
    if method == "level-ols":
        level, place = np.unique(popular, return_inverse=True)
        mean = np.bincount(place, total) / np.bincount(place)
        used = mean > 0
        if used.sum() < 2:
            raise InputError("fewer than 2 popularity levels were ever recommended; a line needs 2.")
        from statsmodels.regression.linear_model import OLS
        from statsmodels.tools import add_constant

        x = add_constant(np.log(level[used]), has_constant="add")
        with np.errstate(divide="ignore", invalid="ignore"):
            return OLS(np.log(mean[used]), x).fit(cov_type="HC1"), None
    (level, y), frequency = group_rows(popular, total)
    x = np.log(level)
    if method == "negative-binomial":
        return fit_negative_binomial(x, y, frequency)
    if method == "cloglog":
        result = fit_glm(np.column_stack([y, n_lists - y]), x, frequency, "cloglog")
    else:
        result = fit_glm(y, x, frequency, "poisson")
    return result, pearson_dispersion(result)


def pearson_dispersion(result: Any) -> float | None:
    """Return Pearson χ² per degree of freedom; None where none is left."""
    return float(result.pearson_chi2 / result.df_resid) if result.df_resid > 0 else None


def _list_levels(popular: FloatArray, keep: BoolArray, lists: sparse.csr_array) -> ListLevels:
    """Return how often each list holds items of each level."""
    level, place = np.unique(popular, return_inverse=True)
    of_level = sparse.csr_array((np.ones(place.size), (np.flatnonzero(keep), place)), (keep.size, level.size))
    return ListLevels(np.log(level), np.bincount(place).astype(np.float64), lists @ of_level)
