"""Five baselines on real logs: no estimate is missing."""

from __future__ import annotations

import warnings

import pytest

import ipseval
from ipseval.ranking import baselines
from ipseval.validation import datasets
from reproductions.data import load_citeulike_a

METRICS = ["auc", "atop", "recall@5", "mean_dcg", "mean_dcg@5", "ndcg@10", "ap@10", "precision@10"]
ESTIMATORS = ["aoa", "snips", "snips-global", "aoa-pooled", "snips-pooled"]


def evaluated(log: ipseval.Interactions) -> ipseval.Evaluation:
    split = ipseval.split_random(log, test_fraction=0.2, rng=0)
    models = {name: fit(split.train) for name, fit in baselines.BASELINES.items()}
    return ipseval.evaluate(
        models,
        split,
        propensity=ipseval.PowerLawPropensity(gamma=1.69),
        metrics=METRICS,
        estimators=ESTIMATORS,
    )


def check(result: ipseval.Evaluation) -> None:
    frame = result.frame
    assert len(frame) == 5 * len(METRICS) * len(ESTIMATORS)
    assert not frame.isna().any(axis=None)
    assert (frame["std_error"] > 0).all()
    assert frame["estimate"].between(0, 1.2).all()
    best = frame[frame["estimator"] == "aoa"].pivot(index="metric", columns="model", values="estimate")
    assert (best["ease"] > best["random"]).all()


@pytest.fixture(name="coat", scope="module")
def coat_fixture(shared_data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return evaluated(datasets.load_coat(shared_data("coat")).positives(threshold=4).biased)


def test_five_baselines_on_coat_give_a_frame_without_a_gap(coat):
    check(coat)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_five_baselines_on_citeulike_give_a_frame_without_a_gap(shared_data):
    check(evaluated(load_citeulike_a(shared_data("citeulike-a"))))
