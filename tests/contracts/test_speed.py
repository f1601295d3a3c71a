"""Constants of speed change no number: what the mutation run leaves out, set to other values all at once."""

from __future__ import annotations

from importlib import import_module

import numpy as np
import pytest

import ipseval
from ipseval.ranking import top_items
from tests.contracts import numbers
from tests.contracts.number_cases import CASES
from tests.mutation.layers import SPEED
from tests.worlds import random_world

KEPT = numbers.Kept.parse(numbers.FILE.read_text(encoding="utf-8")).numbers


# The other cases do what these do, or read none of the constants.
TOGETHER = (
    *("metrics", "weights and ties", "intervals, drawn", "sensitivity", "segments", "beyond accuracy"),
    *("ranks", "ranks, drawn candidates", "ranks of baselines", "slates", "rewards, drawn folds"),
    *("correction strength", "sampled corrections"),
)
VALUES = pytest.mark.parametrize("value", [2, 50])


def set_all(monkeypatch, value: int) -> None:
    """Set every constant of `SPEED` to another value."""
    for path, names in SPEED.items():
        module = import_module(path.removesuffix(".py").replace("/", "."))
        for name in names:
            is_pair = isinstance(getattr(module, name), tuple)
            monkeypatch.setattr(module, name, (value, value) if is_pair else value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", TOGETHER)
def test_numbers_do_not_depend_on_how_much_is_done_at_once(case, monkeypatch):
    set_all(monkeypatch, 2)  # in these worlds 50 is nearly everything at once
    assert not numbers.changed({case: KEPT[case]}, {case: dict(CASES[case]())})


def ranks(scores, user, item, split):
    """Return the ranks and the best items of stored scores and of factors."""
    compute = ipseval.ComputeOptions(engine="numpy", block_size=11)
    seconds = []
    for model in (scores, (user, item)):
        ranked = ipseval.rank_positives(model, split, compute=compute, top_k=4)
        best = top_items(model, split, k=3, compute=compute)
        seconds += [ranked.n_above, ranked.n_tied, ranked.top.item, best.item, best.n_above, best.n_tied]
    return seconds


@VALUES
def test_ranks_of_near_ties_and_copies_do_not_depend_on_how_much_is_done_at_once(value, monkeypatch):
    rng = np.random.default_rng(0)
    split = random_world(0, n_users=24, n_items=150, density=0.2).split
    user, item = rng.normal(size=(split.n_users, 5)), rng.normal(size=(split.n_items, 5))
    item[::3] = item[0] * (1 + 1e-12 * rng.integers(3, size=(item[::3].shape[0], 1)))  # near ties
    item[1::6] = item[1]  # copies
    scores = np.round(user @ item.T, 1)
    expected = ranks(scores, user, item, split)
    set_all(monkeypatch, value)
    for actual_array, expected_array in zip(ranks(scores, user, item, split), expected, strict=True):
        np.testing.assert_array_equal(actual_array, expected_array)
