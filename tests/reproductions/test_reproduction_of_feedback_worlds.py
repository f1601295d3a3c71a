"""The second simulator: its truth by counting, its clocks, and its command, on tiny worlds."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval import Interactions, Split
from reproductions import correction_truth
from reproductions.feedback_worlds import (
    KINDS,
    POSITIVE,
    FeedbackWorld,
    Sizes,
    Tastes,
    arrivals,
    build,
    rounds,
)
from tests.conftest import ROOT

TINY = Sizes((150,), (40,), (0.2,), (5, 20), (10.0, 100.0), (2, 4))


def test_the_truth_counts_every_positive_pair_outside_training():
    liked = np.array([[1, 1, 0, 1, 0], [0, 0, 1, 1, 1], [0, 0, 0, 0, 0]], dtype=bool)
    ids = np.arange(3), np.arange(5)
    train, test = Interactions([0], [1], *ids), Interactions([1], [2], *ids)
    scores = np.array([[5.0, 9, 4, 3, 2], [1, 2, 3, 4, 5], [1, 2, 3, 4, 5]])
    world = FeedbackWorld("made", Split(train, test), {"one": scores}, test, liked)
    # User 0 ranks the open items 0 2 3 4: positives at places 1 and 3; user 1: items 2, 3, 4 at 3, 2, 1.
    assert world.truth(["recall@2"]) == pytest.approx([3 / 5])
    assert world.truth(["recall@1"]) == pytest.approx([2 / 5])
    assert world.truth(["atop"]) == pytest.approx([np.mean([1, 1 / 3, 1 / 2, 3 / 4, 1])])
    gain = [1 / np.log2(1 + place) for place in (1, 3, 1, 2, 3)]
    assert world.truth(["mean_dcg@10"]) == pytest.approx([np.mean(gain)])


@pytest.mark.parametrize("kind", KINDS)
def test_the_log_holds_pairs_that_were_met_and_positives_of_two_periods(kind):
    world = build(kind, TINY, np.random.default_rng(1))
    train, test, met = (
        set(part.pair_key.tolist()) for part in (world.split.train, world.split.test, world.interactions)
    )
    liked = set(np.flatnonzero(world.liked).tolist())
    assert train
    assert test
    assert not train & test
    assert train | test == met & liked
    assert met - liked
    assert set(world.left().pair_key.tolist()) == liked - train


def test_random_exposure_shows_each_drawn_user_so_many_items():
    world = build("uniform", TINY, np.random.default_rng(0))
    shown = world.random_exposure(30, 20, np.random.default_rng(3))
    assert np.array_equal(np.unique(np.bincount(shown.user)), [0, 20])
    assert np.array_equal(shown.positive, world.liked[shown.user, shown.item])
    # 600 of 6,000 pairs, of which a fifth is positive: five standard deviations wide.
    assert shown.positive.mean() == pytest.approx(world.liked.mean(), abs=5 * np.sqrt(0.16 / 600))


def test_slates_follow_what_the_recommender_learned_and_random_slots_do_not():
    rng = np.random.default_rng(5)
    tastes = Tastes.draw(400, 100, 0.1, rng)

    def concentration(explored):
        found = rounds(tastes, explored, np.random.default_rng(0))
        assert not (found.early & ~found.met).any()
        assert not (found.met_in_random & ~found.met).any()
        assert found.met_in_random.any() == found.seen_in_random.any() == (explored > 0)
        counts = np.sort(found.met.sum(axis=0))[::-1]
        return counts[:20].sum() / counts.sum()

    assert concentration(1.0) < 0.3
    assert concentration(0.0) > 0.4


def test_random_slots_that_are_taken_out_of_the_log_are_random_exposure_outside_training():
    kept = build("explore", TINY, np.random.default_rng(1), explored=0.3)
    removed = build("explore", TINY, np.random.default_rng(1), explored=0.3, removes_random=True)
    assert len(removed.split.train) < len(kept.split.train)
    for world in (kept, removed):
        sizes = []
        for test_only in (True, False):
            exposure = world.expose_random_slots(0.3, test_only=test_only)
            keys = exposure.user * world.liked.shape[1] + exposure.item
            assert not np.isin(keys, world.split.train.pair_key).any()
            assert np.array_equal(exposure.positive, world.liked[exposure.user, exposure.item])
            assert (exposure.weight > 1).all()
            sizes.append(keys.size)
        assert sizes[0] < sizes[1]


def test_nobody_meets_an_item_before_it_arrives_and_periods_do_not_overlap():
    tastes = Tastes.draw(200, 400, 0.1, np.random.default_rng(2))
    met, early = arrivals(tastes, np.random.default_rng(2))
    assert (early <= met).all()
    late_only = met.any(axis=0) & ~early.any(axis=0)
    assert late_only.any()  # items that came after the split


def test_four_and_five_of_five_are_positive_and_as_many_as_asked():
    tastes = Tastes.draw(100, 60, 0.15, np.random.default_rng(0))
    assert set(np.unique(tastes.rating)) == {1, 2, 3, 4, 5}
    assert (tastes.rating >= POSITIVE).mean() == pytest.approx(0.15, abs=0.01)


@pytest.mark.slow
def test_the_command_keeps_scores_and_counts_calls(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(correction_truth.feedback_worlds, "HELD_OUT", TINY)
    monkeypatch.setattr(correction_truth, "SIZES", {"second": (0, 40)})
    options = ["--cache", str(tmp_path), "--sources", "second", "--worlds", "1", "--draws", "1"]
    correction_truth.main(options)
    first = capsys.readouterr().out
    assert "1 worlds, 1 draws" in first
    assert "| loop |" in first
    monkeypatch.setattr(correction_truth, "prepared", None)  # nothing is made again
    correction_truth.main(options)
    assert capsys.readouterr().out == first


def test_a_call_is_wrong_where_the_truth_is_the_other_way_round():
    class Found:
        class posterior:  # noqa: N801 - stands for the attribute of a correction
            total_mean = np.zeros(3)

            @staticmethod
            def probability_positive(contrast):
                return np.array([0.99, 0.6, 0.01])

    right = np.array([1.0, 2.0, 3.0])  # the pairs 0-1, 0-2, 1-2 all differ, and the second is better
    made = correction_truth.calls(Found(), slice(0, 3), right)
    assert (made["called"], made["wrong"]) == (2, 1)
    assert (made["n4"], made["right4"], made["n1"], made["right1"]) == (2, 1, 1, 0)


def test_the_order_is_compared_with_that_of_the_plain_average_world_by_world():
    tau = {"aoa-pooled": (0.5, 0.3), "corrected": (0.6, 0.6)}
    rows = [
        {"size": 25, "metric": "atop", "number": number, "draw": draw, "estimator": name, "tau": value}
        for name, values in tau.items()
        for number, value in enumerate(values)
        for draw in (0, 1)
    ]
    made = correction_truth.order(pd.DataFrame(rows))
    # Differences .1 and .3 of two worlds: mean .2, standard deviation .1 √2, standard error .1.
    assert made.splitlines()[2:] == ["| 25 | corrected | +0.200 ± 0.100 |"]


def test_the_error_of_a_ratio_of_means_counts_what_both_have_in_common() -> None:
    plain = pd.Series([1.0, 2.0, 3.0])
    assert correction_truth.ratio_error(0.5 * plain, plain) == 0
    # Ratio 1; deviations 1, -1 and 0 with standard deviation 1, of a mean of 2.
    error = correction_truth.ratio_error(pd.Series([2.0, 1.0, 3.0]), plain)
    assert error == pytest.approx(1 / np.sqrt(3) / 2)


def test_the_pages_state_the_numbers_of_the_table_on_random_slots():
    docs = ROOT / "docs"
    table = pd.read_csv(docs / "tables" / "correction-accuracy" / "exploring-recipes.csv")
    table = table[table["random slots, %"].isin([10, 20])]
    accuracy = (docs / "correction-accuracy.md").read_text("utf-8")
    for row in table[table["estimator"] == "corrected"].to_dict("records"):
        passed = "of all periods" if row["passed slots"] == "all rounds" else "of the test period"
        cells = (
            f"{row['random slots, %']:g}",
            passed,
            row["also in the log"],
            row["not repeated"],
            f"{row['warned, %']:.0f}",
            f"{row['error']:.3f}",
            f"{row['coverage, %']}",
        )
        assert f"| {' | '.join(cells)} |" in accuracy
    guide = (docs / "random-positions.md").read_text("utf-8")
    coverage = table[table["random slots, %"] == 10].set_index(
        ["passed slots", "also in the log", "not repeated", "estimator"]
    )["coverage, %"]
    for ending, key in {
        "of all periods | no |": ("all rounds", "no"),
        "of the test period | no |": ("test period", "no"),
        "of the test period | yes (this page) |": ("test period", "yes"),
    }.items():
        assert f"| {ending} {coverage[(*key, 'what was seen', 'corrected')]}% |" in guide
    recipe = ("test period", "yes")
    assert f"{coverage[(*recipe, 'what was seen', 'random-sample')]}% of cases with 10%" in guide
    strict = [coverage[(*recipe, "what was shown", name)] for name in ("corrected", "random-sample")]
    assert f"in only {strict[0]}% of cases, and those of *random sample* in {strict[1]}%" in guide
