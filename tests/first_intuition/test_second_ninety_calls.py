"""Ninety first calls of a second reader of the README: they work, or one line leads to a call that works."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import ipseval
from tests.first_intuition import second_objects
from tests.first_intuition.ninety_calls import Call
from tests.first_intuition.test_ninety_calls import compare_estimates, run_command

TABLE = Path(__file__).parent / "second_ninety_calls.txt"
N_WORKING = 37  # of ninety; the ratings of seventeen others need a threshold, which their error names
OBJECTS = {
    "implicit": second_objects.make_implicit,
    "LensKit": second_objects.make_lenskit,
    "RecTools": second_objects.make_rectools,
    "RecBole and LightGCN": second_objects.make_recbole,
    "cornac and Surprise": second_objects.make_cornac,
    "ranx, ir_measures and Open Bandit": second_objects.make_ranx,
}
FIELDS = {"!": "words", ">": "instead", "=": "same_as"}


def read_calls() -> dict[str, list[Call]]:
    """Return the calls of each library in the table."""
    fields: dict[str, list[dict[str, str]]] = {}
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("## "):
            library = line[3:]
            fields[library] = []
        elif line.startswith("  "):
            sign, _, text = line.strip().partition(" ")
            fields[library][-1][FIELDS[sign]] = text
        elif line and not line.startswith("#"):
            fields[library].append({"text": line})
    calls = {}
    for library, entries in fields.items():
        calls[library] = [Call(**entry) for entry in entries]
    return calls


CALLS = read_calls()


def run_call(text: str, names: dict[str, object]) -> object:
    """Run a command line, or statements of Python, and return the value of an expression."""
    if text.startswith("ipseval "):
        return run_command(text.removeprefix("ipseval "))
    assignment = re.match(r"(\w+) = (?!.*;)", text)
    if assignment is not None:
        names[assignment[1]] = eval(text[assignment.end() :], names)
        return names[assignment[1]]
    if ";" in text:
        return exec(text, names)
    return eval(text, names)


def test_there_are_ninety_calls_of_which_some_work():
    calls = [call for library in CALLS.values() for call in library]
    assert len(calls) == 90
    assert sum(not call.words for call in calls) >= N_WORKING
    assert all(bool(call.words) == bool(call.instead) for call in calls)
    n_without_threshold = sum("threshold" in call.words for call in calls)
    assert n_without_threshold == 17


@pytest.mark.slow  # in the fast suite, the two hundred calls of test_first_intuition.py
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("library", CALLS)
def test_a_first_call_works_or_its_error_leads_to_one_that_works(library, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    mpl.use("Agg")
    names = {"ipseval": ipseval, "np": np, "pd": pd, **OBJECTS[library]()}
    faults = []
    for call in CALLS[library]:
        capsys.readouterr()
        try:
            result = run_call(call.text, names)
        except (ipseval.IpsevalError, AttributeError, KeyError, TypeError) as error:
            text = f"{error} {capsys.readouterr().err}"
            if not call.words or call.words not in text:
                faults.append(f"{call.text}: {text}")
            else:
                run_call(call.instead, names)
            continue
        if call.words:
            faults.append(f"{call.text}: it works")
        elif call.same_as:
            compare_estimates(result, run_call(call.same_as, names))
    assert not faults, "\n".join(faults)
