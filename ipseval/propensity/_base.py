"""Propensity: the chance that a relevant item is observed, per item or per user–item pair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ipseval._types import FloatArray, IntArray, readonly
from ipseval.errors import PropensityError


@dataclass(frozen=True, eq=False)
class Propensity:
    """P_ui = P(O_ui = 1 | i ∈ S_u), or a quantity proportional to it.

    Attributes
    ----------
    item : (n_items,) float array or None
        One propensity per item, > 0. NaN: the item has none, and its positives leave every estimator.
    pair : (n_known,) float array or None
        One propensity per user–item pair, > 0, for the pairs in `pair_key`.
    pair_key : (n_known,) sorted int array or None
        `user * n_items + item` of each entry of `pair`.
    is_probability : bool
        True: on the scale of probabilities, in (0, 1]. False: known up to a common factor only.
    model : str
        What it is, for the report.
    gamma, eta : float or None
        Exponents of the power law P_i = κ (n*_i)^η, η = (γ+1)/2, where there is one.
    popularity : (n_items,) float array or None
        The n*_i that it was computed from.
    fit : object or None
        The fit that gave γ, with its standard error.
    floor : float or None
        Value below which propensities were raised, where it is clipped.
    unclipped : Propensity or None
        The propensity before clipping.
    """

    item: FloatArray | None
    is_probability: bool
    model: str
    n_items: int
    pair: FloatArray | None = None
    pair_key: IntArray | None = None
    gamma: float | None = None
    eta: float | None = None
    popularity: FloatArray | None = None
    fit: Any | None = None
    floor: float | None = None
    unclipped: Propensity | None = None

    def __post_init__(self) -> None:
        if (self.item is None) == (self.pair is None):
            raise PropensityError("a propensity is either per item or per pair; exactly one must be given.")
        values = self.item if self.item is not None else self.pair
        assert values is not None
        known = values[~np.isnan(values)]
        check_range(known, is_probability=self.is_probability)
        if known.size == 0:
            raise PropensityError("no item has a propensity: all popularity counts are 0.")
        for name in ("item", "pair", "pair_key", "popularity"):
            array = getattr(self, name)
            if array is not None:
                object.__setattr__(self, name, readonly(array))

    def __repr__(self) -> str:
        scale = "probability" if self.is_probability else "up to a factor"
        kind = "per item" if self.item is not None else "per user–item pair"
        return f"Propensity({self.model}; {kind}; {scale})"

    def at(self, user: IntArray, item: IntArray) -> FloatArray:
        """Return the propensity of each pair, (n_pairs,); NaN where there is none."""
        if self.item is not None:
            return self.item[item]
        assert self.pair is not None
        assert self.pair_key is not None
        key = user * np.int64(self.n_items) + item
        place = np.minimum(np.searchsorted(self.pair_key, key), self.pair_key.size - 1)
        return np.where(self.pair_key[place] == key, self.pair[place], np.nan)

    def clip(self, *, floor: float) -> Propensity:
        """Return a propensity raised to `floor` where it is smaller; the original stays in `unclipped`.

        Clipping trades variance for bias: with w = 1/P, the share Σ(w − w_clip)/Σw of the weight is cut.

        Parameters
        ----------
        floor : float
            In (0, 1] for a probability; in the units of the propensity where it is known up to a factor.

        Raises
        ------
        PropensityError
            When `floor` is not positive and finite, or above 1 for a probability.
        """
        check_range(np.asarray([floor], dtype=np.float64), is_probability=self.is_probability, name="floor")
        return replace(
            self,
            item=None if self.item is None else np.maximum(self.item, floor),
            pair=None if self.pair is None else np.maximum(self.pair, floor),
            model=f"{self.model}, clipped at {floor:g}",
            floor=float(floor),
            unclipped=self.unclipped or self,
        )


def check_range(values: FloatArray, *, is_probability: bool, name: str = "propensity") -> None:
    """Raise `PropensityError`, with the count, unless all are in (0, 1] or, up to a factor, in (0, ∞)."""
    if is_probability:
        bad, interval = ~((values > 0) & (values <= 1)), "(0, 1]"
    else:
        bad, interval = ~((values > 0) & np.isfinite(values)), "(0, inf)"
    if bad.any():
        zeros = int((values == 0).sum())
        detail = (
            f"{zeros} are 0" if zeros == bad.sum() else f"{int(bad.sum())} are not (e.g. {values[bad][0]:g})"
        )
        raise PropensityError(
            f"{name} must be in {interval}; of {values.size:,} values {detail}. An item that can never be "
            "observed cannot be weighted: give it a positive propensity, or NaN to leave its positives out."
        )
