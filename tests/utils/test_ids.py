"""Arrays of ids: their types at every bound, their places among others, and what is said of each refusal."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ipseval.errors import InputError
from tests.inside.utils import ids

NAN = float("nan")
DAY = np.datetime64("2026-01-01", "s")


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(InputError) as caught:
        call()
    return str(caught.value)


def array(values: list[Any], kind: Any = None) -> np.ndarray:
    return np.array(values, dtype=kind)


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], "O"),
        ([1, np.int64(2)], "i8"),
        ([-(2**63), 2**63 - 1], "i8"),
        ([-(2**63) - 1, 1], "O"),
        ([0, 2**63], "u8"),
        ([1, 2**64 - 1], "u8"),
        ([-1, 2**63], "O"),
        ([0, 2**64], "O"),
        ([1.5, 2.0], "f8"),
        ([True, False], "?"),
        (["a", "b"], "O"),
        (array(["a", "b"]), "O"),
        (array([1, 2], ">i4"), "i4"),
        (array([uuid.UUID(int=1), uuid.UUID(int=2)], object), "O"),
    ],
)
def test_ids_have_the_type_that_holds_them(values, kind):
    found = ids.as_ids(values, "users")
    assert found.dtype == kind
    assert found.dtype.isnative
    assert found.tolist() == list(values)


def test_dates_with_a_zone_are_ids_in_utc():
    dates = pd.Series(pd.to_datetime(["2026-01-01 00:30"]).tz_localize("Europe/Berlin"))
    for values in (dates, list(dates)):
        assert ids.as_ids(values, "users").astype("M8[m]").tolist() == [pd.Timestamp("2025-12-31 23:30")]
    for mixed_values in ([dates[0], 3], [3, dates[0]]):
        text = refused(lambda other=mixed_values: ids.as_ids(other, "users"))
        assert text == "users mixes ids of types Timestamp, int; convert them to one type."
    with_zone, without = pd.Timestamp("2026-01-01", tz="UTC"), pd.Timestamp("2026-01-01")
    for mixed in ([with_zone, without], [without, with_zone]):
        with pytest.raises(InputError, match="mixes dates with and without a time zone"):
            ids.to_id_array(mixed, "items")


class NoArray:
    def __array__(self, *_: Any, **__: Any) -> Any:
        raise TypeError


@pytest.mark.parametrize(
    ("values", "text"),
    [
        (NoArray(), "users must be a sequence of ids; got NoArray."),
        (3, "users must be a non-empty one-dimensional sequence; got shape ()."),
        (np.ones((2, 1)), "users must be a non-empty one-dimensional sequence; got shape (2, 1)."),
        ([], "users must be a non-empty one-dimensional sequence; got shape (0,)."),
        (array([1j]), "users must hold numbers, text or dates as ids; got complex128."),
        ([1, None, NAN], "users holds 2 missing ids."),
        ([1, "a"], "users mixes ids of types int, str; convert them to one type."),
        (
            ["user", 1],
            "users mixes ids of types int, str; convert them to one type. Its first row looks like a header.",
        ),
        ([[1], [2]], "users holds values of type list, which cannot be ids."),
        ([{}, 1], "users mixes ids of types dict, int; convert them to one type."),
        ([3, 1, 3, 3], "users repeats 2 ids; each id may occur once."),
        (np.ma.array([1]), "users is a masked array; give what is masked a score: array.filled(-np.inf)."),
    ],
)
def test_what_is_no_universe_of_ids_is_refused_in_these_words(values, text):
    assert refused(lambda: ids.to_id_array(values, "users")) == text


@pytest.mark.parametrize(
    ("one", "other", "kind"),
    [
        (array([1]), array([2], "u8"), "i8"),
        (array([1], "i4"), array([2], "u1"), "i8"),
        (array([-1]), array([2**63 - 1], "u8"), "i8"),
        (array([0]), array([2**63], "u8"), "u8"),
        (array([1]), array([2.0]), "i8"),
        (array([2**53 - 1]), array([1.5]), "f8"),
        (array([DAY]), array([DAY], "M8[ns]"), "M8[ns]"),
    ],
)
def test_ids_of_two_types_are_compared_in_one_that_holds_both(one, other, kind):
    found = ids.unify_id_types([one, other], "users")
    assert [unified_ids.dtype for unified_ids in found] == [kind, kind]
    assert [unified_ids.tolist() for unified_ids in found] == [
        one.astype(kind).tolist(),
        other.astype(kind).tolist(),
    ]


def test_ids_of_one_type_stay_as_they_are_beside_what_is_empty():
    for one in (array(["a"], object), array([1], "i4"), array([2**64], object)):
        given = [one, one[:0], array([], object), array([], "f8")]
        assert all(
            found is before for found, before in zip(ids.unify_id_types(given, "users"), given, strict=True)
        )


@pytest.mark.parametrize(
    ("one", "other", "shown", "why"),
    [
        (array([-1]), array([2**63], "u8"), "int64: -1; uint64: 9223372036854775808", True),
        (array([1]), array([2.0**53]), "int64: 1; float64: 9007199254740992.0", True),
        (array([-(2**53)]), array([0.5]), "int64: -9007199254740992; float64: 0.5", True),
        (array([2**64], object), array(["a"], object), "object: 18446744073709551616; object: 'a'", False),
        (
            array(["9999-01-01"], "M8[s]"),
            array([0], "M8[ns]"),
            "datetime64[s]: datetime.datetime(9999, 1, 1, 0, 0); datetime64[ns]: 0",
            False,
        ),
    ],
)
def test_ids_that_no_type_holds_are_shown_with_their_types(one, other, shown, why):
    because = " From 9007199254740992 on, doubles cannot represent every whole number." if why else ""
    assert refused(lambda: ids.unify_id_types([one, other], "users")) == (
        f"users has ids of different types ({shown}); convert them to one type.{because}"
    )


def test_numbers_and_texts_are_refused_with_a_way_to_read_numbers_as_text():
    one = array(["7", "8"], object)
    assert refused(lambda: ids.unify_id_types([array([7, 8]), one], "users")) == (
        "users has ids of different types (int64: 7, 8; object: '7', '8'); convert them to one type, such as text: "
        "frame.astype(dict(user=str, item=str)) for a frame, ipseval.read(path).to_frame().astype(dict(user=str, "
        "item=str)) for a file, str(id) for the ids of a dict."
    )
    assert "(train, int64: 7; validation, object: '7', '8');" in refused(
        lambda: ids.unify_id_types([array([7]), one[:0], one], "users", ("train", "test", "validation"))
    )


def test_a_label_has_its_place_among_the_ids_or_none():
    words, numbers = array(["a", "b"], object), array([7, 5])
    assert ids.find_positions(array(["b", "x", "a"], object), words, "x").tolist() == [1, -1, 0]
    assert ids.find_positions(array([5.0, 6.0]), numbers, "x", strict=False).tolist() == [1, -1]
    positions = ids.find_positions(numbers, words, "x", strict=False)
    assert (positions.tolist(), positions.dtype) == ([-1, -1], np.int64)
    assert ids.find_positions(words, array([DAY]), "x", strict=False).tolist() == [-1, -1]
    assert "x has ids of different types" in refused(lambda: ids.find_positions(numbers, words, "x"))


def test_a_series_is_brought_in_the_order_of_the_ids_by_its_labels():
    words, numbers = array(["a", "b", "c"], object), array([2, 0, 1])
    by_word = pd.Series([1.0, 2.0], ["c", "a"])
    assert ids.align_labels([3], words, "x") == [3]
    assert ids.align_labels(by_word, words, "x").tolist()[::2] == [2, 1]
    assert np.isnan(ids.align_labels(by_word, words, "x")[1])
    assert ids.align_labels(pd.Series([5, 6, 7]), numbers, "x").tolist() == [7, 5, 6]
    for same, of in (
        (pd.Series([1, 2, 3]), words),
        (pd.Series([1, 2]), numbers),
        (pd.Series([1, 2, 3, 4]), numbers),
        (pd.Series([1, 2, 3]), numbers + 1),
    ):
        assert ids.align_labels(same, of, "x") is same
    assert refused(lambda: ids.align_labels(by_word.set_axis(["a", "a"]), words, "x")) == (
        "the labels of x repeat ids; each may occur once."
    )
    assert refused(lambda: ids.align_labels(by_word.set_axis(["a", "z"]), words, "x")) == (
        "1 of 2 labels of x are not ids of the split ('z'; its ids start with 'a', 'b', 'c'). Leave these "
        "labels out, or pass an array where the values are in the order of the ids."
    )
    frame = pd.DataFrame([[1, 2, 3], [4, 5, 6]], index=["b", "a"])
    assert ids.align_labels(frame, words[:2], "x").to_numpy().tolist() == [[4, 5, 6], [1, 2, 3]]
    assert ids.align_labels(frame, numbers, "x", axis=1).to_numpy().tolist() == [[3, 1, 2], [6, 4, 5]]


def test_rows_are_those_of_what_the_values_go_with():
    values = pd.Series([1, 2], [1, 0])
    assert ids.align_rows([1, 2], "x") == [1, 2]
    assert ids.align_rows(values, "x", pd.Index([0, 1])).tolist() == [2, 1]
    assert ids.align_rows(values, "x", [5, 6]).tolist() == [2, 1]
    assert ids.align_rows(values, "x", pd.Series([5, 6, 7])) is values  # of another length
    assert refused(lambda: ids.align_rows(values, "x", pd.Series([5, 6], list("ab")))) == (
        "x must have the labels of the rows; got 1, 0 for 'a', 'b'. Bring it in the order of the rows, then "
        "pass .to_numpy()."
    )


def test_one_usual_name_of_a_column_among_numbers_is_a_header():
    words = array(["196", "7", "user"], object)
    codes = array([1, 0, 2, 2])
    what = "row 2 of column 'u' looks like a header: it is 'user', and the other 2 ids are numbers"
    assert ids.describe_header_row(codes, words, "column 'u'") == what
    assert refused(lambda: ids.refuse_header(codes, words, "column 'u'")) == (
        f"{what}. Read the file with its header, or without that row."
    )
    assert "the other 1 ids" in ids.describe_header_row(array([0, 1]), words[1:], "x")
    for none in (["user"], ["item", "user"], ["7", "8"], ["7", "a", "user"], [2**64, 2**65]):
        ids.refuse_header(np.arange(len(none)), array(none, object), "x")
        assert ids.describe_header_row(np.arange(len(none)), array(none, object), "x") == ""
    assert ids.describe_header_row(array([0]), array([1, 2]), "x") == ""
    assert {"uid", "UID", "Uid", "movie id", "Visitor.id", "itemId", "BOOK-ID"} <= ids.HEADERS


def test_a_column_is_coded_by_its_sorted_ids_and_gaps_are_below_0():
    found = ids.encode_ids(array(["b", None, "a", "b"], object), "x")
    assert (found.codes.tolist(), found.ids.tolist(), len(found)) == ([1, -1, 0, 1], ["a", "b"], 4)
    assert found.missing.tolist() == [False, True, False, False]
    assert found.codes.dtype == np.int64
    assert ids.encode_ids(array([5, 3, 5]), "x").codes.tolist() == [1, 0, 1]
    assert refused(lambda: ids.encode_ids(array([{1}, {2}], object), "x")) == (
        "x holds values of type set, which cannot be ids."
    )


def test_text_of_numpy_and_of_python_are_ids_of_one_type():
    words = np.array(["a", "bb"], dtype=object)
    for fixed_width in (np.array(["bb", "a"]), np.array(["bb", "a"], dtype="<U9")):
        for strict in (True, False):
            assert ids.find_positions(fixed_width, words, "x", strict=strict).tolist() == [1, 0]
            assert ids.find_positions(words, fixed_width, "x", strict=strict).tolist() == [1, 0]
    assert ids.find_positions(np.array(["c", "a"]), np.array(["a", "long"]), "x").tolist() == [-1, 0]
    assert refused(lambda: ids.find_positions(np.array(["1"]), np.array([1, 2]), "x"))
