"""The trial of a deviation along popularity: its prior, its direction and its command."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval import Interactions, Split
from ipseval.correction import CorrectionPrior
from reproductions import correction_family, feedback_worlds, popularity_deviation
from reproductions.feedback_worlds import FeedbackWorld, Sizes
from reproductions.popularity_deviation import (
    PopularityPrior,
    list_numbers,
    make_prior,
    measure_list_popularity,
)

TINY = Sizes((150,), (40,), (0.2,), (5, 20), (10.0, 100.0), (2, 4))


def test_the_prior_adds_one_direction_to_each_metric_that_is_cut_at_a_rank():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(4, 4))
    arguments = {
        "correction": np.array([0.2, 0.1, 0.1, 0.2]),
        "spread": root @ root.T,
        "above": np.array([0.4, 0.3, 0.3, 0.4]),
        "metric": np.array([0, 0, 1, 1]),
        "whole": np.array([True, True, False, False]),
    }
    direction = (0.5, -0.5, 0.3, -0.3)
    difference = PopularityPrior(direction=direction).deviations(**arguments)
    difference -= CorrectionPrior().deviations(**arguments)
    expected = np.zeros((4, 4))
    expected[2:, 2:] = np.outer([0.3, -0.3], [0.3, -0.3])
    assert difference == pytest.approx(expected, abs=1e-12)


def test_popularity_of_lists_is_the_mean_log_count_of_their_items():
    ids = np.arange(3), np.arange(30)
    # Item 0 has three training interactions, item 1 two, and the rest none.
    train = Interactions([0, 1, 2, 0, 1], [0, 0, 0, 1, 1], *ids)
    test = Interactions([2], [1], *ids)
    popular = np.tile(-np.arange(30.0), (3, 1))
    rare = -popular
    liked = np.zeros((3, 30), dtype=bool)
    world = FeedbackWorld("made", Split(train, test), {"popular": popular, "rare": rare}, test, liked)
    # Only user 2 has an item with interactions outside training: item 1, in a list of ten of three lists.
    assert measure_list_popularity(world) == pytest.approx([np.log(3) / 30, 0])


def test_a_multiple_of_zero_is_the_prior_as_it_is():
    world = feedback_worlds.build("slate", TINY, np.random.default_rng(0))
    path = world.simulated(np.random.default_rng(0)).path
    popularity = np.arange(len(path.models), dtype=float)
    assert not any(make_prior(path, popularity, 0.0).direction)
    direction = np.array(make_prior(path, popularity, 0.2).direction)
    assert direction[:10] == pytest.approx(0.2 * path.value[0, :10] * (popularity - 4.5))


def test_further_logs_are_split_by_time():
    numbers = list_numbers("second", 9, 2)
    assert numbers == [*range(9), 14, 23]  # of nine kinds, arrival is the sixth
    assert feedback_worlds.KINDS[14 % 9] == "arrival"
    assert [correction_family.KINDS[number % 7] for number in list_numbers("first", 7, 1)[7:]] == ["time"]
    assert list_numbers("cascade", 9, 2) == [0, 1, 2]


@pytest.mark.slow
def test_the_command_keeps_its_rows(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(feedback_worlds, "HELD_OUT", TINY)
    monkeypatch.setattr(popularity_deviation.winners, "SOURCES", ("second",))
    monkeypatch.setattr(popularity_deviation.winners, "SIZES", (40,))
    options = ["--cache", str(tmp_path), "--worlds", "2", "--late", "0", "--draws", "1"]
    popularity_deviation.main(options)
    first = capsys.readouterr().out
    assert "| simulator: second | 2 | 0.15 |" in first
    monkeypatch.setattr(popularity_deviation, "build_world", None)  # nothing is made again
    popularity_deviation.main(options)
    assert capsys.readouterr().out == first
