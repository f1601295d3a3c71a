"""Propensities that are counted on random pairs of which observation was measured."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.propensity import CountedPropensity
from tests.propensity.test_direct_and_strata import make_data

POPULARITY = [0, 3, 8, 15, 24]  # n* + 1 = 1, 4, 9, 16, 25
RELEVANT = [200, 200, 200, 200, 200]
OBSERVED = [20, 40, 60, 80, 100]  # exactly the law .1 √(n* + 1)


def make_log():
    log, _ = make_data(30, POPULARITY, [1] * 5, [1] * 5)
    return log


@pytest.mark.parametrize("shrinkage", [1e-9, 50.0, 1e9, "fit"])
def test_counts_equal_the_power_law_where_the_power_law_holds(shrinkage):
    propensity = CountedPropensity(RELEVANT, OBSERVED, shrinkage=shrinkage).fit(make_log())
    assert propensity.item == pytest.approx([0.1, 0.2, 0.3, 0.4, 0.5], abs=1e-6)
    assert (propensity.is_probability, propensity.basis) == (True, "exposure")


def test_shrinkage_mixes_counts_with_the_law_by_k_relevant_pairs():
    relevant = [200, 0, 200, 10, 200]
    observed = [20, 0, 60, 0, 100]
    few = CountedPropensity(relevant, observed, shrinkage=1e9).fit(make_log())  # the law itself
    mixed = CountedPropensity(relevant, observed, shrinkage=10.0).fit(make_log())
    expected = (np.array(observed) + 10 * few.item) / (np.array(relevant) + 10)
    assert mixed.item == pytest.approx(expected, rel=1e-6)
    assert mixed.item[1] == pytest.approx(few.item[1], rel=1e-6)  # nothing was counted
    assert mixed.item[3] == pytest.approx(few.item[3] / 2, rel=1e-6)  # 10 relevant pairs, none observed
    assert mixed.model == "counted on 610 relevant pairs, shrunk with K = 10"


def test_k_is_that_of_beta_binomial_counts_and_infinite_where_counts_vary_by_chance():
    rng = np.random.default_rng(0)
    n_items = 3000
    log, _ = make_data(5, [2] * n_items, [1] * n_items, [1] * n_items)  # one level: λ is the overall share
    relevant = rng.integers(2, 30, n_items)
    share = rng.beta(1.5, 3.5, n_items)  # K = 5
    observed = rng.binomial(relevant, share)
    model = CountedPropensity(relevant, observed)
    text = model.fit(log).model
    assert float(text.split("K = ")[1]) == pytest.approx(5, rel=0.1)
    same = CountedPropensity([100, 100], [30, 30]).fit(make_data(5, [2, 2], [1, 1], [1, 1])[0])
    assert same.item == pytest.approx([0.3, 0.3])
    assert same.model.endswith("shrunk with λ itself")


def test_k_is_at_least_one_half():
    """All or none of 10 pairs were observed, which by moments is K = 0; λ is one half."""
    propensity = CountedPropensity([10, 10], [10, 0]).fit(make_data(5, [2, 2], [1, 1], [1, 1])[0])
    assert propensity.item == pytest.approx([(10 + 0.5 / 2) / 10.5, (0.5 / 2) / 10.5])


def test_posterior_means_are_closer_to_the_true_propensities_than_counts_or_their_mean():
    rng = np.random.default_rng(1)
    n_items = 2000
    log, _ = make_data(5, [2] * n_items, [1] * n_items, [1] * n_items)
    relevant = rng.integers(1, 12, n_items)
    share = rng.beta(1, 3, n_items)
    observed = rng.binomial(relevant, share)
    fitted = CountedPropensity(relevant, observed).fit(log).item
    error = np.abs(fitted - share).mean()
    assert error < 0.95 * np.abs(observed / relevant - share).mean()
    assert error < 0.95 * np.abs(observed.sum() / relevant.sum() - share).mean()


@pytest.mark.parametrize(
    ("relevant", "observed", "message"),
    [
        ([2, 1], [1, 2], r"n_observed must not exceed n_relevant; it does for 1 of 2 items"),
        ([2, 1], [0, 0], r"n_observed must be above 0 for at least one item; all 2 are 0"),
        ([2, 1], [1], "n_observed"),
        ([-1, 1], [0, 1], "n_relevant"),
    ],
)
def test_impossible_counts_are_refused(relevant, observed, message):
    with pytest.raises(InputError, match=message):
        CountedPropensity(relevant, observed)


def test_counts_of_another_catalogue_are_refused():
    with pytest.raises(
        InputError, match="n_relevant must have one count for each of the 5 items of the log; got 2"
    ):
        CountedPropensity([2, 1], [1, 1]).fit(make_log())
