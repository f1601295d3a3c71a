"""γ by training counts: right by the expected counts, and moved by chance in two directions."""

from __future__ import annotations

import pytest

from reproductions import gamma_small_counts


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_expected_counts_give_the_true_gamma_and_chance_moves_it_in_two_directions():
    few_unseen = {**gamma_small_counts.DENSE, "n_users": 1000, "gamma": 0.3}
    many_unseen = {**gamma_small_counts.SPARSE, "n_users": 500, "gamma": 0.3}
    too_large = gamma_small_counts.fit_world(few_unseen, 0.5, seed=0)
    too_small = gamma_small_counts.fit_world(many_unseen, 1.0, seed=0)
    for fits in (too_large, too_small):
        assert fits["γ by the expected counts"] == pytest.approx(0.3, abs=1e-6)
    assert too_large["share of items without training interactions"] < 0.1
    assert too_large["fitted γ"] > 0.32
    assert too_small["share of items without training interactions"] > 0.5
    assert too_small["fitted γ"] < 0.28
