"""Metrics of lists and held-out pairs, as other libraries hold them: the numbers are those of `evaluate`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError, PropensityError
from tests.inside.evaluation import ListMetrics
from tests.worlds import random_split

MODEL = ipseval.PowerLawPropensity(gamma=0.5, unseen="smooth")
CASES = [
    *((metric, one) for metric in ("recall@5", "ndcg@10") for one in ("aoa", "snips", "snips-global")),
    *(("hit@3", "snips-pooled"), ("precision@5", "ips"), ("dcg@10", "ips")),
]


@pytest.fixture(scope="module")
def world():
    """A split, lists of the ten best by random scores as a frame, and what `evaluate` makes of them."""
    split = random_split(np.random.default_rng(0), 50, 30)
    best = np.random.default_rng(1).random((split.n_users, split.n_items)).argsort(axis=1)[:, :10]
    rows = {"user_id": np.repeat(split.user_ids, 10), "item_id": split.item_ids[best.ravel()]}
    lists = pd.DataFrame(rows | {"rank": np.tile(np.arange(1, 11), split.n_users)})
    return split, lists


def expected(split, lists, propensity, metric, estimator):
    given = {"one": ipseval.Lists(lists, seen="keep")}
    found = ipseval.evaluate(given, split, propensity=propensity, metrics=[metric], estimators=[estimator])
    return found.estimate("one", metric, estimator).value, found.per_user("one", metric, estimator)


@pytest.mark.filterwarnings("ignore")  # of weights in a small world
@pytest.mark.parametrize(("metric", "estimator"), CASES)
def test_numbers_are_those_of_evaluate_for_a_model_and_for_a_fitted_propensity(world, metric, estimator):
    split, lists = world
    known = ipseval.KnownPropensity(item=np.linspace(0.1, 1, split.n_items))
    train, test = (part.to_frame()[["user", "item"]] for part in (split.train, split.test))
    for given in (known, known.fit(split.train)):
        value, by_user = expected(split, lists, given, metric, estimator)
        asked = ListMetrics.of([metric], estimator, given, train)
        assert asked.values(lists, test) == pytest.approx([value], rel=0, abs=1e-12)
        own = asked.per_user(lists, test)
        pd.testing.assert_series_equal(own, by_user, check_names=False, rtol=0, atol=1e-12)
    if estimator != "ips":  # its population is all users, whom training tells
        alone = ListMetrics.of([metric], estimator, known.fit(split.train), None)
        assert alone.values(lists, test) == pytest.approx([value], rel=0, abs=1e-12)


def test_the_default_estimator_is_weighted_where_there_is_a_propensity():
    assert ListMetrics.of(["recall@5"], None, MODEL, None).label == "recall@5 snips-global"
    assert ListMetrics.of(["recall@5"], None, None, None).label == "recall@5 aoa"


def test_what_is_missing_is_an_error_at_once_and_what_does_not_fit_one_when_it_is_asked(world):
    split, lists = world
    with pytest.raises(PropensityError, match="snips needs a propensity"):
        ListMetrics.of(["recall@5"], "snips", None, None)
    fitted = MODEL.fit(split.train)
    other = split.test.to_frame().assign(item=1000)[:1]
    with pytest.raises(InputError, match=r"1 ids that are not in the given universe of 30 \(1000"):
        ListMetrics.of(["recall@5"], None, fitted, None).values(lists, other)
    with pytest.raises(PropensityError, match="Without training data, fit it to counts"):
        ListMetrics.of(["recall@5"], None, "power-law:gamma=1", None).values(lists, split.test.to_frame())
