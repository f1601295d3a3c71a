"""Checks of input: what is taken at each bound, and the whole text of what is refused."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ipseval.errors import InputError, UnknownNameError
from tests.inside.utils import checks

DAYS = np.timedelta64(3, "D")


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def test_words_for_messages():
    assert checks.format_examples([1, 2, 3]) == "1, 2, 3"
    assert checks.format_examples(np.array([1.5, 2.5, 3.5, 4.5])) == "1.5, 2.5, 3.5, …"
    assert checks.format_examples("ab", 1) == "'a', …"
    assert checks.format_examples([]) == ""
    assert [checks.format_count(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    assert [checks.format_count(n, "missing entry") for n in (1, 1000)] == [
        "1 missing entry",
        "1,000 missing entries",
    ]
    for noun in ("array", "Index", "ndarray"):
        assert checks.add_article(noun) == f"an {noun}"
    assert [checks.describe_type(valid_value) for valid_value in (None, 3, [])] == [
        "None",
        "an int",
        "a list",
    ]


def test_a_choice_is_one_of_the_names():
    checks.check_choice("unseen", "b", ("a", "b"))
    for wrong_value in ("c", None, ["a"]):
        with pytest.raises(UnknownNameError, match="unknown value for unseen:"):
            checks.check_choice("unseen", wrong_value, ("a", "b"))
    assert checks.resolve_choice("kind", "Leave One-Out", ["random", "leave-one-out"]) == "leave-one-out"
    with pytest.raises(UnknownNameError, match="unknown kind 'a'"):
        checks.resolve_choice("kind", "a", ["b"])


@pytest.mark.parametrize(
    ("low_open", "high_open", "interval"),
    [(True, True, "(0, 1)"), (False, True, "[0, 1)"), (True, False, "(0, 1]"), (False, False, "[0, 1]")],
)
def test_a_fraction_has_the_ends_that_its_interval_names(low_open, high_open, interval):
    ends = {"low_open": low_open, "high_open": high_open}
    taken = [0.5, *[0] * (not low_open), *[1] * (not high_open)]
    assert [checks.check_fraction("x", valid_value, **ends) for valid_value in taken] == taken
    for value in {-0.1, 0, 1, 1.1, math.inf} - {*taken}:
        text = refused(lambda value=value: checks.check_fraction("x", value, **ends))
        assert text == f"x must be in {interval}; got {value!r}."
    assert refused(lambda: checks.check_fraction("x", 0)) == "x must be in (0, 1); got 0."
    assert refused(lambda: checks.check_fraction("x", 1)) == "x must be in (0, 1); got 1."


def test_a_whole_number_is_at_least_the_minimum():
    assert checks.check_positive_int("n", 1) == 1
    assert checks.check_positive_int("n", 0, minimum=0) == 0
    assert type(checks.check_positive_int("n", np.int8(3))) is int
    assert refused(lambda: checks.check_positive_int("n", 0)) == "n must be an integer >= 1; got 0."
    for wrong_value in (-1, True, 2.0, DAYS, "2"):
        text = refused(lambda other=wrong_value: checks.check_positive_int("n", other, minimum=0))
        assert text == f"n must be an integer >= 0; got {wrong_value!r}."


def test_a_real_number_is_finite_and_above_its_bound():
    assert checks.check_real("x", -3) == -3
    assert checks.check_real("x", 0.5, low=0) == 0.5
    assert checks.check_real("x", 0, low=0, low_open=False) == 0
    assert refused(lambda: checks.check_real("x", math.inf)) == "x must be a finite number; got inf."
    assert refused(lambda: checks.check_real("x", 0, low=0)) == "x must be a finite number > 0; got 0."
    for wrong_value in (-0.5, math.nan, math.inf):
        text = refused(lambda other=wrong_value: checks.check_real("x", other, low=0, low_open=False))
        assert text == f"x must be a finite number >= 0; got {wrong_value}."
    assert [checks.to_real(number) for number in (np.float32(0.5), np.uint8(3))] == [0.5, 3]
    assert [checks.to_real(number) for number in (10**400, -(10**400))] == [math.inf, -math.inf]
    for none in (True, np.True_, 1j, np.complex64(1), DAYS, "1", None):
        assert math.isnan(checks.to_real(none))


def test_truth_values_functions_and_types():
    assert checks.check_bool("x", np.True_) is True
    assert checks.check_bool("x", False) is False
    assert refused(lambda: checks.check_bool("x", 1)) == "x must be True or False; got 1."
    checks.check_callable("x", len)
    assert refused(lambda: checks.check_callable("x", 3)) == "x must be a function; got int."
    checks.check_type("x", 3, (str, int))
    text = refused(lambda: checks.check_type("x", 3, (str, list), " Use y."))
    assert text == "x must be str or list; got int. Use y."
    assert refused(lambda: checks.check_type("x", 3, str)) == "x must be str; got int."


def test_a_seed_is_whole_and_not_negative_and_a_generator_stays_itself():
    given = np.random.default_rng(0)
    assert checks.as_generator(given) is given
    for seed in (0, 3, np.uint8(3), np.random.SeedSequence(3)):
        assert checks.as_generator(seed).random() == np.random.default_rng(seed).random()
    assert checks.as_generator(None).random() < 1
    for wrong_value, came in ((-1, "-1"), (0.5, "0.5"), ("1", "'1'"), ([1], "list"), (True, "True")):
        text = refused(lambda other=wrong_value: checks.as_generator(other))
        assert text == f"rng must be an integer >= 0, a numpy Generator or SeedSequence, or None; got {came}."


def test_columns_that_pandas_would_make_objects_have_one_type_of_numbers():
    def find_number_type(**columns: Any) -> Any:
        return checks.common_number_type(
            pd.DataFrame({name: pd.Series(column[0], dtype=column[-1]) for name, column in columns.items()})
        )

    assert find_number_type(a=([1, 2], "Int64"), b=([1, 2], "Int8")) == np.int64
    assert find_number_type(a=([1, None], "Int64")) == np.float64
    assert find_number_type(a=([1, 2], "Float32")) == np.float32
    assert find_number_type(a=(["1", "2"], object)) is None
    assert find_number_type(a=([True, False], bool), b=([1, 2], int)) is None
    assert find_number_type(a=([2**53, -(2**53)], "Int64"), b=([0.5, 2.0**60], float)) == np.float64
    for large, n in (([2**53 + 1, 0], 1), ([-(2**53) - 1, 2**60], 2)):
        text = refused(lambda large=large: find_number_type(a=(large, "Int64"), b=([0.5, 2.0**60], float)))
        assert f"become fractions, and {n} whole numbers above 2^53 would lose digits" in text
    assert "and 1 whole numbers" in refused(lambda: find_number_type(a=([2**53 + 1, None], "Int64")))


def test_only_labels_from_0_on_by_ones_are_mere_numbers():
    assert checks.has_default_index(pd.RangeIndex(3))
    for row_labels in (
        pd.RangeIndex(1, 4),
        pd.RangeIndex(0, 6, 2),
        pd.RangeIndex(3)[::-1],
        pd.Index([0, 1, 2]),
    ):
        assert not checks.has_default_index(row_labels)


def test_labels_of_series_that_are_read_side_by_side_are_equal():
    a, b = pd.Series([1, 2], list("ab")), pd.Series([1, 2], list("ba"))
    checks.check_same_labels(first=a, second=a, third=[1, 2])
    checks.check_same_labels(first=pd.Series([1, 2]), second=b)
    checks.check_same_labels(first=a, second=pd.Series([1, 2]))
    assert refused(lambda: checks.check_same_labels(one=a, two=a, three=b)) == (
        "one and three must have the same labels; got 'a', 'b' and 'b', 'a'. Bring them in one order: "
        "three.reindex(one.index, fill_value=0)."
    )


def test_a_vector_of_numbers_is_new_and_has_the_size_that_is_asked_for():
    given = np.array([1.0, math.nan])
    float_vector = checks.as_float_vector("x", given, size=2)
    assert np.array_equal(float_vector, given, equal_nan=True)
    assert not np.shares_memory(float_vector, given)
    assert checks.as_float_vector("x", [True, 2]).dtype == np.float64
    assert checks.as_float_vector("x", pd.Series([1, None], dtype=object)).size == 2
    for wrong_value in (["a"], [1j], [[1], [2, 3]], [10**400], pd.to_datetime(["2026-01-01"])):
        text = refused(lambda other=wrong_value: checks.as_float_vector("x", other))
        assert text == f"x must be a sequence of numbers; got {type(wrong_value).__name__}."
    assert refused(lambda: checks.as_float_vector("x", 3)) == "x must be one-dimensional; got shape ()."
    text = refused(lambda: checks.as_float_vector("x", [1], size=2))
    assert text == "x must have 2 entries, one for each id; got 1."
    assert "size 0" not in refused(lambda: checks.as_float_vector("x", [1], size=0))
    assert refused(lambda: checks.as_float_vector("x", np.ma.array([1]))) == (
        "x is a masked array; give what is masked a score: array.filled(-np.inf)."
    )


def test_a_mask_has_a_truth_value_for_each_row():
    assert checks.check_mask("keep", [True, False], 2).tolist() == [True, False]
    for wrong_value, came in (([0, 1], "int64 of shape (2,)"), ([True], "bool of shape (1,)")):
        text = refused(lambda other=wrong_value: checks.check_mask("keep", other, 2))
        assert text == f"keep must hold True or False for each of 2 rows; got {came}."


def test_counts_are_finite_and_from_0_to_2_to_the_53():
    assert checks.check_counts("n", [0, 2**53]).tolist() == [0, 2**53]
    assert checks.check_counts("n", pd.Series([2, 1], list("ab"))).tolist() == [2, 1]
    assert checks.check_counts("n", pd.Series([2, 1], list("ba")), is_by_position=False).tolist() == [2, 1]
    assert refused(lambda: checks.check_counts("n", [1, -1, math.nan, math.inf, 2**53 + 2])) == (
        "n must be finite counts >= 0 and at most 2^53; 4 of 5 are not (first at position 1: -1.0)."
    )
    assert refused(lambda: checks.check_counts("n", pd.Series([2, 1], list("ba")))) == (
        "n is read by position, in the order of the ids, but its labels are not sorted ('b', 'a'). Use "
        ".sort_index(), or .to_numpy() if the order is right."
    )
    checks.check_finite("n", np.array([1.0]))
    text = refused(lambda: checks.check_finite("n", np.array([math.nan, 1.0, -math.inf])))
    assert text == "n must be finite; 2 of 3 entries are NaN or infinite."


def test_a_warning_points_to_the_line_that_called_the_library():
    def inside() -> None:
        checks.warn_user("text", UserWarning)

    # As if it stood in the library: the line that counts is the one that calls it.
    here = {"checks": checks, "UserWarning": UserWarning, "__name__": "ipseval.somewhere"}
    exec("def outer():\n    inner()\ndef inner():\n    checks.warn_user('text', UserWarning)", here)
    for call in (inside, here["outer"]):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            call()  # the line that is named
        (warning,) = caught
        assert (str(warning.message), warning.filename) == ("text", __file__)
        line = Path(__file__).read_text(encoding="utf-8").splitlines()[warning.lineno - 1].strip()
        assert line == (
            'checks.warn_user("text", UserWarning)' if call is inside else "call()  # the line that is named"
        )
    mine = {"inner": here["outer"], "__name__": "__main__"}
    with pytest.warns(UserWarning, match="text") as caught:
        exec(compile("\ninner()", "mine.py", "exec"), mine)
    assert (caught[0].filename, caught[0].lineno) == ("mine.py", 2)


def test_labels_come_as_a_list_that_is_not_empty_and_repeats_none():
    labelled_object = SimpleNamespace(label="a")
    assert checks.as_list("auc", "metrics") == ["auc"]
    assert checks.as_list(labelled_object, "metrics") == [labelled_object]
    assert checks.as_list(("a", "b"), "metrics") == ["a", "b"]
    assert refused(lambda: checks.as_list([], "metrics")) == "metrics is empty; name at least one."
    assert refused(lambda: checks.as_list(3, "metrics")) == "metrics must be labels or objects; got int."
    named = [SimpleNamespace(label=label) for label in "abcab"]
    assert checks.distinct_labels(named[:3], "metrics") == named[:3]
    assert refused(lambda: checks.distinct_labels(named, "metrics")) == (
        "metrics repeats a, b; each label may occur once."
    )


def test_models_are_a_mapping_from_names_that_can_be_written():
    checks.check_models({"a": 1, "\ud7ff\ue000": 2}, "models", "scores")
    for wrong_value, came in (({}, "an empty one"), ([1], "a list"), (None, "None")):
        text = refused(lambda other=wrong_value: checks.check_models(other, "models", "scores"))
        assert text == f'models must be a non-empty mapping {{"name": scores}}; got {came}.'
    text = refused(lambda: checks.check_models({1: 1, "a": 1, 2: 1}, "models", "scores"))
    assert text == "models must have text as names; 2 of 3 are not (1, 2)."
    halves = {f"{half}{n}": 1 for n, half in enumerate("\ud800\udfff\ud900\uda00")}
    assert refused(lambda: checks.check_models({"a": 1} | halves, "models", "scores")) == (
        r"names of models must be text that can be written; 4 hold half a character ('\ud8000', '\udfff1', "
        r"'\ud9002'). Decode the file they come from with its own encoding."
    )
