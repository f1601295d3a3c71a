"""Propensities, impressions and random exposure in the forms that people hold give the same estimates."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.data.random_exposure import RandomExposure
from ipseval.data.reading.exposure_tables import read_random_exposure
from ipseval.errors import InputError, PropensityError

RNG = np.random.default_rng(0)
USERS = [f"u{number}" for number in range(20)]
ITEMS = [f"i{number}" for number in range(12)]
PAIRS = pd.DataFrame(
    [(user, item) for user in USERS for item in RNG.choice(ITEMS, 6, replace=False)],
    columns=["user_id", "item_id"],
)
IS_TEST = np.tile([True, False, False], 40)
TRAIN = PAIRS[~IS_TEST]
TEST = PAIRS[IS_TEST]
SCORES = pd.DataFrame(RNG.normal(size=(20, 12)), index=USERS, columns=ITEMS)
P = {item: 0.9 / (1 + position) ** 0.5 for position, item in enumerate(ITEMS)}
BY_PAIR = {(user, item): P[item] for user in USERS for item in ITEMS}
OPTIONS = {"items": ITEMS, "metrics": ["recall@3"]}

PROPENSITIES = {
    "list": list(P.values()),
    "pairs of item and P": list(P.items()),
    "frame": pd.DataFrame({"item_id": P.keys(), "propensity": P.values()}),
    "frame with p": pd.DataFrame({"movieId": P.keys(), "p": P.values()}),
    "frame with probability": pd.DataFrame({"sku": P.keys(), "probability": P.values()}),
    "frame with items as labels": pd.DataFrame({"propensity": P}),
    "keys of pairs": BY_PAIR,
    "labels of pairs": pd.Series(BY_PAIR),
    "labels of items first": pd.Series(
        {(item, user): value for (user, item), value in BY_PAIR.items()}
    ).rename_axis(["item_id", "user_id"]),
    "matrix with labels": pd.DataFrame(np.tile(list(P.values()), (20, 1)), index=USERS, columns=ITEMS),
    "Series of the test rows": TEST["item_id"].map(P),
}


def estimate(propensity: object) -> list[float]:
    return ipseval.evaluate(SCORES, TRAIN, TEST, propensity=propensity, **OPTIONS).frame["estimate"].tolist()


@pytest.mark.parametrize("form", PROPENSITIES)
def test_propensities_in_any_form_give_the_estimates_of_the_mapping(form):
    assert estimate(PROPENSITIES[form]) == pytest.approx(estimate(P), abs=1e-12)


def test_propensities_in_a_file_give_the_estimates_of_the_mapping(tmp_path):
    path = tmp_path / "p.csv"
    PROPENSITIES["frame"].to_csv(path, index=False)
    assert estimate(str(path)) == pytest.approx(estimate(P), abs=1e-12)


def test_the_weighted_estimate_of_a_series_of_test_rows_by_hand():
    train = pd.DataFrame({"user": ["a", "b"], "item": ["x", "x"]})
    test = pd.DataFrame({"user": ["a", "a", "b"], "item": ["y", "z", "z"]}, index=[7, 3, 5])
    lists = {"a": ["y"], "b": ["z"]}
    result = ipseval.evaluate(
        lists,
        train,
        test,
        propensity=pd.Series([0.5, 0.25, 1.0], index=test.index),
        metrics=["recall@1"],
        low_ess="ignore",
    )
    # Weights 1/P: 2 for the hit (a, y), 4 for (a, z) and 1 for the hit (b, z); each user counts with the mean.
    assert result.estimate("model", "recall@1", "snips-global").value == pytest.approx(
        (2 / 2 + 1) / (6 / 2 + 1)
    )


def test_labels_that_may_be_rows_or_items_are_refused():
    train = pd.DataFrame({"user": ["a", "b"], "item": [0, 1]})
    test = pd.DataFrame({"user": ["a", "b"], "item": [1, 0]})
    with pytest.raises(PropensityError, match="one value for each item, too"):
        ipseval.evaluate({"a": [1], "b": [0]}, train, test, propensity=pd.Series([0.5, 0.25]))
    train = train.astype({"item": str})
    with pytest.raises(PropensityError, match="one value for each item, too"):
        ipseval.evaluate(
            {"a": ["1"], "b": ["0"]}, train, test.astype({"item": str}), propensity=pd.Series([0.5, 0.25])
        )


IMPRESSIONS = PAIRS.assign(position=np.tile([1, 2, 3], 40), click=IS_TEST.astype(int))


def test_impressions_in_a_frame_are_read(tmp_path):
    IMPRESSIONS.to_csv(tmp_path / "shown.csv", index=False)
    log = ipseval.read(IMPRESSIONS)
    expected = ipseval.ImpressionPropensity(log=log).fit(log).item
    for table in (IMPRESSIONS, str(tmp_path / "shown.csv"), IMPRESSIONS.to_dict("records")):
        np.testing.assert_array_equal(ipseval.ImpressionPropensity(log=table).fit(log).item, expected)


def test_impressions_of_some_items_are_those_of_the_universe():
    split = ipseval.Split.from_frames(TRAIN, TEST, users=[*USERS, "new"], items=[*ITEMS[::-1], "new"])
    fitted = ipseval.ImpressionPropensity(log=IMPRESSIONS).fit(split.train)
    log = ipseval.read(IMPRESSIONS, users=split.user_ids, items=split.item_ids)
    expected = ipseval.ImpressionPropensity().fit(log)
    user, item = np.divmod(np.arange(21 * 12), 12)
    np.testing.assert_array_equal(fitted.for_pairs(user, item), expected.for_pairs(user, item))


def test_a_table_without_clicks_is_no_impressions():
    with pytest.raises(InputError, match="clicked="):
        ipseval.ImpressionPropensity(log=PAIRS)


SHOWN = pd.DataFrame(
    [(user, item) for user in USERS for item in RNG.choice(ITEMS, 4, replace=False)],
    columns=["user_id", "item_id"],
).assign(rating=RNG.integers(1, 6, 80))
LIKED = SHOWN.drop(columns="rating").assign(label=(SHOWN["rating"] >= 4).astype(int))
SPLIT = ipseval.Split.from_frames(TRAIN, TEST, items=ITEMS)
EXPOSURES = {
    "label": (LIKED, None),
    "positive": (LIKED.rename(columns={"label": "positive"}).astype({"positive": bool}), None),
    "ratings": (SHOWN, 4.0),
    "tuples of ratings": (list(SHOWN.itertuples(index=False, name=None)), 4.0),
    "tuples of labels": (list(LIKED.itertuples(index=False, name=None)), None),
    "keys of pairs": (LIKED.set_index(["user_id", "item_id"])["label"].to_dict(), None),
    "label and ratings": (SHOWN.assign(label=LIKED["label"]), 4.0),
}


@pytest.mark.parametrize("form", EXPOSURES)
def test_random_exposure_in_any_table_has_all_pairs_and_their_outcomes(form):
    table, threshold = EXPOSURES[form]
    exposure = read_random_exposure(table, SPLIT, threshold)
    expected = RandomExposure.from_frame(LIKED, SPLIT)
    order, expected_order = np.argsort(exposure.pair_key), np.argsort(expected.pair_key)
    np.testing.assert_array_equal(exposure.pair_key[order], expected.pair_key[expected_order])
    np.testing.assert_array_equal(exposure.positive[order], expected.positive[expected_order])
    assert len(exposure) == 80


@pytest.mark.parametrize("column", ["positive", "clicked", "label", "liked"])
@pytest.mark.parametrize("outcomes", [[0, 0], [1, 1], [1, 0], [False, False], [True, True]])
def test_all_pairs_of_random_exposure_may_have_the_same_outcome(column, outcomes):
    table = pd.DataFrame({"user": USERS[:2], "item": ITEMS[:2], column: outcomes})
    assert read_random_exposure(table, SPLIT).positive.tolist() == outcomes


def test_correct_takes_the_tables_that_evaluate_takes():
    models = {"scores": SCORES, "reverse": -SCORES}
    options = {"metrics": ["recall@3"], "rng": 0}
    exposure = RandomExposure.from_frame(LIKED, SPLIT)
    expected = ipseval.correct(models, SPLIT, random_exposure=exposure, **options).frame
    for result in (
        ipseval.correct(models, SPLIT, random_exposure=LIKED, **options),
        ipseval.correct(models, SPLIT, random_exposure=SHOWN, threshold=4, **options),
        ipseval.correct(models, train=TRAIN, test=TEST, items=ITEMS, random_exposure=LIKED, **options),
        ipseval.correct(models, TRAIN, TEST, items=ITEMS, random_exposure=SHOWN, threshold=4, **options),
    ):
        pd.testing.assert_frame_equal(result.frame, expected)


def test_random_exposure_that_tells_no_outcome_is_refused():
    for table, words in (
        (LIKED.drop(columns="label"), "Add a column positive"),
        (SHOWN, "threshold=4"),
        (SHOWN.assign(label=1 - LIKED["label"]), "disagree"),
        (pd.concat([LIKED, LIKED.iloc[:1]]), "repeat"),
    ):
        with pytest.raises(InputError, match=words):
            ipseval.correct(
                SCORES, SPLIT, random_exposure=table, threshold=None if words == "threshold=4" else 4
            )


def test_generators_are_read_once():
    def tuples(frame: pd.DataFrame) -> object:
        return frame.itertuples(index=False, name=None)

    options = {"metrics": ["recall@3"], "rng": 0, "items": ITEMS, "random_exposure": LIKED}
    result = ipseval.correct(SCORES, train=tuples(TRAIN), test=tuples(TEST), **options)
    expected = ipseval.correct(SCORES, train=TRAIN, test=TEST, **options)
    pd.testing.assert_frame_equal(result.frame, expected.frame)


def test_a_threshold_without_ratings_is_refused():
    with pytest.raises(InputError, match="Leave it out"):
        ipseval.correct(SCORES, SPLIT, threshold=4)
