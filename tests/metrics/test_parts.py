"""Computation in blocks of users, and errors for missing gains."""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.metrics import metric
from ipseval.ranking import RankedPositives
from tests.inside.metrics import _ideal_list


def many_users(rng: np.random.Generator, n_users: int = 300, n_items: int = 50) -> RankedPositives:
    """Return positives of users with one to twenty of them, with ties and grades."""
    counts = rng.integers(1, 21, size=n_users)
    user = np.repeat(np.arange(n_users), counts)
    item = np.concatenate([np.sort(rng.choice(n_items, size, replace=False)) for size in counts])
    scores = rng.integers(0, 30, size=(n_users, n_items))
    mine = scores[user, item][:, None]
    return RankedPositives(
        user=user,
        item=item,
        n_above=(scores[user] > mine).sum(axis=1),
        n_tied=(scores[user] == mine).sum(axis=1) - 1,
        n_candidates=np.full(user.size, n_items),
        user_ids=np.arange(n_users),
        item_ids=np.arange(n_items),
        gain=rng.integers(0, 4, size=user.size).astype(float),
    )


def test_missing_gains_are_refused():
    ranked = many_users(np.random.default_rng(4))
    ungraded = RankedPositives(
        **{name: getattr(ranked, name) for name in ("user", "item", "n_above", "n_tied", "n_candidates")},
        user_ids=ranked.user_ids,
        item_ids=ranked.item_ids,
    )
    with pytest.raises(InputError, match="requires graded relevance"):
        ipseval.evaluate_ranks({"m": ungraded}, metrics=("dcg(gain=linear)@10",))


@pytest.mark.parametrize("cells", [1, 50, 10**9])
def test_unbiased_ndcg_does_not_depend_on_the_number_of_users_at_once(cells, monkeypatch):
    rng = np.random.default_rng(0)
    ranked = many_users(rng, n_users=25)
    inverse = 1 / rng.uniform(0.2, 1.0, size=len(ranked))
    ndcg = metric("ndcg@7")
    expected = ndcg.unbiased(ranked, inverse, None)
    monkeypatch.setattr(_ideal_list, "MAX_CELLS", cells)  # fewer than one user takes: one is done at a time
    np.testing.assert_allclose(ndcg.unbiased(ranked, inverse, None), expected, rtol=1e-12)
