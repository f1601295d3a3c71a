"""Error of the level and agreement of the order, and their resamples."""

import numpy as np
import pytest

from ipseval.estimators import UserSums
from ipseval.studies.agreement import order_agreement
from tests.inside.validation import CRITERIA, Estimates, criteria, resampled, user_weights


def test_criteria_of_the_error_are_worked_by_hand():
    # |.1-.1| = 0, |.4-.2| = .2, |.3-.4| = .1; the estimate picks model 2, worth .2, where .4 was to be had.
    out = dict(
        zip(CRITERIA, criteria(np.array([[0.1, 0.4, 0.3]]), np.array([[0.1, 0.2, 0.4]]))[0], strict=True)
    )
    assert out["mae"] == pytest.approx(0.1)
    assert (out["ipc"], out["or1"], out["regret"]) == (1, 0, pytest.approx(0.2))
    assert out["tau_b"] == pytest.approx(1 / 3)  # 2 of 3 pairs agree
    assert out["src"] == pytest.approx(0.5)  # 1 − 6·2/(3·8)


@pytest.mark.parametrize("seed", range(6))
def test_order_criteria_agree_with_the_agreement_module(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 5, 7) + 0.0, rng.integers(0, 5, 7) + 0.0  # with ties
    out = dict(zip(CRITERIA, criteria(a[None], b[None])[0], strict=True))
    other = order_agreement(a, b).values
    for name in ("tau_b", "src", "ipc"):
        assert out[name] == pytest.approx(other[name], abs=1e-12)


def test_recommenders_that_differ_by_rounding_are_tied():
    # .1 + .2 is above .3 by a unit in the last place. Right: model 0 and 1 tied and best.
    a, b = np.array([[0.1 + 0.2, 0.3, 0.1]]), np.array([[0.3, 0.1 + 0.2, 0.1]])
    out = dict(zip(CRITERIA, criteria(a, b)[0], strict=True))
    assert (out["tau_b"], out["src"], out["ipc"], out["or1"], out["regret"]) == (1, 1, 0, 1, 0)


def test_criteria_of_several_metrics_at_once_are_those_of_each():
    rng = np.random.default_rng(0)
    a, b = rng.random((5, 3, 4)), rng.random((5, 3, 4))
    for metric in range(3):
        np.testing.assert_array_equal(criteria(a, b)[:, metric], criteria(a[:, metric], b[:, metric]))


def test_resampled_ratios_are_ratios_of_weighted_sums():
    users = np.array([3, 5, 8])
    weights = np.array([[1.0, 1.0, 1.0], [2.0, 0.0, 1.0], [0.0, 0.0, 3.0]])
    sums = [
        UserSums.of(users[:2], np.array([1.0, 2.0]), np.array([1.0, 4.0])),
        UserSums.of(users[:2], np.array([5.0, 0.0]), np.array([1.0, 4.0])),  # the same denominators
        UserSums.of(users[1:], np.array([1.0, 2.0]), np.array([1.0, 4.0])),  # of other users
    ]
    apart = [Estimates.of_sums(part, 2) for part in (sums[:2], sums[2:])]
    out = np.hstack(resampled(apart, users, weights))
    np.testing.assert_array_equal(out, resampled([Estimates.of_sums(sums, 2)], users, weights)[0])
    assert out[:2].tolist() == [[0.6, 1.0, 0.6], [1.0, 5.0, 0.5]]
    assert np.isnan(out[2, :2]).all()
    assert out[2, 2] == 0.5


def test_user_weights_start_with_the_sample_itself_and_keep_its_size():
    weights = user_weights(7, 50, np.random.default_rng(0))
    assert weights.shape == (51, 7)
    assert np.array_equal(weights[0], np.ones(7))
    assert (weights.sum(1) == 7).all()
