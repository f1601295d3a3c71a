"""Every metric stays in its range under every candidate scheme."""

from __future__ import annotations

import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ipseval
from ipseval import SampledCandidates
from ipseval.metrics import metric
from tests.metric_labels import metric_labels

LABELS = metric_labels(2)
POOLS = ("candidates", "unobserved", "unobserved+positives")


@st.composite
def schemes(draw):
    """Return a candidate scheme: all items, some, lists of candidates, or any way to draw some."""
    kind = draw(st.sampled_from(["all", "allowed", "listed", "drawn", "drawn", "drawn"]))
    if kind != "drawn":
        return kind
    return SampledCandidates(
        draw(st.integers(1, 7)),  # up to all that no positive is among
        distribution=draw(st.sampled_from(["uniform", np.arange(1.0, 13)])),
        per=draw(st.sampled_from(["user", "user", "positive"])),
        replacement=draw(st.booleans()),
        pool=draw(st.sampled_from(POOLS)),
        rng=draw(st.integers(0, 99)),
    )


def world(seed: int):
    """Return a split of 4 users and 12 items, scores with ties, and P of every item."""
    rng = np.random.default_rng(seed)
    items = np.array([rng.permutation(12)[:5] for _ in range(4)])
    train_users, test_users = (np.repeat(np.arange(4), n) for n in (1, 4))
    logs = (train_users, items[:, 0]), (test_users, items[:, 1:].ravel())
    split = ipseval.Split(*(ipseval.Interactions(*columns, np.arange(4), np.arange(12)) for columns in logs))
    return split, rng.integers(0, 5, (4, 12)).astype(float), rng.uniform(0.05, 1, 12)


@given(schemes(), st.integers(0, 10_000))
def test_every_metric_stays_in_its_range_under_every_candidate_scheme(scheme, seed):
    split, scores, propensity = world(seed)
    options = {"candidates": scheme}
    if scheme == "allowed":
        options = {"candidates": np.arange(12) % 4 > 0}
    if scheme == "listed":
        pairs = [(u, i) for u in range(4) for i in range(12) if (u + i) % 3]
        options = {"candidates": pd.DataFrame(pairs, columns=["user", "item"])}
    per_positive = getattr(scheme, "per", "user") == "positive"
    # Known up to a factor: with probabilities, auc and ap count pairs, whose ratio may leave [0, 1].
    fitted = ipseval.KnownPropensity(item=propensity, is_probability=False).fit(split)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = [label for label in LABELS if not per_positive or metric(label).reads_one_rank]
        frame = ipseval.evaluate(
            {"m": scores}, split, propensity=fitted, metrics=labels, low_ess="ignore", missing_lists="drop",
            estimators=["aoa", "snips", "snips-global", "snips-pooled"], **options,
        ).frame  # fmt: skip
        ranges = {label: metric(label).value_range for label in frame["metric"].unique()}
        low, high = np.array([ranges[label] for label in frame["metric"]]).T
        inside = frame["estimate"].between(low - 1e-12, high + 1e-12) | frame["estimate"].isna()
        outside = frame.loc[~inside, ["metric", "estimator", "estimate"]]
        assert inside.all(), f"outside value_range:\n{outside.to_string()}"


def test_means_over_positives_and_auc_do_not_read_the_other_positives():
    labels = ("recall@5", "mean_dcg@5", "atop", "auc", "ap", "ndcg@5", "rr", "hit@5", "dcg@5")
    assert [label for label in labels if metric(label).reads_one_rank] == [
        "recall@5",
        "mean_dcg@5",
        "atop",
        "auc",
    ]


AUC = {"metrics": ["auc"], "estimators": ["aoa", "snips", "snips-global", "snips-pooled"]}


def estimates(ranked, split, propensity):
    """Return the AUC of ranks under known propensities by every kind of average."""
    known = ipseval.KnownPropensity(item=propensity).fit(split)
    evaluation = ipseval.evaluate_ranks({"m": ranked}, propensity=known, low_ess="ignore", **AUC)
    return evaluation.frame["estimate"].tolist()


@cache
def of_the_whole_ranking():
    split, scores, propensity = world(1)
    return estimates(ipseval.rank_positives(scores, split), split, propensity)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("per", ["user", "positive"])
@pytest.mark.parametrize("pool", POOLS)
def test_auc_compares_each_positive_with_the_drawn_non_positives(pool, per):
    split, scores, propensity = world(1)

    def rank_drawn(m, replacement=False, rng=0):
        candidates = SampledCandidates(m, per=per, pool=pool, replacement=replacement, rng=rng)
        return ipseval.rank_positives(scores, split, candidates=candidates)

    # Where all that can be drawn is drawn, the values are those of the whole ranking.
    all_drawn = estimates(rank_drawn(10 if pool == "candidates" else 7), split, propensity)
    assert all_drawn == pytest.approx(of_the_whole_ranking(), abs=1e-12)
    # Of a part, each positive is compared with its own draws, whatever the others have drawn.
    for seed in range(3):
        ranked = rank_drawn(6, True, seed)
        n_above = ranked.n_above.astype(float)
        n_tied = ranked.n_tied.astype(float)
        size = np.full(len(ranked), 6.0)
        negatives_above = n_above
        order = ranked.sampling.order
        user = ranked.user
        level = order[:, None] - order
        pairs = (user[:, None] == user) & ~np.eye(len(ranked), dtype=bool)
        if pool == "candidates":
            pairs = pairs * 0
            np.add.at(pairs, tuple(ranked.sampling.drawn_pairs.T), 1)
            size -= pairs.sum(axis=1)
        if pool != "unobserved":
            negatives_above = n_above - (pairs * (level > 0)).sum(axis=1)
            n_tied = n_tied - (pairs * (level == 0)).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            expected = 1 - (negatives_above + n_tied / 2) / size
        np.testing.assert_allclose(metric("auc").contributions(ranked), expected, atol=1e-12)


@pytest.mark.parametrize("label", ["ndcg@10", "rr@10"])
def test_metrics_of_lists_are_refused_where_each_positive_has_a_list_of_its_own(label):
    split, scores, _ = world(0)
    candidates = SampledCandidates(3, per="positive", rng=0)
    calls = []

    def model(users):
        calls.append(users)
        return scores[users]

    with pytest.raises(ipseval.InputError, match="Take per='user', or metrics of single positives"):
        ipseval.evaluate({"m": model}, split, metrics=[label], candidates=candidates)
    assert not calls  # refused before anything is ranked
    ranked = ipseval.rank_positives(scores, split, candidates=candidates)
    with pytest.raises(ipseval.InputError, match="Take per='user'"):
        ipseval.evaluate_ranks({"m": ranked}, metrics=[label])


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize(
    ("pool", "replacement"), [("candidates", True), ("candidates", False), ("unobserved", True)]
)
def test_the_positives_of_a_user_and_their_draws_form_one_list(pool, replacement):
    """Three positives above every other item: they stand at 1, 2 and 3, whoever was drawn, and all is 1."""
    train = pd.DataFrame({"user": [0], "item": [9]})
    test = pd.DataFrame({"user": [0, 0, 0], "item": [0, 1, 2]})
    split = ipseval.Split.from_frames(train, test, users=[0], items=range(10))
    scores = np.array([[9.0, 8, 7, 1, 1, 1, 1, 1, 1, 1]])
    for seed in range(3):
        candidates = SampledCandidates(4, pool=pool, replacement=replacement, rng=seed)
        frame = ipseval.evaluate(
            {"m": scores},
            split,
            metrics=["ndcg@3", "ap", "precision@3"],
            estimators=["aoa"],
            candidates=candidates,
        ).frame
        assert frame["estimate"].tolist() == pytest.approx([1.0, 1.0, 1.0])
        # Below all four draws that are no positives, only the places behind them are left.
        ranked = ipseval.rank_positives(-scores, split, candidates=candidates)
        n_negatives = ranked.in_one_list.n_candidates - 3
        order = ranked.in_one_list.n_above - n_negatives
        assert order.tolist() == [2, 1, 0]


def test_a_number_of_candidates_names_the_scheme():
    split, scores, _ = world(0)
    with pytest.raises(ipseval.InputError, match=r"SampledCandidates\(100, rng=0\)"):
        ipseval.evaluate({"m": scores}, split, candidates=100)
