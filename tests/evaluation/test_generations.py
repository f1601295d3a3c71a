"""Repeated generations: plain loops over users and lists, coverage, rates, and what is refused."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.evaluation import evaluate_generations
from ipseval.evaluation.generations import GenerationsEvaluation, compute_variance_parts
from reproductions.generations import simulate

ITEMS = [f"i{number}" for number in range(20)]
USERS = [f"u{number}" for number in range(15)]


def make_split(seed: int) -> ipseval.Split:
    """Return three training items and one to three targets of each user."""
    rng = np.random.default_rng(seed)
    train = []
    test = []
    for user in USERS:
        items = rng.permutation(ITEMS)
        train += [(user, item) for item in items[:3]]
        test += [(user, item) for item in items[3 : 4 + rng.integers(3)]]
    columns = ["user", "item"]
    return ipseval.Split.from_frames(
        pd.DataFrame(train, columns=columns), pd.DataFrame(test, columns=columns), users=USERS, items=ITEMS
    )


def make_lists(seed: int, *, n_runs: int | None = None) -> dict[str, list[list[str]]]:
    """Return lists with repeated items, items of training and invented items; some are empty."""
    rng = np.random.default_rng(seed)
    lists = {}
    for user in USERS:
        count = n_runs or int(rng.integers(1, 5))
        lists[user] = [
            rng.choice([*ITEMS, "no such item"], rng.integers(0, 8)).tolist() for _ in range(count)
        ]
    return lists


def pairs_of(log: ipseval.Interactions) -> set[tuple[str, str]]:
    frame = log.to_frame()
    return set(zip(frame["user"], frame["item"], strict=True))


def compute_by_loop(lists: dict, split: ipseval.Split, k: int, invalid: str) -> dict:
    """Return recall@k and mean_dcg@k of each list by user, and the counts of entries by reason."""
    seen = pairs_of(split.train)
    targets = pairs_of(split.test)
    recall = {}
    dcg = {}
    counts = {"unknown": 0, "seen": 0, "repeated": 0}
    for user, runs in lists.items():
        wanted = {item for owner, item in targets if owner == user}
        for row in runs:
            positions = []
            for position, item in enumerate(row):
                reason = None
                if item not in ITEMS:
                    reason = "unknown"
                elif (user, item) in seen:
                    reason = "seen"
                elif item in row[:position]:
                    reason = "repeated"
                if reason:
                    counts[reason] += 1
                    if invalid == "keep":
                        positions.append(None)
                else:
                    positions.append(item)
            ranks = [place + 1 for place, item in enumerate(positions[:k]) if item in wanted]
            recall.setdefault(user, []).append(len(ranks) / len(wanted))
            dcg.setdefault(user, []).append(sum(1 / math.log2(1 + rank) for rank in ranks) / len(wanted))
    return {"recall": recall, "dcg": dcg, "counts": counts}


def summarize(values: dict[str, list[float]]) -> dict[str, float]:
    """Return the estimate, its error and the parts of the variance, user by user."""
    means = []
    variances = []
    for row in values.values():
        mean = sum(row) / len(row)
        means.append(mean)
        if len(row) > 1:
            variances.append(sum((value - mean) ** 2 for value in row) / (len(row) - 1))
        else:
            variances.append(None)
    n = len(means)
    estimate = sum(means) / n
    spread = sum((mean - estimate) ** 2 for mean in means) / (n - 1)
    known = [variance for variance in variances if variance is not None]
    within = sum(known) / len(known)
    errors = []
    for variance, row in zip(variances, values.values(), strict=True):
        errors.append((within if variance is None else variance) / len(row))
    return {
        "estimate": estimate,
        "std_error": math.sqrt(spread / n),
        "variance_between": spread - sum(errors) / n,
        "variance_within": within,
        "generation_error": math.sqrt(sum(errors)) / n,
    }


@pytest.mark.parametrize("invalid", ["keep", "drop"])
@pytest.mark.parametrize("seed", range(5))
def test_values_parts_and_rates_equal_a_loop_over_lists(invalid, seed):
    split = make_split(seed)
    lists = make_lists(seed + 100)
    result = evaluate_generations({"llm": lists}, split, metrics=["recall@3", "mean_dcg@5"], invalid=invalid)
    frame = result.frame.set_index("metric")
    for label, name, k in (("recall@3", "recall", 3), ("mean_dcg@5", "dcg", 5)):
        expected = summarize(compute_by_loop(lists, split, k, invalid)[name])
        for column, value in expected.items():
            assert frame.loc[label, column] == pytest.approx(value, abs=1e-12), column
    counts = compute_by_loop(lists, split, 3, invalid)["counts"]
    assert result.rates.set_index("rate")["count"].to_dict() == counts
    n_entries = sum(len(row) for runs in lists.values() for row in runs)
    assert set(result.rates["of"]) == {n_entries}
    assert frame["n_lists"].tolist() == [sum(map(len, lists.values()))] * 2


def test_one_generation_without_invalid_entries_equals_evaluate():
    split = make_split(3)
    scores = np.random.default_rng(0).random((split.n_users, split.n_items))
    scores[split.train.user, split.train.item] = -1
    best = np.argsort(-scores, axis=1)[:, :6]
    lists = {user: [split.item_ids[best[row]].tolist()] for row, user in enumerate(split.user_ids.tolist())}
    result = evaluate_generations({"m": lists}, split, metrics=["recall@5", "ndcg@3", "rr@5"])
    expected = ipseval.evaluate({"m": scores}, split, metrics=["recall@5", "ndcg@3", "rr@5"]).frame
    np.testing.assert_allclose(result.frame["estimate"], expected["estimate"], rtol=0, atol=1e-12)
    np.testing.assert_allclose(result.frame["std_error"], expected["std_error"], rtol=0, atol=1e-12)
    assert result.frame["variance_within"].isna().all()
    assert (result.rates["count"] == 0).all()


def test_runs_as_mappings_equal_lists_by_user():
    split = make_split(4)
    lists = make_lists(5, n_runs=3)
    runs = [{user: rows[run] for user, rows in lists.items()} for run in range(3)]
    result = evaluate_generations({"by user": lists, "by run": runs}, split, metrics=["recall@5"])
    first, second = result.frame.drop(columns="model").to_dict("records")
    assert first == second
    difference = result.compare().iloc[0]
    assert difference["difference"] == 0
    assert difference["std_error"] == 0


def test_items_that_the_prompt_did_not_show_and_targets_that_it_did_are_counted():
    split = make_split(6)
    targets = pairs_of(split.test)
    seen = pairs_of(split.train)
    shown = {}
    for user in USERS:
        wanted = sorted(item for owner, item in targets if owner == user)
        rest = [item for item in ITEMS if (user, item) not in targets | seen][:4]
        shown[user] = [*wanted[:1], *rest, "no such item"]
    lists = {
        user: [[*shown[user][:3], sorted(item for owner, item in seen if owner == user)[0]]] for user in USERS
    }
    result = evaluate_generations({"llm": lists}, split, metrics=["recall@3"], prompt_items=shown)
    rates = result.rates.set_index("rate")
    assert rates.loc["not in prompt", ["count", "of"]].tolist() == [
        15,
        60,
    ]  # the seen item is not shown, either
    assert rates.loc["seen", "count"] == 0
    assert rates.loc["target in prompt", ["count", "of"]].tolist() == [15, len(targets)]
    assert result.frame["estimate"].item() == pytest.approx(
        np.mean([1 / sum(owner == user for owner, _ in targets) for user in USERS]), abs=1e-12
    )
    assert result.prompt_share == pytest.approx(5 / 17, abs=1e-12)
    assert "29.41% of the catalogue" in str(result)


def test_known_numbers_of_the_variance_parts():
    values = np.array([[1.0, 0.0, 1.0], [0.0, 0.0, np.nan]])
    parts = compute_variance_parts(values)
    # Means .5, 0, 1 with variance .25; variances within .5, 0 and (one generation) their mean .25.
    assert parts.within == 0.25
    assert parts.between == pytest.approx(0.25 - (0.25 + 0 + 0.25) / 3, abs=1e-15)
    assert parts.generation_error == pytest.approx(math.sqrt(0.5) / 3, abs=1e-15)


def test_the_parts_are_unbiased_for_a_beta_binomial_model():
    rng = np.random.default_rng(8)
    between = []
    within = []
    for _ in range(400):
        probability = rng.beta(2, 3, 200)
        parts = compute_variance_parts((rng.random((3, 200)) < probability).astype(float))
        between.append(parts.between)
        within.append(parts.within)
    assert abs(np.mean(between) - 0.04) < 4 * np.std(between) / 20
    assert abs(np.mean(within) - 0.20) < 4 * np.std(within) / 20


@pytest.mark.parametrize(
    ("n_users", "n_runs"),
    [(50, 2), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((400, 10), (50, 10), (400, 2)))],
)
def test_intervals_cover_the_mean_over_users_and_generations(n_users, n_runs):
    coverage = simulate(
        0.3, 1.0, n_users, n_runs, n_repeats=1500, rng=np.random.default_rng(n_users + n_runs)
    )
    assert 0.93 <= coverage.by_user <= 0.97
    assert coverage.by_list < coverage.by_user - 0.03
    assert coverage.flagged < 0.05


def test_rare_hits_are_flagged_and_no_hit_has_an_upper_bound():
    split = make_split(9)
    lists = {user: [["no such item", ITEMS[0]], []] for user in USERS}
    targets = pairs_of(split.test) | pairs_of(split.train)
    lists = {user: [[item] for item in ITEMS if (user, item) not in targets][:2] for user in USERS}
    result = evaluate_generations({"llm": lists}, split, metrics=["recall@3"])
    row = result.frame.iloc[0]
    assert (row["estimate"], row["std_error"], row["ci_low"]) == (0, 0, 0)
    assert row["ci_high"] == pytest.approx(1 - 0.025 ** (1 / 15), abs=1e-15)
    assert row["flag"] == "0 users with a value above 0, fewer than 10"
    assert row["flag"] in str(result)


def test_the_result_is_stored_and_written(tmp_path):
    split = make_split(1)
    models = {"a": make_lists(1, n_runs=2), "b": make_lists(2, n_runs=2)}
    result = evaluate_generations(models, split, metrics=["recall@3"])
    result.save(tmp_path / "r.npz")
    loaded = GenerationsEvaluation.load(tmp_path / "r.npz")
    pd.testing.assert_frame_equal(loaded.frame, result.frame)
    pd.testing.assert_frame_equal(loaded.rates, result.rates)
    assert str(loaded) == str(result)
    assert "variance within users" in result.to_markdown()
    assert "<table" in result.to_html()


@pytest.mark.parametrize(
    ("models", "options", "message"),
    [
        ({"m": {"u0": ["i1", "i2"]}}, {}, "list of generated lists; got .* for user 'u0'"),
        ({"m": {"u0": []}}, {}, "at least one generation for each user"),
        ({"m": {}}, {}, "at least one user"),
        ({"m": []}, {}, "one for each run"),
        ({"m": {"nobody": [["i1"]]}}, {}, "users of m must be in the split; 1 of 1"),
        ({"m": {"u0": [["x"], [3]]}}, {}, "must contain items of the split; got none among 2"),
        ({"m": {"u0": [["i1"]]}, "n": {"u1": [["i1"]]}}, {}, "lists of the same users"),
        ({"m": {"u0": [["i1"]]}}, {"invalid": "no"}, "invalid"),
        ({"m": {"u0": [["i1"]]}}, {"metrics": ["psp@3"]}, "mean over users"),
    ],
)
def test_unusable_input_is_refused_with_a_correction(models, options, message):
    with pytest.raises(InputError, match=message):
        evaluate_generations(models, make_split(0), **options)


def test_empty_generations_are_misses():
    split = make_split(2)
    lists = {user: [[], []] for user in USERS}
    target = split.test.to_frame().iloc[0]
    lists[target["user"]] = [[target["item"]], []]
    result = evaluate_generations({"llm": lists}, split, metrics=["hit@3"])
    assert result.frame["estimate"].item() == pytest.approx(0.5 / 15, abs=1e-15)
