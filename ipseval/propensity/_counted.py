"""Propensities that are counted: the share of an item's relevant pairs that were observed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from ipseval.data.interactions import Interactions
from ipseval.errors import InputError
from ipseval.propensity._base import Propensity, check_shrinkage
from ipseval.propensity._count_models import fit_glm
from ipseval.utils.checks import check_counts, check_same_labels
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray, as_readonly, assign

# Added to n*, so that items without training interactions have a place on the power law.
SMOOTHING = 1.0
# A smaller K would give items that were never observed a propensity near 0, and so almost all of the weight.
MIN_SHRINKAGE = 0.5


@public_class
@dataclass(frozen=True, eq=False)
class CountedPropensity:
    """Count the propensity of each item where observation itself was measured on random pairs.

    Use it if users were asked about items that were drawn at random, whether an item is relevant to them and
    whether they had observed it before, as in CM100K. The pairs must be neither in the log nor in the
    random exposure that a validation compares with. Otherwise the counts reproduce the reference.

    Parameters
    ----------
    n_relevant : (n_items,) array-like
        Number of relevant pairs of each item among the random pairs, >= 0.
    n_observed : (n_items,) array-like
        Number of these that were observed, at most `n_relevant`.
    shrinkage : "fit" or float, default "fit"
        K > 0, the weight of the power law in relevant pairs; "fit" estimates it by moments.

    Raises
    ------
    InputError
        For counts that are negative or not finite, n_observed > n_relevant, no observed pair at all, or
        counts of another number of items than the log.

    See Also
    --------
    DirectPropensity : Measure propensities where only relevance was measured.

    Notes
    -----
    P_i = (o_i + K λ_i)/(r_i + K) for r_i relevant pairs of item i, o_i of them observed.

    The counts are shrunk to a power law of training popularity, λ_i = e^a (n*_i + 1)^b, which is a Poisson
    regression of o_i with offset log r_i and is at most 1. By moments of the beta-binomial distribution,
    K + 1 = Σ r_i (r_i − 1) λ_i (1 − λ_i) / Σ ((o_i − r_i λ_i)² − r_i λ_i (1 − λ_i)), at least 1.5. Where the
    counts vary no more than by chance, P_i = λ_i.

    Examples
    --------
    >>> import pandas as pd
    >>> log = Interactions.from_frame(pd.DataFrame({"user": [0, 1, 2], "item": [0, 0, 1]}))
    >>> CountedPropensity([10, 10], [6, 3], shrinkage=10).fit(log).item.round(3)
    array([0.6, 0.3])
    """

    n_relevant: npt.ArrayLike
    n_observed: npt.ArrayLike
    shrinkage: float | Literal["fit"] = "fit"

    def __post_init__(self) -> None:
        check_same_labels(n_relevant=self.n_relevant, n_observed=self.n_observed)
        relevant = check_counts("n_relevant", self.n_relevant)
        observed = check_counts("n_observed", self.n_observed, size=relevant.size)
        n_above = int((observed > relevant).sum())
        if n_above:
            raise InputError(
                f"n_observed must not exceed n_relevant; it does for {n_above} of {relevant.size} items. "
                "Count observed pairs among the relevant pairs only."
            )
        if not observed.any():
            raise InputError(
                f"n_observed must be above 0 for at least one item; all {relevant.size} are 0. "
                "Count more random pairs."
            )
        check_shrinkage(self.shrinkage)
        assign(self, n_relevant=as_readonly(relevant), n_observed=as_readonly(observed))

    def fit(self, train: Interactions) -> Propensity:
        """Return the propensity of every item.

        Parameters
        ----------
        train : Interactions
            Training log, whose popularity the power law reads.

        Returns
        -------
        Propensity
            One probability per item.

        Raises
        ------
        InputError
            When the log has another number of items.
        """
        relevant = np.asarray(self.n_relevant, dtype=np.float64)
        observed = np.asarray(self.n_observed, dtype=np.float64)
        if relevant.size != train.n_items:
            raise InputError(
                f"n_relevant must have one count for each of the {train.n_items} items of the log; got "
                f"{relevant.size} counts. Count over all items, with 0 where there is no relevant pair."
            )
        law = _fit_power_law(train.popularity + SMOOTHING, relevant, observed)
        shrinkage = self._resolve_shrinkage(relevant, observed, law)
        if np.isinf(shrinkage):
            item = law
            target = "λ itself"
        else:
            item = (observed + shrinkage * law) / (relevant + shrinkage)
            target = f"K = {shrinkage:.3g}"
        return Propensity(
            item=item,
            is_probability=True,
            model=f"counted on {relevant.sum():,.0f} relevant pairs, shrunk with {target}",
            n_items=item.size,
            popularity=train.popularity.astype(np.float64),
            item_ids=train.item_ids,
            basis="exposure",
        )

    def _resolve_shrinkage(self, relevant: FloatArray, observed: FloatArray, law: FloatArray) -> float:
        """Return K; infinite where the counts vary no more than by chance."""
        if not isinstance(self.shrinkage, str):
            return float(self.shrinkage)
        variance = law * (1 - law)
        excess = float(((observed - relevant * law) ** 2 - relevant * variance).sum())
        if excess <= 0:
            return np.inf
        return max(float((relevant * (relevant - 1) * variance).sum()) / excess - 1, MIN_SHRINKAGE)


def _fit_power_law(popularity: FloatArray, relevant: FloatArray, observed: FloatArray) -> FloatArray:
    """Return λ of every item; the overall share where all counted items are equally popular."""
    counted = relevant > 0
    x = np.log(popularity)
    if np.unique(x[counted]).size < 2:
        return np.full(x.size, observed.sum() / relevant.sum())
    result = fit_glm(
        observed[counted],
        x[counted],
        np.ones(int(counted.sum())),
        "poisson",
        offset=np.log(relevant[counted]),
    )
    intercept, slope = result.params
    return np.asarray(np.minimum(np.exp(intercept + slope * x), 1.0))
