"""Check the arguments of public functions, and word values and counts for messages."""

from __future__ import annotations

import inspect
import math
import warnings
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from ipseval.errors import InputError, UnknownNameError, format_options
from ipseval.utils.registry import look_up
from ipseval.utils.types import AnyArray, BoolArray, FloatArray, RngLike


def format_examples(values: Iterable[object], limit: int = 3) -> str:
    """Return the first few values as text for an error message."""
    first = list(islice(values, limit + 1))
    texts = [_represent(value) for value in first[:limit]]
    if len(first) > limit:
        texts.append("…")
    return ", ".join(texts)


def _represent(value: object) -> str:
    """Return the representation of a value, without the type of NumPy scalars."""
    if isinstance(value, np.generic):
        return repr(value.item())
    return repr(value)


def format_count(number: int, noun: str) -> str:
    """Return the number and the noun in singular or plural."""
    if number == 1:
        return f"{number:,} {noun}"
    if noun.endswith("ry"):
        return f"{number:,} {noun[:-1]}ies"
    return f"{number:,} {noun}s"


def add_article(noun: str) -> str:
    """Return the noun with "a" or "an" before it."""
    if noun.lower().startswith(("a", "e", "i", "o", "nd")):
        return f"an {noun}"
    return f"a {noun}"


def describe_type(value: object) -> str:
    """Return the type of a value with its article, such as "a list"."""
    if value is None:
        return "None"
    return add_article(type(value).__name__)


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Raise `UnknownNameError` unless `value` is one of `choices`."""
    known = tuple(choices)
    if not isinstance(value, str) or value not in known:
        raise UnknownNameError(f"value for {name}:", value, known)


def resolve_choice(name: str, value: object, choices: Iterable[str]) -> str:
    """Return the choice that a label stands for, in any case; raise `UnknownNameError` for another."""
    return look_up({choice: choice for choice in choices}, value, name)


def check_fraction(name: str, value: float, *, low_open: bool = True, high_open: bool = True) -> float:
    """Return `value` as a float in the unit interval, or raise `InputError`."""
    number = to_real(value)
    is_inside = 0 < number < 1 or (number == 0 and not low_open) or (number == 1 and not high_open)
    if not is_inside:
        opening = "(" if low_open else "["
        closing = ")" if high_open else "]"
        raise InputError(f"must be in {opening}0, 1{closing}; got {value!r:.80}.", argument=name)
    return number


def check_positive_int(name: str, value: object, *, minimum: int = 1) -> int:
    """Return `value` as an int of at least `minimum`, or raise `InputError`."""
    number: Any = value
    if not _is_whole(number) or int(number) < minimum:
        raise InputError(f"must be an integer >= {minimum}; got {value!r:.80}.", argument=name)
    return int(number)


def _is_whole(value: object) -> bool:
    """Return whether a value is a whole number; a length of time is one to NumPy."""
    return isinstance(value, (int, np.integer)) and type(value) not in (bool, np.timedelta64)


def check_real(name: str, value: object, *, low: float = -math.inf, low_open: bool = True) -> float:
    """Return `value` as a finite float above `low` (or equal to it), or raise `InputError`."""
    number = to_real(value)
    is_inside = number > low or (number == low and not low_open)
    if math.isfinite(number) and is_inside:
        return number
    if low == -math.inf:
        raise InputError(f"must be a finite number; got {value!r:.80}.", argument=name)
    sign = ">" if low_open else ">="
    raise InputError(f"must be a finite number {sign} {low:g}; got {value!r:.80}.", argument=name)


def to_real(value: object) -> float:
    """Return a real number as a float, and NaN for other values."""
    other_kinds = (bool, np.complexfloating, np.timedelta64)
    if isinstance(value, other_kinds) or not isinstance(value, (int, float, np.number)):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        if value > 0:
            return math.inf
        return -math.inf


def check_bool(name: str, value: object) -> bool:
    """Return `value` as a bool, or raise `InputError`: any text would count as true."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"must be True or False; got {value!r:.80}.", argument=name)
    return bool(value)


def check_callable(name: str, value: object) -> None:
    """Raise `InputError` unless `value` can be called."""
    if not callable(value):
        raise InputError(f"must be a function; got {type(value).__name__}.", argument=name)


def check_type(name: str, value: object, kind: type | tuple[type, ...], advice: str = "") -> None:
    """Raise `InputError` unless `value` is of this type."""
    if not isinstance(value, kind):
        kinds = kind if isinstance(kind, tuple) else (kind,)
        expected = " or ".join(allowed.__name__ for allowed in kinds)
        raise InputError(f"must be {expected}; got {type(value).__name__}.{advice}", argument=name)


def as_generator(rng: RngLike) -> np.random.Generator:
    """Return the generator of a seed; a generator is returned as it is."""
    # No other values are passed on: NumPy ends the process for a list that holds itself.
    if rng is None or isinstance(rng, (np.random.Generator, np.random.SeedSequence)):
        return np.random.default_rng(rng)
    if not _is_whole(rng) or rng < 0:
        value = repr(rng) if isinstance(rng, (int, float, str)) else type(rng).__name__
        raise InputError(
            f"must be an integer >= 0, a numpy Generator or SeedSequence, or None; got {value:.80}.",
            argument="rng",
        )
    return np.random.default_rng(int(rng))


def refuse_masked(array: object, name: str) -> None:
    """Raise `InputError` for a masked array, because NumPy's functions ignore its mask silently."""
    if np.ma.isMaskedArray(array):
        raise InputError(
            "is a masked array; give what is masked a score: array.filled(-np.inf).", argument=name
        )


def common_number_type(frame: pd.DataFrame) -> Any:
    """Return the common type of nullable or Arrow columns, which pandas would convert to objects.

    A missing score becomes NaN, which is refused elsewhere. None stands for columns without a common type.
    """
    dtypes = [getattr(dtype, "numpy_dtype", dtype) for dtype in frame.dtypes]
    if not all(isinstance(dtype, np.dtype) and dtype.kind in "fiu" for dtype in dtypes):
        return None

    common = np.result_type(*dtypes)
    if common.kind in "iu" and frame.isna().to_numpy().any():
        common = np.dtype(np.float64)
    is_whole = [dtype.kind in "iu" for dtype in dtypes]
    if common.kind == "f" and any(is_whole):
        n_large = int((frame.loc[:, is_whole].abs() > 2**53).sum().sum())
        if n_large:
            raise InputError(
                f"scores in columns of whole numbers and of fractions become fractions, and {n_large} whole "
                "numbers above 2^53 would lose digits. Convert all columns to one type."
            )
    return common


def has_default_index(index: object) -> bool:
    """Return whether an index is the default of pandas for values without labels: 0, 1, 2, …."""
    return isinstance(index, pd.RangeIndex) and index.equals(pd.RangeIndex(len(index)))


def check_same_labels(**values: object) -> None:
    """Raise `InputError` if pandas Series that are combined by position have different labels.

    A Series with the default index is in the order of the ids already.
    """
    labelled: dict[str, pd.Series] = {}
    for name, series in values.items():
        if isinstance(series, pd.Series) and not has_default_index(series.index):
            labelled[name] = series
    if not labelled:
        return

    first_name, first_series = next(iter(labelled.items()))
    for name, series in labelled.items():
        if not series.index.equals(first_series.index):
            raise InputError(
                f"{first_name} and {name} must have the same labels; got {format_examples(first_series.index)} and "
                f"{format_examples(series.index)}. Bring them in one order: "
                f"{name}.reindex({first_name}.index, fill_value=0)."
            )


def as_float_vector(name: str, values: npt.ArrayLike, *, size: int | None = None) -> FloatArray:
    """Return `values` as a new 1-d float64 array; NaN is kept, shape and type are checked."""
    refuse_masked(values, name)
    array = None
    try:
        if np.asarray(values).dtype.kind in "iufbO":
            array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = None
    if array is None:
        raise InputError(f"must be a sequence of numbers; got {type(values).__name__}.", argument=name)
    if array.ndim != 1:
        raise InputError(f"must be one-dimensional; got shape {array.shape}.", argument=name)
    if size is not None and array.size != size:
        raise InputError(f"must have {size} entries, one for each id; got {array.size}.", argument=name)
    return array


def check_mask(name: str, values: npt.ArrayLike, size: int) -> BoolArray:
    """Return a mask of this size, or raise `InputError`; positions are not accepted."""
    mask = np.asarray(values)
    if mask.dtype != bool or mask.shape != (size,):
        raise InputError(
            f"must hold True or False for each of {size:,} rows; got {mask.dtype} of shape {mask.shape}.",
            argument=name,
        )
    return mask


def check_counts(
    name: str, values: npt.ArrayLike, *, size: int | None = None, is_by_position: bool = True
) -> FloatArray:
    """Return non-negative finite counts as float64, or raise `InputError` with the number of bad entries."""
    # `is_by_position`: they are read by position, in the order of the sorted ids, so a pandas Series whose labels
    # are in another order, such as what `value_counts` returns, is refused.
    if is_by_position and isinstance(values, pd.Series) and not values.index.is_monotonic_increasing:
        raise InputError(
            f"is read by position, in the order of the ids, but its labels are not sorted "
            f"({format_examples(values.index)}). Use .sort_index(), or .to_numpy() if the order is right.",
            argument=name,
        )
    counts = as_float_vector(name, values, size=size)
    bad = ~(np.isfinite(counts) & (counts >= 0) & (counts <= 2**53))
    if bad.any():
        raise InputError(
            f"must be finite counts >= 0 and at most 2^53; {int(bad.sum())} of {counts.size} are not "
            f"(first at position {int(np.flatnonzero(bad)[0])}: {counts[bad][0]}).",
            argument=name,
        )
    return counts


def check_finite(name: str, array: AnyArray) -> None:
    """Raise `InputError` with the number of NaN or infinite entries, if there are any."""
    bad = int((~np.isfinite(array)).sum())
    if bad:
        raise InputError(f"must be finite; {bad} of {array.size} entries are NaN or infinite.", argument=name)


def warn_user(text: str, category: type[Warning], *, advice: str = "", shell_advice: str = "") -> None:
    """Warn at the line outside the library that called it, however deep the cause lies.

    `advice` is a sentence without the full stop. Its options are in braces, as in `Problem`. `shell_advice`
    takes its place on the command line.
    """
    warning = category(_append_advice(text, advice, as_options=False))
    warning.shell_text = _append_advice(text, shell_advice or advice, as_options=True)  # type: ignore[attr-defined]  # for the shell
    package = __name__.partition(".")[0]
    level = 1
    frame = inspect.currentframe()
    while frame is not None and frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module.partition(".")[0] != package:
            break
        frame = frame.f_back
        level += 1
    warnings.warn(warning, stacklevel=level)


def _append_advice(text: str, advice: str, *, as_options: bool) -> str:
    """Return a text with its advice, worded for Python or for the shell."""
    if not advice:
        return text
    return f"{text} {format_options(advice, as_options=as_options)}."


def as_list(values: Any, name: str) -> list[Any]:
    """Return labels or objects as a list; a single one is accepted without a list."""
    if isinstance(values, str):
        return [values]
    if not isinstance(values, Iterable):
        if not hasattr(values, "label"):
            raise InputError(f"must be labels or objects; got {type(values).__name__}.", argument=name)
        return [values]
    items = list(values)
    if not items:
        raise InputError("is empty; name at least one.", argument=name)
    return items


def distinct_labels(values: list[Any], name: str) -> list[Any]:
    """Return the values, or raise `InputError` if two of them have one label."""
    labels = [value.label for value in values]
    duplicates = sorted({label for label in labels if labels.count(label) > 1})
    if duplicates:
        raise InputError(f"repeats {', '.join(duplicates)}; each label may occur once.", argument=name)
    return values


def check_models(models: object, argument: str, value: str) -> None:
    """Raise `InputError` unless `models` is a non-empty mapping with text as names."""
    if not isinstance(models, Mapping):
        raise InputError(
            f'{argument} must be a non-empty mapping {{"name": {value}}}; got {describe_type(models)}.'
        )
    if not models:
        raise InputError(f'{argument} must be a non-empty mapping {{"name": {value}}}; got an empty one.')

    wrong_names = []
    for name in models:
        if not isinstance(name, str):
            wrong_names.append(name)

    if wrong_names:
        raise InputError(
            f"{argument} must have text as names; {len(wrong_names)} of {len(models)} are not "
            f"({format_examples(wrong_names)})."
        )
    broken_names = []
    for name in models:
        if _has_lone_surrogate(name):
            broken_names.append(ascii(name))

    if broken_names:
        raise InputError(
            f"names of {argument} must be text that can be written; {len(broken_names)} hold half a character "
            f"({', '.join(broken_names[:3])}). Decode the file they come from with its own encoding."
        )


def _has_lone_surrogate(text: str) -> bool:
    """Return whether a text holds half a character, as after decoding with a wrong encoding."""
    return any("\ud800" <= letter <= "\udfff" for letter in text)
