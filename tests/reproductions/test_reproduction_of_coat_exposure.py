"""Coat's ratings as an exposure log: chances by hand, parts of the log, and the table of a small world."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import ImpressionLog, Interactions, Split
from ipseval.validation.datasets import RandomExposureStudy
from reproductions import coat_exposure
from reproductions.coat_exposure import METRICS, PLAIN, SAMPLE, ByOdds, held_out, rows, scores, table

N_ITEMS = 20


def two_users() -> tuple[Split, ImpressionLog]:
    """Four training items each; the first user rated two more items and liked one, the second rated four."""
    train = pd.DataFrame({"user": np.repeat([0, 1], 4), "item": np.tile([0, 1, 2, 3], 2)})
    test = pd.DataFrame({"user": [0, 1], "item": [4, 4]})
    split = Split.from_frames(train, test, users=[0, 1], items=np.arange(N_ITEMS))
    user, item = np.array([0, 0, 1, 1, 1, 1]), np.array([4, 5, 4, 5, 6, 7])
    return split, ImpressionLog(user, item, split.user_ids, split.item_ids, item == 4)


def test_where_all_pairs_are_alike_chances_are_the_share_of_candidates_that_were_rated(monkeypatch):
    monkeypatch.setattr(coat_exposure, "profile_features", lambda train, user, item: np.zeros((user.size, 1)))
    split, log = two_users()
    propensities = ByOdds(log).fit(split, np.random.default_rng(0)).for_pairs(log.user, log.item)
    # Of 16 candidates the first user rated 2. The liked one is a candidate with chance 1/5 of what was rated.
    q = 2 / 16
    assert propensities[:2] == pytest.approx([q / (1 - 4 * q), q], rel=1e-9)
    # The second rated 4 of 16; q stops at .95/5, so that the chance of a liked pair stays below 1.
    assert propensities[2:] == pytest.approx([0.19 / (1 - 4 * 0.19), 0.19, 0.19, 0.19], rel=1e-9)


def test_pairs_with_the_features_of_rated_ones_have_the_higher_chance(monkeypatch):
    split, log = two_users()
    monkeypatch.setattr(
        coat_exposure, "profile_features", lambda train, user, item: (item < 8).astype(float)[:, None]
    )
    model = ByOdds(ImpressionLog(log.user[:2], log.item[:2], log.user_ids, log.item_ids, [False, False]))
    near = model.fit(split, np.random.default_rng(0)).for_pairs(np.array([0]), np.array([5]))
    assert near[0] > 2 / 16


@pytest.fixture(scope="module")
def study():
    """Ratings of 1 to 5: of what each user chose, popular items more often, and of random items."""
    rng, (n_users, n_items) = np.random.default_rng(5), (50, 30)
    chosen = rng.random((n_users, n_items)) < np.linspace(0.5, 0.2, n_items)
    shown = rng.random((n_users, n_items)) < 0.3
    logs = (
        Interactions(
            *np.nonzero(one), np.arange(n_users), np.arange(n_items), value=rng.integers(1, 6, one.sum())
        )
        for one in (chosen, shown)
    )
    return RandomExposureStudy("small", *logs, threshold=4)


def test_a_fifth_of_the_ratings_is_held_out_and_what_is_liked_of_it_is_the_test_part(study):
    split, log = held_out(study, np.random.default_rng(0))
    liked = log.pair_key[log.clicked]
    assert np.array_equal(np.sort(liked), np.sort(split.test.pair_key))
    assert not np.isin(log.pair_key, split.train.pair_key).any()
    assert np.isin(log.pair_key, study.biased.pair_key).all()
    shown = len(study.biased) - len(study.positives().biased)
    spread = 4 * np.sqrt(shown * 0.2 * 0.8)
    assert abs((~log.clicked).sum() - 0.2 * shown) < spread


def test_scores_are_the_mean_error_and_the_order_of_the_recommenders():
    index = pd.MultiIndex.from_product([["a", "b", "c"], METRICS], names=["model", "metric"])
    right = pd.Series(np.repeat([0.1, 0.2, 0.3], len(METRICS)), index=index)
    series = pd.Series(np.repeat([0.2, 0.1, 0.4], len(METRICS)), index=index)
    score_table = scores(series.iloc[::-1], right)
    # One of three pairs is inverted.
    assert score_table == pytest.approx(
        {f"error {metric}": 0.1 for metric in METRICS} | {f"tau {metric}": 1 / 3 for metric in METRICS}
    )


def test_the_table_has_the_share_of_the_plain_error_that_is_removed_and_its_standard_error():
    made = [
        {
            "split": number,
            "row": row,
            **{f"error {metric}": error for metric in METRICS},
            **{f"tau {metric}": 0.5 for metric in METRICS},
        }
        for row, errors in ((PLAIN, (0.1, 0.2)), ("dr", (0.05, 0.06)))
        for number, error in enumerate(errors)
    ]
    plain, better = table(pd.DataFrame(made)).splitlines()[2:]
    assert plain == "| aoa-pooled | error 0.1500 | error 0.1500 | error 0.1500 | 0.50 | 0.50 | 0.50 |"
    # Of 15 % on average 5.5 % are left: 63 % removed. By split: 50 and 70 %, whose standard error is 10.
    assert better == "| dr | 63 ± 10 | 63 ± 10 | 63 ± 10 | 0.50 | 0.50 | 0.50 |"


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_estimate_has_a_row_of_every_split(study, monkeypatch):
    def taste(log: Interactions):
        return ipseval.baselines.pure_svd(log, n_factors=3)

    models = {"popularity": ipseval.baselines.popularity, "svd": taste}
    monkeypatch.setattr(coat_exposure, "recommenders", lambda: models)
    monkeypatch.setattr(coat_exposure, "REWARDS", {"item": coat_exposure.REWARDS["item"]})
    score_table = rows(study, 1)
    weighted = [
        f"{name}, seen {by}"
        for by in ("by item", "by pair")
        for name in ("snips-pooled", "snips-impressions")
    ]
    modelled = [f"dr, seen {by}, rewards by item" for by in ("by item", "by pair")]
    popular = [f"snips-pooled, popularity, γ = {gamma}" for gamma in (0, 1)]
    expected = {
        PLAIN,
        SAMPLE,
        *weighted,
        *modelled,
        *popular,
        "dm, rewards by item",
        "correction, all interactions",
    }
    assert set(score_table["row"]) == expected
    assert score_table["row"].value_counts().drop(SAMPLE).eq(1).all()
    assert (score_table["row"] == SAMPLE).sum() == 2  # each half of the users, judged by the other
    assert score_table[[f"error {metric}" for metric in METRICS]].to_numpy().min() >= 0
    again = rows(study, 1)
    pd.testing.assert_frame_equal(score_table, again, check_exact=True)
