"""Users without a list and short lists are counted, reported, and treated in the same way for all models."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import InputError, KnownPropensity, Split, evaluate, evaluate_ranks, metric, rank_positives
from ipseval.errors import DataWarning
from ipseval.ranking.list_coverage import (
    check_lists,
    collect_list_notes,
    count_short_lists,
    resolve_missing,
)

N_USERS = 10
N_ITEMS = 20
TRAIN = pd.DataFrame({"user": np.arange(N_USERS), "item": 0})
TEST = pd.DataFrame({"user": np.arange(8), "item": 1})  # users 8 and 9 have no positive
SPLIT = Split.from_frames(TRAIN, TEST, users=range(N_USERS), items=range(N_ITEMS))
METRICS = ["recall@5"]


def lists(users, items=(1, 2, 3, 4, 5)) -> pd.DataFrame:
    users = list(users)
    return pd.DataFrame(
        {
            "user": np.repeat(users, len(items)),
            "item": np.tile(items, len(users)),
            "rank": np.tile(np.arange(1, len(items) + 1), len(users)),
        }
    )


def aoa(models, **options) -> pd.DataFrame:
    return evaluate(models, SPLIT, metrics=METRICS, estimators="aoa", **options).frame.set_index("model")


def test_users_without_a_list_count_as_misses_and_a_warning_says_how_many():
    with pytest.warns(
        DataWarning, match=r"8 users with test positives: 'half' lacks 4 \(50\.0%\)\. These"
    ) as caught:
        frame = aoa({"half": lists(range(4)), "full": lists(range(8))})
    assert len(caught) == 1
    assert frame["estimate"].to_dict() == {"half": 0.5, "full": 1.0}
    assert frame.loc["half", "note"] == "4 of 8 users have no list and count as misses"
    assert frame.loc["full", "note"] == ""


@pytest.mark.filterwarnings("ignore::ipseval.errors.DataWarning")
def test_users_missing_from_one_of_two_models_are_never_compared_silently():
    models = {"half": lists(range(4)), "full": lists(range(8)), "other": lists(range(4, 8))}
    result = evaluate(models, SPLIT, metrics=METRICS, estimators="aoa")
    note = "4 of 8 users have no list and count as misses"
    compared = result.compare().set_index(["model", "reference"])["note"]
    assert compared.to_dict() == {
        ("half", "full"): f"half: {note}",
        ("full", "other"): f"other: {note}",
        ("half", "other"): note,  # of each, and here of other users
    }
    assert f"half and other: {note}." in str(result)


def test_dropped_users_leave_every_model_and_the_population():
    scores = np.zeros((N_USERS, N_ITEMS))
    scores[:6, 1] = 1  # right for users 0 … 5
    models = {"lists": lists(range(4, 9)), "scores": scores}
    options = {"propensity": KnownPropensity(item=np.full(N_ITEMS, 0.9)), "missing_lists": "drop"}
    result = evaluate(models, SPLIT, metrics=METRICS, estimators=["aoa", "ips"], n_relevant=1, **options)
    frame = result.frame.set_index(["model", "estimator"])
    # Users 4 … 7 have positives and a list: all are hit by the lists, 4 and 5 by the scores (0 ties beyond).
    assert frame.loc[("lists", "aoa"), "estimate"] == 1.0
    assert frame.loc[("scores", "aoa"), "estimate"] == pytest.approx((2 + 2 * 5 / 19) / 4)
    assert (frame["n_positives"] == 4).all()
    # User 8 has a list and no positive, user 9 neither: it is no part of the population of ips.
    assert frame["n_users"].to_dict() == {
        ("lists", "aoa"): 4,
        ("lists", "ips"): 5,
        ("scores", "aoa"): 4,
        ("scores", "ips"): 5,
    }
    assert (frame["note"].str.contains("5 users without a list by some model are left out of all")).all()
    parity = ipseval.evaluation.segments.user_groups(["even", "odd"] * 5, name="parity")
    groups = result.by(parity).frame.groupby(["estimator", "group"])["n_users"].unique().map(list)
    assert groups["aoa"].tolist() == [[2], [2]]
    assert groups["ips"].tolist() == [[3], [2]]
    assert "propensity: known per item\n" in repr(result.explain())


@pytest.mark.parametrize("missing_lists", ["zero", "raise", "drop"])
def test_lists_that_cover_no_user_with_positives_are_an_error(missing_lists):
    models = {"strangers": lists([8, 9]), "full": lists(range(8))}
    with pytest.raises(InputError, match=NO_LIST[missing_lists]):
        aoa(models, missing_lists=missing_lists)


OF_NONE = (
    r"the lists of 'strangers' must contain users with held-out interactions; got lists of none of these 8 "
    r"users\. Check that lists and test part have the same ids"
)
NO_LIST = {
    "zero": OF_NONE,
    "raise": OF_NONE,
    "drop": r"no users with test positives have a list of every model",
}


def test_missing_lists_can_be_an_error():
    advice = "missing_lists='zero' or missing_lists='drop'"
    with pytest.raises(InputError, match=rf"'half' lacks 4 \(50\.0%\).*{advice}"):
        aoa({"half": lists(range(4))}, missing_lists="raise")
    assert aoa({"full": lists(range(8))}, missing_lists="raise")["estimate"].tolist() == [1.0]
    with pytest.raises(InputError, match="nobody is left"):
        aoa({"a": lists(range(4)), "b": lists(range(4, 8))}, missing_lists="drop")
    with pytest.raises(InputError, match="unknown value for missing_lists: 'ignore'"):
        aoa({"full": lists(range(8))}, missing_lists="ignore")


def test_short_lists_are_padded_with_misses_and_counted():
    mixed_lists = pd.concat([lists(range(2), (2, 1)), lists(range(2, 8))])
    frame = aoa({"mixed": mixed_lists})
    assert frame.loc["mixed", "note"] == "2 of 8 lists are shorter than 5, padded with misses"
    with pytest.warns(DataWarning, match="every list of 'short' is shorter than 5, the largest cutoff"):
        frame = aoa({"short": lists(range(8), (2, 3))})
    assert frame.loc["short", "estimate"] == 0.0
    assert frame.loc["short", "note"] == "8 of 8 lists are shorter than 5, padded with misses"


def test_padded_ranks_are_misses_at_every_rank_up_to_the_depth():
    ranked = rank_positives(lists(range(8), (2, 3)), SPLIT)
    deep = ranked.pad_lists(5)
    assert (deep.max_rank, deep.n_above.tolist()) == (5, [5] * 8)
    assert metric("recall@5").user_values(deep).tolist() == [0.0] * 8
    assert deep.pad_lists(3) is deep
    assert deep.list_counts(5).tolist() == [0, 0, 8, 0, 0, 0]
    assert deep.list_counts(2).tolist() == [0, 0, 8]
    assert deep.list_counts(0).tolist() == [8]
    with pytest.raises(InputError, match="depth must be an integer >= 0"):
        deep.list_counts(-1)


@pytest.mark.filterwarnings("ignore:Ranks are among each:ipseval.errors.DataWarning")
def test_lists_of_all_candidates_give_the_whole_ranking():
    slate = pd.DataFrame({"user": np.repeat(np.arange(8), 3), "item": np.tile([1, 2, 3], 8)})
    scored = slate.assign(score=np.tile([0.2, 0.9, 0.1], 8))
    ranked = rank_positives(scored, SPLIT, candidates=slate)
    assert ranked.max_rank is None
    assert evaluate_ranks({"slate": ranked}, metrics=["auc", "rr"]).frame["estimate"].tolist() == [0.5, 0.5]


COUNTS = np.array([2, 3, 1, 4])  # users without a list, with lists of one and two items, and of three or more


@pytest.mark.parametrize(
    ("cutoff", "n_left_out", "notes"),
    [
        (None, 0, ["2 of 10 users have no list and count as misses"]),
        (1, 0, ["2 of 10 users have no list and count as misses"]),
        (
            2,
            0,
            [
                "2 of 10 users have no list and count as misses",
                "3 of 8 lists are shorter than 2",
            ],
        ),
        (
            3,
            2,
            [
                "2 of 10 users have no",
                "4 of 8 lists are shorter than 3",
                "2 users without a list by some model",
            ],
        ),
    ],
)
def test_notes_count_missing_and_short_lists(cutoff, n_left_out, notes):
    texts = [str(note) for note in collect_list_notes(COUNTS, cutoff, n_left_out=n_left_out)]
    assert len(texts) == len(notes)
    for text, start in zip(texts, notes, strict=True):
        assert text.startswith(start)


def test_complete_lists_have_no_notes_and_no_counts():
    counts = np.array([0, 0, 7])
    assert collect_list_notes(counts, 2) == []
    assert collect_list_notes(counts, None) == []
    assert count_short_lists(counts, 2) == ()


@pytest.mark.parametrize(("depth", "n_short"), [(1, 0), (2, 3), (3, 4)])
def test_missing_and_short_lists_are_counted_among_users_with_positives(depth, n_short):
    rows = [(count.label, count.count, count.total) for count in count_short_lists(COUNTS, depth, "queries")]
    expected = [("queries with test positives and no list, counted as misses", 2, 10)]
    if n_short:
        expected.append((f"lists shorter than {depth}, padded with misses", n_short, 8))
    assert rows == expected


@pytest.mark.parametrize(
    ("counts", "missing", "n_left_out", "message"),
    [
        ({"a": [1, 3]}, "raise", 0, r"for some of the 4 users with test positives: 'a' lacks 1 \(25\.0%\)"),
        (
            {"a": [4, 0]},
            "zero",
            0,
            "the lists of 'a' must contain users with held-out .* none of these 4 users",
        ),
        ({"a": [4, 0], "b": [4, 0]}, "zero", 0, "the lists of 'a', 'b' must contain"),
        ({"a": [0, 0]}, "drop", 2, "no users with test positives have a list of every model; nobody is left"),
    ],
)
def test_lists_that_cannot_be_evaluated_are_refused(counts, missing, n_left_out, message):
    arrays = {name: np.array(count) for name, count in counts.items()}
    with pytest.raises(InputError, match=message):
        check_lists(arrays, missing, n_left_out)


@pytest.mark.parametrize(
    ("counts", "messages"),
    [
        ({"a": [0, 4], "b": [0, 4]}, []),
        ({"a": [0, 4], "b": [1, 3]}, [r"'b' lacks 1 \(25\.0%\)\. These queries count as misses"]),
        ({"a": [0, 1, 0], "b": [0, 0, 1]}, ["^every list of 'a' is shorter than 2, the largest cutoff"]),
        (
            {"a": [2, 1, 0], "b": [0, 3, 0]},
            [r"'a' lacks 2 \(66\.7%\)\. These", "every list of 'a', 'b' is shorter than 2"],
        ),
    ],
)
def test_lists_that_are_missing_or_short_are_reported(counts, messages):
    arrays = {name: np.array(count) for name, count in counts.items()}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_lists(arrays, "zero", 0, "queries")
    assert len(caught) == len(messages)
    for warning, message in zip(caught, messages, strict=True):
        assert warning.category is DataWarning
        assert re.search(message, str(warning.message))


@pytest.mark.parametrize("missing", ["zero", "drop"])
def test_lists_are_padded_and_users_without_a_list_of_some_model_leave_all_models(missing):
    ranks = {"a": rank_positives(lists(range(4)), SPLIT), "b": rank_positives(lists(range(2, 9)), SPLIT)}
    ranks["c"] = rank_positives(np.zeros((N_USERS, N_ITEMS)), SPLIT)
    resolved_ranks = resolve_missing(ranks, missing, 9)
    assert [model_ranks.max_rank for model_ranks in resolved_ranks.values()] == [9, 9, None]
    for model_ranks in resolved_ranks.values():
        if missing == "zero":
            assert model_ranks.left_out is None
            assert model_ranks.users.tolist() == list(range(8))
        else:  # users 2 and 3 have both lists
            assert np.flatnonzero(~model_ranks.left_out).tolist() == [2, 3]
            assert model_ranks.users.tolist() == [2, 3]
    of_scores = resolve_missing({"c": ranks["c"]}, "drop", 9)
    assert of_scores["c"].left_out is None


def test_lists_of_users_without_positives_are_in_no_top_list():
    # Users 8 and 9 have no positive; their items must not be those of another user.
    frame = pd.DataFrame({"user": [9, 8, 0, 1, 2], "item": [19, 18, 3, 4, 5], "rank": 1})
    top = rank_positives(frame, SPLIT, top_k=1).top
    assert top.users.tolist() == list(range(8))
    assert top.item[:, 0].tolist() == [3, 4, 5, -1, -1, -1, -1, -1]
    assert top.length.tolist() == [1, 1, 1, 0, 0, 0, 0, 0]
