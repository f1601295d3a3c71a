"""Slates: reading, ranking within queries, weights, errors over users, and what is refused."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import DataWarning, InputError, PropensityError
from ipseval.evaluation.slates import Slates, evaluate_slates, rank_slates
from tests.evaluation.slates.worlds import random_slates
from tests.inside.inference import leave_one_out

TRIPLES = pd.DataFrame(
    {
        "query": [1, 1, 1, 2, 2, 2],
        "item": ["a", "b", "c", "a", "b", "c"],
        "score": [0.9, 0.8, 0.1, 0.7, 0.2, 0.3],
        "label": [0, 1, 0, 1, 0, 0],
    }
)
# Ann has two queries, Ben one; the labels of query 1 are graded.
SHOWN = pd.DataFrame(
    {
        "user": ["ann"] * 5 + ["ben"] * 2,
        "query": [1, 1, 1, 2, 2, 3, 3],
        "item": ["x", "y", "z", "x", "y", "y", "z"],
        "label": [0, 2, 1, 1, 0, 1, 0],
        "position": [1, 2, 3, 1, 2, 2, 1],
        "propensity": [1.0, 0.5, 0.25, 1.0, 0.5, 0.5, 1.0],
        "score": [3.0, 2.0, 1.0, 1.0, 1.0, 5.0, 6.0],
    }
)
BINARY = SHOWN.assign(label=(SHOWN["label"] > 0).astype(int))
EVERY = [
    *("auc", "rr", "ap", "ndcg", "ndcg@2", "precision@2", "recall@2", "hit@1", "dcg", "mean_dcg", "atop"),
    *("rbp(0.8)", "hits@1"),
]


def value(evaluation: ipseval.Evaluation, metric: str, estimator: str = "aoa") -> float:
    return evaluation.estimate(evaluation.models[0], metric, estimator).value


def test_the_reciprocal_rank_of_two_queries_with_ranks_2_and_1_is_three_quarters():
    evaluation = evaluate_slates({"model": TRIPLES}, metrics=["mrr", "hits@1", "hits@3"])
    assert [value(evaluation, label) for label in ("rr", "hits@1", "hits@3")] == [0.75, 0.5, 1.0]


def test_candidates_of_a_query_are_exactly_its_items_and_every_metric_can_be_read():
    slates = Slates.from_frame(SHOWN.drop(columns="propensity"))
    second = SHOWN.rename(columns={"user": "who", "position": "place"})
    renamed = Slates.from_frame(second, user="who", position="place")
    assert (renamed.user.tolist(), renamed.position.tolist()) == ([0, 0, 1], SHOWN["position"].tolist())
    assert (Slates.from_frame(second).user, Slates.from_frame(second).position) == (None, None)
    assert repr(slates) == "Slates(7 rows, 3 queries of 2 users, 3 items; 4 positives)"
    ranked = rank_slates(SHOWN["score"].to_numpy(), slates)
    columns = ("user", "item", "n_above", "n_tied", "n_candidates", "gain")
    rows = np.column_stack([getattr(ranked, name) for name in columns]).tolist()
    # query, item, above, tied, listed, label
    assert rows == [[0, 1, 1, 0, 3, 2], [0, 2, 2, 0, 3, 1], [1, 0, 0, 1, 2, 1], [2, 1, 1, 0, 2, 1]]
    with pytest.warns(DataWarning, match=r"labels have grades.*: ndcg, ndcg@2, .*gain=linear"):
        evaluation = evaluate_slates({"m": SHOWN["score"]}, slates, metrics=EVERY)
    assert evaluation.frame["estimate"].notna().all()
    # Query 1: both positives below the only other item; 2: a tie; 3: below.
    assert value(evaluation, "auc") == (0 + 0.5 + 0) / 3
    assert value(evaluation, "rr") == pytest.approx((1 / 2 + 3 / 4 + 1 / 2) / 3, abs=1e-15)
    assert value(evaluation, "precision@2") == pytest.approx((1 / 2 + 1 / 2 + 1 / 2) / 3, abs=1e-15)


def test_graded_labels_are_gains():
    slates = Slates.from_frame(SHOWN.drop(columns="propensity"))
    evaluation = evaluate_slates({"m": SHOWN["score"]}, slates, metrics=["ndcg(gain=linear)"])
    second = 1 / np.log2(3)
    first = (2 * second + 1 / 2) / (2 + second)  # gains 2, 1 at ranks 2, 3
    tied = (1 + second) / 2
    assert value(evaluation, "ndcg(gain=linear)") == pytest.approx((first + tied + second) / 3, abs=1e-15)


def test_queries_of_one_user_are_added_up_before_the_error_is_computed():
    """Values .5, .75, .5 of Ann's two queries and Ben's one; R = 7/12, D̄ = 3/2.

    ψ = (Σ v − R m)/D̄: Ann (1.25 − 7/6)/1.5 = 1/18, Ben −1/18. SE² = 2/18²/(2·1).
    """
    evaluation = evaluate_slates({"m": SHOWN}, metrics=["rr"], estimators=["aoa"])
    estimate = evaluation.estimate("m", "rr", "aoa")
    assert estimate.sums.n_users == 2
    assert estimate.value == pytest.approx(7 / 12, abs=1e-15)
    assert estimate.standard_error == pytest.approx(1 / 18, abs=1e-15)
    assert evaluation.per_user("m", "rr", "aoa").to_dict() == {"ann": 0.625, "ben": 0.5}
    assert "3 queries of 2 users, 3 items, 4 held-out interactions" in str(evaluation)
    reference_evaluation = evaluate_slates(
        {"m": SHOWN.drop(columns="user")}, metrics=["rr"], estimators=["aoa"]
    )
    # Independent queries: the standard error of a mean of three values.
    assert reference_evaluation.estimate("m", "rr", "aoa").value == estimate.value
    expected = np.std([0.5, 0.75, 0.5], ddof=1) / np.sqrt(3)
    assert reference_evaluation.estimate("m", "rr", "aoa").standard_error == pytest.approx(
        expected, abs=1e-15
    )


def test_differences_are_tested_over_users():
    rng = np.random.default_rng(1)
    frame = random_slates(rng, 200, per_user=5)
    scores = {"one": frame["score"], "two": rng.normal(size=len(frame))}
    evaluation = evaluate_slates(scores, frame, metrics=["rr"], estimators=["aoa"])
    table = evaluation.compare()
    by_user = pd.DataFrame(
        {name: evaluation.per_user(name, "rr", "aoa") for name in scores}
    )  # five queries each: equal weights
    gap = by_user["one"] - by_user["two"]
    assert table["n_users"].item() == 40
    assert table["difference"].item() == pytest.approx(gap.mean(), abs=1e-14)
    assert table["std_error"].item() == pytest.approx(gap.std() / np.sqrt(40), abs=1e-14)


@pytest.mark.filterwarnings("ignore:the median query has 3 test positives. per-query snips")
@pytest.mark.parametrize(
    ("metrics", "estimators"),
    [
        (["rr", "dcg", "recall@2", "auc"], ["aoa", "aoa-pooled", "snips", "snips-global", "snips-pooled"]),
        (["rr", "dcg", "recall@2"], ["ips"]),
    ],
)
def test_the_error_agrees_with_a_jackknife_over_users(metrics: list[str], estimators: list[str]):
    """Leaving one user out with all queries changes the estimate by about its influence over n."""
    frame = random_slates(np.random.default_rng(2), 600, per_user=3)
    frame.loc[frame["user"] % 3 == 0, "user"] = frame["user"] // 7 * 7  # users of unequal size
    frame = frame.assign(user=frame.groupby("query")["user"].transform("first"))
    frame["propensity"] = 0.2 + 0.8 * ((frame["item"] * 13) % 29) / 28
    options = {"metrics": metrics, "estimators": estimators, "low_ess": "ignore", "n_relevant": 20}
    user = frame["user"].unique()[5]
    place = np.flatnonzero(np.unique(frame["user"]) == user)[0]
    evaluation = evaluate_slates({"m": frame}, **options)
    reference_evaluation = evaluate_slates({"m": frame[frame["user"] != user]}, **options)
    for metric, estimator in itertools.product(metrics, estimators):
        estimate = evaluation.estimate("m", metric, estimator)
        values_without_user = leave_one_out(estimate.user_sums)
        n = values_without_user.size
        jackknife = np.sqrt((n - 1) / n * np.sum((values_without_user - values_without_user.mean()) ** 2))
        assert estimate.sums.n_users == frame["user"].nunique() < 1000
        assert estimate.standard_error == pytest.approx(jackknife, rel=0.02)
        # Each value of the jackknife is the estimate on the other users.
        assert values_without_user[place] == pytest.approx(
            reference_evaluation.estimate("m", metric, estimator).value, rel=1e-11
        )


@pytest.mark.filterwarnings("ignore:the median query has")
def test_sensitivity_carries_the_errors_of_users():
    frame = random_slates(np.random.default_rng(4), 100, per_user=4)
    train = ipseval.Interactions.from_frame(
        pd.DataFrame({"user": np.arange(500), "item": np.random.default_rng(5).choice(frame["item"], 500)})
    )
    half = ipseval.PowerLawPropensity(gamma=0.5, unseen="drop").fit(train)
    options = {"metrics": ["recall@2", "dcg", "rr"], "estimators": ["aoa", "snips", "snips-global"]}
    evaluation = evaluate_slates({"m": frame}, propensity=half, **options)
    curve = evaluation.sensitivity([0.0, 0.5, 1.0]).frame
    result_frame = curve[np.isclose(curve["gamma"], 0.5)].reset_index(drop=True)
    np.testing.assert_allclose(result_frame["estimate"], evaluation.frame["estimate"], rtol=1e-12)
    np.testing.assert_allclose(result_frame["std_error"], evaluation.frame["std_error"], rtol=1e-10)
    assert evaluation.bounds(2.0)["estimate"].to_numpy() == pytest.approx(
        evaluation.frame["estimate"].to_numpy()
    )


def test_a_bootstrap_with_refits_draws_users_too():
    frame = random_slates(np.random.default_rng(6), 300, per_user=3)
    rng = np.random.default_rng(7)
    train = ipseval.Interactions.from_frame(
        pd.DataFrame({"user": rng.integers(100, size=900), "item": rng.choice(frame["item"], 900)}),
        users=np.arange(100),
        duplicates="drop",
    )
    items = np.unique(frame["item"])
    slates = Slates.from_frame(frame, users=np.arange(100), items=items)
    train = ipseval.Interactions.from_frame(train.to_frame(), users=np.arange(100), items=items)
    fitted = ipseval.PowerLawPropensity(gamma=0.5, unseen="smooth").fit(train)
    evaluation = evaluate_slates(
        {"m": frame["score"]}, slates, propensity=fitted, metrics=["dcg"], estimators=["snips-global"]
    )
    refit = ipseval.PowerLawPropensity(gamma=0.5, unseen="smooth").refit(train)
    result_frame = evaluation.with_intervals("percentile", refit=refit, n_resamples=100, rng=0).frame
    ratio = result_frame["std_error"] / evaluation.frame["std_error"]
    assert ((ratio > 0.75) & (ratio < 1.3)).all()


def test_weights_by_item_by_pair_and_by_position():
    slates = Slates.from_frame(SHOWN)
    assert slates.logged().pair.tolist() == [0.5, 0.25, 1.0, 0.5]
    curve = {1: 1.0, 2: 0.5, 3: 0.25}
    assert Slates.from_frame(SHOWN.astype({"position": float})).position.tolist() == [1, 2, 3, 1, 2, 2, 1]
    assert slates.examination(curve).pair.tolist() == slates.logged().pair.tolist()
    assert slates.examination(list(curve.values())).pair.tolist() == slates.logged().pair.tolist()
    logged = evaluate_slates({"m": SHOWN["score"]}, slates, metrics=["recall@1"])
    # w = 2, 4 | 1 | 2; recall@1 = 0 | 1/2 | 0; mean weights 3, 1, 2.
    assert value(logged, "recall@1", "snips-global") == pytest.approx((1 * 0.5) / (3 + 1 + 2), abs=1e-15)
    assert value(logged, "recall@1", "aoa") == pytest.approx(0.5 / 3, abs=1e-15)
    by_item = ipseval.KnownPropensity(
        item=pd.DataFrame({"item": ["w", "x", "y", "z"], "propensity": [0.1, 1.0, 0.5, 0.25]})
    ).fit(ipseval.Interactions.from_frame(pd.DataFrame({"user": [0] * 4, "item": list("wxyz")})))
    evaluation = evaluate_slates({"m": SHOWN["score"]}, slates, propensity=by_item, metrics=["recall@1"])
    assert evaluation.frame["estimate"].tolist() == logged.frame["estimate"].tolist()
    without_ids = ipseval.propensity.Propensity(np.array([1.0, 0.5, 0.25]), True, "known", 3)
    evaluation = evaluate_slates({"m": SHOWN["score"]}, slates, propensity=without_ids, metrics=["recall@1"])
    assert evaluation.frame["estimate"].tolist() == logged.frame["estimate"].tolist()
    pairs = pd.DataFrame(
        {"user": ["ann"] * 3 + ["ben"], "item": list("xyzy"), "propensity": [1, 0.5, 0.25, 0.5]}
    )
    train = ipseval.Interactions.from_frame(
        pairs[["user", "item"]], users=slates.user_ids, items=slates.item_ids
    )
    of_user = ipseval.KnownPropensity(pair=pairs).fit(train)
    evaluation = evaluate_slates({"m": SHOWN["score"]}, slates, propensity=of_user, metrics=["recall@1"])
    assert evaluation.frame["estimate"].tolist() == logged.frame["estimate"].tolist()


def test_a_positive_whose_item_the_training_log_lacks_leaves_as_a_pair_and_is_counted():
    known = ipseval.propensity.Propensity(
        np.array([0.5, 0.5]), True, "known", 2, item_ids=np.array(["x", "y"], dtype=object)
    )
    evaluation = evaluate_slates({"m": SHOWN.drop(columns="propensity")}, propensity=known, metrics=["rr"])
    left_out = evaluation.data.set_index("what").loc["positives without a propensity, left out"]
    assert (left_out["count"], left_out["of"]) == (1, 4)
    ranked = evaluation.samples["m"].ranked
    assert ranked.n_candidates.tolist() == [2, 2, 2]  # z left query 1
    log = ipseval.Interactions.from_frame(pd.DataFrame({"user": [0, 1], "item": ["x", "x"]}))
    fitted = ipseval.PowerLawPropensity(gamma=0, unseen="drop").fit(
        log
    )  # knows x alone, the first item of the slates
    evaluation = evaluate_slates({"m": SHOWN.drop(columns="propensity")}, propensity=fitted, metrics=["rr"])
    assert evaluation.propensity.popularity.tolist() == [2, 0, 0]
    assert np.isfinite(evaluation.propensity.item).tolist() == [True, False, False]


def test_the_ips_of_a_sum_metric_divides_by_the_propensity_and_by_all_queries():
    frame = pd.concat([BINARY, BINARY.tail(2).assign(query=4, label=0)])
    evaluation = evaluate_slates({"m": frame}, metrics=["dcg"], estimators=["ips"], low_ess="ignore")
    second = 1 / np.log2(3)
    # Four queries, one without a positive: contributions c/P.
    expected = (second / 0.5 + 0.5 / 0.25 + (1 + second) / 2 / 1.0 + second / 0.5 + 0) / 4
    assert value(evaluation, "dcg", "ips") == pytest.approx(expected, abs=1e-15)
    assert evaluation.estimate("m", "dcg", "ips").sums.n_users == 2


def test_what_was_read_is_in_the_table_of_counts():
    frame = pd.concat([SHOWN, SHOWN.tail(2).assign(query=4, label=0), SHOWN.tail(1).assign(query=5, label=1)])
    data = evaluate_slates({"m": frame}, metrics=["auc", "rr"]).data.set_index("what")
    counts = {"rows read": 10, "queries": 5, "users": 2, "positives": 5}
    counts |= {"queries without a positive": 1, "queries with positives only": 1}
    assert {name: int(data.loc[name, "count"]) for name in counts} == counts
    assert data.loc["queries that entered", "count"] == 4
    result_frame = evaluate_slates({"m": frame}, metrics=["auc"], estimators=["aoa"]).frame
    assert "1 query left out: the metric is undefined for them" in result_frame["note"].item()
    # Without users and odd queries there is nothing to say of them.
    assert Slates.from_frame(TRIPLES).data[["what", "count"]].to_numpy().tolist() == [
        ["rows read", 6],
        ["queries", 2],
        ["positives", 2],
    ]


def test_scores_come_as_arrays_columns_or_frames_in_any_order():
    rng = np.random.default_rng(8)
    frame = random_slates(rng, 50)
    mixed = frame.sample(frac=1.0, random_state=1)
    ways = {
        "array": frame["score"].to_numpy(),
        "column": "score",
        "frame": mixed[["query", "item", "score"]],
    }
    result_frame = evaluate_slates(ways, frame, metrics=["auc", "ndcg", "ap"], estimators=["aoa"]).frame
    for _, rows in result_frame.groupby("metric"):
        assert rows["estimate"].nunique() == 1
        assert rows["std_error"].nunique() == 1
    expected = evaluate_slates({"one": frame, "two": mixed}, metrics=["auc"], estimators=["aoa"]).frame
    assert expected["estimate"].nunique() == 1


def test_a_model_that_scores_a_part_is_a_list_that_ends():
    part = SHOWN[["query", "item", "score"]].iloc[[0, 1, 5]]
    with pytest.raises(InputError, match=r"no score for 4 of 7 listed items \(first: .* 1, 'z'\)"):
        evaluate_slates({"m": part}, BINARY)
    with pytest.warns(DataWarning, match="missing for some of the 3 queries with test positives"):
        evaluation = evaluate_slates(
            {"m": part}, SHOWN, unscored="miss", metrics=["recall@2"], estimators=["aoa"]
        )
    # Query 1: y of two positives is second; query 2 has no list; query 3: y is first.
    assert value(evaluation, "recall@2") == (0.5 + 0 + 1) / 3
    assert evaluation.data.set_index("what").loc["listed items without a score, misses", "count"] == 4
    with pytest.raises(InputError, match="reads the whole ranking"):
        evaluate_slates({"m": part}, SHOWN, unscored="miss", metrics=["auc"])


def test_an_impression_log_with_queries_is_slates():
    log = ipseval.ImpressionLog.from_frame(
        SHOWN.assign(clicked=SHOWN["label"] > 0), query="query", position="position", propensity="propensity"
    )
    slates = Slates.from_log(log)
    log_slates = Slates.from_frame(SHOWN.assign(label=SHOWN["label"] > 0))
    frame, log_frame = (
        evaluate_slates({"m": SHOWN["score"]}, source, metrics=["rr", "auc"]).frame
        for source in (slates, log_slates)
    )
    pd.testing.assert_frame_equal(frame, log_frame)
    with pytest.raises(InputError, match="no queries"):
        Slates.from_log(ipseval.ImpressionLog.from_frame(SHOWN.assign(clicked=SHOWN["label"] > 0)))


def test_ranks_of_slates_are_stored_and_the_hash_of_an_evaluation_covers_their_users(tmp_path):
    evaluation = evaluate_slates({"m": BINARY}, metrics=["rr", "dcg"])
    ranked = evaluation.samples["m"].ranked
    ranked.to_parquet(tmp_path / "ranks.parquet")
    stored = ipseval.RankedPositives.from_parquet(tmp_path / "ranks.parquet")
    assert stored.cluster.tolist() == ranked.cluster.tolist()
    assert stored.cluster_ids.tolist() == ["ann", "ben"]
    estimate = ipseval.evaluate_ranks({"m": stored}, metrics=["rr"]).estimate("m", "rr", "aoa")
    assert estimate.standard_error == evaluation.estimate("m", "rr", "aoa").standard_error
    reference_evaluation = evaluate_slates(
        {"m": BINARY.assign(user=["cid"] * 5 + ["ben"] * 2)}, metrics=["rr", "dcg"]
    )
    hashes = [json.loads(result.to_json())["data"] for result in (evaluation, reference_evaluation)]
    assert hashes[0]["positives_sha256"] == hashes[1]["positives_sha256"]
    assert hashes[0]["users_sha256"] != hashes[1]["users_sha256"]


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"label": -1}, InputError, r"label must be finite and >= 0.*7 of 7"),
        ({"label": np.inf}, InputError, "finite"),
        (
            {"item": "x"},
            InputError,
            r"4 of 7 rows list an item again in its query \(first: query 1, item 'x'",
        ),
        (
            {"user": list("aabacbc")},
            InputError,
            r"3 of 3 queries have rows of several users \(first: query 1 of 'a', 'b'\)\. Number queries",
        ),
        ({"position": 0}, InputError, r"position must be 1, 2, 3, …; 7 of 7"),
        ({"position": 1.5}, InputError, "whole numbers"),
        ({"propensity": 0.0}, PropensityError, r"propensity must be in \(0, 1\]; 7 of 7"),
        ({"propensity": 1.5}, PropensityError, r"propensity must be in \(0, 1\]; 7 of 7"),
        ({"query": None}, InputError, "missing entries"),
        ({"label": 0}, InputError, "no positive to evaluate"),
        ({"score": np.nan}, InputError, r"7 of 7 scores are NaN|missing entries"),
        ({"score": "high"}, InputError, "scores must be numbers"),
    ],
)
def test_bad_slates_are_refused_in_words(change: dict, error: type[Exception], words: str):
    with pytest.raises(error, match=words):
        evaluate_slates({"m": SHOWN.assign(**change)}, metrics=["rr"])


def test_scores_that_do_not_fit_are_refused_in_words():
    slates = Slates.from_frame(BINARY)
    scores = BINARY[["query", "item", "score"]]
    cases = [
        ({"m": np.ones(6)}, slates, r"one for each of the 7 rows"),
        ({"m": "score"}, slates, "names a column; pass slates= as the frame"),
        ({"m": "scores"}, BINARY, "'scores' is not in the frame"),
        (
            {"m": pd.concat([scores, scores.iloc[3:4].assign(item="w")])},
            slates,
            r"1 item of 8 that are not listed",
        ),
        ({"m": pd.concat([scores, scores.head(1)])}, slates, r"scores 1 item of a query again.*1, 'x'"),
        ({"m": scores}, None, "'label' is not in the frame"),
        ({"m": np.ones(7)}, None, "without slates= a model is a frame"),
        ({"m": BINARY, "n": BINARY.head(5)}, None, "list other items or labels"),
    ]
    for models, slates_argument, words in cases:
        with pytest.raises(InputError, match=words):
            evaluate_slates(models, slates_argument)
    with pytest.raises(InputError, match=r"^m: 2 of 7 scores are NaN; "):
        evaluate_slates({"m": np.array([1, np.nan, 2, 3, np.nan, 4, 5])}, slates)
    with pytest.raises(InputError, match=r"^listed must have one entry for each of the 7 rows of"):
        rank_slates(np.ones(7), slates, listed=np.ones(6, dtype=bool))
    nothing = rank_slates(np.ones(7), slates, listed=np.zeros(7, dtype=bool))
    assert (nothing.max_rank, nothing.list_length.tolist()) == (0, [0, 0, 0])
    assert nothing.n_above.tolist() == [0, 0, 0, 0]
    with pytest.raises(InputError, match="no positions"):
        Slates.from_frame(TRIPLES).examination([1.0])
    with pytest.raises(InputError, match="no propensities"):
        Slates.from_frame(TRIPLES).logged()
    with pytest.raises(PropensityError, match=r"no value for 1 position of positives \(3\)"):
        slates.examination([1.0, 0.5])
    with pytest.raises(InputError, match="not fitted"):
        evaluate_slates({"m": BINARY}, propensity=ipseval.PowerLawPropensity(gamma=0, unseen="drop"))
    propensity = ipseval.propensity.Propensity(
        np.array([0.5]), True, "known", 1, item_ids=np.array(["q"], dtype=object)
    )
    with pytest.raises(PropensityError, match="knows none of the 3 items"):
        evaluate_slates({"m": BINARY}, propensity=propensity)
    arrays = np.zeros(1, dtype=int), np.zeros(1, dtype=int), np.ones(1), np.array([7]), np.array([8])
    with pytest.raises(InputError, match="one entry for each of 1 queries; got 2"):
        Slates(*arrays, user=np.zeros(2, dtype=int), user_ids=np.array([1]))
    with pytest.raises(InputError, match="go together"):
        Slates(*arrays, user=np.zeros(1, dtype=int))
    for size in ({"position": np.ones(1)}, {"propensity": np.ones(1)}):
        made = Slates(*arrays, **size)
        assert not [name for name in ("query", "item", "label", *size) if getattr(made, name).flags.writeable]
    with pytest.raises(InputError, match="the arrays of slates must have one length"):
        Slates(*arrays, position=np.ones(arrays[0].size + 1, dtype=int))


def test_models_of_one_table_must_rank_the_queries_of_the_same_users():
    first, second = (
        rank_slates(SHOWN["score"].to_numpy(), Slates.from_frame(SHOWN.assign(user=users)))
        for users in (SHOWN["user"], list("bbbbbaa"))
    )
    with pytest.raises(InputError, match="rank different test positives"):
        ipseval.evaluate_ranks({"one": first, "two": second})
