"""Features of user–item pairs, against plain loops and by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval.data import Interactions
from ipseval.errors import InputError
from ipseval.propensity import profile_features
from tests.inside.propensity import compute_mean_similarity


def draw_log(seed: int, n_users: int = 40, n_items: int = 25) -> Interactions:
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.15)
    frame = pd.DataFrame({"user": user, "item": item})
    return Interactions.from_frame(frame, users=np.arange(n_users), items=np.arange(n_items))


@pytest.mark.parametrize("shape", [(20, 12), (12, 20)])  # few items, few users: overlaps of items, of users
@pytest.mark.parametrize("gather", [8_000_000, 7])
@pytest.mark.parametrize("block", [256, 3])
def test_mean_similarity_equals_plain_loops_over_item_pairs(gather, block, shape, monkeypatch):
    monkeypatch.setattr("ipseval.propensity._pair_features.BLOCK_GATHER", gather)
    monkeypatch.setattr("ipseval.propensity._pair_features.BLOCK_ROWS", block)
    log = draw_log(1, *shape)
    item_users = [set(log.user[log.item == i].tolist()) for i in range(shape[1])]
    rng = np.random.default_rng(2)
    user = rng.integers(0, shape[0], 40)
    item = rng.integers(0, shape[1], 40)
    similarity = compute_mean_similarity(log, user, item)
    for u, i, value in zip(user, item, similarity, strict=True):
        profile = log.item[log.user == u]
        cosines = [
            len(item_users[i] & item_users[j]) / np.sqrt(max(len(item_users[i]), 1) * len(item_users[j]))
            for j in profile
        ]
        assert value == pytest.approx(np.mean(cosines) if cosines else 0.0)


def test_features_have_hand_computed_values():
    # Items 0 and 1 are both in the profiles of users 0 and 1, item 2 only in that of user 0; user 2 has none.
    frame = pd.DataFrame({"user": [0, 0, 1, 1, 0], "item": [0, 1, 0, 1, 2]})
    log = Interactions.from_frame(frame, users=[0, 1, 2, 3], items=[0, 1, 2])
    p = np.log(2)
    pair = 1 / np.sqrt(2)  # item 2: log(1 + 1); cos(2, 0) = cos(2, 1) = 1/√(1·2)
    s = np.log(pair + 1 / 4)
    size = np.log(3)
    profile = np.log(3)  # user 1 has two items, each with n* = 2
    features = profile_features(log, np.array([1]), np.array([2]))
    assert features[0] == pytest.approx([p, p * p, s, s * s, p * s, profile * p, size * p, size * s])
    with pytest.raises(InputError, match="user and item must have one length; got 2 and 1"):
        profile_features(log, np.array([0, 1]), np.array([2]))
    for user, item in ((4, 2), (0, 3)):
        with pytest.raises(InputError, match=r"must hold codes from 0 to [32]"):
            profile_features(log, np.array([user]), np.array([item]))
    single_pair_log = Interactions.from_frame(frame[:1])
    s = np.log(1 + 1)
    features = profile_features(single_pair_log, np.array([0]), np.array([0]))
    assert features[0] == pytest.approx([p, p * p, s, s * s, p * s, p * p, p * p, p * s])
    empty = profile_features(log, np.array([2]), np.array([2]))
    assert empty[0, [0, 2, 5, 6, 7]] == pytest.approx([p, np.log(1 / 4), 0, 0, 0])
