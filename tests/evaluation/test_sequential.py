"""Next-item evaluation at every step: a plain loop over events, and what the result says of them."""

from __future__ import annotations

import math
import time

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.evaluation import evaluate_sequential
from ipseval.evaluation.sequential import count_true

N_USERS, N_ITEMS, LENGTH = 12, 15, 9
START = 500
EMBEDDING = np.random.default_rng(1).normal(size=(N_ITEMS, 4)).round(1)


def make_frame(seed: int, *, repeats: bool = False) -> pd.DataFrame:
    """Return events of users at distinct times, in a random order of rows."""
    rng = np.random.default_rng(seed)
    rows = []
    for user in range(N_USERS):
        items = rng.choice(N_ITEMS, LENGTH, replace=repeats)
        times = np.sort(rng.choice(1000, LENGTH, replace=False))
        rows.append(pd.DataFrame({"user": user, "item": items, "time": times}))
    return pd.concat(rows).sample(frac=1, random_state=seed).reset_index(drop=True)


def make_log(frame: pd.DataFrame) -> ipseval.Interactions:
    return ipseval.Interactions.from_frame(
        frame, timestamp="time", users=np.arange(N_USERS), items=np.arange(N_ITEMS), duplicates="keep"
    )


def score(user: int, history: np.ndarray, when: int) -> np.ndarray:
    """Return scores with ties from the last two items of the history."""
    return np.floor(EMBEDDING @ EMBEDDING[history[-2:]].sum(axis=0) + user / 10 + when % 3)


def compute_by_loop(frame: pd.DataFrame, k: int, available: dict | None, seen: str) -> dict:
    """Return (number of events, recall@k, mean_dcg@k, standard error of recall@k) by loops over events."""
    hits = {}
    gains = []
    for user, rows in frame.sort_values("time").groupby("user"):
        items = rows["item"].tolist()
        times = rows["time"].tolist()
        for position in range(len(items)):
            if times[position] < START:
                continue
            history = items[:position]
            target = items[position]
            if seen == "exclude" and target in history:
                continue
            scores = score(user, np.array(history, dtype=int), times[position])
            n_above = 0
            n_tied = 0
            for item in range(N_ITEMS):
                if seen == "exclude" and item in history:
                    continue
                if available is not None and available.get(item, -1) > times[position]:
                    continue
                n_above += scores[item] > scores[target]
                n_tied += item != target and scores[item] == scores[target]
            ranks = [n_above + 1 + shift for shift in range(n_tied + 1)]
            hits.setdefault(user, []).append(sum(rank <= k for rank in ranks) / len(ranks))
            gains.append(sum((rank <= k) / math.log2(1 + rank) for rank in ranks) / len(ranks))
    n_events = sum(len(values) for values in hits.values())
    recall = sum(sum(values) for values in hits.values()) / n_events
    squares = sum((sum(values) - recall * len(values)) ** 2 for values in hits.values())
    n_users = len(hits)
    error = math.sqrt(n_users / (n_users - 1) * squares) / n_events
    return {"n": n_events, "recall": recall, "dcg": sum(gains) / n_events, "error": error, "users": n_users}


@pytest.mark.parametrize("seen", ["exclude", "include"])
@pytest.mark.parametrize("has_table", [False, True])
@pytest.mark.parametrize("repeats", [False, True])
def test_values_and_errors_equal_a_loop_over_events(seen, has_table, repeats):
    for seed in range(5):
        frame = make_frame(seed, repeats=repeats)
        available = None
        if has_table:
            available = frame.groupby("item")["time"].min().to_dict()
        options = {"seen": seen, "available_from": available}
        evaluation = evaluate_sequential(
            {"m": score}, make_log(frame), START, metrics=["recall@3", "mean_dcg@3"], **options
        )
        expected = compute_by_loop(frame, 3, available, seen)
        table = evaluation.frame.set_index("metric")
        assert table["estimate"].tolist() == pytest.approx([expected["recall"], expected["dcg"]], abs=1e-12)
        assert table.loc["recall@3", "std_error"] == pytest.approx(expected["error"], abs=1e-12)
        assert table["n_positives"].tolist() == [expected["n"]] * 2
        assert table["n_users"].tolist() == [expected["users"]] * 2
        ranks = evaluation.ranks["m"]
        assert len(ranks) + ranks.n_not_candidates == (frame["time"] >= START).sum()
        assert ("available at the time" in ranks.candidates) == has_table
        assert ("also items that first appear later" in ranks.candidates) != has_table


def history_of(frame: pd.DataFrame, event: int) -> np.ndarray:
    """Return the items of the user of a row before it."""
    rows = frame[frame["user"] == frame["user"][event]].sort_values("time")
    return rows.loc[rows["time"] < frame["time"][event], "item"].to_numpy()


def test_factors_and_lists_of_events_give_the_ranks_of_a_scorer():
    frame = make_frame(7)
    is_target = (frame["time"] >= START).to_numpy()
    events = np.flatnonzero(is_target)
    event_factors = np.array([EMBEDDING[history_of(frame, event)[-2:]].sum(axis=0) for event in events])
    event_factors += 1e-3 * np.random.default_rng(0).normal(size=event_factors.shape)  # no ties
    rows = {}
    lists = []
    for event, factors in zip(events, event_factors, strict=True):
        rows[int(frame["user"][event]), int(frame["time"][event])] = factors
        scores = EMBEDDING @ factors
        scores[history_of(frame, event)] = -np.inf
        lists.append(np.argsort(-scores)[:6].tolist())

    def scorer(user, history, when):
        return EMBEDDING @ rows[user, int(when)]

    models = {
        "scorer": scorer,
        "factors": (event_factors, EMBEDDING),
        "lists": lists,
        "array": np.array(lists),
    }
    table = evaluate_sequential(models, make_log(frame), is_target, metrics=["recall@6", "mean_dcg@3"]).frame
    for _, group in table.groupby("metric"):
        assert group["estimate"].nunique() == 1
        assert group["std_error"].nunique() == 1


def test_weights_comparisons_and_intervals_come_with_the_result():
    log = make_log(make_frame(8))
    train = log.select(log.timestamp < START)
    models = {"last two": score, "nothing": lambda user, history, when: np.zeros(N_ITEMS)}
    evaluation = evaluate_sequential(
        models,
        log,
        START,
        propensity="power-law:gamma=0,unseen=smooth",
        metrics=["recall@3"],
        interval="bca",
        rng=0,
    )
    table = evaluation.frame.set_index(["model", "estimator"])
    candidates = evaluation.ranks["nothing"].n_candidates
    assert table.loc[("nothing", "aoa"), "estimate"] == pytest.approx(np.mean(3 / candidates))
    ranked = evaluation.ranks["last two"]
    weights = (train.popularity[ranked.item] + 1.0) ** -0.5
    hits = ipseval.metric("recall@3").contributions(ranked)
    pooled = evaluate_sequential(
        models,
        log,
        START,
        propensity="power-law:gamma=0,unseen=smooth",
        metrics=["recall@3"],
        estimators=["snips-pooled"],
    )
    expected = float((weights * hits).sum() / weights.sum())
    assert pooled.estimate("last two", "recall@3", "snips-pooled").value == pytest.approx(expected)
    assert len(evaluation.compare()) == 2
    assert table["ci_low"].notna().all()


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        (lambda *_: np.zeros(3), {}, "m must return one score for each of the 15 items; got shape"),
        (lambda *_: np.full(N_ITEMS, np.nan), {}, "scores of m must not be NaN; got 15"),
        ((np.zeros((3, 2)), np.zeros((N_ITEMS, 2))), {}, "factors of m must be .60, d. for the events"),
        ([[1, 2]], {}, "one list for each of the 60 targets; got 1"),
        ([[1, 1]] * 60, {}, "must not repeat an item; 60 entries do"),
        ([[99]] * 60, {}, "ids of items of the log; 60 entries are not"),
        ([list(range(N_ITEMS))] * 60, {}, "must not contain items of the history"),
        (
            score,
            {"available_from": dict.fromkeys(range(N_ITEMS), 2000)},
            "60 of 60 targets are not available",
        ),
        (score, {"targets": 5000}, "at least one row of the log; got none"),
        (score, {"targets": np.ones(3, dtype=bool)}, "a time or 108 booleans"),
        (score, {"targets": np.ones(108)}, "a time or 108 booleans, .* got float64"),
        (score, {"seen": "drop"}, "unknown value for seen"),
        (score, {"available_from": pd.DataFrame({"item": [1]})}, "available_from is missing"),
    ],
)
def test_unusable_input_is_refused(model, options, message):
    log = make_log(make_frame(9))
    is_target = np.zeros(len(log), dtype=bool)
    is_target[:60] = True
    with pytest.raises(InputError, match=message):
        evaluate_sequential({"m": model}, log, options.pop("targets", is_target), **options)


def test_a_log_without_times_is_refused():
    log = ipseval.Interactions.from_frame(make_frame(10)[["user", "item"]])
    with pytest.raises(InputError, match="must have timestamps"):
        evaluate_sequential({"m": score}, log, 3)
    with pytest.raises(InputError, match="log must be Interactions; got DataFrame"):
        evaluate_sequential({"m": score}, make_frame(10), 3)


@pytest.mark.slow
def test_a_million_events_from_factors_take_at_most_twice_the_bare_product():
    rng = np.random.default_rng(0)
    n_users, per_user, n_items, n_factors = 50_000, 25, 2_000, 128
    items = rng.integers(0, n_items, size=(n_users, per_user))
    frame = pd.DataFrame({"user": np.repeat(np.arange(n_users), per_user), "item": items.ravel()})
    frame["time"] = np.tile(np.arange(per_user), n_users)
    log = ipseval.Interactions.from_frame(frame, timestamp="time", duplicates="keep")
    is_target = log.timestamp >= 5
    n_events = int(is_target.sum())
    assert n_events == 1_000_000
    event_factors = rng.normal(size=(n_events, n_factors)).astype(np.float32)
    item_factors = rng.normal(size=(log.n_items, n_factors)).astype(np.float32)

    start = time.process_time()
    for first in range(0, n_events, 1000):
        event_factors[first : first + 1000] @ item_factors.T
    bare = time.process_time() - start
    start = time.process_time()
    evaluate_sequential(
        {"m": (event_factors, item_factors)}, log, is_target, seen="include", metrics=["recall@10"]
    )
    total = time.process_time() - start
    print(f"CPU time: bare product {bare:.1f} s, evaluation {total:.1f} s, ratio {total / bare:.2f}")
    assert total <= 2 * bare


@pytest.mark.parametrize("seen", ["exclude", "include"])
@pytest.mark.parametrize("has_table", [False, True])
def test_the_compiled_loop_counts_the_same_ranks(monkeypatch, seen, has_table):
    pytest.importorskip("numba")
    frame = make_frame(3, repeats=True)
    log = make_log(frame)
    available = frame.groupby("item")["time"].min().to_dict() if has_table else None
    factors = (np.random.default_rng(0).integers(-2, 3, ((frame["time"] >= START).sum(), 4)), EMBEDDING)
    models = {"scorer": score, "factors": tuple(np.asarray(part, dtype=np.float32) for part in factors)}
    ranks = []
    for threshold in (10**8, 0):
        monkeypatch.setattr("ipseval.evaluation.sequential.COMPILED_SCORES", threshold)
        evaluation = evaluate_sequential(
            models, log, START, seen=seen, available_from=available, metrics=["recall@3"]
        )
        ranks.append(evaluation.ranks)
    for name in models:
        for column in ("n_above", "n_tied", "n_candidates"):
            np.testing.assert_array_equal(getattr(ranks[0][name], column), getattr(ranks[1][name], column))
    assert ranks[0]["scorer"].n_tied.any()


@pytest.mark.parametrize("n_columns", [1, 7, 8, 2039, 2040, 2041, 5000])
def test_true_entries_are_counted_without_overflow(n_columns):
    mask = np.random.default_rng(n_columns).random((5, n_columns)) < 0.9
    mask[0] = True
    mask[1] = False
    assert count_true(mask).tolist() == [sum(row) for row in mask.tolist()]
