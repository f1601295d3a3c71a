"""The judged leaderboard: its recommenders against plain formulas, its tables on a small world, going on."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from ipseval import Interactions, split_random
from ipseval.ranking import baselines
from ipseval.validation.simulation import World
from reproductions import __main__ as everything
from reproductions import field_logs, leaderboard, leaderboard_models, random_exposure, tables

LIKES = np.random.default_rng(0).random((300, 30)) < np.linspace(0.4, 0.7, 30)  # every two items meet
LOG = Interactions(*np.nonzero(LIKES), np.arange(300), np.arange(30))
SPLIT = split_random(LOG, test_fraction=0.3, validation_fraction=0.2, rng=2)
TRAIN = SPLIT.train
EVERYBODY = np.arange(TRAIN.n_users)
DENSE = np.zeros((TRAIN.n_users, TRAIN.n_items))
DENSE[TRAIN.user, TRAIN.item] = 1


@pytest.fixture(autouse=True)
def plain_python(monkeypatch):
    """Regressions without compiling, which takes longer than all tests of this file."""
    monkeypatch.setattr(leaderboard_models, "_regressions", leaderboard_models._regressions.py_func)


def test_least_squares_on_all_other_items_is_ease():
    model_weights = leaderboard_models.neighbour_regression(TRAIN, TRAIN.n_items, 7.0, 0.0, 0)(EVERYBODY)
    np.testing.assert_allclose(model_weights, baselines.ease(TRAIN, regularization=7.0)(EVERYBODY), atol=1e-5)


def test_slim_is_an_elastic_net_with_weights_of_at_least_0():
    linear_model = pytest.importorskip("sklearn.linear_model")
    model_weights = leaderboard_models.neighbour_regression(TRAIN, TRAIN.n_items, 3.0, 0.5, 100)(EVERYBODY)
    n, item = TRAIN.n_users, 4
    model = linear_model.ElasticNet(
        alpha=3.5 / n, l1_ratio=0.5 / 3.5, positive=True, fit_intercept=False, tol=1e-10, max_iter=10_000
    )
    others = np.delete(np.arange(TRAIN.n_items), item)
    model.fit(DENSE[:, others], DENSE[:, item])
    np.testing.assert_allclose(model_weights[:, item], DENSE[:, others] @ model.coef_, atol=1e-5)


def test_walks_and_graph_filters_are_their_formulas():
    by_user, by_item = (np.maximum(n, 1) for n in (TRAIN.activity, TRAIN.popularity))
    walk = (DENSE / by_user[:, None]) @ (DENSE.T / by_item[:, None]) @ (DENSE / by_user[:, None])
    scores = leaderboard_models.walk(TRAIN, beta=0.5)(EVERYBODY)
    np.testing.assert_allclose(scores, walk / by_item**0.5, rtol=1e-4, atol=1e-7)
    unit = DENSE / np.sqrt(by_user[:, None] * by_item)
    near = leaderboard_models.gf_cf(TRAIN, alpha=0.0)(EVERYBODY)
    np.testing.assert_allclose(near, DENSE @ (unit.T @ unit), rtol=1e-4, atol=1e-6)


def test_lightgcn_ranks_training_items_first():
    users, items = leaderboard_models.light_gcn(TRAIN, l2=0.001, passes=5)
    scores = users @ items.T
    assert scores[DENSE > 0].mean() > np.quantile(scores[DENSE == 0], 0.8)


@pytest.fixture(name="made")
def fixture_made(tmp_path, monkeypatch):
    """A leaderboard of closed forms on two logs, made twice."""
    grid = {
        "popularity": (baselines.popularity, [{}]),
        "EASE": (baselines.ease, [{"regularization": number} for number in (5.0, 50.0)]),
        "SVD": (baselines.pure_svd, [{"n_factors": 4}]),
    }
    monkeypatch.setattr(leaderboard, "GRID", grid)
    monkeypatch.setattr(leaderboard, "FACTORS", ("EASE",))
    monkeypatch.setattr(leaderboard, "LIST", 5)
    monkeypatch.setattr(field_logs, "loaders", lambda _: {"Gowalla": None, "Beauty": lambda: LOG})
    monkeypatch.setattr(
        leaderboard, "splits", lambda _, folder, own=leaderboard.splits: own("Beauty", folder)
    )
    tasks = [(log, name) for log in ("Gowalla", "Beauty") for name in grid]
    first = [leaderboard.make(tmp_path, tmp_path, task) for task in tasks]
    kept = {path: path.read_bytes() for path in tmp_path.rglob("*.*")}
    (tmp_path / "Beauty" / "SVD.json").unlink()  # what a kill leaves: ranks without their line
    again = [leaderboard.make(tmp_path, tmp_path, task) for task in tasks]
    assert all("there" not in line for line in first)
    assert [line.endswith(": there") for line in again] == [True] * 5 + [False]
    assert {path: path.read_bytes() for path in kept if path.suffix == ".parquet"} == {
        path: value for path, value in kept.items() if path.suffix == ".parquet"
    }
    return [leaderboard.Judged(tmp_path, tmp_path, name) for name in ("Gowalla", "Beauty")]


@pytest.mark.slow
def test_an_interrupted_leaderboard_goes_on_and_judges_every_pair(made, tmp_path):
    one = made[0]
    plain = one.value("recall@20", "aoa")["estimate"]
    pairs = one.pairs[one.pairs["metric"] == "recall@20"].set_index(["model", "other"])
    assert len(pairs) == 3
    assert pairs["next"].sum() == 2
    assert (pairs["difference"] >= 0).all()
    assert ((pairs["ahead"] >= 0) & (pairs["ahead"] <= 1)).all()
    best, second = plain.index[:2]
    assert pairs.loc[(best, second), "gain"] == pytest.approx(plain.iloc[0] / plain.iloc[1] - 1)
    # γ = −1 gives equal weights: there the weighted order is the plain one.
    curve = one.curve[(one.curve["gamma"] == -1) & (one.curve["estimator"] == "snips-global")]
    equal = curve[curve["metric"] == "recall@20"].set_index("model")["estimate"]
    np.testing.assert_allclose(equal[plain.index], plain, rtol=1e-9)
    tables_by_name = leaderboard.tables(made)
    assert set(tables_by_name) == {
        f"leaderboard{end}" for end in ("", "-sizes", "-boards", "-published", "-settings")
    }
    assert all("| --- |" in table for table in tables_by_name.values())
    tables.write_csv(tables_by_name["leaderboard-boards"], tmp_path / "boards.csv")
    leaderboard.picture(tmp_path / "boards.csv", tmp_path / "picture.svg")
    drawing = (tmp_path / "picture.svg").read_text("utf-8")
    assert "AOA" in drawing
    assert "SNIPS" in drawing


@pytest.mark.parametrize(
    ("values", "said"),
    [([1, 2, 3], "every"), ([-1, -2, -3], "none"), ([1, -1, -3], "< -0.5"), ([-3, -1, 1], "> 0.5")],
)
def test_where_a_pair_turns_is_said(values, said):
    assert leaderboard.Judged._turns(pd.Series(values, index=[-1.0, 0.0, 1.0])) == said


def test_tables_record_what_made_them(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "commit", lambda: "new")
    page = tmp_path / "page.md"
    old = tables.record("", {"a": ("old", "v1"), "b": ("old", "v1")})
    page.write_text(f"<!-- a -->\n<!-- /a -->\n<!-- made -->\n{old}\n<!-- /made -->\n", "utf-8")
    tables.write_tables({"a": "| x |"}, page)
    text = page.read_text("utf-8")
    assert f"| new | {tables.versions()} | a |" in text
    assert "| old | v1 | b |" in text


def test_one_command_skips_the_pieces_that_this_commit_has_made(tmp_path, monkeypatch):
    ran = []
    monkeypatch.setenv("IPSEVAL_DATA", "")  # it is set below, and would be so for the tests that follow
    monkeypatch.setattr(everything, "run", lambda name, data, notebooks_only: ran.append(name))
    monkeypatch.setattr(everything, "commit", lambda: "now")
    monkeypatch.setattr(everything, "CACHE", tmp_path)
    monkeypatch.setattr(everything, "DONE", tmp_path / "done.json")
    (tmp_path / "done.json").write_text(json.dumps({"sampled": "now", "coat": "before"}), "utf-8")
    monkeypatch.setattr(sys, "argv", ["reproductions", "--data", str(tmp_path)])
    everything.main()
    assert ran == [name for name in everything.PIECES if name != "sampled"]
    everything.main()
    assert len(ran) == len(everything.PIECES) - 1

    def fails(name, data, notebooks_only):
        ran.append(name)
        if name == "coat":
            raise subprocess.CalledProcessError(1, ["python", "-m", "reproductions.coat"])

    monkeypatch.setattr(everything, "run", fails)
    monkeypatch.setattr(everything, "commit", lambda: "later")
    with pytest.raises(SystemExit, match=r"^Not made: coat \(-m reproductions.coat\)"):
        everything.main()
    with pytest.raises(SystemExit, match=r"^Not made: coat"):
        everything.main()
    assert ran[-2:] == [list(everything.PIECES)[-1], "coat"]


def test_gamma_by_exposure_is_the_slope_of_a_world():
    study = World(n_users=800, n_items=150, mean_relevant=30, rng=0).study(rng=1)
    table = random_exposure.gamma_table({"world": study})
    slope, gamma = table.splitlines()[2].split("|")[3:5]
    assert float(gamma.split()[0]) == pytest.approx(1 - 2 * float(slope.split()[0]), abs=0.006)
    assert "2.69" in table
