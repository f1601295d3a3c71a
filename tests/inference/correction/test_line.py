"""The line in AOA's values: what it does to values, by hand, and to their covariance, by simulation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ipseval.inference.correction import Correction, CorrectionPrior, correct_path
from tests.inference.correction.test_posterior import tiny_path
from tests.inside.inference import UNEXPLAINED, RandomSample, on_line, posterior

METRIC = np.array([0, 0, 0, 1])
CUT = np.array([True, True, True, False])


def test_values_move_to_the_line_through_those_of_aoa():
    value = np.array([[0.1, 0.2, 0.6, 0.9], [0.2, 0.1, 0.3, 0.7], [0.5, 0.4, 0.2, 0.8]])
    none = np.zeros((3, 4, 4))
    made, _ = on_line(value, none, none, METRIC, CUT)
    np.testing.assert_allclose(made[0], value[0])
    # x − x̄ = (−.2, −.1, .3), of squares .14: slope (−.04 − .01 + .09)/.14 about the mean .2.
    np.testing.assert_allclose(made[1], [*(0.2 + 0.04 / 0.14 * np.array([-0.2, -0.1, 0.3])), 0.7])
    # A line that would turn the order round is level.
    np.testing.assert_allclose(made[2], [*np.full(3, 1.1 / 3), 0.8])


def test_the_covariance_is_that_of_values_on_lines():
    rng = np.random.default_rng(0)
    root = np.tril(rng.normal(size=(8, 8))) * 1e-4
    value = np.array([[0.1, 0.2, 0.6, 0.9], [0.2, 0.25, 0.4, 0.7]])
    joint = root @ root.T
    first, second = slice(0, 4), slice(4, 8)
    covariance = np.array([joint[first, first], joint[second, second]])
    cross = np.array([joint[first, first], joint[second, first]])
    _, found = on_line(value, covariance, cross, METRIC, CUT)
    drawn = value.ravel() + rng.standard_normal((10_000, 8)) @ root.T
    each = np.array([on_line(one.reshape(2, 4), covariance, cross, METRIC, CUT)[0][1] for one in drawn])
    # The slope is a ratio: its noise in x is of second order, and part of what the sum leaves out.
    np.testing.assert_allclose(np.cov(each[:, 3:].T), found[1, 3:, 3:].squeeze(), rtol=0.06)
    np.testing.assert_allclose(each[:, :3].mean(axis=1).var(), found[1, :3, :3].mean(), rtol=0.06)
    np.testing.assert_allclose(found[0], covariance[0])


@pytest.mark.parametrize("flat", [True, False])
def test_a_flat_path_and_a_sample_far_from_it_are_said(flat):
    path = tiny_path()
    if flat:  # strengths that take away a tenth of what AOA is above chance
        path = replace(path, value=path.value[0] * (1 - 0.1 * path.alpha[:, None] / 0.45))
        assert path.reach == pytest.approx(0.1)
    found = correct_path(path)
    assert found.explained is not flat
    assert (UNEXPLAINED in found.frame["note"].iloc[-1]) is flat
    assert (UNEXPLAINED[1:] in repr(found)) is flat


def test_a_sample_that_no_strength_reaches_is_said():
    path, said = tiny_path(), []
    for value in (path.value[8], np.array([0.01, 0.9])):
        sample = RandomSample(value, 1e-6 * np.eye(2), 10**6, 10**6, 1.0)
        joint = posterior(path, CorrectionPrior(), sample)
        said.append(Correction(path, CorrectionPrior(), sample, joint).explained)
    assert said == [True, False]
