"""Values of users computed part by part are those computed at once."""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from ipseval import ComputeOptions
from ipseval.errors import InputError
from ipseval.estimators import Sample
from ipseval.metrics import Metric, metric
from ipseval.ranking import RankedPositives
from tests.inside.estimators import _sample as base
from tests.inside.metrics import _ideal_list
from tests.metrics.test_labels import LABELS


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


@pytest.mark.parametrize("label", LABELS)
def test_values_by_parts_are_those_of_the_whole(label: str, monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(0)
    ranked = many_users(rng)
    propensity = rng.uniform(0.1, 1.0, size=len(ranked))
    whole = Sample(ranked, propensity)
    monkeypatch.setattr(base, "PART", 64)
    parts = Sample(ranked, propensity)
    weightings = [False] if label.endswith("]") else [False, True]  # other libraries' values take no weights
    parts.prepare([metric(label)], weightings, n_threads=2)
    assert len(parts._values) == len(weightings)
    for weighted in weightings:
        np.testing.assert_allclose(
            parts.user_values(metric(label), weighted=weighted),
            whole.user_values(metric(label), weighted=weighted),
            rtol=1e-14,
        )


def test_parts_hold_whole_users_and_all_positives_once():
    ranked = many_users(np.random.default_rng(1))
    parts = ranked.parts(100)
    assert len(parts) > 10
    np.testing.assert_array_equal(np.concatenate([part.item for _, part in parts]), ranked.item)
    seen = [set(part.user) for _, part in parts]
    assert sum(map(len, seen)) == len(set.union(*seen)) == ranked.users.size


def test_a_user_with_more_positives_than_a_part_is_a_part_of_its_own():
    ranked = many_users(np.random.default_rng(2), n_users=3)
    assert [len(part) for _, part in ranked.parts(1)] == ranked.counts.tolist()


def test_the_number_of_threads_does_not_change_a_bit(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(base, "PART", 64)
    ranked = many_users(np.random.default_rng(3))
    chosen = [metric(label) for label in ("auc", "ndcg@10", "ap")]
    samples = [Sample(ranked, np.linspace(0.1, 1.0, len(ranked))) for _ in range(3)]
    for sample, n_threads in zip(samples, (1, 2, 5), strict=True):
        sample.prepare(chosen, [False, True], n_threads)
    for one in chosen:
        first, *others = [sample.user_values(one, weighted=True) for sample in samples]
        for other in others:
            np.testing.assert_array_equal(first, other)


def test_an_error_of_a_part_is_raised_with_the_numbers_of_the_whole(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(base, "PART", 64)
    ranked = many_users(np.random.default_rng(4))
    ungraded = RankedPositives(
        **{name: getattr(ranked, name) for name in ("user", "item", "n_above", "n_tied", "n_candidates")},
        user_ids=ranked.user_ids,
        item_ids=ranked.item_ids,
    )
    with pytest.raises(InputError, match="needs graded relevance"):
        ipseval.evaluate_ranks({"m": ungraded}, metrics=("dcg(gain=linear)@10",))


def test_metrics_that_read_all_users_are_left_out(monkeypatch: pytest.MonkeyPatch):
    class Centred(Metric):
        """A metric of one's own, whose values are known together only."""

        name, kind, by_user = "centred", "mean", False

        def _user_values(self, ranked, weights, rule):
            value = ranked.sum_by_user(1.0 / (1 + ranked.n_above)) / ranked.counts
            return value - value.mean()

    monkeypatch.setattr(base, "PART", 64)
    sample = Sample(many_users(np.random.default_rng(5)))
    sample.prepare([Centred()], [False])
    assert abs(sample.user_values(Centred(), weighted=False).mean()) < 1e-15


def test_a_number_of_threads_below_one_is_refused():
    ranked = many_users(np.random.default_rng(6), n_users=3)
    with pytest.raises(InputError, match="n_threads must be an integer >= 1; got -1"):
        ipseval.evaluate_ranks({"m": ranked}, compute=ComputeOptions(n_threads=-1))


@pytest.mark.parametrize("cells", [1, 50, 10**9])
def test_unbiased_ndcg_is_the_same_however_many_users_are_done_at_once(cells, monkeypatch):
    rng = np.random.default_rng(0)
    ranked = many_users(rng)
    inverse, ndcg = 1 / rng.uniform(0.2, 1.0, size=len(ranked)), metric("ndcg@7")
    expected = ndcg.unbiased(ranked, inverse, None)
    monkeypatch.setattr(_ideal_list, "CELLS", cells)  # fewer than one user takes: one is done at a time
    np.testing.assert_allclose(ndcg.unbiased(ranked, inverse, None), expected, rtol=1e-12)
