"""GammaFit: an estimate of γ, how sure it is, and what it was fitted to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.special import ndtri

from ipseval._base.checks import as_generator, check_choice, check_fraction, check_positive_int
from ipseval._base.types import FloatArray, RngLike, freeze
from ipseval.errors import InputError
from ipseval.propensity._count_models import refit_levels

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

    def __repr__(self) -> str:
        low, high = self.conf_int()
        left = {"n* = 0": self.n_unseen, "most popular": self.n_top_dropped, "rare": self.n_rare_dropped}
        out = [f"{name}: {count:,}" for name, count in left.items() if count]
        lines = [
            f"GammaFit ({self.method}): gamma = {self.gamma:.3f} ± {self.standard_error:.3f} "
            f"(95 % {low:.3f} to {high:.3f}), eta = {self.eta:.3f}",
            f"  {self.n_items:,} items at {self.n_levels:,} levels of n*"
            + (f"; left out: {', '.join(out)}" if out else ""),
        ]
        if self.replicates is not None:
            low, high = self.conf_int(kind="bootstrap")
            lines.append(f"  over {self.replicates.size:,} resamples of the lists: {low:.3f} to {high:.3f}")
        if self.scale is not None:
            lines.append(f"  scale kappa = {self.scale:.4g}")
        return "\n".join([*lines, *("  ! " + text.replace("\n", "\n    ") for text in self.warnings)])
