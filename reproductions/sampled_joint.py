"""Sampling and missing-not-at-random data corrected together, in a simulated world with known truth.

    python -m reproductions.sampled_joint

prints the tables of docs/sampled.md: recall@10 and ndcg@10 (of one relevant item at a time) of six
recommenders by AOA and snips-global, uncorrected and corrected for sampling, against the truth; and the
bias of candidate pools that depend on what was observed. Two minutes.
"""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd

from ipseval.data.splits import Split
from ipseval.errors import DataWarning
from ipseval.evaluation import Evaluation, evaluate_ranks
from ipseval.metrics import metric as find_metric
from ipseval.ranking import SampledCandidates, rank_positives
from ipseval.validation.simulation import World

METRICS = {"recall@10": "recall@10", "ndcg@10": "mean_dcg@10"}  # label here -> the same in full ranking


def compare(
    world: World, *, n_sampled: int = 100, n_repeats: int = 10, method: str = "bv", rng: int = 0
) -> pd.DataFrame:
    """Return one row per repeat, model, metric, estimator and variant: estimate and truth.

    Each repeat observes a test log anew and draws candidates anew; the models stay.
    """
    base = world.split(rng=rng, test_scale=1.0)
    models = world.example_models(base, rng=rng)
    truth = world.truth(models, list(METRICS.values()), base).set_index(["model", "metric"])["ideal"]
    rows = []
    for repeat in range(n_repeats):
        split = base if repeat == 0 else _same_training(world, base, rng + repeat)
        candidates = SampledCandidates(n_sampled, rng=rng + repeat)
        ranks = {name: rank_positives(model, split, candidates=candidates) for name, model in models.items()}
        for label, full in METRICS.items():
            metrics = {
                "uncorrected": find_metric(label, sampled="none"),
                "corrected": find_metric(label, sampled=method),
            }
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DataWarning)
                evaluation = evaluate_ranks(
                    ranks,
                    propensity=world.propensity,
                    metrics=list(metrics.values()),
                    estimators=["aoa", "snips-global"],
                    low_ess="ignore",
                )
            for variant, metric in metrics.items():
                for (model, estimator), one in _estimates(evaluation, metric.label):
                    rows.append((repeat, model, label, estimator, variant, one, truth[model, full]))
    columns = ["repeat", "model", "metric", "estimator", "variant", "estimate", "truth"]
    return pd.DataFrame(rows, columns=columns)


def _estimates(evaluation: Evaluation, label: str) -> list[tuple[tuple[str, str], float]]:
    frame = evaluation.frame[evaluation.frame["metric"] == label]
    return [((row.model, row.estimator), row.estimate) for row in frame.itertuples()]


def _same_training(world: World, base: Split, rng: int) -> Split:
    """Return a split with the training log of `base` and a test log that is observed anew."""
    log = world.observe(rng)
    fresh = ~np.isin(log.pair_key, base.train.pair_key)
    return Split(base.train, log.select(fresh), description=base.description)


def summary(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the mean over repeats of the estimate by model, and the mean absolute error over models."""
    keys = ["metric", "estimator", "variant"]
    table = frame.pivot_table(index=keys, columns="model", values="estimate", sort=False)
    error = (
        (frame["estimate"] - frame["truth"]).abs().groupby([frame[key] for key in keys], sort=False).mean()
    )
    table["mean |error|"] = error
    truth = frame.groupby(["metric", "model"], sort=False)["truth"].first().unstack()
    truth.index = pd.MultiIndex.from_tuples([(metric, "truth", "") for metric in truth.index], names=keys)
    return pd.concat([table, truth])


def pools(*, n_sampled: int = 100, n_repeats: int = 10) -> pd.DataFrame:
    """Return the mean over models and repeats of estimate − truth (atop, snips-pooled), by candidate pool."""
    world = World(
        n_users=4000, n_items=400, mean_relevant=40, popularity_skew=0.9, gamma=0.3, max_propensity=0.9, rng=1
    )
    base = world.split(rng=0)
    models = world.example_models(base, rng=0)
    truth = world.truth(models, ["atop"], base).set_index("model")["ideal_pooled"]
    names = ("candidates", "unobserved", "unobserved+positives")
    rows = []
    for repeat in range(n_repeats):
        split = _same_training(world, base, repeat + 1)
        schemes = {"full catalogue": "all"}
        schemes |= {
            f"{n_sampled} of {one!r}": SampledCandidates(n_sampled, pool=one, rng=repeat) for one in names
        }
        errors = {}
        for name, candidates in schemes.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                ranks = {one: rank_positives(models[one], split, candidates=candidates) for one in models}
                evaluation = evaluate_ranks(
                    ranks,
                    propensity=world.propensity,
                    metrics=["atop"],
                    estimators=["snips-pooled"],
                    low_ess="ignore",
                )
            errors[name] = (evaluation.frame.set_index("model")["estimate"] - truth).mean()
        full = errors["full catalogue"]
        rows += [
            {"pool": name, "bias": error, "against the full catalogue": error - full}
            for name, error in errors.items()
        ]
    return pd.DataFrame(rows).groupby("pool", sort=False).agg(["mean", "sem"])


def main() -> None:
    print(f"bias by candidate pool:\n{pools().round(4).to_string()}\n")
    world = World(n_users=4000, n_items=3000, mean_relevant=40, popularity_skew=0.9, gamma=0.3, rng=1)
    for method in ("bv", "mle"):
        print(f"corrected by {method}, m = 100 of {world.n_items}:\n")
        print(summary(compare(world, method=method)).round(4).to_string(), "\n")


if __name__ == "__main__":
    main()
