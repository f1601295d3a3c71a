"""Public functions name an argument of a wrong type, and errors of the library itself stay unchanged."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import ipseval
from tests.inside.utils import FloatArray, fits_annotation, missing_attribute, public_function


def _example(count: int, scores: np.ndarray, *, strict: bool = True, name: str = "") -> float:
    if name == "fault":
        raise KeyError("a fault of the library")
    if name == "file":
        raise FileNotFoundError(2, "No such file", "there.csv")
    if name == "pipe":
        raise BrokenPipeError
    return scores[count] + (1 if strict else 0)


def test_an_argument_of_another_type_is_named_with_what_was_expected():
    guarded = public_function(_example)
    assert guarded(1, np.arange(3.0)) == 2
    with pytest.raises(ipseval.InputError, match=r"count must be int; got str 'a'"):
        guarded("a", np.arange(3.0))
    with pytest.raises(ipseval.InputError, match=r"strict must be True or False; got 'False'"):
        guarded(1, np.arange(3.0), strict="False")


def test_a_fault_with_right_arguments_and_a_missing_argument_stay_what_they_are():
    guarded = public_function(_example)
    with pytest.raises(KeyError, match="a fault of the library"):
        guarded(1, np.arange(3.0), name="fault")
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        guarded(1)


def test_a_file_that_cannot_be_used_is_named_and_a_broken_pipe_stays_one():
    guarded = public_function(_example)
    with pytest.raises(ipseval.InputError, match=r"cannot be used: .*there\.csv"):
        guarded(1, np.arange(3.0), name="file")
    with pytest.raises(BrokenPipeError):
        guarded(1, np.arange(3.0), name="pipe")


def test_public_functions_are_pickled_and_documented_as_before():
    for one in (ipseval.evaluate, ipseval.split_random, ipseval.baselines.ease):
        assert pickle.loads(pickle.dumps(one)) is one
        assert one.__doc__.startswith(("Return", "Estimate"))


def test_an_attribute_that_is_not_there_is_answered_with_one_that_is():
    with pytest.raises(AttributeError, match=r"module 'ipseval.propensity' has no attribute 'PowerLaws'"):
        _ = ipseval.propensity.PowerLaws
    log = ipseval.Interactions.from_frame(pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1]}))
    with pytest.raises(AttributeError, match=r"no attribute 'frame'. Use .to_frame\(\)"):
        _ = log.frame
    ranked = ipseval.rank_positives(np.ones((2, 2)), ipseval.Split.from_frames(None, log.to_frame()))
    with pytest.raises(AttributeError, match=r"no attribute 'to_frame'$"):  # ranks have no frame to name
        _ = ranked.to_frame


FRAME = pd.DataFrame({"user": [1, 1, 2, 2], "item": [1, 2, 1, 3]})
HERE = np.ones(3)
MASKED = np.ma.array([1, 2], mask=[False, True])
IntArray, BoolArray = npt.NDArray[np.integer[Any]], npt.NDArray[np.bool_]
Anything = TypeVar("Anything")


class Sized(Protocol):
    size: int

    def grow(self) -> None: ...


@pytest.mark.parametrize(
    ("hint", "fitting", "others"),
    [
        (Any, [3, None], []),
        (Anything, [3], []),
        (npt.ArrayLike, [[1, 2], [True], 0.5, HERE], [None, "a", ["a"], [1j], MASKED, [[1], [2, 3]], {}]),
        (npt.ArrayLike | None, [None, [1.5]], ["a", ["a"]]),
        (npt.ArrayLike | int, [3, [1.5]], [None, "a"]),
        (int | str, [3, "a"], [1.5, None, True]),
        (str | None, ["a", None], [3]),
        (Literal["a", 1], ["a", 1], ["A", "b", 0, True, 1.0]),
        (np.ndarray, [HERE, np.array(["a"])], [[1.0], MASKED]),
        (npt.NDArray[Any], [HERE, np.array(["a"])], [[1.0]]),
        (FloatArray, [HERE, np.array([1]), np.array([True])], [np.array(["a"]), [1.0], MASKED]),
        (IntArray, [np.array([1]), np.array([1], np.uint8)], [HERE, np.array([True])]),
        (BoolArray, [np.array([True])], [np.array([1]), [True]]),
        (int, [3, np.int8(3)], [3.0, True, np.True_, "3"]),
        (float, [3, 0.5, np.float32(1)], [True, np.True_, "3"]),
        (bool, [True, np.False_], [1, 0.0, None]),
        (Mapping[str, int], [{}, {"a": 1}], [{"a": "b"}, {"a": 1, "b": None}, [1]]),
        (Mapping, [{}, {1: "b"}], [[1]]),
        (Mapping[str, npt.ArrayLike], [{"a": [1]}], [[1], {"a": "b"}]),
        (Iterable[str], [iter(["a"]), "ab", {"a"}, ["a"]], [3, [1], b"ab"]),
        (Sequence[str], ["ab", ("a",)], [iter(["a"]), {"a"}, b"ab", ["a", 1]]),  # an iterator is read once
        (Sequence[float], [[1, 0.5], HERE], ["12", np.ones((2, 2)), ["a"], np.array(3.0)]),
        (list[int], [[1, 2], []], [[1, "a"], "12"]),
        (list, [[1, "a"]], ["12", 3]),
        (Sized, [SimpleNamespace(size=1, grow=len)], [SimpleNamespace(size=1), SimpleNamespace(grow=len), 3]),
        (pd.Series, [pd.Series([1])], [[1], 3]),
        (type[int], [int], [3]),
        (SimpleNamespace(__value__=int), [3], ["a"]),  # an alias with a name, as NumPy 2.5 has them
    ],
)
def test_what_fits_an_annotation_and_what_does_not(hint, fitting, others):
    assert [one for one in fitting if not fits_annotation(one, hint)] == []
    assert [one for one in others if fits_annotation(one, hint)] == []


def test_an_iterator_is_not_read_to_see_whether_it_fits_annotation():
    given = iter(["a"])
    assert fits_annotation(given, Iterable[int])
    assert list(given) == ["a"]


SOURCE = """
from __future__ import annotations
import numpy.typing as npt
from ipseval.utils.public import public_class, public_function
@public_class
class Base:
    def __init__(self, size: int) -> None: self.size = size + 0
    def grow(self, step: int) -> int: return self.size + step
@public_class
class Shape(Base):
    def call_private(self): return self._inside("a")
    def _inside(self, step: int) -> int: return self.size + step
    def grow_twice(self, step): return self.grow(step)
    @classmethod
    def from_size(cls, size: int) -> Shape: return cls(size)
    @staticmethod
    def double(size: int) -> int: return size + size + 0
@public_class
class Open:
    def __getattr__(self, name): return name
@public_function
def area(side: int, flag: bool = False, *, wide: bool = False) -> int: return side + 0 * flag
@public_function
def total(*rest: int, strict: bool = False) -> int: return sum(rest)
@public_function
def fixed() -> int: return 3
@public_function
def late(*rest: int, n: int = 0) -> int: return n + 0
@public_function
def loose(n: int, **more: int) -> int: return n + 0
def private(side: int) -> int: return side + 0
@public_function
def calls(side) -> int: return area(side)
@public_function
def odd(a: NotThere, b: int = 0) -> int: return a + b
@public_function
def draw(n: npt.ArrayLike | None, *, rng: int | None = None) -> int: return n + rng
"""


@pytest.fixture
def made() -> ModuleType:
    """A module with public and private functions."""
    module = ModuleType("ipseval.made")
    exec(SOURCE, module.__dict__)
    return module


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(ipseval.InputError) as caught:
        call()
    return str(caught.value)


def test_public_functions_and_methods_name_a_wrong_argument(made):
    shape = made.Shape(3)
    text = "must be int; got str 'a'."
    assert refused(lambda: made.area("a")) == f"side {text}"
    assert refused(lambda: made.Shape("a")) == f"size {text}"
    assert refused(lambda: made.Shape.from_size("a")) == f"size {text}"
    assert refused(lambda: made.Shape.double("a")) == f"size {text}"
    assert refused(lambda: shape.grow("a")) == f"step {text}"
    values = (made.area(2), shape.grow(2), made.Shape.from_size(3).size, made.Shape.double(3))
    assert values == (2, 5, 3, 6)


def test_errors_inside_the_library_stay_what_they_are(made):
    shape = made.Shape(3)
    for call in (
        lambda: made.private("a"),
        shape.call_private,
        lambda: made.calls("a"),
        lambda: shape.grow_twice("a"),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert not isinstance(caught.value, ipseval.InputError)
    assert refused(lambda: made.area("a"))  # a failed call leaves the next one checked


def test_text_is_no_truth_value_wherever_it_stands(made):
    assert made.area(1, True, wide=np.False_) == made.area(1, flag=np.True_) == 1
    for call in (lambda: made.area(1, "no"), lambda: made.area(1, flag="no")):
        assert refused(call) == "flag must be True or False; got 'no'."
    assert refused(lambda: made.area(1, True, wide=1)) == "wide must be True or False; got 1."
    assert made.total(1, 2) == 3
    assert refused(lambda: made.total(1, strict=1)) == "strict must be True or False; got 1."


def test_an_option_that_is_not_there_is_answered_with_those_that_are(made):
    assert refused(lambda: made.area(1, wid=True)) == "area has no option wid=. Did you mean wide=?"
    assert refused(lambda: made.area(1, wid=True, zzz=1)) == "area has no option wid=. Did you mean wide=?"
    assert refused(lambda: made.area(1, zzz=1)) == "area has no option zzz=. It has side, flag, wide."
    assert refused(lambda: made.area(1, k=1)).startswith("area has no option k=. Use the cutoff in the label")
    assert refused(lambda: made.area(1, True, True)) == (
        "area accepts `side` and `flag` by position. Pass the others by keyword: wide=."
    )
    assert refused(lambda: made.fixed(1)) == (
        "fixed accepts nothing by position. Remove the other arguments."
    )
    assert refused(lambda: made.Shape(1, 2)) == (
        "Base accepts `size` by position. Remove the other arguments."
    )
    assert refused(lambda: made.total("a", zzz=1)) == "total has no option zzz=. It has strict."
    for call in (made.area, lambda: made.area(1, side=2), made.Shape, made.loose, lambda: made.loose(more=1)):
        with pytest.raises(TypeError) as caught:
            call()
        assert not isinstance(caught.value, ipseval.InputError)


def test_an_annotation_that_cannot_be_read_says_nothing(made):
    assert refused(lambda: made.odd(1, "a")) == "b must be int; got str 'a'."
    assert refused(lambda: made.late(1, n="a")) == "n must be int; got str 'a'."
    words = "n must be numbers or an array of numbers or None; got str 'a'."
    assert refused(lambda: made.draw("a")) == words
    assert refused(lambda: made.draw(1, rng=[])) == "rng must be int or None; got list []."
    with pytest.raises(TypeError, match="concatenate"):
        made.odd("a")


def test_a_missing_attribute_is_explained_where_another_one_does_the_same(made):
    with pytest.raises(AttributeError, match=r"^'Shape' object has no attribute 'zzz'$") as caught:
        _ = made.Shape(1).zzz
    assert caught.value.name == "zzz"
    assert made.Open().zzz == "zzz"
    for members, has_advice in (((), True), (["to_frame"], True), (["other"], False)):
        error = missing_attribute("x", "frame", members)
        assert str(error) == "x has no attribute 'frame'" + ". Use .to_frame()" * has_advice
    assert str(missing_attribute("x", "_frame")) == "x has no attribute '_frame'"
    assert "'k'. Use the cutoff in the label" in str(missing_attribute("x", "k", ["other"]))


def test_evaluations_and_splits_say_where_their_parts_are():
    split = ipseval.split_random(FRAME, test_fraction=0.5, rng=0)
    with pytest.raises(TypeError, match=r"^'Split' object has no items\. Use \.train and \.test\.$"):
        split[0]
    with pytest.raises(
        AttributeError, match=r"^module 'ipseval' has no attribute 'ndcg'\. Use a metric by its label"
    ):
        _ = ipseval.ndcg
