"""The reproduction of the study of protocols: its logs, its tables, and the models of RecBole."""

from __future__ import annotations

import dataclasses
import sys
import types

import numpy as np
import pandas as pd
import pytest

from ipseval import Interactions, Split
from ipseval.ranking.adapters import adapt
from reproductions import protocol_logs, recbole_models
from reproductions import protocols as zhao


def log(pairs: list[tuple[int, int]], n_users: int, n_items: int) -> Interactions:
    user, item = (np.array(column) for column in zip(*pairs, strict=True))
    return Interactions(user, item, np.arange(n_users), np.arange(n_items))


@pytest.mark.slow
def test_popularity_of_items_drifts_in_the_domains_where_it_should():
    def agreement_of_halves(name: str) -> float:
        made = protocol_logs.domain(*protocol_logs.DOMAINS[name], seed=0)
        late = made.timestamp > np.median(made.timestamp)
        return float(np.corrcoef(*(made.select(part).popularity for part in (late, ~late)))[0, 1])

    halves = {name: agreement_of_halves(name) for name in protocol_logs.DOMAINS}
    assert halves["steady"] > 0.7
    assert halves["steady"] > halves["slow"] > halves["trend"]
    assert halves["hits"] < 0.3


def test_open_bandit_clicks_of_kinds_of_users_are_filtered_until_stable(tmp_path):
    rows = [("a", "b", i, 1) for i in range(5)] + [("a", "b", 0, 1), ("c", "d", 0, 1), ("a", "b", 9, 0)]
    frame = pd.DataFrame(rows, columns=["user_feature_0", "user_feature_1", "item_id", "click"])
    folder = tmp_path / "open-bandit" / "bts" / "men"
    folder.mkdir(parents=True)
    frame.to_csv(folder / "men.csv")
    (counted,) = protocol_logs.open_bandit_core(tmp_path).to_dict("records")
    assert counted == {
        "log": "bts/men", "clicks": 7, "kinds of users": 2, "pairs": 6, "pairs of the 5-core": 0,
    }  # fmt: skip


def test_recommenders_without_their_library_are_named(monkeypatch):
    monkeypatch.setattr(
        zhao.importlib.util, "find_spec", lambda name: None if name == "recbole" else object()
    )
    assert zhao.left_out() == dict.fromkeys(("GCMC", "DSSM", "DIN"), "recbole")


def test_order_in_time_follows_the_timestamps_and_draws_among_ties():
    pairs = log([(0, i) for i in range(6)], 1, 6)
    timed = dataclasses.replace(pairs, timestamp=np.array([3, 1, 2, 1, 1, 0]))
    place = recbole_models.order_in_time(timed)
    assert place[[5, 2, 0]].tolist() == [0, 4, 5]
    assert sorted(place[[1, 3, 4]]) == [1, 2, 3]
    assert sorted(recbole_models.order_in_time(pairs)) == list(range(6))
    np.testing.assert_array_equal(place, recbole_models.order_in_time(timed))


def test_rows_of_a_table_are_means_over_logs_and_metrics():
    frame = pd.DataFrame(
        {
            "pair": "a / b",
            "metric": zhao.METRICS,
            **{measure: [0.0, 1.0, 1.0, 1.0] for measure in zhao.MEASURES},
            "n_beyond": [0, 1, 0, 2],
        }
    )
    row = ["a / b", "0.75", "0.75", "0.75", "0.8", "0.00", "1.00", "1.00", "1.00", "3 in 4"]
    assert zhao.rows_of(frame) == [row]


def study_frame(values: dict[str, list[float]]) -> pd.DataFrame:
    rows = [
        {"log": "x", "split": "RO_RS", "candidates": "full", "metric": "auc", "model": m, "estimate": value}
        for m, value in zip(values["model"], values["estimate"], strict=True)
    ]
    return pd.DataFrame(rows)


def test_noise_of_a_split_is_the_agreement_of_two_draws():
    frames = [
        study_frame({"model": list("abc"), "estimate": [0.9, 0.8, 0.7]}),
        study_frame({"model": list("cba"), "estimate": [0.7, 0.9, 0.8]}),
    ]
    studies = [types.SimpleNamespace(frame=frame) for frame in frames]
    (row,) = zhao.split_noise(*studies).to_dict("records")
    # Orders a b c and b a c: one of three pairs inverted, Spearman 1 − 6·2/(3·8), another winner.
    assert (row["ipc"], row["src"], row["or@1"], row["or@3"]) == (1, pytest.approx(0.5), 0, 1)


def test_stopwatch_counts_only_runs_that_made_ranks(tmp_path):
    watch = zhao.Stopwatch(tmp_path)
    with watch:
        (tmp_path / "a.npz").touch()
    counted = watch.seconds()
    assert counted > 0
    with zhao.Stopwatch(tmp_path):
        pass
    assert watch.seconds() == counted


@pytest.fixture(name="block")
def block_log() -> Interactions:
    """Two groups of ten users; each has eight items of its own, of which every user has six."""
    rng = np.random.default_rng(0)
    pairs = [(u, 8 * (u // 10) + i) for u in range(20) for i in rng.permutation(8)[:6].tolist()]
    user, item = np.array(pairs).T
    users, items = (np.array([f"{kind}{n}" for n in range(size)]) for kind, size in (("u", 20), ("i", 17)))
    return Interactions(user, item, users, items, timestamp=np.arange(user.size))


@pytest.mark.skipif(not recbole_models.is_installed(), reason="recbole is not installed: pip install recbole")
@pytest.mark.filterwarnings("ignore")  # RecBole 1.2 warns on current pandas and PyTorch
class TestRecBole:
    @pytest.mark.parametrize("name", ["GCMC", "DSSM", "DIN"])
    def test_models_put_the_items_of_a_users_group_first(self, block, name):
        options = zhao.MODELS[name].keywords | {"epochs": 100}
        scores = zhao.MODELS[name].func(block, **options)
        assert scores.shape == (20, 17)
        assert np.isneginf(scores[:, 16]).all()  # item 16 has no training pair
        group = np.arange(16) // 8 == (np.arange(20) // 10)[:, None]
        better = [
            (row[is_in_group][:, None] > row[~is_in_group]).mean()
            for row, is_in_group in zip(scores[:, :16], group, strict=True)
        ]
        assert np.mean(better) > 0.9

    def test_scores_are_the_same_in_every_run(self, block):
        options = {"epochs": 3, "embedding_size": 4, "mlp_hidden_size": [4]}
        for train in (recbole_models.dssm, recbole_models.din):
            np.testing.assert_array_equal(train(block, **options), train(block, **options))

    def test_models_are_trained_on_the_training_pairs_and_nothing_else(self, block):
        with recbole_models._recbole(block, "GCMC", {}) as (_, dataset, loader):
            seen = {
                (int(u), int(i))
                for batch in loader
                for u, i in zip(batch["user"], batch["item"], strict=True)
            }
            ids = [np.array(dataset.field2id_token[field]) for field in ("user", "item")]
        given = zip(block.user_ids[block.user], block.item_ids[block.item], strict=True)
        assert {(str(ids[0][u]), str(ids[1][i])) for u, i in seen} == {(str(u), str(i)) for u, i in given}

    def test_graph_of_gcmc_is_normalised_by_the_roots_of_both_degrees(self, block):
        model, dataset = recbole_models.fit_gcmc(block, epochs=0, gcn_output_dim=4, embedding_size=4)
        graph = model.Graph.to_dense().numpy()
        user, item = (dataset.field2token_id[field] for field in ("user", "item"))
        for u, i in zip(block.user[:20], block.item[:20], strict=True):
            expected = 1 / np.sqrt(6 * block.popularity[i])
            assert graph[user[f"u{u}"], dataset.user_num + item[f"i{i}"]] == pytest.approx(expected, abs=1e-6)
        np.testing.assert_array_equal(graph, graph.T)
        assert np.count_nonzero(graph) == 2 * len(block)

    def test_scores_of_recbole_itself_are_those_of_the_adapter(self, block):
        options = {"own_predict": True, "epochs": 2, "gcn_output_dim": 8, "embedding_size": 4}
        ours = recbole_models.gcmc(block, **options)
        split = Split(block.select(np.arange(len(block)) != 0), block.select(np.arange(len(block)) == 0))
        adapted = adapt(recbole_models.fit_gcmc(block, **options), split)(np.arange(20))
        np.testing.assert_allclose(ours, adapted, rtol=1e-5)

    def test_numpy_and_the_command_line_are_as_before_afterwards(self, block, monkeypatch):
        monkeypatch.setattr(sys, "argv", ["x", "--epochs=1"])
        names = set(dir(np))
        recbole_models.dssm(block, epochs=0)
        assert set(dir(np)) == names
        assert sys.argv == ["x", "--epochs=1"]

    def test_histories_hold_the_latest_items_in_order(self, block, monkeypatch):
        monkeypatch.setattr(recbole_models, "HISTORY", 4)
        with recbole_models._recbole(block, "DIN", {"embedding_size": 4}) as (_, dataset, _loader):
            past = recbole_models._histories(block, dataset)
        row = dataset.field2token_id["user"]["u3"]
        tokens = np.array(dataset.field2id_token["item"])[past["item_list"][row]]
        assert tokens.tolist() == [f"i{i}" for i in block.item[block.user == 3][-4:]]
        assert past["item_length"][row] == 4
