"""What sampling does to the order of recommenders."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.ranking import rank_positives
from ipseval.sampled_metrics import metric as find_metric
from ipseval.sampled_metrics import sampling_curve, sampling_study
from ipseval.sampled_metrics._study import full_ranking_value
from tests.sampled.test_expected import RANKS, WITH, N
from tests.worlds import random_world


def test_the_curve_has_the_published_expectations_and_the_flip():
    curve = sampling_curve(RANKS, N, n_sampled=[99, 2500], metric="ndcg", n_repeats=200, rng=0)
    small, large = (curve[curve["n_sampled"] == m].set_index("model") for m in (99, 2500))
    np.testing.assert_allclose(small["expected"], WITH["ndcg"], atol=5.1e-7)
    assert small["expected"].idxmax() == "A"
    assert large["expected"].idxmax() == small["exact"].idxmax() == "C"
    assert small.loc["C", "is_best"]
    assert small["chance_first"].sum() == pytest.approx(1)
    assert small.loc["A", "chance_first"] > 0.9
    assert large.loc["C", "chance_first"] > small.loc["C", "chance_first"]


def test_simulated_chances_agree_with_enumeration():
    # Ranks 2 and 3 of 3, one draw: the first has recall 1 with chance 1/2, the second never; ties share.
    curve = sampling_curve(
        {"a": [2], "b": [3]}, 3, n_sampled=[1], metric="recall@1", n_repeats=4000, replacement=False, rng=0
    )
    assert curve["chance_first"].tolist() == pytest.approx([0.75, 0.25], abs=4 * 0.25 / 4000**0.5)


@pytest.mark.parametrize("method", ["rank", "bv", "cls"])
def test_the_curve_takes_every_table(method):
    curve = sampling_curve(
        RANKS,
        N,
        n_sampled=[99],
        metric=find_metric("ap", sampled=method, prior="uniform"),
        n_repeats=10,
        rng=0,
    )
    assert np.isfinite(curve["expected"]).all()


def test_the_curve_refuses_what_it_cannot_do():
    with pytest.raises(InputError, match="is fitted to sampled ranks"):
        sampling_curve(RANKS, N, metric="recall@10~mle", rng=0)
    with pytest.raises(InputError, match="at least two recommenders"):
        sampling_curve({"A": [1]}, N, rng=0)


def test_the_study_compares_every_setting_with_full_ranking():
    world = random_world(2, n_users=60, n_items=60)
    rng = np.random.default_rng(1)
    relevant = np.zeros((world.split.n_users, world.split.n_items))
    relevant[world.split.test.user, world.split.test.item] = 1
    models = {
        name: relevant * signal + rng.normal(size=relevant.shape)
        for name, signal in (("strong", 2), ("weak", 1), ("none", 0))
    }
    study = sampling_study(
        models,
        world.split,
        n_sampled=[5, 20],
        distributions={"uniform": "uniform", "weights": np.arange(1.0, world.split.n_items + 1)},
        metrics=["recall@5"],
        methods=["none", "mle"],
        n_repeats=2,
        rng=0,
    )
    assert len(study.frame) == 3 * 2 * 2 * 2 * 2  # models, m, methods, distributions, repeats
    methods = study.frame.groupby("distribution")["method"].unique().map(list).to_dict()
    assert methods == {"uniform": ["none", "mle"], "weights": ["none", "importance"]}
    exact = full_ranking_value(rank_positives(models["weak"], world.split), find_metric("recall@5"))
    assert set(study.frame[study.frame["model"] == "weak"]["exact"]) == {exact}
    agreement = study.agreement
    assert len(agreement) == 8
    assert (agreement["n_repeats"] == 2).all()
    assert (agreement["or@1"] == 1).all()  # the recommenders are far apart
    assert (agreement["wrong_pairs"] == agreement["ipc"] / 3).all()


def test_what_to_draw_may_come_from_iterators():
    world = random_world(4)
    models = {"a": world.scores, "b": -world.scores}
    asked = {"n_sampled": iter([5]), "methods": iter(["none"]), "metrics": iter(["recall@5"])}
    assert len(sampling_study(models, world.split, **asked, n_repeats=1, rng=0).frame) == 2


def test_full_ranking_values_average_over_ties():
    world = random_world(4)
    flat = rank_positives(np.zeros_like(world.scores), world.split)
    n = flat.n_candidates.astype(float)
    recall = full_ranking_value(flat, find_metric("recall@5"))
    assert recall == pytest.approx((flat.sum_by_user(5 / n) / flat.counts).mean())
    assert full_ranking_value(flat, find_metric("auc")) == pytest.approx(0.5)


def test_the_study_needs_an_order():
    world = random_world(4)
    with pytest.raises(InputError, match="at least two recommenders"):
        sampling_study({"a": world.scores}, world.split, rng=0)
