"""Weights by popularity, worked by hand, and Pareto k̂ of the largest weights."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import ipseval
from ipseval.errors import InputError
from tests.inside.inference import fit_generalised_pareto, group_weights_by_popularity, pareto_k


def evaluate_items(propensity, estimators=("aoa", "snips-global")):
    """Training: item a 1, b 4, c 9, d 16 times. Test: user x has a and d, user y has c and d."""
    counts = {"a": 1, "b": 4, "c": 9, "d": 16}
    train = pd.DataFrame([(f"u{n}", item) for item, count in counts.items() for n in range(count)])
    test = pd.DataFrame([("x", "a"), ("x", "d"), ("y", "c"), ("y", "d")])
    for frame in (train, test):
        frame.columns = ["user", "item"]
    split = ipseval.Split.from_frames(train, test)
    return ipseval.evaluate(
        {"any": np.ones((split.n_users, split.n_items))},
        split,
        propensity=propensity,
        metrics=["recall@1"],
        estimators=list(estimators),
        low_ess="ignore",
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_weight_of_a_group_is_the_sum_of_its_inverse_propensities():
    """γ = 0: P ∝ √n*, so weights are 1, 1/3, 1/4 and 1/4 of a, c, d and d: in all 11/6."""
    evaluation = evaluate_items(ipseval.PowerLawPropensity(gamma=0.0, unseen="drop"))
    groups = group_weights_by_popularity(
        evaluation.samples["any"], evaluation.definitions[1], evaluation.propensity
    )
    assert groups["group"].tolist() == ["1", "9", "16"]
    assert groups["estimator"].unique().tolist() == ["snips-global"]
    assert groups[["n_items", "n_positives"]].to_numpy().tolist() == [[1, 1], [1, 1], [1, 2]]
    assert groups["share"].tolist() == pytest.approx([1 / 4, 1 / 4, 1 / 2])
    assert groups["weight_share"].tolist() == pytest.approx([6 / 11, 2 / 11, 3 / 11])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_without_popularity_items_are_grouped_by_propensity():
    evaluation = evaluate_items(ipseval.KnownPropensity(item=[0.1, 0.2, 0.5, 0.5]))
    groups = group_weights_by_popularity(
        evaluation.samples["any"], evaluation.definitions[1], evaluation.propensity
    )
    assert groups["by"].unique().tolist() == ["P"]
    assert groups["group"].tolist() == ["0.1", "0.5"]
    assert groups["weight_share"].tolist() == pytest.approx([10 / 16, 6 / 16])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_unweighted_estimators_have_no_popularity_groups():
    unweighted = evaluate_items(None, ["aoa"])
    assert group_weights_by_popularity(
        unweighted.samples["any"], unweighted.definitions[1], unweighted.propensity
    ).empty
    weighted = evaluate_items(
        ipseval.PowerLawPropensity(gamma=0.0, unseen="drop"), ["aoa", "snips-pooled", "snips-global"]
    )
    assert group_weights_by_popularity(
        weighted.samples["any"], weighted.definitions[1][:1], weighted.propensity
    ).empty
    assert group_weights_by_popularity(unweighted.samples["any"], weighted.definitions[1], None).empty
    groups = group_weights_by_popularity(
        weighted.samples["any"], weighted.definitions[1], weighted.propensity
    )
    assert groups.index.tolist() == list(range(6))


@pytest.mark.parametrize(("n", "group"), [(0, 0), (1, 1), (2, 2), (4, 2), (5, 3), (9, 3), (10, 4), (20, 5)])
def test_groups_of_popularity_end_at_1_2_5_10_20_50(n, group):
    from tests.inside.inference import _group_by_popularity

    value = pd.Series([n, 1000.0]).to_numpy(dtype=float)
    assert _group_by_popularity(value)[0] == group


def zhang_stephens_by_loops(x: list[float]) -> tuple[float, float]:
    """Return the estimator as printed in the paper, which has k = −ξ, by loops."""
    x, n = sorted(x), len(x)
    m = 30 + int(math.sqrt(n))
    quartile = x[int(n / 4 + 0.5) - 1]
    theta = [1 / x[-1] + (1 - math.sqrt(m / (j - 0.5))) / (3 * quartile) for j in range(1, m + 1)]

    def k_of(t: float) -> float:
        return -sum(math.log(1 - t * x_value) for x_value in x) / n

    log_lik = [n * (math.log(t / k_of(t)) + k_of(t) - 1) for t in theta]
    weights = [1 / sum(math.exp(second_value - value) for second_value in log_lik) for value in log_lik]
    mean = sum(t * w for t, w in zip(theta, weights, strict=True))
    k = k_of(mean)
    return -k, k / mean


@pytest.mark.parametrize("shape", [-0.2, 0.3, 0.9])
def test_the_fit_equals_the_printed_estimator(shape):
    x = stats.genpareto.rvs(shape, scale=2.0, size=80, random_state=np.random.default_rng(5))
    assert fit_generalised_pareto(x) == pytest.approx(zhang_stephens_by_loops(x.tolist()), rel=1e-9)


@pytest.mark.parametrize("shape", [0.2, 0.5, 1.0])
def test_the_fit_is_close_to_maximum_likelihood_and_to_the_truth(shape):
    # The standard deviation of the shape is (1 + ξ)/√n: 4 sigma at n = 4,000.
    x = stats.genpareto.rvs(shape, scale=2.0, size=4000, random_state=np.random.default_rng(6))
    ours, scale = fit_generalised_pareto(x)
    likelihood, _, likelihood_scale = stats.genpareto.fit(x, floc=0)
    assert ours == pytest.approx(likelihood, abs=0.01)
    assert scale == pytest.approx(likelihood_scale, rel=0.02)
    assert abs(ours - shape) < 4 * (1 + shape) / np.sqrt(4000)


def test_k_does_not_depend_on_the_unit_of_the_weights():
    values = np.random.default_rng(8).pareto(2, size=500)
    assert pareto_k(1000 * values) == pytest.approx(pareto_k(values), rel=1e-9)
    # Ten of the tail are the value before it, up to rounding.
    values = np.concatenate([np.ones(80), 1 + np.arange(1, 11) * 4.5e-16, 2 + np.arange(10) ** 2])
    expected = pytest.approx(pareto_k(values.round(12)), rel=1e-9)
    assert [pareto_k(2.0**40 * values), pareto_k(values)] == [expected] * 2


@pytest.mark.parametrize("values", [np.arange(1.0, 20), np.ones(500), np.repeat([1.0, 2.0, 3.0], 100)])
def test_k_is_nan_where_the_tail_has_too_few_values(values):
    assert math.isnan(pareto_k(values))


def test_values_that_differ_only_by_rounding_are_not_a_tail():
    # Equal totals of items differ in their last bits, by the order in which they were summed.
    assert np.isnan(pareto_k(np.concatenate([np.ones(80), 3 + np.arange(20) * 4.5e-16])))
    assert np.isnan(pareto_k(1 + np.arange(100) * 2.3e-16))
    assert not np.isnan(pareto_k(np.concatenate([np.ones(80), 3 + np.arange(20) / 10])))


def test_the_tail_consists_of_excesses_over_the_largest_value_outside_it():
    # Of 100 values the tail is 20 (Vehtari et al.: min(N/5, 3√N)), the threshold the 21st from above.
    values = np.sort(np.exp(1.5 * np.random.default_rng(3).normal(size=100)))
    shape, _ = fit_generalised_pareto(values[80:] - values[79])
    assert pareto_k(values) == pytest.approx((20 * shape + 10 * 0.5) / 30, rel=1e-12)


@pytest.mark.parametrize(("n", "tail_size"), [(21, 5), (25, 5), (26, 6), (225, 45), (400, 60), (900, 90)])
def test_the_tail_has_a_fifth_of_the_values_or_three_roots_of_their_number(n, tail_size):
    values = np.sort(np.exp(1.5 * np.random.default_rng(n).normal(size=n)))
    shape, _ = fit_generalised_pareto(values[-tail_size:] - values[-tail_size - 1])
    expected = (tail_size * shape + 10 * 0.5) / (tail_size + 10)
    assert pareto_k(values) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("n_different", "is_defined"), [(3, False), (4, False), (5, True)])
def test_k_needs_five_different_excesses(n_different, is_defined):
    tail = 2 + np.resize(np.arange(1.0, n_different + 1), 20)
    assert np.isnan(pareto_k(np.concatenate([np.ones(80), tail]))) != is_defined


def test_k_of_negative_values_is_refused_with_their_number():
    assert math.isnan(pareto_k(np.zeros(3)))
    with pytest.raises(InputError, match="values must be positive; 2 of 4 are negative"):
        pareto_k(np.array([1.0, -1.0, 0.0, -2.0]))
