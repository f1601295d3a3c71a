"""The weights 1/P of listed items show whether propensities from impressions fit a recommender."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import ImpressionPropensity
from ipseval.errors import DataWarning
from ipseval.evaluation.listed_weights import FEWEST_USERS, ShownPairs
from ipseval.propensity import LoggedPropensity, Propensity
from ipseval.ranking.top_lists import TopLists

N_USERS, N_ITEMS, LENGTH = 600, 100, 5


def draw_log(seed: int, taste: float) -> tuple[ipseval.Split, dict[str, np.ndarray]]:
    """Return a split of impressions, and score matrices; the policy depends on the user unless `taste` is 0.

    Each item is shown with the probability p, independently of the others. Users have 1 to 4 visits.
    """
    rng = np.random.default_rng(seed)
    affinity = rng.normal(size=(N_USERS, 4)) @ rng.normal(size=(4, N_ITEMS)) / 2
    chance = np.exp(taste * affinity) / (5 + np.arange(N_ITEMS))
    chance = np.minimum(0.9, LENGTH * chance / chance.sum(axis=1, keepdims=True))
    visitor = np.repeat(np.arange(N_USERS), rng.integers(1, 5, N_USERS))
    visit, item = np.nonzero(rng.random((visitor.size, N_ITEMS)) < chance[visitor])
    shown = pd.DataFrame({"user": visitor[visit], "item": item, "time": rng.random(visitor.size)[visit]})
    shown["p"] = chance[shown["user"], item]
    shown["clicked"] = rng.random(len(shown)) < 0.4 / (1 + np.exp(-affinity[shown["user"], item]))
    log = ipseval.ImpressionLog.from_frame(shown, timestamp="time", propensity="p")
    split = ipseval.split_global_time(log.positives)
    scores = affinity[np.ix_(split.user_ids, split.item_ids)]
    popular = np.tile(split.train.popularity.astype(float), (split.n_users, 1))
    return split, {
        "taste": scores,
        "opposite": -scores,
        "popular": popular,
        "noise": rng.random(scores.shape),
    }


def find_codes(models, split, propensity="default", **options) -> dict[str, str]:
    """Return name -> code of the warnings about weights of listed items."""
    if propensity == "default":
        propensity = ImpressionPropensity(log=split.test.impressions)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        evaluation = ipseval.evaluate(
            models, split, propensity=propensity, **{"metrics": ["recall@10"], **options}
        )
    codes = {}
    for warning in evaluation.sanity:
        if warning.code.startswith("weights"):
            codes[warning.model] = warning.code
    return codes


def test_the_ratios_and_their_error_follow_from_the_weights_of_shown_pairs():
    propensity = Propensity(
        item=np.array([0.5, 0.25, 0.2]), is_probability=True, model="known", n_items=3, basis="fitted"
    )
    shown = ShownPairs(
        users=np.array([0, 1]),
        n_users=2,
        n_items=3,
        n_possible_items=3,
        pair_key=np.array([0, 1, 5]),  # user 0 was shown items 0 and 1, and user 1 item 2
        weight=np.array([2.0, 4.0, 5.0]),
        propensity=propensity,
        has_all_pairs=True,
    )
    weights = shown.compare(TopLists(np.array([0, 1]), np.array([[0, 1], [0, 2]])))
    assert weights.n_listed == 4
    assert weights.n_users == 2
    assert weights.ratio == pytest.approx((2 + 4 + 5) / 4)
    assert weights.relative_ratio == pytest.approx((11 / 4) / (11 / 6))
    # The sums of users do not vary, so the error is that of right propensities, Σ(1/P − 1).
    assert weights.std_error == pytest.approx(np.sqrt((1 + 3 + 1 + 4) / 4**2) / (11 / 6))


def test_listed_items_without_a_propensity_and_ends_of_lists_do_not_count():
    propensity = Propensity(
        item=np.array([0.5, np.nan]), is_probability=True, model="known", n_items=2, basis="fitted"
    )
    shown = ShownPairs(
        users=np.array([0]),
        n_users=1,
        n_items=2,
        n_possible_items=1,
        pair_key=np.array([0]),
        weight=np.array([2.0]),
        propensity=propensity,
        has_all_pairs=True,
    )
    assert shown.compare(TopLists(np.array([0]), np.array([[1, 0, -1]]))).n_listed == 1
    assert shown.compare(TopLists(np.array([0]), np.array([[1, -1]]))) is None


def draw_wrong_log(n_users: int = 60) -> ipseval.Split:
    """Return a log that always shows item a, with a logged probability of 0.5."""
    user = np.arange(n_users)
    early = pd.DataFrame({"user": user, "item": "b", "time": 0, "clicked": 1, "p": 0.5})
    late = pd.DataFrame({"user": user, "item": "a", "time": 1, "clicked": user % 2, "p": 0.5})
    frame = pd.concat([early, late])
    ids = {"users": user, "items": ["a", "b", "c", "d"]}
    log = ipseval.ImpressionLog.from_frame(frame, timestamp="time", propensity="p", **ids)
    return ipseval.split_global_time(log.positives, test_start=1)


def test_an_item_that_is_shown_twice_as_often_as_logged_doubles_the_sum():
    split = draw_wrong_log()
    scores = {"first": np.tile([4.0, 3.0, 2.0, 1.0], (split.n_users, 1))}
    propensity = LoggedPropensity(log=split.test.impressions)
    with pytest.warns(DataWarning, match="sum to 2.0 times it"):
        evaluation = ipseval.evaluate(scores, split, propensity=propensity, metrics=["recall@1"])
    (warning,) = [warning for warning in evaluation.sanity if warning.code == "weights-too-large"]
    assert warning.figures["ratio"] == 2.0
    assert warning.figures["relative_ratio"] == 4.0  # 60 weights of 2 among 60 × 4 pairs
    assert warning.figures["n_listed"] == 60  # one item for each user, and not only for users with clicks
    text = " ".join(str(evaluation).split())
    assert "Sanity first lists items that users were shown more often than the propensities state" in text
    assert "Its weighted estimates are probably too high: do not report them." in text


def test_propensities_that_are_known_by_design_and_few_users_are_not_checked():
    split = draw_wrong_log()
    scores = np.tile([4.0, 3.0, 2.0, 1.0], (split.n_users, 1))
    metrics = ["recall@1"]
    log = split.test.impressions
    assert find_codes({"m": scores}, split, LoggedPropensity(log=log), metrics=metrics)
    assert not find_codes({"m": scores}, split, LoggedPropensity(log=log, basis="design"), metrics=metrics)
    split = draw_wrong_log(FEWEST_USERS - 1)
    propensity = LoggedPropensity(log=split.test.impressions)
    assert not find_codes({"m": scores[: split.n_users]}, split, propensity, metrics=metrics)


@pytest.mark.parametrize("seed", range(5))
def test_right_propensities_are_silent(seed):
    split, models = draw_log(seed, taste=0.0)
    assert find_codes(models, split) == {}
    split, models = draw_log(seed, taste=1.0)
    assert find_codes(models, split, LoggedPropensity(log=split.test.impressions)) == {}


@pytest.mark.parametrize("seed", range(3))
def test_a_policy_that_knows_the_taste_of_users_is_seen(seed):
    split, models = draw_log(seed, taste=1.0)
    expected = {"taste": "weights-too-large", "opposite": "weights-too-small"}
    assert find_codes(models, split) == expected


def test_a_recommender_that_was_trained_on_the_test_part_is_seen():
    split, models = draw_log(0, taste=0.0)
    scores = models["noise"].copy()
    scores[split.test.user, split.test.item] += 1
    assert find_codes({"leaked": scores}, split) == {"leaked": "weights-too-large"}


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_verdict_says_nothing_by_weights_that_fail_the_check(tmp_path):
    split, models = draw_log(0, taste=1.0)
    compared = {"taste": models["taste"], "popular": models["popular"]}
    evaluation = ipseval.evaluate(compared, split, metrics=["recall@10"])
    assert evaluation.verdict.startswith(
        "No verdict: taste ranks first in the log, but the propensities do not fit the items that taste lists (see "
        "Sanity), so SNIPS does not confirm this."
    )
    assert evaluation.verdict.endswith(
        "(`ipseval plan`), log the probability with which each item is shown, or report AOA and the assumption."
    )
    assert evaluation.verdict.count("SNIPS") == 1
    evaluation.save(tmp_path / "result.npz")
    assert ipseval.Evaluation.load(tmp_path / "result.npz").verdict == evaluation.verdict
    only_popular = {"popular": models["popular"], "noise": models["noise"]}
    assert "by SNIPS (propensities from impressions" in ipseval.evaluate(only_popular, split).verdict


def test_impressions_make_no_range_of_gamma_unless_a_power_law_is_requested(tmp_path):
    split, models = draw_log(0, taste=0.0)
    compared = {"popular": models["popular"], "noise": models["noise"]}
    evaluation = ipseval.evaluate(compared, split, metrics=["recall@10"], estimators=["aoa-pooled"])
    assert "γ" not in evaluation.verdict
    assert evaluation.verdict.endswith("or report AOA pooled and the assumption.")
    evaluation.save(tmp_path / "result.npz")
    assert ipseval.Evaluation.load(tmp_path / "result.npz").verdict == evaluation.verdict
    assumed = ipseval.evaluate(compared, split, propensity="power-law:gamma=0", metrics=["recall@10"])
    assert " for γ in [" in assumed.verdict


def test_lists_are_checked_as_scores_are():
    split, models = draw_log(0, taste=1.0)
    order = np.argsort(-models["taste"], axis=1)[:, :20]
    lists = {user: split.item_ids[items].tolist() for user, items in zip(split.user_ids, order, strict=True)}
    options = ipseval.Lists(lists, seen="drop")
    assert find_codes({"taste": options}, split) == {"taste": "weights-too-large"}


def test_models_without_cheap_lists_and_other_requests_are_not_checked():
    split, models = draw_log(0, taste=1.0)
    scores = models["taste"]
    assert find_codes({"m": scores}, split)
    assert not find_codes({"m": lambda users: scores[users]}, split)
    assert not find_codes({"m": ipseval.rank_positives(scores, split)}, split)
    assert not find_codes({"m": scores}, split, estimators=["aoa"])
    assert not find_codes({"m": scores}, split, candidates=split.item_ids)
    assert not find_codes({"m": scores}, split, ipseval.PowerLawPropensity(gamma=0))


def test_scores_of_users_with_test_positives_alone_are_no_error():
    split, models = draw_log(0, taste=1.0)
    scores = models["taste"].copy()
    scores[split.test.activity == 0] = np.nan
    assert find_codes({"m": scores}, split) == {}


def test_impressions_of_the_training_part_are_not_checked():
    split, models = draw_log(0, taste=1.0)
    log = split.train.impressions
    random_split = ipseval.split_random(log.positives, rng=0)
    assert random_split.test.impressions is random_split.train.impressions
    assert not find_codes(models, random_split)


def test_a_weighted_estimate_beyond_the_range_of_its_metric_is_flagged():
    split, models = draw_log(0, taste=0.0)
    n_candidates = split.n_items
    tiny = Propensity(
        item=np.full(n_candidates, 0.003),
        is_probability=True,
        model="known",
        n_items=n_candidates,
        basis="fitted",
    )
    with pytest.warns(ipseval.errors.PositivityWarning, match="estimate beyond the range of the metric"):
        evaluation = ipseval.evaluate(
            {"taste": models["taste"]}, split, propensity=tiny, metrics=["precision@5"], estimators=["ips"]
        )
    row = evaluation.frame.iloc[0]
    assert row["estimate"] > 1
    assert row["flag"] == f"estimate {row['estimate']:.3g} beyond the range of precision@5, 0 to 1"
    assert "Unreliable: IPS." in str(evaluation)
