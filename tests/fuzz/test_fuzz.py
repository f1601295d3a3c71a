"""The fast share of the fuzzer: nothing foreign leaves the public border."""

from __future__ import annotations

import random
import warnings

import pytest

from tests.fuzz.border import Target, attempt, cases, targets

N_CASES = 500  # tests/fuzz/run.py takes more


@pytest.fixture(scope="module")
def all_targets(tmp_path_factory):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        folder = tmp_path_factory.mktemp("fuzz")
        return folder, targets(folder)


def share(found: list) -> list:
    """Return `N_CASES` cases, the same every day; what is slow is taken less often, and nothing left out."""
    slow = {
        "World",
        "study",
        "run_config",
        "exposure_curve",
        "validate",
        "Evaluation.to_html",
        "gate",
        "history",
        "gate_metrics",
        "preflight",
        "assert_not_worse",
        "beyond_accuracy",
        "correct",
    }
    chooser = random.Random(0)
    chooser.shuffle(found)
    quick = [case for case in found if case[0].name not in slow]
    return quick[: N_CASES - 20] + [case for case in found if case[0].name in slow][:20]


def test_what_the_fuzzer_calls_right_is_right(all_targets, tmp_path, monkeypatch):
    """Where the right arguments fail, a wrong one is never reached. Only readers of data have no file."""
    monkeypatch.chdir(tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for target in all_targets[1]:
            if not target.name.startswith("load_"):
                target.call(**target.arguments)


def test_whatever_is_passed_a_result_comes_or_an_error_of_the_library(all_targets, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some of the values are names of files to write
    chosen = share(cases(*all_targets))
    assert len(chosen) == N_CASES
    outcomes = [attempt(*case) for case in chosen]
    foreign = [str(outcome) for outcome in outcomes if outcome is not None and not outcome.from_caller]
    assert not foreign, f"{len(foreign)} of {len(chosen)} cases:\n" + "\n".join(foreign[:40])


def call_back(report, n_calls=1):
    """Call a function of the caller, or fail by itself."""
    for _ in range(n_calls):
        report("not a number")
    return {}["missing"]


def test_only_the_own_error_of_a_function_that_is_the_wrong_value_is_that_of_the_caller():
    target = Target("call_back", call_back, {"report": str}, ("n_calls",))
    from_int = attempt(target, "report", "class", lambda: int)
    assert from_int.from_caller
    assert "ValueError" in from_int.error
    assert not attempt(
        target, "report", "builtin", lambda: len
    ).from_caller  # len succeeds, and the target fails
    assert not attempt(target, "report", "none", lambda: None).from_caller
    assert not attempt(target, "n_calls", "class", lambda: int).from_caller
