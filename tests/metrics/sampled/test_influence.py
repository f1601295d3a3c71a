"""The influence of a positive on a fitted correction is the derivative of the estimate by its share."""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from tests.inside.metrics import build_refit, compute_fitted_correction, read_sampled_ranks


@pytest.mark.parametrize("variance_weight", [0.05, 0.6])
@pytest.mark.parametrize("method", ["bv", "mle"])
@pytest.mark.parametrize(("label", "n_iterations"), [("ap", 1), ("recall@10", 2), ("ap", 12)])
def test_contribution_and_drift_are_the_derivative_by_the_share_of_a_positive(
    label, n_iterations, method, variance_weight
):
    rng = np.random.default_rng(0)
    sizes = np.where(np.arange(12) % 2, 60, 90)  # two groups share the distribution
    data = read_sampled_ranks(
        rng.integers(1, 8, 12),
        n_candidates=sizes,
        n_sampled=7,
        replacement=None,
        users=None,
        weights=None,
        method=method,
    )
    options = (ipseval.metric(label), method, variance_weight, n_iterations)
    _, contributions, drift, _ = compute_fitted_correction(data, *options)
    refit = build_refit(data, *options)
    step = 1e-6
    for position in range(12):
        change = step * (np.arange(12) == position)
        derivative = (refit(data.share + change) - refit(data.share - change)) / (2 * step)
        assert contributions[position] + drift[position] == pytest.approx(derivative, rel=1e-6, abs=1e-8)
