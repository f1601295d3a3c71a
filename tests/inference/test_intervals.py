"""Intervals from standard errors and from replicates."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ipseval.errors import InputError
from tests.inference.scipy_bootstrap import bca_of_mean
from tests.inside.inference import bca_interval, jackknife_acceleration, normal_interval, quantiles


def test_normal_interval_of_a_hand_worked_case():
    # z of 90 % is 1.644854.
    low, high = normal_interval(2.0, 0.5, confidence_level=0.9)
    assert (low, high) == pytest.approx((2 - 0.8224268, 2 + 0.8224268), abs=1e-7)


def test_normal_interval_is_nan_without_an_error():
    assert all(math.isnan(bound) for bound in normal_interval(0.5, float("nan"), confidence_level=0.95))


def test_quantiles_leave_undefined_replicates_out():
    replicates = np.concatenate([np.arange(101.0), [np.nan] * 50])
    assert quantiles(replicates, 0.25, 0.75) == (25.0, 75.0)
    assert all(math.isnan(b) for b in quantiles(np.full(3, np.nan), 0.25, 0.75))


@pytest.mark.parametrize("seed", range(3))
def test_bca_equals_scipy_on_the_same_resamples_of_a_skewed_mean(seed):
    values = np.random.default_rng(seed).exponential(size=40)
    reference = bca_of_mean(values, n_resamples=999, confidence_level=0.9)
    leave_one_out = (values.sum() - values) / (values.size - 1)
    ours = bca_interval(
        float(values.mean()),
        reference.bootstrap_distribution,
        jackknife_acceleration(leave_one_out),
        confidence_level=0.9,
    )
    assert ours == pytest.approx(tuple(reference.confidence_interval), rel=1e-12)


def test_bca_of_constant_replicates_is_the_value_itself():
    assert bca_interval(0.3, np.full(9, 0.3), 0.0, confidence_level=0.95) == (0.3, 0.3)


def test_bca_is_nan_when_all_replicates_lie_on_one_side():
    assert all(math.isnan(b) for b in bca_interval(0.0, np.arange(1.0, 9.0), 0.0, confidence_level=0.95))


def test_acceleration_of_a_hand_worked_case():
    # d = mean − value = 1, 1, −2: Σd³ = −6, Σd² = 6, so a = −6/(6·6^1.5) = −1/14.697.
    assert jackknife_acceleration(np.array([0.0, 0.0, 3.0])) == pytest.approx(-1 / 6**1.5)


def test_acceleration_of_values_equal_up_to_rounding_is_zero():
    assert jackknife_acceleration(np.array([0.1 + 0.2, 0.3, 0.3])) == 0.0


@pytest.mark.parametrize("level", [0, 1, 95, -0.1])
def test_a_confidence_level_outside_0_1_is_refused(level):
    with pytest.raises(InputError, match="confidence_level must be in"):
        normal_interval(0.0, 1.0, confidence_level=level)
