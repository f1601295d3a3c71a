"""Counting how often items are recommended, from lists and from the best items of scores."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval.data import Interactions
from ipseval.data.splits import Split
from ipseval.errors import IdentificationWarning, InputError
from ipseval.propensity import PowerLawPropensity, count_recommendations, fit_gamma
from ipseval.ranking import RankedPositives, top_items

SCORES = np.array([[9.0, 8.0, 7.0, 6.0], [1.0, 2.0, 3.0, 4.0]])  # user 0 has seen item 0, user 1 item 3


def rank_best_items(scores: np.ndarray, log: Interactions, k: int) -> RankedPositives:
    unseen = np.setdiff1d(np.arange(log.n_users * log.n_items), log.pair_key)[:1]
    test = Interactions(unseen // log.n_items, unseen % log.n_items, log.user_ids, log.item_ids)
    return top_items(scores, Split(log, test), k=k)


def test_the_best_items_of_scores_are_lists_without_training_items(simple_log):
    counts = count_recommendations(rank_best_items(SCORES, simple_log, 2), simple_log, k=2)
    assert counts.sum(axis=0).tolist() == [0, 2, 2, 0]  # user 0: items 1, 2; user 1: items 2, 1
    assert counts.shape[0] == 2
    assert sorted(zip(*(part.tolist() for part in counts.nonzero()), strict=True)) == [
        (0, 1),
        (0, 2),
        (1, 1),
        (1, 2),
    ]
    longer = rank_best_items(SCORES, simple_log, 3)  # cut at one item each
    assert count_recommendations(longer, simple_log, k=1).sum(axis=0).tolist() == [0, 1, 1, 0]
    foreign_log = Interactions.from_frame(pd.DataFrame({"user": [0], "item": [0]}))
    with pytest.raises(InputError, match="the best items have other ids than the training log"):
        count_recommendations(rank_best_items(SCORES, simple_log, 2), foreign_log, k=2)


def test_frames_are_truncated_at_k_by_rank_or_by_score(simple_log):
    rank_frame = pd.DataFrame({"user": [0, 0, 0, 1], "item": [3, 1, 2, 0], "rank": [2, 3, 1, 1]})
    score_frame = pd.DataFrame({"user": [0, 0, 0, 1], "item": [3, 1, 2, 0], "score": [0.5, 0.1, 0.9, 0.3]})
    for frame in (rank_frame, score_frame):
        counts = count_recommendations(frame, simple_log, k=2)
        assert counts.sum(axis=0).tolist() == [1, 0, 1, 1]
        assert counts.shape[0] == 2
    plain = rank_frame.drop(columns="rank")
    assert count_recommendations(plain, simple_log, k=2).sum(axis=0).tolist() == [1, 1, 1, 1]
    assert (
        count_recommendations(rank_frame[:1], simple_log).shape[0] == 1
    )  # users without a list are no lists
    codes = count_recommendations(np.array([[0, 1], [1, -1]]), simple_log)
    assert codes.toarray().tolist() == [[1, 1, 0, 0], [0, 1, 0, 0]]


def test_ties_for_the_last_places_are_drawn_evenly_and_repeat_with_the_seed():
    n_users = 1000
    frame = pd.DataFrame({"user": np.arange(n_users), "item": np.zeros(n_users, dtype=int)})
    log = Interactions.from_frame(frame, items=np.arange(5))
    top = rank_best_items(np.tile([9.0, 5.0, 1.0, 1.0, 1.0], (n_users, 1)), log, 2)  # item 0 is training
    counts = count_recommendations(top, log, k=2, rng=1)
    assert counts.sum(axis=0)[:2].tolist() == [0, n_users]
    # Each of three items takes the second place with 1/3: four standard deviations of a binomial are 59.6.
    assert np.abs(counts.sum(axis=0)[2:] - n_users / 3).max() < 59.6
    assert (count_recommendations(top, log, k=2, rng=1) != counts).nnz == 0


def test_infinite_scores_are_ranked_and_few_candidates_make_a_shorter_list():
    log = Interactions.from_frame(pd.DataFrame({"user": [0], "item": [4]}), users=[0], items=range(5))
    top = rank_best_items(np.array([[np.inf, np.inf, np.inf, 1.0, 0.0]]), log, 2)  # three for two places
    counts = count_recommendations(top, log, k=2, rng=0).sum(axis=0)
    assert (counts[:3].sum(), counts[3:].sum()) == (2, 0)
    small_log = Interactions.from_frame(pd.DataFrame({"user": [0, 0, 1], "item": [0, 1, 0]}), items=[0, 1, 2])
    counts = count_recommendations(rank_best_items(np.ones((2, 3)), small_log, 2), small_log, k=2)
    assert counts.sum(axis=0).tolist() == [0, 1, 2]


def test_power_law_counts_and_fits_in_one_line():
    rng = np.random.default_rng(0)
    n_users = 60
    n_items = 50
    weight = 1 / np.arange(1, n_items + 1) ** 0.7
    picks = np.argsort(-(np.log(weight) + rng.gumbel(size=(n_users, n_items))))[:, :12]
    frame = pd.DataFrame({"user": np.repeat(np.arange(n_users), 12), "item": picks.ravel()})
    log = Interactions.from_frame(frame, users=np.arange(n_users), items=np.arange(n_items))
    scores = 0.5 * np.log(log.popularity + 0.5) + rng.gumbel(size=(n_users, n_items))
    top = rank_best_items(scores, log, 20)
    propensity = PowerLawPropensity(gamma="fit", recommendations=top, source="logging-policy").fit(log)
    expected = fit_gamma(log.popularity, count_recommendations(top, log, rng=0), source="logging-policy")
    assert propensity.gamma == expected.gamma
    assert propensity.fit.standard_error == expected.standard_error
    assert "cloglog" in repr(propensity)
    with pytest.warns(IdentificationWarning, match="under evaluation"):
        PowerLawPropensity(gamma="fit", recommendations=top, source="evaluated").fit(log)
