"""The same data in other clothes gives the same numbers, or an error; labels say where a value belongs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.evaluation.beyond import beyond_accuracy
from ipseval.policies import evaluate_policies
from ipseval.ranking import rank_positives
from tests.fuzz.doors import dressed


def test_the_same_data_in_other_clothes_gives_the_same_numbers_or_an_error():
    tally = dressed(range(1, 2))
    assert not tally.wrong, "\n".join(tally.wrong[:40])
    assert tally.n >= 1_000
    assert tally.same > 0.8 * tally.n  # an error for everything would be no answer


@pytest.fixture
def split():
    frame = pd.DataFrame({"user": ["ann", "ann", "bob", "bob"], "item": [1, 2, 3, 4]})
    return ipseval.Split.from_frames(
        frame.iloc[[0, 2]], frame.iloc[[1, 3]], users=["ann", "bob"], items=[1, 2, 3, 4]
    )


SCORES = pd.DataFrame([[0.0, 4, 2, 1], [0, 2, 1, 4]], ["ann", "bob"], [1, 2, 3, 4])


def recall(model, split, **options):
    found = ipseval.evaluate({"m": model}, split, metrics=["recall@1"], estimators=["aoa"], **options)
    return found.frame["estimate"].item()


def test_vectors_of_items_are_read_by_their_labels(split):
    """The lists hold items 2 and 3, and 4 and 2; 2 and 3 have one direction, 4 another: ild is (0 + 1)/2."""
    vectors = pd.DataFrame({"a": [1.0, 1, 1, 0], "b": [0.0, 0, 0, 1]}, index=[1, 2, 3, 4])
    ranks = {"m": rank_positives(SCORES, split, top_k=2)}
    for given in (vectors, vectors.loc[[4, 1, 3, 2]]):
        found = beyond_accuracy(ranks, split, measures=["ild@2"], item_vectors=given)
        assert found.frame["estimate"].item() == 0.5
    with pytest.raises(ipseval.InputError, match="no ids of the split"):
        beyond_accuracy(ranks, split, measures=["ild@2"], item_vectors=vectors.rename({4: 5}))


def test_a_mask_of_allowed_items_is_read_by_its_labels(split):
    allowed = pd.Series([False, True, False, True], index=[1, 2, 3, 4])
    assert recall(SCORES, split, candidates=allowed.sort_values()) == 1.0
    with pytest.raises(ipseval.InputError, match="says nothing of 1 of 4 items"):
        recall(SCORES, split, candidates=allowed.drop(1))


def test_frames_that_functions_return_are_read_by_their_labels(split):
    moved = SCORES[[4, 1, 3, 2]]
    assert recall(lambda users: moved.iloc[users], split) == 1.0
    assert recall(lambda users: moved.iloc[users[::-1]], split) == 1.0
    assert (
        recall(lambda users: pd.DataFrame(SCORES.to_numpy()[users]), split) == 1.0
    )  # numbered, not labelled
    with pytest.raises(ipseval.InputError, match="no ids of the split"):
        recall(lambda users: moved.rename(columns={4: 9}).iloc[users], split)


def test_factors_are_read_by_their_labels(split):
    """One user factor of 1 each: the item factor is the score, 4 for item 2 and 3 for item 4."""
    users = pd.DataFrame({"f": [1.0, 1.0]}, ["ann", "bob"])
    items = pd.DataFrame({"f": [0.0, 4, 1, 3]}, [1, 2, 3, 4])
    assert recall((users, items), split) == recall((users, items.loc[[4, 2, 1, 3]]), split) == 0.5
    bias = pd.Series([0.0, 0, 0, 9], [1, 2, 3, 4])
    assert recall((users, items, bias.iloc[::-1]), split) == 0.5


def test_scores_of_slates_are_read_by_the_labels_of_the_rows():
    slates = pd.DataFrame(
        {"query": [1, 1, 2, 2], "item": [1, 2, 1, 2], "label": [1, 0, 0, 1], "s": [4.0, 2, 1, 3]}
    )

    def rr(scores, frame):
        return ipseval.evaluate_slates({"m": scores}, frame, metrics=["rr"]).frame["estimate"].item()

    assert rr(slates["s"].sort_values(), slates) == 1.0
    odd = slates.set_axis([7, 3, 9, 5])
    assert (
        rr(odd["s"].sort_index(), odd)
        == rr(odd["s"].sort_index(), ipseval.evaluation.slates.Slates.from_frame(odd))
        == 1.0
    )
    with pytest.raises(ipseval.InputError, match="its labels are others than those of the rows"):
        rr(odd["s"].rename({7: 70}), odd)


def test_predicted_ratings_are_read_by_the_labels_of_the_ratings():
    frame = pd.DataFrame({"user": [0, 0, 1], "item": [0, 1, 0], "value": [4.0, 2, 5]})
    ratings = ipseval.Interactions.from_frame(frame, value="value")

    def mae(predictions):
        return (
            ipseval.evaluation.evaluate_ratings({"m": predictions}, ratings, metrics=["mae"])
            .frame["estimate"]
            .item()
        )

    assert mae(frame["value"]) == mae(frame["value"].sort_values()) == 0.0
    assert mae(frame["value"].set_axis([3, 7, 8])) == 0.0  # in the order of a log of which it is a part
    with pytest.raises(ipseval.InputError, match=r"Bring it in their order"):
        mae(frame["value"].set_axis([8, 3, 7]))


def test_weights_and_numbers_of_candidates_go_with_the_ranks_by_label():
    ranks = pd.Series([1, 4, 2, 3], index=[5, 6, 7, 8])
    weights, n = pd.Series([1.0, 2, 3, 4], ranks.index), pd.Series([20, 30, 40, 50], ranks.index)

    def corrected(**given):
        return ipseval.correct_sampled(ranks, n_sampled=5, metric="auc", method="none", **given).estimate

    # auc of rank r among 5 drawn: (6 − r)/5.
    assert corrected(n_candidates=n, weights=weights) == pytest.approx(
        (1 * 5 + 2 * 2 + 3 * 4 + 4 * 3) / 5 / 10
    )
    moved = weights.sample(frac=1, random_state=2)
    assert list(moved.index) != list(ranks.index)
    assert corrected(n_candidates=n[::-1], weights=moved) == corrected(n_candidates=n, weights=weights)
    expected = ipseval.expected_sampled(ranks, n, 5, "recall@1")
    assert np.array_equal(ipseval.expected_sampled(ranks, n.iloc[[2, 0, 3, 1]], 5, "recall@1"), expected)
    with pytest.raises(ipseval.InputError, match="its labels are others"):
        corrected(n_candidates=n, weights=weights.set_axis([1, 2, 3, 4]))


@pytest.mark.parametrize(
    ("shift", "message"), [(-1, "the first position of a list is 1"), (5, "meets no row of the log")]
)
def test_lists_at_positions_that_the_log_does_not_have_are_refused(shift, message):
    frame = pd.DataFrame(
        {"user": [1, 1, 2, 2], "item": [1, 2, 1, 2], "clicked": [1, 0, 1, 1], "position": [1, 2, 1, 2]}
    )
    log = ipseval.ExposureLog.from_frame(frame.assign(p=0.5), propensity="p", position="position")
    lists = frame[["user", "item", "position"]].assign(position=frame["position"] + shift)
    with pytest.raises(ipseval.InputError, match=message):
        evaluate_policies(log, {"a": lists})


def test_numbers_in_the_byte_order_of_another_machine_are_read():
    frame = pd.DataFrame({"user": [0, 0, 1], "item": [4, 5, 4], "value": [4, 2, 5]})
    log = ipseval.Interactions.from_frame(frame.astype(">i8"), value="value")
    assert log.item_ids.tolist() == [4, 5]
    assert log.value.tolist() == [4, 2, 5]


def test_a_lazy_frame_of_propensities_is_collected(split):
    polars = pytest.importorskip("polars")
    known = polars.LazyFrame({"user": ["ann", "bob"], "item": [2, 4], "propensity": [0.5, 0.25]})
    assert ipseval.KnownPropensity(pair=known).fit(split).pair.tolist() == [0.5, 0.25]
