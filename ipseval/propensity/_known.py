"""Known propensities: logged by an experiment, a bandit policy, or published with a data set."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import narwhals as nw
import numpy as np
import numpy.typing as npt

from ipseval._checks import as_float_vector, by_label
from ipseval._types import AnyArray, FloatArray
from ipseval.errors import PropensityError
from ipseval.interactions import Interactions, encode
from ipseval.propensity._base import HasIds, Propensity


@dataclass(frozen=True, eq=False)
class KnownPropensity:
    """Propensities that are known, on the scale of probabilities.

    Parameters
    ----------
    item : (n_items,) array-like, Series or data frame, optional
        P_i in (0, 1] in the order of `split.item_ids`, a pandas Series with item ids as labels, or a frame
        with columns item and propensity. NaN or no row: unknown, its positives are left out and counted.
    pair : data frame, optional
        Columns user, item, propensity; P_ui in (0, 1]. Positives without a row are left out and counted.
    is_probability : bool
        False when the values are known only up to a common factor.

    Raises
    ------
    PropensityError
        When neither or both are given, or a value is outside (0, 1].
    """

    item: npt.ArrayLike | Any | None = None
    pair: Any | None = None
    is_probability: bool = True

    def __post_init__(self) -> None:
        if (self.item is None) == (self.pair is None):
            raise PropensityError("KnownPropensity takes either item= (one per item) or pair= (a frame).")

    def __repr__(self) -> str:
        given, what = (self.item, "items") if self.item is not None else (self.pair, "pairs")
        scale = "" if self.is_probability else ", up to a factor"
        return f"KnownPropensity({len(given):,} {what}{scale})"  # type: ignore[arg-type]  # any sized input

    def fit(self, ids: HasIds) -> Propensity:
        """Return the propensity in the id space of a split (or anything with user_ids and item_ids)."""
        n_items = int(ids.item_ids.size)
        if self.item is not None:
            values = self._by_item(ids.item_ids)
            return Propensity(values, self.is_probability, "known per item", n_items, item_ids=ids.item_ids)
        log = Interactions.from_frame(self.pair, value="propensity", users=ids.user_ids, items=ids.item_ids)
        order = np.argsort(log.pair_key)
        assert log.value is not None
        return Propensity(
            None,
            self.is_probability,
            "known per user–item pair",
            n_items,
            pair=log.value[order].astype(np.float64),
            pair_key=log.pair_key[order],
            item_ids=ids.item_ids,
            user_ids=ids.user_ids,
        )

    def _by_item(self, item_ids: AnyArray) -> FloatArray:
        """Return P_i in the order of `item_ids`, NaN where a frame has no row."""
        try:
            table: Any = nw.from_native(self.item)
        except TypeError:
            given: Any = by_label(self.item, item_ids, "item")  # or what as_float_vector refuses
            return as_float_vector("item", given, size=int(item_ids.size))
        missing = {"item", "propensity"} - set(table.columns)
        if missing:
            raise PropensityError(f"the propensity frame lacks column {sorted(missing)[0]!r}.")
        codes, _ = encode(table["item"].to_numpy(), item_ids, "column 'item' of the propensity frame")
        n_repeated = codes.size - np.unique(codes).size
        if n_repeated:
            raise PropensityError(f"the propensity frame has {n_repeated} rows that repeat an item.")
        values = np.full(item_ids.size, np.nan)
        values[codes] = as_float_vector("propensity", table["propensity"].to_numpy())
        return values
