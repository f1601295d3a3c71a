"""Tests of all pairs of many recommenders equal those of `compare`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from tests.inside.inference import compute_pair_tests


def evaluate_many(n_models: int, n_users: int = 40, **options) -> ipseval.Evaluation:
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame(
        [(u, i) for u in range(n_users) for i in rng.permutation(30)[:6]], columns=["user", "item"]
    )
    train = pairs.groupby("user").head(3)
    split = ipseval.Split.from_frames(train, pairs.drop(train.index), users=range(n_users), items=range(30))
    base = rng.random((n_users, 30))
    test = np.zeros((n_users, 30))
    test[pairs.drop(train.index)["user"], pairs.drop(train.index)["item"]] = 1
    models = {
        f"m{k}": base + k / n_models * test + rng.random((n_users, 30)) * (0.2 + k / n_models)
        for k in range(n_models)
    }
    models["again"] = models["m0"]  # tied with another
    models["nearly"] = models["m1"].copy()
    models["nearly"][0] = -base[0]
    return ipseval.evaluate(models, split, low_ess="ignore", **options)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("n_models", [5, 9])  # and two more: above FEW by products of all at once
def test_the_tests_of_all_pairs_equal_compare(n_models, monkeypatch):
    monkeypatch.setattr("ipseval.inference.comparisons.FEW", 9)
    result = evaluate_many(n_models, metrics=["recall@5"], estimators=["aoa"])
    tests = compute_pair_tests(result.estimates)
    comparison = result.compare()
    assert comparison["p_adjusted"].between(1e-12, 0.99).sum() > n_models  # not all 0 or 1
    pairs = comparison[["model", "reference"]].to_numpy()
    gaps, p_values = np.transpose(
        [tests["recall@5", "aoa"].get_difference_and_p_value(*pair) for pair in pairs]
    )
    np.testing.assert_allclose(gaps, comparison["difference"], rtol=1e-12)
    np.testing.assert_allclose(p_values, comparison["p_adjusted"], rtol=1e-6, atol=1e-300)
    assert tests["recall@5", "aoa"].get_difference_and_p_value("m0", "again") == (0.0, 1.0)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.usefixtures("no_pictures")
def test_evaluations_of_many_recommenders_are_printed_saved_and_exported(tmp_path, monkeypatch):
    monkeypatch.setattr("ipseval.inference.comparisons.FEW", 10)
    result = evaluate_many(
        10, metrics=["recall@10"], estimators=["aoa", "snips-global"], propensity="power-law:gamma=1"
    )
    assert "12 recommenders" in repr(result)
    result.save(tmp_path / "many.npz")
    assert (tmp_path / "many.npz").exists()
    assert "m9" in result.to_html()
