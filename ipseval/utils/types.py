"""Array types and literal choices shared by all modules."""

from __future__ import annotations

from dataclasses import fields
from typing import Any, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

FloatArray: TypeAlias = npt.NDArray[np.floating[Any]]
IntArray: TypeAlias = npt.NDArray[np.integer[Any]]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
AnyArray: TypeAlias = npt.NDArray[Any]

RngLike: TypeAlias = int | np.random.Generator | np.random.SeedSequence | None
Missing: TypeAlias = Literal["zero", "drop", "raise"]
LowEss: TypeAlias = Literal["warn", "raise", "nan", "ignore"]
IntervalMethod: TypeAlias = Literal["normal", "percentile", "bca"]
TieRule: TypeAlias = Literal["mean", "min", "max", "expected"]
TieChoice: TypeAlias = Literal["default", "mean", "min", "max", "expected"]

Value = TypeVar("Value")


class HasIds(Protocol):
    """Anything that carries the universe of ids: a Split, Interactions or RankedPositives."""

    @property
    def user_ids(self) -> AnyArray:
        """Ids of the users."""

    @property
    def item_ids(self) -> AnyArray:
        """Ids of the items."""


def copy_if_writable(values: object) -> AnyArray:
    """Return an array that the caller cannot write to: a copy, unless it is read-only already."""
    array = np.asarray(values)
    base = array
    while isinstance(base.base, np.ndarray):
        base = base.base
    if base.flags.writeable:
        return array.copy()
    return array


def as_readonly(array: AnyArray) -> AnyArray:
    """Return a view of `array` that cannot be written to: values that flow are never changed in place."""
    view = np.asarray(array).view()
    view.flags.writeable = False
    return view


def as_readonly_rows(array: AnyArray) -> AnyArray:
    """Return a read-only C-contiguous array; a copy is made only where the layout must change."""
    return as_readonly(np.ascontiguousarray(array))


def assign(instance: object, /, **fields: object) -> None:
    """Set fields of a frozen dataclass while it is made."""
    for name, value in fields.items():
        object.__setattr__(instance, name, value)


def build_unchecked(kind: type[Value], **values: object) -> Value:
    """Return a frozen dataclass of checked values, and of arrays that nobody else writes to."""
    instance = object.__new__(kind)
    defaults = {field.name: field.default for field in fields(kind)}  # type: ignore[arg-type]  # a dataclass
    for name, value in (defaults | values).items():
        if isinstance(value, np.ndarray):
            assign(instance, **{name: as_readonly(value)})
        else:
            assign(instance, **{name: value})
    return instance


def freeze(value: object, *names: str) -> None:
    """Make the named arrays of a frozen dataclass read-only; None stays None."""
    for name in names:
        array = getattr(value, name)
        if array is not None:
            assign(value, **{name: as_readonly(array)})
