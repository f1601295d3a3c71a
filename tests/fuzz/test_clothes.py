"""The same data in other clothes gives the same numbers, or an error; labels say where a value belongs."""

from __future__ import annotations

import pandas as pd
import pytest

import ipseval
from ipseval.evaluation.beyond import beyond_accuracy
from ipseval.policies import evaluate_policies
from ipseval.ranking import rank_positives
from tests.fuzz.doors import dressed


@pytest.mark.slow  # the checks of a change run all of `tests/fuzz/run.py`
def test_the_same_data_in_other_clothes_gives_the_same_numbers_or_an_error():
    tally = dressed(range(1, 2), arguments=4, share=2)  # tests/fuzz/run.py takes all
    assert not tally.wrong, "\n".join(tally.wrong[:40])
    assert tally.n >= 100
    assert tally.same > 0.8 * tally.n  # an error for everything would be no answer


FRAME = pd.DataFrame({"user": ["ann", "ann", "bob", "bob"], "item": [1, 2, 3, 4]})
SPLIT = ipseval.Split.from_frames(
    FRAME.iloc[[0, 2]], FRAME.iloc[[1, 3]], users=["ann", "bob"], items=[1, 2, 3, 4]
)
SCORES = pd.DataFrame([[0.0, 4, 2, 1], [0, 2, 1, 4]], ["ann", "bob"], [1, 2, 3, 4])
# The lists hold items 2 and 3, and 4 and 2; 2 and 3 have one direction, 4 another: ild is (0 + 1)/2.
VECTORS = pd.DataFrame({"a": [1.0, 1, 1, 0], "b": [0.0, 0, 0, 1]}, index=[1, 2, 3, 4])
ALLOWED = pd.Series([False, True, False, True], index=[1, 2, 3, 4])
LISTED = pd.DataFrame(
    {"query": [1, 1, 2, 2], "item": [1, 2, 1, 2], "label": [1, 0, 0, 1], "s": [4.0, 2, 1, 3]}, [7, 3, 9, 5]
)
RATED = pd.DataFrame({"user": [0, 0, 1], "item": [0, 1, 0], "value": [4.0, 2, 5]})
RANKS = pd.Series([1, 4, 2, 3], index=[5, 6, 7, 8])


def estimate(found) -> float:
    return found.frame["estimate"].item()


def recall(model, **options) -> float:
    return estimate(
        ipseval.evaluate({"m": model}, SPLIT, metrics=["recall@1"], estimators=["aoa"], **options)
    )


def diversity(vectors) -> float:
    ranks = {"m": rank_positives(SCORES, SPLIT, top_k=2)}
    return estimate(beyond_accuracy(ranks, SPLIT, measures=["ild@2"], item_vectors=vectors))


def reciprocal(scores) -> float:
    return estimate(ipseval.evaluate_slates({"m": scores}, LISTED, metrics=["rr"]))


def error(predictions) -> float:
    ratings = ipseval.Interactions.from_frame(RATED, value="value")
    return estimate(ipseval.evaluation.evaluate_ratings({"m": predictions}, ratings, metrics=["mae"]))


def corrected(**given) -> float:
    return ipseval.correct_sampled(RANKS, n_sampled=5, metric="auc", method="none", **given).estimate


def test_the_numbers_of_labelled_data_are_worked_by_hand():
    """One user factor of 1 each: the item factor is the score, 4 for item 2 and 3 for item 4."""
    assert diversity(VECTORS.loc[[4, 1, 3, 2]]) == 0.5
    assert recall(SCORES, candidates=ALLOWED.sort_values()) == 1.0
    assert recall(lambda users: SCORES[[4, 1, 3, 2]].iloc[users[::-1]]) == 1.0
    assert recall(lambda users: pd.DataFrame(SCORES.to_numpy()[users])) == 1.0  # numbered, not labelled
    users = pd.DataFrame({"f": [1.0, 1.0]}, ["ann", "bob"])
    items = pd.DataFrame({"f": [0.0, 4, 1, 3]}, [1, 2, 3, 4])
    assert recall((users, items.loc[[4, 2, 1, 3]])) == 0.5
    assert reciprocal(LISTED["s"].sort_index()) == 1.0
    assert error(RATED["value"].sort_values()) == 0.0
    assert error(RATED["value"].set_axis([3, 7, 8])) == 0.0  # in the order of a log of which it is a part
    # auc of rank r among 5 drawn: (6 − r)/5.
    weights, n = pd.Series([1.0, 2, 3, 4], RANKS.index), pd.Series([20, 30, 40, 50], RANKS.index)
    expected = (1 * 5 + 2 * 2 + 3 * 4 + 4 * 3) / 5 / 10
    assert corrected(n_candidates=n[::-1], weights=weights.iloc[[2, 0, 3, 1]]) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: diversity(VECTORS.rename({4: 5})), "not ids of the split"),
        (lambda: recall(SCORES, candidates=ALLOWED.drop(1)), "a label for each of 4 items; 1 are missing"),
        (lambda: recall(lambda users: SCORES.rename(columns={4: 9}).iloc[users]), "not ids of the split"),
        (lambda: reciprocal(LISTED["s"].rename({7: 70})), "must have the labels of the rows"),
        (lambda: error(RATED["value"].set_axis([8, 3, 7])), "Bring it in the order of the rows"),
        (
            lambda: corrected(n_candidates=20, weights=pd.Series(1.0, [1, 2, 3, 4])),
            "must have the labels of the rows",
        ),
    ],
)
def test_labels_of_other_things_are_refused(call, message):
    with pytest.raises(ipseval.InputError, match=message):
        call()


@pytest.mark.parametrize(
    ("shift", "message"), [(-1, "the first position of a list is 1"), (5, "meets no row of the log")]
)
def test_lists_at_positions_that_the_log_does_not_have_are_refused(shift, message):
    frame = pd.DataFrame(
        {"user": [1, 1, 2, 2], "item": [1, 2, 1, 2], "clicked": [1, 0, 1, 1], "position": [1, 2, 1, 2]}
    )
    log = ipseval.ImpressionLog.from_frame(frame.assign(p=0.5), propensity="p", position="position")
    lists = frame[["user", "item", "position"]].assign(position=frame["position"] + shift)
    with pytest.raises(ipseval.InputError, match=message):
        evaluate_policies(log, {"a": lists})
