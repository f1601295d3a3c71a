"""The bootstrap that fits the propensity again in every resample."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.estimators import Sample
from ipseval.metrics import metric
from ipseval.propensity import PowerLawPropensity, Propensity
from tests.inference.worlds import random_ranks, ranked
from tests.inside.estimators import estimate, resolve_estimator
from tests.inside.inference import blocks, bootstrap_refit, draw_counts

METRICS = ("auc", "recall@10", "dcg@10", "ndcg@10")
ESTIMATORS = ("aoa", "snips", "snips-global", "snips-pooled", "ips")


def world(seed: int, n_users: int = 30, n_items: int = 12):
    """Return a training log with rare items, which resamples lose, and ranked positives."""
    rng = np.random.default_rng(seed)
    appeal = rng.random(n_items) ** 3
    appeal[:2] = 0.03
    train = np.argwhere(rng.random((n_users, n_items)) < appeal)
    train = train if (train[:, 1] == 0).any() else np.vstack([train, [0, 0]])
    log = ipseval.Interactions.from_frame(
        pd.DataFrame(train, columns=["user", "item"]), users=np.arange(n_users), items=np.arange(n_items)
    )
    user, item = np.nonzero(rng.random((n_users, n_items)) < 0.25)
    keep = log.popularity[item] > 0
    ranks = {
        name: ranked(
            user[keep],
            item[keep],
            rng.integers(0, n_items - 6, keep.sum()),
            n_users=n_users,
            n_items=n_items,
        )
        for name in ("a", "b")
    }
    return log, ranks


def make_samples(ranks, propensity):
    relevant = np.full(next(iter(ranks.values())).n_population, 10.0)
    return {
        name: Sample(
            positives,
            propensity.for_pairs(positives.user, positives.item),
            True,
            n_relevant=relevant,
            n_relevant_kind="known",
        )
        for name, positives in ranks.items()
    }


def repeat_users(positives, propensity: Propensity, counts: np.ndarray) -> Sample:
    """Return the sample in which each user is repeated as often as it was drawn."""
    is_undefined = np.isnan(propensity.for_pairs(positives.user, positives.item))
    missing = np.bincount(positives.user[is_undefined], minlength=counts.size)
    # A positive without a propensity is no candidate of its user either.
    n_above = positives.n_above - [
        int((is_undefined & (positives.user == u) & (positives.n_above < r)).sum())
        for u, r in zip(positives.user, positives.n_above, strict=True)
    ]
    values = propensity.for_pairs(positives.user, positives.item)
    copies = np.repeat(np.arange(counts.size), counts)
    rows = []
    users = []
    for new, old in enumerate(copies):
        mine = np.flatnonzero((positives.user == old) & ~np.isnan(values))
        rows.append(mine)
        users.append(np.full(mine.size, new))
    rows = np.concatenate(rows)
    users = np.concatenate(users)
    repeated_positives = ranked(
        users, positives.item[rows], n_above[rows], n_users=copies.size, n_items=positives.item_ids.size
    )
    repeated_positives = replace(
        repeated_positives, n_candidates=positives.n_candidates[rows] - missing[positives.user[rows]]
    )
    relevant = 10.0 - missing[copies]
    return Sample(repeated_positives, values[rows], True, n_relevant=relevant, n_relevant_kind="known")


@pytest.mark.parametrize(("seed", "metrics"), [(0, METRICS), (1, METRICS[1:3])])
def test_replicates_equal_evaluations_of_logs_in_which_users_are_repeated(seed, metrics):
    log, ranks = world(seed)
    rule = PowerLawPropensity(gamma=0, scale="max", unseen="drop").refit(
        log, lambda popularity, _: 0.5 * popularity.max() / popularity.sum()
    )
    requested_metrics = [metric(name) for name in metrics if name != "auc"] + [
        metric(name) for name in metrics if name == "auc"
    ]
    # The unbiased auc needs the candidates of users without positives, which this world does not hold.
    estimators = [resolve_estimator(name) for name in ESTIMATORS if name != "ips" or "auc" not in metrics]
    samples = make_samples(ranks, rule(np.ones(log.n_users, dtype=int)))
    result = bootstrap_refit(samples, requested_metrics, estimators, refit=rule, n_resamples=5, rng=5)
    seed_words = np.random.default_rng(5).integers(2**63, size=2).tolist()
    all_counts = np.concatenate([draw_counts(30, size, seed_words, n) for n, size in blocks(5, 30)]).astype(
        int
    )
    n_undefined = 0
    for row, counts in enumerate(all_counts):
        propensity = rule(counts)
        n_undefined += bool(np.isnan(propensity.for_pairs(ranks["a"].user, ranks["a"].item)).any())
        samples_of_resample = {
            name: repeat_users(positives, propensity, counts) for name, positives in ranks.items()
        }
        for column, (name, label, estimator) in enumerate(result.keys):
            value = estimate(samples_of_resample[name], metric(label), resolve_estimator(estimator)).value
            assert result.replicates[row, column] == pytest.approx(value, rel=1e-10)
    assert n_undefined > 0


def test_the_popularity_of_a_resample_counts_each_user_as_often_as_drawn():
    log = ipseval.Interactions.from_frame(
        pd.DataFrame({"user": [0, 0, 1, 2], "item": [0, 1, 1, 2]}), users=range(3), items=range(3)
    )
    seen = []
    rule = PowerLawPropensity(eta=1, unseen="drop").refit(
        log, lambda popularity, counts: seen.append((popularity, counts)) or 1.0
    )
    propensity = rule(np.array([2, 1, 0]))
    assert seen[0][0].tolist() == [2, 3, 0]
    assert propensity.popularity.tolist() == [2, 3, 0]
    assert np.isnan(propensity.item[2])


def test_gamma_above_one_in_a_resample_does_not_warn_again():
    log, _ = world(0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert (
            PowerLawPropensity(gamma=2.0, unseen="drop").refit(log)(np.ones(log.n_users, dtype=int)).gamma
            == 2.0
        )


@pytest.mark.parametrize(
    ("result", "interval", "words"),
    [
        (np.ones(40), "percentile", "what refit returns must be Propensity; got ndarray"),
        (Propensity(np.ones(3), True, "x", 3), "percentile", "covers 3 items, the split has 40"),
        (Propensity(np.ones(40), True, "x", 40), "bca", "use 'percentile' or 'normal'"),
    ],
)
def test_the_result_of_refit_and_the_interval_method_are_checked(result, interval, words):
    ranks, popularity = random_ranks(0, models=1)
    propensity = ipseval.PowerLawPropensity(gamma=0.5, unseen="drop").fit(popularity=popularity)
    evaluation = ipseval.evaluate_ranks(ranks, propensity=propensity, metrics=("atop",), low_ess="ignore")
    with pytest.raises(InputError, match=words):
        evaluation.with_intervals(interval, refit=lambda _: result, n_resamples=5)
