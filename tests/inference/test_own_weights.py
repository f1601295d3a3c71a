"""Which weights are flagged: those the estimator itself gives to positives, against equal propensities."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ipseval
from ipseval.errors import PositivityWarning
from ipseval.estimators import Estimator, Sample
from tests.inference.worlds import ranked
from tests.inside.estimators import resolve_estimator
from tests.inside.inference import WeightDiagnostics, diagnostics_by_estimator

ALL = ("snips", "snips-global", "snips-pooled", "ips", "snips-shrunk(0.5)")


def sample_of(propensity, user, n_relevant=None):
    size = len(user)
    positives = ranked(user, list(range(size)), [0] * size, n_users=max(user) + 1, n_items=size)
    kind = "absent" if n_relevant is None else "known"
    relevant = None if n_relevant is None else np.asarray(n_relevant, dtype=float)
    return Sample(positives, np.asarray(propensity, dtype=float), True, relevant, kind)


def diagnostics(propensity, user, label, n_relevant=None):
    sample = sample_of(propensity, user, n_relevant)
    one = resolve_estimator(label)
    return diagnostics_by_estimator(sample, [one])[one.label]


@pytest.mark.parametrize(
    ("label", "n_relevant", "own"),
    [
        # P = 1, ½, ¼: w = 1, 2 of the first user, 4 of the second.
        ("snips-pooled", None, (1, 2, 4)),
        ("snips-global", None, (1 / 2, 2 / 2, 4 / 1)),
        ("snips", None, (1 / 3, 2 / 3, 1)),
        ("ips", None, (1, 2, 4)),
        ("ips", [4, 2], (1 / 4, 2 / 4, 4 / 2)),
        # Mean weights 3/2 and 4, their mean 11/4; normalisers (3 + 11/2)/2 and (4 + 11/4)/2.
        ("snips-shrunk(0.5)", None, (1 / 4.25, 2 / 4.25, 4 / 3.375)),
    ],
)
@pytest.mark.parametrize("scale", [1, 1e300, 1e-160, 1e-300])
def test_the_own_weights_of_each_estimator_worked_by_hand(label, n_relevant, own, scale):
    one = diagnostics(scale * np.array([1, 0.5, 0.25]), [0, 0, 1], label, n_relevant)
    own = np.array(own, dtype=float)
    assert one.ess_own == pytest.approx(own.sum() ** 2 / (own**2).sum(), rel=1e-14)
    assert one.share_own == pytest.approx(own.max() / own.sum(), rel=1e-14)
    # What the frame calls ess is the same for all of them: 7²/21, and 4/7.
    assert (one.ess, one.max_weight_share) == (pytest.approx(49 / 21), pytest.approx(4 / 7))


def test_equal_propensities_as_each_estimator_weighs_them():
    pooled, averaged = (diagnostics([0.5] * 3, [0, 0, 1], label) for label in ("snips-pooled", "snips"))
    assert (pooled.ess_own, pooled.ess_equal) == (3, 3)
    # ½, ½, 1: (2)²/(3/2), and 1 of 2.
    assert (averaged.ess_own, averaged.ess_equal) == (pytest.approx(8 / 3), pytest.approx(8 / 3))
    assert averaged.share_equal == 0.5


@pytest.mark.parametrize("label", ALL)
@pytest.mark.parametrize("user", [[0], [0, 1, 2], [0] * 40 + [1], sorted([*range(9), *[8] * 500])])
def test_equal_propensities_are_never_flagged(label, user):
    assert diagnostics([0.2] * len(user), user, label).flag == ""


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([4, 4, 9], "the median user has 4 test positives: per-user snips keeps a bias"),
        ([4, 5], "the median user has 4.5 test positives"),
        ([5, 5, 1], ""),
        ([1, 1], "the median user has 1 test positive: every user has one positive"),
    ],
)
def test_below_five_positives_of_the_median_user_weights_within_users_correct_little(counts, words):
    text = resolve_estimator("snips").caution(np.array(counts))
    assert text.startswith(words)
    assert bool(text) == bool(words)
    assert resolve_estimator("snips-global").caution(np.array(counts)) == ""


@pytest.mark.parametrize(
    ("ess_own", "share_own", "n_positives", "flag"),
    [
        (49.0, 0.05, 1000, "effective sample size 49 of 1,000, less than the 100 needed"),
        (51.0, 0.05, 400, ""),
        (15.1, 0.15, 30, ""),
        (14.9, 0.15, 30, "effective sample size 15 of 30, less than the 15 needed"),
        (99.0, 0.01, 1000, "effective sample size 99 of 1,000, less than the 100 needed"),
        (101.0, 0.01, 1000, ""),
        (60.0, 0.101, 100, "one positive carries 10%"),
        (60.0, 0.099, 100, ""),
        # Five times the share of equal weights, 5/20.
        (12.0, 0.26, 20, "one positive carries 26%"),
        (12.0, 0.24, 20, ""),
    ],
)
def test_the_rule_of_the_flag_at_its_edges(ess_own, share_own, n_positives, flag):
    equal = {"ess_equal": float(n_positives), "share_equal": 1 / n_positives}
    one = WeightDiagnostics(1.0, 1.0, 1.0, n_positives, ess_own=ess_own, share_own=share_own, **equal)
    assert one.flag.startswith(flag)
    assert bool(one.flag) == bool(flag)


def small_world(on_low_ess, propensity, estimators=("aoa", "snips", "snips-pooled")):
    n = propensity.size
    ranks = ranked(list(range(n)), list(range(n)), [k % 7 for k in range(n)], n_users=n, n_items=n)
    known = ipseval.KnownPropensity(item=propensity).fit(ranks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ipseval.errors.DataWarning)
        return ipseval.evaluate_ranks(
            {"m": ranks},
            propensity=known,
            metrics=["recall@5"],
            estimators=estimators,
            on_low_ess=on_low_ess,
        )


def test_snips_with_one_positive_per_user_is_not_withheld_as_it_equals_aoa():
    # One weight is 1000 times the others.
    propensity = np.array([1.0] * 99 + [0.001])
    evaluation = small_world("nan", propensity)
    estimates = evaluation.frame.set_index("estimator")["estimate"]
    assert estimates["snips"] == estimates["aoa"]
    assert np.isnan(estimates["snips-pooled"])
    weights = evaluation.weights
    assert weights["snips"].ess == weights["snips-pooled"].ess < 1.3
    assert weights["snips"].ess_own == 100
    assert "snips is identical to aoa" in repr(evaluation)
    assert "effective sample size 100 of 100." in repr(evaluation.explain())


def test_nearly_equal_weights_of_few_positives_raise_no_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error", PositivityWarning)
        evaluation = small_world("warn", np.linspace(0.5, 0.51, 30))
    assert "NOT TO BE TRUSTED" not in repr(evaluation)


def test_an_estimator_of_ones_own_is_judged_by_its_own_weights():
    class Plain(Estimator):
        label = "plain"

        def sums(self, sample, metric):
            return resolve_estimator("aoa").sums(sample, metric)

        def positive_weights(self, sample):
            return np.ones(len(sample.ranked))

    one = diagnostics_by_estimator(sample_of([1.0] * 9 + [0.01], list(range(10))), [Plain()])["plain"]
    assert (one.ess_own, one.share_own, one.flag) == (10, 0.1, "")
    # Of 1/P: nine weights of 1 and one of 100.
    assert one.ess == pytest.approx(109**2 / 10009)


def test_an_estimator_must_say_how_it_weighs():
    class Silent(Estimator):
        label = "silent"

        def sums(self, sample, metric):
            return resolve_estimator("snips").sums(sample, metric)

    with pytest.raises(TypeError, match="positive_weights"):
        Silent()
