"""Parts of the estimators, worked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.estimators import LinearForm, Sample, UserSums, claim
from ipseval.ranking import RankedPositives
from tests.inside.estimators import Moments


def ranked() -> RankedPositives:
    """User 0 has ranks 1 and 3, user 1 rank 2, user 2 nothing; three items and three users."""
    above = np.array([0, 2, 1])
    return RankedPositives(
        np.array([0, 0, 1]), np.array([0, 1, 2]), above, np.zeros(3, dtype=int), np.full(3, 3), np.arange(3),
        np.arange(3), candidates_by_user=np.full(3, 3),
    )  # fmt: skip


def found(**options) -> pd.Series:
    settings = {"metrics": ["recall@1"], "estimators": ["ips"], "on_low_ess": "ignore"} | options
    known = ipseval.KnownPropensity(item=[0.5, 0.25, 1.0]).fit(ids())
    return ipseval.evaluate_ranks({"m": ranked()}, propensity=known, **settings).frame.iloc[0]


def ids() -> ipseval.Interactions:
    nothing = np.zeros(0, dtype=int)
    return ipseval.Interactions(nothing, nothing, np.arange(3), np.arange(3))


@pytest.mark.filterwarnings("ignore")
def test_users_without_relevant_items_leave_ips_and_every_item_may_be_relevant():
    # Only rank 1 counts: 1/.5 over s_0 = 3 items, all there are; user 1 has 0; user 2 has none and leaves.
    assert found(n_relevant=[3, 1, 0])["estimate"] == pytest.approx((2 / 3 + 0) / 2)
    assert found(n_relevant=[3, 1, 2])["estimate"] == pytest.approx((2 / 3 + 0 + 0) / 3)
    with pytest.raises(InputError, match="above the number of items, 3, for 1 users"):
        found(n_relevant=[4, 1, 2])


def test_own_weights_enter_global_forms_only():
    LinearForm(ranked(), False, True, own=np.ones(3))
    with pytest.raises(InputError, match="global forms only"):
        LinearForm(ranked(), True, True, own=np.ones(3))


def test_coefficients_of_a_global_mean_sum_to_one_and_of_a_global_sum_to_the_mean_number_of_positives():
    weights = np.array([2.0, 4.0, 1.0])
    assert LinearForm(ranked(), False, True).coefficients(weights) == pytest.approx(weights / 7)
    volume = LinearForm(ranked(), False, True, is_sum=True).coefficients(weights)
    assert volume == pytest.approx(weights / 7 * 1.5)  # three positives of two users
    twice = LinearForm(ranked(), False, True).coefficients(weights, np.array([2.0, 1.0]))
    assert twice == pytest.approx(np.array([4, 8, 1]) / 13)


def test_equal_propensities_give_plain_values_also_where_weighted_ones_are_known():
    sample, recall = Sample(ranked(), np.array([0.5, 0.25, 1.0])), ipseval.metric("recall@1")
    assert sample.user_values(recall, weighted=True).tolist() == pytest.approx([1 / 3, 0])
    assert sample.with_equal_propensities().user_values(recall, weighted=True).tolist() == [0.5, 0]


def test_a_sample_says_whether_its_propensities_are_probabilities():
    assert "probabilities" in repr(Sample(ranked(), np.ones(3), is_probability=True))
    assert "probabilities" not in repr(Sample(ranked(), np.ones(3)))


def test_only_the_doubly_robust_estimate_of_a_sum_is_exactly_unbiased():
    level = [claim(ipseval.metric(one), "dr", is_probability=True).level for one in ("dcg", "recall@5")]
    assert level == ["exactly unbiased", "consistent"]


def test_estimates_that_no_user_moves_have_a_covariance_of_zero():
    users = np.arange(4)
    constant = UserSums.of(users, np.full(4, 0.3), np.ones(4))
    moving = UserSums.of(users, np.array([0.0, 1.0, 1.0, 0.0]), np.ones(4))
    found = Moments.of([constant, moving]).covariance()
    np.testing.assert_array_equal(found[0], [0.0, 0.0])
    assert found[1, 1] == pytest.approx(1 / 3 / 4)  # the variance over the number of users
