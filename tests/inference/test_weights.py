"""Weight diagnostics worked by hand, merged sums of weights, flags, and the option low_ess."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest

import ipseval
from ipseval.errors import InputError, PositivityWarning, PropensityError
from ipseval.estimators import Estimator, Sample
from tests.estimators.labels import OF_POSITIVES
from tests.inference.worlds import random_ranks, ranked
from tests.inside.estimators import SampleSize, resolve_estimator
from tests.inside.inference import (
    AllWeights,
    WeightDiagnostics,
    WeightMoments,
    WeightTotals,
    effective_sample_size,
)


def diagnose_sample(sample, propensity, *, weighted=True):
    totals = WeightTotals.from_sample(sample, propensity, weighted=weighted)
    return totals.diagnostics(SampleSize.from_sample(sample), propensity)


def diagnose_items(popularity, floor=None, weighted=True):
    """Diagnose users 0, 0, 1 with items 0, 1, 0 at ranks 1, 2, 1; P ∝ n* (γ = 1)."""
    propensity = ipseval.PowerLawPropensity(gamma=1.0, scale="max", unseen="drop").fit(popularity=popularity)
    if floor is not None:
        propensity = propensity.clip(floor=floor)
    positives = ranked([0, 0, 1], [0, 1, 0], [0, 1, 0], n_users=2, n_items=2)
    sample = Sample(positives, propensity.for_pairs(positives.user, positives.item), True)
    return diagnose_sample(sample, propensity, weighted=weighted)


def test_hand_worked_diagnostics():
    # n* = 8 and 2, so w = 1, 4, 1: Σw = 6, Σw² = 18. Item totals 2 and 4: (6)²/(4 + 16).
    diagnosis = diagnose_items([8, 2])
    assert diagnosis.ess == pytest.approx(36 / 18)
    assert diagnosis.ess_items == pytest.approx(36 / 20)
    assert diagnosis.max_weight_share == pytest.approx(4 / 6)
    assert diagnosis.rare_share == pytest.approx(4 / 6)
    assert diagnosis.median_positives == 1.5
    assert (diagnosis.n_positives, diagnosis.n_items, diagnosis.clipped_share) == (3, 2, 0.0)
    assert math.isnan(diagnosis.pareto_k)


def test_the_clipped_share_is_the_weight_removed_and_unweighted_shares_count_rare_items():
    # P = 1 and ¼, raised to ½: w = 1, 2, 1 instead of 1, 4, 1, so 2 of 6 are cut.
    assert diagnose_items([8, 2], floor=0.5).clipped_share == pytest.approx(2 / 6)
    diagnosis = diagnose_items([8, 2], floor=0.5, weighted=False)
    assert (diagnosis.rare_share, diagnosis.clipped_share, diagnosis.ess) == (pytest.approx(1 / 3), 0.0, 3.0)


def test_the_rare_share_is_nan_where_popularity_is_not_known():
    positives = ranked([0], [0], [0], n_users=1, n_items=2)
    propensity = ipseval.KnownPropensity(item=[0.5, 0.5]).fit(positives)
    sample = Sample(positives, np.array([0.5]), True)
    diagnosis = diagnose_sample(sample, propensity)
    assert math.isnan(diagnosis.rare_share)
    assert diagnosis.n_items == 1  # the other has no positive


def test_cautions_are_worded_with_their_numbers():
    diagnosis = dataclasses.replace(
        diagnose_items([8, 2]), rare_share=0.52, pareto_k=0.81, clipped_share=0.25
    )
    assert list(map(str, diagnosis.cautions)) == [
        "few positives, with equal weights too",
        "52% of the weight is on items with at most 2 interactions",
        "heavy-tailed weights of items (Pareto k = 0.81)",
        "clipping cut 25% of the weight",
    ]
    assert dataclasses.replace(diagnosis, weighted=False).cautions == ()


@pytest.mark.parametrize(("limit", "name"), [(0.5, "rare_share"), (0.7, "pareto_k"), (0.2, "clipped_share")])
def test_cautions_begin_above_their_limits(limit, name):
    low = dict.fromkeys(("rare_share", "pareto_k", "clipped_share"), 0.0)
    for value, n_cautions in ((limit - 0.01, 0), (limit, 0), (limit + 0.01, 1)):
        diagnosis = dataclasses.replace(diagnose_items([8, 2]), ess_own=50.0, **(low | {name: value}))
        assert len(diagnosis.cautions) == n_cautions


def test_few_positives_are_a_caution_unless_the_weights_are_flagged_for_it():
    base_diagnosis = dataclasses.replace(diagnose_items([8, 2]), rare_share=0.0)
    for ess, equal_ess, n_cautions in ((50.0, 60.0, 0), (49.9, 60.0, 1), (24.0, 60.0, 0)):
        diagnosis = dataclasses.replace(
            base_diagnosis, ess_own=ess, ess_equal=equal_ess, share_own=0.01, share_equal=0.01
        )
        assert len(diagnosis.cautions) == n_cautions
    assert "less than the 30 needed" in diagnosis.flag


def evaluate_steep_weights(low_ess: str) -> ipseval.Evaluation:
    ranks, popularity = random_ranks(1)
    # One item is rare, all others are not: its few positives weigh as much as hundreds of others.
    popularity = np.append(popularity[:-1] + 20, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ipseval.errors.IdentificationWarning)
        propensity = ipseval.PowerLawPropensity(gamma=3.0, unseen="drop").fit(popularity=popularity)
    return ipseval.evaluate_ranks(
        ranks,
        propensity=propensity,
        metrics=("atop",),
        estimators=("aoa", "snips-pooled"),
        low_ess=low_ess,
    )


def test_few_effective_positives_warn_or_raise_as_requested():
    with pytest.warns(PositivityWarning, match=r"snips-pooled: effective sample size"):
        evaluate_steep_weights("warn")
    with pytest.raises(PropensityError, match=r"effective sample size .*low_ess='warn'"):
        evaluate_steep_weights("raise")


def test_few_effective_positives_are_suppressed_on_request_with_a_note():
    evaluation = evaluate_steep_weights("nan")
    frame = evaluation.frame.set_index(["estimator", "model"])
    suppressed_rows = frame.loc["snips-pooled"]
    assert suppressed_rows[["estimate", "std_error", "ci_low", "ci_high"]].isna().all(axis=None)
    assert suppressed_rows["note"].str.contains("suppressed: effective sample size").all()
    assert frame.loc["aoa"]["estimate"].notna().all()
    assert "suppressed" in repr(evaluation)
    comparison = evaluation.compare().set_index("estimator")
    assert comparison.loc["snips-pooled", "p_value"].isna().all()
    assert comparison.loc["aoa", "p_value"].notna().all()


def test_the_frame_has_reliability_columns_and_the_report_flags_unreliable_estimates():
    evaluation = evaluate_steep_weights("ignore")
    frame = evaluation.frame.set_index("estimator")
    assert (frame.loc["snips-pooled", "ess"] < 50).all()
    assert (frame.loc["aoa", "ess"] == len(evaluation.samples["m0"].ranked)).all()
    assert frame.loc["snips-pooled", "max_weight_share"].between(0, 1).all()
    assert frame.loc["snips-pooled", "note"].str.contains("effective sample size").all()
    assert frame["claim"].str.len().gt(0).all()
    assert "unreliable, see the warning above: SNIPS pooled" in repr(evaluation.explain())


def test_the_diagnostics_frame_has_one_row_per_estimator():
    frame = evaluate_steep_weights("ignore").diagnostics
    assert frame["estimator"].tolist() == ["aoa", "snips-pooled"]
    columns = {"ess", "ess_items", "max_weight_share", "rare_share", "pareto_k", "clipped_share"}
    assert columns | {"median_positives", "flag", "cautions"} <= set(frame.columns)
    assert frame["flag"].tolist()[0] == ""


ESTIMATORS = [resolve_estimator(label) for label in ("aoa", "ips", "snips", "snips-pooled")]
METRICS = [ipseval.metric(label) for label in ("recall@5", "ap", "rr")]
N_USERS = 12
N_ITEMS = 30


def split_sample() -> tuple[Sample, list[Sample], ipseval.propensity.Propensity]:
    """Return a sample and the same users in two parts, and a third without positives."""
    rng = np.random.default_rng(0)
    user, item = np.nonzero(rng.random((N_USERS, N_ITEMS)) < 0.2)
    popularity = np.arange(1, N_ITEMS + 1)
    propensity = (
        ipseval.PowerLawPropensity(gamma=1.0, scale="max", unseen="drop")
        .fit(popularity=popularity)
        .clip(floor=0.1)
    )

    def sample(users: slice) -> Sample:
        rows = np.isin(user, np.arange(N_USERS)[users])
        positives = ranked(user[rows], item[rows], 0 * item[rows], n_users=N_USERS, n_items=N_ITEMS)
        p = propensity.for_pairs(positives.user, positives.item)
        return Sample(positives, p, True, np.full(N_USERS, 20.0), "known")

    return sample(slice(None)), [sample(slice(7)), sample(slice(7, None)), sample(slice(0))], propensity


def test_diagnostics_of_merged_sums_equal_diagnostics_of_all_users():
    sample, parts_of_sample, propensity = split_sample()
    all_weights, first_weights, second_weights, no_weights = (
        AllWeights.from_sample(users, ESTIMATORS, METRICS, propensity=propensity)
        for users in (sample, *parts_of_sample)
    )
    assert (no_weights.totals, no_weights.estimator_sums, no_weights.products) == ({}, {}, {})
    assert set(all_weights.products) == {("ap", "ips"), ("rr", "ips")}
    extent = SampleSize.from_sample(sample)
    diagnostics_of_all = all_weights.diagnostics(ESTIMATORS, extent, propensity)
    assert 0 < diagnostics_of_all["ips"].clipped_share < 1
    for weights in (
        first_weights.merge(second_weights),
        no_weights.merge(second_weights).merge(first_weights),
        first_weights.merge(no_weights).merge(second_weights),
    ):
        merged_diagnostics = weights.diagnostics(ESTIMATORS, extent, propensity)
        for label, diagnosis in diagnostics_of_all.items():
            for name, value in vars(diagnosis).items():
                close_value = (
                    value if isinstance(value, str) else pytest.approx(value, rel=1e-12, nan_ok=True)
                )
                assert getattr(merged_diagnostics[label], name) == close_value, name
        for key, sums in all_weights.products.items():
            assert weights.products[key].moments.ess == pytest.approx(sums.moments.ess, rel=1e-12)
            assert weights.products[key].equal_moments.ess == pytest.approx(sums.equal_moments.ess, rel=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e-200, 1e200])
def test_sums_of_tiny_and_huge_weights_can_be_merged(scale):
    weights = [np.array([1.0, 3.0]) * scale, np.array([0.5, 6.0, 2.0]) * scale]
    first_moments, second_moments = map(WeightMoments.from_weights, weights)
    all_weights = np.concatenate(weights) / scale
    for moments in (
        first_moments.merge(second_moments),
        second_moments.merge(first_moments),
        WeightMoments.from_log_weights(np.log(all_weights) + np.log(scale)),
    ):
        assert moments.ess == pytest.approx(all_weights.sum() ** 2 / (all_weights**2).sum(), rel=1e-12)
        assert moments.max_share == pytest.approx(6 / 12.5, rel=1e-12)
        assert moments.log_largest == pytest.approx(np.log(6) + np.log(scale), rel=1e-12)


@pytest.mark.parametrize("weights", [[], [0.0, 0.0], [1.0, -1e-9], [1.0, np.inf], [1.0, np.nan]])
def test_the_effective_sample_size_refuses_invalid_weights(weights):
    with pytest.raises(InputError, match="weights must be finite numbers >= 0, and one of them above 0"):
        effective_sample_size(np.array(weights))
    assert effective_sample_size(np.array([0.0, 2.0, 0.0])) == 1.0


@pytest.mark.parametrize(
    ("equal", "words"),
    [
        (9.6, "effective sample size 3 of 10"),
        (9.4, "effective sample size 3 of 10 (9 unweighted)"),
    ],
)
def test_the_remark_has_the_size_for_equal_weights_where_it_differs_from_the_number_of_positives(
    equal, words
):
    diagnosis = WeightDiagnostics(3.0, 2.0, 0.25, 10, ess_own=3.0, ess_equal=equal)
    assert diagnosis.remark == words
    unweighted = WeightDiagnostics(3.0, 2.0, 0.25, 10, weighted=False)
    assert (unweighted.remark, unweighted.flag, unweighted.cautions) == ("", "", ())


WEIGHTED = [label for label in OF_POSITIVES if resolve_estimator(label).weighted]


def make_sample(propensity, user, n_relevant=None):
    size = len(user)
    positives = ranked(user, list(range(size)), [0] * size, n_users=max(user) + 1, n_items=size)
    kind = "absent" if n_relevant is None else "known"
    relevant = None if n_relevant is None else np.asarray(n_relevant, dtype=float)
    return Sample(positives, np.asarray(propensity, dtype=float), True, relevant, kind)


def diagnose_estimator(sample, estimator):
    return AllWeights.from_sample(sample, [estimator]).diagnostics(
        [estimator], SampleSize.from_sample(sample), None
    )[estimator.label]


def diagnose_label(propensity, user, label, n_relevant=None):
    return diagnose_estimator(make_sample(propensity, user, n_relevant), resolve_estimator(label))


@pytest.mark.parametrize(
    ("label", "n_relevant", "relative_weights"),
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
def test_the_weights_of_each_estimator_worked_by_hand(label, n_relevant, relative_weights, scale):
    diagnosis = diagnose_label(scale * np.array([1, 0.5, 0.25]), [0, 0, 1], label, n_relevant)
    relative_weights = np.array(relative_weights, dtype=float)
    assert diagnosis.ess_own == pytest.approx(
        relative_weights.sum() ** 2 / (relative_weights**2).sum(), rel=1e-14
    )
    assert diagnosis.share_own == pytest.approx(relative_weights.max() / relative_weights.sum(), rel=1e-14)
    # What the frame calls ess is the same for all of them: 7²/21, and 4/7.
    assert (diagnosis.ess, diagnosis.max_weight_share) == (pytest.approx(49 / 21), pytest.approx(4 / 7))


def test_equal_propensities_as_each_estimator_weighs_them():
    pooled, user_means = (diagnose_label([0.5] * 3, [0, 0, 1], label) for label in ("snips-pooled", "snips"))
    assert (pooled.ess_own, pooled.ess_equal) == (3, 3)
    # ½, ½, 1: (2)²/(3/2), and 1 of 2.
    assert (user_means.ess_own, user_means.ess_equal) == (pytest.approx(8 / 3), pytest.approx(8 / 3))
    assert user_means.share_equal == 0.5
    # AOA is a mean over users, too, so it has the size that SNIPS has with equal propensities.
    aoa, aoa_pooled = (diagnose_label([1, 0.5, 0.25], [0, 0, 1], label) for label in ("aoa", "aoa-pooled"))
    assert (aoa.ess_own, aoa.ess_equal) == (pytest.approx(8 / 3), pytest.approx(8 / 3))
    assert (aoa.share_own, aoa.share_equal) == (0.5, 0.5)
    assert (aoa.ess, aoa.flag) == (3, "")
    assert (aoa_pooled.ess_own, aoa_pooled.ess_equal) == (3, 3)


@pytest.mark.parametrize("label", WEIGHTED)
@pytest.mark.parametrize("user", [[0], [0, 1, 2], [0] * 40 + [1], sorted([*range(9), *[8] * 500])])
def test_equal_propensities_are_never_flagged(label, user):
    assert diagnose_label([0.2] * len(user), user, label).flag == ""


@pytest.mark.parametrize(
    ("counts", "words"),
    [
        ([4, 4, 9], "the median user has 4 test positives: per-user snips keeps a bias"),
        ([4, 5], "the median user has 4.5 test positives"),
        ([5, 5, 1], ""),
        ([1, 1], "the median user has 1 test positive: every user has one positive"),
    ],
)
def test_per_user_snips_has_a_caution_below_five_positives_of_the_median_user(counts, words):
    text = resolve_estimator("snips").caution(np.array(counts))
    assert text.startswith(words)
    assert bool(text) == bool(words)
    assert resolve_estimator("snips-global").caution(np.array(counts)) == ""


@pytest.mark.parametrize(
    ("ess_own", "share_own", "n_positives", "flag"),
    [
        (49.0, 0.05, 1000, "effective sample size 49 of 1,000, less than the 100 needed"),
        (51.0, 0.05, 400, ""),
        (50.0, 0.05, 400, ""),
        (49.9, 0.05, 400, "effective sample size 50 of 400, less than the 50 needed"),
        (100.0, 0.01, 1000, ""),
        (15.0, 0.05, 30, ""),
        (15.1, 0.15, 30, ""),
        (14.9, 0.15, 30, "effective sample size 15 of 30, less than the 15 needed"),
        (99.0, 0.01, 1000, "effective sample size 99 of 1,000, less than the 100 needed"),
        (101.0, 0.01, 1000, ""),
        (60.0, 0.101, 100, "one positive carries 10%"),
        (60.0, 0.099, 100, ""),
        (60.0, 0.1, 100, ""),
        # Five times the share of equal weights, 5/20.
        (12.0, 0.26, 20, "one positive carries 26%"),
        (12.0, 0.24, 20, ""),
        (12.0, 0.25, 20, ""),
    ],
)
def test_the_rule_of_the_flag_at_its_edges(ess_own, share_own, n_positives, flag):
    equal_weights = {"ess_equal": float(n_positives), "share_equal": 1 / n_positives}
    diagnosis = WeightDiagnostics(
        1.0, 1.0, 1.0, n_positives, ess_own=ess_own, share_own=share_own, **equal_weights
    )
    assert diagnosis.flag.startswith(flag)
    assert bool(diagnosis.flag) == bool(flag)


def evaluate_small_data(low_ess, propensity, estimators=("aoa", "snips", "snips-pooled")):
    n = propensity.size
    ranks = ranked(list(range(n)), list(range(n)), [k % 7 for k in range(n)], n_users=n, n_items=n)
    propensity_of_items = ipseval.KnownPropensity(item=propensity).fit(ranks)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ipseval.errors.DataWarning)
        return ipseval.evaluate_ranks(
            {"m": ranks},
            propensity=propensity_of_items,
            metrics=["recall@5"],
            estimators=estimators,
            low_ess=low_ess,
        )


def test_snips_with_one_positive_per_user_is_not_suppressed_because_it_equals_aoa():
    # One weight is 1000 times the others.
    propensity = np.array([1.0] * 99 + [0.001])
    evaluation = evaluate_small_data("nan", propensity)
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
        evaluation = evaluate_small_data("warn", np.linspace(0.5, 0.51, 30))
    assert "NOT TO BE TRUSTED" not in repr(evaluation)


def test_a_custom_estimator_is_flagged_by_its_weights():
    class Plain(Estimator):
        label = "plain"

        def sums(self, sample, metric):
            return resolve_estimator("aoa").sums(sample, metric)

        def weight_positives(self, sample):
            return np.ones(len(sample.ranked))

    diagnosis = diagnose_estimator(make_sample([1.0] * 9 + [0.01], list(range(10))), Plain())
    assert (diagnosis.ess_own, diagnosis.share_own, diagnosis.flag) == (10, 0.1, "")
    # Of 1/P: nine weights of 1 and one of 100.
    assert diagnosis.ess == pytest.approx(109**2 / 10009)


def test_an_estimator_must_define_positive_weights():
    class Silent(Estimator):
        label = "silent"

        def sums(self, sample, metric):
            return resolve_estimator("snips").sums(sample, metric)

    with pytest.raises(TypeError, match="weight_positives"):
        Silent()


def test_positives_with_a_smoothed_propensity_are_counted_with_their_weight():
    # Smoothing by 1 makes n* = 0, 3 into 1, 4: with γ = 1, w = 1, 1/4, 1 up to a factor, and 2 of 2.25 are smoothed.
    propensity = ipseval.PowerLawPropensity(gamma=1.0).fit(popularity=[0, 3])
    positives = ranked([0, 0, 1], [0, 1, 0], [0, 1, 0], n_users=2, n_items=2)
    sample = Sample(positives, propensity.for_pairs(positives.user, positives.item), False)
    diagnosis = diagnose_sample(sample, propensity)
    assert diagnosis.n_smoothed == 2
    assert diagnosis.smoothed_share == pytest.approx(2 / 2.25)
    assert diagnosis.rare_share == diagnosis.smoothed_share  # n* = 3 is not rare
    text = "2 interactions of items that no user has in training get a smoothed propensity and carry 89% of the weight"
    assert text in [str(note) for note in diagnosis.cautions]
    first, second = (WeightTotals.from_sample(sample, propensity, weighted=True) for _ in range(2))
    merged = first.merge(second).diagnostics(SampleSize.from_sample(sample), propensity)
    assert merged.n_smoothed == 4
    assert merged.smoothed_share == pytest.approx(2 / 2.25)
    unweighted = diagnose_sample(sample, propensity, weighted=False)
    assert (unweighted.n_smoothed, unweighted.cautions) == (0, ())
    dropped = ipseval.PowerLawPropensity(gamma=1.0, unseen="drop").fit(popularity=[1, 3])
    sample = Sample(positives, dropped.for_pairs(positives.user, positives.item), False)
    assert diagnose_sample(sample, dropped).n_smoothed == 0


def test_diagnostics_have_no_cautions_by_default_except_for_few_positives():
    diagnosis = WeightDiagnostics(60.0, 20.0, 0.01, 70, ess_own=60.0, share_own=0.01, ess_equal=70.0)
    assert diagnosis.cautions == ()
    assert diagnosis.weighting == "1/P"
    assert (diagnosis.n_items, diagnosis.n_smoothed, diagnosis.weighted) == (0, 0, True)
    assert (diagnosis.smoothed_share, diagnosis.clipped_share) == (0.0, 0.0)
    names = ("median_positives", "rare_share", "pareto_k", "share_equal")
    assert np.isnan([getattr(diagnosis, name) for name in names]).all()
    assert list(map(str, dataclasses.replace(diagnosis, ess_own=45.0).cautions)) == [
        "few positives, with equal weights too"
    ]


def test_unweighted_totals_have_weights_of_one():
    sample = make_sample([0.5, 0.25, 0.1], [0, 0, 1])
    totals = WeightTotals.from_sample(sample, None, weighted=False)
    assert totals.moments == WeightMoments.from_weights(np.ones(3)) == WeightMoments(3.0, 3.0, 0.0)
    assert (totals.item_weights.tolist(), totals.item_counts.tolist()) == ([1.0] * 3, [1] * 3)
    diagnosis = totals.diagnostics(SampleSize.from_sample(sample), None)
    assert (diagnosis.n_items, diagnosis.n_positives, diagnosis.ess, diagnosis.ess_items) == (3, 3, 3.0, 3.0)
    assert (diagnosis.max_weight_share, diagnosis.share_equal, diagnosis.ess_equal) == (1 / 3, 1 / 3, 3.0)
    weighted_totals = WeightTotals.from_sample(sample, None, weighted=True)
    assert weighted_totals.item_weights.tolist() == pytest.approx([2.0, 4.0, 10.0])
    # Over their largest, 10: 1.6, and 0.04 + 0.16 + 1.
    assert weighted_totals.moments.total == pytest.approx(1.6)
    assert weighted_totals.moments.squares == pytest.approx(1.2)
    assert weighted_totals.moments.log_largest == pytest.approx(math.log(10))
    assert (weighted_totals.clipped_weight, weighted_totals.unclipped_weight) == (0.0, 1.0)
