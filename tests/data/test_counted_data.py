"""What was read, left out and added stands in one table, from the log to the saved evaluation."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import ipseval

LOG = pd.DataFrame({"user": [0, 0, 0, 1, 1, 2], "item": [0, 1, 1, 0, 2, 3]})


def row(data: pd.DataFrame, subject: str, what: str) -> tuple[int, object]:
    """Return count and whole of the one row with these words; None where there is no whole."""
    (found,) = data[(data["subject"] == subject) & (data["what"] == what)].to_dict("records")
    return found["count"], None if pd.isna(found["of"]) else found["of"]


def test_a_log_says_how_many_rows_were_read_and_repeated():
    log = ipseval.Interactions.from_frame(LOG, duplicates="drop")
    assert row(log.data, "log", "rows read") == (6, None)
    assert row(log.data, "log", "rows that repeat an earlier pair, left out") == (1, 6)
    assert (len(log.data), log.repeats, log.n_duplicates_dropped) == (2, False, 1)
    kept = ipseval.Interactions.from_frame(LOG, duplicates="keep")
    assert row(kept.data, "log", "rows that repeat an earlier pair, kept") == (1, 6)
    assert (len(kept.data), kept.repeats, kept.n_duplicates_dropped) == (2, True, 0)
    again = ipseval.Interactions([0, 0], [0, 0], [0], [0], repeats=True, n_duplicates_dropped=1)
    assert again.distinct.n_duplicates_dropped == 2
    assert len(again.select([0, 0, -2])) == 3


def test_a_k_core_says_what_it_removed():
    log = ipseval.Interactions.from_frame(pd.DataFrame({"user": [0, 0, 1, 1, 2], "item": [0, 1, 0, 1, 1]}))
    data = ipseval.data.splits.k_core(log, 2).data  # user 2 has one interaction
    assert row(data, "log", "users removed by a k-core") == (1, 3)
    assert row(data, "log", "pairs removed by a k-core") == (1, 5)
    assert not (data["what"] == "items removed by a k-core").any()
    chain = pd.DataFrame({"user": [0, 0, 0, 1, 1, 1, 2, 3, 3], "item": [0, 1, 2, 0, 1, 2, 0, 1, 3]})
    log = ipseval.Interactions.from_frame(chain)._replace_unchecked(
        n_users_removed=2, n_items_removed=1, n_pairs_removed=3
    )
    core = ipseval.data.splits.k_core(log, 2)  # users 2 and 3 go, and item 3, as before
    assert (core.n_users_removed, core.n_items_removed, core.n_pairs_removed) == (4, 2, 6)


def test_parts_of_one_log_tell_its_counts_once_and_other_parts_their_own():
    log = ipseval.Interactions.from_frame(LOG, duplicates="drop")
    split = ipseval.Split(log.select([0, 2, 4]), log.select([1, 3]))
    assert split.data["subject"].tolist()[:2] == ["log", "log"]
    assert row(split.data, "split", "test pairs") == (2, None)
    apart = ipseval.Split.from_frames(LOG[:2], LOG[3:], items=range(4))
    assert row(apart.data, "train", "rows read") == (2, None)
    assert row(apart.data, "test", "rows read") == (3, None)
    assert row(apart.data, "split", "users in test") == (2, 3)
    assert row(apart.data, "split", "users in test without training pairs") == (2, 2)
    assert row(apart.data, "split", "items in test without training pairs") == (2, 3)
    assert row(apart.data, "split", "test pairs of such users or items") == (3, 3)
    shared = LOG[LOG["item"] == 1][:1]
    overlap = ipseval.Split.from_frames(LOG[:2], pd.concat([shared, LOG[3:4]]), overlap="drop")
    assert row(overlap.data, "split", "test pairs of another part, left out") == (1, 2)


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
            propensity=ipseval.PowerLawPropensity(gamma=0),
            low_ess="ignore",
        )


def test_an_evaluation_counts_missing_users_short_lists_and_positives_without_propensity(evaluation):
    data = evaluation.data
    assert row(data, "v1", "users with test positives and no list, counted as misses") == (1, 3)
    assert row(data, "v1", "lists shorter than 2, padded with misses") == (2, 3)
    assert row(data, "evaluation", "positives without a propensity, left out") == (1, 4)
    assert row(data, "evaluation", "positives that entered") == (3, None)
    assert not (data["subject"] == "v2").any()


def test_the_table_survives_a_file_and_stands_in_json_and_on_the_page(evaluation, tmp_path):
    evaluation.save(tmp_path / "evaluation.npz")
    assert ipseval.Evaluation.load(tmp_path / "evaluation.npz").data.equals(evaluation.data)
    found = json.loads(evaluation.to_json())["counts"]
    assert {"what": "train pairs", "count": 3, "of": None, "subject": "split"} in found
    page = evaluation.to_html()
    assert "no list, counted as misses" in page


def test_what_holds_of_some_metrics_or_recommenders_alone_is_said_with_their_names(evaluation):
    said = " ".join(repr(evaluation).split())
    # AOA, too, would be another average with it.
    assert (
        "Excluded 1 interaction without a propensity (items that do not occur in training), from all" in said
    )
    # Both candidates of user 0 are relevant: for it auc is undefined.
    train = pd.DataFrame({"user": [0, 1], "item": [0, 0]})
    test = pd.DataFrame({"user": [0, 0, 1], "item": [1, 2, 1]})
    result = ipseval.evaluate(
        {"a": np.eye(3)[:2]}, ipseval.Split.from_frames(train, test), metrics=["auc", "recall@1"]
    )
    said = " ".join(repr(result).split())
    assert "auc: 1 user left out: the metric is undefined for them. auc: one user: no standard" in said
    result = ipseval.evaluate({"a": np.eye(3)[:2]}, ipseval.Split.from_frames(train, test), metrics=["auc"])
    assert "Data 1 user left out: the metric is undefined for them. One user: no" in " ".join(
        repr(result).split()
    )


@pytest.mark.parametrize(
    ("n_users", "said"),
    [(40, " Few positives, with equal weights too."), (60, "")],
)
def test_a_small_effective_sample_size_is_said_also_with_equal_weights(n_users, said):
    users = np.arange(n_users)
    split = ipseval.Split.from_frames(
        pd.DataFrame({"user": users, "item": users % 3}),
        pd.DataFrame({"user": users, "item": (users + 1) % 3}),
    )
    found = ipseval.evaluate(
        {"any": np.zeros((n_users, 3))},
        split,
        propensity=ipseval.KnownPropensity(item=np.full(3, 0.5)),
        metrics=["recall@1"],
    )
    sizes = f"{n_users} with these weights, {n_users} with equal weights ({n_users} interactions)."
    printed = " ".join(repr(found).split())
    assert f"Weights Effective sample size {sizes}{said}" in printed
    assert "SNIPS (propensities assumed)" in printed
    assert ("Few positives" in printed) == bool(said)


def test_what_is_in_the_numbers_is_said_before_what_never_entered():
    users = np.arange(6)
    split = ipseval.Split.from_frames(
        pd.DataFrame({"user": users, "item": users}), pd.DataFrame({"user": users, "item": (users + 1) % 6})
    )
    lists = {}
    for n_users in (2, 3, 4, 5):
        best = pd.DataFrame({"user": users[:n_users], "item": users[:n_users] + 1, "rank": 1})
        strange = best.assign(item=99, rank=2)
        lists[f"v{n_users}"] = ipseval.Lists(pd.concat([best, strange]), unknown="drop")
    with pytest.warns(ipseval.errors.DataWarning):
        said = " ".join(repr(ipseval.evaluate(lists, split, metrics=["recall@1"])).split())
    for n_users in (2, 3, 4, 5):
        assert f"v{n_users}: {6 - n_users} of 6 users have no list and count as misses." in said
    assert said.count("entries with items unknown to the split, left out.") == 2
    assert "And 2 more in .data and .frame." in said
