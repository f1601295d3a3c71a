"""Settings that are chosen on the validation part; blocks of logs that agree, and their traits."""

from __future__ import annotations

import itertools
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import adjusted_rand_score, silhouette_score

import ipseval
from ipseval.data import Interactions
from ipseval.data.splits import Split, repeated_splits
from ipseval.errors import InputError
from ipseval.metrics import metric as find_metric
from ipseval.ranking import rank_positives
from ipseval.studies.protocols import Protocol, ProtocolStudy, Tuned
from reproductions.traits import log_traits
from tests.inside.studies import (
    Choice,
    RowOrders,
    blocks,
    compute_agreement,
    compute_silhouette,
    format_setting,
)
from tests.studies.test_protocols import THREE, make_log, popular, study

CALLS: Counter[str] = Counter()
OPTIONS = {"metrics": ["recall@5"], "estimators": ["aoa"], "n_resamples": 20}


def mixed(train: Interactions, share: float) -> np.ndarray:
    """Return scores between popularity (share 1) and its opposite (share 0)."""
    CALLS[f"{share}"] += 1
    counts = train.popularity.astype(float)
    return np.broadcast_to((2 * share - 1) * counts, (train.n_users, train.n_items))


def make_tuned(**options: object) -> Tuned:
    return Tuned(mixed, {"share": [0.0, 0.5, 1.0]}, metric="recall@5", **options)


def run(path: Path, model: Tuned, *protocols: Protocol) -> ProtocolStudy:
    return study(path, *protocols, models={"tuned": model, "popular": popular}, **OPTIONS)


def test_the_setting_with_the_best_validation_metric_is_ranked_on_the_test_part(tmp_path: Path) -> None:
    result = run(tmp_path, make_tuned(), Protocol(k_core=None, n_repeats=2))
    (first, second) = repeated_splits(
        make_log(), 2, method=ipseval.split_random, rng=0, test_fraction=0.1, validation_fraction=0.1
    )
    rows = result.settings
    assert rows["repeat"].tolist() == [0, 1]
    where = ["log", "split", "k_core", "candidates", "model"]
    assert rows[where].drop_duplicates().to_numpy().tolist() == [
        ["shop", "RO_RS", "no filter", "full", "tuned"]
    ]
    for row, split in zip(rows.to_dict("records"), (first, second), strict=True):
        inner = Split(split.train, split.validation)
        values_of_settings = [
            find_metric("recall@5").user_values(rank_positives(mixed(split.train, share), inner))
            for share in (0.0, 0.5, 1.0)
        ]
        best = int(np.argmax([values.mean() for values in values_of_settings]))
        assert row["setting"] == f"share={(0.0, 0.5, 1.0)[best]}"
        expected = (
            values_of_settings[best].mean(),
            values_of_settings[best].std(ddof=1) / np.sqrt(values_of_settings[best].size),
        )
        np.testing.assert_allclose([row["value"], row["std_error"]], expected, rtol=1e-12)
        assert (row["n_tried"], row["n_settings"], row["metric"]) == (3, 3, "recall@5")
        seed = zlib.crc32(b"0 shop")
        assert row["chosen_share"] == Choice.from_values([0, 1, 2], values_of_settings, seed).chosen_share
    # Popularity is the best setting: the tuned one is ranked as the popular one is.
    estimates = result.frame.set_index("model")["estimate"]
    assert rows["setting"].tolist() == ["share=1.0"] * 2
    assert estimates["tuned"] == estimates["popular"]


def test_protocols_choose_with_their_own_candidates_among_settings_that_are_trained_once(
    tmp_path: Path,
) -> None:
    sampled = ipseval.SampledCandidates(3, distribution="popularity", rng=0)
    protocols = [Protocol(k_core=None), Protocol(k_core=None, candidates=sampled)]
    CALLS.clear()
    first = run(tmp_path, make_tuned(), *protocols)
    assert CALLS == {"0.0": 1, "0.5": 1, "1.0": 1}
    assert first.settings["candidates"].tolist() == ["full", "popularity-3"]
    assert first.settings["value"].nunique() == 2


def test_a_stopped_study_finds_the_settings_that_were_tried(tmp_path: Path) -> None:
    def fails(train: Interactions, share: float) -> np.ndarray:
        if share == 1.0 and (tmp_path / "stop").exists():
            raise RuntimeError("no power")
        return mixed(train, share)

    model = Tuned(fails, {"share": [0.0, 0.5, 1.0]}, metric="recall@5")
    (tmp_path / "stop").touch()
    CALLS.clear()  # a study is keyed by what its functions read, and `mixed` reads it
    with pytest.raises(RuntimeError, match="no power"):
        run(tmp_path, model, Protocol(k_core=None))
    (tmp_path / "stop").unlink()
    CALLS.clear()
    winner = run(tmp_path, model, Protocol(k_core=None)).settings["setting"][0].removeprefix("share=")
    assert Counter({"1.0"} | {winner}) == CALLS  # what was not tried, and the best one for the test part


def test_a_budget_draws_other_settings_in_each_repeat(tmp_path: Path) -> None:
    model = Tuned(mixed, {"share": np.linspace(0, 1, 9).tolist()}, metric="recall@5", budget=2)
    result = run(tmp_path, model, Protocol("temporal", k_core=None, n_repeats=2))
    assert result.settings["n_tried"].tolist() == [2] * 2
    assert result.settings["n_settings"].tolist() == [9] * 2
    assert result.settings["setting"].nunique() > 1
    spread = result.frame.set_index("model")["std_repeats"]
    assert spread["tuned"] > 0
    assert spread["popular"] == 0


def test_a_function_may_choose_by_itself_from_train_and_validation(tmp_path: Path) -> None:
    def choose(train: Interactions, validation: Interactions) -> np.ndarray:
        assert len(validation)
        return popular(train)

    result = run(tmp_path, Tuned(choose), Protocol(k_core=None))
    estimates = result.frame.set_index("model")["estimate"]
    assert estimates["tuned"] == estimates["popular"]
    assert result.settings.empty


def test_the_choice_never_reads_the_test_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The test pairs are replaced by others after splitting: the choice must not change."""
    log, protocol = make_log(), Protocol(k_core=None)
    chosen = run(tmp_path / "a", make_tuned(), protocol).settings
    (split,) = protocol.splits(log, 0)
    rng = np.random.default_rng(0)
    taken = np.concatenate([split.train.pair_key, split.validation.pair_key])
    free = np.setdiff1d(np.arange(log.n_users * log.n_items), taken)
    keys = rng.choice(free, len(split.test), replace=False)
    other_test = Interactions(keys // log.n_items, keys % log.n_items, log.user_ids, log.item_ids)
    changed = Split(split.train, other_test, validation=split.validation)
    monkeypatch.setattr(Protocol, "splits", lambda *_: iter([changed]))
    again = run(tmp_path / "b", make_tuned(), protocol).settings
    pd.testing.assert_frame_equal(chosen, again)


def test_a_choice_is_the_best_mean_over_users_that_every_setting_has() -> None:
    rng = np.random.default_rng(2)
    table = rng.random((3, 20))
    table[0, 3] = table[2, 7] = np.nan
    defined = np.delete(table, [3, 7], axis=1)
    best = int(defined.mean(axis=1).argmax())
    choice = Choice.from_values([4, 6, 9], list(table), seed=5)
    again = np.random.default_rng(5)
    wins = [defined[:, again.integers(0, 18, 18)].sum(axis=1).argmax() == best for _ in range(200)]
    assert choice.setting == [4, 6, 9][best]
    assert choice.value == pytest.approx(defined[best].mean(), rel=1e-12)
    assert choice.std_error == pytest.approx(defined[best].std(ddof=1) / np.sqrt(18), rel=1e-12)
    assert (choice.n_tried, choice.chosen_share) == (3, np.mean(wins))
    assert 0.5 < choice.chosen_share < 1
    # Of equals the first, in every draw; one user has no standard error.
    equal = Choice.from_values([7, 8], [np.array([0.5])] * 2, seed=0)
    assert (equal.setting, equal.value, equal.chosen_share, np.isnan(equal.std_error)) == (7, 0.5, 1.0, True)
    two = Choice.from_values([7], [np.array([0.25, 0.75])], seed=0)
    assert two.std_error == pytest.approx(0.25)
    with pytest.raises(InputError, match="undefined for every user"):
        Choice.from_values([7, 8], [np.array([0.5, np.nan]), np.array([np.nan, 0.5])], seed=0)


def test_settings_are_all_combinations_or_those_given_and_a_draw_repeats_itself() -> None:
    model = Tuned(mixed, {"share": [0.0, 1.0], "power": [1, 2]}, budget=3)
    pairs = [(0.0, 1), (0.0, 2), (1.0, 1), (1.0, 2)]
    assert model.settings == tuple({"share": share, "power": power} for share, power in pairs)
    assert repr(model) == "Tuned(mixed, 3 of 4 settings, ndcg@10)"
    listed = Tuned(mixed, [{"share": 0.5}, {"share": 0.25}], budget=2, metric="rr")
    assert repr(listed) == "Tuned(mixed, 2 of 2 settings, rr)"
    assert repr(Tuned(mixed, listed.settings)) == "Tuned(mixed, 2 of 2 settings, ndcg@10)"
    assert (listed.is_random, listed.draw(0).tolist(), model.is_random) == (False, [0, 1], True)
    assert listed.with_setting(1).keywords == {"share": 0.25}
    words = [zlib.crc32(str(part).encode()) for part in (3, "log")]
    drawn = np.random.default_rng(words).choice(4, 3, replace=False)
    assert model.draw(3, "log").tolist() == sorted(drawn.tolist())
    assert len({tuple(model.draw(seed, "log")) for seed in range(9)}) > 1
    assert format_setting({"n_factors": 8, "name": "a"}) == "n_factors=8, name='a'"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Tuned(mixed, {"share": [1]}, budget=0), "budget must be an integer >= 1"),
        (lambda: Tuned(mixed, {}), "grid must contain settings"),
        (lambda: Tuned(mixed, {"share": "abc"}).settings, "must be a list of values"),
        (lambda: Tuned(mixed, [1, 2]).settings, "grid must contain settings"),
        (lambda: Tuned(mixed, {"share": [1]}, budget=2), "budget must be at most 1"),
        (lambda: Tuned(mixed, {"share": [1]}, metric="recal@5"), "Did you mean 'recall'"),
        (lambda: Tuned("mixed"), "fit must be a function"),
    ],
)
def test_bad_grids_say_what_was_expected(make, text: str) -> None:
    with pytest.raises(InputError, match=text):
        make()


def test_a_protocol_without_validation_part_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is none in RO_RS, no filter, full"):
        run(tmp_path, make_tuned(), Protocol(k_core=None, validation_fraction=0.0))


def test_similar_levels_are_neighbours_in_blocks():
    # Two blocks, {0, 2} and {1, 3}, within .9 and between .1.
    matrix = np.full((4, 4), 0.1)
    matrix[np.ix_([0, 2], [0, 2])] = matrix[np.ix_([1, 3], [1, 3])] = 0.9
    np.fill_diagonal(matrix, np.nan)  # it is not read
    similar = blocks(matrix)
    assert similar.label[similar.order].tolist() == [0, 0, 1, 1]
    assert similar.label[0] == similar.label[2] != similar.label[1] == similar.label[3]
    assert {frozenset(similar.order[:2].tolist()), frozenset(similar.order[2:].tolist())} == {
        frozenset({0, 2}),
        frozenset({1, 3}),
    }
    assert similar.ends == [2]
    # Distances .9 − agreement: a = 0 inside, b = .8 to the other block: silhouette 1.
    assert similar.silhouette == pytest.approx(1.0)
    assert repr(similar) == "Blocks(sizes 2, 2; silhouette 1.00)"


@pytest.mark.parametrize("n", [1, 2, 3])
def test_few_logs_or_equally_similar_logs_are_one_block(n: int):
    similar = blocks(np.ones((n, n)))
    assert (sorted(similar.order.tolist()), similar.label.tolist()) == (list(range(n)), [0] * n)
    assert np.isnan(similar.silhouette)
    assert similar.ends == []


def test_smallest_of_equally_good_numbers_of_blocks_is_chosen():
    # Distances 0 of 2 and 3, 3 and 5 to 1, 8 of all to 0. Of 0, 1 and {2, 3} the silhouette is
    # (0 + 0 + 1 + 1)/4. Of 0 and {1, 2, 3} it is (0 + 4/8 + 6.5/8 + 5.5/8)/4, the same.
    apart = [[0, 8, 8, 8], [8, 0, 3, 5], [8, 3, 0, 0], [8, 5, 0, 0]]
    similar = blocks(-np.array(apart, dtype=float))
    assert sorted(np.bincount(similar.label).tolist()) == [1, 3]
    assert similar.silhouette == 0.5


def test_three_blocks_are_found_where_two_are_worse():
    # Distances 0 within {0, 1} and {2, 3}, 1 to any other: 1, 1, 1, 1 and 0 for 4, which is alone.
    matrix = np.zeros((5, 5))
    matrix[:2, :2] = matrix[2:4, 2:4] = 1.0
    similar = blocks(matrix)
    assert sorted(np.bincount(similar.label).tolist()) == [1, 2, 2]
    assert similar.silhouette == 4 / 5
    assert len(similar.ends) == 2


def test_the_silhouette_is_that_of_scikit_learn():
    rng = np.random.default_rng(1)
    points = rng.random((12, 2))
    distance = np.linalg.norm(points[:, None] - points[None], axis=2)
    for label in (rng.integers(0, 3, 12), np.array([0, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 3])):
        expected = silhouette_score(distance, label, metric="precomputed")
        assert compute_silhouette(distance, label) == pytest.approx(expected, rel=1e-12)
    # Two blocks in one place: no distance at all.
    assert compute_silhouette(np.zeros((4, 4)), np.array([0, 0, 1, 1])) == 0.0


def test_matrix_with_undefined_entries_has_no_blocks():
    with pytest.raises(InputError, match="2 entries of the agreement are undefined"):
        blocks(np.array([[1, np.nan], [np.nan, 1]]))


def orders_in_blocks(rng: np.random.Generator, n_models: int = 8, noise: float = 0.6) -> tuple:
    """Return the block of each of 20 logs, and SRC between their orders of recommenders."""
    truth = np.repeat(np.arange(4), 5)
    centres = np.stack([rng.permutation(n_models) for _ in range(4)]).astype(float)
    values = centres[truth] + noise * rng.standard_normal((20, n_models))
    orders = [RowOrders.from_values(row) for row in values]
    src = np.eye(20)
    for a, b in itertools.combinations(range(20), 2):
        src[a, b] = src[b, a] = compute_agreement(orders[a], orders[b], [1])["src"][0]
    return truth, src


def test_planted_blocks_are_recovered():
    rng = np.random.default_rng(7)
    scores = []
    for _ in range(3):
        truth, src = orders_in_blocks(rng)
        scores.append(adjusted_rand_score(truth, blocks(src).label))
    assert np.mean(scores) >= 0.9


def test_traits_follow_the_worked_example():
    # Items 0, 1, 2 have 2, 1, 1 interactions: Gini 1/6. Two users; profiles of 2 and 2.
    frame = pd.DataFrame({"user": [0, 0, 1, 1, 1], "item": [0, 1, 0, 2, 2], "time": [1, 2, 3, 4, 5]})
    log = Interactions.from_frame(frame, timestamp="time", duplicates="drop")
    row = log_traits({"a": log}).loc["a"]
    assert row[["n_users", "n_items", "n_pairs", "median_profile"]].tolist() == [2, 3, 4, 2]
    assert row["density"] == pytest.approx(4 / 6)
    assert row["gini"] == pytest.approx(1 / 6)
    assert row["repeat_rate"] == pytest.approx(1 / 5)
    # Before the median time: items 0, 1; from it on: 0, 2. Ranks (2.5, 2.5, 1) and (2.5, 1, 2.5):
    # centred products .25 − .5 − .5 = −.75 over .5 + ... = 1.5: Spearman −.5, drift 1.5.
    assert row["drift"] == pytest.approx(1.5)
    without = log_traits({"b": Interactions.from_frame(frame, duplicates="drop")})
    assert np.isnan(without.loc["b", "drift"])


def test_kept_repeats_count_like_dropped_repeats():
    frame = pd.DataFrame({"user": [0, 0, 1], "item": [0, 0, 1]})
    rates = [
        log_traits({"a": Interactions.from_frame(frame, duplicates=how)}).loc["a", "repeat_rate"]
        for how in ("keep", "drop")
    ]
    assert rates == [1 / 3, 1 / 3]


def test_a_study_names_winners(tmp_path: Path):
    protocols = [Protocol(k_core=None, n_repeats=2), Protocol(holdout="leave-one-out", k_core=None)]
    result = study(tmp_path, *protocols, models=THREE, metrics=["auc"], estimators=["aoa"])
    winners = result.winners(metric="auc")
    assert len(winners) == 2
    means = result.frame.query("split == 'RO_RS'")
    first = winners.query("split == 'RO_RS'").iloc[0]
    ordered = means.set_index("model")["estimate"].sort_values()
    assert first["winner"] == ordered.index[-1]
    assert first["margin"] == pytest.approx(ordered.iloc[-1] - ordered.iloc[-2])
    assert first["n_repeats"] == 2
