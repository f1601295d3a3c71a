"""Cuts of each user's interactions against plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.data import Interactions
from ipseval.data.splits import split_temporal
from tests.inside.data import Leakage

pytestmark = pytest.mark.filterwarnings("ignore:.*later training rows:ipseval.errors.DataWarning")


@pytest.mark.parametrize("step", [1, 2**40, 10**9, 0.25, 1e-300])
def test_splits_by_time_cut_as_a_stable_sort_of_each_user_does(step: float) -> None:
    # Steps beyond 2^40 leave no room for user and time in 64 bits; few distinct times make ties at most cuts.
    rng = np.random.default_rng(7)
    user = rng.integers(0, 30, 400)
    n_tied = 0
    for n_times in (3, 40, 400):
        time = (rng.integers(0, n_times, user.size) - n_times // 2) * step
        log = Interactions(user, np.arange(user.size), np.arange(31), np.arange(user.size), timestamp=time)
        found = split_temporal(log, test_fraction=0.3, validation_fraction=0.2)
        expected: dict[str, list[int]] = {"train": [], "validation": [], "test": []}
        tied = set()
        for one in range(31):
            rows = sorted(np.flatnonzero(user == one), key=lambda row: (time[row], row), reverse=True)
            first, second = int(len(rows) * 0.3 + 0.5), int(len(rows) * 0.2 + 0.5)
            parts = (rows[first + second :], rows[first : first + second], rows[:first])
            for name, part in zip(expected, parts, strict=True):
                expected[name] += [int(row) for row in part]
            for cut in {first, first + second} - {0, len(rows)}:
                if time[rows[cut - 1]] == time[rows[cut]]:
                    tied.add(one)
        for name, rows in expected.items():
            assert getattr(found, name).item.tolist() == sorted(rows)
        assert found.n_tied_users == len(tied)
        n_tied += len(tied)
    assert n_tied > 20


def test_leakage_counts_later_training_rows_as_a_loop_does() -> None:
    rng = np.random.default_rng(0)
    for n_test in (5, 6):
        time = rng.integers(0, 20, 30)
        log = Interactions(np.zeros(30, int), np.arange(30), [0], np.arange(30), timestamp=time)
        train, test = log.select(np.arange(n_test, 30)), log.select(np.arange(n_test))
        later = [(train.timestamp > one).sum() for one in test.timestamp]
        found = Leakage.of(train, test)
        assert found == Leakage(
            n_test, 30 - n_test, sum(one > 0 for one in later), np.median(later) / (30 - n_test)
        )
