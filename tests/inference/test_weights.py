"""Weight diagnostics, worked by hand and merged by parts, and what on_low_ess does with them."""

from __future__ import annotations

import dataclasses
import math
import warnings

import numpy as np
import pytest

import ipseval
from ipseval.errors import InputError, PositivityWarning, PropensityError
from ipseval.estimators import Sample
from tests.inference.worlds import random_ranks, ranked
from tests.inside.estimators import Extent, resolve_estimator
from tests.inside.inference import AllWeights, Weighed, WeightDiagnostics, WeightTotals, effective_sample_size


def of_sample(sample, propensity, *, weighted=True):
    totals = WeightTotals.of(sample, propensity, weighted=weighted)
    return totals.diagnostics(Extent.of(sample), propensity)


def diagnostics_of(popularity, floor=None, weighted=True):
    """Users 0, 0, 1 with items 0, 1, 0 at ranks 1, 2, 1; P ∝ n* (γ = 1)."""
    propensity = ipseval.PowerLawPropensity(gamma=1.0, scale="max").fit(popularity=popularity)
    if floor is not None:
        propensity = propensity.clip(floor=floor)
    positives = ranked([0, 0, 1], [0, 1, 0], [0, 1, 0], n_users=2, n_items=2)
    sample = Sample(positives, propensity.at(positives.user, positives.item), True)
    return of_sample(sample, propensity, weighted=weighted)


def test_hand_worked_diagnostics():
    # n* = 8 and 2, so w = 1, 4, 1: Σw = 6, Σw² = 18. Item totals 2 and 4: (6)²/(4 + 16).
    one = diagnostics_of([8, 2])
    assert one.ess == pytest.approx(36 / 18)
    assert one.ess_items == pytest.approx(36 / 20)
    assert one.max_weight_share == pytest.approx(4 / 6)
    assert one.rare_share == pytest.approx(4 / 6)
    assert one.median_positives == 1.5
    assert (one.n_positives, one.n_items, one.clipped_share) == (3, 2, 0.0)
    assert math.isnan(one.pareto_k)


def test_the_clipped_share_is_what_clipping_cut():
    # P = 1 and ¼, raised to ½: w = 1, 2, 1 instead of 1, 4, 1, so 2 of 6 are cut.
    assert diagnostics_of([8, 2], floor=0.5).clipped_share == pytest.approx(2 / 6)


def test_equal_weights_give_the_share_of_positives_on_rare_items():
    one = diagnostics_of([8, 2], floor=0.5, weighted=False)
    assert (one.rare_share, one.clipped_share, one.ess) == (pytest.approx(1 / 3), 0.0, 3.0)


def test_the_rare_share_is_nan_where_popularity_is_not_known():
    positives = ranked([0], [0], [0], n_users=1, n_items=2)
    known = ipseval.KnownPropensity(item=[0.5, 0.5]).fit(positives)
    sample = Sample(positives, np.array([0.5]), True)
    assert math.isnan(of_sample(sample, known).rare_share)


def test_cautions_are_said_in_words():
    one = dataclasses.replace(diagnostics_of([8, 2]), rare_share=0.52, pareto_k=0.81, clipped_share=0.25)
    assert one.cautions == (
        "few positives, with equal weights too",
        "52% of the weight is on items with at most 2 interactions",
        "heavy-tailed weights of items (Pareto k = 0.81)",
        "clipping cut 25% of the weight",
    )
    assert dataclasses.replace(one, weighted=False).cautions == ()


@pytest.mark.parametrize(("limit", "name"), [(0.5, "rare_share"), (0.7, "pareto_k"), (0.2, "clipped_share")])
def test_cautions_begin_above_their_limits(limit, name):
    low = dict.fromkeys(("rare_share", "pareto_k", "clipped_share"), 0.0)
    for value, expected in ((limit - 0.01, 0), (limit, 0), (limit + 0.01, 1)):
        one = dataclasses.replace(diagnostics_of([8, 2]), ess_own=50.0, **(low | {name: value}))
        assert len(one.cautions) == expected


def test_few_positives_are_a_caution_unless_the_weights_are_flagged_for_it():
    one = dataclasses.replace(diagnostics_of([8, 2]), rare_share=0.0)
    for own, equal, said in ((50.0, 60.0, 0), (49.9, 60.0, 1), (24.0, 60.0, 0)):
        found = dataclasses.replace(one, ess_own=own, ess_equal=equal, share_own=0.01, share_equal=0.01)
        assert len(found.cautions) == said
    assert "less than the 30 needed" in found.flag


def steep(on_low_ess: str) -> ipseval.Evaluation:
    ranks, popularity = random_ranks(1)
    # One item is rare, all others are not: its few positives weigh as much as hundreds of others.
    popularity = np.append(popularity[:-1] + 20, 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ipseval.errors.IdentificationWarning)
        propensity = ipseval.PowerLawPropensity(gamma=3.0).fit(popularity=popularity)
    return ipseval.evaluate_ranks(
        ranks,
        propensity=propensity,
        metrics=("atop",),
        estimators=("aoa", "snips-pooled"),
        on_low_ess=on_low_ess,
    )


def test_few_effective_positives_warn():
    with pytest.warns(PositivityWarning, match=r"snips-pooled: effective sample size"):
        steep("warn")


def test_few_effective_positives_raise_where_asked():
    with pytest.raises(PropensityError, match=r"effective sample size .*on_low_ess='warn'"):
        steep("raise")


def test_few_effective_positives_are_suppressed_where_asked_and_the_note_says_so():
    evaluation = steep("nan")
    frame = evaluation.frame.set_index(["estimator", "model"])
    hidden = frame.loc["snips-pooled"]
    assert hidden[["estimate", "std_error", "ci_low", "ci_high"]].isna().all(axis=None)
    assert hidden["note"].str.contains("suppressed: effective sample size").all()
    assert frame.loc["aoa"]["estimate"].notna().all()
    assert "suppressed" in repr(evaluation)
    compared = evaluation.compare().set_index("estimator")
    assert compared.loc["snips-pooled", "p_value"].isna().all()
    assert compared.loc["aoa", "p_value"].notna().all()


def test_the_frame_shows_trust_beside_each_number_and_print_flags_it_in_words():
    evaluation = steep("ignore")
    frame = evaluation.frame.set_index("estimator")
    assert (frame.loc["snips-pooled", "ess"] < 50).all()
    assert (frame.loc["aoa", "ess"] == len(evaluation.samples["m0"].ranked)).all()
    assert frame.loc["snips-pooled", "max_weight_share"].between(0, 1).all()
    assert frame.loc["snips-pooled", "note"].str.contains("effective sample size").all()
    assert frame["claim"].str.len().gt(0).all()
    assert " were right, unreliable" in repr(evaluation)
    printed = repr(evaluation.explain())
    assert "unreliable, see the warning above: snips-pooled" in printed
    assert "Unreliable: snips-pooled. Effective sample size" in printed


def test_the_diagnostics_frame_has_one_row_per_estimator():
    frame = steep("ignore").diagnostics
    assert frame["estimator"].tolist() == ["aoa", "snips-pooled"]
    columns = {"ess", "ess_items", "max_weight_share", "rare_share", "pareto_k", "clipped_share"}
    assert columns | {"median_positives", "flag", "cautions"} <= set(frame.columns)
    assert frame["flag"].tolist()[0] == ""


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
