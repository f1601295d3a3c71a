"""The gate: what it decides and by what, its one line, its exit code, and what it refuses."""

from __future__ import annotations

import pickle
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ipseval.data import Interactions
from ipseval.errors import InputError, UnknownNameError
from ipseval.evaluation import Evaluation, evaluate_ranks, evaluate_ratings
from ipseval.evaluation.sanity import SanityWarning
from ipseval.evaluation.verdict import ModelRanking, Verdict, WeightSupport
from ipseval.testing import gate
from tests.inside.testing import (
    _choose_estimator,
    _describe_contradiction,
    describe_detected_loss,
    round_up,
)
from tests.testing.gate_results import (
    INF,
    NAN,
    PLAIN,
    N,
    evaluate_rare_items,
    make_estimate,
    make_evaluation,
    make_nearly_equal_pair,
    pair,
    ranks,
    values,
)

WORDS = [
    (values(0.3, seed=1), "worse", 1, "WORSE by recall@5 (aoa)"),
    (values(0.8, seed=1), "suspicious", 3, "suspiciously better by recall@5 (aoa): look for leakage"),
    (values(0.65, seed=1), "better", 0, "better by recall@5 (aoa)"),
    (
        values(0.5, seed=1),
        "cannot tell",
        4,
        "cannot tell by recall@5 (aoa): too few users to exclude a loss of 0.100",
    ),
    (values(0.5), "not worse", 0, "not shown to be worse by recall@5 (aoa): no user differs; the data allow"),
]


@pytest.mark.parametrize(("new", "outcome", "code", "line"), WORDS)
def test_each_decision_has_a_line_and_an_exit_code(new, outcome, code, line):
    decision = gate(*pair(values(0.5), new))
    assert (decision.outcome, decision.exit_code, decision.has_passed) == (outcome, code, code == 0)
    assert decision.verdict.startswith(line)
    text = str(decision)
    assert text.splitlines()[-1].startswith(line)
    promise = "WORSE at most 0.05, suspicious at most 0.05, either at most 0.1."
    assert f"False alarms in 26 comparisons: {promise}" in text
    assert text.count("99.62% interval [") == 1  # one interval of the difference that decides
    assert "95%" not in text
    assert len(decision.tables(page=True).remarks) == 1
    assert not decision.tables().remarks  # it is the last line
    assert gate(*pair(values(0.5), new), strict=False).exit_code == {4: 0}.get(code, code)


# Implausible: more than half of what the incumbent has, or of what it lacks to 1 if that is less.
PLAUSIBLE = [
    (0.8, 0.89, {}, "better"),
    (0.8, 0.95, {}, "suspicious"),
    (0.25, 0.375, {}, "better"),  # just half
    (0.25, 0.38, {}, "suspicious"),
    (0.25, 0.38, {"suspicious": 0.6}, "better"),
    (0.98, 0.9925, {}, "cannot tell"),  # implausible, and not shown
    (1.0, 1.2, {}, "better"),  # 1 is not the most of such a metric
    (1.5, 1.9, {}, "better"),
    (1.5, 2.4, {}, "suspicious"),
]


@pytest.mark.parametrize(("old", "new", "options", "outcome"), PLAUSIBLE)
def test_improvement_is_implausible_relative_to_the_value_of_the_incumbent_or_its_distance_to_one(
    old, new, options, outcome
):
    if old < 1:
        decision = gate(*pair(values(old), values(new, seed=1)), **options)
    else:
        decision = gate(*pair(values(0.5) + old - 0.5, values(0.5) + new - 0.5), **options)
    assert (decision.old, decision.new) == (pytest.approx(old), pytest.approx(new))
    assert decision.outcome == outcome


def test_values_of_zero_or_below_are_never_called_not_worse():
    recalls = values(0.5)
    assert gate(*pair(-recalls, -recalls)).outcome == "cannot tell"


def test_no_user_differs_is_bounded_by_the_number_of_users():
    # A share of 1 − level^(1/n) of users loses all: 0.22 with 25 users, and 0.016 with 400; 0.1 is relevant.
    few, many = values(0.52, 25), values(0.5, 400)
    level = 0.05 / 26
    for recalls, outcome in ((few, "cannot tell"), (many, "not worse")):
        decision = gate(*pair(recalls, recalls))
        bound = 1 - level ** (1 / recalls.size)
        assert decision.outcome == outcome
        assert (decision.low, decision.high) == (pytest.approx(-bound), pytest.approx(bound))
        # About ten users have to lose all, so that the bound of n users is below 0.
        assert bound < decision.smallest_visible_loss < 2.2 * bound


def test_smallest_visible_loss_includes_the_margin_where_no_user_differs():
    recalls = values(0.5, 1000)
    changed = recalls.copy()
    changed[:20] = 1 - changed[:20]
    for margin in (0.0, 0.02):
        decision = gate(*pair(recalls, recalls), margin=margin)
        assert decision.smallest_visible_loss > margin + decision.high
        nearly_equal = gate(*pair(recalls, changed), margin=margin)
        assert decision.smallest_visible_loss < 1.5 * nearly_equal.smallest_visible_loss


def test_no_difference_and_a_margin_of_0_have_an_outcome_and_an_exit_code_of_their_own():
    recalls = values(0.5)
    decision = gate(*pair(recalls, recalls), margin=0)
    assert (decision.outcome, decision.exit_code, decision.has_passed) == ("no difference", 5, False)
    assert decision.verdict == (
        "no difference by recall@5 (aoa) in any user, but a margin of 0 requires a better candidate"
    )
    assert gate(*pair(recalls, recalls), margin=0, strict=False).exit_code == 0
    assert gate(*pair(recalls, recalls), margin=0.02).outcome == "not worse"
    assert gate(*pair(recalls, values(0.5, seed=1)), margin=0).outcome == "cannot tell"


def test_identical_rankings_are_told_from_equal_values_by_a_hash_of_the_ranks(tmp_path):
    above = np.arange(30) % 10
    old = evaluate_ranks({"m": ranks(above)}, metrics=["recall@5"], estimators=["aoa"])
    same = evaluate_ranks({"m": ranks(above.copy())}, metrics=["recall@5"], estimators=["aoa"])
    moved_below_the_cutoff = np.where(above == 9, 8, above)
    changed = evaluate_ranks({"m": ranks(moved_below_the_cutoff)}, metrics=["recall@5"], estimators=["aoa"])
    old.save(tmp_path / "old.npz", ranks=False)
    for incumbent in (old, Evaluation.load(tmp_path / "old.npz")):
        identical = gate(same, incumbent, margin=0)
        assert (identical.outcome, identical.exit_code) == ("identical", 0)
        assert identical.verdict == "identical by recall@5 (aoa): every rank is the same"
        equal = gate(changed, incumbent)
        assert (equal.outcome, equal.old, equal.new) == ("cannot tell", 0.5, 0.5)
    # Where a list ends before an interaction, its rank is not known.
    lists = replace(ranks(np.minimum(above, 7)), max_rank=7)
    cut = [evaluate_ranks({"m": lists}, metrics=["recall@5"], estimators=["aoa"]) for _ in range(2)]
    assert gate(*cut).outcome == "cannot tell"
    worthless = [
        evaluate_ranks({"m": ranks(np.full(30, 20))}, metrics=["recall@5"], estimators=["aoa"])
        for _ in range(2)
    ]
    assert gate(*worthless).outcome == "cannot tell"  # both may have been loaded wrongly


def test_loss_of_the_whole_value_can_be_detected_and_a_larger_loss_cannot():
    new, old = make_nearly_equal_pair()
    all_of_it = gate(new, old, margin=0.488)
    assert all_of_it.smallest_visible_loss == all_of_it.old == 0.5
    assert all_of_it.outcome == "not worse"
    assert all_of_it.verdict == "not worse by recall@5 (aoa) by more than the margin of 0.488"
    more = gate(new, old, margin=0.6)
    assert (more.outcome, more.reason) == ("cannot tell", "too few users")
    assert more.verdict.endswith(
        ": the margin of 0.6 tolerates every loss, because it is not below the old value"
    )
    assert np.isnan(more.pass_probability)
    assert describe_detected_loss(NAN, 0.5) == "no loss is called WORSE in 80% of cases"
    assert describe_detected_loss(0.12, 0.5) == "a loss of 0.12 is called WORSE in 80% of cases"


def test_losses_are_rounded_up_to_two_digits_and_undefined_losses_stay():
    assert [round_up(loss) for loss in (0.0, INF, 12.1, 0.999, 0.00101)] == [0.0, INF, 13.0, 1.0, 0.0011]
    assert np.isnan(round_up(NAN))


def test_not_worse_is_reported_with_the_loss_that_the_data_allow():
    decision = gate(*make_nearly_equal_pair())
    assert decision.outcome == "not worse"
    assert decision.low >= -decision.relevant_loss == pytest.approx(-0.2 * decision.old)
    assert decision.verdict == (
        f"not shown to be worse by recall@5 (aoa); the data allow a loss of up to {-decision.low:.5f}"
    )
    assert 0 < decision.smallest_visible_loss < 0.01


def test_a_margin_is_tolerated_and_has_to_be_excluded():
    new, old = make_nearly_equal_pair()
    assert gate(new, old, margin=0.01).outcome == "not worse"
    small = gate(new, old, margin=1e-4)
    assert (small.outcome, small.reason) == ("cannot tell", "too few users")
    worse = make_evaluation({"als": values(0.45, 5000, seed=1)})
    strict, tolerant = gate(worse, old), gate(worse, old, margin=0.2)
    assert (strict.outcome, tolerant.outcome) == ("worse", "not worse")
    assert tolerant.smallest_visible_loss == pytest.approx(strict.smallest_visible_loss + 0.2, abs=0.01)


def test_with_too_few_users_the_gate_states_how_many_an_equally_good_candidate_needs():
    new, old = pair(values(0.5), values(0.45, seed=1))
    few = gate(new, old, margin=0.05)
    assert (few.outcome, few.reason) == ("cannot tell", "too few users")
    assert 0 < few.pass_probability < 0.5
    assert few.n_users_needed == float(f"{few.n_users_needed:.2g}") > few.n_users
    sentence = (
        "If the differences of users vary as here, an equally good candidate passes with probability "
        f"{few.pass_probability:.2f}; for a probability of 0.8, about {few.n_users_needed:,.0f} users are needed."
    )
    assert sentence in " ".join(str(few).split())
    # By the normal distribution, users are needed in proportion to the square of the margin.
    smaller = gate(new, old, margin=0.025)
    assert smaller.n_users_needed == pytest.approx(4 * few.n_users_needed, rel=0.1)
    assert smaller.pass_probability < few.pass_probability
    tiny = gate(new, old, margin=1e-6)
    assert "more than 10,000,000 users are needed." in " ".join(str(tiny).split())
    for decided in (
        gate(new, old, margin=0.2),
        gate(new, old, margin=0.0),
    ):  # a pass; no data exclude every loss
        assert np.isnan([decided.pass_probability, decided.n_users_needed]).all()
        assert "are needed" not in str(decided)


def test_comparisons_share_the_chance_of_a_false_alarm():
    new, old = pair(values(0.5), values(0.45, seed=1))
    single, season = gate(new, old, n_comparisons=1), gate(new, old, n_comparisons=26)
    assert season.low < single.low < single.high < season.high
    assert season.smallest_visible_loss > single.smallest_visible_loss
    one_decision_of_season = gate(new, old, n_comparisons=1, confidence_level=1 - 0.05 / 26)
    assert (one_decision_of_season.low, one_decision_of_season.high) == pytest.approx(
        (season.low, season.high)
    )
    bold = gate(new, old, n_comparisons=1, confidence_level=0.4)  # its bounds err more often than not
    assert bold.outcome == "worse"
    assert bold.high < bold.difference < bold.low < 0
    assert "in a single comparison" in str(single)


@pytest.mark.parametrize("value", [0.0, 0.02])
def test_with_25_users_and_few_hits_nothing_is_not_worse(value):
    rng = np.random.default_rng(4)
    for _ in range(10):
        old, new = ((rng.random(25) < share).astype(float) for share in (0.08, value))
        assert gate(*pair(old, new)).outcome in ("worse", "cannot tell")
    assert gate(*pair(np.zeros(25), np.zeros(25))).outcome == "cannot tell"


def test_a_broken_incumbent_makes_a_candidate_suspicious():
    assert gate(*pair(np.zeros(N), values(0.2))).outcome == "suspicious"
    assert gate(*pair(values(0.2), values(0.4)), suspicious=3).outcome == "better"


BASES = [("assumed", "worse"), ("fitted", "cannot tell"), ("design", "better")]


@pytest.mark.parametrize(("basis", "outcome"), BASES)
def test_measured_weights_decide_and_fitted_weights_can_contradict(basis, outcome):
    results = evaluate_rare_items(basis)
    decision = gate(results[1], results[0])
    assert decision.outcome == outcome
    assert decision.estimator == ("snips-pooled" if basis == "design" else "aoa")
    assert ("contradict each other" in decision.verdict) == (basis == "fitted")
    back = gate(results[0], results[1])
    assert back.outcome == (
        "worse" if basis == "design" else "cannot tell" if basis == "fitted" else "better"
    )
    assert ("contradict each other" in back.verdict) == (basis == "fitted")
    chosen = gate(results[1], results[0], estimator="snips-pooled")
    assert (chosen.outcome, chosen.estimator) == ("better", "snips-pooled")


@pytest.mark.parametrize("code", ["weights-too-large", "weights-too-small"])
@pytest.mark.parametrize("is_of_candidate", [True, False])
def test_weights_that_do_not_fit_a_recommender_contradict_nothing(code, is_of_candidate):
    old, new = evaluate_rare_items("fitted")
    assert gate(new, old).outcome == "cannot tell"
    side = new if is_of_candidate else old
    failing = replace(side, sanity=(SanityWarning(code=code, model=side.models[0], figures={}),))
    decision = gate(failing, old) if is_of_candidate else gate(new, failing)
    assert (decision.outcome, decision.estimator) == ("worse", "aoa")


# Bounds by the plain average, and whether the weights contradict them that call the new one worse, equal, or,
# with too few users to be sure, worse by a little.
AGAINST = [
    ("worse", 0.05, 0.1, True),
    ("worse", 0.0, 0.1, True),
    ("worse", -0.1, 0.0, True),
    ("worse", -0.2, -0.1, False),
    ("equal", 0.05, 0.1, False),
    ("equal", -0.1, -0.05, False),
    ("unsure", 0.05, 0.1, True),
    ("unsure", 0.0, 0.1, False),
    ("unsure", -0.2, -0.1, False),
    ("better", -0.1, -0.05, True),
    ("better", -0.1, 0.0, False),
    ("better", 0.05, 0.1, False),
]


def test_weights_contradict_bounds_of_opposite_sign_and_bounds_that_do_not_show_their_loss():
    old, new = evaluate_rare_items("fitted")
    sides = {"worse": (old, new), "equal": (old, old), "unsure": (old, new), "better": (new, old)}
    for case, low, high, contradicts in AGAINST:
        level = 1e-300 if case == "unsure" else 0.05
        verdict = old.verdicts[0]
        names = sides[case][0].models[0], sides[case][1].models[0]
        contradiction = _describe_contradiction(verdict, *sides[case], names, low, high, level)
        expected = (
            "AOA and SNIPS (propensities from impressions) contradict each other" if contradicts else ""
        )
        assert contradiction == expected, (case, low, high)


def make_verdict(basis: str, first: str = "v1", ess: float = 900.0) -> Verdict:
    """Return a verdict whose weighted estimates put one recommender first."""
    standings = {label: ModelRanking(label, (first,), (first,), NAN) for label in ("aoa", "snips-global")}
    support = WeightSupport(basis, None, ess, 1000.0, 1000.0, 2000)
    return Verdict("recall@5", standings, "aoa", "snips-global", support=support)


def test_weights_with_a_known_leader_contradict_bounds_in_favour_of_the_other_recommender():
    def contradicts(low: float, high: float, verdict: Verdict, *, alone: bool = False) -> bool:
        return bool(
            _describe_contradiction(verdict, new if alone else old, old, ("v2", "v1"), low, high, 0.05)
        )

    old = make_evaluation({"v1": values(0.5), "v2": values(0.5)})
    new = make_evaluation({"v1": values(0.5), "v2": values(0.5)})
    verdicts = {first: make_verdict("fitted", first) for first in ("v1", "v2", "v3")}
    for bounds, winner in (((-0.2, -0.1), "v2"), ((0.1, 0.2), "v1"), ((-0.1, 0.0), ""), ((0.0, 0.1), "")):
        opposed = [first for first, verdict in verdicts.items() if contradicts(*bounds, verdict)]
        assert opposed == [winner] * bool(winner)
        assert not any(contradicts(*bounds, verdict, alone=True) for verdict in verdicts.values())
    for silent in (make_verdict("assumed"), make_verdict("assumed", ess=200.0), make_verdict("design")):
        assert not contradicts(0.1, 0.2, silent)
    assert contradicts(0.1, 0.2, make_verdict("design", ess=200.0))  # few interactions carry the weight
    assert contradicts(0.1, 0.2, make_verdict("exposure"))


@pytest.mark.parametrize(
    ("basis", "ess", "label"),
    [
        ("design", 900.0, "snips-global"),
        ("design", 200.0, "aoa"),
        ("exposure", 900.0, "aoa"),
        ("fitted", 900.0, "aoa"),
        ("assumed", 900.0, "aoa"),
    ],
)
def test_only_weights_known_by_design_and_sufficient_decide_a_gate(basis, ess, label):
    new = make_evaluation({"als": values(0.5)})
    assert _choose_estimator(make_verdict(basis, ess=ess), None, new) == label
    assert _choose_estimator(Verdict("recall@5", {}, "aoa"), None, new) == "aoa"


def test_gate_cannot_tell_by_an_unreliable_estimate():
    new, old = (
        make_evaluation({"als": make_estimate(values(0.3, seed=1), "effective sample size 12")}),
        make_evaluation({"als": values(0.5)}),
    )
    for candidate, incumbent in ((new, old), (old, new)):
        assert gate(candidate, incumbent).verdict == "cannot tell by recall@5 (aoa): effective sample size 12"


def test_pair_is_the_only_possible_pair_or_is_named():
    two_models = make_evaluation({"v1": values(0.5), "v2": values(0.3, seed=1)})
    assert gate(two_models, candidate="v2", incumbent="v1").outcome == "worse"
    assert gate(two_models, candidate="v1", incumbent="v2").outcome in ("better", "suspicious")
    only = gate(make_evaluation({"new": values(0.5)}), make_evaluation({"old": values(0.5)}))
    assert (only.candidate, only.incumbent) == ("new", "old")
    assert gate(make_evaluation({"v2": values(0.5)}), two_models).incumbent == "v2"
    assert gate(two_models, make_evaluation({"v2": values(0.5)})).candidate == "v2"
    for candidate, incumbent in (("v1", "v2"), ("v2", "v1")):
        assert gate(two_models, incumbent=incumbent).candidate == candidate
        decision = gate(two_models, candidate=candidate)
        assert decision.incumbent == incumbent
        assert str(decision).startswith(f"{candidate} (was {incumbent}) by recall@5")
    for bad, words in (
        (
            {},
            "The new result has v1, v2, and the old one has v1, v2. Name the pair by candidate= and incumbent=",
        ),
        ({"candidate": "v1", "incumbent": "v1"}, "v1 is candidate and incumbent of the same result"),
        ({"candidate": "v3", "incumbent": "v1"}, "unknown candidate: 'v3'. Choices: v1, v2."),
    ):
        with pytest.raises(InputError, match=words):
            gate(two_models, **bad)
    three = make_evaluation(dict.fromkeys(("v1", "v2", "v3"), values(0.5)))
    two, other_models = (
        make_evaluation(dict.fromkeys(("v1", "v2"), values(0.5))),
        make_evaluation({"a": values(0.5), "b": values(0.5)}),
    )
    for new, old, options, words in (
        (three, two, {}, "The new result has v1, v2, v3, and the old one has v1, v2."),
        (three, None, {"incumbent": "v1"}, "The new result has v1, v2, v3, and the old one has v1."),
        (two, other_models, {}, "The new result has v1, v2, and the old one has a, b."),
        (two, other_models, {"incumbent": "a"}, "The new result has v1, v2, and the old one has a."),
        (two, other_models, {"candidate": "v1"}, "The new result has v1, and the old one has a, b."),
    ):
        with pytest.raises(InputError) as raised:
            gate(new, old, **options)
        assert str(raised.value) == f"{words} Name the pair by candidate= and incumbent=."
    with pytest.raises(InputError, match="new and old must be evaluations; got str"):
        gate("new.npz")


def test_first_metric_with_a_guarantee_decides_and_the_others_are_information():
    keys = [("als", label, "aoa") for label in ("ndcg@5", "recall@5")]
    old = make_evaluation({key: values(0.5) for key in keys})
    new = make_evaluation({keys[0]: values(0.3, seed=1), keys[1]: values(0.5)})
    decision = gate(new, old)
    assert (decision.metric, decision.outcome) == ("recall@5", "not worse")
    assert decision.frame.set_index("metric")["decides"].to_dict() == {"ndcg@5": False, "recall@5": True}
    assert gate(new, old, metric="NDCG@5").outcome == "worse"
    third = {("als", label, "aoa"): values(mean) for label, mean in (("recall@5", 0.5), ("rr", 0.3))}
    assert gate(make_evaluation(third), make_evaluation(third), metric="rr").old == 0.3
    with pytest.raises(InputError, match=r"no metric in common in .* has ndcg@5, the old one recall@5"):
        gate(make_evaluation({keys[0]: values(0.5)}), make_evaluation({keys[1]: values(0.5)}))


def test_unknown_metric_is_named_with_the_metrics_of_both_results_and_the_most_similar_one():
    labels = ("recall@5", "rr")
    new = make_evaluation({("als", label, "aoa"): values(0.5) for label in labels})
    old = make_evaluation({("als", label, "aoa"): values(0.5) for label in (*labels, "ndcg@5")})
    with pytest.raises(UnknownNameError) as raised:
        gate(new, old, metric="recal@5")
    assert str(raised.value) == (
        "unknown metric 'recal@5'. Did you mean 'recall@5'? Choices: recall@5, rr. These are the metrics of both "
        "results. For another one, evaluate both recommenders with metrics=."
    )
    assert raised.value.to_text(as_options=True).endswith("evaluate both recommenders with --metrics.")
    assert str(pickle.loads(pickle.dumps(raised.value))) == str(raised.value)
    with pytest.raises(UnknownNameError, match=r"unknown metric 'ndcg@5'.*Choices: recall@5, rr\. These"):
        gate(new, old, metric="ndcg@5")


def test_metric_of_which_less_is_better_decides_no_gate():
    frame = pd.DataFrame({"user": np.repeat(np.arange(20), 2), "item": np.tile([0, 1], 20), "value": 3.0})
    ratings = Interactions.from_frame(frame, value="value", users=np.arange(20), items=np.arange(2))
    models = {"old": np.full((20, 2), 2.5), "new": np.full((20, 2), 3.5)}
    evaluation = evaluate_ratings(models, ratings, metrics=["rmse", "mae"], estimators=["aoa-pooled"])
    with pytest.raises(InputError, match=r"of which more is better; got rmse\. Choices: none"):
        gate(evaluation, candidate="new", incumbent="old", metric="rmse")
    with pytest.raises(InputError, match="no metric in common in both results of which more is better"):
        gate(evaluation, candidate="new", incumbent="old")


@pytest.mark.parametrize(
    "bad", [{"margin": -1}, {"margin": INF}, {"n_comparisons": 0}, {"suspicious": 0}, {"n_comparisons": 1.5}]
)
def test_options_out_of_their_range_are_errors(bad):
    with pytest.raises(InputError):
        gate(*pair(values(0.5), values(0.5)), **bad)


@pytest.mark.parametrize(
    "bad",
    [make_estimate([NAN, NAN]), make_estimate([1.0]), replace(make_estimate([1, 0.0]), suppressed=True)],
)
def test_undefined_estimate_of_either_result_is_named(bad):
    good = make_evaluation({"als": make_estimate([1.0, 0.0])})
    with pytest.raises(InputError, match=r"'mf'.* of the new result is undefined, or has no standard error"):
        gate(make_evaluation({"mf": bad}), good)
    with pytest.raises(InputError, match=r"of the old result is undefined, or has no standard error"):
        gate(good, make_evaluation({"als": bad}))


OTHERS = [
    ({"data": {"positives_sha256": "c" * 64}}, "the test set differs"),
    (
        {"data": {"positives_sha256": "c" * 64, "users_sha256": "c" * 64}, "options": {}},
        "the test set differs; ties 'mean' -> None",
    ),
    (
        {"data": {"positives_sha256": "a" * 64, "users_sha256": "c" * 64, "gains_sha256": "c"}},
        "the users differ; the values of the test interactions differ",
    ),
    ({"options": {}}, "ties 'mean' -> None"),
    (
        {"options": {"ties": "min", "missing_lists": "drop"}},
        "ties 'mean' -> 'min'; missing_lists None -> 'drop'",
    ),
    ({"options": {"ties": "m" * 65}}, f"ties 'mean' -> '{'m' * 65}'"),  # longer than a hash
    (
        {"metrics": {"recall@5": {"formula": "n", "ties": "mean"}}},
        "definition of recall@5: formula 'recall@5' -> 'n'; definition of recall@5: ties None -> 'mean'",
    ),
]


@pytest.mark.parametrize(("basis", "words"), OTHERS)
def test_results_of_other_data_options_or_definitions_are_not_compared(basis, words):
    with pytest.raises(InputError) as raised:
        gate(make_evaluation({"als": values(0.5)}, basis=basis), make_evaluation({"als": values(0.5)}))
    assert str(raised.value) == (
        f"the results cannot be compared: {words}. Score both recommenders on one test set with the same options, in "
        "one evaluation, and call ipseval.testing.gate(evaluation, candidate=NEW, incumbent=OLD). Do not store this "
        "result instead of the old one: the unchecked candidate would become the incumbent."
    )
    text = raised.value.to_text(as_options=True)
    assert "and compare them within this file, ipseval compare both.npz --model NEW=OLD." in text
    assert "ipseval-update" not in text


LEAK = SanityWarning(code="test-like-training", model="als", figures={"probability": 0.49, "n_users": 18.0})


@pytest.mark.parametrize(
    ("new", "outcome"),
    [(0.65, "better"), (0.5, "not worse"), (0.8, "suspicious"), (0.45, "cannot tell"), (0.3, "worse")],
)
def test_candidate_that_was_probably_trained_on_the_test_part_is_suspicious_unless_it_is_worse(new, outcome):
    recalls = values(0.5)
    if new != 0.5:
        recalls = values(new, seed=1)
    candidate, old = pair(values(0.5), recalls)
    assert gate(candidate, old).outcome == outcome
    leaked = gate(replace(candidate, sanity=(LEAK,)), old, strict=False)
    if outcome == "worse":
        assert (leaked.outcome, leaked.reason) == ("worse", "")
        return
    assert (leaked.outcome, leaked.exit_code) == ("suspicious", 3)
    assert leaked.verdict == (
        "suspicious by recall@5 (aoa): als scores a training item above a test item of the same user and a similar "
        "popularity with probability 0.49 (18 users; 0.5 when trained on both parts). Was it trained on the test part?"
    )
    for warning in (replace(LEAK, model="ease"), SanityWarning(code="at-chance", model="als", figures={})):
        assert gate(replace(candidate, sanity=(warning,)), old).outcome == outcome
    assert gate(candidate, replace(old, sanity=(LEAK,))).outcome == outcome  # a warning of the incumbent


def test_a_significant_loss_that_may_exceed_the_margin_is_named():
    old, new = values(0.5, 5000), values(0.5, 5000)
    new[np.flatnonzero(new)[:150]] = 0.0  # a loss of 0.03
    within, undecided, worse = (gate(*pair(old, new), margin=margin) for margin in (0.1, 0.03, 0.001))
    assert [decision.outcome for decision in (within, undecided, worse)] == [
        "not worse",
        "cannot tell",
        "worse",
    ]
    assert within.verdict == (
        "significantly worse by recall@5 (aoa), but by less than the margin of 0.1, which tolerates such a loss"
    )
    # A loss within the margin is tolerated. One that may exceed it fails, even with strict=False.
    assert [gate(*pair(old, new), margin=margin, strict=False).exit_code for margin in (0.1, 0.03)] == [0, 4]
    assert undecided.low < -0.03 < undecided.high < 0
    assert (undecided.exit_code, undecided.verdict) == (
        4,
        "cannot tell by recall@5 (aoa): significantly worse, but not shown to be worse by more than the margin of 0.03",
    )


@pytest.mark.parametrize("weighted", [False, True])
def test_another_propensity_matters_for_weighted_estimators_only(weighted):
    known = {"aoa": replace(PLAIN, weighted=weighted)}
    old, new = (
        make_evaluation({"als": values(0.5)}, weights=known, basis={"options": {"propensity": propensity}})
        for propensity in "ab"
    )
    if not weighted:
        assert gate(new, old).outcome == "not worse"
        return
    with pytest.raises(InputError, match="propensity 'a' -> 'b'"):
        gate(new, old)
