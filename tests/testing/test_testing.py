"""Regression tests against stored results: what passes, what fails, what is refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ipseval.cli import main
from ipseval.data import Interactions
from ipseval.data.splits import Split, split_random
from ipseval.errors import InputError
from ipseval.evaluation import Evaluation, evaluate
from ipseval.propensity import PowerLawPropensity
from ipseval.testing import assert_metric, assert_not_worse, compare_results

N_USERS, N_ITEMS = 100, 40
RECALL = {"metric": "recall@5", "estimator": "aoa"}


def world(seed: int) -> tuple[Split, np.ndarray]:
    """Return a split and the true scores that its positives were drawn by."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=(N_USERS, N_ITEMS))
    user, item = np.nonzero(rng.random(truth.shape) < 1 / (1 + np.exp(2.5 - 1.5 * truth)))
    log = Interactions.from_frame(
        pd.DataFrame({"user": user, "item": item}), users=np.arange(N_USERS), items=np.arange(N_ITEMS)
    )
    return split_random(log, test_fraction=0.4, rng=rng), truth


SPLIT, TRUTH = world(0)


def noisy(truth: np.ndarray, seed: int, noise: float = 1.0) -> np.ndarray:
    return truth + noise * np.random.default_rng(seed).normal(size=truth.shape)


def evaluated(scores: np.ndarray, split: Split = SPLIT, **options) -> Evaluation:
    given = {"metrics": ["recall@5", "ndcg@5"], "estimators": ["aoa"], **options}
    return evaluate({"model": scores}, split, **given)


@pytest.fixture
def baseline(tmp_path) -> Path:
    path = tmp_path / "baselines" / "model.npz"
    evaluated(noisy(TRUTH, 1)).save(path, ranks=False)
    return path


def test_the_same_recommender_passes_with_a_difference_of_zero(baseline):
    assert_not_worse(evaluated(noisy(TRUTH, 1)), baseline, **RECALL)
    assert_not_worse(evaluated(noisy(TRUTH, 1)), baseline, **RECALL, rule="non-inferior")
    assert_metric(evaluated(noisy(TRUTH, 1)), baseline, metric="ndcg@5", tolerance=0)


def test_a_recommender_made_worse_on_purpose_fails(baseline):
    with pytest.raises(AssertionError, match=r"WORSE: model  recall@5  aoa: 0\.\d+ -> 0\.\d+, difference -0"):
        assert_not_worse(evaluated(noisy(TRUTH, 1, noise=4.0)), baseline, **RECALL)


def test_a_better_recommender_passes_but_is_not_the_same_number(baseline):
    assert_not_worse(evaluated(TRUTH), baseline, **RECALL, rule="non-inferior")
    with pytest.raises(AssertionError, match="not the numbers of"):
        assert_metric(evaluated(TRUTH), baseline, **RECALL)


def share_passed(seeds: range, noise: float, tmp_path: Path) -> float:
    passed = 0
    for seed in seeds:
        split, truth = world(1000 + seed)
        path = tmp_path / f"{seed}.npz"
        evaluated(noisy(truth, 2 * seed), split).save(path, ranks=False)
        try:
            assert_not_worse(evaluated(noisy(truth, 2 * seed + 1, noise), split), path, **RECALL)
        except AssertionError:
            continue
        passed += 1
    return passed / len(seeds)


def test_an_equal_recommender_passes_in_nearly_all_of_50_resamples(tmp_path):
    # An equal one passes with probability .975, so 46 or more of 50 do with probability .99.
    assert share_passed(range(50), 1.0, tmp_path) >= 46 / 50


@pytest.mark.slow
def test_an_equal_recommender_passes_in_95_percent_of_200_resamples_and_a_worse_one_fails(tmp_path):
    assert share_passed(range(200), 1.0, tmp_path) >= 0.95
    assert share_passed(range(40), 4.0, tmp_path) <= 0.05


def test_the_paired_standard_error_is_that_of_the_users_differences(baseline):
    new = evaluated(noisy(TRUTH, 2))
    (found,) = compare_results(new, Evaluation.load(baseline), **RECALL)
    ours = new.per_user("model", "recall@5", "aoa")
    theirs = evaluated(noisy(TRUTH, 1)).per_user("model", "recall@5", "aoa")
    difference = ours - theirs
    assert found.difference == pytest.approx(difference.mean(), abs=1e-12)
    assert found.std_error == pytest.approx(difference.std(ddof=1) / np.sqrt(difference.size), rel=1e-12)
    assert found.high - found.low == pytest.approx(2 * 1.959964 * found.std_error, rel=1e-6)


def other_test_set() -> Evaluation:
    split = Split(SPLIT.train, SPLIT.test.select(np.arange(len(SPLIT.test)) != 7))
    return evaluated(noisy(TRUTH, 1), split)


def graded() -> Evaluation:
    from dataclasses import replace

    split = Split(SPLIT.train, replace(SPLIT.test, value=np.ones(len(SPLIT.test))))
    return evaluated(noisy(TRUTH, 1), split)


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (other_test_set, r"cannot be compared: positives_sha256 \w{12}… -> \w{12}…"),
        (graded, r"gains_sha256 None -> \w{12}…"),
        (lambda: evaluated(noisy(TRUTH, 1), ties="min"), "ties 'default' -> 'min'"),
    ],
)
def test_other_data_or_options_are_an_error_and_no_comparison(change, text, baseline):
    for check in (assert_not_worse, assert_metric):
        with pytest.raises(InputError, match=text):
            check(change(), baseline, **RECALL)


def test_another_propensity_is_an_error_for_weighted_estimators_only(tmp_path):
    path = tmp_path / "weighted.npz"
    both = {"estimators": ["aoa", "snips-global"]}
    scores = noisy(TRUTH, 1)
    evaluated(scores, propensity=PowerLawPropensity(gamma=0.5), **both).save(path, ranks=False)
    other = evaluated(scores, propensity=PowerLawPropensity(gamma=0.6), **both)
    assert_not_worse(other, path, metric="recall@5", estimator="aoa")
    with pytest.raises(InputError, match=r"propensity_sha256 .*gamma = 0\.5' -> 'power law, gamma = 0\.6'"):
        assert_not_worse(other, path, metric="recall@5", estimator="snips-global")


def test_a_changed_definition_of_the_metric_is_an_error_that_shows_the_change(baseline):
    old = Evaluation.load(baseline)
    old.basis["metrics"]["ndcg@5"]["discount"] = "1/ln(1 + r)"
    old.save(baseline)
    assert_not_worse(evaluated(noisy(TRUTH, 1)), baseline, **RECALL)
    with pytest.raises(
        InputError, match=r"definition of ndcg@5: discount '1/ln\(1 \+ r\)' -> '1/log2\(1 \+ r\)'"
    ):
        assert_not_worse(evaluated(noisy(TRUTH, 1)), baseline, metric="ndcg@5")


def test_compare_exits_with_0_1_or_2(tmp_path, capsys):
    files = {}
    for name, scores in {
        "old": noisy(TRUTH, 1),
        "same": noisy(TRUTH, 1),
        "worse": noisy(TRUTH, 1, 4.0),
    }.items():
        files[name] = str(tmp_path / f"{name}.npz")
        evaluated(scores).save(files[name])
    compare = ["--metric", "recall@5", "--margin", "0.005"]
    assert main(["compare", files["same"], files["old"], *compare]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("ok: model  recall@5  aoa: ")
    assert main(["compare", files["worse"], files["old"], *compare]) == 1
    assert capsys.readouterr().out.splitlines()[1].startswith("WORSE: model  recall@5  aoa: ")
    assert main(["compare", files["same"], files["old"], *compare, "--model", "=model"]) == 2
    assert (
        main(["compare", files["worse"], files["old"], *compare, "--non-inferior", "--model", "model"]) == 1
    )


PLUGIN_TEST = """
import os
import numpy as np, pandas as pd, pytest
from ipseval.evaluation import evaluate
from ipseval.data.splits import Split

pairs = [(user, item) for user in range(30) for item in range(8) if (user * item) % 3 == 1]
train = pd.DataFrame({"user": range(30), "item": 0})
split = Split.from_frames(train, pd.DataFrame(pairs, columns=["user", "item"]), items=range(8))

@pytest.mark.parametrize("name", ["als"])
def test_als(ipseval_baseline, name):
    scores = np.zeros((30, 8))
    scores[tuple(np.transpose(pairs))] = float(os.environ["SCORE_OF_POSITIVES"])
    evaluation = evaluate({name: scores}, split, metrics=["recall@3"])
    ipseval_baseline.assert_not_worse(evaluation, metric="recall@3")
"""


@pytest.mark.filterwarnings("ignore:Module already imported so cannot:pytest.PytestAssertRewriteWarning")
def test_the_plugin_writes_with_update_and_then_compares(tmp_path, monkeypatch, capfd):
    test = tmp_path / "test_model.py"
    test.write_text(PLUGIN_TEST)
    monkeypatch.setenv("SCORE_OF_POSITIVES", "1")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")

    def run(*options: str) -> tuple[int, str]:
        code = pytest.main(
            [
                *("-q", "--import-mode=importlib", "-p", "ipseval.pytest_plugin"),
                *("-p", "no:unraisableexception"),  # it collects garbage five times, all that of this process
                *("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"),
                *(*options, str(test)),
            ]
        )
        return int(code), capfd.readouterr().out

    code, said = run()
    assert (code, "there is no stored result" in said) == (1, True)
    assert run("--ipseval-update")[0] == 0
    names = sorted(path.name for path in (tmp_path / "baselines").iterdir())
    assert names == ["test_als-als.npz"]
    assert run()[0] == 0
    monkeypatch.setenv("SCORE_OF_POSITIVES", "-1")
    assert "WORSE: als  recall@3  aoa: 1 -> 0, difference" in run()[1]
