"""Users without a list and short lists are counted, reported, and treated in the same way for all models."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval import InputError, KnownPropensity, Split, evaluate, evaluate_ranks, metric, rank_positives
from ipseval.errors import DataWarning

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
