"""The guard of the public border: wrong types are named, and faults of the library stay what they are."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Sequence
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import ipseval
from tests.inside.base import FloatArray, _guarded, fits


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
        assert one.__doc__.startswith("Return")


def test_an_attribute_that_is_not_there_is_answered_with_one_that_is():
    with pytest.raises(AttributeError, match=r"^module 'ipseval.propensity' has no attribute 'PowerLaws'"):
        _ = ipseval.propensity.PowerLaws
    log = ipseval.Interactions.from_frame(pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1]}))
    with pytest.raises(AttributeError, match=r"no attribute 'frame'. Use .to_frame\(\)"):
        _ = log.frame
    ranked = ipseval.rank_positives(np.ones((2, 2)), ipseval.Split.from_frames(None, log.to_frame()))
    with pytest.raises(AttributeError, match=r"no attribute 'to_frame'$"):  # ranks have no frame to name
        _ = ranked.to_frame


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        (np.ones(1), FloatArray, True),
        (np.array(["a"]), FloatArray, False),
        (np.array(["a"]), np.ndarray, True),
        (3, SimpleNamespace(__value__=int), True),  # an alias with a name, as NumPy 2.5 has them
        ("a", SimpleNamespace(__value__=int), False),
        (iter(["a"]), Iterable[str], True),
        (iter(["a"]), Sequence[str], False),  # it can be read only once
    ],
)
def test_arrays_and_named_aliases_fit_what_they_stand_for(value, hint, expected):
    assert fits(value, hint) == expected
