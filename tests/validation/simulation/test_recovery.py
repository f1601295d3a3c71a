"""Where the propensity is right, self-normalised estimates with one normaliser recover the truth."""

import numpy as np
import pytest

from ipseval.data.splits import Split
from ipseval.errors import DataWarning, PositivityWarning
from ipseval.evaluation import evaluate_ranks
from ipseval.ranking import rank_positives
from ipseval.validation.simulation import World

METRICS = ("recall@5", "recall@10", "recall@50", "mean_dcg", "mean_dcg@5", "atop")
BASELINE = {"snips": "aoa", "snips-global": "aoa", "snips-pooled": "aoa-pooled"}
pytestmark = pytest.mark.filterwarnings(
    f"ignore::{DataWarning.__module__}.DataWarning",
    f"ignore::{PositivityWarning.__module__}.PositivityWarning",
)


def bias_left(world, propensity, n_logs, *names):
    """Share of the plain average's |bias|, summed over models (or some), that is left, per metric.

    The mean over `n_logs` test logs given one training log is compared with the exact truth, so what is left
    is bias and little noise.
    """
    split = world.split(100)
    models = world.example_models(split, rng=0)
    models = {name: models[name] for name in names or models}
    truth = world.truth(models, METRICS, split).set_index(["model", "metric"])
    remaining = world.relevant.select(~np.isin(world.relevant.pair_key, split.train.pair_key))
    ranks = {name: rank_positives(model, Split(split.train, remaining)) for name, model in models.items()}
    first = next(iter(ranks.values()))
    chance = world.propensity.for_pairs(first.user, first.item)
    rng = np.random.default_rng(0)
    estimators = [*BASELINE, "aoa", "aoa-pooled"]
    total = 0.0
    for _ in range(n_logs):
        seen = rng.random(chance.size) < chance
        frame = evaluate_ranks(
            {name: ranked.select(seen) for name, ranked in ranks.items()},
            propensity=propensity,
            metrics=METRICS,
            estimators=estimators,
        ).frame
        total = total + frame.set_index(["estimator", "metric", "model"])["estimate"] / n_logs
    target = [
        truth.loc[(model, metric), "ideal_pooled" if "pooled" in estimator else "ideal"]
        for estimator, metric, model in total.index
    ]
    bias = (total - np.array(target)).abs().groupby(["estimator", "metric"]).sum().unstack()
    return {name: (bias.loc[name] / bias.loc[plain]).max() for name, plain in BASELINE.items()}


def test_known_propensities_remove_nine_tenths_of_the_bias_of_every_mean_metric():
    world = World(n_users=300, n_items=200, mean_relevant=40, rng=1)
    bias = bias_left(world, world.propensity, 3, "popular", "noisy", "niche")
    assert bias["snips-global"] < 0.1
    assert bias["snips-pooled"] < 0.1
    # Per-user snips keeps a bias of order 1/|S*_u| with the same, true weights.
    assert bias["snips"] > 0.3


@pytest.mark.slow
def test_known_propensities_leave_at_most_three_percent_of_the_bias_over_many_logs():
    world = World(n_users=3000, n_items=800, mean_relevant=40, rng=1)
    bias = bias_left(world, world.propensity, n_logs=40)
    assert bias["snips-global"] < 0.03
    assert bias["snips-pooled"] < 0.03


@pytest.mark.slow
def test_true_item_weights_leave_bias_where_selection_is_personal():
    world = World(n_users=5000, n_items=1000, mean_relevant=60, selection=2.0, rng=3)
    item = type(world.propensity)(world.item_propensity, True, "item part", 1000)
    bias = bias_left(world, item, n_logs=20)
    assert bias["snips-global"] > 0.1
    assert bias["snips-pooled"] > 0.1
    pair = bias_left(world, world.propensity, n_logs=20)
    assert pair["snips-pooled"] < 0.03
