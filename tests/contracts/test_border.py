"""The guard of the public border: wrong types are named, and faults of the library stay what they are."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any, Literal, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

import ipseval
from tests.inside.utils import FloatArray, _guarded, border, fits


def _example(count: int, scores: np.ndarray, *, strict: bool = True, name: str = "") -> float:
    if name == "fault":
        raise KeyError("a fault of the library")
    if name == "file":
        raise FileNotFoundError(2, "No such file", "there.csv")
    if name == "pipe":
        raise BrokenPipeError
    return scores[count] + (1 if strict else 0)


def test_an_argument_of_another_type_is_named_with_what_was_expected():
    guarded = _guarded(_example)
    assert guarded(1, np.arange(3.0)) == 2
    with pytest.raises(ipseval.InputError, match=r"count must be int; got str 'a'"):
        guarded("a", np.arange(3.0))
    with pytest.raises(ipseval.InputError, match=r"strict must be True or False; got 'False'"):
        guarded(1, np.arange(3.0), strict="False")


def test_a_fault_with_right_arguments_and_a_missing_argument_stay_what_they_are():
    guarded = _guarded(_example)
    with pytest.raises(KeyError, match="a fault of the library"):
        guarded(1, np.arange(3.0), name="fault")
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        guarded(1)


def test_a_file_that_cannot_be_used_is_named_and_a_broken_pipe_stays_one():
    guarded = _guarded(_example)
    with pytest.raises(ipseval.InputError, match=r"cannot be used: .*there\.csv"):
        guarded(1, np.arange(3.0), name="file")
    with pytest.raises(BrokenPipeError):
        guarded(1, np.arange(3.0), name="pipe")


def test_public_functions_are_pickled_and_documented_as_before():
    for one in (ipseval.evaluate, ipseval.split_random, ipseval.baselines.ease):
        assert pickle.loads(pickle.dumps(one)) is one
        assert one.__doc__.startswith(("Return", "Estimate"))


def test_an_attribute_that_is_not_there_is_answered_with_one_that_is():
    with pytest.raises(AttributeError, match=r"^module 'ipseval.propensity' has no attribute 'PowerLaws'"):
        _ = ipseval.propensity.PowerLaws
    log = ipseval.Interactions.from_frame(pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1]}))
    with pytest.raises(AttributeError, match=r"no attribute 'frame'. Use .to_frame\(\)"):
        _ = log.frame
    ranked = ipseval.rank_positives(np.ones((2, 2)), ipseval.Split.from_frames(None, log.to_frame()))
    with pytest.raises(AttributeError, match=r"no attribute 'to_frame'$"):  # ranks have no frame to name
        _ = ranked.to_frame


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
    assert [one for one in fitting if not fits(one, hint)] == []
    assert [one for one in others if fits(one, hint)] == []


def test_an_iterator_is_not_read_to_see_whether_it_fits():
    given = iter(["a"])
    assert fits(given, Iterable[int])
    assert list(given) == ["a"]


SOURCE = """
from __future__ import annotations
from collections.abc import Mapping as Foreign
from threading import Thread as Later
import numpy.typing as npt
class Base:
    def __init__(self, size: int) -> None: self.size = size + 0
    def grown(self, by: int) -> int: return self.size + by
class Shape(Base):
    def hidden(self): return self._inside("a")
    def _inside(self, by: int) -> int: return self.size + by
    @classmethod
    def of(cls, size: int) -> Shape: return cls(size)
    @staticmethod
    def twice(size: int) -> int: return size + size + 0
class Split:
    train = 1
class Trouble(ValueError):
    def __init__(self, n: int) -> None: super().__init__(n + 0)
class Open:
    def __getattr__(self, name): return name
def area(side: int, flag: bool = False, *, wide: bool = False) -> int: return side + 0 * flag
def total(*rest: int, strict: bool = False) -> int: return sum(rest)
def fixed() -> int: return 3
def late(*rest: int, n: int = 0) -> int: return n + 0
def loose(n: int, **more: int) -> int: return n + 0
def _own(side: int) -> int: return side + 0
def calls(side) -> int: return area(side)
def odd(a: NotThere, b: int = 0) -> int: return a + b
def drawn(n: npt.ArrayLike | None, *, rng: int | None = None) -> int: return n + rng
"""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the library with a room, and one outside of it that holds the same function."""
    modules = {name: ModuleType(name) for name in ("ipseval.made", "ipseval.made.room", "ipseval.madeup")}
    home = modules["ipseval.made"]
    for name, one in modules.items():
        monkeypatch.setitem(sys.modules, name, one)
    exec(SOURCE, home.__dict__)
    for name in ("room", "madeup"):
        modules[f"ipseval.{'made.' * (name == 'room')}{name}"].area = home.area
    home.plain = home.area
    border.guard("ipseval.made")
    return home


def refused(call: Callable[[], Any]) -> str:
    with pytest.raises(ipseval.InputError) as caught:
        call()
    return str(caught.value)


def test_public_functions_and_methods_are_guarded_wherever_they_are_used(made):
    shape, said = made.Shape(3), "must be int; got str 'a'."
    outside = sys.modules["ipseval.madeup"].area
    assert refused(lambda: made.area("a")) == f"side {said}"
    assert refused(lambda: sys.modules["ipseval.made.room"].area("a")) == f"side {said}"
    assert refused(lambda: made.Shape("a")) == f"size {said}"
    assert refused(lambda: made.Shape.of("a")) == f"size {said}"
    assert refused(lambda: made.Shape.twice("a")) == f"size {said}"
    assert refused(lambda: shape.grown("a")) == f"by {said}"
    assert (made.area(2), shape.grown(2), made.Shape.of(3).size, made.Shape.twice(3)) == (2, 5, 3, 6)
    for call in (
        lambda: outside("a"),
        lambda: made._own("a"),
        shape.hidden,
        lambda: made.Trouble("a"),
        lambda: made.calls("a"),
    ):
        with pytest.raises(TypeError) as caught:
            call()
        assert not isinstance(caught.value, ipseval.InputError)
    assert not hasattr(made.Foreign, "__guarded__")
    guarded = made.area
    border.guard("ipseval.made")
    assert made.area is guarded


def test_a_call_from_the_library_itself_is_no_border(made):
    for name, kind in (("ipseval.x", TypeError), ("ipsevalx", ipseval.InputError)):
        inside: dict[str, Any] = {"__name__": name, "made": made}
        exec("def call(): return made.area('a')", inside)
        with pytest.raises(kind):
            inside["call"]()


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
    assert refused(lambda: made.drawn("a")) == words
    assert refused(lambda: made.drawn(1, rng=[])) == "rng must be int or None; got list []."
    with pytest.raises(TypeError, match="concatenate"):
        made.odd("a")


def test_what_is_not_there_is_answered_where_something_stands_in_its_place(made):
    with pytest.raises(AttributeError, match=r"^module 'ipseval\.made' has no attribute 'zzz'$") as caught:
        _ = made.zzz
    assert caught.value.name == "zzz"
    with pytest.raises(AttributeError, match=r"'ipseval\.made' has no attribute 'frame'\. Use \.to_f"):
        _ = made.frame
    made.__getattr__ = str.upper  # a module may answer for itself
    border.guard("ipseval.made")
    assert made.zzz == "ZZZ"
    with pytest.raises(AttributeError, match=r"^'Shape' object has no attribute 'zzz'$"):
        _ = made.Shape(1).zzz
    assert made.Open().zzz == "zzz"
    with pytest.raises(TypeError, match=r"^'Split' object has no items\. Use \.train and \.test\.$"):
        made.Split()[0]
    for members, useful in (((), True), (["to_frame"], True), (["other"], False)):
        with pytest.raises(AttributeError) as caught:
            border._missing("x", "frame", members)
        assert str(caught.value) == "x has no attribute 'frame'" + ". Use .to_frame()" * useful
    with pytest.raises(AttributeError, match=r"^x has no attribute '_frame'$"):
        border._missing("x", "_frame")
    with pytest.raises(AttributeError, match=r"'k'\. Use the cutoff in the label"):
        border._missing("x", "k", ["other"])


def test_the_names_of_a_module_are_those_that_it_lists_or_defines(made):
    defined = [
        "Base",
        "Shape",
        "Split",
        "Trouble",
        "Open",
        "area",
        "total",
        "fixed",
        "late",
        "loose",
        "calls",
        "odd",
        "drawn",
    ]
    assert border.public_names(made) == [*defined, "plain"]
    made.__all__ = ["area"]
    assert border.public_names(made) == ["area"]
