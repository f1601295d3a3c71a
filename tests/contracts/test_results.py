"""Every result has the same verbs: a tidy frame, a verdict, an explanation, files and a picture."""

from __future__ import annotations

import importlib
import inspect
from functools import cache
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.evaluation.beyond import beyond_accuracy
from ipseval.policies import evaluate_policies
from ipseval.ranking.baselines import popularity
from ipseval.reporting import load
from ipseval.studies.online import online_agreement
from ipseval.studies.protocols import Protocol
from ipseval.testing import gate, preflight
from ipseval.validation import exposure_curve
from ipseval.validation.simulation import World
from tests.inside.reporting import Result
from tests.inside.testing import GateHistory

pytestmark = pytest.mark.filterwarnings("ignore::ipseval.errors.DataWarning")
VERBS = (
    "frame",
    "verdict",
    "explain",
    "to_html",
    "to_markdown",
    "to_latex",
    "to_csv",
    "plot",
    "tables",
    "save",
    "load",
)
OF_PLOT = {"protocols": {"factor": "split"}}
DRAWN_OTHERWISE = {"Evaluation", "Decomposition", "ProtocolStudy", "OnlineAgreement"}  # by kind, or one thing
FITS = {"popular": popularity, "rare": lambda train: -popularity(train)}
WRITERS = ("to_html", "to_markdown", "to_latex", "to_csv")
OPTIONS: dict[str, Any] = {
    "metrics": ["recall@5"],
    "estimators": ["aoa", "snips-global"],
    "low_ess": "ignore",
}


@cache
def log() -> ipseval.Interactions:
    rng = np.random.default_rng(0)
    liked = rng.random((60, 30)) < 0.12 + 0.3 * (np.arange(30) < 6)
    user, item = np.nonzero(liked)
    frame = pd.DataFrame({"user": user, "item": item, "timestamp": rng.permutation(user.size)})
    return ipseval.Interactions.from_frame(frame, timestamp="timestamp")


@cache
def split() -> ipseval.Split:
    return ipseval.split_random(log(), rng=0)


@cache
def evaluation() -> ipseval.Evaluation:
    rng = np.random.default_rng(1)
    shape = (len(split().user_ids), len(split().item_ids))
    models = {"popular": popularity(split().train), "noise": rng.random(shape)}
    model = ipseval.PowerLawPropensity(gamma=1.0)
    return ipseval.evaluate(models, split(), propensity=model, **OPTIONS)


@cache
def study() -> Any:
    return World(n_users=60, n_items=30, mean_relevant=8, gamma=0.5, rng=0).study(rng=1, n_per_user=10)


def policies() -> Any:
    rng = np.random.default_rng(0)
    user, item, ones = np.arange(60), rng.integers(0, 3, 60), np.ones(60)
    log = ipseval.ImpressionLog(
        user, item, user, np.arange(3), rng.random(60) < 0.5, position=ones.astype(int), propensity=ones / 3
    )
    return evaluate_policies(log, {"new": np.full((3, 1), 1 / 3), "one": np.eye(3)[:, :1]}, rng=0)


def protocols() -> Any:
    options: dict[str, Any] = {"metrics": ["recall@5"], "gammas": [0.5], "n_resamples": 20}
    grid = [Protocol(order, "ratio", k_core=None, test_fraction=0.3) for order in ("random", "temporal")]
    with TemporaryDirectory() as folder:
        return ipseval.studies.protocols.study(FITS, {"log": log()}, grid, path=folder, **options)


def online() -> Any:
    rng = np.random.default_rng(0)
    true = rng.normal(size=8)
    tables = [{"experiment": range(8), "difference": true + rng.normal(size=8) * 0.3} for _ in range(2)]
    return online_agreement(*(pd.DataFrame(table).assign(std_error=0.3) for table in tables), rng=0)


RESULTS = {
    "evaluation": evaluation,
    "segments": lambda: evaluation().by("popularity:2"),
    "decomposition": lambda: evaluation().decomposition(by="popularity:2"),
    "sensitivity": lambda: evaluation().sensitivity([0.0, 0.5, 1.0]),
    "difference": lambda: evaluation().diff(evaluation()),
    "gate": lambda: gate(evaluation(), candidate="noise", incumbent="popular"),
    "gates": lambda: GateHistory({"2026-W01": result_of("gate"), "2026-W02": result_of("gate")}),
    "preflight": lambda: preflight(evaluation(), incumbent="popular"),
    "beyond": lambda: beyond_accuracy({"popular": popularity(split().train)}, split(), measures=["arp@5"]),
    "correction": lambda: ipseval.correct(
        {name: fit(split().train) for name, fit in FITS.items()}, split(), rng=0
    ),
    "validation": lambda: ipseval.validate(
        FITS, study(), propensities={"p": ipseval.PowerLawPropensity(gamma=0)}, metrics=["recall@5"], rng=0
    ),
    "exposure curve": lambda: exposure_curve(
        FITS, study(), n_users=[0, 20], metrics=["recall@5"], n_splits=1, n_draws=1, rng=0
    ),
    "policies": policies,
    "protocols": protocols,
    "online": online,
}


@cache
def result_of(name: str) -> Any:
    return RESULTS[name]()


@cache
def frame_and_tables(name: str) -> tuple[pd.DataFrame, Any]:
    """Return the frame of a result, and what all its texts are made of."""
    return result_of(name).frame, result_of(name).tables(page=True)


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_has_the_same_verbs(name, monkeypatch):
    result = result_of(name)
    frame, whole = frame_and_tables(name)
    assert isinstance(frame, pd.DataFrame)
    assert len(frame)
    assert not {"n_effective", "stderr", "se"} & set(frame)
    monkeypatch.setattr(type(result), "tables", lambda self, digits=2, page=False: whole)  # made once
    assert isinstance(result.verdict, str)
    assert repr(result.explain())
    assert result.to_html().startswith("<!DOCTYPE html>")
    assert "," in result.to_csv()
    assert all(getattr(result, verb)() for verb in ("__repr__", "to_markdown", "to_latex"))


@pytest.mark.usefixtures("no_pictures")
@pytest.mark.parametrize("verb", WRITERS)
def test_a_text_is_written_where_a_path_says(verb, tmp_path):
    path = tmp_path / f"file.{verb[3:]}"
    assert getattr(result_of("gate"), verb)(path) == str(path)
    assert path.read_text(encoding="utf-8") == getattr(result_of("gate"), verb)()
    # An evaluation has its own LaTeX and CSV; the others do the same as a gate.
    others = [
        kind for kind in results() if not (kind is ipseval.Evaluation and verb in ("to_latex", "to_csv"))
    ]
    assert {getattr(kind, verb) for kind in others} == {getattr(Result, verb)}
    own = tmp_path / f"own.{verb[3:]}"
    assert getattr(evaluation(), verb)(own) == str(own)
    assert own.read_text(encoding="utf-8") == getattr(evaluation(), verb)()


@pytest.mark.parametrize("name", RESULTS)
def test_a_saved_result_is_read_again_and_prints_explains_and_draws_the_same(name, tmp_path):
    result = result_of(name)
    frame, whole = frame_and_tables(name)
    result.save(tmp_path / "a.npz")
    again = load(tmp_path / "a.npz")
    assert type(again) is type(result)
    pd.testing.assert_frame_equal(again.frame, frame)
    assert repr(again.tables(page=True)) == repr(whole)
    # What inherits its picture draws the frame alone.
    drawn_from = [again] if type(result).plot is Result.plot else [again, result]
    drawn = [one.plot(**OF_PLOT.get(name, {})) for one in drawn_from]
    assert all(one.has_data() for one in drawn)
    assert len({len(one.figure.axes[0].get_children()) for one in drawn}) == 1
    again.save(tmp_path / "b.npz")
    assert (tmp_path / "b.npz").read_bytes() == (tmp_path / "a.npz").read_bytes()


def test_a_file_of_another_result_is_refused_by_both_names(tmp_path):
    for name, other in (("evaluation", "segments"), ("segments", "evaluation")):
        result_of(name).save(tmp_path / f"{name}.npz")
        with pytest.raises(ipseval.InputError, match=f"{name}.npz holds '{name}', not '{other}'"):
            type(result_of(other)).load(tmp_path / f"{name}.npz")


def results() -> list[type]:
    """Return all classes of results, in every wing."""
    for name in ("cli", "policies", "studies.online", "studies.protocols", "testing", "validation"):
        importlib.import_module(f"ipseval.{name}")

    classes, left = [], [Result]
    while left:
        subclasses = left.pop().__subclasses__()
        left += subclasses
        classes += [one for one in subclasses if not inspect.isabstract(one)]
    return classes


def test_the_family_holds_every_result_of_every_wing():
    family = {one.__name__ for one in results()}
    expected = {
        *("Evaluation", "Segments", "Decomposition", "EvaluationDiff", "Sensitivity", "BeyondAccuracy"),
        *("Correction", "Validation", "PolicyEvaluation"),
        *("ProtocolStudy", "OnlineAgreement", "ExposureCurve"),
    }
    assert expected <= family


def test_every_class_of_results_takes_the_same_options():
    for one in results():
        assert [verb for verb in VERBS if not hasattr(one, verb) and verb != "frame"] == []
        for verb in ("explain", "to_markdown", "to_latex"):
            assert inspect.signature(getattr(one, verb)).parameters["digits"].default == 2, one
        for verb in WRITERS:
            assert inspect.signature(getattr(one, verb)).parameters["path"].default is None, one
        drawn = inspect.signature(one.plot).parameters
        assert drawn["ax"].default is None, one
        if one.__name__ not in DRAWN_OTHERWISE:
            assert list(drawn) == ["self", "metric", "estimator", "ax"], one
