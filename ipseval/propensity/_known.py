"""Known propensities: logged by an experiment, a bandit policy, or published with a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.data.interactions import Interactions, encode
from ipseval.errors import InputError, PropensityError
from ipseval.propensity._base import BASES, Basis, PairFunction, Propensity, check_range
from ipseval.utils.checks import as_float_vector, check_bool, check_choice, kind_of
from ipseval.utils.columns import as_frame
from ipseval.utils.ids import by_label
from ipseval.utils.types import AnyArray, FloatArray, HasIds, assign


@dataclass(frozen=True, eq=False)
class KnownPropensity:
    """Propensities that are known: one per item, one per pair, of rank one, or a function.

    Parameters
    ----------
    item : (n_items,) array-like, mapping, Series or data frame, optional
        P_i in (0, 1] in the order of `split.item_ids`, {item id: P}, a pandas Series with item ids as labels,
        or a frame with columns item and propensity. NaN or no entry: unknown, its positives are left out and
        counted.
    pair : data frame, optional
        Columns user, item, propensity; P_ui in (0, 1]. Positives without a row are left out and counted.
    user : (n_users,) array-like, mapping or Series, optional
        With `item`: P_ui = a_u p_i, this being a_u in the order of `split.user_ids` or by label.
    function : callable, optional
        (user codes (n,), item codes (n,)) -> P_ui (n,); the codes are places in `split.user_ids` and
        `split.item_ids`. NaN: unknown.
    is_probability : bool
        False when the values are known only up to a common factor.
    basis : {"assumed", "design", "exposure", "fitted"}
        Where they come from. "design": a randomisation that was logged with them, so that a verdict rests on
        them. Without a word of it they are assumed.

    Raises
    ------
    PropensityError
        When none or several are given, a frame lacks a column, or a value is outside (0, 1].

    Examples
    --------
    >>> import pandas as pd
    >>> log = Interactions.from_frame(pd.DataFrame({"user": ["a", "b"], "item": [1, 2]}))
    >>> known = KnownPropensity(item=[0.5, 1.0], user=[0.2, 1.0]).fit(log)
    >>> known.at(np.array([0, 0, 1]), np.array([0, 1, 0]))
    array([0.1, 0.2, 0.5])
    """

    item: npt.ArrayLike | Any | None = None
    pair: Any | None = None
    is_probability: bool = True
    user: npt.ArrayLike | Any | None = None
    function: PairFunction | None = None
    basis: Basis = "assumed"

    def __post_init__(self) -> None:
        check_choice("basis", self.basis, BASES)
        check_bool("is_probability", self.is_probability)
        for name in ("item", "user"):
            values = getattr(self, name)
            if isinstance(values, Mapping):
                assign(self, **{name: _label_mapping(values, name)})
        n_given = sum(one is not None for one in (self.item, self.pair, self.function))
        if n_given != 1 or (self.user is not None and self.item is None):
            raise PropensityError(
                "KnownPropensity takes either item= (one per item, with user= a_u p_i) or pair= (a frame), "
                "or function=."
            )
        if self.function is not None:
            if not callable(self.function):
                raise PropensityError("function must be a callable (user codes, item codes) -> P.")
            return
        if self.user is not None and np.ndim(self.user) != 1:
            raise PropensityError("user must be one factor for each user, (n_users,).")
        if self.pair is not None:
            values = _columns(self.pair, ("user", "item", "propensity"))["propensity"].to_numpy()
        else:
            table = as_frame(self.item)
            values = self.item if table is None else _columns(table, ("item", "propensity"))["propensity"]
        values = as_float_vector("propensity", values)
        if self.user is None:
            check_range(values[~np.isnan(values)], is_probability=self.is_probability)

    def __repr__(self) -> str:
        scale = "" if self.is_probability else ", up to a factor"
        if self.function is not None:
            return f"KnownPropensity(a function{scale})"
        given, what = (self.item, "items") if self.item is not None else (self.pair, "pairs")
        factor = "" if self.user is None else f" × {len(self.user):,} users"  # type: ignore[arg-type]  # any sized input
        return f"KnownPropensity({len(given):,} {what}{factor}{scale})"  # type: ignore[arg-type]  # any sized input

    def fit(self, train: HasIds) -> Propensity:
        """Return the propensity in the id space of a log (or anything with user_ids and item_ids)."""
        if not (hasattr(train, "item_ids") and hasattr(train, "user_ids")):
            raise InputError(
                f"fit takes the training log (anything with user_ids, item_ids); got {type(train).__name__}."
            )
        ids: dict[str, Any] = {"n_items": int(train.item_ids.size), "item_ids": train.item_ids}
        ids["basis"] = self.basis
        if self.item is not None and self.user is None:
            return Propensity(self._by_item(train.item_ids), self.is_probability, "known per item", **ids)
        what = "known function"
        values: dict[str, Any] = {"function": self.function}
        if self.item is not None:
            given: Any = by_label(self.user, train.user_ids, "user")
            factor = as_float_vector("user", given, size=int(train.user_ids.size))
            what, values = "known factors", {"rank_one": (factor, self._by_item(train.item_ids))}
        elif self.pair is not None:
            users, items = train.user_ids, train.item_ids
            log = Interactions.from_frame(self.pair, value="propensity", users=users, items=items)
            order = np.argsort(log.pair_key)
            assert log.value is not None
            what = "known per user–item pair"
            values = {"pair": log.value[order].astype(np.float64), "pair_key": log.pair_key[order]}
        return Propensity(None, self.is_probability, what, **values, user_ids=train.user_ids, **ids)

    def _by_item(self, item_ids: AnyArray) -> FloatArray:
        """Return P_i in the order of `item_ids`, NaN where a frame has no row."""
        table = as_frame(self.item)
        if table is None:
            given: Any = by_label(self.item, item_ids, "item")  # or what as_float_vector refuses
            return as_float_vector("item", given, size=int(item_ids.size))
        codes, _ = encode(table["item"].to_numpy(), item_ids, "column 'item' of the propensity frame")
        n_repeated = codes.size - np.unique(codes).size
        if n_repeated:
            raise PropensityError(f"the propensity frame has {n_repeated} rows that repeat an item.")
        values = np.full(item_ids.size, np.nan)
        values[codes] = as_float_vector("propensity", table["propensity"].to_numpy())
        return values


def _label_mapping(values: Mapping[Any, Any], name: str) -> pd.Series:
    """Return {id: value} as a Series with the ids as labels."""
    if not values:
        raise PropensityError(
            f"`{name}` must contain at least one propensity; got an empty mapping. Pass {{id: P}}."
        )
    # An index made here is never the one that pandas only numbers, so the keys always count as ids.
    labels = pd.Index(list(values), tupleize_cols=False)
    numbers = as_float_vector("propensity", list(values.values()))
    return pd.Series(numbers, index=labels)


def _columns(table: Any, names: tuple[str, ...]) -> Any:
    """Return a frame that has the columns; raise `PropensityError` with the missing ones."""
    frame = as_frame(table)
    have = [] if frame is None else list(frame.columns)
    missing = [name for name in names if name not in have]
    if missing:
        came = f"columns {', '.join(map(str, have))}" if have else kind_of(table)
        raise PropensityError(
            f"the propensity frame lacks column {missing[0]!r}; expected {', '.join(names)}, got {came}."
        )
    return frame
