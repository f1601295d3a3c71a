"""Curves of metrics against the rank, among all and among sampled candidates."""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.metrics.sampled import rank_curves


def test_a_curve_holds_the_metric_of_every_rank():
    np.testing.assert_allclose(ipseval.metric("ndcg@2").curve(4), [1, 1 / np.log2(3), 0, 0])
    np.testing.assert_allclose(ipseval.metric("auc").curve(5), [1, 0.75, 0.5, 0.25, 0])
    np.testing.assert_allclose(ipseval.metric("recall@3").curve(4), [1, 1, 1, 0])
    with pytest.raises(InputError, match="n_candidates must be an integer >= 2"):
        ipseval.metric("auc").curve(1)


def test_curves_of_sampled_candidates_follow_the_binomial_law():
    # Rank 3 of 5, m = 2: r̃ = 1, 2, 3 with chances 1/4, 1/2, 1/4; AP = 1/4 + 1/4 + 1/12.
    curves = rank_curves(["ap", "auc"], 5, [2])
    third_rank = curves[(curves["rank"] == 3) & (curves["n_sampled"] == 2)].set_index("metric")["value"]
    assert third_rank["ap"] == pytest.approx(7 / 12)
    assert third_rank["auc"] == pytest.approx(0.5)  # as exact
    exact = curves[(curves["n_sampled"] == 0) & (curves["metric"] == "ap")]["value"]
    np.testing.assert_allclose(exact, 1 / np.arange(1, 6))


def test_a_curve_has_two_thousand_ranks_at_most_from_the_first_to_the_last():
    for n, size in ((2000, 2000), (2001, None)):
        curves = rank_curves(["recall@1"], n, [1])
        rank = curves.loc[curves["n_sampled"] == 0, "rank"]
        assert (rank.is_unique, rank.min(), rank.max()) == (True, 1, n)
        assert rank.size == size or (size is None and rank.size < 2000)
    with pytest.raises(InputError, match="metrics is empty; give at least one"):
        rank_curves([], 5)
    with pytest.raises(InputError, match="n_candidates must be an integer >= 2"):
        rank_curves("auc", 1)
    assert rank_curves("auc", 2, [1])["value"].tolist() == [1, 0, 1, 0]
