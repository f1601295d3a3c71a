"""Values as plain JSON and arrays, and back: each kind by itself, and what cannot be read."""

from __future__ import annotations

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from ipseval.errors import InputError
from tests.inside.utils import Count, codec

ARRAY = np.arange(3.0)


def again(value: Any) -> Any:
    """Return a value as it comes back from a stream."""
    stream = io.BytesIO()
    codec.write(stream, value, title="t")
    read, about = codec.read(__file__, "Again.", stream.getvalue())
    assert about["title"] == "t"
    return read


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 0.1, "a", [1, [2]], (1, (2,)), {1: "a", (2,): None}, [], (), {}, Count("a", 1, 2, "b")],
)
def test_a_value_comes_back_equal_and_of_its_type(value):
    found = again(value)
    assert found == value
    assert type(found) is type(value)


def test_arrays_come_back_with_their_types_and_one_content_is_one_array():
    one, other, scalar, flag = again([ARRAY, ARRAY.copy(), np.float32(0.5), np.True_])
    assert one is other
    assert (one.tolist(), one.dtype) == ([0, 1, 2], np.float64)
    assert (scalar, type(scalar), type(flag)) == (0.5, np.float32, np.bool_)
    first, second = again([ARRAY, ARRAY + 1])
    assert (first.tolist(), second.tolist()) == ([0, 1, 2], [1, 2, 3])


def test_frames_come_back_with_their_index_and_the_types_of_their_columns():
    frame = pd.DataFrame(
        {
            "n": pd.Series([1, 2], dtype="int32"),
            "x": [0.5, None],
            "word": ["a", "b"],
            "object": pd.Series(["a", 1], dtype=object),
            "gap": pd.Series([1, None], dtype="Int64"),
            "flag": [True, False],
            "day": pd.to_datetime(["2026-01-01", None]),
            "span": pd.to_timedelta([1, 2], unit="s"),
        }
    ).set_axis(["r", "s"])
    pd.testing.assert_frame_equal(again(frame), frame)
    pd.testing.assert_frame_equal(again(frame[["n"]].set_axis([7, 5])), frame[["n"]].set_axis([7, 5]))
    assert list(again(frame.iloc[:0]).columns) == list(frame.columns)


class Own:
    """An object of the caller's own."""

    label = "mine"
    pair = ("a", 1)
    nested = (("a",), 1)
    listed = ("a", [1])
    several = [1]  # noqa: RUF012
    _hidden = 3

    def __repr__(self) -> str:
        return "Own()"

    @property
    def failing(self) -> int:
        raise ZeroDivisionError


def test_of_an_own_object_what_it_says_is_kept_and_not_its_code():
    found = again(Own())
    assert repr(found) == "Own()"
    assert {name for name in vars(found) if name != "_representation"} == {"label", "pair"}
    assert (found.label, found.pair) == ("mine", ("a", 1))
    assert not hasattr(found, "several")
    assert not hasattr(found, "__len__")
    with pytest.raises(AttributeError, match=r"^__len__$"):
        found.__len__  # noqa: B018
    with pytest.raises(codec.NotStoredError) as caught:
        found.fit  # noqa: B018
    assert str(caught.value) == (
        "Own() is an object of a class outside ipseval, and a file holds its plain attributes but not its code, so it "
        "has no 'fit'. Evaluate again to use it."
    )


@dataclass
class Counted:
    """As a class of the library: a field that is computed, one that is private and given, and one made."""

    name: str
    _given: int
    _computed: int = 0
    _listed: Any = None

    def _prepared(self) -> Counted:
        return Counted(f"{self.name}!", self._given, 9, [9])


def test_fields_that_are_computed_again_are_not_kept(monkeypatch):
    place = codec._qualified_name(Counted)
    assert place == f"{__name__}:Counted"
    monkeypatch.setitem(codec.NAMES, place, "counted")
    monkeypatch.setitem(codec.CLASSES, "counted", place)
    assert again(Counted("a", 1, 5, [5])) == Counted("a!", 1)


def decoded(name: str, **given: Any) -> Any:
    return codec._decode({"class": name, "fields": given}, [])


def test_classes_are_read_by_their_names_in_files():
    assert decoded("count", label="a", count=1) == Count("a", 1)
    with pytest.raises(ValueError, match=r"^there is no 'ipseval.utils.notes:Count' in this version$"):
        decoded("ipseval.utils.notes:Count", label="a", count=1)
    with pytest.raises(ValueError, match=r"^there is no 'nothing' in this version$"):
        decoded("nothing")
    with pytest.raises(ValueError, match=r"^count has no gone, lost in this version$"):
        decoded("count", label="a", count=1, lost=0, gone=None)


def test_a_file_holds_one_value_of_the_class_that_is_asked_for(tmp_path: Path):
    path = tmp_path / "a.npz"
    codec.save(path, Count("a", 1), day=3)
    value, about = codec.load(path, Count)
    assert (value, about["day"]) == (Count("a", 1), 3)
    codec.save(tmp_path / "a.NPZ", Count("a", 1))
    for cls, wanted in ((dict, "dict"), (Own, "Own")):
        with pytest.raises(InputError) as caught:
            codec.load(path, cls)
        assert str(caught.value) == f"{path} holds 'count', not '{wanted}'."
    codec.save(path, [1])
    with pytest.raises(InputError, match="holds 'list', not 'count'"):
        codec.load(path, Count)


def test_what_is_no_file_of_results_is_refused(tmp_path: Path):
    with pytest.raises(
        InputError, match=r"^a file of stored results must end in \.npz; got '.*a\.json'\. Name it a\.npz\.$"
    ):
        codec.save(tmp_path / "a.json", 1)
    (tmp_path / "a.npz").write_text("{}")
    with pytest.raises(
        InputError, match=r"a\.npz must be a file of stored results, .*cannot be loaded\. Compute the"
    ):
        codec.load(tmp_path / "a.npz", Count)
    with pytest.raises(InputError, match="is a folder"):
        codec.load(tmp_path, Count)
    with pytest.raises(InputError, match=r"b\.npz does not exist"):
        codec.load(tmp_path / "b.npz", Count)


def test_a_file_that_cannot_be_read_says_which_version_wrote_it(tmp_path: Path, monkeypatch):
    monkeypatch.setattr("ipseval.utils.artefacts.__version__", "0.5")
    monkeypatch.setitem(codec.NAMES, codec._qualified_name(Count), "later")
    codec.save(tmp_path / "a.npz", Count("a", 1))
    with pytest.raises(InputError, match=r"no 'later' .*\)\. It was written by ipseval 0\.5\. Again\."):
        codec.load(tmp_path / "a.npz", Count, "Again.")
    assert zipfile.is_zipfile(tmp_path / "a.npz")
