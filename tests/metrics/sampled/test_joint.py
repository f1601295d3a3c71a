"""Propensity weights together with the correction of sampled ranks."""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from ipseval.metrics import metric as find_metric
from ipseval.metrics.sampled import correct_sampled
from ipseval.ranking import SampledCandidates, rank_positives
from ipseval.validation.simulation import World

FULL = {"recall@10": "recall@10", "ndcg@10": "mean_dcg@10"}  # ndcg of one relevant item is its mean_dcg


@pytest.fixture(scope="module")
def world():
    return World(n_users=300, n_items=400, mean_relevant=40, popularity_skew=0.9, gamma=0.3, rng=1)


@pytest.fixture(scope="module")
def split(world):
    return world.split(rng=0)


@pytest.fixture(scope="module")
def models(world, split):
    example_models = world.example_models(split, rng=0)
    return {name: example_models[name] for name in ("taste", "niche", "random")}


@pytest.fixture(scope="module")
def ranked(models, split):
    candidates = SampledCandidates(50, rng=0)
    return {name: rank_positives(model, split, candidates=candidates) for name, model in models.items()}


@pytest.fixture(scope="module")
def truth(world, models, split):
    values = world.truth(models, [*FULL.values(), "atop"], split)
    return values.set_index(["metric", "model"])["ideal"]


def errors(world, ranked, truth, metric, method):
    """Return the mean |estimate − truth| over models by (estimator, corrected or not)."""
    evaluation = ipseval.evaluate_ranks(
        ranked,
        propensity=world.propensity,
        metrics=[find_metric(metric, sampled="none"), find_metric(metric, sampled=method)],
        estimators=["aoa", "snips-global"],
        low_ess="ignore",
    )
    frame = evaluation.frame
    frame["error"] = (frame["estimate"] - frame["model"].map(truth[FULL[metric]])).abs()
    return frame.groupby(["estimator", "metric"])["error"].mean()


@pytest.mark.filterwarnings("ignore:.*correction is fitted to the sampled ranks:ipseval.errors.DataWarning")
@pytest.mark.parametrize(
    ("metric", "method"),
    [
        ("ndcg@10", "bv"),
        ("recall@10", "mle"),
        pytest.param("ndcg@10", "mle", marks=pytest.mark.slow),
        pytest.param("recall@10", "bv", marks=pytest.mark.slow),
    ],
)
def test_the_jointly_corrected_estimate_is_nearest_to_the_truth(world, ranked, truth, metric, method):
    error = errors(world, ranked, truth, metric, method)
    joint = error.pop(("snips-global", f"{metric}~{method}"))
    assert joint < 0.15 * error.min()


def test_the_weighted_estimate_covers_the_truth_with_its_own_standard_error(world, ranked, truth):
    weights = 1 / world.propensity.item
    for name, model_ranks in ranked.items():
        result = correct_sampled(model_ranks, metric="atop", method="rank", weights=weights[model_ranks.item])
        assert np.isfinite(result.standard_error)
        assert abs(result.estimate - truth["atop", name]) < 4 * result.standard_error
