"""The propensity model of extreme classification."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError, PropensityError
from ipseval.propensity import JainPropensity, parse_propensity
from tests.inside.distributed import _fit_propensity


def make_log(n_users: int = 20) -> ipseval.Interactions:
    """Return a log in which item i has min(2^i, n_users) users, with ids for a user and an item without rows."""
    users = []
    items = []
    for item in range(4):
        for user in range(min(2**item, n_users)):
            users.append(user)
            items.append(item)
    for user in range(n_users):
        users.append(user)
        items.append(5)
    frame = pd.DataFrame({"user": users, "item": items})
    return ipseval.Interactions.from_frame(frame, users=np.arange(n_users + 1), items=np.arange(6))


def test_values_are_those_of_the_formula():
    propensity = JainPropensity(a=0.6, b=2.6).fit(make_log())
    constant = (math.log(20) - 1) * 3.6**0.6
    expected = [1 / (1 + constant / (n + 2.6) ** 0.6) for n in (1, 2, 4, 8, 0, 20)]
    assert propensity.item == pytest.approx(expected, rel=1e-14)
    # An item with one user: 1 + (ln N − 1) = ln N, whatever a and b.
    assert 1 / propensity.item[0] == pytest.approx(math.log(20), rel=1e-14)
    assert (propensity.is_probability, propensity.basis) == (True, "assumed")
    assert repr(propensity) == "Propensity(Jain et al., a = 0.6, b = 2.6; per item; probability)"


def test_the_label_names_the_model_with_its_parameters():
    assert parse_propensity("jain:a=0.55,b=1.5") == JainPropensity() == parse_propensity("jain")
    assert parse_propensity("jain(a=0.5, b=0.4)") == JainPropensity(a=0.5, b=0.4)


def test_counts_give_the_values_of_the_log_and_repeats_count_once():
    log = make_log()
    counts = JainPropensity().fit(popularity=log.popularity, n_users=20)
    assert np.array_equal(counts.item, JainPropensity().fit(log).item)
    frame = pd.DataFrame({"user": [0, 0, 1, 2], "item": [0, 0, 0, 1]})
    with_repeats = ipseval.Interactions.from_frame(frame, duplicates="keep")
    once = ipseval.Interactions.from_frame(frame.drop_duplicates())
    assert np.array_equal(JainPropensity().fit(with_repeats).item, JainPropensity().fit(once).item)


def test_items_without_interactions_have_a_propensity_so_that_no_positive_is_left_out():
    train = pd.DataFrame({"user": [0, 1, 2], "item": [0, 0, 1]})
    test = pd.DataFrame({"user": [0, 1], "item": [2, 1]})
    split = ipseval.Split.from_frames(train, test)
    result = ipseval.evaluate(
        {"model": np.eye(3)}, split, propensity="jain", metrics=["recall@1"], low_ess="ignore"
    )
    assert result.frame["n_positives"].tolist() == [2, 2]


def test_clipping_and_holding_out_keep_their_meaning():
    propensity = JainPropensity().fit(make_log())
    assert propensity.clip(floor=0.5).item == pytest.approx(np.maximum(propensity.item, 0.5))
    held_out = propensity.held_out(test_fraction=0.2, popularity_source="log")
    assert held_out.item == pytest.approx(0.2 * propensity.item / (1 - 0.8 * propensity.item))
    with pytest.raises(PropensityError, match="power-law"):
        propensity.gamma_chain()


@pytest.mark.parametrize(
    ("fit", "message"),
    [
        (lambda: JainPropensity(a=0), "a must be a finite number > 0; got 0"),
        (lambda: JainPropensity(b=-1.0), "b must be a finite number > 0; got -1.0"),
        (lambda: JainPropensity().fit(), "either training interactions or popularity= with n_users="),
        (lambda: JainPropensity().fit(popularity=[1, 2]), "popularity= with n_users="),
        (lambda: JainPropensity().fit(make_log(), n_users=20), "popularity= with n_users="),
        (lambda: JainPropensity().fit(popularity=[1, 2], n_users=2), "n_users must be"),
        (lambda: JainPropensity().fit(popularity=[1, 5], n_users=4), "at most the number of users, 4; got 5"),
        (lambda: JainPropensity().fit(make_log(2)), "at least 3 users with training interactions; got 2"),
        (lambda: _fit_propensity("jain", np.array([1, 4])), "popularity= with n_users="),
    ],
)
def test_unusable_input_is_refused(fit, message):
    with pytest.raises(InputError, match=message):
        fit()
