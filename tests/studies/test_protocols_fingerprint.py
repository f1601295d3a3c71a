"""Fingerprints: what makes two fit functions, protocols or logs the same to a stored study."""

from __future__ import annotations

import functools
import importlib
import linecache
import sys
import textwrap
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import scipy

import ipseval
from ipseval.data import Interactions
from ipseval.errors import InputError
from ipseval.studies.protocols import Protocol
from tests.inside.studies import _describe_library, _FingerprintReader, fingerprint, fingerprint_log
from tests.studies.test_protocols_resume import make_log

HELPERS = """
import math
import textwrap
from fractions import Fraction

import helper_of_models
import numpy
SCALE, UNUSED, SETTINGS = {scale}, {unused}, {{"power": {power}}}
MANY = numpy.zeros(5000)
MANY[2500] = {middle}
LOCK = object()
PART, ROUND = Fraction(1, {part}), [math.floor, math.ceil, textwrap.dedent][{rounding}]

class Model:
    def score(self, train):
        return inner() * SETTINGS["power"]

def inner():
    with LOCK:
        pass
    return SCALE * MANY.sum() * ROUND(PART) * helper_of_models.shift() + (inner() if False else 0)

def fit(train):
    return [Model().score(train) for _ in range(3)]
"""


def test_fingerprint_of_a_fit_function_includes_the_objects_it_refers_to(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)

    def print_fingerprints(shift: int = 1, **values: int) -> str:
        (tmp_path / "helper_of_models.py").write_text(f"def shift():\n    return {shift}\n")
        (tmp_path / "models_followed.py").write_text(
            HELPERS.format(
                **{"scale": 1, "unused": 1, "power": 1, "middle": 1, "part": 2, "rounding": 0} | values
            )
        )
        for name in ("helper_of_models", "models_followed"):
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        linecache.clearcache()
        monkeypatch.setattr(sys, "dont_write_bytecode", True)
        return fingerprint(importlib.import_module("models_followed").fit)

    first = print_fingerprints()
    assert print_fingerprints() == print_fingerprints(unused=2) == first
    assert print_fingerprints(rounding=2) == print_fingerprints(
        rounding=2
    )  # of another library by name: no address is read
    changes = [{name: 3 if name == "part" else 2} for name in ("scale", "power", "shift", "middle", "part")]
    changes += [{"rounding": 1}, {"rounding": 2}]
    assert len({first, *(print_fingerprints(**change) for change in changes)}) == 1 + len(changes)


class Held:
    def __init__(self, value: int) -> None:
        self.value = value

    def get(self) -> int:
        return self.value

    def other(self) -> int:
        return -self.value


def test_fingerprints_of_different_contents_differ() -> None:
    def make(captured: object) -> Callable[[], object]:
        return lambda: captured

    frames = (pd.DataFrame({"user": [0]}), pd.DataFrame({"user": [1]}))
    arrays = (np.zeros(2), np.zeros(3), np.zeros(2, dtype=int), np.array(["a", None], dtype=object))
    distinct = [
        *(None, 0, 0.0, False, "0", b"0", (0,), (0, 1), {"a": 1}, {"a": 2}, {0}, *arrays, *frames),
        *(np.random.default_rng(0), np.random.default_rng(1)),
        *(functools.partial(make, 1), functools.partial(make, 2), make(1), make(2), make),
        *(Protocol(), Protocol(k_core=3), Protocol, len, "x".join),
        *(Held(1), Held(2), Held(1).get, Held(2).get, Held(1).other, {"a"}, frozenset({"b"}), [1, 2], [2, 1]),
        *(pd.Series([1]), pd.Series([1], index=[3]), pd.Index([1, 2]), np.float32(1), 1.0, 1j),
    ]
    prints = [fingerprint(value) for value in distinct]
    assert len(set(prints)) == len(prints)


def test_fingerprint_of_a_library_is_its_version() -> None:
    named = {"scipy.stats": f"scipy {scipy.__version__}", "ipseval.data": f"ipseval {ipseval.__version__}"}
    named |= {"json.decoder": "json", "tests.studies": "", "nowhere.at_all": ""}
    assert {name: _describe_library(name) for name in named} == named
    texts = {textwrap.dedent: "textwrap dedent", Fraction: "fractions Fraction", Fraction(1, 2): "fractions "}
    for value, text in texts.items():
        assert _FingerprintReader()._read_reference(value, set()).startswith(text)
    assert [fingerprint(value) for value in (None, 1.5, "a", True, Fraction)] == [
        *("NoneType:None", "float:1.5", "str:'a'", "bool:True", "fractions.Fraction"),
    ]


def test_functions_without_source_are_distinguished_by_their_code() -> None:
    def define_in_module(text: str) -> Callable[[object], object]:
        names: dict[str, Any] = {"__name__": "typed_at_a_prompt"}
        exec(text, names)
        fit: Callable[[object], object] = names["fit"]
        return fit

    texts = ["def fit(x): return x + 1", "def fit(x): return x + 2", "def fit(x): return x * 1"]
    texts += ["def fit(x): return x.a", "def fit(x): return x.b", "def fit(x, y=1): return x + 1"]
    texts += ["def fit(x): return (lambda: x + 1)"]
    prints = [fingerprint(define_in_module(text)) for text in texts]
    assert len(set(prints)) == len(texts)
    assert prints == [fingerprint(define_in_module(text)) for text in texts]


def test_fingerprints_are_the_same_for_the_same_content() -> None:
    for build in (
        lambda: functools.partial(make_log, x=np.arange(3)),
        lambda: np.random.default_rng(3),
        lambda: {"b": [1, 2], "a": {3, 4}},
        lambda: Protocol(candidates=(1, 2)),
    ):
        assert fingerprint(build()) == fingerprint(build())
    assert fingerprint({"a": 1, "b": 2}) == fingerprint({"b": 2, "a": 1})


def test_an_object_without_readable_content_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be distinguished"):
        fingerprint(object())


def test_fingerprint_of_a_log_depends_on_its_rows_and_ids() -> None:
    log = make_log()
    rows = np.arange(len(log))
    equal_log = Interactions(log.user, log.item, log.user_ids, log.item_ids)
    other_ids = Interactions(log.user, log.item, log.user_ids + 1, log.item_ids)
    timed = Interactions(log.user, log.item, log.user_ids, log.item_ids, timestamp=rows)
    assert fingerprint_log(log) == fingerprint_log(equal_log)
    prints = {
        fingerprint_log(changed_log)
        for changed_log in (log, other_ids, timed, log.select(rows[:-1]), log.select(rows[::-1]))
    }
    assert len(prints) == 5
