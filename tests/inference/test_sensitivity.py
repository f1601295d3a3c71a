"""R(γ), its slope and tipping points; how far a recommender leads over γ."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq

import ipseval
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import LinearForm, Sample
from ipseval.metrics import metric
from tests.inference.worlds import random_ranks, ranked
from tests.inside.estimators import resolve_estimator
from tests.inside.inference import (
    GammaRange,
    LinearGroup,
    _find_range_end,
    compute_standard_errors,
    find_gamma_ranges,
    sensitivity,
)

pytestmark = pytest.mark.filterwarnings("ignore:the median user has", "ignore:gamma = .* > 1 says")
ESTIMATORS = ("aoa", "aoa-pooled", "snips", "snips-global", "snips-pooled", "snips-shrunk(0.5)")
METRICS = ("auc", "atop", "recall@10", "mean_dcg", "dcg@10", "precision@10", "ndcg@10", "ap", "rr")


def power_law(popularity, gamma, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ipseval.errors.IdentificationWarning)
        return ipseval.PowerLawPropensity(gamma=gamma, **options).fit(popularity=popularity)


def evaluated(seed=0, gamma=0.0, metrics=METRICS, estimators=ESTIMATORS, scale=None, **options):
    ranks, popularity = random_ranks(seed, **options)
    return ipseval.evaluate_ranks(
        ranks,
        propensity=power_law(popularity, gamma, scale=scale),
        metrics=metrics,
        estimators=estimators,
        low_ess="ignore",
    )


STEPS = {
    "clip": lambda one: one.clip(floor=0.2),
    "held_out": lambda one: one.held_out(test_fraction=0.2, counted_on="log"),
}
FEW = {"metrics": ("atop", "recall@3", "rr"), "estimators": (*ESTIMATORS, "ips"), "n_relevant": 20}


@pytest.mark.parametrize(
    ("scale", "steps", "options"),
    [
        # With P on the scale of probabilities the pooled auc takes another form, and scale="max" stays "max".
        (None, (), {"metrics": METRICS, "estimators": ESTIMATORS}),
        ("max", (), {"metrics": ("auc", "recall@10", "ap"), "estimators": ESTIMATORS}),
        *(("max", steps, FEW) for steps in itertools.permutations(STEPS)),
    ],
)
def test_the_grid_equals_separate_evaluations_at_each_gamma_whatever_the_steps(scale, steps, options):
    ranks, popularity = random_ranks(0, models=1, n_users=20, n_items=30)

    def evaluation(gamma):
        made = power_law(popularity, gamma, scale=scale)
        for name in steps:
            made = STEPS[name](made)
        return ipseval.evaluate_ranks(ranks, propensity=made, low_ess="ignore", **options)

    grid = [-1.0, 1.7]
    frame = evaluation(0.0).sensitivity(grid).frame
    for gamma in grid:
        one, ours = evaluation(gamma).frame, frame[frame["gamma"] == gamma]
        names = ["model", "metric", "estimator"]
        assert ours[names].to_numpy().tolist() == one[names].to_numpy().tolist()
        np.testing.assert_allclose(ours["estimate"], one["estimate"], rtol=1e-10)
        np.testing.assert_allclose(ours["std_error"], one["std_error"], rtol=1e-8)
        np.testing.assert_allclose(ours["ci_low"], one["ci_low"], rtol=1e-8, atol=1e-12)


def test_equal_users_have_no_error_at_any_gamma():
    # Both users have their positives at the top, the rarer one first: every value is 1.
    ranks = {"a": ranked([0, 0, 1, 1], [0, 1, 0, 2], [1, 0, 1, 0], n_users=2, n_items=5)}
    evaluation = ipseval.evaluate_ranks(
        ranks,
        propensity=power_law([4, 1, 2, 1, 1], 0.0),
        metrics=("ndcg@2", "recall@2"),
        estimators=("snips-global", "snips-pooled"),
        low_ess="ignore",
    )
    frame = evaluation.sensitivity(np.linspace(-1, 3, 9)).frame
    np.testing.assert_allclose(frame["estimate"], 1, rtol=1e-14)
    np.testing.assert_allclose(frame["std_error"], 0, atol=1e-14)


def test_the_derivative_equals_the_numerical_one():
    linear = tuple(name for name in METRICS if name not in ("precision@10", "ndcg@10", "ap", "rr"))
    evaluation = evaluated(metrics=linear, estimators=ESTIMATORS[:-1])
    at, step = np.array([-0.5, 0.8, 2.0]), 1e-4
    derivative = evaluation.sensitivity(at, standard_errors=False).frame["derivative"].to_numpy()
    below, above = (
        evaluation.sensitivity(at + shift, standard_errors=False).frame["estimate"].to_numpy()
        for shift in (-step, step)
    )
    np.testing.assert_allclose(derivative, (above - below) / (2 * step), atol=1e-6)
    assert np.abs(derivative).max() > 0.01


def test_the_derivative_is_nan_where_the_estimate_is_not_linear_and_zero_without_weights():
    frame = evaluated(metrics=("recall@10", "ndcg@10")).sensitivity([0, 1], standard_errors=False).frame
    by = frame.set_index(["metric", "estimator"]).sort_index()["derivative"]
    assert by.loc[("ndcg@10", "snips")].isna().all()
    assert (by.loc[("recall@10", "aoa")] == 0).all()
    assert (by.loc[("ndcg@10", "aoa")] == 0).all()


def two_items(hits: dict[str, tuple[int, int]]) -> ipseval.Evaluation:
    """One user with a positive on item 0 (n* = 4) and one on item 1 (n* = 1); 1 where its rank is 1."""
    ranks = {
        name: ranked([0, 0], [0, 1], [0 if hit else 2 for hit in pair], n_users=1, n_items=5)
        for name, pair in hits.items()
    }
    return ipseval.evaluate_ranks(
        ranks,
        propensity=ipseval.PowerLawPropensity(gamma=0.0).fit(popularity=[4, 1, 1, 1, 1]),
        metrics=("recall@1",),
        estimators=("snips-pooled",),
        low_ess="ignore",
    )


def test_a_hand_worked_curve_and_slope():
    # w = 4^(−(γ+1)/2) and 1. R = w/(w + 1) for the recommender that hits item 0:
    # γ = 0: w = ½, R = ⅓; dR/dγ = −½ ln 4 · w/(1 + w)² = −½ · 1.386294 · ½/2.25 = −.154033.
    frame = two_items({"a": (1, 0)}).sensitivity([0.0, 1.0]).frame.set_index("gamma")
    assert frame.loc[0.0, "estimate"] == pytest.approx(1 / 3)
    assert frame.loc[1.0, "estimate"] == pytest.approx(0.2)
    assert frame.loc[0.0, "derivative"] == pytest.approx(-0.1540327, abs=1e-7)


def test_equal_recommenders_never_tip():
    found = two_items({"a": (1, 0), "b": (1, 0)})
    row = found.tipping_points().iloc[0]
    assert (row["n_tipping"], row["statement"]) == (0, "a = b for all γ in [−1, 3]")
    assert [one.n_keys for one in found.sensitivity([0, 1]).tables().parts] == [2]  # the statement is no name


def test_tipping_points_equal_brute_force_over_a_fine_grid():
    evaluation = evaluated(0, metrics=("atop", "ndcg@10"), estimators=("snips", "snips-pooled"), n_users=30)
    fine = np.linspace(-1, 3, 33)
    frame = evaluation.sensitivity(fine, standard_errors=False).frame
    values = {
        key: part["estimate"].to_numpy() for key, part in frame.groupby(["model", "metric", "estimator"])
    }
    n_found = 0
    for row in evaluation.tipping_points(np.linspace(-1, 3, 17)).itertuples():
        key = (row.metric, row.estimator)
        gap = values[row.model, *key] - values[row.other, *key]
        swaps = np.flatnonzero(np.sign(gap[:-1]) * np.sign(gap[1:]) < 0)
        assert row.n_tipping == swaps.size
        for point, place in zip(row.tipping_points, swaps, strict=True):
            assert fine[place] <= point <= fine[place + 1]
        n_found += swaps.size
    assert n_found > 0


def test_sensitivity_needs_a_power_law():
    ranks, popularity = random_ranks(0)
    known = ipseval.KnownPropensity(item=np.full(popularity.size, 0.5)).fit(next(iter(ranks.values())))
    evaluation = ipseval.evaluate_ranks(ranks, propensity=known, metrics=("atop",), low_ess="ignore")
    with pytest.raises(PropensityError, match="needs a power-law propensity"):
        evaluation.sensitivity()


def test_derivatives_follow_the_steps():
    ranks, popularity = random_ranks(0)
    one = power_law(popularity, 0.0, scale="max").clip(floor=0.4)
    evaluation = ipseval.evaluate_ranks(
        ranks, propensity=one, metrics=("atop",), estimators=("snips", "snips-global"), low_ess="ignore"
    )
    frame = evaluation.sensitivity([0.3 - 1e-5, 0.3, 0.3 + 1e-5]).frame
    for _, part in frame.groupby(["model", "estimator"]):
        low, _, high = part.estimate
        assert part.derivative.iloc[1] == pytest.approx((high - low) / 2e-5, abs=1e-7)


@pytest.mark.parametrize(
    ("gamma", "words"), [([1.0], "at least two different"), ([0.0, np.nan], "finite"), ("x", "numbers")]
)
def test_bad_grids_are_refused(gamma, words):
    ranks, popularity = random_ranks(0, models=1)
    propensity = power_law(popularity, 0.0)
    samples = {name: Sample(one, propensity.at(one.user, one.item)) for name, one in ranks.items()}
    with pytest.raises(InputError, match=words):
        sensitivity(samples, [metric("atop")], [resolve_estimator("snips")], propensity, gamma=gamma)


def test_tipping_points_of_one_recommender_are_those_rows_of_all_pairs():
    evaluation = two_items({"a": (1, 0), "b": (0, 1), "c": (1, 1)})
    every = evaluation.tipping_points()
    some = evaluation.tipping_points(reference="b")
    with_b = every[(every["model"] == "b") | (every["other"] == "b")].reset_index(drop=True)
    pd.testing.assert_frame_equal(some, with_b, check_exact=True)
    assert 0 < len(some) < len(every)
    with pytest.raises(ipseval.errors.UnknownNameError, match="reference"):
        evaluation.tipping_points(reference="no")


def test_the_rows_of_a_sensitivity_are_numbered_through():
    frame = two_items({"a": (1, 0), "b": (0, 1)}).sensitivity([0.0, 1.0]).frame
    assert frame.index.tolist() == [0, 1, 2, 3]


ITEMS = [0, 1, 0]


def three_positives(gamma: float, hits: dict[str, tuple[int, int, int]], metrics=("recall@1",)):
    """Return recommenders that hit, or not, user 0's items 0 and 1 and user 1's item 0; n* = 4 and 1."""
    ranks = {
        name: ranked([0, 0, 1], ITEMS, [0 if hit else 2 for hit in found], n_users=2, n_items=5)
        for name, found in hits.items()
    }
    return ipseval.evaluate_ranks(
        ranks,
        propensity=ipseval.PowerLawPropensity(gamma=gamma).fit(popularity=[4, 1, 1, 1, 1]),
        metrics=metrics,
        estimators=("snips-pooled", "aoa", "snips"),
        low_ess="ignore",
    )


def ranges(gamma, hits, metrics=("recall@1",), estimator=0):
    """Return the ranges of γ around one value in which the recommender that is first there stays first."""
    result = three_positives(0.5, hits, metrics)
    chosen, estimators = result.definitions
    return find_gamma_ranges(result.samples, chosen, estimators[estimator], result.propensity, gamma)


# Weights of the items are 4^(−(γ+1)/2) and 1: two positives of item 0 weigh 2·2^(−(γ+1)) = 2^(−γ).
HEAD, TAIL, BOTH, NONE = (1, 0, 1), (0, 1, 0), (1, 1, 1), (0, 0, 0)


LINES = {"first": (0.0, 0.0), "early": (1.0, -0.2), "late": (3.0, -1.8)}  # slope, and value at 0


class Lines:
    """Estimates that are linear in γ."""

    def find_crossing(self, one, other, start, end, tolerance):
        return brentq(lambda gamma: self.at(one, gamma) - self.at(other, gamma), start, end)

    def at(self, key, gamma):
        slope, value = LINES[key]
        return slope * gamma + value


@pytest.mark.parametrize(
    ("gamma", "hits", "expected"),
    [
        (-0.5, {"head": HEAD, "tail": TAIL}, GammaRange("head", -1.0, 0.0, -1.0, 3.0, "", "tail")),
        (0.55, {"head": HEAD, "tail": TAIL}, GammaRange("tail", 0.0, 3.0, -1.0, 3.0, "head", "")),
        (0.5, {"both": BOTH, "tail": TAIL, "none": NONE}, GammaRange("both", -1.0, 3.0, -1.0, 3.0)),
        (
            0.5,
            {"none": NONE, "tail": TAIL, "head": HEAD},
            GammaRange("tail", 0.0, 3.0, -1.0, 3.0, "head", ""),
        ),
        (-2.5, {"head": HEAD, "tail": TAIL}, GammaRange("head", -2.5, 0.0, -2.5, 3.0, "", "tail")),
        (4.5, {"head": HEAD, "tail": TAIL}, GammaRange("tail", 0.0, 4.5, -1.0, 4.5, "head", "")),
    ],
)
def test_the_range_of_a_first_place_ends_at_a_swap_or_where_the_grid_ends(gamma, hits, expected):
    found = ranges(gamma, hits)["recall@1"]
    assert (found.first, found.next_below, found.next_above) == (
        expected.first,
        expected.next_below,
        expected.next_above,
    )
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=0.003)
    assert (found.lowest, found.highest) == (expected.lowest, expected.highest)
    assert found.is_everywhere == expected.is_everywhere


def test_the_first_rival_to_catch_up_takes_over_also_where_another_is_ahead_at_the_next_value():
    curves = Lines()
    gamma = np.array([0.0, 1.0])
    curve = {key: curves.at(key, gamma) for key in LINES}
    assert _find_range_end(curves, gamma, "first", curve) == (
        pytest.approx(0.2),
        "e",
    )  # the first letter of "early"
    undefined = {"first": curve["first"], "early": np.array([-0.2, np.nan])}
    assert _find_range_end(curves, gamma, "first", undefined) == (1.0, "")


def test_there_is_no_range_where_two_are_tied_and_where_there_is_one_recommender():
    assert ranges(0.5, {"a": HEAD, "b": HEAD}) == {}
    assert ranges(0.5, {"a": HEAD}) == {}


def test_metrics_that_are_computed_anew_end_at_the_same_swap_as_those_that_are_not():
    # A user's rr is 1 or 1/3 whatever the weights; users weigh Σw: 2^−(γ+1) + 1 and 2^−(γ+1).
    found = ranges(0.5, {"head": HEAD, "tail": TAIL}, ("rr", "recall@1"))
    assert (found["recall@1"].first, found["rr"].first) == ("tail", "head")
    assert found["recall@1"].low == pytest.approx(0.0, abs=0.003)
    assert found["rr"].is_everywhere


@pytest.mark.parametrize(
    ("gamma", "statement"),
    [
        (-0.5, "head > tail holds for γ in [−1, 0]"),
        (1.0, "tail > head holds for γ in [0, 3]"),
        (5.0, "head > tail holds for γ in [−1, 0]"),  # beyond what was tried: the lowest γ says who is named
    ],
)
def test_a_swap_of_three_positives_stands_in_words_on_both_sides(gamma, statement):
    found = three_positives(gamma, {"head": HEAD, "tail": TAIL}).tipping_points(np.linspace(-1, 3, 9))
    frame = found.set_index("estimator")
    pooled = frame.loc["snips-pooled"]
    assert (pooled["statement"], f"{pooled['model']} > {pooled['other']}") == (statement, statement[:11])
    assert pooled["tipping_points"] == pytest.approx((0.0,), abs=1e-9)
    assert frame.loc["aoa", "statement"] == "head > tail holds for all γ in [−1, 3]"


FORMS = {
    "per user": {"per_user": True},
    "sum per user": {"per_user": True, "is_sum": True},
    "equal users": {"per_user": False, "users_equal": True},
    "pooled": {"per_user": False},
    "sum": {"per_user": False, "is_sum": True},
}


def written_out(form, contributions, weights):
    """The error, with ψ = N̄/D̄ · dV + V̄ (dN − R dD)/D̄ of units, as in a ratio of three means."""
    ranked = form.ranked
    n_queries, unit = ranked.users.size, ranked.unit(ranked.users)
    numerators, denominators, volumes = [], [], []
    for query in ranked.users:
        mine = ranked.user == query
        own = 1.0 if form.own is None else form.own[mine]
        w, c, count = own * weights[mine], contributions[mine], mine.sum()
        if form.per_user:
            numerators.append((count if form.is_sum else 1) * (w @ c) / w.sum())
            denominators.append(1.0)
        else:
            base = 1 / count if form.users_equal else 1.0
            numerators.append(base * (w @ c))
            denominators.append(base * w.sum())
        volumes.append(float(count) if form.is_sum and not form.per_user else 1.0)
    numerator, denominator = np.array(numerators), np.array(denominators)[:, None]
    volume = np.array(volumes)[:, None]
    ratio = numerator.mean(axis=0) / denominator.mean()
    psi = volume.mean() * (numerator - ratio * denominator) / denominator.mean()
    psi += ratio * (volume - volume.mean())
    added = np.array([psi[unit == one].sum(axis=0) for one in np.unique(unit)])
    added *= len(added) / n_queries
    return np.sqrt((added**2).sum(axis=0) / (len(added) * (len(added) - 1)))


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_errors_equal_those_written_out(own, clustered):
    ranks, popularity = random_ranks(3, models=1)
    (ranked,) = ranks.values()
    rng = np.random.default_rng(0)
    if clustered:
        owners = rng.integers(25, size=ranked.n_population)
        ranked = replace(ranked, cluster=owners, cluster_ids=np.arange(25))
    weights = popularity[ranked.item] ** -0.4
    weight_of_own = None
    if own:  # one user has none
        weight_of_own = rng.random(len(ranked)) * (ranked.user != ranked.users[4])
    for options in FORMS.values():
        if own and options["per_user"]:
            continue
        form = LinearForm(ranked, weighted=True, own=weight_of_own, **options)
        contributions = rng.random((len(ranked), 2))
        found = compute_standard_errors(LinearGroup(form, (("m", "c", "e"),) * 2, contributions), weights)
        np.testing.assert_allclose(found, written_out(form, contributions, weights), rtol=1e-12)
