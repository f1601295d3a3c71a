"""Allowed items and lists of candidates, computed by hand, and invalid candidates."""

from __future__ import annotations

import re
import warnings

import numpy as np
import pandas as pd
import pytest

from ipseval import InputError, Split
from ipseval.errors import DataWarning
from ipseval.ranking.candidates import Batch
from tests.inside.ranking import (
    CandidateLists,
    HeldOutPositives,
    as_candidates,
    keep_candidates,
    restrict_items,
    restrict_lists,
)
from tests.ranking.worlds import make_world

TRAIN = pd.DataFrame({"user": ["a", "a", "c"], "item": ["p", "s", "q"]})
TEST = pd.DataFrame(
    {"user": ["a", "a", "b", "c"], "item": ["r", "q", "p", "t"], "value": [2.0, 1.0, 3.0, 4.0]}
)
SPLIT = Split.from_frames(TRAIN.assign(value=1.0), TEST, items=list("pqrst"), value="value")
# Users a, b, c are 0, 1, 2 and items p … t are 0 … 4: the positives are 0-1, 0-2, 1-0 and 2-4, the training
# items 0-0, 0-3 and 2-1.
TARGETS = HeldOutPositives.from_split(SPLIT)


@pytest.mark.parametrize(
    "allowed",
    [
        ["t", "q", "t"],
        np.array(["q", "t"]),
        pd.Series(["t", "q"]),
        np.array([False, True, False, False, True]),
    ],
)
def test_allowed_items_are_ids_or_a_mask(allowed):
    codes = as_candidates(allowed, SPLIT, "m")[1]
    assert codes.tolist() == [1, 4]
    assert codes.dtype == np.int64


@pytest.mark.parametrize(
    ("allowed", "message"),
    [
        (
            [["p"], ["q", "r"]],
            "columns user and item; got [['p'], ['q', 'r']].",
        ),
        (np.array([["p", "q"]]), "columns user and item; got array([['p', 'q']]"),
        ("p", "columns user and item; got 'p'."),
        (100, "columns user and item; got 100. Pass SampledCandidates(100)."),
        (np.ones(4, dtype=bool), "candidates as a mask must have shape (5,); got (4,)."),
        (np.ones(6, dtype=bool), "candidates as a mask must have shape (5,); got (6,)."),
        (np.zeros(5, dtype=bool), "candidates is empty; at least one item must compete."),
        ([], "candidates is empty; at least one item must compete."),
    ],
)
def test_invalid_allowed_items_are_refused(allowed, message):
    with pytest.raises(InputError, match=re.escape(message)):
        as_candidates(allowed, SPLIT, "m")[1]


def test_a_mask_with_labels_is_aligned_and_lacks_none():
    mask = pd.Series([True, False, True, False, True], index=list("tsrqp"))
    assert as_candidates(mask, SPLIT, "m")[1].tolist() == [0, 2, 4]
    with pytest.raises(InputError, match="a label for each of 5 items; 2 are missing"):
        as_candidates(mask[:3], SPLIT, "m")


def test_a_single_item_may_be_allowed():
    assert as_candidates(["p"], SPLIT, "m")[1].tolist() == [0]
    assert as_candidates(np.arange(5) == 4, SPLIT, "m")[1].tolist() == [4]


def test_only_allowed_items_compete_and_are_excluded():
    with pytest.warns(DataWarning) as caught:
        targets = restrict_items(TARGETS, np.array([0, 1, 3]))
    assert str(caught[0].message) == (
        "2 of 4 test positives are not among the allowed items (first: 'a', 'r') and are excluded, because "
        "an item that does not compete has no rank. A candidate set must not depend on which interactions "
        "were observed."
    )
    assert (targets.user.tolist(), targets.item.tolist(), targets.gain.tolist()) == (
        [0, 1],
        [1, 0],
        [1.0, 3.0],
    )
    assert (targets.excluded_items.tolist(), targets.excluded_start.tolist()) == ([0, 3, 1], [0, 2, 2, 3])
    assert (targets.candidates_by_user.tolist(), targets.n_not_candidates) == ([1, 3, 2], 2)
    assert targets.candidates == "3 allowed items minus the user's training items"
    with pytest.warns(DataWarning, match="^1 of 2 test positives"):
        fewer_targets = restrict_items(targets, np.array([1, 4]))
    assert (fewer_targets.excluded_items.tolist(), fewer_targets.excluded_start.tolist()) == (
        [1],
        [0, 0, 0, 1],
    )
    assert (fewer_targets.candidates_by_user.tolist(), fewer_targets.n_not_candidates) == ([2, 2, 1], 3)


def test_lists_of_candidates_are_sorted_and_hold_no_training_items():
    pairs = pd.DataFrame({"user": list("caaacc"), "item": list("trpqqp")})
    lists = CandidateLists.from_frame(pairs, SPLIT, "m")
    assert (lists.start.tolist(), lists.item.tolist()) == ([0, 2, 2, 4], [1, 2, 0, 4])
    user, item = np.divmod(np.arange(15), 5)
    is_candidate = lists.contains(user, item, 5)
    assert np.flatnonzero(is_candidate).tolist() == [1, 2, 10, 14]
    with pytest.warns(DataWarning, match=r"^1 of 4 .* not among their user's candidates \(first: 'b', 'p'\)"):
        targets = restrict_lists(TARGETS, lists)
    assert (targets.user.tolist(), targets.item.tolist()) == ([0, 0, 2], [1, 2, 4])
    assert (targets.candidates_by_user.tolist(), targets.n_not_candidates) == ([2, 0, 2], 1)
    assert targets.candidates == "each user's own list minus the user's training items"


def test_invalid_lists_of_candidates_are_refused():
    assert as_candidates("all", SPLIT, "m") == (None, None)
    for candidates, message in (
        ("some", "candidates must be 'all', SampledCandidates, ids"),
        (TRAIN[["user"]], "candidates must be 'all', SampledCandidates, ids"),
        (TRAIN, "m: every candidate is a training item of its user."),
        (TRAIN.assign(item="x"), "m (candidates): "),
    ):
        with pytest.raises(InputError, match=f"^{re.escape(message)}"):
            as_candidates(candidates, SPLIT, "m")


def test_targets_that_all_compete_are_returned_unchanged_and_none_is_an_error():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert keep_candidates(TARGETS, np.ones(4, dtype=bool), "leave") is TARGETS
    with pytest.raises(InputError, match=r"^none of the 4 test positives can be ranked: they leave\.$"):
        keep_candidates(TARGETS, np.zeros(4, dtype=bool), "leave")
    with pytest.warns(DataWarning, match=r"^3 of 4 test positives leave \(first: 'a', 'q'\)"):
        targets = keep_candidates(TARGETS, np.arange(4) == 3, "leave")
    assert (
        targets.user.tolist(),
        targets.item.tolist(),
        targets.gain.tolist(),
        targets.n_not_candidates,
    ) == (
        [2],
        [4],
        [4.0],
        3,
    )


def test_a_batch_holds_users_with_positives_or_all_users():
    targets = HeldOutPositives.from_split(
        make_world(3, 4, {(0, 0), (1, 2), (2, 1)}, {(0, 1), (2, 0), (2, 3)}).split
    )
    batch = Batch.from_targets(targets)
    full_batch = Batch.from_targets(targets, all_users=True)
    assert (batch.users.tolist(), batch.start.tolist(), batch.item.tolist()) == ([0, 2], [0, 1, 3], [1, 0, 3])
    assert (batch.excluded_items.tolist(), batch.excluded_start.tolist()) == ([0, 1], [0, 1, 2])
    assert (full_batch.users.tolist(), full_batch.start.tolist(), full_batch.item.tolist()) == (
        [0, 1, 2],
        [0, 1, 1, 3],
        [1, 0, 3],
    )
    assert (full_batch.excluded_items.tolist(), full_batch.excluded_start.tolist()) == (
        [0, 2, 1],
        [0, 1, 2, 3],
    )


def test_a_batch_has_the_users_with_positives_or_all_users():
    # Of four users the second has no positive, and the last neither positive nor training item.
    split = make_world(4, 5, {(0, 4), (0, 1), (1, 0), (2, 3)}, {(2, 1), (0, 2), (2, 0)}).split
    targets = HeldOutPositives.from_split(split)
    batch = Batch.from_targets(targets)
    assert (batch.users.tolist(), batch.start.tolist(), batch.item.tolist()) == ([0, 2], [0, 1, 3], [2, 0, 1])
    assert (batch.excluded_start.tolist(), batch.excluded_items.tolist()) == ([0, 2, 3], [1, 4, 3])
    assert (batch.row.tolist(), batch.positives) == ([0, 1, 1], slice(0, 3))
    full_batch = Batch.from_targets(targets, all_users=True)
    assert (full_batch.users.tolist(), full_batch.start.tolist()) == ([0, 1, 2, 3], [0, 1, 1, 3, 3])
    assert (full_batch.excluded_start.tolist(), full_batch.excluded_items.tolist()) == (
        [0, 2, 3, 4, 4],
        [1, 4, 0, 3],
    )
    assert full_batch.row.tolist() == [0, 2, 2]


def test_parts_of_a_batch_know_their_positives():
    split = make_world(4, 5, {(0, 4), (0, 1), (1, 0), (2, 3)}, {(2, 1), (0, 2), (2, 0), (3, 2)}).split
    batch = Batch.from_targets(HeldOutPositives.from_split(split), all_users=True)
    part = batch.part(1, 4)
    assert (part.users.tolist(), part.start.tolist(), part.item.tolist()) == (
        [1, 2, 3],
        [0, 0, 2, 3],
        [0, 1, 2],
    )
    assert (part.excluded_start.tolist(), part.excluded_items.tolist()) == ([0, 1, 2, 2], [0, 3])
    assert part.positives == slice(1, 4)
    last_part = part.part(2, 3)
    assert (last_part.users.tolist(), last_part.item.tolist(), last_part.positives) == ([3], [2], slice(3, 4))
    assert (last_part.excluded_start.tolist(), last_part.excluded_items.tolist()) == ([0, 0], [])
    is_chosen, chosen_batch = batch.choose(np.array([False, True, True, False]))
    assert is_chosen.tolist() == [False, True, True, False]
    assert (chosen_batch.users.tolist(), chosen_batch.start.tolist(), chosen_batch.item.tolist()) == (
        [1, 2],
        [0, 0, 2],
        [0, 1],
    )
    assert (chosen_batch.excluded_start.tolist(), chosen_batch.excluded_items.tolist()) == ([0, 1, 2], [0, 3])
    assert chosen_batch.positives == slice(0, 2)
    # Without item 4, items 0 … 3 have the codes 3, 2, 1, 0.
    restricted_batch = batch.restrict_items(np.array([3, 2, 1, 0, -1]))
    assert restricted_batch.item.tolist() == [1, 3, 2, 1]
    assert (restricted_batch.excluded_start.tolist(), restricted_batch.excluded_items.tolist()) == (
        [0, 1, 2, 3, 3],
        [2, 3, 0],
    )


def test_positives_that_are_not_candidates_are_counted_in_addition_to_those_before():
    with pytest.warns(DataWarning, match=r"^1 of 4 test positives are rare \(first: 'a', 'q'\)"):
        first_targets = keep_candidates(TARGETS, np.array([False, True, True, True]), "are rare")
    with pytest.warns(DataWarning, match=r"^2 of 3 test positives are rare \(first: 'b', 'p'\)"):
        second_targets = keep_candidates(first_targets, np.array([True, False, False]), "are rare")
    assert (first_targets.n_not_candidates, second_targets.n_not_candidates) == (1, 3)
    assert (second_targets.user.tolist(), second_targets.item.tolist(), second_targets.gain.tolist()) == (
        [0],
        [2],
        [2.0],
    )
    ranked = second_targets.build_ranks(np.array([0]), np.array([1]))
    assert (ranked.n_not_candidates, ranked.n_candidates.tolist()) == (3, [3])
    assert ranked.candidates_by_user.tolist() == [3, 5, 4]
    assert second_targets.build_ranks(np.array([0]), np.array([1]), candidates="two").candidates == "two"
