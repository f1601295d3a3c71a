"""Known propensities: logged by an experiment or a bandit policy, or published with a data set."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.data.interactions import Interactions, encode_in_universe
from ipseval.data.reading.column_names import match_columns
from ipseval.data.reading.held_tables import are_pair_keys, is_item_first
from ipseval.errors import InputError, PropensityError
from ipseval.propensity._base import BASES, Basis, PairFunction, Propensity, check_range
from ipseval.utils.checks import (
    as_float_vector,
    check_bool,
    check_choice,
    describe_type,
    format_count,
    has_default_index,
)
from ipseval.utils.columns import as_frame
from ipseval.utils.ids import align_labels
from ipseval.utils.public import public_class
from ipseval.utils.types import AnyArray, FloatArray, HasIds, IntArray, assign

ROLES = ("user", "item", "propensity")
SHORT_NAMES = ("p", "prob", "probability")  # of propensities in a frame that holds nothing else


@public_class
@dataclass(frozen=True, eq=False)
class KnownPropensity:
    """Use propensities that are known: per item, per pair, of rank one, or a function.

    Parameters
    ----------
    item : (n_items,) array-like, mapping, Series or data frame, optional
        P_i in (0, 1] in the order of `split.item_ids`, {item id: P}, a pandas Series with item ids as labels,
        or a frame with columns item and propensity, or their usual names (see `ipseval.read`), whose items may
        be its labels. NaN or no entry: unknown, its positives are left out and counted.
    pair : data frame, Series, mapping or (n_users, n_items) array, optional
        Columns user, item, propensity, or their usual names; P_ui in (0, 1]; or {(user, item): P}, or a Series
        with these labels. Positives without a row are left out and counted. An array is in the order of
        `split.user_ids` and `split.item_ids`; a frame may have these ids as labels.
    is_probability : bool, default True
        False when the values are known only up to a common factor.
    user : (n_users,) array-like, mapping or Series, optional
        With `item`: a_u of P_ui = a_u p_i, in the order of `split.user_ids` or by label.
    function : callable, optional
        (user codes (n,), item codes (n,)) -> P_ui (n,); the codes index `split.user_ids` and
        `split.item_ids`. NaN: unknown.
    basis : {"assumed", "design", "exposure", "logged", "fitted"}, default "assumed"
        Origin of the values. "design": a randomisation that was logged with them, so that a verdict can rely
        on them.

    Raises
    ------
    PropensityError
        When none or several are given, a frame lacks a column, or a value is outside (0, 1].

    See Also
    --------
    PowerLawPropensity : Compute propensities from popularity.
    LoggedPropensity : Read propensities from an impression log.

    Examples
    --------
    >>> import pandas as pd
    >>> log = Interactions.from_frame(pd.DataFrame({"user": ["a", "b"], "item": [1, 2]}))
    >>> known = KnownPropensity(item=[0.5, 1.0], user=[0.2, 1.0]).fit(log)
    >>> known.for_pairs(np.array([0, 0, 1]), np.array([0, 1, 0]))
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
        if self.pair is None and holds_pairs(self.item):
            assign(self, item=None, pair=self.item)
        assign(self, item=_unpack_labels(self.item, "item"), pair=_unpack_pairs(self.pair))
        if isinstance(self.item, Mapping):
            assign(self, item=_build_labelled_series(self.item, "item"))
        if isinstance(self.user, Mapping):
            assign(self, user=_build_labelled_series(self.user, "user"))
        assign(self, item=_rename_usual_columns(self.item, ("item", "propensity")))
        assign(self, pair=_rename_usual_columns(self.pair, ("user", "item", "propensity")))
        n_sources = sum(source is not None for source in (self.item, self.pair, self.function))
        if n_sources != 1 or (self.user is not None and self.item is None):
            raise PropensityError(
                "KnownPropensity takes either item= (one per item, with user= a_u p_i) or pair= (a frame), "
                "or function=."
            )
        if self.function is None:
            self._check_values()
        elif not callable(self.function):
            raise PropensityError("function must be a callable (user codes, item codes) -> P.")

    def _check_values(self) -> None:
        """Raise unless the values of `item` or `pair` are numbers, in range where no factor follows."""
        if self.user is not None and np.ndim(self.user) != 1:
            raise PropensityError("user must be one factor for each user, (n_users,).")
        values: Any = self.item
        if isinstance(self.pair, np.ndarray):
            if self.pair.ndim != 2:
                raise PropensityError(f"pair must be (n_users, n_items); got shape {self.pair.shape}.")
            values = self.pair.ravel()
        elif self.pair is not None:
            values = _require_columns(self.pair, ("user", "item", "propensity"))["propensity"].to_numpy()
        elif as_frame(self.item) is not None:
            values = _require_columns(self.item, ("item", "propensity"))["propensity"]
        numbers = as_float_vector("propensity", values)
        if self.user is None:
            check_range(numbers[~np.isnan(numbers)], is_probability=self.is_probability)

    def __repr__(self) -> str:
        scale = "" if self.is_probability else ", relative"
        if self.function is not None:
            return f"KnownPropensity(a function{scale})"
        if self.pair is not None:
            n_pairs = self.pair.size if isinstance(self.pair, np.ndarray) else len(self.pair)
            return f"KnownPropensity({format_count(n_pairs, 'pair')}{scale})"
        size = format_count(len(self.item), "item")  # type: ignore[arg-type]  # any sized input
        if self.user is not None:
            size += f" × {format_count(len(self.user), 'user')}"  # type: ignore[arg-type]  # any sized input
        return f"KnownPropensity({size}{scale})"

    def fit(self, train: HasIds) -> Propensity:
        """Return the propensity in the id space of a log.

        Parameters
        ----------
        train : Interactions, or an object with `user_ids` and `item_ids`
            Training log.

        Returns
        -------
        Propensity
            The propensities in the order of the ids.
        """
        if not (hasattr(train, "item_ids") and hasattr(train, "user_ids")):
            raise InputError(
                f"fit takes the training log (anything with user_ids, item_ids); got {type(train).__name__}."
            )
        if self.pair is not None:
            return self._fit_pairs(train)
        if self.function is not None:
            return self._build("known function", train, function=self.function, user_ids=train.user_ids)
        item_factor = self._align_items(train.item_ids)
        if self.user is None:
            return self._build("known per item", train, item=item_factor)
        aligned_user: Any = align_labels(self.user, train.user_ids, "user")
        user_factor = as_float_vector("user", aligned_user, size=int(train.user_ids.size))
        factors = (user_factor, item_factor)
        return self._build("known factors", train, rank_one=factors, user_ids=train.user_ids)

    def _fit_pairs(self, train: HasIds) -> Propensity:
        assert self.pair is not None
        if isinstance(self.pair, np.ndarray):
            return self._fit_matrix(self.pair, train)
        log = Interactions.from_frame(
            self.pair, value="propensity", users=train.user_ids, items=train.item_ids
        )
        assert log.value is not None
        order = np.argsort(log.pair_key)
        return self._build(
            "known per user–item pair",
            train,
            pair=log.value[order].astype(np.float64),
            pair_key=log.pair_key[order],
            user_ids=train.user_ids,
        )

    def _fit_matrix(self, matrix: AnyArray, train: HasIds) -> Propensity:
        """Return the propensity of a users × items array."""
        shape = (train.user_ids.size, train.item_ids.size)
        if matrix.shape != shape:
            raise PropensityError(
                f"pair must have a row for each user and a column for each item, {shape}; got {matrix.shape}. "
                "Bring it in the order of split.user_ids and split.item_ids."
            )

        def select_pairs(user: IntArray, item: IntArray) -> FloatArray:
            return matrix[user, item].astype(np.float64)

        return self._build("known per user–item pair", train, function=select_pairs, user_ids=train.user_ids)

    def _build(
        self, model: str, train: HasIds, *, item: FloatArray | None = None, **values: Any
    ) -> Propensity:
        """Return a propensity with the given values and the fields that all kinds share."""
        return Propensity(
            item=item,
            is_probability=self.is_probability,
            model=model,
            n_items=int(train.item_ids.size),
            item_ids=train.item_ids,
            basis=self.basis,
            **values,
        )

    def _align_items(self, item_ids: AnyArray) -> FloatArray:
        """Return P_i in the order of `item_ids`, NaN where a frame has no row."""
        table = as_frame(self.item)
        if table is None:
            known_items = _select_known_labels(self.item, item_ids)
            aligned_item: Any = align_labels(
                known_items, item_ids, "item"
            )  # as_float_vector checks the values
            return as_float_vector("item", aligned_item, size=int(item_ids.size))
        is_known = np.isin(table["item"].to_numpy(), item_ids)
        has_all_items = np.unique(table["item"].to_numpy()[is_known]).size == item_ids.size
        if has_all_items and not is_known.all():
            table = table.filter(is_known.tolist())
        codes, _ = encode_in_universe(
            table["item"].to_numpy(), item_ids, "column 'item' of the propensity frame"
        )
        n_repeated = codes.size - np.unique(codes).size
        if n_repeated:
            raise PropensityError(f"the propensity frame has {n_repeated} rows that repeat an item.")
        values = np.full(item_ids.size, np.nan)
        values[codes] = as_float_vector("propensity", table["propensity"].to_numpy())
        return values


def holds_pairs(values: object) -> bool:
    """Return whether propensities are labelled by pairs: {(user, item): P}, or a Series with such labels."""
    if isinstance(values, Mapping):
        return are_pair_keys(values)
    return isinstance(values, pd.Series) and isinstance(values.index, pd.MultiIndex)


def _unpack_pairs(values: Any) -> Any:
    """Return propensities labelled by pairs as a frame, and other objects unchanged."""
    if holds_pairs(values):
        index = pd.MultiIndex.from_tuples(list(values)) if isinstance(values, Mapping) else values.index
        numbers = list(values.values()) if isinstance(values, Mapping) else values.to_numpy()
        if index.nlevels != 2:
            raise PropensityError(f"propensities of pairs need two levels of labels; got {index.nlevels}.")
        series = pd.Series(np.asarray(numbers, dtype=np.float64), index=index)
        if is_item_first(index.names):
            series = series.swaplevel()
        return series.rename_axis(["user", "item"]).rename("propensity").reset_index()
    if isinstance(values, pd.DataFrame) and _has_id_axes(values):
        matrix = values.rename_axis(index="user", columns="item")
        return matrix.melt(ignore_index=False, value_name="propensity").reset_index().dropna()
    return values


def _has_id_axes(frame: pd.DataFrame) -> bool:
    """Return whether a frame has users as labels, and items as columns, none of which has a usual name."""
    if has_default_index(frame.index) or frame.index.nlevels > 1 or frame.columns.nlevels > 1:
        return False
    roles = match_columns([str(column) for column in frame.columns], {}, ROLES, essential=()).columns
    return not roles and frame.shape[1] > 1


def _unpack_labels(values: Any, role: Literal["item"]) -> Any:
    """Return a frame with items as labels as one with a column of items, and other objects unchanged."""
    if not isinstance(values, pd.DataFrame) or has_default_index(values.index) or values.index.nlevels > 1:
        return values
    roles = match_columns([str(column) for column in values.columns], {}, ROLES, essential=()).columns
    if "propensity" not in roles or "item" in roles or "user" in roles:
        return values
    return values.rename_axis(role).reset_index()


def _select_known_labels(values: object, ids: AnyArray) -> object:
    """Return a Series without labels that are not ids, if it has a value for every id; else it is unchanged.

    Propensities of the whole catalogue fit a split of a part of it. Labels of another kind fit no id.
    """
    if not isinstance(values, pd.Series) or len(values) <= ids.size or not values.index.is_unique:
        return values
    is_known = values.index.isin(ids)
    if int(is_known.sum()) < ids.size:
        return values
    return values[is_known]


def _build_labelled_series(values: Mapping[Any, Any], name: Literal["item", "user"]) -> pd.Series:
    """Return {id: value} as a Series with the ids as labels."""
    if not values:
        raise PropensityError(
            f"`{name}` must contain at least one propensity; got an empty mapping. Pass {{id: P}}."
        )
    # An explicit index is never the default one of pandas, so the keys always count as ids.
    labels = pd.Index(list(values), tupleize_cols=False)
    numbers = as_float_vector("propensity", list(values.values()))
    return pd.Series(numbers, index=labels)


def _rename_usual_columns(table: object, roles: tuple[str, ...]) -> Any:
    """Return a frame whose columns with usual names are called as their roles; other objects are unchanged."""
    frame = as_frame(table)
    if frame is None or set(roles) <= set(frame.columns):
        return table
    columns = [str(column) for column in frame.columns]
    match = match_columns(columns, {}, roles)
    names = {}
    for role, column in match.columns.items():
        names[column] = role
    if "propensity" not in match.columns:
        short_names = [column for column in columns if column.lower() in SHORT_NAMES and column not in names]
        if len(short_names) == 1:
            names[short_names[0]] = "propensity"
    return frame.rename(names).to_native()  # `_require_columns` names a column that is missing


def _require_columns(table: Any, names: tuple[str, ...]) -> Any:
    """Return a frame that has the columns; raise `PropensityError` with the first missing one."""
    frame = as_frame(table)
    columns = [] if frame is None else list(frame.columns)
    for name in names:
        if name in columns:
            continue
        description = describe_type(table)
        if columns:
            description = f"columns {', '.join(map(str, columns))}"
        raise PropensityError(
            f"the propensity frame lacks column {name!r}; expected {', '.join(names)}, got {description}."
        )
    return frame
