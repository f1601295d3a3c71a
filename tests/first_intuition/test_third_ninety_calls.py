"""Ninety first calls of a third reader of the README: they work, or one line leads to a call that works."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import ipseval
from tests.first_intuition import third_objects
from tests.first_intuition.test_ninety_calls import compare_estimates, run_command

pytestmark = pytest.mark.slow  # the fast suite runs the ninety calls of the fourth reader

TABLE = Path(__file__).parent / "third_ninety_calls.txt"
N_WORKING = 57  # of ninety; 46 before anything was mended after this reader
N_MISTAKES = 10
NOT_DRAWN = ("aoa-pooled", "random-sample")  # estimators of a correction that draw no pairs


@dataclass
class SetUpCall:
    """A first call after the lines that make its objects: it works, or an error leads to the call `instead`."""

    description: str
    setup: list[str] = field(default_factory=list)
    lines: list[str] = field(default_factory=list)
    words: str = ""
    instead: str = ""
    same_as: str = ""
    estimates: list[str] = field(default_factory=list)
    is_mistake: bool = False

    @property
    def text(self) -> str:
        return "\n".join(self.lines)


def read_calls(table: Path) -> dict[str, list[SetUpCall]]:
    """Return the calls of each library in a table."""
    calls: dict[str, list[SetUpCall]] = {}
    for line in table.read_text("utf-8").splitlines():
        if line.startswith("## "):
            group = calls.setdefault(line[3:], [])
        elif line.startswith("#"):
            if calls:
                group.append(SetUpCall(line))
        elif line.startswith("| "):
            group[-1].setup.append(line[2:])
        elif line.startswith("  ? "):
            group[-1].is_mistake = True
        elif line.startswith("  ! "):
            group[-1].words = line[4:]
        elif line.startswith("  > "):
            group[-1].instead = line[4:]
        elif line.startswith("  = "):
            group[-1].same_as = line[4:]
        elif line.startswith("  ~ "):
            group[-1].estimates.append(line[4:])
        elif line:
            group[-1].lines.append(line)
    return calls


CALLS = read_calls(TABLE)


def run_call(text: str, names: dict[str, object]) -> object:
    """Run a command line, or statements of Python, and return the object that they call `result`."""
    if text.startswith("ipseval "):
        return run_command(text.removeprefix("ipseval "))
    names.pop("result", None)
    exec(text, names)
    return names.get("result")


def compare_results(result: object, reference: object) -> None:
    """Assert that two evaluations, or two corrections, have the same estimates; corrections draw pairs."""
    if isinstance(result, ipseval.Evaluation):
        compare_estimates(result, reference)
        return
    frames = [frame[frame["estimator"].isin(NOT_DRAWN)] for frame in (result.frame, reference.frame)]
    assert set(frames[0]["estimator"]) == set(NOT_DRAWN)
    pd.testing.assert_frame_equal(*frames)


def test_there_are_ninety_calls_of_which_most_work():
    calls = [call for library in CALLS.values() for call in library]
    assert len(calls) == 90
    assert sum(call.is_mistake for call in calls) == N_MISTAKES
    assert sum(not call.words for call in calls) >= N_WORKING
    assert all(bool(call.words) == bool(call.instead) for call in calls)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("library", CALLS)
def test_a_first_call_works_or_its_error_leads_to_one_that_works(library, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    faults = []
    for call in CALLS[library]:
        names = {"ipseval": ipseval, "np": np, "pd": pd, "os": os, **vars(third_objects)}
        exec("\n".join(call.setup), names)
        capsys.readouterr()
        try:
            result = run_call(call.text, names)
        except ModuleNotFoundError as error:
            if find_spec(str(error.name)) is not None:
                faults.append(f"{call.text}: {error}")
            continue
        except (ipseval.IpsevalError, AttributeError, TypeError) as error:
            text = f"{error} {capsys.readouterr().err}"
            if not call.words or call.words not in text:
                faults.append(f"{call.text}: {text}")
            else:
                run_call(call.instead, names)
            continue
        if call.words:
            faults.append(f"{call.text}: it works")
        elif call.same_as:
            compare_results(result, eval(call.same_as, names))
    assert not faults, "\n".join(faults)


@pytest.mark.filterwarnings("ignore:every list of 'SVD' is shorter")
def test_lists_of_the_held_out_pairs_alone_are_doubted():
    (call,) = [call for call in CALLS["Surprise"] if "algo.test(testset)" in call.description]
    names = {"ipseval": ipseval, **vars(third_objects)}
    exec("\n".join(call.setup), names)
    with pytest.warns(ipseval.errors.DataWarning, match="Were the held-out pairs alone scored"):
        run_call(call.text, names)
