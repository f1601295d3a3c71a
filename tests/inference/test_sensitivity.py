"""R(γ), its slope and tipping points, and the range of γ in which a recommender is first."""

from __future__ import annotations

import itertools
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq

import ipseval
from ipseval.errors import InputError, PropensityError
from ipseval.estimators import LinearForm, Sample
from ipseval.metrics import metric
from ipseval.reporting.tables import Remark
from tests.estimators.labels import OF_POSITIVES, OF_RELATIVE_PROPENSITIES
from tests.inference.worlds import random_ranks, ranked
from tests.inside.estimators import resolve_estimator
from tests.inside.inference import (
    GammaCurves,
    GammaRange,
    LinearGroup,
    Sensitivity,
    _find_range_end,
    compute_standard_errors,
    find_gamma_ranges,
    sensitivity,
)

pytestmark = pytest.mark.filterwarnings("ignore:the median user has", "ignore:gamma = .* > 1 implies")
METRICS = ("auc", "atop", "recall@10", "mean_dcg", "dcg@10", "precision@10", "ndcg@10", "ap", "rr")


def power_law(popularity, gamma, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ipseval.errors.IdentificationWarning)
        return ipseval.PowerLawPropensity(gamma=gamma, **options).fit(popularity=popularity)


def evaluate_random_ranks(
    seed=0, gamma=0.0, metrics=METRICS, estimators=OF_RELATIVE_PROPENSITIES, scale=None, **options
):
    ranks, popularity = random_ranks(seed, **options)
    return ipseval.evaluate_ranks(
        ranks,
        propensity=power_law(popularity, gamma, scale=scale),
        metrics=metrics,
        estimators=estimators,
        low_ess="ignore",
    )


STEPS = {
    "clip": lambda propensity: propensity.clip(floor=0.2),
    "held_out": lambda propensity: propensity.held_out(test_fraction=0.2, popularity_source="log"),
}
FEW = {"metrics": ("atop", "recall@3", "rr"), "estimators": OF_POSITIVES, "n_relevant": 20}


@pytest.mark.parametrize(
    ("scale", "steps", "options"),
    [
        # With P on the scale of probabilities the pooled auc takes another form, and scale="max" stays "max".
        (None, (), {"metrics": METRICS, "estimators": OF_RELATIVE_PROPENSITIES}),
        ("max", (), {"metrics": ("auc", "recall@10", "ap"), "estimators": OF_RELATIVE_PROPENSITIES}),
        *(("max", steps, FEW) for steps in itertools.permutations(STEPS)),
    ],
)
def test_the_grid_equals_separate_evaluations_at_each_gamma_whatever_the_steps(scale, steps, options):
    ranks, popularity = random_ranks(0, models=1, n_users=20, n_items=30)

    def evaluate_at(gamma):
        propensity = power_law(popularity, gamma, scale=scale)
        for name in steps:
            propensity = STEPS[name](propensity)
        return ipseval.evaluate_ranks(ranks, propensity=propensity, low_ess="ignore", **options)

    grid = [-1.0, 1.7]
    frame = evaluate_at(0.0).sensitivity(grid).frame
    for gamma in grid:
        separate = evaluate_at(gamma).frame
        rows = frame[frame["gamma"] == gamma]
        names = ["model", "metric", "estimator"]
        assert rows[names].to_numpy().tolist() == separate[names].to_numpy().tolist()
        np.testing.assert_allclose(rows["estimate"], separate["estimate"], rtol=1e-10)
        np.testing.assert_allclose(rows["std_error"], separate["std_error"], rtol=1e-8)
        np.testing.assert_allclose(rows["ci_low"], separate["ci_low"], rtol=1e-8, atol=1e-12)


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


def test_the_derivative_equals_the_numerical_derivative():
    linear = tuple(name for name in METRICS if name not in ("precision@10", "ndcg@10", "ap", "rr"))
    (positives,) = random_ranks(0, models=1)[0].values()
    with_linear_form = []
    for label in OF_RELATIVE_PROPENSITIES:
        if resolve_estimator(label).linear_form(metric("atop"), positives) is not None:
            with_linear_form.append(label)
    assert set(with_linear_form) >= {"aoa", "aoa-pooled", "snips", "snips-global", "snips-pooled"}
    evaluation = evaluate_random_ranks(metrics=linear, estimators=with_linear_form)
    gammas = np.array([-0.5, 0.8, 2.0])
    step = 1e-4
    derivative = evaluation.sensitivity(gammas, standard_errors=False).frame["derivative"].to_numpy()
    lower, upper = (
        evaluation.sensitivity(gammas + shift, standard_errors=False).frame["estimate"].to_numpy()
        for shift in (-step, step)
    )
    np.testing.assert_allclose(derivative, (upper - lower) / (2 * step), atol=1e-6)
    assert np.abs(derivative).max() > 0.01


def test_the_derivative_is_nan_where_the_estimate_is_not_linear_and_zero_without_weights():
    frame = (
        evaluate_random_ranks(metrics=("recall@10", "ndcg@10"))
        .sensitivity([0, 1], standard_errors=False)
        .frame
    )
    derivative = frame.set_index(["metric", "estimator"]).sort_index()["derivative"]
    assert derivative.loc[("ndcg@10", "snips")].isna().all()
    assert (derivative.loc[("recall@10", "aoa")] == 0).all()
    assert (derivative.loc[("ndcg@10", "aoa")] == 0).all()


def evaluate_two_items(hits: dict[str, tuple[int, int]]) -> ipseval.Evaluation:
    """Evaluate one user with positives on item 0 (n* = 4) and item 1 (n* = 1); a hit has rank 1."""
    ranks = {
        name: ranked([0, 0], [0, 1], [0 if hit else 2 for hit in pair], n_users=1, n_items=5)
        for name, pair in hits.items()
    }
    return ipseval.evaluate_ranks(
        ranks,
        propensity=ipseval.PowerLawPropensity(gamma=0.0, unseen="drop").fit(popularity=[4, 1, 1, 1, 1]),
        metrics=("recall@1",),
        estimators=("snips-pooled",),
        low_ess="ignore",
    )


def test_a_hand_worked_curve_and_slope():
    # w = 4^(−(γ+1)/2) and 1. R = w/(w + 1) for the recommender that hits item 0:
    # γ = 0: w = ½, R = ⅓; dR/dγ = −½ ln 4 · w/(1 + w)² = −½ · 1.386294 · ½/2.25 = −.154033.
    frame = evaluate_two_items({"a": (1, 0)}).sensitivity([0.0, 1.0]).frame.set_index("gamma")
    assert frame.loc[0.0, "estimate"] == pytest.approx(1 / 3)
    assert frame.loc[1.0, "estimate"] == pytest.approx(0.2)
    assert frame.loc[0.0, "derivative"] == pytest.approx(-0.1540327, abs=1e-7)


def test_equal_recommenders_have_no_tipping_point():
    evaluation = evaluate_two_items({"a": (1, 0), "b": (1, 0)})
    row = evaluation.tipping_points().iloc[0]
    assert (row["n_tipping"], row["statement"]) == (0, "a = b for all γ in [−1, 3]")
    assert [table.n_keys for table in evaluation.sensitivity([0, 1]).tables().parts] == [
        2
    ]  # the statement is no name


def test_tipping_points_equal_brute_force_over_a_fine_grid():
    evaluation = evaluate_random_ranks(
        0, metrics=("atop", "ndcg@10"), estimators=("snips", "snips-pooled"), n_users=30
    )
    fine_grid = np.linspace(-1, 3, 33)
    frame = evaluation.sensitivity(fine_grid, standard_errors=False).frame
    values = {
        key: part["estimate"].to_numpy() for key, part in frame.groupby(["model", "metric", "estimator"])
    }
    n_found = 0
    for row in evaluation.tipping_points(np.linspace(-1, 3, 17)).itertuples():
        key = (row.metric, row.estimator)
        gap = values[row.model, *key] - values[row.other, *key]
        swaps = np.flatnonzero(np.sign(gap[:-1]) * np.sign(gap[1:]) < 0)
        assert row.n_tipping == swaps.size
        for point, index in zip(row.tipping_points, swaps, strict=True):
            assert fine_grid[index] <= point <= fine_grid[index + 1]
        n_found += swaps.size
    assert n_found > 0


def test_sensitivity_needs_a_power_law():
    ranks, popularity = random_ranks(0)
    propensity = ipseval.KnownPropensity(item=np.full(popularity.size, 0.5)).fit(next(iter(ranks.values())))
    evaluation = ipseval.evaluate_ranks(ranks, propensity=propensity, metrics=("atop",), low_ess="ignore")
    with pytest.raises(PropensityError, match="needs a power-law propensity"):
        evaluation.sensitivity()


def test_derivatives_account_for_clipping():
    ranks, popularity = random_ranks(0)
    propensity = power_law(popularity, 0.0, scale="max").clip(floor=0.4)
    evaluation = ipseval.evaluate_ranks(
        ranks,
        propensity=propensity,
        metrics=("atop",),
        estimators=("snips", "snips-global"),
        low_ess="ignore",
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
    samples = {
        name: Sample(positives, propensity.for_pairs(positives.user, positives.item))
        for name, positives in ranks.items()
    }
    with pytest.raises(InputError, match=words):
        sensitivity(samples, [metric("atop")], [resolve_estimator("snips")], propensity, gamma=gamma)


def test_tipping_points_of_a_reference_are_its_rows_among_all_pairs():
    evaluation = evaluate_two_items({"a": (1, 0), "b": (0, 1), "c": (1, 1)})
    all_rows = evaluation.tipping_points()
    rows_of_b = evaluation.tipping_points(reference="b")
    expected_rows = all_rows[(all_rows["model"] == "b") | (all_rows["other"] == "b")].reset_index(drop=True)
    pd.testing.assert_frame_equal(rows_of_b, expected_rows, check_exact=True)
    assert 0 < len(rows_of_b) < len(all_rows)
    with pytest.raises(ipseval.errors.UnknownNameError, match="reference"):
        evaluation.tipping_points(reference="no")


def test_the_rows_of_a_sensitivity_are_numbered_consecutively():
    frame = evaluate_two_items({"a": (1, 0), "b": (0, 1)}).sensitivity([0.0, 1.0]).frame
    assert frame.index.tolist() == [0, 1, 2, 3]


ITEMS = [0, 1, 0]


def evaluate_three_positives(gamma: float, hits: dict[str, tuple[int, int, int]], metrics=("recall@1",)):
    """Evaluate recommenders that rank, or do not rank, items 0 and 1 of user 0 and item 0 of user 1 first."""
    ranks = {
        name: ranked([0, 0, 1], ITEMS, [0 if hit else 2 for hit in hits_of_model], n_users=2, n_items=5)
        for name, hits_of_model in hits.items()
    }
    return ipseval.evaluate_ranks(
        ranks,
        propensity=ipseval.PowerLawPropensity(gamma=gamma, unseen="drop").fit(popularity=[4, 1, 1, 1, 1]),
        metrics=metrics,
        estimators=("snips-pooled", "aoa", "snips"),
        low_ess="ignore",
    )


def find_ranges(gamma, hits, metrics=("recall@1",), estimator=0):
    """Return the ranges of γ around `gamma` in which the same recommender is first."""
    result = evaluate_three_positives(0.5, hits, metrics)
    all_metrics, estimators = result.definitions
    return find_gamma_ranges(result.samples, all_metrics, estimators[estimator], result.propensity, gamma)


# Weights of the items are 4^(−(γ+1)/2) and 1: two positives of item 0 weigh 2·2^(−(γ+1)) = 2^(−γ).
HEAD = (1, 0, 1)
TAIL = (0, 1, 0)
BOTH = (1, 1, 1)
NONE = (0, 0, 0)


LINES = {"first": (0.0, 0.0), "early": (1.0, -0.2), "late": (3.0, -1.8)}  # slope, and value at 0


class Lines:
    """Estimates that are linear in γ."""

    def find_crossing(self, first, second, start, end):
        return brentq(lambda gamma: self.at(first, gamma) - self.at(second, gamma), start, end)

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
def test_the_range_of_the_first_recommender_ends_at_a_swap_or_at_the_end_of_the_grid(gamma, hits, expected):
    gamma_range = find_ranges(gamma, hits)["recall@1"]
    assert (gamma_range.highest_model, gamma_range.next_below, gamma_range.next_above) == (
        expected.highest_model,
        expected.next_below,
        expected.next_above,
    )
    assert (gamma_range.low, gamma_range.high) == pytest.approx((expected.low, expected.high), abs=0.003)
    assert (gamma_range.lowest, gamma_range.highest) == (expected.lowest, expected.highest)
    assert gamma_range.is_everywhere == expected.is_everywhere


def test_the_first_recommender_that_overtakes_is_named_also_where_another_is_higher_at_the_next_value():
    curves = Lines()
    gamma = np.array([0.0, 1.0])
    curve = {key: curves.at(key, gamma) for key in LINES}
    assert _find_range_end(curves, gamma, "first", curve) == (
        pytest.approx(0.2),
        "e",
    )  # the first letter of "early"
    undefined_curve = {"first": curve["first"], "early": np.array([-0.2, np.nan])}
    assert _find_range_end(curves, gamma, "first", undefined_curve) == (1.0, "")


def test_there_is_no_range_for_tied_recommenders_and_for_a_single_recommender():
    assert find_ranges(0.5, {"a": HEAD, "b": HEAD}) == {}
    assert find_ranges(0.5, {"a": HEAD}) == {}


def test_ranges_of_nonlinear_metrics_are_found_next_to_ranges_of_linear_metrics():
    # A user's rr is 1 or 1/3 whatever the weights; users weigh Σw: 2^−(γ+1) + 1 and 2^−(γ+1).
    gamma_ranges = find_ranges(0.5, {"head": HEAD, "tail": TAIL}, ("rr", "recall@1"))
    assert (gamma_ranges["recall@1"].highest_model, gamma_ranges["rr"].highest_model) == ("tail", "head")
    assert gamma_ranges["recall@1"].low == pytest.approx(0.0, abs=0.003)
    assert gamma_ranges["rr"].is_everywhere


def test_the_grid_of_ranges_has_steps_of_a_tenth_and_of_one_for_nonlinear_metrics(monkeypatch):
    grids = []
    compute_values = GammaCurves.compute_values

    def record_grid(curves, gamma, **options):
        grids.append(gamma)
        return compute_values(curves, gamma, **options)

    monkeypatch.setattr(GammaCurves, "compute_values", record_grid)
    find_ranges(0.55, {"head": HEAD, "tail": TAIL}, ("rr", "recall@1"))
    fine_grid, coarse_grid = (grid.tolist() for grid in grids if grid.size > 1)  # the rest are crossings
    assert fine_grid == pytest.approx(sorted([*(number / 10 for number in range(-10, 31)), 0.55]))
    assert coarse_grid == pytest.approx([-1.0, 0.0, 0.55, 1.0, 2.0, 3.0])


@pytest.mark.parametrize(("n_positives", "labels"), [(625_000, ["atop", "rr"]), (625_001, ["atop"])])
def test_nonlinear_metrics_of_more_than_five_million_values_have_no_range(n_positives, labels, monkeypatch):
    # Two recommenders at five values of γ, which are four steps.
    keys = [("a", "rr", "snips"), ("b", "rr", "snips")]
    curves = SimpleNamespace(level=range(n_positives), nonlinear_keys=keys)
    monkeypatch.setattr(GammaCurves, "from_samples", lambda *_: curves)
    monkeypatch.setattr(
        "ipseval.inference.gamma_range._find_ranges",
        lambda curves, labels, start, step: dict.fromkeys(labels),
    )
    metrics = [metric("rr"), metric("atop")]
    assert list(find_gamma_ranges({}, metrics, resolve_estimator("snips"), None, 0.0)) == labels


@pytest.mark.parametrize(
    ("gamma", "statement"),
    [
        (-0.5, "head > tail holds for γ in [−1, −0.01]"),
        (1.0, "tail > head holds for γ in [0.01, 3]"),
        (
            5.0,
            "head > tail holds for γ in [−1, −0.01]",
        ),  # beyond what was tried: the lowest γ says who is named
    ],
)
def test_the_statement_of_a_swap_names_the_better_recommender_on_each_side(gamma, statement):
    points = evaluate_three_positives(gamma, {"head": HEAD, "tail": TAIL}).tipping_points(
        np.linspace(-1, 3, 9)
    )
    frame = points.set_index("estimator")
    pooled = frame.loc["snips-pooled"]
    assert (pooled["statement"], f"{pooled['model']} > {pooled['other']}") == (statement, statement[:11])
    assert pooled["tipping_points"] == pytest.approx((0.0,), abs=1e-9)
    assert frame.loc["aoa", "statement"] == "head > tail does not depend on γ"


FORMS = {
    "per user": {"per_user": True},
    "sum per user": {"per_user": True, "is_sum": True},
    "equal users": {"per_user": False, "users_equal": True},
    "pooled": {"per_user": False},
    "sum": {"per_user": False, "is_sum": True},
}


def compute_error_by_loops(form, contributions, weights):
    """Return the standard error from ψ = N̄/D̄ · dV + V̄ (dN − R dD)/D̄ of units, by loops."""
    ranked = form.ranked
    n_queries = ranked.users.size
    unit = ranked.unit(ranked.users)
    numerators = []
    denominators = []
    volumes = []
    for query in ranked.users:
        is_of_query = ranked.user == query
        extra_weights = 1.0 if form.own is None else form.own[is_of_query]
        w = extra_weights * weights[is_of_query]
        c = contributions[is_of_query]
        count = is_of_query.sum()
        if form.per_user:
            numerators.append((count if form.is_sum else 1) * (w @ c) / w.sum())
            denominators.append(1.0)
        else:
            base = 1 / count if form.users_equal else 1.0
            numerators.append(base * (w @ c))
            denominators.append(base * w.sum())
        volumes.append(float(count) if form.is_sum and not form.per_user else 1.0)
    numerator = np.array(numerators)
    denominator = np.array(denominators)[:, None]
    volume = np.array(volumes)[:, None]
    ratio = numerator.mean(axis=0) / denominator.mean()
    psi = volume.mean() * (numerator - ratio * denominator) / denominator.mean()
    psi += ratio * (volume - volume.mean())
    unit_psi = np.array([psi[unit == owner].sum(axis=0) for owner in np.unique(unit)])
    unit_psi *= len(unit_psi) / n_queries
    return np.sqrt((unit_psi**2).sum(axis=0) / (len(unit_psi) * (len(unit_psi) - 1)))


@pytest.mark.parametrize("has_extra_weights", [False, True])
@pytest.mark.parametrize("clustered", [False, True])
def test_standard_errors_equal_a_computation_by_loops(has_extra_weights, clustered):
    ranks, popularity = random_ranks(3, models=1)
    (positives,) = ranks.values()
    rng = np.random.default_rng(0)
    if clustered:
        owners = rng.integers(25, size=positives.n_population)
        positives = replace(positives, cluster=owners, cluster_ids=np.arange(25))
    weights = popularity[positives.item] ** -0.4
    extra_weights = None
    if has_extra_weights:  # one user has none
        extra_weights = rng.random(len(positives)) * (positives.user != positives.users[4])
    for options in FORMS.values():
        if has_extra_weights and options["per_user"]:
            continue
        form = LinearForm(positives, weighted=True, own=extra_weights, **options)
        contributions = rng.random((len(positives), 2))
        errors = compute_standard_errors(LinearGroup(form, (("m", "c", "e"),) * 2, contributions), weights)
        np.testing.assert_allclose(errors, compute_error_by_loops(form, contributions, weights), rtol=1e-12)


def make_sensitivity(reference: float | None, **curves: list[float]) -> Sensitivity:
    """Return values on the grid 0, 1, …; crossings are those of lines between its values."""
    values = {(name, "m", "e"): np.array(curve) for name, curve in curves.items()}
    gamma = np.arange(float(len(next(iter(curves.values())))))

    class Curves:
        def find_crossing(self, first, second, start, end, tolerance):
            gap = values[first] - values[second]
            return brentq(lambda x: np.interp(x, gamma, gap), start, end)

    frame = pd.DataFrame([(*key, 0.0) for key in values], columns=["model", "metric", "estimator", "gamma"])
    result = Sensitivity(
        frame=frame,
        gamma=gamma,
        reference=reference,
        values=values,
        samples={},
        definitions=((), ()),
        propensity=None,
    )
    result.__dict__["_curves"] = Curves()
    return result


@pytest.mark.parametrize(
    ("reference", "b", "names", "points", "statement"),
    [
        # a is 0 everywhere.
        (None, [1.0, -1, -1, 1], "ba", (0.5, 2.5), "b > a holds for γ in [0, 0.49] and [2.51, 3]"),
        (2.0, [1.0, -1, -1, 1], "ab", (0.5, 2.5), "a > b holds for γ in [0.51, 2.49]"),
        (3.0, [1.0, -1, -1, 1], "ba", (0.5, 2.5), "b > a holds for γ in [0, 0.49] and [2.51, 3]"),
        (
            3.1,
            [-1.0, 1, 1, 1],
            "ab",
            (0.5,),
            "a > b holds for γ in [0, 0.49]",
        ),  # beyond the grid: the lowest γ
        (-0.1, [-1.0, 1, 1, 1], "ab", (0.5,), "a > b holds for γ in [0, 0.49]"),
        (0.0, [-1.0, 1, 1, 1], "ab", (0.5,), "a > b holds for γ in [0, 0.49]"),
        (None, [1.0, 0, 0, 1], "ba", (), "b > a holds for all γ in [0, 3]"),  # touches, and does not cross
        (None, [0.0, 0, 0, -1], "ab", (), "a > b holds for all γ in [0, 3]"),
        (None, [0.0, 0, 0, 0], "ab", (), "a = b for all γ in [0, 3]"),
        (None, [0.0, np.nan, 1, 1], None, (), "undefined for some γ of the grid"),
    ],
)
def test_statements_of_pairs_worked_by_hand(reference, b, names, points, statement):
    row = make_sensitivity(reference, a=[0.0] * 4, b=b).tipping_points().iloc[0]
    assert row["tipping_points"] == pytest.approx(points)
    assert row["n_tipping"] == len(points)
    assert row["statement"].endswith(statement)
    assert (row["metric"], row["estimator"], row["note"]) == ("m", "e", "")
    if names is not None:
        assert row["model"] + row["other"] == names


@pytest.mark.parametrize(
    ("gap", "statement"), [(0.9e-12, "a = b for all"), (1.1e-12, "b > a does not depend on γ")]
)
@pytest.mark.parametrize("unit", [1.0, 1e6])
def test_a_difference_of_a_millionth_of_a_millionth_is_rounding(gap, statement, unit):
    curves = {"a": [unit] * 3, "b": [unit * (1 + gap)] * 3}
    assert make_sensitivity(None, **curves).tipping_points()["statement"].item().startswith(statement)


def test_a_sensitivity_describes_itself_and_its_tables():
    result = make_sensitivity(None, a=[0.0, 0.25], b=[1.0, 0.125])
    words = "Sensitivity(2 estimates at 2 values of γ from 0 to 1; .frame, .tipping_points())"
    assert repr(result) == words
    tables = result.tables()
    statement = "b > a holds for γ in [0, 0.88]"  # 1 + (1/8 − 1/4 − 1) γ = 0 at 8/9
    assert (tables.summary, tables.title, tables.appendix) == ((words,), "", ())
    (table,) = tables.parts
    assert (table.title, table.n_keys, len(table.rows)) == ("Where two recommenders swap ranks", 2, 1)
    assert tables.remarks == (Remark("Verdict", (f"m by e: {statement}.",)),)
    page = result.tables(page=True, digits=1)
    assert (page.summary, page.title, page.parts) == ((words,), "Sensitivity to γ", tables.parts)
    (appendix,) = page.appendix
    assert (appendix.title, appendix.n_keys, appendix.folded) == ("R(γ)", 3, True)
    assert appendix.rows[0][-1].text == "0.000"  # two more decimal places than `digits`


def test_pairs_of_a_reference_are_in_the_order_of_all_pairs():
    result = make_sensitivity(None, a=[0.0, 0], b=[1.0, 1], c=[2.0, 2])
    pairs = result.tipping_points()[["model", "other"]].to_numpy().tolist()
    assert pairs == [["b", "a"], ["c", "a"], ["c", "b"]]
    assert result.tipping_points("a")["other"].tolist() == ["a", "a"]


def test_a_sensitivity_has_normal_intervals_at_95_percent_by_default():
    ranks, popularity = random_ranks(0, models=1)
    propensity = power_law(popularity, 0.0)
    samples = {
        name: Sample(positives, propensity.for_pairs(positives.user, positives.item))
        for name, positives in ranks.items()
    }
    arguments = (samples, [metric("atop")], [resolve_estimator("snips")], propensity)
    frame = sensitivity(*arguments, gamma=[1.0, 0.0, 1.0]).frame
    assert frame["gamma"].tolist() == [0.0, 1.0]
    half_width = 1.959963984540054 * frame["std_error"]
    np.testing.assert_allclose(frame["ci_high"] - frame["estimate"], half_width)
    np.testing.assert_allclose(frame["estimate"] - frame["ci_low"], half_width)
    assert (half_width > 0).all()
    frame_without_errors = sensitivity(*arguments, gamma=[0.0, 1.0], standard_errors=False).frame
    assert frame_without_errors[["std_error", "ci_low", "ci_high"]].isna().all(axis=None)
    with pytest.raises(PropensityError, match="needs a power-law propensity"):
        sensitivity(*arguments[:3], None, gamma=[0.0, 1.0])


def test_the_plot_shows_the_first_metric_and_estimator_unless_they_are_named(monkeypatch):
    calls = []
    monkeypatch.setattr(
        "ipseval.reporting.plots.plot_sensitivity", lambda _, **options: calls.append(options)
    )
    result = make_sensitivity(None, a=[0.0, 1.0], b=[1.0, 0.0])
    columns = ["model", "metric", "estimator", "gamma"]
    frame = pd.DataFrame([("a", "m1", "e1", 0.0), ("a", "m2", "e2", 0.0)], columns=columns)
    object.__setattr__(result, "frame", frame)
    result.plot()
    result.plot("m2", ax="axes")
    result.plot(estimator="e2")
    options_of_calls = [(options["metric"], options["estimator"], options["ax"]) for options in calls]
    assert options_of_calls == [("m1", "e1", None), ("m2", "e1", "axes"), ("m1", "e2", None)]
    assert [options["tipping"]["n_tipping"].item() for options in calls] == [1, 1, 1]
