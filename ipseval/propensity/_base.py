"""Propensity: the chance that a relevant item is observed, per item or per user–item pair."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import numpy as np

from ipseval._checks import check_choice, check_fraction, check_real, examples
from ipseval._types import AnyArray, FloatArray, IntArray, readonly
from ipseval.errors import PropensityError


class HasIds(Protocol):
    """Anything that carries the universe of ids: a Split, Interactions or RankedPositives."""

    @property
    def user_ids(self) -> AnyArray:
        """Ids of the users."""

    @property
    def item_ids(self) -> AnyArray:
        """Ids of the items."""


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
        The propensity before clipping or smoothing.
    n_capped : int
        Values that came out above 1 and were set to 1 by a model that calibrates the scale.
    item_ids, user_ids : arrays or None
        What the entries are for, in order; None: not known, and only the number of items can be checked.
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
    n_capped: int = 0
    item_ids: AnyArray | None = None
    user_ids: AnyArray | None = None

    def __post_init__(self) -> None:
        if (self.item is None) == (self.pair is None):
            raise PropensityError("a propensity is either per item or per pair; exactly one must be given.")
        values = self.item if self.item is not None else self.pair
        assert values is not None
        known = values[~np.isnan(values)]
        check_range(known, is_probability=self.is_probability)
        if known.size == 0:
            raise PropensityError("no item or pair has a propensity: all values are NaN.")
        for name in ("item", "pair", "pair_key", "popularity", "item_ids", "user_ids"):
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

    def check_ids(self, ids: HasIds) -> None:
        """Raise `PropensityError` unless it belongs to the ids of a split, of interactions or of ranks."""
        if self.n_items != ids.item_ids.size:
            raise PropensityError(
                f"the propensity covers {self.n_items:,} items, the split has {ids.item_ids.size:,}; "
                "fit it to the training part of this split."
            )
        for what, own, other in (
            ("items", self.item_ids, ids.item_ids),
            ("users", self.user_ids, ids.user_ids),
        ):
            if own is not None and not np.array_equal(own, other):
                raise PropensityError(
                    f"the propensity is for other {what}, or the same in another order ({examples(own)}), "
                    f"than the split has ({examples(other)}); fit it to the training part of this split."
                )

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
        floor = check_real("floor", floor)
        check_range(np.asarray([floor]), is_probability=self.is_probability, name="floor")
        return replace(
            self,
            item=None if self.item is None else np.maximum(self.item, floor),
            pair=None if self.pair is None else np.maximum(self.pair, floor),
            model=f"{self.model}, clipped at {floor:g}",
            floor=floor,
            unclipped=self.unclipped or self,
        )

    def smooth(self, *, amount: float) -> Propensity:
        """Return (1 − amount)·P + amount·mean(P); the original stays in `unclipped`.

        The mean is over the items (or pairs) that have a propensity. Weights of rare items shrink and those
        of popular items grow: 0 changes nothing, 1 gives equal weights.

        Parameters
        ----------
        amount : float
            In [0, 1].

        Raises
        ------
        InputError
            When `amount` is outside [0, 1].

        Examples
        --------
        >>> Propensity(np.array([0.25, 0.75]), True, "known", 2).smooth(amount=0.5).item
        array([0.375, 0.625])
        """
        share = check_fraction("amount", amount, low_open=False, high_open=False)
        values = self.item if self.item is not None else self.pair
        assert values is not None
        mixed = (1 - share) * values + share * np.nanmean(values)
        return replace(
            self,
            item=None if self.item is None else mixed,
            pair=None if self.pair is None else mixed,
            gamma=None,
            eta=None,
            model=f"{self.model}, smoothed by {share:g}",
            unclipped=self.unclipped or self,
        )

    def cut_share(self, user: IntArray, item: IntArray) -> float:
        """Return the share of the weight of some positives that clipping and smoothing cut, in [0, 1).

        Σ max(w − w', 0) / Σ w over the pairs that have a propensity, with w = 1/P before and w' after; 0
        where nothing was clipped. For a metric in [0, 1] and clipping alone it bounds the bias of pooled ips
        relative to the weight's total.

        Parameters
        ----------
        user, item : (n_pairs,) int arrays
            Codes of the positives.
        """
        if self.unclipped is None:
            return 0.0
        before, after = 1 / self.unclipped.at(user, item), 1 / self.at(user, item)
        return float(np.nansum(np.maximum(before - after, 0)) / np.nansum(before))

    def held_out(self, *, test_fraction: float, counted_on: Literal["train", "log"] = "train") -> Propensity:
        """Return the propensity of a held-out positive: observed, and sent to test by a random split.

        With P the propensity of the whole log and ρ the test share, P(in test | not in train) is
        ρP / (1 − (1−ρ)P). Close to ρP while P is small.

        Parameters
        ----------
        test_fraction : float
            ρ in (0, 1).
        counted_on : {"train", "log"}
            Whether this propensity is of being in the training part, (1−ρ)P (as when n* is counted there),
            or in the whole log, P.

        Raises
        ------
        PropensityError
            When the propensity is known up to a factor only, or P exceeds 1 for some item.

        Examples
        --------
        Half of the relevant pairs are observed, a fifth of those held out: .1 of the .6 not in train.

        >>> known = Propensity(np.array([0.5]), True, "known", 1)
        >>> known.held_out(test_fraction=0.2, counted_on="log").item.round(4)
        array([0.1667])
        """
        rho = check_fraction("test_fraction", test_fraction)
        check_choice("counted_on", counted_on, ("train", "log"))
        if not self.is_probability:
            raise PropensityError(
                f"{self.model} is known up to a factor; a held-out propensity needs the scale: "
                "scale='max', a number, or a calibration on random exposure."
            )

        def change(values: FloatArray | None) -> FloatArray | None:
            if values is None:
                return None
            in_train = values if counted_on == "train" else (1 - rho) * values
            n_above = int((in_train > (1 - rho) * (1 + 1e-12)).sum())
            if n_above:
                raise PropensityError(
                    f"{n_above} of {values.size} propensities of being in train exceed 1 − ρ = {1 - rho:g}, "
                    "the largest that a random split allows. Check the scale, or say counted_on='log'."
                )
            # At most 1 by the check above, but for rounding.
            return np.asarray(np.minimum(rho / (1 - rho) * in_train / (1 - in_train), 1.0))

        return replace(
            self,
            item=change(self.item),
            pair=change(self.pair),
            gamma=None,
            eta=None,
            model=f"{self.model}, held out by a split of {rho:g}",
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
