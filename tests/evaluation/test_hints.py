"""Hints lead to the front door, and reports say what a reader would otherwise take for something else."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.estimators import Snips
from ipseval.evaluation import evaluate_generations
from ipseval.evaluation.beyond import beyond_accuracy
from tests.inside.evaluation import build_difference_cell, describe_date
from tests.inside.utils import SourceCount

FRAME = pd.DataFrame({"user_id": [1, 1, 2, 2], "item_id": [1, 2, 1, 3]})
SHOWN = ipseval.ImpressionLog.from_frame(
    pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1], "clicked": [1, 0, 1]})
)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: ipseval.evaluate({"m": np.ones((2, 3))}, SHOWN), r"split_random\(log\.positives\)"),
        (lambda: ipseval.evaluate({"m": np.ones((2, 3))}, FRAME), r"split_random\(ipseval\.read\(frame\)\)"),
        (lambda: ipseval.Interactions.from_frame(FRAME), r"pass ipseval\.read\(frame\)"),
    ],
)
def test_a_hint_names_the_front_door(call, message):
    with pytest.raises(ipseval.InputError, match=message):
        call()


@pytest.mark.filterwarnings("ignore:.*the cutoff exceeds")
def test_the_error_for_a_mapping_or_a_pair_explains_its_parts():
    split = ipseval.split_random(FRAME, test_fraction=0.5, rng=0)
    evaluation = ipseval.evaluate({"m": np.ones((2, 3))}, split)
    with pytest.raises(TypeError, match=r"^'Evaluation' object has no items\. Use \.frame, or \.estimate"):
        evaluation["recall@10"]
    with pytest.raises(TypeError, match=r"^'Split' object has no items\. Use \.train and \.test\.$"):
        split["train"]
    assert not {"extent", "counted", "training", "given_intervals"} & set(dir(evaluation))


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"candidates": 99},
            ipseval.InputError,
            r"^candidates=99 could be drawn .* pass ipseval\.SampledCandidates\(99, rng=0\), or 'all'\.$",
        ),
        ({"candidates": np.int64(9)}, ipseval.InputError, "^candidates=9 could be drawn in several ways"),
        ({"candidates": True}, ipseval.InputError, r"^candidates must be 'all', .* got True\.$"),
        (
            {"propensity": ipseval.PowerLawPropensity},
            ipseval.errors.PropensityError,
            r"^propensity must be a Propensity or a model .* got type\. ",
        ),
        ({"propensity": 3}, ipseval.errors.PropensityError, r"^propensity must be .* got int\. "),
        (
            {"estimators": ["aoa", "snips", "ips"]},
            ipseval.errors.PropensityError,
            r"^snips, ips need a propensity\. Pass propensity=",
        ),
        ({"n_relevant": "known"}, ipseval.errors.UnknownNameError, "Choices: estimated"),
        ({"rng": "seven"}, ipseval.InputError, "^rng must be "),
    ],
)
def test_an_option_that_cannot_be_used_is_refused_before_the_ranking(options, error, text):
    split = ipseval.split_random(FRAME, test_fraction=0.5, rng=0)
    with pytest.raises(error, match=text):
        ipseval.evaluate({"m": "no scorer"}, split, **options)


def test_the_error_for_lists_without_a_rank_names_the_column():
    split = ipseval.Split.from_frames(
        *(part.rename(columns=lambda name: name[:-3]) for part in (FRAME[:2], FRAME[2:]))
    )
    lists = pd.DataFrame({"user": [1, 1, 2], "item": [1, 2, 3]}, index=[0, 0, 1])
    with pytest.raises(ipseval.InputError, match="It lacks a rank or score"):
        ipseval.evaluate({"m": lists}, split)


def test_gini_and_entropy_of_one_user_are_defined():
    """Two of four items have one exposure each: gini is (1·1 + 3·1)/(4·2) = 1/2, the entropy one bit."""
    pairs = pd.DataFrame({"user": [0, 0], "item": [0, 1]})
    split = ipseval.Split.from_frames(pairs[:1], pairs[1:], users=[0], items=range(4))
    ranks = {"m": ipseval.rank_positives(np.array([[0.0, 3, 2, 1]]), split, top_k=2)}
    frame = beyond_accuracy(ranks, split, measures=["gini@2", "entropy@2"]).frame.set_index("measure")
    assert frame["estimate"].tolist() == [0.5, 1.0]
    assert frame["std_error"].isna().all()


@pytest.mark.filterwarnings("ignore::ipseval.errors.DataWarning")
def test_a_single_estimator_has_a_note_on_excluded_positives():
    split = ipseval.Split.from_frames(
        *(pd.DataFrame({"user": range(3), "item": items}) for items in (0, [1, 1, 2])), items=range(3)
    )
    propensity = ipseval.KnownPropensity(item=np.array([0.5, 0.5, np.nan])).fit(split)
    options = {"metrics": ["recall@1"], "estimators": ["aoa"], "propensity": propensity, "low_ess": "ignore"}
    evaluation = ipseval.evaluate({"m": np.ones((3, 3))}, split, **options)
    note = "\nAOA: 1 positive without a propensity left out of all averages, aoa too"
    assert note in repr(evaluation.explain())


def test_many_positives_without_a_propensity_are_a_warning_with_their_share():
    pairs = pd.DataFrame([(u, i) for u in range(20) for i in range(3)], columns=["user", "item"])
    split = ipseval.Split.from_frames(
        pairs[pairs["item"] == 0], pairs[pairs["item"] > 0], users=range(20), items=range(3)
    )
    propensity = ipseval.KnownPropensity(item=np.array([0.5, 0.5, np.nan])).fit(split)
    with pytest.warns(
        ipseval.errors.DataWarning, match=r"20 of 40 test positives \(50%\) have no propensity"
    ):
        ipseval.evaluate(
            {"m": np.ones((20, 3))}, split, propensity=propensity, metrics=["recall@1"], low_ess="ignore"
        )


@pytest.mark.parametrize(
    ("n_excluded", "n_positives", "is_warning"), [(10, 99, True), (10, 100, False), (9, 20, False)]
)
def test_few_positives_without_a_propensity_are_no_warning_but_are_counted(
    n_excluded, n_positives, is_warning, recwarn
):
    """More than a tenth of the positives, and ten at least; each user has one."""
    item = np.where(np.arange(n_positives) < n_excluded, 2, 1)
    split = ipseval.Split.from_frames(
        *(pd.DataFrame({"user": range(n_positives), "item": items}) for items in (0, item)), items=range(3)
    )
    propensity = ipseval.KnownPropensity(item=np.array([0.5, 0.5, np.nan])).fit(split)
    evaluation = ipseval.evaluate(
        {"m": np.ones((n_positives, 3))}, split, propensity=propensity, metrics=["recall@1"], low_ess="ignore"
    )
    warnings = [
        warning
        for warning in recwarn
        if "test positives" in str(warning.message) and "no propensity" in str(warning.message)
    ]
    assert bool(warnings) == is_warning
    text = repr(evaluation.explain())
    assert f"excluded:   {n_excluded} held-out interactions without a propensity" in text
    note = f"all: {n_excluded} positives without a propensity left out of all averages, aoa too"
    assert note in " ".join(text.split())


def perfect(n_users: int, models: tuple[str, ...]) -> str:
    """Print recall@1 of users with one held-out item of three, which the models named put first."""
    item = pd.DataFrame({"user": np.arange(n_users), "item": np.arange(n_users) % 3})
    split = ipseval.Split.from_frames(item.assign(item=(item["item"] + 1) % 3), item)
    right = np.zeros((n_users, 3))
    right[split.test.user, split.test.item] = 1
    scores = {"leaked": right, "other": right if "other" in models else -right}
    return repr(ipseval.evaluate(scores, split, metrics=["recall@1"], estimators=["aoa"]))


def test_a_single_perfect_recommender_of_ten_users_raises_the_question_of_leakage():
    assert "leaked: perfect for every user. Were test items in training?" in perfect(10, ("leaked",))
    assert "in training?" not in perfect(9, ("leaked",))
    assert "in training?" not in perfect(10, ("leaked", "other"))


def test_a_value_above_1_does_not_count_as_perfect():
    """Each user has both test items in front: dcg is 1 + 1/log2(3) for everybody."""
    pairs = pd.DataFrame({"user": np.repeat(np.arange(12), 3), "item": np.tile([0, 1, 2], 12)})
    split = ipseval.Split.from_frames(pairs[pairs["item"] == 0], pairs[pairs["item"] > 0], items=range(4))
    scores = {"good": np.tile([0.0, 3, 2, 1], (12, 1)), "bad": np.tile([0.0, 1, 2, 3], (12, 1))}
    evaluation = ipseval.evaluate(scores, split, metrics=["dcg@2"], estimators=["aoa"])
    assert evaluation.estimate("good", "dcg@2", "aoa").value == pytest.approx(1 + 1 / np.log2(3))
    assert "in training?" not in repr(evaluation)
    single = ipseval.evaluate({"good": scores["good"]}, split, metrics=["recall@2"], estimators=["aoa"])
    assert "good: perfect for every user." in repr(single)


def test_the_digits_of_an_estimate_are_those_of_half_its_interval():
    """Of 60 users every other one is hit: the error is .5/√59, and 1.96 times as much is .128."""
    item = pd.DataFrame({"user": np.arange(60), "item": np.arange(60) % 2})
    split = ipseval.Split.from_frames(item.assign(item=2), item)
    evaluation = ipseval.evaluate(
        {"m": np.tile([1.0, 0, 0], (60, 1))}, split, metrics="recall@1", estimators="aoa"
    )
    assert "0.50 [0.37, 0.63]" in repr(evaluation)


def test_a_page_names_the_files_that_were_read_and_its_day(monkeypatch):
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "86400")
    columns = {"columns": "who → user, what → item", "unit": "rows"}
    source = SourceCount.from_source(3, source="log.csv", is_file=True, **columns)
    frame = SourceCount.from_source(3, source="the data frame", is_file=False, **columns)
    assert describe_date([source, frame, source], "2 users") == "Data: log.csv · page of 1970-01-02"
    assert describe_date([frame], "2 users") == "Data: 2 users · page of 1970-01-02"
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    monkeypatch.setattr("time.time", lambda: 2.5 * 86400)
    assert describe_date([], "2 users") == "Data: 2 users · page of 1970-01-03"


def test_a_difference_on_a_page_has_its_interval_and_is_bold_if_significant_and_reliable():
    """An interval of .06 has two significant digits in three decimals."""
    nan = float("nan")
    row = pd.Series({"difference": -0.04, "ci_low": -0.07, "ci_high": -0.01, "p_adjusted": 0.049})
    cell = build_difference_cell(row.to_dict(), "")
    assert cell.plain == "−0.040 [−0.070, −0.010] p = 0.049"
    assert (cell.strong, cell.at) == (True, (-0.07, -0.04, -0.01))
    assert not build_difference_cell(row.to_dict(), "few").strong
    assert not build_difference_cell(row.replace(0.049, 0.05).to_dict(), "").strong
    assert build_difference_cell(row.replace([-0.07, -0.01], nan).to_dict(), "").plain == "−0.0400 not tested"
    assert build_difference_cell(row.replace(-0.04, nan).to_dict(), "few").plain == "undefined"
    assert build_difference_cell(row.replace(-0.04, nan).to_dict(), "few").flag == "few"


def test_metrics_on_sampled_candidates_warn_with_a_fix():
    split = ipseval.Split.from_frames(
        *(pd.DataFrame({"user": range(3), "item": items}) for items in ([0, 1, 2], [1, 2, 0])), items=range(5)
    )
    candidates = ipseval.SampledCandidates(2, rng=0)
    scores = {"m": np.arange(15.0).reshape(3, 5)}
    with pytest.warns(ipseval.errors.DataWarning, match="^recall@1: computed on 2 sampled candidates of 3. "):
        ipseval.evaluate(scores, split, metrics=["recall@1", "auc"], candidates=candidates)
    with pytest.warns(
        ipseval.errors.DataWarning, match="^recall@1~mle: the correction is fitted to the sampled"
    ):
        ipseval.evaluate(scores, split, metrics=["recall@1~mle", "auc~rank"], candidates=candidates)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "^recall@1", ipseval.errors.DataWarning)
        ipseval.evaluate(scores, split, metrics=["recall@1~cls", "auc~rank"], candidates=candidates)
    weighted = ipseval.SampledCandidates(2, distribution=np.arange(1.0, 6.0), rng=0)
    with pytest.warns(ipseval.errors.DataWarning, match="^recall@1, auc: computed on 2 sampled candidates"):
        ipseval.evaluate(scores, split, metrics=["recall@1", "auc"], candidates=weighted)


@pytest.mark.parametrize(
    ("metrics", "is_warning"), [(["auc"], False), (["recall@1"], True), (["auc", "recall@1"], True)]
)
def test_ranks_among_candidates_per_user_warn_unless_metrics_are_linear_in_ranks(
    metrics, is_warning, recwarn
):
    split = ipseval.Split.from_frames(
        *(pd.DataFrame({"user": range(3), "item": items}) for items in ([0, 1, 2], [1, 2, 0])), items=range(5)
    )
    candidates = pd.DataFrame({"user": [0, 0, 1, 1, 2, 2], "item": [1, 3, 2, 4, 0, 3]})
    ipseval.evaluate({"m": np.arange(15.0).reshape(3, 5)}, split, metrics=metrics, candidates=candidates)
    messages = [str(warning.message) for warning in recwarn]
    assert (
        any(message.startswith("Ranks are among each user's own candidates.") for message in messages)
        is is_warning
    )


@pytest.mark.parametrize("member", [3, int, "recall"])
def test_an_object_outside_the_families_cannot_be_registered(member):
    with pytest.raises(ipseval.InputError, match=r"^register takes a class of metrics, an estimator"):
        ipseval.register(member, name="mine")


class SnipsWithParameter(Snips):
    """An estimator whose label has the name of a built-in one and a parameter."""

    label = "snips(0.1)"


def test_an_estimator_is_registered_by_its_label_without_the_parameter():
    with pytest.raises(ipseval.InputError, match=r"^the estimator 'snips' is there already; "):
        ipseval.register(SnipsWithParameter())


def test_later_training_rows_are_reported_with_the_kind_of_split():
    user, item = np.divmod(np.arange(40), 4)
    frame = pd.DataFrame({"user": user, "item": item, "time": 40 - np.arange(40)})
    log = ipseval.Interactions.from_frame(frame, timestamp="time")
    first = ipseval.Split.from_frames(frame[item < 2], frame[item > 1], timestamp="time")
    for split, is_random in ((ipseval.split_random(log, test_fraction=0.5, rng=0), True), (first, False)):
        evaluation = ipseval.evaluate({"m": np.ones((10, 4))}, split, metrics=["recall@1"])
        assert evaluation._split_summary.is_random is is_random
        assert ("test rows have later training rows" in repr(evaluation)) is not is_random
        explained = " ".join(repr(evaluation.explain()).split())
        assert ("; the split is random" in explained) is is_random


@pytest.mark.filterwarnings("ignore:.*the cutoff exceeds")
def test_rows_of_many_recommenders_are_shared_by_the_metrics(monkeypatch):
    """Forty rows in all; of one metric at least three, and at most twelve."""
    split = ipseval.Split.from_frames(
        *(pd.DataFrame({"user": range(4), "item": items}) for items in ([0, 0, 1, 1], [1, 2, 2, 0]))
    )
    rng = np.random.default_rng(0)
    ranks = {f"m{n}": ipseval.rank_positives(rng.normal(size=(4, 3)), split) for n in range(13)}

    def rows(n_models, n_metrics):
        evaluation = ipseval.evaluate_ranks(
            dict(list(ranks.items())[:n_models]), metrics=[f"recall@{k + 1}" for k in range(n_metrics)]
        )
        return {table.n_rows for table in evaluation.tables().parts}

    assert (rows(13, 1), rows(12, 1), rows(11, 4)) == ({12}, {None}, {10})
    monkeypatch.setattr("ipseval.evaluation.report_tables.ALL_ROWS", 8)
    assert rows(4, 3) == {3}


@pytest.mark.parametrize(("cutoff", "is_warned"), [(3, False), (4, True)])
def test_a_cutoff_larger_than_the_catalogue_is_warned_of(cutoff, is_warned):
    split = ipseval.split_random(FRAME, test_fraction=0.5, rng=0)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluation = ipseval.evaluate({"m": np.eye(2, 3)}, split, metrics=[f"recall@{cutoff}", "atop"])
    texts = [str(warning.message) for warning in caught]
    expected = f"recall@{cutoff}: the cutoff exceeds the 3 items of the catalogue, "
    assert any(text.startswith(expected) for text in texts) is is_warned
    assert np.isfinite(evaluation.frame["estimate"]).all()


def test_a_result_states_which_definition_of_map_at_a_cutoff_it_has():
    split = ipseval.split_random(FRAME, test_fraction=0.5, rng=0)
    scores = {"m": np.arange(6.0).reshape(2, 3)}
    sentence = (
        "the requested map@2 is ap@2, which divides by min(s, 2) for s relevant items; ranx, trec_eval and RecTools "
        "divide by s, as ap(denominator=s)@2 does"
    )
    for label in ("map@2", "MAP@2", "map_at_2"):
        evaluation = ipseval.evaluate(scores, split, metrics=[label])
        assert evaluation.frame["metric"].tolist() == ["ap@2"]
        assert evaluation.frame["note"].tolist() == [sentence]
        assert f"Data T{sentence[1:]}." in " ".join(str(evaluation).split())

    frame = pd.DataFrame({"query": [1, 1, 1], "item": [1, 2, 3], "label": [1, 0, 1], "score": [3, 2, 1]})
    slates = ipseval.evaluate_slates({"m": frame}, metrics=["map@2"])
    lists = {user: [split.item_ids.tolist()] * 2 for user in split.user_ids.tolist()}
    generations = evaluate_generations({"m": lists}, split, metrics=iter(["map@2"]))
    for result in (slates, generations):
        assert f"T{sentence[1:]}." in " ".join(str(result).split())
    assert sentence[1:] not in str(evaluate_generations({"m": lists}, split, metrics=["ap@2"]))

    for label in ("ap@2", "map(denominator=min)@2", "map(denominator=s)@2", "map_cut_2", "map"):
        assert ipseval.evaluate(scores, split, metrics=[label]).frame["note"].tolist() == [""]
