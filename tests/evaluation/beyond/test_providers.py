"""Exposure of providers: shares and errors by a plain loop over lists."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.evaluation.beyond import exposure_by_provider
from tests.worlds import random_world

K = 4
NAMES = ["north", "south", "west"]


def provider_of(item: int) -> str:
    return NAMES[item % 5 // 2]


def test_shares_and_errors_are_those_of_a_loop_over_lists():
    world = random_world(3)
    scores = world.scores + np.arange(30) / 1000  # no ties
    providers = {item: provider_of(item) for item in range(30)}
    frame = exposure_by_provider({"model": scores}, world.split, providers, k=K)

    train = {}
    for user, item in zip(world.split.train.user, world.split.train.item, strict=True):
        train.setdefault(int(user), set()).add(int(item))
    lists = []
    for user in np.unique(world.split.test.user):
        candidates = [item for item in range(30) if item not in train.get(int(user), set())]
        lists.append(sorted(candidates, key=lambda item, row=scores[user]: -row[item])[:K])

    assert frame["provider"].tolist() == NAMES
    for row in frame.itertuples():
        counts = np.array([sum(provider_of(item) == row.provider for item in items) for items in lists])
        lengths = np.array([len(items) for items in lists])
        share = counts.sum() / lengths.sum()
        residual = counts - share * lengths
        n = len(lists)
        error = math.sqrt(n / (n - 1) * (residual**2).sum()) / lengths.sum()
        assert row.exposure == pytest.approx(share, rel=1e-12)
        assert row.std_error == pytest.approx(error, rel=1e-12)
        assert row.n_users == n
        assert row.ci_low < share < row.ci_high
        assert row.catalogue == sum(provider_of(item) == row.provider for item in range(30)) / 30
        n_training = sum(provider_of(int(item)) == row.provider for item in world.split.train.item)
        assert row.training == pytest.approx(n_training / len(world.split.train))
    assert frame["exposure"].sum() == pytest.approx(1)


def test_arrays_series_and_evaluations_with_lists_give_the_same_table():
    world = random_world(4)
    array = np.array([provider_of(item) for item in range(30)])
    expected = exposure_by_provider({"model": world.scores}, world.split, array, k=K)
    shuffled = pd.Series(array, index=world.split.item_ids).sample(frac=1, random_state=0)
    ranked = ipseval.rank_positives(world.scores, world.split, top_k=K)
    evaluation = ipseval.evaluate_ranks({"model": ranked}, metrics=["recall@3"])
    for models, providers in (({"model": world.scores}, shuffled), (evaluation, array)):
        frame = exposure_by_provider(models, world.split, providers, k=K)
        pd.testing.assert_frame_equal(frame, expected)


@pytest.mark.parametrize(
    ("providers", "message"),
    [
        ({0: "a"}, "name a provider for every item; 29 of 30 have none"),
        (np.array(["a", "b"]), "one entry for each of the 30 items; got 2"),
        ([["a"], ["b", "c"]], "one-dimensional, with one provider for each item; got lists in lists"),
    ],
)
def test_items_without_a_provider_are_refused(providers, message):
    world = random_world(5)
    with pytest.raises(InputError, match=message):
        exposure_by_provider({"model": world.scores}, world.split, providers)
