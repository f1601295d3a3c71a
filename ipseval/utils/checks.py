"""Checks of user input, made once at the border; each error says what was expected, what came, what to do."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.errors import InputError, UnknownNameError
from ipseval.utils.registry import lookup
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, RngLike


def examples(values: Iterable[object], limit: int = 3) -> str:
    """Return the first few values as text for an error message."""
    first = list(islice(values, limit + 1))
    shown = [repr(one.item() if isinstance(one, np.generic) else one) for one in first[:limit]]
    return ", ".join(shown + ["…"] * (len(first) > limit))


def counted(number: int, noun: str) -> str:
    """Return the number and the noun in singular or plural."""
    if number != 1:
        noun = f"{noun[:-1]}ies" if noun.endswith("ry") else f"{noun}s"
    return f"{number:,} {noun}"


def article(noun: str) -> str:
    """Return the noun with "a" or "an" before it."""
    return f"an {noun}" if noun.lower().startswith(("a", "e", "i", "o", "nd")) else f"a {noun}"


def kind_of(value: object) -> str:
    """Return the type of a value in words."""
    return "None" if value is None else article(type(value).__name__)


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise `UnknownNameError` unless `value` is one of `choices`."""
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise UnknownNameError(f"value for {name}:", value, known)


def chosen(name: str, value: object, choices: Iterable[str]) -> str:
    """Return the choice that a label stands for, in any case; raise `UnknownNameError` for another."""
    return lookup({one: one for one in choices}, value, name)


def check_fraction(name: str, value: float, *, low_open: bool = True, high_open: bool = True) -> float:
    """Return `value` as a float in the unit interval, or raise `InputError`."""
    number = real_number(value)
    low_ok = number > 0 if low_open else number >= 0
    high_ok = number < 1 if high_open else number <= 1
    if not (low_ok and high_ok):
        interval = f"{'(' if low_open else '['}0, 1{')' if high_open else ']'}"
        raise InputError(f"{name} must be in {interval}; got {value!r:.80}.")
    return number


def check_positive_int(name: str, value: object, *, minimum: int = 1) -> int:
    """Return `value` as an int of at least `minimum`, or raise `InputError`."""
    number: Any = value
    if not _is_whole(number) or int(number) < minimum:
        raise InputError(f"{name} must be an integer >= {minimum}; got {value!r:.80}.")
    return int(number)


def _is_whole(value: Any) -> bool:
    """Return whether a value is a whole number; a length of time is one to NumPy."""
    return isinstance(value, (int, np.integer)) and type(value) not in (bool, np.timedelta64)


def check_real(name: str, value: object, *, low: float = -math.inf, low_open: bool = True) -> float:
    """Return `value` as a finite float above `low` (or equal to it), or raise `InputError`."""
    number = real_number(value)
    if math.isfinite(number) and (number > low if low_open else number >= low):
        return number
    bound = "" if low == -math.inf else f" {'>' if low_open else '>='} {low:g}"
    raise InputError(f"{name} must be a finite number{bound}; got {value!r:.80}.")


def real_number(value: object) -> float:
    """Return a real number as a float, and NaN for what is none."""
    none = (bool, np.complexfloating, np.timedelta64)
    if isinstance(value, none) or not isinstance(value, (int, float, np.number)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def check_bool(name: str, value: object) -> bool:
    """Return `value` as a bool, or raise `InputError`: any text would count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False; got {value!r:.80}.")
    return bool(value)


def check_callable(name: str, value: object) -> None:
    """Raise `InputError` unless `value` can be called."""
    if not callable(value):
        raise InputError(f"{name} must be a function; got {type(value).__name__}.")


def check_type(name: str, value: object, kind: type | tuple[type, ...], instead: str = "") -> None:
    """Raise `InputError` unless `value` is of this type."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        expected = " or ".join(one.__name__ for one in kinds)
        raise InputError(f"{name} must be {expected}; got {type(value).__name__}.{instead}")


def as_generator(rng: RngLike) -> np.random.Generator:
    """Return the generator of a seed; a generator is returned as it is."""
    # Nothing else: of a matrix, or a list that holds itself, NumPy ends the process.
    if rng is None or isinstance(rng, (np.random.Generator, np.random.SeedSequence)):
        return np.random.default_rng(rng)
    if not _is_whole(rng) or rng < 0:
        came = repr(rng) if isinstance(rng, (int, float, str)) else type(rng).__name__
        raise InputError(
            f"rng must be an integer >= 0, a numpy Generator or SeedSequence, or None; got {came:.80}."
        )
    return np.random.default_rng(int(rng))


def refuse_masked(array: Any, name: str) -> None:
    """Raise `InputError` for a masked array, whose mask NumPy's functions drop without a word."""
    if np.ma.isMaskedArray(array):
        raise InputError(f"{name} is a masked array; give what is masked a score: array.filled(-np.inf).")


def number_type(frame: pd.DataFrame) -> Any:
    """Return the type for columns that pandas would turn into objects: nullable ones, or Arrow's."""
    # A missing score becomes NaN, and is refused as such.
    kinds = [getattr(kind, "numpy_dtype", kind) for kind in dict.fromkeys(frame.dtypes)]
    if not all(isinstance(kind, np.dtype) and kind.kind in "fiu" for kind in kinds):
        return None
    common = np.result_type(*kinds)
    common = np.dtype(np.float64) if common.kind in "iu" and frame.isna().to_numpy().any() else common
    whole = [getattr(kind, "numpy_dtype", kind).kind in "iu" for kind in frame.dtypes]
    if common.kind == "f" and any(whole):
        n_large = int((frame.loc[:, whole].abs() > 2**53).sum().sum())
        if n_large:
            raise InputError(
                f"scores in columns of whole numbers and of fractions become fractions, and {n_large} whole "
                "numbers above 2^53 would lose digits. Convert all columns to one type."
            )
    return common


def only_numbered(index: Any) -> bool:
    """Return whether an index is the one that pandas gives to what has no labels: 0, 1, 2, …."""
    return isinstance(index, pd.RangeIndex) and index.equals(pd.RangeIndex(len(index)))


def check_same_labels(**values: Any) -> None:
    """Raise `InputError` when pandas Series that are read side by side have different labels."""
    # A Series that is only numbered 0, 1, 2, … is in the order of the ids already.
    labelled = {
        name: one
        for name, one in values.items()
        if isinstance(one, pd.Series) and not only_numbered(one.index)
    }
    for name, one in labelled.items():
        first, other = next(iter(labelled.items()))
        if not one.index.equals(other.index):
            raise InputError(
                f"{first} and {name} are read side by side, but their labels differ "
                f"({examples(other.index)} and {examples(one.index)}). Bring them in one order: "
                f"{name}.reindex({first}.index, fill_value=0)."
            )


def as_float_vector(name: str, values: npt.ArrayLike, *, size: int | None = None) -> FloatArray:
    """Return `values` as a new 1-d float64 array; NaN is kept, shape and type are checked."""
    refuse_masked(values, name)
    try:
        given = np.asarray(values)
        array = np.array(values, dtype=np.float64) if given.dtype.kind in "iufbO" else None
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None:
        raise InputError(f"{name} must be a sequence of numbers; got {type(values).__name__}.")
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional; got shape {array.shape}.")
    if size is not None and array.size != size:
        raise InputError(f"{name} must have {size} entries, one for each id; got {array.size}.")
    return array


def check_mask(name: str, values: npt.ArrayLike, size: int) -> BoolArray:
    """Return a mask of this size, or raise `InputError`: positions are none."""
    mask = np.asarray(values)
    if mask.dtype != bool or mask.shape != (size,):
        raise InputError(
            f"{name} must hold True or False for each of {size:,} rows; got {mask.dtype} of shape "
            f"{mask.shape}."
        )
    return mask


def check_counts(
    name: str, values: npt.ArrayLike, *, size: int | None = None, ordered: bool = True
) -> FloatArray:
    """Return non-negative finite counts as float64, or raise `InputError` with the number of bad entries."""
    # `ordered`: they are read by position, in the order of the sorted ids, so a pandas Series whose labels
    # are in another order, such as what `value_counts` returns, is refused.
    if ordered and isinstance(values, pd.Series) and not values.index.is_monotonic_increasing:
        raise InputError(
            f"{name} is read by position, in the order of the ids, but its labels are not sorted "
            f"({examples(values.index)}). Use .sort_index(), or .to_numpy() if the order is right."
        )
    counts = as_float_vector(name, values, size=size)
    bad = ~(np.isfinite(counts) & (counts >= 0) & (counts <= 2**53))
    if bad.any():
        raise InputError(
            f"{name} must be finite counts >= 0 and at most 2^53; {int(bad.sum())} of {counts.size} are not "
            f"(first at position {int(np.flatnonzero(bad)[0])}: {counts[bad][0]})."
        )
    return counts


def check_finite(name: str, array: AnyArray) -> None:
    """Raise `InputError` with the number of NaN or infinite entries, if there are any."""
    bad = int((~np.isfinite(array)).sum())
    if bad:
        raise InputError(f"{name} must be finite; {bad} of {array.size} entries are NaN or infinite.")


def warn_user(text: str, category: type[Warning]) -> None:
    """Warn at the line outside the library that called it, however deep the cause lies."""
    package, level, frame = __name__.partition(".")[0], 1, sys._getframe(0)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] == package:
        frame, level = frame.f_back, level + 1
    warnings.warn(text, category, stacklevel=level)


def as_list(values: Any, name: str) -> list[Any]:
    """Return labels or objects as a list; one alone needs no list around it."""
    if not isinstance(values, Iterable) and not hasattr(values, "label"):
        raise InputError(f"{name} must be labels or objects; got {type(values).__name__}.")
    listed = [values] if isinstance(values, str) or not isinstance(values, Iterable) else list(values)
    if not listed:
        raise InputError(f"{name} is empty; name at least one.")
    return listed


def distinct_labels(values: list[Any], name: str) -> list[Any]:
    """Return values with a label, or raise `InputError` where two have the same."""
    labels = [value.label for value in values]
    repeated = sorted({label for label in labels if labels.count(label) > 1})
    if repeated:
        raise InputError(f"{name} repeats {', '.join(repeated)}; each label may occur once.")
    return values


def check_models(models: Any, what: str, value: str) -> None:
    """Raise `InputError` unless `models` is a mapping from names, at least one."""
    if not isinstance(models, Mapping) or not models:
        came = "an empty one" if isinstance(models, Mapping) else kind_of(models)
        raise InputError(f'{what} must be a non-empty mapping {{"name": {value}}}; got {came}.')
    others = [name for name in models if not isinstance(name, str)]
    if others:
        raise InputError(
            f"{what} must have text as names; {len(others)} of {len(models)} are not ({examples(others)})."
        )
    halves = [ascii(name) for name in models if any("\ud800" <= letter <= "\udfff" for letter in name)]
    if halves:
        raise InputError(
            f"names of {what} must be text that can be written; {len(halves)} hold half a character "
            f"({', '.join(halves[:3])}). Decode the file they come from with its own encoding."
        )
