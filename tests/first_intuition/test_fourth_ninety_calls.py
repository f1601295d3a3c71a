"""Ninety first calls of a fourth reader of the README: they work, or one line leads to a call that works.

The estimates in the table were computed from the objects of each call with NumPy alone.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

import ipseval
from tests.first_intuition import fourth_objects
from tests.first_intuition.test_third_ninety_calls import SetUpCall, read_calls, run_call

TABLE = Path(__file__).parent / "fourth_ninety_calls.txt"
N_WORKING = 58  # of ninety, before anything was mended after this reader
N_MISTAKES = 7
CALLS = read_calls(TABLE)


def find_evaluation(names: dict[str, object]) -> ipseval.Evaluation | None:
    """Return the evaluation that a call has made, if it kept it."""
    for name in ("result", "res"):
        if isinstance(names.get(name), ipseval.Evaluation):
            return names[name]
    return None


def list_wrong_estimates(call: SetUpCall, evaluation: ipseval.Evaluation) -> list[str]:
    """Return the estimates of a call that differ from those in the table, and those that are not finite."""
    wrong = []
    for line in call.estimates:
        model, metric, estimator, value = line.split(" | ")
        estimate = evaluation.estimate(model, metric, estimator).value
        if abs(estimate - float(value)) > 1e-5:
            wrong.append(f"{line}, not {estimate}")
    if not np.isfinite(evaluation.frame["estimate"]).all():
        wrong.append("an estimate is not finite")
    return wrong


def run_advice(call: SetUpCall, names: dict[str, object]) -> str:
    """Run the call that an error leads to, and return what is wrong with its result; "" if nothing is."""
    try:
        result = eval(call.instead, names)
    except ModuleNotFoundError as error:
        return "" if find_spec(str(error.name)) is None else str(error)
    if isinstance(result, ipseval.Evaluation):
        return "; ".join(list_wrong_estimates(call, result))
    return ""


def test_there_are_ninety_calls_of_which_most_work():
    calls = [call for library in CALLS.values() for call in library]
    assert len(calls) == 90
    assert sum(call.is_mistake for call in calls) == N_MISTAKES
    assert sum(not call.words for call in calls) == N_WORKING
    assert all(bool(call.words) == bool(call.instead) for call in calls)
    assert sum(bool(call.estimates) for call in calls) > 50


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("library", CALLS)
def test_a_first_call_works_or_its_error_leads_to_one_that_works(library, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    mpl.use("Agg")
    faults = []
    for call in CALLS[library]:
        names = {"ipseval": ipseval, "json": json, "np": np, "pd": pd, **vars(fourth_objects)}
        exec("\n".join(call.setup), names)
        try:
            run_call(call.text, names)
        except (ipseval.IpsevalError, AttributeError, AssertionError) as error:
            if not call.words or call.words not in str(error):
                faults.append(f"{call.text}: {error}")
            elif run_advice(call, names):
                faults.append(f"{call.instead}: {run_advice(call, names)}")
            continue
        if call.words:
            faults.append(f"{call.text}: it works")
        evaluation = find_evaluation(names)
        if evaluation is not None:
            faults += list_wrong_estimates(call, evaluation)
    assert not faults, "\n".join(faults)
