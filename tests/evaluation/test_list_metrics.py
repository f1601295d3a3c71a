"""Metrics of lists and held-out pairs, as other libraries hold them: the numbers are those of `evaluate`."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError, PropensityError
from tests.inside.evaluation import ListMetrics
from tests.worlds import random_split, top_ten

CASES = [
    *(("recall@5", "aoa"), ("ndcg@10", "snips"), ("recall@5", "snips-global")),
    *(("hit@3", "snips-pooled"), ("dcg@10", "ips")),
]
SPLIT = random_split(np.random.default_rng(0), 50, 30)
TRAIN, TEST = (part.to_frame()[["user", "item"]] for part in (SPLIT.train, SPLIT.test))
LISTS = top_ten(SPLIT).rename(columns={"user": "user_id", "item": "item_id"})  # as LensKit and RecTools do
KNOWN = ipseval.KnownPropensity(item=np.linspace(0.1, 1, SPLIT.n_items))


@pytest.mark.filterwarnings("ignore")  # of weights in a small world
@pytest.mark.parametrize(("metric", "estimator"), CASES)
def test_numbers_are_those_of_evaluate_for_a_model_and_for_a_fitted_propensity(metric, estimator):
    asked = {"metrics": [metric], "estimators": [estimator], "propensity": KNOWN}
    found = ipseval.evaluate({"one": ipseval.Lists(LISTS)}, SPLIT, **asked)
    by_user = found.per_user("one", metric, estimator)
    # The population of ips is all users, whom training tells.
    for given, log in ((KNOWN, TRAIN), (KNOWN.fit(SPLIT.train), TRAIN if estimator == "ips" else None)):
        own = ListMetrics.of([metric], estimator, given, log)
        assert own.values(LISTS, TEST) == pytest.approx(list(found.frame["estimate"]), rel=0, abs=1e-12)
        np.testing.assert_allclose(own.per_user(LISTS, TEST), by_user, rtol=0, atol=1e-12)


@pytest.mark.filterwarnings("ignore")  # one user has no list, and no hit
def test_items_that_nobody_held_out_keep_their_places():
    few = TEST[TEST["item"] < 5]
    found = few.merge(top_ten(SPLIT), how="left").assign(hit=lambda frame: frame["rank"] <= 5)
    expected = found.groupby("user")["hit"].mean().mean()
    assert ListMetrics.of(["recall@5"], None, None, None).values(LISTS, few) == pytest.approx([expected])


def test_weights_are_the_default_and_what_does_not_fit_is_an_error():
    assert ListMetrics.of(["recall@5"], None, KNOWN, None).label == "recall@5 snips-global"
    assert ListMetrics.of(["recall@5"], None, None, None).label == "recall@5 aoa"
    with pytest.raises(PropensityError, match="snips needs a propensity"):
        ListMetrics.of(["recall@5"], "snips", None, None)
    fitted = ListMetrics.of(["recall@5"], None, KNOWN.fit(SPLIT.train), None)
    with pytest.raises(InputError, match=r"1 ids that are not in the given universe of 30 \(1000"):
        fitted.values(LISTS, TEST.assign(item=1000)[:1])
    with pytest.raises(PropensityError, match="Without training data, fit it to counts"):
        ListMetrics.of(["recall@5"], None, "power-law:gamma=1", None).values(LISTS, TEST)
    two_lists = pd.concat([LISTS, LISTS.assign(item_id=LISTS["item_id"] + 100)])
    with pytest.raises(InputError, match=r"ranks of 49 users are not 1, 2, 3, …"):
        fitted.values(two_lists, TEST)
