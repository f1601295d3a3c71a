"""Counts of rows that were read, left out and added, from the log to the saved evaluation."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import ipseval

LOG = pd.DataFrame({"user": [0, 0, 0, 1, 1, 2], "item": [0, 1, 1, 0, 2, 3]})


def find_count(data: pd.DataFrame, subject: str, what: str) -> tuple[int, object]:
    """Return the count and the total of a row; None if it has no total."""
    (record,) = data[(data["subject"] == subject) & (data["what"] == what)].to_dict("records")
    return record["count"], None if pd.isna(record["of"]) else record["of"]


def test_a_log_counts_rows_read_and_rows_that_repeat_a_pair():
    log = ipseval.Interactions.from_frame(LOG, duplicates="drop")
    assert find_count(log.data, "log", "rows read") == (6, None)
    assert find_count(log.data, "log", "rows that repeat an earlier pair, left out") == (1, 6)
    assert (len(log.data), log.repeats, log.n_duplicates_dropped) == (2, False, 1)
    log_with_repeats = ipseval.Interactions.from_frame(LOG, duplicates="keep")
    assert find_count(log_with_repeats.data, "log", "rows that repeat an earlier pair, kept") == (1, 6)
    assert (len(log_with_repeats.data), log_with_repeats.repeats, log_with_repeats.n_duplicates_dropped) == (
        2,
        True,
        0,
    )
    assert ipseval.read(pd.DataFrame({"user": [0, 1], "item": [0, 0]})).n_duplicates_dropped == 0
    repeated_log = ipseval.Interactions([0, 0], [0, 0], [0], [0], repeats=True, n_duplicates_dropped=1)
    assert repeated_log.distinct.n_duplicates_dropped == 2
    assert len(repeated_log.select([0, 0, -2])) == 3


def test_a_k_core_counts_its_removals():
    log = ipseval.Interactions.from_frame(pd.DataFrame({"user": [0, 0, 1, 1, 2], "item": [0, 1, 0, 1, 1]}))
    data = ipseval.data.splits.k_core(log, 2).data  # user 2 has one interaction
    assert find_count(data, "log", "users removed by a k-core") == (1, 3)
    assert find_count(data, "log", "pairs removed by a k-core") == (1, 5)
    assert not (data["what"] == "items removed by a k-core").any()
    chain = pd.DataFrame({"user": [0, 0, 0, 1, 1, 1, 2, 3, 3], "item": [0, 1, 2, 0, 1, 2, 0, 1, 3]})
    log = ipseval.Interactions.from_frame(chain)._replace_unchecked(
        n_users_removed=2, n_items_removed=1, n_pairs_removed=3
    )
    core = ipseval.data.splits.k_core(log, 2)  # users 2 and 3 go, and item 3, as before
    assert (core.n_users_removed, core.n_items_removed, core.n_pairs_removed) == (4, 2, 6)


def test_parts_of_one_log_list_its_counts_once_and_separate_parts_their_own_counts():
    log = ipseval.Interactions.from_frame(LOG, duplicates="drop")
    split = ipseval.Split(log.select([0, 2, 4]), log.select([1, 3]))
    assert split.data["subject"].tolist()[:2] == ["log", "log"]
    assert find_count(split.data, "split", "test pairs") == (2, None)
    frames_split = ipseval.Split.from_frames(LOG[:2], LOG[3:], items=range(4))
    assert find_count(frames_split.data, "train", "rows read") == (2, None)
    assert find_count(frames_split.data, "test", "rows read") == (3, None)
    assert find_count(frames_split.data, "split", "users in test") == (2, 3)
    assert find_count(frames_split.data, "split", "users in test without training pairs") == (2, 2)
    assert find_count(frames_split.data, "split", "items in test without training pairs") == (2, 3)
    assert find_count(frames_split.data, "split", "test pairs of such users or items") == (3, 3)
    shared_pair = LOG[LOG["item"] == 1][:1]
    overlap = ipseval.Split.from_frames(LOG[:2], pd.concat([shared_pair, LOG[3:4]]), overlap="drop")
    assert find_count(overlap.data, "split", "test pairs of another part, left out") == (1, 2)


@pytest.fixture(scope="module", name="evaluation")
def fixture_evaluation():
    train = pd.DataFrame({"user": [0, 1, 2], "item": [0, 1, 2]})
    test = pd.DataFrame({"user": [0, 1, 2, 2], "item": [1, 2, 0, 3]})
    split = ipseval.Split.from_frames(train, test)
    lists = pd.DataFrame({"user": [0, 1], "item": [1, 2], "rank": [1, 1]})
    with pytest.warns(ipseval.errors.DataWarning):
        return ipseval.evaluate(
            {"v1": lists, "v2": np.zeros((3, 4))},
            split,
            metrics=["recall@2"],
            propensity=ipseval.PowerLawPropensity(gamma=0, unseen="drop"),
            low_ess="ignore",
        )


def test_an_evaluation_counts_missing_users_short_lists_and_positives_without_propensity(evaluation):
    data = evaluation.data
    assert find_count(data, "v1", "users with test positives and no list, counted as misses") == (1, 3)
    assert find_count(data, "v1", "lists shorter than 2, padded with misses") == (2, 2)
    assert find_count(data, "evaluation", "positives without a propensity, left out") == (1, 4)
    assert find_count(data, "evaluation", "positives that entered") == (3, None)
    assert not (data["subject"] == "v2").any()


@pytest.mark.usefixtures("no_pictures")
def test_a_file_json_and_the_page_contain_the_counts(evaluation, tmp_path):
    evaluation.save(tmp_path / "evaluation.npz")
    assert ipseval.Evaluation.load(tmp_path / "evaluation.npz").data.equals(evaluation.data)
    json_counts = json.loads(evaluation.to_json())["counts"]
    assert {"what": "train pairs", "count": 3, "of": None, "subject": "split"} in json_counts
    page = evaluation.to_html()
    assert "no list, counted as misses" in page


@pytest.mark.parametrize(
    ("item", "popularity", "reason"),
    [
        # The held-out items are 0 and 1, and item 1 has no propensity; it does not occur in training, or it does.
        ([0.5, np.nan], [2.0, 0.0], " (items that do not occur in training)"),
        ([0.5, np.nan], [2.0, 1.0], ""),
        ([0.5, np.nan], None, ""),
    ],
)
def test_the_reason_of_an_exclusion_is_printed_if_it_is_known_whatever_the_model(item, popularity, reason):
    train = pd.DataFrame({"user": [0, 1], "item": [0, 0]})
    test = pd.DataFrame({"user": [2, 3], "item": [0, 1]})
    counts = None if popularity is None else np.array(popularity)
    propensity = ipseval.propensity.Propensity(np.array(item), True, "mine", 2, popularity=counts)
    result = ipseval.evaluate(
        {"first": np.tile([2.0, 1.0], (4, 1))},
        ipseval.Split.from_frames(train, test),
        propensity=propensity,
        metrics=["hit@1"],
        low_ess="ignore",
    )
    printed_text = " ".join(repr(result).split())
    assert f"Excluded 1 interaction without a propensity{reason}, from all estimates." in printed_text


def test_notes_on_single_metrics_or_recommenders_name_them(evaluation):
    printed_text = " ".join(repr(evaluation).split())
    # AOA, too, would be another average with it.
    assert (
        "Excluded 1 interaction without a propensity (items that do not occur in training), from all"
        in printed_text
    )
    # Both candidates of user 0 are relevant: for it auc is undefined.
    train = pd.DataFrame({"user": [0, 1], "item": [0, 0]})
    test = pd.DataFrame({"user": [0, 0, 1], "item": [1, 2, 1]})
    result = ipseval.evaluate(
        {"a": np.eye(3)[:2]}, ipseval.Split.from_frames(train, test), metrics=["auc", "recall@1"]
    )
    printed_text = " ".join(repr(result).split())
    assert (
        "auc: 1 user left out: the metric is undefined for them. auc: one user: no standard" in printed_text
    )
    result = ipseval.evaluate({"a": np.eye(3)[:2]}, ipseval.Split.from_frames(train, test), metrics=["auc"])
    assert "Data 1 user left out: the metric is undefined for them. One user: no" in " ".join(
        repr(result).split()
    )


@pytest.mark.parametrize(
    ("n_users", "remark"),
    [(40, " Few positives, with equal weights too."), (60, "")],
)
def test_a_small_effective_sample_size_is_reported_also_with_equal_weights(n_users, remark):
    users = np.arange(n_users)
    split = ipseval.Split.from_frames(
        pd.DataFrame({"user": users, "item": users % 3}),
        pd.DataFrame({"user": users, "item": (users + 1) % 3}),
    )
    evaluation = ipseval.evaluate(
        {"any": np.zeros((n_users, 3))},
        split,
        propensity=ipseval.KnownPropensity(item=np.full(3, 0.5)),
        metrics=["recall@1"],
    )
    sizes = f"{n_users} by SNIPS, {n_users} by AOA, of {n_users} interactions."
    printed_text = " ".join(repr(evaluation).split())
    assert f"Weights Effective sample size {sizes}{remark}" in printed_text
    assert "SNIPS (propensities assumed)" in printed_text
    assert ("Few positives" in printed_text) == bool(remark)


def test_notes_on_the_estimates_come_before_notes_on_excluded_entries():
    users = np.arange(6)
    split = ipseval.Split.from_frames(
        pd.DataFrame({"user": users, "item": users}), pd.DataFrame({"user": users, "item": (users + 1) % 6})
    )
    lists = {}
    for n_users in (2, 3, 4, 5):
        first_items = pd.DataFrame({"user": users[:n_users], "item": users[:n_users] + 1, "rank": 1})
        unknown_items = first_items.assign(item=99, rank=2)
        lists[f"v{n_users}"] = ipseval.Lists(pd.concat([first_items, unknown_items]), unknown="drop")
    with pytest.warns(ipseval.errors.DataWarning):
        printed_text = " ".join(repr(ipseval.evaluate(lists, split, metrics=["recall@1"])).split())
    for n_users in (2, 3, 4, 5):
        assert f"v{n_users}: {6 - n_users} of 6 users have no list and count as misses." in printed_text
    assert printed_text.count("left out (entries with items unknown to the split).") == 2
    assert "And 2 more in .data and .frame." in printed_text
