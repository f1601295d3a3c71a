"""Segments: values by hand, parts that add up, errors of restricted evaluations, reports that live."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logit

import ipseval
from ipseval.errors import PositivityWarning
from ipseval.estimators import ESTIMATORS, Parts
from ipseval.reporting import Report
from ipseval.utils.notes import join_notes
from tests.conftest import examples
from tests.inside.evaluation import _assess_reliability, resolve_groups
from tests.worlds import random_world

# The median user of these small worlds has few positives, which per-user snips warns of.
pytestmark = pytest.mark.filterwarnings("ignore:the median user has")
ADDITIVE = ["ndcg@5", "recall@5", "dcg@5", "atop", "auc"]
NOT_ADDITIVE = ["hit@3", "rr", "ap@5"]
ALONE = ["aoa", "aoa-pooled", "snips", "snips-global", "snips-pooled"]


def evaluated(seed=0, metrics=ADDITIVE, estimators=ALONE, models=2, **options):
    world = random_world(seed, n_users=60, n_items=40)
    rng = np.random.default_rng(seed)
    scorers = {"a": world.scores, "b": rng.normal(size=world.scores.shape)}
    return ipseval.evaluate(
        dict(list(scorers.items())[:models]),
        world.split,
        propensity=ipseval.KnownPropensity(item=world.propensity),
        metrics=metrics,
        estimators=estimators,
        low_ess="ignore",
        **options,
    )


def devices(evaluation, seed=0):
    rng = np.random.default_rng(seed)
    return ipseval.evaluation.segments.user_groups(
        rng.choice(["app", "tv", "web"], evaluation.user_ids.size), name="device"
    )


def by_hand():
    """Two users; items 0, 1 are rare (P = 1/4), items 2, 3 popular (P = 1/2)."""
    frame = pd.DataFrame({"user": [0, 0, 0, 1, 1], "item": [0, 2, 3, 1, 2]})
    train = pd.DataFrame({"user": [0, 1], "item": [4, 4]})
    split = ipseval.Split.from_frames(train, frame, users=[0, 1], items=range(5))
    scores = np.array([[9.0, 1.0, 8.0, 0.0, 7.0], [1.0, 9.0, 8.0, 7.0, 9.0]])
    return ipseval.evaluate(
        {"m": scores},
        split,
        propensity=ipseval.KnownPropensity(item=[0.25, 0.25, 0.5, 0.5, 0.5], is_probability=True),
        metrics=["recall@1"],
        estimators=["aoa", "snips-global", "ips"],
        n_relevant=[4, 4],
        low_ess="ignore",
    )


def test_item_groups_by_hand():
    # recall@1: user 0 has item 0 at rank 1 and misses 2 and 3; user 1 has item 1 at rank 1 and misses 2.
    groups = ipseval.evaluation.segments.item_groups(
        ["rare", "rare", "popular", "popular", "popular"], name="kind"
    )
    segments = by_hand().by(groups)
    assert (segments.frame.index.tolist(), segments.gaps().index.tolist()) == ([*range(6)], [*range(3)])
    frame = segments.frame.set_index(["estimator", "group"])
    # aoa: positives weigh 1/3 and 1/2; rare: (1/3 + 1/2), all hit; popular: (2/3 + 1/2), none.
    assert frame.loc[("aoa", "rare"), "estimate"] == 1.0
    assert frame.loc[("aoa", "popular"), "estimate"] == 0.0
    assert frame.loc[("aoa", "rare"), "share"] == pytest.approx((1 / 3 + 1 / 2) / 2)
    # snips-global: w/|S*_u|: rare 4/3 + 4/2, popular 4/3 + 2/2.
    assert frame.loc[("snips-global", "rare"), "share"] == pytest.approx((10 / 3) / (10 / 3 + 7 / 3))
    # ips: w/s_u = 1 for rare, 1/2 for popular; the mean over two users of Σ w c/s is (1 + 1)/2.
    assert frame.loc[("ips", "rare"), "part"] == pytest.approx(1.0)
    assert frame.loc[("ips", "rare"), "share"] == pytest.approx(2 / 3.5)
    assert frame.loc[("ips", "rare"), "estimate"] == pytest.approx(3.5 / 2)  # mean V = (2 + 1.5)/2
    assert frame["n_positives"].groupby(level="group").first().to_dict() == {"popular": 3, "rare": 2}
    assert frame["n_members"].groupby(level="group").first().to_dict() == {"popular": 3, "rare": 2}
    # ess: (ΣD)²/ΣD² of D = 2/3 and 1/2.
    assert frame.loc[("aoa", "popular"), "ess"] == pytest.approx((7 / 6) ** 2 / (4 / 9 + 1 / 4))
    constant = "no interval: the values of its users do not vary"
    assert frame.loc["aoa", "note"].tolist() == [constant] * 2
    _, table, _, notes = segments.tables(digits=1).parts
    assert [[cell.text for cell in line] for line in table.rows] == [
        ["popular", "0.0000", "41.2%", "3"],
        ["rare", "1.0000", "58.8%", "2"],
        ["all", "0.5882", "100.0%", ""],
    ]
    assert (table.rows[0][1].error, table.rows[0][1].hint) == ("", constant)
    titles = [f"recall@1, {words}" for words in ("AOA", "SNIPS", "IPS")]
    assert [table.title for table in segments.tables().parts[:-1]] == titles
    assert not any(line.startswith("Results by") for line in notes.lines)


@pytest.mark.filterwarnings("ignore::UserWarning")  # the scores are random or equal
def test_equal_values_have_no_error_also_where_their_variance_is_above_0_by_rounding():
    rng = np.random.default_rng(0)
    n_items = 83
    train = [(user, item) for user in range(20) for item in rng.choice(n_items, 5, replace=False)]
    test = [(user, item) for user in range(20, 217) for item in rng.choice(n_items, 3, replace=False)]
    frames = [pd.DataFrame(rows, columns=["user", "item"]) for rows in (train, test)]
    split = ipseval.Split.from_frames(*frames, users=np.arange(217), items=np.arange(n_items))
    models = {"flat": np.zeros((217, n_items)), "random": rng.random((217, n_items))}
    evaluation = ipseval.evaluate(models, split, metrics=["recall@10"], estimators=["aoa"])
    frame = evaluation.by("cold-users").frame.set_index(["model", "group"])
    row = frame.loc[("flat", "cold (none)")]
    assert row["estimate"] == pytest.approx(10 / n_items)
    assert row["std_error"] == 0
    assert np.isnan(row["ci_low"])
    assert row["note"] == "no interval: the values of its users do not vary"
    assert frame.loc[("random", "cold (none)"), "std_error"] > 0


def test_tables_of_more_than_two_groups_hold_one_estimator_and_name_the_others():
    groups = ipseval.evaluation.segments.item_groups(["a", "a", "b", "b", "c"], name="kind")
    segments = by_hand().by(groups)
    table, notes = segments.tables().parts
    assert table.title == "recall@1, SNIPS"
    assert notes.lines[-1] == "Results by AOA and IPS: .frame, .differences(), .to_html()."
    assert [table.title for table in segments.tables(page=True).parts[:-1]] == [
        f"recall@1, {words}" for words in ("AOA", "SNIPS", "IPS")
    ]


@pytest.mark.parametrize("seed", range(examples(10)))
def test_parts_add_up_to_the_whole_and_shares_to_one(seed):
    estimators = [*ALONE, "ips"]
    reference_evaluation = evaluated(seed, ["recall@5", "mean_dcg"], estimators, models=1, n_relevant=40)
    second_evaluation = evaluated(seed, ["ndcg@5", "dcg@5", "auc", "atop"], models=1)
    sums = evaluated(seed, ["dcg@5"], ["ips"])
    for evaluation, by in itertools.product(
        (reference_evaluation, second_evaluation, sums), ("popularity:5", "activity:3")
    ):
        segments = evaluation.by(by)
        for (metric, estimator), cell in segments.cells.items():
            expected = [evaluation.estimate(model, metric, estimator).value for model in segments.models]
            if by.startswith("popularity"):
                if (metric, estimator) == ("auc", "snips-pooled"):
                    continue  # the share of pairs won is no sum over positives
                product = np.nansum(cell.share * cell.value, axis=1)
                np.testing.assert_allclose(product, expected, rtol=0, atol=1e-12)
            np.testing.assert_allclose(np.nansum(cell.part, axis=1), expected, rtol=0, atol=1e-12)
            np.testing.assert_allclose(np.nansum(cell.share, axis=1), 1.0, rtol=0, atol=1e-12)


def test_a_group_of_users_has_the_estimate_and_error_of_an_evaluation_of_these_users():
    options = {"metrics": ["ndcg@5", "dcg@5", "auc", "ap@5"], "estimators": [*ALONE, "snips-shrunk(0.5)"]}
    evaluation = evaluated(1, models=1, **options)
    groups = devices(evaluation).resolve(evaluation.user_ids)
    key = ["model", "metric", "estimator"]
    rows = evaluation.by(groups).frame.set_index(key)
    columns = ["estimate", "std_error", "n_users"]
    in_group = groups.codes == 1
    ranks = {
        name: sample.ranked.select(in_group[sample.ranked.user])
        for name, sample in evaluation.samples.items()
    }
    frame = ipseval.evaluate_ranks(
        ranks, propensity=evaluation.propensity, low_ess="ignore", **options
    ).frame.set_index(key)[columns]
    result_frame = rows.loc[rows["group"] == groups.labels[1], columns].reindex(frame.index)
    assert len(frame) == 4 * 6
    np.testing.assert_allclose(result_frame, frame, rtol=0, atol=1e-12)


def test_ips_counts_the_users_of_a_group_without_positives():
    evaluation = by_hand()
    grouping = ipseval.evaluation.segments.user_groups(["x", "x"], name="one")
    everyone = evaluation.by(grouping).frame.set_index("estimator")
    assert everyone.loc["ips", "estimate"] == pytest.approx(evaluation.estimate("m", "recall@1", "ips").value)


def test_users_who_left_with_missing_lists_are_not_undefined_users_of_their_group():
    train, test = (pd.DataFrame({"user": range(3), "item": value}) for value in (0, 1))
    lists = pd.DataFrame({"user": [0, 1], "item": 1, "rank": 1})  # user 2 has none
    evaluation = ipseval.evaluate(
        {"m": lists},
        ipseval.Split.from_frames(train, test, items=range(3)),
        metrics=["recall@1"],
        estimators=["ips"],
        propensity=ipseval.KnownPropensity(item=[0.5, 0.5, 0.5], is_probability=True),
        n_relevant=3,
        missing_lists="drop",
        low_ess="ignore",
    )
    groups = ipseval.evaluation.segments.user_groups(["x", "y", "x"], name="g")
    assert not evaluation.by(groups).frame["note"].str.contains("left out").any()


def test_the_part_of_the_only_user_with_positives_is_the_need_samples():
    train, test = pd.DataFrame({"user": [0, 1], "item": 0}), pd.DataFrame({"user": 0, "item": [1, 2]})
    split = ipseval.Split.from_frames(train, test, users=[0, 1], items=range(4))
    options = {"metrics": ["dcg@2"], "estimators": ["aoa"], "low_ess": "ignore"}
    evaluation = ipseval.evaluate({"m": np.tile([0.0, 3, 2, 1], (2, 1))}, split, **options)
    segments = evaluation.by(ipseval.evaluation.segments.user_groups(["x", "y"]))
    # Both are at the top: 1 + 1/log2(3).
    assert segments.frame["part"].tolist() == pytest.approx([1 + 1 / np.log2(3), 0])
    # The other user has no positive, and so nothing that could be undefined.
    nobody, cell = "undefined: no user has weight in the group", segments.cells["dcg@2", "aoa"]
    assert (segments.frame["note"].tolist()[1], cell.in_unit) == (nobody, False)


def influence(weight, value, member, row, n_users):
    """ψ_u of Σ_g a c / Σ_g a by its definition: what user u adds, minus R times its weight."""
    top = np.bincount(row, weight * value * member, n_users)
    low = np.bincount(row, weight * member, n_users)
    ratio = top.sum() / low.sum()
    return (top - ratio * low) / low.mean()


def test_the_error_of_a_group_of_items_and_of_a_gap_is_that_of_the_users_influence():
    evaluation = evaluated(2, ["recall@5"], ["snips-global"], models=1)
    segments = evaluation.by("popularity:3")
    sample = evaluation.samples["a"]
    parts = evaluation.definitions[1][0].parts(sample, evaluation.definitions[0][0])
    assert isinstance(parts, Parts)
    groups = resolve_groups(
        "popularity:3", evaluation.user_ids, sample.ranked.item_ids, evaluation._training_counts
    )[0]
    code, n = groups.codes[sample.ranked.item], sample.ranked.users.size
    psi = [influence(parts.weight, parts.value, code == g, sample.ranked.segment, n) for g in range(3)]
    expected = [np.sqrt(np.sum(influences**2) / (n * (n - 1))) for influences in psi]
    np.testing.assert_allclose(segments.frame["std_error"], expected, rtol=1e-10)
    gap = segments.gaps(reference=segments.labels[0]).iloc[0]
    error = np.sqrt(np.sum((psi[1] - psi[0]) ** 2) / (n * (n - 1)))
    assert gap["std_error"] == pytest.approx(error, rel=1e-10)


def test_differences_within_a_group_are_the_paired_ones():
    evaluation = evaluated(3, ["recall@5"], ["snips-global"])
    groups = devices(evaluation).resolve(evaluation.user_ids)
    differences = evaluation.by(groups).differences()
    tested = ["difference", "std_error", "ci_low", "ci_high", "p_value", "p_adjusted"]
    keys = ["by", "group", "metric", "estimator", "model", "reference"]
    assert list(differences) == [*keys, *tested, "n_users", "note"]
    differences = differences.set_index("group")
    for number, label in enumerate(groups.labels):
        in_group = groups.codes == number
        ranks = {
            name: sample.ranked.select(in_group[sample.ranked.user])
            for name, sample in evaluation.samples.items()
        }
        single = ipseval.evaluate_ranks(
            ranks, propensity=evaluation.propensity, metrics=["recall@5"], low_ess="ignore"
        ).compare()
        row = single[single["estimator"] == "snips-global"].iloc[0]
        assert differences.loc[label, "difference"] == pytest.approx(row["difference"], abs=1e-12)
        assert differences.loc[label, "std_error"] == pytest.approx(row["std_error"], rel=1e-9)


def test_groups_of_users_are_tested_by_students_t():
    """Within a group by pairs, between groups after Welch; intervals of three groups at once by Šidák."""
    evaluation = evaluated(3, ["recall@5"], ["aoa"])
    groups = devices(evaluation).resolve(evaluation.user_ids)
    segments = evaluation.by(groups)
    code = pd.Series(groups.codes, index=evaluation.user_ids)
    first, second = (evaluation.per_user(model, "recall@5", "aoa") for model in "ab")
    code = code[first.index]
    frame = segments.differences().set_index("group")
    for number, label in enumerate(groups.labels):
        gap, row = (first - second)[code == number], frame.loc[label]
        assert row["p_value"] == pytest.approx(stats.ttest_1samp(gap, 0).pvalue, rel=1e-8)
        half = stats.t.ppf((1 + 0.95 ** (1 / 3)) / 2, gap.size - 1) * stats.sem(gap)
        ends = [gap.mean() - half, gap.mean() + half]
        assert row[["ci_low", "ci_high"]].tolist() == pytest.approx(ends, rel=1e-8)
        assert (row["n_users"], row["note"]) == (gap.size, "")
    gaps = segments.gaps().query("model == 'b'").set_index(["group", "reference"])
    assert len(gaps) == 3
    for (label, reference), row in gaps.iterrows():
        values, reference_values = (second[code == groups.labels.index(name)] for name in (label, reference))
        expected = stats.ttest_ind(values, reference_values, equal_var=False)
        assert row["p_value"] == pytest.approx(expected.pvalue, rel=1e-8)
        ends = expected.confidence_interval(0.95)
        assert row[["ci_low", "ci_high"]].tolist() == pytest.approx([ends.low, ends.high], rel=1e-8)


def test_metrics_whose_positives_do_not_add_up_say_so_and_have_no_part():
    evaluation = evaluated(4, NOT_ADDITIVE, ["aoa", "snips-global"], models=1)
    frame = evaluation.by("popularity:3").frame
    assert frame[["part", "share"]].isna().all().all()
    assert frame["note"].str.contains("over the positives of the group alone").all()
    ranked = evaluation.samples["a"].ranked
    groups = resolve_groups(
        "popularity:3", evaluation.user_ids, ranked.item_ids, evaluation._training_counts
    )[0]
    subset = ranked.select(groups.codes[ranked.item] == 0)
    reference_evaluation = ipseval.evaluate_ranks({"a": subset}, metrics=["hit@3"], estimators=["aoa"])
    row = frame[(frame["metric"] == "hit@3") & (frame["model"] == "a")].iloc[0]
    assert row["estimate"] == pytest.approx(reference_evaluation.frame["estimate"].iloc[0], abs=1e-12)


@pytest.mark.filterwarnings("ignore::ipseval.errors.DataWarning")
def test_a_metric_that_is_undefined_for_everybody_is_undefined_in_every_group():
    # Beside its two positives no user has a candidate, so that no pair can be compared.
    train = pd.DataFrame({"user": [0, 0, 1, 1], "item": [0, 3, 0, 3]})
    test = pd.DataFrame({"user": [0, 0, 1, 1], "item": [1, 2, 1, 2]})
    split = ipseval.Split.from_frames(train, test)
    evaluation = ipseval.evaluate({"m": np.arange(8.0).reshape(2, 4)}, split, metrics=["auc"])
    assert evaluation.tables().parts[0].rows[0][1].text == "undefined"
    nobody, why = "undefined: no user has weight in the group", "left out: the metric is undefined for them; "
    for by, notes in (
        (ipseval.evaluation.segments.item_groups(list("abbc")), [nobody, f"2 users {why}{nobody}", nobody]),
        (ipseval.evaluation.segments.user_groups(["x", "y"]), [f"1 user {why}{nobody}"] * 2),
    ):
        frame = evaluation.by(by).frame
        np.testing.assert_equal(
            frame[["n_users", "ess", "estimate"]].to_numpy(), [[0, 0, np.nan]] * len(notes)
        )
        assert frame["note"].tolist() == notes


def test_ips_of_list_metrics_has_no_form_for_groups_of_items():
    evaluation = evaluated(4, ["ndcg@5"], ["ips"], n_relevant=40)
    frame = evaluation.by("popularity:3").frame
    assert frame["estimate"].isna().all()
    assert frame["note"].str.contains("no form for the positives of one group").all()


def test_small_groups_are_suppressed_and_flagged_by_their_effective_users():
    world = random_world(5, n_users=60)
    label = np.array(["few"] * 4 + ["some"] * 20 + ["many"] * 36)
    size = ipseval.evaluation.segments.user_groups(label, name="size")
    scores = {"m": world.scores, "n": -world.scores}
    segments = ipseval.evaluate(scores, world.split, metrics=["recall@5"], estimators=["aoa"]).by(size)
    rows = segments.frame.query("model == 'm'").set_index("group")
    assert np.isnan(rows.loc["few", "estimate"])
    assert rows.loc["few", "note"].startswith("suppressed: 4 effective users")
    assert rows.loc["some", "note"] == "20 effective users, fewer than 30"
    assert rows.loc["some", "estimate"] > 0
    assert rows.loc["many", "note"] == ""
    assert "suppressed" in repr(segments)
    lead = segments.differences().set_index("group")
    gaps = segments.gaps().set_index(["group", "reference"]).sort_index()
    columns = ["difference", "std_error", "ci_low", "p_value"]
    assert lead[columns].isna().all(axis=1).to_dict() == {"few": True, "many": False, "some": False}
    assert lead["note"]["few"] == "suppressed: 4 effective users, fewer than 5"
    is_hidden = gaps[columns].isna().all(axis=1)
    assert (is_hidden == [("few" in pair) for pair in gaps.index]).all()
    assert set(gaps["note"][("many", "some")]) == {"20 effective users, fewer than 30"}
    is_hidden = ipseval.evaluate({"m": world.scores}, world.split, metrics=["recall@5"], low_ess="nan").by(
        "activity:6"
    )
    assert is_hidden.frame["estimate"].isna().all()  # each group of about 10
    chance = np.full(world.split.n_items, 0.5)
    chance[world.split.test.item[world.split.test.user == 24][0]] = 1e-4  # of two users of the third group
    with pytest.warns(PositivityWarning):
        heavy = ipseval.evaluate(
            {"m": world.scores},
            world.split,
            propensity=ipseval.KnownPropensity(item=chance),
            metrics=["recall@5"],
            estimators=["snips-global"],
        )
    notes = heavy.by(size).frame.set_index("group")["note"]
    assert notes.str.contains("effective sample size 2 of").to_dict() == {
        "few": False,
        "many": True,
        "some": False,
    }


def test_a_group_is_flagged_below_30_effective_users_and_suppressed_below_5_or_with_a_wide_error():
    metric = evaluated(0, ["recall@5"], ["aoa"], models=1).definitions[0][0]
    effective = np.array([[0.0, 1.0, 4.5, 5.0, 29.5, 30.0, 40.0], [0.0, 9.0, 9.0, 9.0, 99.0, 99.0, 99.0]])
    covariance = np.zeros((14, 14))
    covariance[6, 6] = 1.21  # a standard error of 1.1 in the last group of the first model

    def trust(low_ess):
        flags, is_hidden = _assess_reliability(
            np.zeros((2, 7)),
            covariance,
            effective,
            weights=None,
            n_positives=np.ones(7, dtype=int),
            metric=metric,
            low_ess=low_ess,
        )
        assert (is_hidden[0] == is_hidden[1]).all()
        return tuple(join_notes(*group) for group in flags), np.flatnonzero(is_hidden[0]).tolist()

    flags, is_hidden = trust("warn")
    few = [f"{n} effective users, fewer than 5" for n in ("1", "4.5")]
    few += [f"{n} effective users, fewer than 30" for n in ("5", "29.5")]
    assert flags[:6] == ("", *few, "")
    assert "1.1 beyond the range of recall@5, 0 to 1" in flags[6]
    assert is_hidden == [1, 2, 6]
    assert trust("nan") == (flags, [1, 2, 3, 4, 6])
    assert trust("ignore") == (("",) * 7, [])


@pytest.mark.parametrize(("limit", "note"), [(5, "5 effective users, fewer than 30"), (30, "")])
def test_effective_users_that_equal_a_limit_up_to_rounding_are_not_below_it(limit, note):
    metric = evaluated(0, ["recall@5"], ["aoa"], models=1).definitions[0][0]
    notes = []
    for n_effective in (limit, np.nextafter(limit, 0), limit * (1 + 1e-14), limit * (1 - 1e-14)):
        flags, is_hidden = _assess_reliability(
            np.zeros((1, 1)),
            np.zeros((1, 1)),
            np.array([[n_effective]]),
            weights=None,
            n_positives=np.array([limit]),
            metric=metric,
            low_ess="warn",
        )
        assert not is_hidden[0, 0]
        notes.append(join_notes(*flags[0]))
    assert notes == [note] * 4


def test_a_report_holds_an_evaluation_with_its_segments():
    evaluation = evaluated(6, ["recall@5", "hit@3"], ["aoa"])
    segments = evaluation.by("popularity:3")
    assert (segments.metrics, segments.estimators) == (["recall@5", "hit@3"], ["aoa"])
    assert evaluation.popularity.empty  # the plain average moves no weight
    units = [cell.in_unit for cell in segments.cells.values()]
    assert (units, segments.differences().index.tolist()) == ([True, True], list(range(6)))
    plain = evaluated(6, ["recall@5"], ["aoa", "aoa-pooled"], models=1).by("activity:3")
    assert [table.title for table in plain.tables().parts[:-1]] == ["recall@5, AOA pooled"]
    text = repr(Report([evaluation, segments, plain]))
    assert text.index("3 groups of items") < text.index("3 groups of users")
    assert "By popularity: 3 groups of items" in text
    items = text[text.index("3 groups of items") : text.index("3 groups of users")]
    assert items.count("100.0%") == 1  # positives of hit@3 do not add up
    expected = evaluation.frame.set_index("metric").loc["recall@5", "estimate"]
    assert "all {:.3f} {:.3f} 100.0%".format(*expected) in " ".join(items.split())
    assert max(map(len, text.splitlines())) <= 110
    # By its metric a report leaves a table out of a page.
    assert [(table.metric, table.title) for table in segments.tables(page=True).parts[:-1]] == [
        (metric, f"{metric}, AOA") for metric in segments.metrics
    ]


def test_intervals_are_wider_for_all_groups_at_once_and_the_same_in_every_run():
    evaluation = evaluated(7, ["recall@5"], ["aoa"], models=1)
    segments = evaluation.by("popularity:5")
    frame, cell = segments.frame, segments.cells["recall@5", "aoa"]
    low, value, high = (frame[name].to_numpy() for name in ("ci_low", "estimate", "ci_high"))
    # An interval that would leave [0, 1] is one of the logit, and is turned back to the scale of the metric.
    normal = np.isclose(low + high, 2 * value)
    width = np.where(normal, (high - low) / 2, (logit(high) - logit(low)) / 2 * value * (1 - value))
    assert (cell.half_width(0, 0.05) < width).all()  # each group alone
    assert (width <= cell.half_width(0, 0.05 / 5) + 1e-12).all()  # Bonferroni
    pd.testing.assert_frame_equal(evaluation.by("popularity:5").frame, frame, check_exact=True)


def test_questions_that_cannot_be_answered_say_why():
    evaluation = evaluated(8, ["ndcg@5"], ["aoa"], models=1)
    with pytest.raises(ipseval.InputError, match="differences need at least two recommenders; got 1"):
        evaluation.by("popularity").differences()
    with pytest.raises(ipseval.InputError, match="one group; a gap needs two"):
        evaluation.by(ipseval.evaluation.segments.user_groups(["x"] * 60, name="one")).gaps()
    with pytest.raises(ipseval.InputError, match="holds 2 groupings"):
        evaluation.by(["popularity", "activity"])
    ranks = ipseval.evaluate_ranks({"a": evaluation.samples["a"].ranked}, metrics=["recall@5"])
    with pytest.raises(ipseval.InputError, match="need the training counts"):
        ranks.by("popularity")
    assert len(ranks.by("popularity:3", counts=evaluation._training_counts).frame) == 3
    assert "snips" in ESTIMATORS
    segments = evaluated(8, ["ndcg@5"], ["aoa"]).by("activity:3")
    with pytest.raises(ipseval.errors.UnknownNameError, match="correction"):
        segments.differences(correction="none")
    assert segments.gaps(correction=None)["p_adjusted"].equals(segments.gaps(correction=None)["p_value"])
    single = segments.gaps(segments.labels[1], correction="bonferroni")
    assert single["reference"].unique().tolist() == [segments.labels[1]]
    assert single["p_adjusted"].to_numpy() == pytest.approx((2 * single["p_value"]).clip(upper=1).to_numpy())
