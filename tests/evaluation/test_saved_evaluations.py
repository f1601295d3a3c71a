"""Evaluation.save and load: what comes back prints, compares, plots and reports the same bytes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import Evaluation, KnownPropensity, PowerLawPropensity, SampledCandidates
from ipseval.errors import InputError
from ipseval.estimators import Snips
from ipseval.evaluation.slates import evaluate_slates
from tests.evaluation.slates.worlds import random_slates
from tests.pages import without_pictures

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

N_USERS, N_ITEMS = 60, 40


@cache
def split(ids: Callable[[int], Any] = int, *, value: bool = False) -> ipseval.Split:
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((N_USERS, N_ITEMS)) < np.linspace(0.6, 0.1, N_ITEMS))
    frame = pd.DataFrame(
        {"user": [ids(evaluation) for evaluation in user], "item": [ids(evaluation) for evaluation in item]}
    )
    if value:
        frame["value"] = rng.integers(1, 6, len(frame))
    log = ipseval.Interactions.from_frame(frame, value="value" if value else None)
    return ipseval.split_random(log, test_fraction=0.4, rng=0)


def models() -> dict[str, Any]:
    rng = np.random.default_rng(1)
    return {"als": rng.random((N_USERS, N_ITEMS)), "ease | <b>": rng.integers(0, 3, (N_USERS, N_ITEMS))}


@dataclass(frozen=True)
class MyEstimator(Snips):
    """A caller's own."""

    label = "mine"


class MyMetric(type(ipseval.metric("recall@5"))):  # type: ignore[misc]
    """A caller's own."""

    name = "mine"


def mine() -> Any:
    return MyEstimator(normalize="global")


def build_evaluation(**options: Any) -> Evaluation:
    arguments: dict[str, Any] = {"metrics": ["recall@5"]}
    arguments["propensity"] = PowerLawPropensity(gamma=0.5)
    return ipseval.evaluate(models(), options.pop("split", None) or split(), **{**arguments, **options})


@cache
def simple() -> Evaluation:
    return build_evaluation()


def build_known() -> KnownPropensity:
    return KnownPropensity(item=np.linspace(0.9, 0.1, N_ITEMS))


def build_clipped() -> Evaluation:
    data = split(lambda evaluation: f"Ü{evaluation:03}", value=True)
    return build_evaluation(
        split=data, propensity=PowerLawPropensity(gamma=1).fit(data.train).clip(floor=9.0)
    )


def slates() -> Evaluation:
    frame = random_slates(np.random.default_rng(0), 60).assign(propensity=0.5)
    scores = {"als": "score", "ease | <b>": np.random.default_rng(1).random(len(frame))}
    return evaluate_slates(scores, frame, metrics=["rr", "dcg"])


CASES: dict[str, Callable[[], Evaluation]] = {
    "sampled, without a propensity": lambda: build_evaluation(
        propensity=None, metrics=["recall@5", "auc"], candidates=SampledCandidates(9, rng=0)
    ),
    "probabilities": lambda: build_evaluation(
        propensity=build_known(), n_relevant=N_ITEMS, estimators=["aoa", "ips"]
    ),
    "graded, with ids of text, clipped, bootstrap": lambda: build_clipped().with_intervals(
        "bca", n_resamples=50, rng=0
    ),
    "slates": slates,
    "an own metric and estimator": lambda: build_evaluation(
        metrics=[MyMetric(5), "recall@5"], estimators=["aoa", mine()]
    ),
}


def outputs(evaluation: Evaluation) -> dict[str, str]:
    # All other writers write the tables that HTML is written of, and so does the text: tests/golden.
    # Pictures are drawn of the frames; those of loaded results are tested in tests/contracts/test_results.py.
    with without_pictures():
        texts = {"html": evaluation.to_html(), "json": evaluation.to_json()}
    frames = {
        "frame": evaluation.frame,
        "compare": evaluation.compare(),
        "diagnostics": evaluation.diagnostics,
    }
    return texts | {name: frame.to_csv() for name, frame in frames.items()}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name == "slates" else ()) for name in CASES]
)
def test_a_loaded_evaluation_prints_compares_and_reports_the_same_bytes(name: str, tmp_path: Path) -> None:
    first = CASES[name]()
    first.save(tmp_path / "a.npz")
    again = Evaluation.load(tmp_path / "a.npz")
    expected, loaded = outputs(first), outputs(again)
    for kind, text in expected.items():
        assert loaded[kind] == text, kind
    again.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_a_loaded_evaluation_supports_all_methods(tmp_path: Path) -> None:
    first = simple()
    first.save(tmp_path / "a.npz")
    again = Evaluation.load(tmp_path / "a.npz")
    for ask in (
        lambda evaluation: evaluation.sensitivity([0.0, 1.0]).frame,
        lambda evaluation: evaluation.tipping_points(),
        lambda evaluation: evaluation.bounds(2.0),
        lambda evaluation: evaluation.per_user("als", "recall@5", "aoa").reset_index(),
        lambda evaluation: evaluation.with_intervals("percentile", n_resamples=50, rng=0).frame,
    ):
        pd.testing.assert_frame_equal(ask(first), ask(again), check_exact=True)


def test_a_custom_estimator_is_not_run_again_and_the_error_explains_it(tmp_path: Path) -> None:
    build_evaluation(estimators=[mine()]).save(tmp_path / "a.npz")
    again = Evaluation.load(tmp_path / "a.npz")
    assert again.definitions[1][0].label == "mine"
    with pytest.raises(InputError, match="an object of a class outside ipseval, and a file holds its plain"):
        again.bounds(2.0)


def test_the_versions_that_are_printed_are_those_that_computed(tmp_path: Path, monkeypatch) -> None:
    simple().save(tmp_path / "a.npz")
    monkeypatch.setattr("ipseval.evaluation._explanation.__version__", "9.9.9")
    assert (
        json.loads(Evaluation.load(tmp_path / "a.npz").to_json())["created_with"]["ipseval"]
        == ipseval.__version__
    )


def test_ids_that_cannot_be_stored_are_an_error_and_the_old_file_stays(tmp_path: Path) -> None:
    evaluation = simple()
    evaluation.save(tmp_path / "a.npz")
    before = (tmp_path / "a.npz").read_bytes()
    ids = np.empty(len(evaluation.user_ids), dtype=object)
    ids[:] = [(number,) for number in range(len(ids))]
    with pytest.raises(InputError, match="ids of type tuple cannot be stored"):
        replace(evaluation, user_ids=ids).save(tmp_path / "a.npz")
    assert (tmp_path / "a.npz").read_bytes() == before
