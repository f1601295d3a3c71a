"""Sums of weights by parts are those of the whole; what is said of them is said in the same words."""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.estimators import Sample
from tests.inference.worlds import ranked
from tests.inside.estimators import Extent, resolve_estimator
from tests.inside.inference import AllWeights, Weighed, WeightDiagnostics, effective_sample_size

ESTIMATORS = [resolve_estimator(label) for label in ("aoa", "ips", "snips", "snips-pooled")]
METRICS = [ipseval.metric(label) for label in ("recall@5", "ap", "rr")]
N_USERS, N_ITEMS = 12, 30


def parts() -> tuple[Sample, list[Sample], ipseval.propensity.Propensity]:
    """Return a sample and the same users in two parts, and a third without positives."""
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.2)
    popularity = np.arange(1, N_ITEMS + 1)
    propensity = ipseval.PowerLawPropensity(gamma=1.0, scale="max").fit(popularity=popularity).clip(floor=0.1)

    def sample(users: slice) -> Sample:
        rows = np.isin(user, np.arange(N_USERS)[users])
        positives = ranked(user[rows], item[rows], 0 * item[rows], n_users=N_USERS, n_items=N_ITEMS)
        p = propensity.at(positives.user, positives.item)
        return Sample(positives, p, True, np.full(N_USERS, 20.0), "known")

    return sample(slice(None)), [sample(slice(7)), sample(slice(7, None)), sample(slice(0))], propensity


def test_diagnostics_of_merged_sums_are_those_of_all_users():
    sample, pieces, propensity = parts()
    whole, one, two, none = (
        AllWeights.of(piece, ESTIMATORS, METRICS, propensity=propensity) for piece in (sample, *pieces)
    )
    assert (none.totals, none.own, none.products) == ({}, {}, {})
    assert set(whole.products) == {("ap", "ips"), ("rr", "ips")}
    extent = Extent.of(sample)
    expected = whole.diagnostics(ESTIMATORS, extent, propensity)
    assert 0 < expected["ips"].clipped_share < 1
    for merged in (one.merge(two), none.merge(two).merge(one), one.merge(none).merge(two)):
        found = merged.diagnostics(ESTIMATORS, extent, propensity)
        for label, want in expected.items():
            for name, value in vars(want).items():
                same = value if isinstance(value, str) else pytest.approx(value, rel=1e-12, nan_ok=True)
                assert getattr(found[label], name) == same, name
        for key, sums in whole.products.items():
            assert merged.products[key].own.ess == pytest.approx(sums.own.ess, rel=1e-12)
            assert merged.products[key].equal.ess == pytest.approx(sums.equal.ess, rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_the_sums_of_weights_merge_whatever_their_size(scale):
    weights = [np.array([1.0, 3.0]) * scale, np.array([0.5, 6.0, 2.0]) * scale]
    one, two = map(Weighed.of, weights)
    both = np.concatenate(weights) / scale
    for found in (one.merge(two), two.merge(one), Weighed.of_logs(np.log(both) + np.log(scale))):
        assert found.ess == pytest.approx(both.sum() ** 2 / (both**2).sum(), rel=1e-12)
        assert found.max_share == pytest.approx(6 / 12.5, rel=1e-12)
        assert found.log_largest == pytest.approx(np.log(6) + np.log(scale), rel=1e-12)


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [1.0, -1e-9], [1.0, np.inf], [1.0, np.nan]])
def test_an_effective_size_is_of_weights(weights):
    with pytest.raises(InputError, match="weights must be finite numbers >= 0, and one of them above 0"):
        effective_sample_size(np.array(weights))
    assert effective_sample_size(np.array([0.0, 2.0, 0.0])) == 1.0


@pytest.mark.parametrize(
    ("equal", "words"),
    [
        (9.6, "effective sample size 3 of 10"),
        (9.4, "effective sample size 3 of 10 (9 with equal weights)"),
    ],
)
def test_the_size_with_equal_weights_is_said_where_it_is_not_the_number_of_positives(equal, words):
    one = WeightDiagnostics(3.0, 2.0, 0.25, 10, ess_own=3.0, ess_equal=equal)
    assert one.remark == words
    unweighted = WeightDiagnostics(3.0, 2.0, 0.25, 10, weighted=False)
    assert (unweighted.remark, unweighted.flag, unweighted.cautions) == ("", "", ())
