"""Frames behind the pictures of a fit: items per popularity, and how often each is recommended."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval._checks import check_counts, check_same_labels
from ipseval.errors import InputError
from ipseval.propensity._gamma_fit import GammaFit
from ipseval.propensity._popularity_exponent import PopularityExponent


def popularity_levels(popularity: npt.ArrayLike, *, fit: PopularityExponent | None = None) -> pd.DataFrame:
    """Return how many items have at least each observed popularity, and what a fitted power law expects.

    Columns popularity (n* > 0, ascending), n_items (at that popularity), n_at_least, and with a fit `fitted`:
    N_tail ζ(α, n*)/ζ(α, xmin), the expected n_at_least of the discrete power law; NaN below xmin.

    Examples
    --------
    >>> popularity_levels([1, 1, 3])["n_at_least"].tolist()
    [3, 1]
    """
    counts = check_counts("popularity", popularity, ordered=False)
    levels, n_items = np.unique(counts[counts > 0], return_counts=True)
    at_least = np.cumsum(n_items[::-1])[::-1]
    frame = pd.DataFrame({"popularity": levels, "n_items": n_items, "n_at_least": at_least})
    if fit is not None:
        from scipy.special import zeta

        inside = levels >= fit.xmin
        tail = zeta(fit.exponent, levels) / zeta(fit.exponent, fit.xmin)
        frame["fitted"] = np.where(inside, n_items[inside].sum() * tail, np.nan)
    return frame


def frequency_by_popularity(
    popularity: npt.ArrayLike,
    recommended: npt.ArrayLike,
    *,
    fit: GammaFit | None = None,
    n_lists: int | None = None,
) -> pd.DataFrame:
    """Return how often items of each observed popularity are recommended, f(n*) of Yang et al. (2018).

    Columns popularity (n* > 0, ascending), frequency (mean number of lists that contain an item of that
    level), n_items, and with a fit `fitted` = exp(a) (n*)^γ, or for method "cloglog" its saturating curve
    n_lists (1 − exp(−exp(a) (n*)^γ)), which needs `n_lists`.

    References
    ----------
    Yang et al., RecSys 2018, doi 10.1145/3240323.3240355, section 4.3.
    """
    check_same_labels(popularity=popularity, recommended=recommended)
    counts = check_counts("popularity", popularity)
    lists = check_counts("recommended", recommended)
    if lists.size != counts.size:
        raise InputError(f"recommended must have {counts.size} entries like popularity; got {lists.size}.")
    seen = counts > 0
    levels, level, n_items = np.unique(counts[seen], return_inverse=True, return_counts=True)
    total = np.bincount(level, weights=lists[seen])
    frame = pd.DataFrame({"popularity": levels, "frequency": total / n_items, "n_items": n_items})
    if fit is not None:
        rate = np.exp(fit.slope[0]) * levels ** fit.slope[1]
        if fit.method == "cloglog":
            if n_lists is None:
                raise InputError("the curve of a cloglog fit needs n_lists, the number of lists.")
            rate = -n_lists * np.expm1(-rate)
        frame["fitted"] = rate
    return frame
