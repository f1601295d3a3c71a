"""Recommenders in the forms that people hold have the ranks of the same scores in a labelled frame."""

from __future__ import annotations

import warnings
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError

USERS = [f"u{number}" for number in range(6)]
ITEMS = [f"i{number}" for number in range(9)]
SCORES = pd.DataFrame(np.random.default_rng(0).normal(size=(6, 9)), index=USERS, columns=ITEMS)
TRAIN = {user: [ITEMS[row], ITEMS[row + 1]] for row, user in enumerate(USERS)}
TEST = {user: [ITEMS[row + 3], ITEMS[row + 2]] for row, user in enumerate(USERS)}
SPLIT = ipseval.Split.from_frames(TRAIN, TEST, items=ITEMS)
LISTS = {
    user: [item for item in SCORES.loc[user].sort_values(ascending=False).index if item not in TRAIN[user]][
        :4
    ]
    for user in USERS
}
FRAME = pd.DataFrame([(user, item) for user in USERS for item in LISTS[user]], columns=["user_id", "item_id"])
SCORED = FRAME.assign(score=np.tile([4.0, 3.0, 2.0, 1.0], 6))
METRICS = ["recall@4", "ndcg@4"]


def evaluate(model: object) -> list[float]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ipseval.evaluate({"m": model}, SPLIT, metrics=METRICS).frame["estimate"].tolist()


def predict_pair(uid: str, iid: str) -> float:
    return float(SCORES.loc[uid, iid])


HELD_LISTS = {
    "Series of lists": pd.Series(LISTS),
    "frame of lists": FRAME.groupby("user_id")["item_id"].apply(list).reset_index(),
    "frame of recommendations": FRAME.groupby("user_id")["item_id"]
    .apply(list)
    .reset_index(name="recommendations"),
    "pairs of user and list": list(LISTS.items()),
    "labels of pairs": SCORED.set_index(["user_id", "item_id"])["score"],
    "keys of pairs": SCORED.set_index(["user_id", "item_id"])["score"].to_dict(),
    "users as labels": SCORED.set_index("user_id"),
    "records": SCORED.to_dict("records"),
    "Series of scores": {
        user: part.set_index("item_id")["score"] for user, part in SCORED.groupby("user_id")
    },
    "Series of items": {
        user: part["item_id"].reset_index(drop=True) for user, part in SCORED.groupby("user_id")
    },
    "array of ids": np.array(list(LISTS.values())),
    "frame with a user in each row": pd.DataFrame(LISTS).T,
    "function to a list": lambda user: LISTS[user],
    "function to an array of ids": lambda user: np.array(LISTS[user]),
    "function to scores by item": lambda user: dict(zip(LISTS[user], (4.0, 3.0, 2.0, 1.0), strict=True)),
    "function to items and scores": lambda user: (np.array(LISTS[user]), np.array([4.0, 3.0, 2.0, 1.0])),
}
HELD_SCORES = {
    "function to a Series": lambda user: SCORES.loc[user],
    "function to an array": lambda user: SCORES.loc[user].to_numpy(),
    "function of a pair, in a function": lambda user: {item: predict_pair(user, item) for item in ITEMS},
    "labels of all pairs": SCORES.stack(),
    "Surprise": SimpleNamespace(
        trainset=SimpleNamespace(
            n_users=6,
            n_items=9,
            to_raw_uid=lambda row: USERS[::-1][row],
            to_raw_iid=lambda row: ITEMS[::-1][row],
        ),
        predict=lambda user, item, clip: SimpleNamespace(est=predict_pair(user, item)),
    ),
    "cornac": SimpleNamespace(
        uid_map={user: row for row, user in enumerate(USERS[::-1])},
        iid_map={item: row for row, item in enumerate(ITEMS[::-1])},
        num_users=6,
        num_items=9,
        score=lambda row: SCORES.to_numpy()[::-1, ::-1][row],
    ),
}


@pytest.mark.parametrize("form", HELD_LISTS)
def test_lists_in_any_form_have_the_estimates_of_the_mapping(form):
    assert evaluate(HELD_LISTS[form]) == pytest.approx(evaluate(LISTS), abs=1e-12)


@pytest.mark.parametrize("form", HELD_SCORES)
def test_scores_in_any_form_have_the_estimates_of_the_frame(form):
    assert evaluate(HELD_SCORES[form]) == pytest.approx(evaluate(SCORES), abs=1e-12)


def test_a_mapping_of_pairs_is_one_recommender():
    scores = SCORED.set_index(["user_id", "item_id"])["score"].to_dict()
    assert ipseval.evaluate(scores, SPLIT, metrics=METRICS).models == ["model"]


def test_factors_in_any_form_have_the_estimates_of_their_product():
    rng = np.random.default_rng(1)
    user_factors, item_factors = rng.normal(size=(6, 3)), rng.normal(size=(9, 3))
    expected = evaluate(user_factors @ item_factors.T)
    assert evaluate([user_factors, item_factors]) == expected
    assert evaluate({"user_factors": user_factors, "item_factors": item_factors}) == expected
    by_id = (
        dict(zip(USERS[::-1], user_factors[::-1], strict=True)),
        dict(zip(ITEMS[::-1], item_factors[::-1], strict=True)),
    )
    assert evaluate(by_id) == expected
    lightfm = SimpleNamespace(
        user_embeddings=user_factors, item_embeddings=item_factors, item_biases=np.arange(9.0)
    )
    assert evaluate(lightfm) == evaluate(user_factors @ item_factors.T + np.arange(9.0))


def test_a_function_of_codes_is_called_with_codes():
    scores = SCORES.to_numpy()
    assert evaluate(lambda users: scores[users]) == evaluate(SCORES)


def test_the_error_of_a_function_that_works_for_codes_stays():
    scores = SCORES.to_numpy()

    def fail_for_several(users):
        if np.size(users) > 1:
            raise KeyError("a fault of the model")
        return scores[users]

    with pytest.raises(KeyError, match="a fault of the model"):
        evaluate(fail_for_several)


@pytest.mark.parametrize(
    ("model", "advice"),
    [
        (predict_pair, r"lambda user: \{item: predict_pair\(user, item\) for item in items\}"),
        (lambda user, k: LISTS[user][:k], "lambda user"),
        (SimpleNamespace(recommend=lambda user: LISTS[user]), r"\{'name': model\.recommend\}"),
        (FRAME, r"frame\.assign\(rank=frame\.groupby\('user_id'\)\.cumcount\(\) \+ 1\)"),
    ],
)
def test_other_forms_lead_to_a_form_that_works(model, advice):
    with pytest.raises(InputError, match=advice):
        evaluate(model)


def test_sets_have_no_order_and_are_refused():
    with pytest.raises(InputError, match="got a set"):
        evaluate({user: set(items) for user, items in LISTS.items()})


def test_named_pairs_become_a_mapping():
    with pytest.raises(InputError, match=r"Pass dict\(models\)"):
        ipseval.evaluate([("a", SCORES), ("b", LISTS)], SPLIT)
