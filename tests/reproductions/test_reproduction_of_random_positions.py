"""Logs with random positions: the probabilities of items on a page, and the tables."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from reproductions import deterministic_policy as dp
from reproductions import random_positions


def enumerate_page_probabilities(n_candidates: int, n_positions: int, share: float) -> np.ndarray:
    """Return the probability of each candidate to be on the page, over all sets of drawn items."""
    probabilities = np.zeros(n_candidates)  # the first n_positions candidates are the ranked ones
    for n_random in range(n_positions + 1):
        drawn_sets = list(combinations(range(n_candidates), n_random))
        weight = binom.pmf(n_random, n_positions, share) / len(drawn_sets)
        for drawn_items in drawn_sets:
            remaining_items = [item for item in range(n_positions) if item not in drawn_items]
            page = [*drawn_items, *remaining_items[: n_positions - n_random]]
            probabilities[page] += weight
    return probabilities


@pytest.mark.parametrize(("n_candidates", "n_positions", "share"), [(6, 3, 0.2), (5, 4, 0.5), (7, 2, 0.03)])
def test_page_probabilities_equal_those_over_all_pages(n_candidates, n_positions, share):
    computed = random_positions.compute_page_probabilities(n_candidates, n_positions, share)
    expected = enumerate_page_probabilities(n_candidates, n_positions, share)
    np.testing.assert_allclose(computed[:-1], expected[:n_positions], atol=1e-12)
    np.testing.assert_allclose(computed[-1], expected[n_positions:], atol=1e-12)
    assert expected.sum() == pytest.approx(n_positions)


def test_a_page_has_its_items_once_in_the_order_of_the_policy():
    rng = np.random.default_rng(0)
    ranked_items = np.array([7, 3, 11, 2])
    for _ in range(200):
        items, is_random, probabilities = random_positions.draw_page(ranked_items, np.arange(12), 0.4, rng)
        assert np.unique(items).size == 4
        expected = [item for item in ranked_items if item not in items[is_random]]
        assert items[~is_random].tolist() == expected[: (~is_random).sum()]
        assert ((probabilities > 0) & (probabilities <= 1)).all()


def test_tables_have_errors_relative_to_the_truth_and_count_equal_firsts():
    rows = pd.DataFrame(
        {
            "kind": "hidden",
            "share": 0.03,
            "method": "AOA",
            "error": [0.1, 0.2],
            "truth": [0.5, 0.25],
            "coverage": [0.0, 0.5],
            "tau": [1.0, 0.5],
        }
    )
    assert "| hidden | 3 | AOA | 40 | 25 | 0.75 |" in random_positions.build_method_table(rows)
    orders = pd.DataFrame(
        {
            "kind": "hidden",
            "same_first": [True, False],
            "agreement": [1.0, 0.8],
            "tau_users": [0.5, 0.7],
            "tau_pooled": [0.9, 0.7],
        }
    )
    assert "| hidden | 1 of 2 | 0.90 | 0.60 | 0.80 |" in random_positions.build_aoa_table(orders)


@pytest.mark.slow
def test_the_methods_are_compared_on_one_log(monkeypatch):
    monkeypatch.setattr(dp, "N_USERS", 120)
    rows = random_positions.compare_methods(("hidden", 0.1, 0))
    assert rows["method"].tolist() == list(random_positions.METHODS.values())
    assert rows[["error", "coverage", "tau"]].notna().all(axis=None)
