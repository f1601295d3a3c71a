"""Options of rank_positives and top_items: valid combinations, and errors of models and the library."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval import ComputeOptions, InputError, SampledCandidates, Split, rank_positives
from ipseval.ranking import top_items
from tests.inside.ranking import HeldOutPositives, _rank_counts, exact_ranks
from tests.ranking.worlds import make_world

TRAIN = {"user": [0, 2], "item": [0, 3]}
TEST = {"user": [0, 0, 1, 2], "item": [2, 1, 3, 0]}
SPLIT = Split.from_frames(pd.DataFrame(TRAIN), pd.DataFrame(TEST), items=range(6))
SCORES = np.arange(18.0).reshape(3, 6)
LISTS = pd.DataFrame({"user": [0, 1], "item": [1, 3], "rank": 1})
OWN = pd.DataFrame({"user": [0, 1, 2], "item": [1, 3, 0]})
DRAWN = SampledCandidates(2, rng=0)
RANKED = rank_positives(SCORES, SPLIT, top_k=3)


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (LISTS, {"candidates": DRAWN}, "m: sampled candidates need scores of all items"),
        (SCORES, {"candidates": DRAWN, "top_k": 1}, "m: a sample of candidates has no lists of the first 1;"),
        (SCORES, {"top_k": 0}, "top_k must be an integer >= 1; got 0"),
        (RANKED, {"top_k": 4}, r"m is already ranked, without its first 4 items; .* with top_k=4"),
        (RANKED, {"candidates": OWN}, "m is already ranked; rank the model again among other"),
        (RANKED, {"candidates": DRAWN}, "m is already ranked; rank the model again among other"),
        (RANKED, {"candidates": [1]}, "m is already ranked; rank the model again among other"),
        (SCORES, {"compute": 2}, "compute must be ipseval.ComputeOptions.*; got int"),
    ],
)
def test_options_that_contradict_each_other_are_refused(model, options, message):
    with pytest.raises(InputError, match=message):
        rank_positives(model, SPLIT, name="m", **options)


def test_existing_ranks_are_returned_if_they_answer_the_request():
    for options in ({}, {"top_k": 2}, {"top_k": 3}):
        assert rank_positives(RANKED, SPLIT, **options) is RANKED


@pytest.mark.parametrize("model", [LISTS, RANKED])
def test_top_items_needs_scores_of_all_items(model):
    with pytest.raises(InputError, match="m: the best items of every user need scores of all items"):
        top_items(model, SPLIT, name="m", k=1)


def test_top_lists_are_stored_on_request():
    assert rank_positives(SCORES, SPLIT).top is None
    assert rank_positives(SCORES, SPLIT, top_k=1).top.item.tolist() == [[5], [5], [5]]
    top = rank_positives(SCORES, SPLIT, top_k=6).top  # of users with five, six and five candidates
    assert (top.length.tolist(), top.depth, top.first(2).item.tolist()) == ([5, 6, 5], 6, [[5, 4]] * 3)
    assert repr(top) == "TopLists(the first 6 items of 3 users)"
    assert rank_positives(LISTS, SPLIT, top_k=2).top.item.tolist() == [[1, -1], [3, -1], [-1, -1]]


def test_top_lists_do_not_require_scores_of_users_without_positives():
    train = {"user": [0, 1], "item": [0, 3]}
    test = {"user": [0], "item": [2]}
    split = Split.from_frames(pd.DataFrame(train), pd.DataFrame(test), items=range(6))
    scores = np.vstack([np.arange(6.0), np.full(6, np.nan)])
    assert rank_positives(scores, split, top_k=1).top.item.tolist() == [[5]]


def test_the_name_of_the_model_is_added_to_errors_of_its_code_only():
    def fails(users):
        raise ValueError("no such user")

    with pytest.raises(ValueError, match="no such user") as caught:
        rank_positives(fails, SPLIT, name="mine")
    assert caught.value.__notes__ == ["raised while mine was ranked"]
    with pytest.raises(InputError, match="mine") as refused:
        rank_positives(np.full((3, 6), np.nan), SPLIT, name="mine")
    assert getattr(refused.value, "__notes__", []) == []


@pytest.mark.parametrize("with_gain", [False, True])
def test_positives_and_training_items_in_any_order_are_sorted_by_user_and_item(with_gain):
    train, test = (pd.DataFrame(pairs).iloc[::-1] for pairs in (TRAIN, TEST))
    options = {"value": "value"} if with_gain else {}
    frames = train.assign(value=1), test.assign(value=[4, 3, 2, 1])
    split = Split.from_frames(*frames, users=range(3), items=range(6), **options)
    targets = HeldOutPositives.from_split(split)
    assert (targets.user.tolist(), targets.item.tolist()) == ([0, 0, 1, 2], [1, 2, 3, 0])
    assert (targets.gain.tolist() if with_gain else targets.gain) == ([2, 1, 3, 4] if with_gain else None)
    assert (targets.excluded_items.tolist(), targets.excluded_start.tolist()) == ([0, 3], [0, 1, 1, 2])
    assert targets.candidates_by_user.tolist() == [5, 6, 5]


@pytest.mark.parametrize(
    ("options", "position", "message"),
    [
        # Four positives, and two competitors for each of them.
        ({"candidates": DRAWN}, (slice(None), slice(None)), "12 of 12"),
        ({"candidates": OWN.assign(item=[2, 3, 0])}, (0, 2), "1 of 3"),
        ({"candidates": OWN.assign(item=[2, 3, 0])}, (0, 1), None),
        ({}, (1, 4), "1 of 18"),
        ({}, (slice(2), slice(None)), "12 of 18"),
    ],
)
@pytest.mark.parametrize("kind", ["array", "function"])
@pytest.mark.filterwarnings("ignore:.*are not among their user's candidates:ipseval.errors.DataWarning")
def test_nan_scores_are_counted_among_the_scores_that_were_read(options, position, message, kind):
    scores = SCORES.copy()
    scores[position] = np.nan
    model = scores if kind == "array" else lambda users: scores[users]
    if message is None:  # nobody asked for it
        rank_positives(model, SPLIT, **options)
        return
    with pytest.raises(InputError, match=f"m: {message} scores are NaN"):
        rank_positives(model, SPLIT, name="m", **options)


def test_top_items_includes_users_without_positives():
    split = Split.from_frames(
        pd.DataFrame(TRAIN), pd.DataFrame({"user": [1], "item": [2]}), users=range(3), items=range(6)
    )
    top = top_items(SCORES, split, k=1)
    assert (top.user.tolist(), top.item.tolist(), top.n_above.tolist()) == ([0, 1, 2], [5, 5, 5], [0, 0, 0])
    assert top.n_candidates.tolist() == [5, 6, 5]


def test_scores_that_users_share_are_sorted_once(monkeypatch):
    calls = []
    original = exact_ranks.rank_shared_scores

    def spy(scores, *arguments):
        calls.append(scores.shape)
        return original(scores, *arguments)

    monkeypatch.setattr(exact_ranks, "rank_shared_scores", spy)
    for model in (SCORES, np.broadcast_to(SCORES[:, :1], SCORES.shape), lambda users: SCORES[users]):
        rank_positives(model, SPLIT)
    assert calls == []
    rank_positives(np.broadcast_to(SCORES[0], SCORES.shape), SPLIT)
    assert calls == [(6,)]


def test_items_that_are_all_drawn_have_probability_one():
    # Six items, none of them in training for user 1: its positive and five others.
    weights = np.array([0.5, 0.25, 1.0, 2.0, 0.125, 0.5])
    candidates = SampledCandidates(5, distribution=weights, replacement=False, rng=0)
    split = Split.from_frames(
        pd.DataFrame({"user": [0], "item": [1]}), pd.DataFrame({"user": [1], "item": [3]}), items=range(6)
    )
    ranked = rank_positives(SCORES[:2], split, candidates=candidates)
    assert (ranked.n_above.tolist(), ranked.n_candidates.tolist()) == ([2], [6])
    assert ranked.sampling.above_estimate.tolist() == [2.0]


def test_the_comparisons_of_all_rankings_of_a_process_are_counted(monkeypatch):
    monkeypatch.setattr(_rank_counts.Work, "comparisons", 0.0)
    world = make_world(5, 6, {(0, 5)}, {(0, 0), (0, 1), (2, 3)})
    scores = np.zeros((5, 6))
    rank_positives(scores, world.split)
    assert _rank_counts.Work.comparisons == 3 * 6
    rank_positives(scores, world.split, top_k=2)  # and for the best items those of every user
    assert _rank_counts.Work.comparisons == 3 * 6 + (3 + 5) * 6
    rank_positives(scores, world.split, compute=ComputeOptions(engine="numpy"))
    assert _rank_counts.Work.comparisons == 3 * 6 + (3 + 5) * 6


def test_trained_models_are_adapted_and_lists_are_not(monkeypatch):
    class Model:
        """A trained model of a library."""

    world = make_world(2, 3, {(0, 2)}, {(0, 0), (1, 1)})
    adapted = []

    def adapt(model, split, *, name):
        adapted.append(name)
        return np.array([[0.0, 1, 2], [0, 1, 2]])

    monkeypatch.setattr(exact_ranks, "adapt", adapt)
    assert rank_positives(Model(), world.split, name="model").n_above.tolist() == [1, 1]
    assert rank_positives({0: [1, 0], 1: [1]}, world.split, name="lists").n_above.tolist() == [1, 0]
    assert adapted == ["model"]


def test_shared_scores_of_a_single_user_are_ranked():
    world = make_world(1, 4, {(0, 3)}, {(0, 1)})
    shared = np.broadcast_to(np.array([3.0, 2.0, 1.0, 9.0]), (1, 4))
    assert rank_positives(shared, world.split).n_above.tolist() == [1]
