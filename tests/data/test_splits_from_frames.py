"""Split.from_frames: splits that were made elsewhere."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval.data import ImpressionLog, Interactions
from ipseval.data.splits import Split
from ipseval.data.splits.split import resolve_split
from ipseval.errors import InputError
from ipseval.propensity import PowerLawPropensity
from ipseval.ranking import rank_positives
from tests.data.test_splits import pairs


def frame(*rows: tuple[object, object]) -> pd.DataFrame:
    return pd.DataFrame(list(rows), columns=["user", "item"])


def test_from_frames_codes_all_parts_against_one_universe() -> None:
    split = Split.from_frames(
        frame(("b", 2), ("a", 9)), frame(("a", 4), ("c", 2)), validation=frame(("b", 4)), items=[9, 4, 2, 1]
    )
    assert split.user_ids.tolist() == ["a", "b", "c"]
    assert split.item_ids.tolist() == [9, 4, 2, 1]
    assert pairs(split.train) == {("b", 2), ("a", 9)}
    assert pairs(split.test) == {("a", 4), ("c", 2)}
    assert pairs(split.validation) == {("b", 4)}
    assert split.test.item.tolist() == [1, 2]
    assert split.n_cold_users == 1
    assert split.n_users_without_test == 1  # b
    sizes = "2 train, 2 test, 1 validation; 3 users, 4 items"
    assert repr(split) == f"Split({sizes}; 1 cold user; 1 cold item; given as frames)"
    assert (split.n_overlap_dropped, split.n_tied_users, split.n_purged, split.n_repeats_merged) == (0,) * 4


def test_from_frames_keeps_values_and_times_in_row_order() -> None:
    train = pd.DataFrame({"user": [1, 0], "item": [0, 0], "rating": [5.0, 2.0], "when": [3, 1]})
    test = pd.DataFrame({"user": [0, 1], "item": [1, 1], "rating": [4.0, 1.0], "when": [8, 7]})
    split = Split.from_frames(train, test, value="rating", timestamp="when")
    assert split.train.value.tolist() == [5.0, 2.0]
    assert split.test.timestamp.tolist() == [8, 7]


def test_from_frames_drops_overlap_only_when_told_and_counts_it() -> None:
    train = frame((0, 0), (1, 1))
    test = frame((0, 0), (1, 0))
    with pytest.raises(InputError, match="1 user–item pairs are in more than one part"):
        Split.from_frames(train, test)
    split = Split.from_frames(train, test, overlap="drop")
    assert (pairs(split.test), split.n_overlap_dropped) == ({(1, 0)}, 1)
    split = Split.from_frames(None, test, validation=frame((1, 0)), overlap="drop")
    assert (pairs(split.test), split.n_overlap_dropped) == ({(0, 0)}, 1)
    inclusive_split = Split.from_frames(train, test, overlap="drop", seen="include")
    assert (
        len(inclusive_split.test),
        inclusive_split.n_overlap_dropped,
        inclusive_split.n_repeated_positives,
    ) == (2, 0, 1)
    assert "(1 training pair among them)" in repr(inclusive_split)


def test_from_frames_merges_repeats_of_the_test_part_and_counts_them() -> None:
    train = frame((0, 0), (0, 0), (1, 1))
    test = frame((0, 1), (0, 1), (0, 1), (0, 0), (1, 0))
    split = Split.from_frames(train, test, duplicates="keep", overlap="drop")
    assert (len(split.train), len(split.test), split.n_repeats_merged) == (3, 2, 2)
    counts = split.data.set_index("what")[["count", "of"]]
    assert counts.loc["test rows that repeat a test pair, merged"].tolist() == [2, 5]
    assert counts.loc["test pairs of another part, left out"].tolist() == [1, 3]
    assert counts.loc["train interactions", "count"] == 3


ONE = frame((0, 0))
BAD_FRAMES = {
    r"column 'item' has 1 ids that are not in the given universe of 2 \(7;": ((0, 7), {"items": [0, 1]}),
    r"column 'user' of the frames has ids of different types \(train, int64: 0; test, object: '0'\)": (
        ("0", 1),
        {},
    ),
    "test part is empty": ((0, 0), {"overlap": "drop"}),
    "more than one part": ((0, 1), {"validation": ONE, "overlap": "drop"}),
    "Choices: drop, raise": ((0, 1), {"overlap": "keep"}),
}


@pytest.mark.parametrize("text", BAD_FRAMES)
def test_the_error_of_wrong_frames_names_the_requirement(text: str) -> None:
    test, options = BAD_FRAMES[text]
    with pytest.raises(InputError, match=text):
        Split.from_frames(ONE, frame(test), **options)


def test_parts_of_different_universes_raise_an_error() -> None:
    train = Interactions.from_frame(frame((0, 0), (1, 1)))
    test = Interactions.from_frame(frame((0, 1), (2, 0)))
    with pytest.raises(InputError, match="share one universe"):
        Split(train, test)
    test_part = train.select([True, False])
    with pytest.raises(InputError, match="share one universe"):
        Split(train.select([False, True]), test_part, test)
    for name in ("n_overlap_dropped", "n_tied_users", "n_purged", "n_repeats_merged"):
        with pytest.raises(InputError, match=f"{name} must be an integer >= 0"):
            Split(train.select([False, True]), test_part, **{name: -1})
    log_with_repeat = Interactions.from_frame(frame((0, 0), (1, 1), (1, 1)), duplicates="keep")
    first_row = log_with_repeat.select([0])
    other_rows = log_with_repeat.select([1, 2])
    assert len(Split(other_rows, first_row).train) == 2
    with pytest.raises(InputError, match=r"^the test part repeats 1 pairs; .* Pass test\.distinct\.$"):
        Split(first_row, other_rows)
    with pytest.raises(InputError, match=r"^the validation part repeats 1 pairs; .* validation\.distinct\.$"):
        Split(log_with_repeat.select([]), first_row, other_rows)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (frame((0, 0)), r"DataFrame\. Make one with split_random\(ipseval\.read\(frame\)\)"),
        (
            Interactions.from_frame(frame((0, 0))),
            r"Interactions\. Make one with split_random\(log\.positives\)",
        ),
        (3, r"int\. Make one with split_random\(log\), or with Split\.from_frames"),
    ],
)
def test_the_error_for_an_object_that_is_not_a_split_suggests_how_to_make_one(value, message) -> None:
    with pytest.raises(InputError, match=f"^split must be a Split; got {message}"):
        rank_positives([[1.0]], value)


def test_the_error_for_parts_that_are_not_interactions_suggests_how_to_make_them() -> None:
    log = Interactions.from_frame(frame((0, 0), (1, 1)))
    clicks = ImpressionLog.from_frame(frame((0, 0)).assign(clicked=1))
    for part, message in (
        (clicks, "ImpressionLog. Pass its positives: train.positives."),
        (Split(log.select([0]), log.select([1])), "Split. Pass its training part, split.train."),
        (
            frame((0, 0)),
            "DataFrame. Pass ipseval.read(train), which finds the columns, "
            "or the data to Split.from_frames(train, test).",
        ),
        (3, "int. Pass the data to Split.from_frames(train, test)."),
    ):
        with pytest.raises(InputError) as error:
            Split(part, log)
        assert str(error.value) == f"train must be Interactions; got {message}"


@pytest.mark.parametrize(
    "keep", [[-3], [2], [0.0], [True], [True, False, True], [[True, False]], [[0]], ["a"], [0, 0]]
)
def test_rows_are_chosen_by_a_mask_or_by_numbers(keep) -> None:
    log = Interactions.from_frame(frame((0, 0), (1, 1)).assign(stars=[4, 5]), value="stars")
    for rows, items in ([-2], [0]), ([1, -2], [1, 0]), ([True, False], [0]), ([], []):
        assert log.select(rows).item.tolist() == items
    message = (
        "1 of 2 rows repeat an earlier"
        if keep == [0, 0]
        else r"keep must be a mask \(2,\) or row numbers below 2"
    )
    with pytest.raises(InputError, match=message):
        log.select(keep)
    assert log.to_csr(values=True).toarray().tolist() == [[4, 0], [0, 5]]
    assert log.to_csr().toarray().tolist() == [[1, 0], [0, 1]]
    with pytest.raises(InputError, match="values=True needs a log with values"):
        Interactions.from_frame(frame((0, 0))).to_csr(values=True)


def test_a_log_checks_names_of_columns_and_counts() -> None:
    for options in ({"user": None}, {"item": 3}, {"value": 3}):
        with pytest.raises(InputError, match="must be the name of a column of the frame; got"):
            Interactions.from_frame(frame((0, 0)), **options)
    with pytest.raises(InputError, match="clicked must be the name of a column"):
        ImpressionLog.from_frame(frame((0, 0)), clicked=None)
    for name in ("n_duplicates_dropped", "n_users_removed", "n_items_removed", "n_pairs_removed"):
        with pytest.raises(InputError, match=f"{name} must be an integer >= 0"):
            Interactions([0], [0], [0], [0], **{name: -1})
    assert len(Interactions([], [], [0], [0])) == 0
    for options, text in (
        ({"value": [1.0, 2.0]}, "must have one length"),
        ({"timestamp": [[1]]}, "timestamp must be one-dimensional"),
        ({"repeats": 1}, "repeats must be True or False"),
        ({"row_counts": []}, "row_counts must be tuple"),
    ):
        with pytest.raises(InputError, match=text):
            Interactions([0], [0], [0], [0], **options)


def test_a_split_of_parts_has_leakage_where_both_parts_have_times_and_training_has_rows() -> None:
    timed_log = Interactions.from_frame(frame((0, 0), (1, 1)).assign(time=[2, 1]), timestamp="time")
    untimed_log = Interactions.from_frame(frame((0, 0), (1, 1)))
    first = [True, False]
    last = [False, True]
    assert Split(timed_log.select(first), timed_log.select(last)).leakage.n_leaking == 1
    assert Split(timed_log.select(first), untimed_log.select(last)).leakage is None
    assert Split(untimed_log.select(first), timed_log.select(last)).leakage is None
    assert Split.from_frames(None, timed_log).leakage is None


def test_a_test_set_without_training_items_excludes_nothing_and_counts_nobody_as_cold() -> None:
    split = Split.from_frames(None, frame(("a", 1), ("b", 2)), items=[1, 2, 3])
    assert (len(split.train), len(split.test), split.n_items) == (0, 2, 3)
    assert repr(split) == "Split(0 train, 2 test; 2 users, 3 items; given as frames)"
    scores = np.array([[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]])
    ranked = rank_positives(scores, split)
    assert ranked.n_above.tolist() == [0, 1]
    assert ranked.n_candidates.tolist() == [3, 3]
    assert ranked.candidates == "all items"
    assert set(split.data["what"]) == {"rows read", "train pairs", "test pairs", "users in test"}
    with pytest.raises(InputError, match=r"fit\(popularity=counts\)"):
        PowerLawPropensity(gamma=0).fit(split.train)
    propensity = PowerLawPropensity(gamma=0, unseen="drop").fit(popularity=[4, 1, 0])
    assert propensity.item[:2].tolist() == [2.0, 1.0]  # P ∝ √n*


def test_the_parts_of_a_split_may_be_separate_logs() -> None:
    train = Interactions.from_frame(frame(("a", 1)))
    test = Interactions.from_frame(frame(("b", 1), ("a", 2)))
    split = Split.from_frames(train, test)
    assert split.item_ids.tolist() == [1, 2]
    assert pairs(split.test) == {("b", 1), ("a", 2)}
    for empty, text in ((frame()[:0], "pass train=None"), (None, "test is None")):
        with pytest.raises(InputError, match=text):
            Split.from_frames(empty, None if empty is None else test)


def test_ratings_in_a_frame_need_a_threshold_and_other_values_do_not() -> None:
    train = pd.DataFrame({"user": [0, 0, 1], "item": [0, 1, 2], "rating": [5, 5, 5]})
    test = pd.DataFrame({"user": [0, 1, 1], "item": [2, 0, 1], "rating": [1, 3, 5]})
    with pytest.raises(InputError, match=r"the test frame.*threshold must be given"):
        Split.from_frames(train, test)
    assert len(Split.from_frames(train, test, threshold=3).test) == 2
    assert len(Split.from_frames(train, test.assign(rating=["low", "high", "high"])).test) == 3
    words = test.assign(rating=["low", "high", "high"], overall=[1, 3, 5], stars=[1, 3, 5])
    with pytest.raises(InputError, match=r"the test frame: threshold .* ratings in column 'stars'"):
        Split.from_frames(train.drop(columns="rating"), words)
    assert len(Split.from_frames(train, test.assign(rating=1)).test) == 3
    assert len(Split.from_frames(train, test.rename(columns={"rating": "minutes"})).test) == 3


def test_a_split_or_its_two_parts_are_passed() -> None:
    train = pd.DataFrame({"user": [0, 1], "item": [0, 1]})
    test = pd.DataFrame({"user": [0], "item": [1]})
    split = Split.from_frames(train, test)
    assert resolve_split(split, None, None) is split
    for parts in ((None, train, test), (train, None, test)):
        assert len(resolve_split(*parts).train) == 2
    for arguments, text in (
        ((split, train, test), "got both"),
        ((split, None, test), "got both"),
        ((None, None, None), "got neither"),
        ((None, train, None), "`train` requires `test`"),
        ((None, None, test), "`test` requires `train`"),
        ((None, train, ["recall@10"]), "got labels"),
    ):
        with pytest.raises(InputError, match=text):
            resolve_split(*arguments)
    with pytest.raises(InputError, match="threshold applies to `train` and `test`; got a split"):
        resolve_split(split, None, None, threshold=3.0)
