"""Groups of slates: a query belongs to its user, whose queries are added up before errors are taken."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.evaluation.segments import TrainingCounts

N_USERS, N_ITEMS = 40, 25
METRICS = ["ndcg@5", "dcg@5", "hit@2", "auc"]
SIGN = {"one": 1, "two": -1}
ESTIMATORS = ["aoa", "snips", "snips-global", "snips-pooled"]
DEVICE = {f"u{number}": ["app", "tv", "web"][number % 3] for number in range(N_USERS)}
pytestmark = pytest.mark.filterwarnings("ignore:the median")


def slates(seed=0):
    """Users of one to five queries of 3 to 9 items, with propensities; some queries without a positive."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(N_USERS):
        for query in range(rng.integers(1, 6)):
            items = rng.choice(N_ITEMS, rng.integers(3, 10), replace=False)
            rows += [(f"u{user}", f"u{user}q{query}", item, int(rng.random() < 0.3)) for item in items]
    frame = pd.DataFrame(rows, columns=["user", "query", "item", "label"])
    chance = np.linspace(0.1, 1, N_ITEMS)
    return frame.assign(
        propensity=chance[frame["item"]], one=rng.normal(size=len(frame)), two=rng.normal(size=len(frame))
    )


def evaluated(frame, **options):
    request = {"metrics": METRICS, "estimators": ESTIMATORS, "low_ess": "ignore", **options}
    return ipseval.evaluate_slates({"one": "one", "two": "two"}, frame, **request)


def test_a_group_of_users_has_the_estimate_and_error_of_its_queries_alone():
    frame = slates()
    segments = evaluated(frame).by(ipseval.evaluation.segments.user_groups(DEVICE, name="device"))
    rows = segments.frame.set_index(["model", "metric", "estimator", "group"])
    leads = segments.differences().set_index(["metric", "estimator", "group"])
    evaluation = evaluated(frame[frame["user"].map(DEVICE) == "tv"])
    expected = evaluation.frame.set_index(["model", "metric", "estimator"])
    here = rows.xs("tv", level="group").reindex(expected.index)
    numbers = ["estimate", "std_error"]
    np.testing.assert_allclose(here[numbers], expected[numbers], rtol=0, atol=1e-12)
    # Users with queries of positives alone have no pairs to win, and no weight in that of pairs.
    is_equal = (here["n_users"] == expected["n_users"]).groupby(level=["metric", "estimator"]).all()
    assert is_equal.drop(("auc", "snips-pooled")).all()
    expected = evaluation.compare().set_index(["metric", "estimator"])
    here, sign = leads.xs("tv", level="group").reindex(expected.index), expected["model"].map(SIGN)
    np.testing.assert_allclose(here["difference"] * sign, expected["difference"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(here["std_error"], expected["std_error"], rtol=1e-9)


def test_parts_of_users_and_items_sum_to_the_need_samples():
    metrics, estimators = ["ndcg@5", "recall@3", "dcg@5"], ESTIMATORS
    kind = ipseval.evaluation.segments.item_groups(lambda ids: np.where(ids % 4 == 0, "a", "b"), name="kind")
    evaluation = evaluated(slates(1), metrics=metrics, estimators=estimators)
    for by in (ipseval.evaluation.segments.user_groups(DEVICE, name="device"), kind):
        segments = evaluation.by(by)
        for (metric, estimator), cell in segments.cells.items():
            expected = [evaluation.estimate(model, metric, estimator).value for model in segments.models]
            np.testing.assert_allclose(np.nansum(cell.part, axis=1), expected, rtol=0, atol=1e-12)
            np.testing.assert_allclose(np.nansum(cell.share, axis=1), 1, rtol=0, atol=1e-12)


def test_errors_of_groups_of_items_are_those_of_users_not_of_queries():
    frame = slates(1)
    evaluation = evaluated(frame, metrics=["recall@3", "hit@2"], estimators=["snips-global"])
    kind = ipseval.evaluation.segments.item_groups(lambda ids: np.where(ids % 4 == 0, "a", "b"), name="kind")
    rows = evaluation.by(kind).frame.set_index(["model", "metric", "group"])
    sample = evaluation.samples["one"]
    ranked = sample.ranked
    parts = evaluation.definitions[1][0].parts(sample, evaluation.definitions[0][0])
    user = ranked.cluster[ranked.user]
    users = np.unique(user)
    rare = ranked.item_ids[ranked.item] % 4 == 0
    for group, is_member in (("a", rare), ("b", ~rare)):
        top = np.bincount(user, parts.weight * parts.value * is_member, N_USERS)[users]
        low = np.bincount(user, parts.weight * is_member, N_USERS)[users]
        ratio = top.sum() / low.sum()
        psi = (top - ratio * low) / low.mean()
        error = np.sqrt((psi**2).sum() / (users.size * (users.size - 1)))
        assert rows.loc[("one", "recall@3", group), "estimate"] == pytest.approx(ratio, abs=1e-12)
        assert rows.loc[("one", "recall@3", group), "std_error"] == pytest.approx(error, rel=1e-10)
    # hit is no sum over positives: it is of those of the group alone.
    options = {"metrics": ["hit@2"], "estimators": ["aoa"], "low_ess": "ignore"}
    expected = ipseval.evaluate_ranks({"m": ranked.select(rare)}, **options).frame["estimate"].item()
    hits = evaluated(frame, **options).by(kind).frame.set_index(["model", "group"])
    assert hits.loc[("one", "a"), "estimate"] == pytest.approx(expected, abs=1e-12)


def test_what_is_undefined_is_counted_in_queries_and_counts_must_fit():
    frame = slates(2)
    device = ipseval.evaluation.segments.user_groups(DEVICE, name="device")
    segments = evaluated(frame, metrics=["auc"], estimators=["aoa"]).by(device)
    of_query = frame.groupby("query").agg(user=("user", "first"), mean=("label", "mean"))
    only_positives = of_query[of_query["mean"] == 1]["user"].map(DEVICE).value_counts()
    rows = segments.frame.query("model == 'one'").set_index("group")
    for group, n in only_positives.items():
        assert f"{n} quer" in rows.loc[group, "note"]
    evaluation = evaluated(frame, metrics=["rr"], estimators=["aoa"])
    with pytest.raises(ipseval.InputError, match="need the training counts, which ranks alone do not have"):
        evaluation.by("popularity")
    wrong = TrainingCounts(np.arange(3), np.arange(N_USERS))
    with pytest.raises(ipseval.InputError, match=r"training counts of the 25 items .* got 3"):
        evaluation.by("popularity", counts=wrong)
    right = TrainingCounts(np.arange(N_ITEMS), np.arange(N_USERS))
    assert len(evaluation.by("popularity:5", counts=right).labels) == 5
    assert len(evaluation.by("activity:4", counts=right).labels) == 4


def test_a_decomposition_of_slates_is_exact():
    evaluation = evaluated(slates(3), metrics=["recall@3"], estimators=["aoa", "snips-global"])
    value = evaluation.frame.set_index(["model", "estimator"])["estimate"]
    totals = evaluation.decomposition(
        by=ipseval.evaluation.segments.user_groups(DEVICE, name="device")
    ).totals.set_index("model")
    for model in ("one", "two"):
        gap = value[model, "snips-global"] - value[model, "aoa"]
        assert totals.loc[model, ["moved", "within"]].sum() == pytest.approx(gap, abs=1e-12)
