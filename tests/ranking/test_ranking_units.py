"""Parts of the ranking, each computed by hand."""

from __future__ import annotations

import sys
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from ipseval import ComputeOptions, InputError, RankedPositives, SampledCandidates, Split, rank_positives
from ipseval.errors import DataWarning, IdentificationWarning
from ipseval.ranking import top_items
from ipseval.ranking.kernels import numpy_kernels
from ipseval.ranking.kernels.blocks import Shape
from ipseval.ranking.kernels.numpy_kernels import SLOTS, ThresholdCounter, _take_rows
from ipseval.ranking.ranked_positives import check_ranks_of_split, check_same_positives
from ipseval.utils.compute import Resources
from tests.inside.ranking import (
    DenseScorer,
    Sampling,
    TopKCollector,
    TopListBuilder,
    _factor_topk,
    _factors,
    count_ranked_above,
    entries_above_bound,
    is_list_frame,
    to_comparable,
    top_lists,
)
from tests.inside.ranking import _rank_counts as _run

NOTHING = np.zeros(0, dtype=np.int64)


@pytest.mark.parametrize(
    ("columns", "is_list"),
    [
        (("user", "item", "rank"), True),
        (("user", "item", "score"), True),
        (("user", "item", "rank", "score", "more"), True),
        (("user", "item"), False),
        (("user", "rank"), False),
        (("item", "score"), False),
        (("rank", "score"), False),
    ],
)
def test_a_frame_of_lists_has_users_items_and_their_order(columns, is_list):
    assert is_list_frame(pd.DataFrame({name: [1] for name in columns})) == is_list


def test_rows_of_consecutive_users_are_no_copy():
    scores = np.arange(20.0).reshape(5, 4)
    scorer = DenseScorer(scores)
    for users, is_view in (([1, 2, 3], True), ([4], True), ([0, 2], False), ([1, 2, 4], False)):
        rows = scorer.block(np.array(users))
        np.testing.assert_array_equal(rows, scores[users])
        assert np.shares_memory(rows, scores) == is_view


@pytest.mark.parametrize(
    ("stored_type", "compared_type"),
    [("f2", "f4"), ("f4", "f4"), ("f8", "f8"), ("i1", "f8"), ("u4", "f8"), ("i8", "i8"), ("u8", "i8")],
)
@pytest.mark.parametrize("order", "<>")
def test_scores_are_compared_in_a_type_that_loses_nothing(order, stored_type, compared_type):
    scores = to_comparable(np.array([1, 0, 100], dtype=order + stored_type))
    assert scores.dtype == np.dtype(compared_type)
    assert scores.dtype.isnative
    assert (scores - scores[1]).tolist() == [1, 0, 100]


def test_scores_that_no_kernel_compares_are_refused():
    for scores in (np.array(["a"]), np.array([1j]), np.array([True])):
        with pytest.raises(InputError, match=r"scores must be real numbers of at most 64 bits; got"):
            to_comparable(scores)
    if np.dtype(np.longdouble).itemsize > 8:
        with pytest.raises(InputError, match="got"):
            to_comparable(np.zeros(2, dtype=np.longdouble))


@pytest.mark.parametrize(
    ("missing", "pool", "is_known"),
    [
        ((), "candidates", True),
        (("drawn_pairs",), "candidates", False),
        (("order",), "candidates", False),
        (("drawn_pairs",), "unobserved", True),
        (("drawn_pairs",), "unobserved+positives", True),
        (("order", "drawn_pairs"), "unobserved", False),
    ],
)
def test_positives_are_removed_from_samples_with_a_record_of_draws(missing, pool, is_known):
    fields = {"order": np.array([0, 1]), "drawn_pairs": np.array([[0, 1], [1, 0]])}
    for name in missing:
        del fields[name]
    record = Sampling(
        n_sampled=3,
        n_candidates=np.array([9, 9]),
        replacement=True,
        uniform=True,
        pool=pool,
        **fields,
    )
    user = np.array([0, 0])
    mask = np.array([True, False])
    n_removed = np.array([1])
    if not is_known:
        with pytest.raises(InputError, match="do not say which positives were drawn; rank the"):
            record.remove_positives(user, mask, n_removed)
        return
    above, tied, n_listed, remaining = record.remove_positives(user, mask, n_removed)
    n_lost = {"candidates": 1, "unobserved": 0, "unobserved+positives": 1}[pool]
    # The first positive ranks above the second, and was drawn once as its competitor.
    assert (above[1], tied[1], n_listed[1]) == (n_lost, 0, n_lost)
    assert remaining.n_candidates[1] == (8 if pool == "candidates" else 9)


@pytest.mark.parametrize("keep", [np.array([False, True, True]), slice(1, 3)])
def test_a_record_of_chosen_positives_holds_the_draws_among_them(keep):
    pairs = np.array([[0, 1], [1, 0], [1, 2], [2, 1], [2, 0]])
    record = Sampling(
        n_sampled=3,
        n_candidates=np.array([7, 8, 9]),
        replacement=True,
        uniform=False,
        pool="candidates",
        above_estimate=np.array([0.5, 1.5, 2.5]),
        tied_estimate=np.array([0.0, 1.0, 3.0]),
        order=np.array([0, 1, 2]),
        drawn_pairs=pairs,
        drawn_inverse=np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
    )
    subset = record.select(keep)
    assert (subset.drawn_pairs.tolist(), subset.drawn_inverse.tolist()) == ([[0, 1], [1, 0]], [3.0, 4.0])
    assert (subset.n_candidates.tolist(), subset.above_estimate.tolist()) == ([8, 9], [1.5, 2.5])
    assert (subset.order.tolist(), subset.rank_estimate.tolist()) == ([1, 2], [3.0, 5.0])
    assert (subset.n_sampled, subset.replacement, subset.uniform) == (3, True, False)


def make_record(pool: str, **fields: object) -> Sampling:
    """Return the record of three positives of a user, of which the last two tie, and of one of another."""
    values = {"order": np.array([0, 1, 1, 0]), **fields}
    return Sampling(
        n_sampled=3, n_candidates=np.full(4, 9), replacement=True, uniform=True, pool=pool, **values
    )


def test_positives_join_a_shared_list_unless_they_are_in_it():
    user = np.array([0, 0, 0, 1])
    alone = [[0, 1, 1, 0], [0, 1, 1, 0], [2, 2, 2, 0]]
    # Drawn were the first positive as a competitor of the second, and the second as one of the third.
    drawn = [[0, 0, 1, 0], [0, 1, 0, 0], [2, 1, 1, 0]]
    pairs = np.array([[1, 0], [2, 1]])
    no_pairs = np.zeros((0, 2), dtype=np.int64)
    for record, expected in (
        (make_record("unobserved"), alone),
        (make_record("unobserved", drawn_pairs=pairs), alone),
        (make_record("candidates", drawn_pairs=no_pairs), alone),
        (make_record("candidates", drawn_pairs=pairs), drawn),
        (make_record("unobserved+positives"), [[0] * 4] * 3),
    ):
        assert [counts.tolist() for counts in record.count_in_shared_list(user)] == expected
    for record in (make_record("candidates"), make_record("unobserved", order=None)):
        with pytest.raises(InputError, match="do not say which positives were drawn"):
            record.count_in_shared_list(user)


def test_a_rank_estimate_needs_both_estimates_above_and_tied():
    above_values = np.array([2.0, 0.0])
    tied_values = np.array([1.0, 0.0])
    for above_estimate, tied_estimate, estimate in (
        (above_values, tied_values, [3.5, 1.0]),
        (above_values, None, None),
        (None, tied_values, None),
    ):
        record = Sampling(
            n_sampled=3,
            n_candidates=np.array([7, 8]),
            replacement=True,
            uniform=False,
            above_estimate=above_estimate,
            tied_estimate=tied_estimate,
        )
        if estimate is None:
            assert record.rank_estimate is None
        else:
            assert record.rank_estimate.tolist() == estimate


class RecordingHandler:
    """A handler that records the pairs of users and items."""

    def __init__(self) -> None:
        self.pairs: list[tuple[int, int]] = []

    def __call__(self, user, item, n_above, n_tied) -> None:
        self.pairs += zip(user.tolist(), item.tolist(), strict=True)


@pytest.mark.parametrize(("all_ties", "items"), [(False, [0, 2]), (True, [0, 2, 3, 4])])
def test_shared_scores_that_tie_with_the_last_are_collected_on_request(all_ties, items):
    handler = RecordingHandler()
    scores = np.array([5.0, 9.0, 5.0, 5.0, 5.0, 1.0])  # user 0 may not have item 1
    top = TopKCollector(2, handler, np.array([7]), exhaustive=all_ties)
    top.add_shared_scores(scores, np.array([0, 1]), np.array([1]))
    assert handler.pairs == [(7, item) for item in items]


def test_the_warning_states_the_share_of_observed_positives():
    # Of a user with three positives 2 of 12 competitors are positives, of one with one 0 of 10.
    pairs = pd.DataFrame({"user": [0, 0, 0, 1], "item": [1, 2, 3, 1]})
    split = Split.from_frames(pd.DataFrame({"user": [0], "item": [0]}), pairs, items=range(30))
    scores = np.zeros((2, 30))
    candidates = SampledCandidates(10, pool="unobserved+positives", rng=0)
    with pytest.warns(IdentificationWarning, match=r"the 2\.0 observed .* competitors \(8\.3% of them\)"):
        rank_positives(scores, split, candidates=candidates)
    candidates = SampledCandidates(8, pool="unobserved", rng=0)
    with pytest.warns(IdentificationWarning, match=r"the 2\.0 observed positives per user cannot be drawn"):
        rank_positives(scores, split, candidates=candidates)
    weights = np.where(np.arange(30) % 3, 1.0, 0.0)
    candidates = SampledCandidates(8, distribution=weights, rng=0)
    with pytest.warns(DataWarning, match="^10 of 30 items have probability 0"):
        rank_positives(scores, split, candidates=candidates)


def test_an_empty_catalogue_has_no_best_items():
    handler = RecordingHandler()
    TopKCollector(2, handler, np.array([0])).add_shared_scores(np.zeros(0), np.array([0, 0]), NOTHING)
    TopKCollector(2, handler, np.array([0])).add_score_matrix(np.zeros((1, 0)), NOTHING, NOTHING)
    assert handler.pairs == []
    assert [array.size for array in entries_above_bound(np.zeros((2, 0)), np.zeros(2))] == [0, 0, 0]


@pytest.mark.parametrize("width", [1, 7, 8, 9, 2031, 2032, 2033, 2040, 2041, 2048, 2049, 4080, 4081, 4088])
def test_scores_are_counted_in_rows_of_any_width(width):
    # A lane of a byte holds 255: in a row where all scores count it would overflow first.
    counter = ThresholdCounter()
    counter.set_thresholds(np.array([0, 1, 2]), np.array([0.5, 2.0]), np.array([1.0, 2.0]))
    tile = np.ones((2, width))
    tile[1, 0] = 2.0
    above, reach = counter.count(tile, np.zeros(2, dtype=np.int64))
    assert (above.tolist(), reach.tolist()) == ([0, 0], [width, 1])
    tile[:] = 3.0
    assert [counts.tolist() for counts in counter.count(tile, np.zeros(2, dtype=np.int64))] == [
        [width] * 2
    ] * 2


@pytest.mark.parametrize("n_thresholds", [1, SLOTS, SLOTS + 1, 60])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i8"])
def test_scores_are_counted_for_few_and_many_thresholds(n_thresholds, dtype):
    rng = np.random.default_rng(n_thresholds)
    sizes = np.array([n_thresholds, 0, 3, n_thresholds])
    start = np.append(0, np.cumsum(sizes))
    lo = rng.integers(0, 50, size=start[-1]).astype(dtype)
    hi = lo + rng.integers(0, 9, size=lo.size).astype(dtype)  # up to nine scores between, one after the other
    counter = ThresholdCounter()
    counter.set_thresholds(start, lo, hi)
    row = np.repeat(np.arange(4), sizes)
    for width in (1, 30, 700):
        tile = rng.integers(0, 60, size=(4, width)).astype(dtype)
        hidden = np.zeros(4, dtype=np.int64)
        if dtype != "i8":
            tile[rng.random(tile.shape) < 0.1] = np.nan
            hidden = np.isnan(tile).sum(axis=1)
        above, reach = counter.count(tile, hidden)
        assert above.tolist() == (tile[row] > hi[:, None]).sum(axis=1).tolist()
        assert reach.tolist() == (tile[row] >= lo[:, None]).sum(axis=1).tolist()


def test_numba_is_loaded_after_many_comparisons_of_a_process(monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(_run.Work, "comparisons", 0.0)
    assert _run.select_kernels(None, 4e8).NAME == "numpy"
    assert _run.select_kernels("numpy", 2e8).NAME == "numpy"  # what is named does not count
    assert _run.select_kernels(None, 1e8).NAME == "numpy"
    assert _run.select_kernels(None, 1).NAME == "numba"
    assert _run.select_kernels(None, 1).NAME == "numba"
    assert _run.select_kernels("numpy", 1e12).NAME == "numpy"


def test_the_bar_reaches_the_number_of_users(monkeypatch):
    records = []

    class Bar:
        def __init__(self, **options) -> None:
            records.append((options["total"], options["delay"], options["disable"], []))
            self.n = 0

        def update(self, n) -> None:
            self.n += n
            records[-1][3].append(n)

        def __enter__(self):
            return self

        def __exit__(self, *_) -> None:
            pass

    monkeypatch.setattr("ipseval.utils.compute.quiet_tqdm", lambda: Bar)
    from ipseval import ComputeOptions

    users = np.arange(10)
    split = Split.from_frames(
        pd.DataFrame({"user": [0], "item": [0]}), pd.DataFrame({"user": users, "item": 1}), items=[0, 1, 2]
    )
    compute = ComputeOptions(n_threads=1, block_size=4, engine="numpy")
    scores = np.zeros((10, 3))
    for model in (scores, lambda users: scores[users], (np.ones((10, 2)), np.ones((3, 2)))):
        rank_positives(model, split, compute=replace(compute, progress=True))
    steps = [record[3] for record in records]
    assert [record[:3] for record in records] == [(10, 2.0, False)] * 3
    assert [sum(record) for record in steps] == [10] * 3
    assert steps[:2] == [[4, 4, 2]] * 2
    rank_positives(scores, split, compute=compute)
    rank_positives(scores, split, compute=replace(compute, progress=False))
    assert [record[2] for record in records[3:]] == [None, True]


def test_an_engine_is_available_if_it_is_installed_loaded_or_not(monkeypatch):
    pytest.importorskip("numba")
    kernels = _run.select_kernels("numba", 0)
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "numba")
        assert _run.select_kernels("numba", 0) is kernels


def test_counted_entries_above_and_tied_belong_to_the_same_group():
    is_counted = np.array([False, True, True, True])
    above, tied = count_ranked_above(np.array([0, 0, 0, 1]), np.array([4, 2, 4, 9]), is_counted)
    assert (above.tolist(), tied.tolist()) == ([1, 0, 1, 0], [1, 1, 1, 1])


RANKS = {"user": [0, 0, 1], "item": [0, 2, 1], "n_above": [0, 2, 1], "n_tied": [2, 0, 1]}
RANKS |= {"n_candidates": [3, 3, 3], "user_ids": ["a", "b"], "item_ids": [5, 6, 7]}


CONTRADICTIONS = [
    ({"user": [0, 0, 2]}, "user must hold codes from 0 to 1; 1 of 3 are not."),
    ({"user": [-1, 0, 1]}, "user must hold codes from 0 to 1; 1 of 3 are not."),
    ({"item": [0, 3, 1]}, "item must hold codes from 0 to 2; 1 of 3 are not."),
    ({"item": [2, 0, 1]}, "ranked positives must be sorted by user, then item, without repetition."),
    ({"item": [0, 0, 1]}, "ranked positives must be sorted by user, then item, without repetition."),
    (
        {"n_above": [0, 3, -1]},
        "n_above and n_tied must be >= 0 and, together, below n_candidates; 2 of 3",
    ),
    ({"n_tied": [3, 0, -1]}, "n_above and n_tied must be >= 0 and, together, below n_candidates; 2 of 3"),
    ({"n_above": [0, -1, 1], "n_tied": [2, -1, 1]}, "together, below n_candidates; 1 of 3"),
    ({"max_rank": 1}, "must be >= 0, n_above at most max_rank = 1; 1 of 3 positives break this."),
    ({"max_rank": -1}, "max_rank must be an integer >= 0"),
    ({"n_above": [0, 1]}, r"n_above must have shape \(3,\) like user; got \(2,\)."),
    ({"left_out": [True]}, r"left_out must have shape \(2,\) like user_ids; got \(1,\)."),
    ({"left_out": [0, 1]}, "left_out must hold True or False; got dtype int64."),
    ({"n_tied": [2.0, 0, 1]}, "n_tied must hold whole numbers; got dtype float64."),
    ({"cluster": [0, 0]}, "cluster and cluster_ids go together."),
    ({"cluster": [0, 1], "cluster_ids": ["x"]}, "cluster must hold codes from 0 to 0; 1 of 3 are not."),
    ({"gain": [1, np.inf, 1]}, "gain"),
    ({"user_ids": ["a", "b", "a"]}, "user_ids repeats 1 of 3 ids; each id may occur once."),
    ({"item_ids": [[5, 6, 7]]}, r"item_ids must be one-dimensional; got shape \(1, 3\)."),
]


def test_ranks_that_contradict_each_other_are_refused():
    for change, message in CONTRADICTIONS:
        with pytest.raises(InputError, match=message):
            RankedPositives(**RANKS | change)


def test_sums_over_users_need_a_value_of_each_positive():
    ranked = RankedPositives(**RANKS, gain=[0.0, 1, 2], left_out=[False, True], max_rank=2)
    assert (ranked.starts.tolist(), ranked.counts.tolist(), ranked.segment.tolist()) == (
        [0, 2],
        [2, 1],
        [0, 0, 1],
    )
    assert ranked.sum_by_user(np.array([1.0, 2, 4])).tolist() == [3, 4]
    assert ranked.mean_by_user(np.array([1.0, 2, 4]), np.array([3.0, 1, 5])).tolist() == [1.25, 4]
    assert ranked.in_one_list is ranked
    for wrong_size in (np.ones(2), np.ones(4)):
        with pytest.raises(InputError, match="values must have one entry for each of 3 positives"):
            ranked.sum_by_user(wrong_size)
        for values, weights in ((wrong_size, np.ones(3)), (np.ones(3), wrong_size)):
            with pytest.raises(InputError, match="values and weights must have one entry for each of 3 pos"):
                ranked.mean_by_user(values, weights)


def test_users_are_left_out_in_addition_to_those_before():
    split = Split.from_frames(None, pd.DataFrame({"user": range(4), "item": range(4)}))
    ranked = rank_positives(np.eye(4), split)
    first = ranked.exclude_users(np.array([True, False, False, False]))
    second = first.exclude_users(np.array([False, False, True, False]))
    assert first.left_out.tolist() == [True, False, False, False]
    assert second.left_out.tolist() == [True, False, True, False]
    assert second.user.tolist() == [1, 3]


def test_lists_that_do_not_fit_in_memory_are_refused():
    k = 2**62  # no array has as many entries
    with pytest.raises(InputError, match=f"lists of {k:,} items for 2 users need too much memory"):
        TopListBuilder(np.arange(2), 2, k)


def test_ranks_of_one_table_are_of_the_same_pairs_units_and_candidates():
    values = {
        "user": [0, 1, 1],
        "item": [0, 1, 2],
        "n_above": [0, 0, 1],
        "n_tied": [0, 0, 0],
        "n_candidates": [4, 4, 4],
        "user_ids": [7, 8],
        "item_ids": range(4),
        "cluster": [0, 1],
        "cluster_ids": ["a", "b"],
    }
    ranked = RankedPositives(**values)
    check_same_positives({"a": ranked, "b": RankedPositives(**values | {"n_above": [3, 2, 0]})})
    for change in (
        {"user": [0, 0, 1]},
        {"item": [0, 1, 3]},
        {"cluster": [0, 0]},
        {"user_ids": [7, 9]},
        {"item_ids": range(1, 5)},
    ):
        with pytest.raises(InputError, match="'b' and 'a' rank different test positives"):
            check_same_positives({"a": ranked, "b": RankedPositives(**values | change)})
    with pytest.raises(InputError, match="'b' and 'a' rank different test positives"):
        check_same_positives({"a": ranked, "b": ranked.select(np.array([True, True, False]))})
    for change in ({"n_candidates": [4, 4, 5]}, {"candidates": "others"}):
        with pytest.raises(InputError, match="'b' is ranked among other candidates"):
            check_same_positives({"a": ranked, "b": RankedPositives(**values | change)})


def test_ranks_describe_themselves():
    ranked = RankedPositives(**RANKS)
    assert (
        repr(ranked) == "RankedPositives(3 positives of 2 users; all items minus the user's training items)"
    )
    assert (len(ranked), ranked.n_population, ranked.users.tolist()) == (3, 2, [0, 1])
    assert (ranked.has_ties, ranked.select(np.array([False, True, False])).has_ties) == (True, False)
    assert ranked.by_rank.tolist() == [0, 1, 2]
    swapped_ranks = RankedPositives(**RANKS | {"n_above": [2, 0, 1], "n_tied": [0, 2, 1]})
    assert swapped_ranks.by_rank.tolist() == [1, 0, 2]
    for record, words in (
        (make_record("candidates"), "uniform, with replacement, from 'candidates'"),
        (replace(make_record("unobserved"), uniform=False), "weighted, with replacement, from 'unobserved'"),
        (replace(make_record("candidates"), replacement=False), "uniform, without replacement, from"),
    ):
        assert repr(record).startswith(f"Sampling(3 competitors of each of 4 positives, {words}")


def test_ranks_without_positives_have_no_users_and_no_sums():
    nothing = dict.fromkeys(("user", "item", "n_above", "n_tied", "n_candidates"), NOTHING)
    ranked = RankedPositives(**nothing, user_ids=["a", "b"], item_ids=[5, 6])
    assert [array.size for array in (ranked.starts, ranked.counts, ranked.users, ranked.segment)] == [0] * 4
    assert ranked.sum_by_user(np.zeros(0)).size == 0
    assert not ranked.has_ties
    with pytest.raises(InputError, match="there is no positive to evaluate"):
        check_same_positives({"a": ranked})


def test_units_are_the_persons_of_queries_or_the_users():
    users = np.array([1, 0, 1])
    ranked = RankedPositives(**RANKS)
    assert ranked.unit(users) is users
    assert ranked.unit_ids.tolist() == ["a", "b"]
    of_persons = RankedPositives(**RANKS, cluster=[2, 0], cluster_ids=["x", "y", "z"])
    assert of_persons.unit(users).tolist() == [0, 2, 0]
    assert of_persons.unit_ids.tolist() == ["x", "y", "z"]


LISTED = {
    "user": [0, 0, 1, 2, 4],
    "item": [0, 2, 1, 0, 3],
    "n_above": [0, 3, 1, 3, 2],
    "n_tied": [0] * 5,
    "n_candidates": [9, 9, 9, 9, 2],
    "user_ids": range(5),
    "item_ids": range(9),
    "max_rank": 3,
}


def test_lists_are_counted_by_their_length_among_users_with_positives():
    ranked = RankedPositives(**LISTED, list_length=[1, 2, 0, 3, 2])
    # Of users 0, 1, 2 and 4: the list of user 4 holds both of its candidates, so it is complete.
    assert ranked.list_counts(3).tolist() == [1, 1, 1, 1]
    assert ranked.list_counts(2).tolist() == [1, 1, 2]
    assert ranked.list_counts(1).tolist() == [1, 3]
    assert ranked.list_counts(0).tolist() == [4]
    assert RankedPositives(**LISTED).list_counts(2).tolist() == [0, 0, 4]
    for depth in (-1, 1.5):
        with pytest.raises(InputError, match=rf"depth must be an integer >= 0; got {depth}"):
            ranked.list_counts(depth)


def test_lists_are_padded_with_misses_up_to_a_longer_length():
    ranked = RankedPositives(**LISTED)
    for depth in (1, 2, 3):
        assert ranked.pad_lists(depth) is ranked
    padded_ranks = ranked.pad_lists(4)
    assert (padded_ranks.n_above.tolist(), padded_ranks.max_rank) == ([0, 4, 1, 4, 2], 4)
    assert padded_ranks.pad_lists(7).n_above.tolist() == [0, 7, 1, 7, 2]
    whole_ranking = RankedPositives(**RANKS)
    assert whole_ranking.pad_lists(100) is whole_ranking


def test_a_selection_of_all_positives_is_the_same_object():
    ranked = RankedPositives(**RANKS, gain=[1.0, 2.0, 3.0])
    assert ranked.select(np.ones(3, dtype=bool)) is ranked
    selection = ranked.select(np.array([True, False, True]))
    assert (selection.user.tolist(), selection.item.tolist(), selection.gain.tolist()) == (
        [0, 1],
        [0, 1],
        [1.0, 3.0],
    )
    assert selection.n_population == 2
    for method in (ranked.select, ranked.exclude_users):
        with pytest.raises(InputError, match="must hold True or False for each of"):
            method(np.array([1, 0]))


def test_positives_and_draws_of_a_user_make_one_list():
    record = make_record("candidates", drawn_pairs=np.array([[1, 0], [2, 1]]))
    ranked = RankedPositives(
        user=[0, 0, 0, 1],
        item=[0, 1, 2, 0],
        n_above=[1, 2, 1, 3],
        n_tied=[0, 0, 1, 0],
        n_candidates=[4] * 4,
        user_ids=[7, 8],
        item_ids=range(9),
        sampling=record,
    )
    # What each positive gains is worked out in test_positives_join_a_shared_list_unless_they_are_in_it.
    shared_ranks = ranked.in_one_list
    assert shared_ranks.n_above.tolist() == [1 + 0, 2 + 0, 1 + 1, 3 + 0]
    assert shared_ranks.n_tied.tolist() == [0 + 0, 0 + 1, 1 + 0, 0 + 0]
    assert shared_ranks.n_candidates.tolist() == [4 + 2, 4 + 1, 4 + 1, 4 + 0]
    assert shared_ranks.sampling.n_candidates.tolist() == [9] * 4


def test_ranks_of_one_table_are_ranked_positives():
    ranked = RankedPositives(**RANKS)
    with pytest.raises(InputError, match="'b' must be RankedPositives, made by rank_positives; got ndarray"):
        check_same_positives({"a": ranked, "b": np.zeros(3)})
    with pytest.raises(InputError, match=r"'b' and 'a' rank different test positives \(1 and 3\)"):
        check_same_positives({"a": ranked, "b": ranked.select(np.array([True, False, False]))})


def test_given_ranks_rank_test_positives_of_the_split():
    pairs = pd.DataFrame({"user": ["a", "a", "b"], "item": [5, 7, 6]})
    ranked = RankedPositives(**RANKS)
    split = Split.from_frames(None, pairs, users=["a", "b"], items=[5, 6, 7])
    check_ranks_of_split(ranked, split, "m")
    check_ranks_of_split(ranked.select(np.array([True, False, True])), split, "m")
    smaller_split = Split.from_frames(None, pairs[1:], users=["a", "b"], items=[5, 6, 7])
    with pytest.raises(InputError, match="'m': 1 of 3 ranked positives are not in the test part"):
        check_ranks_of_split(ranked, smaller_split, "m")
    larger_split = Split.from_frames(None, pairs, users=["a", "b"], items=[5, 6, 7, 8])
    words = "'m' is ranked over 2 users and 3 items that are not the 2 and 4 of the split"
    with pytest.raises(InputError, match=words):
        check_ranks_of_split(ranked, larger_split, "m")
    renamed_split = Split.from_frames(None, pairs.assign(user=["a", "a", "c"]), items=[5, 6, 7])
    with pytest.raises(InputError, match="that are not the 2 and 3 of the split"):
        check_ranks_of_split(ranked, renamed_split, "m")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"left_out": [0, 1]}, "left_out must hold True or False; got dtype int64"),
        ({"left_out": [True]}, r"left_out must have shape \(2,\) like user_ids; got \(1,\)"),
        ({"n_above": [0.0, 2.0, 1.0]}, "n_above must hold whole numbers; got dtype float64"),
        ({"gain": [1.0, 2.0]}, r"gain must have shape \(3,\) like user; got \(2,\)"),
        ({"max_rank": 1}, "n_above and n_tied must be >= 0, n_above at most max_rank = 1; 1 of 3 positives"),
        ({"n_tied": [-1, -1, 1], "max_rank": 2}, "n_above at most max_rank = 2; 2 of 3 positives"),
        ({"max_rank": -1}, "max_rank must be an integer >= 0; got -1"),
        ({"user_ids": ["a", "a"]}, "user_ids repeats 1 of 2 ids"),
        ({"item_ids": [5, 5, 5]}, "item_ids repeats 2 of 3 ids"),
    ],
)
def test_further_ranks_that_contradict_each_other_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        RankedPositives(**RANKS | change)


def test_ranks_at_their_limits_are_accepted():
    RankedPositives(**RANKS | {"n_above": [0, 2, 1], "n_tied": [2, 0, 1]})  # together 2 of 3 candidates
    RankedPositives(**RANKS | {"max_rank": 2})  # beyond the list of 2
    RankedPositives(**RANKS | {"n_above": [0, 0, 0], "n_tied": [0, 0, 0], "max_rank": 0})


def test_the_best_items_may_be_handled_by_parts_or_returned_together():
    train = pd.DataFrame({"user": [0], "item": [4]})
    test = pd.DataFrame({"user": [0, 1, 2], "item": [1, 2, 3]})
    split = Split.from_frames(train, test, items=range(5))
    scores = np.array([[3.0, 1, 2, 2, 9], [0, 1, 2, 3, 4], [5, 5, 5, 1, 0]])
    parts = []
    result = top_items(scores, split, k=2, handle=parts.append, compute=ComputeOptions(block_size=1))
    assert len(result) == 0
    rows = [
        row
        for part in parts
        for row in zip(*(getattr(part, name).tolist() for name in PART_FIELDS), strict=True)
    ]
    expected = [
        (0, 0, 0, 0, 4), (0, 2, 1, 1, 4), (0, 3, 1, 1, 4),
        (1, 3, 1, 0, 5), (1, 4, 0, 0, 5),
        (2, 0, 0, 2, 5), (2, 1, 0, 2, 5), (2, 2, 0, 2, 5),
    ]  # fmt: skip
    assert sorted(rows) == expected
    best_items = top_items(scores, split, k=2)
    assert list(zip(*(getattr(best_items, name).tolist() for name in PART_FIELDS), strict=True)) == expected
    assert best_items.gain is None


PART_FIELDS = ("user", "item", "n_above", "n_tied", "n_candidates")


def test_sampled_ranks_of_factors_are_those_of_their_scores():
    rng = np.random.default_rng(4)
    pairs = pd.DataFrame({"user": [0, 0, 1, 2], "item": [1, 2, 3, 1]})
    split = Split.from_frames(pd.DataFrame({"user": [0], "item": [0]}), pairs, items=range(9))
    user, item = rng.integers(-2, 3, size=(3, 2)), rng.integers(-2, 3, size=(9, 2))
    candidates = SampledCandidates(5, rng=1)
    expected = rank_positives((user @ item.T).astype(float), split, candidates=candidates)
    for model in ((user, item), lambda users: (user @ item.T)[users]):
        ranked = rank_positives(model, split, candidates=candidates)
        assert ranked.n_above.tolist() == expected.n_above.tolist()
        assert ranked.n_tied.tolist() == expected.n_tied.tolist()
    assert ranked.candidates == "sampled candidates: 5 drawn uniformly, with replacement, per user, seed 1"
    assert ranked.candidates_by_user is None


@pytest.mark.parametrize(
    ("options", "description"),
    [
        ({"rng": 7}, "3 drawn uniformly, with replacement, per user, seed 7"),
        ({"rng": 7, "replacement": False}, "3 drawn uniformly, without replacement, per user, seed 7"),
        (
            {"rng": np.int64(7), "per": "positive"},
            "3 drawn uniformly, with replacement, per positive, seed 7",
        ),
        (
            {"rng": 7, "distribution": "popularity", "pool": "unobserved"},
            "3 drawn by popularity from pool 'unobserved', with replacement, per user, seed 7",
        ),
        (
            {"rng": 7, "distribution": [1.0, 2.0]},
            "3 drawn by given probabilities, with replacement, per user,",
        ),
    ],
)
def test_sampled_candidates_describe_their_draws(options, description):
    candidates = SampledCandidates(3, **options)
    assert candidates.description.startswith(description)
    assert repr(candidates) == f"SampledCandidates({candidates.description})"


def test_a_generator_is_read_once_for_the_key_of_the_draws():
    candidates = SampledCandidates(3, rng=np.random.default_rng(5))
    assert candidates.key == np.random.default_rng(5).integers(2**63)
    assert candidates.description.endswith(f"per user, key {candidates.key}")
    assert SampledCandidates(3, rng=5).key == candidates.key


@pytest.mark.parametrize(
    ("distribution", "message"),
    [
        ([1.0, -1.0, -2.0, 0.0], "distribution must be >= 0 with a positive sum; 2 entries are below 0"),
        ([0.0] * 4, "distribution must be >= 0 with a positive sum; 0 entries are below 0"),
        ([1.0, np.inf, 1.0, 1.0], "distribution must be finite"),
        ([1.0] * 3, "distribution"),
    ],
)
def test_weights_of_draws_are_checked_with_the_split(distribution, message):
    split = Split.from_frames(None, pd.DataFrame({"user": [0, 1], "item": [0, 1]}), items=range(4))
    with pytest.raises(InputError, match=message):
        SampledCandidates(2, distribution=distribution, rng=0).weights(split)
    assert SampledCandidates(2, distribution=[1, 0, 0, 2], rng=0).weights(split).tolist() == [1, 0, 0, 2]
    assert SampledCandidates(2, rng=0).weights(split) is None


def test_consecutive_rows_of_a_tile_are_no_copy():
    tile = np.arange(20.0).reshape(5, 4)
    for rows, is_view in (([1, 2, 3], True), ([4], True), ([0, 2], False), ([1, 2, 4], False)):
        taken_rows = _take_rows(tile, np.array(rows))
        np.testing.assert_array_equal(taken_rows, tile[rows])
        assert np.shares_memory(taken_rows, tile) == is_view


@pytest.mark.parametrize(("mask_bytes", "n_rows"), [(223, 1), (224, 1), (447, 1), (448, 2), (10**6, 20)])
def test_the_results_of_comparisons_fill_no_more_memory_than_allowed(mask_bytes, n_rows, monkeypatch):
    # Two thresholds of each row, and 100 scores in two pieces of seven words of eight bytes: 2 · 112 a row.
    monkeypatch.setattr(numpy_kernels, "MASK_BYTES", mask_bytes)
    monkeypatch.setattr(numpy_kernels, "LANES", 64)
    tile = np.arange(2000.0).reshape(20, 100)
    bounds = np.arange(40) * 50.0 + 0.5
    counter = ThresholdCounter()
    counter.set_thresholds(np.arange(0, 41, 2), bounds, bounds)
    above, reach = counter.count(tile, np.zeros(20, dtype=np.int64))
    assert above.tolist() == reach.tolist() == [99, 49] * 20
    assert counter._mask.size == n_rows * 224


@pytest.mark.parametrize(
    ("n_items", "n_threads", "most_users", "size"),
    [
        (2**17, 3, 1000, 17),  # a share of 100 users: two blocks for each of three threads, rounded up
        (2**17, 1, 1000, 50),
        (2**12, 3, 1000, 32),  # fewer scores than 2^17 are not worth a thread
        (2**12, 3, 10, 10),
        (2**20, 80, 1000, 1),
    ],
)
def test_each_thread_gets_two_blocks_of_products_unless_they_are_small(n_items, n_threads, most_users, size):
    kernels = SimpleNamespace(block_bytes=lambda shape: (0, 1), block_users=lambda shape: most_users)
    shape = Shape(n_users=1, n_items=n_items, depth=3, dtype=np.dtype("f4"))
    resources = Resources(ComputeOptions(n_threads=n_threads), "m")
    assert _run._users_per_product_block(shape, shape, 100, kernels, resources) == size


def test_blocks_of_products_use_the_memory_of_a_tile_in_each_thread():
    shape = Shape(n_users=1, n_items=1000, depth=3, dtype=np.dtype("f4"))
    resources = Resources(ComputeOptions(n_threads=2, max_memory=2 * (50 + 30 * 7)), "m")
    kernels = SimpleNamespace(block_bytes=lambda shape: (50, 30), block_users=lambda shape: 1000)
    assert _run._users_per_product_block(shape, shape, 4000, kernels, resources) == 7


@pytest.mark.parametrize(("columns", "n_bytes"), [(None, 8 * 40 * 2), (np.array([0, 3]), 8 * 40 * 3)])
@pytest.mark.parametrize("is_parallel", [True, False])
def test_blocks_of_scores_have_room_for_their_copies(columns, n_bytes, is_parallel, monkeypatch):
    # Scores, their copy of another type, and the columns of candidates.
    calls = []
    users_per_block = Resources.users_per_block

    def record(resources, bytes_per_user, **options):
        calls.append((bytes_per_user, options["n_users_wanted"], options["n_workers"]))
        return users_per_block(resources, bytes_per_user, **options)

    monkeypatch.setattr(Resources, "users_per_block", record)
    split = Split.from_frames(None, pd.DataFrame({"user": [0, 1], "item": [0, 3]}), items=range(40))
    scores = np.arange(80.0).reshape(2, 40)
    model = scores if is_parallel else (lambda users: scores[users])
    candidates = "all" if columns is None else columns
    compute = ComputeOptions(n_threads=2, engine="numpy")
    rank_positives(model, split, compute=compute, candidates=candidates)
    # 2^17 scores are worth a thread; one call of a function returns 32 MiB.
    wanted = 2**17 // 40 if is_parallel else 2 * 32 * 2**20 // n_bytes
    assert calls == [(n_bytes, wanted, 2 if is_parallel else 1)]


@pytest.mark.parametrize(
    ("n_items", "width"), [(1, 1), (8192, 8192), (8193, 4097), (16384, 8192), (16385, 5462)]
)
def test_a_catalogue_has_tiles_of_nearly_the_same_width(n_items, width):
    shape = Shape(n_users=1, n_items=n_items, depth=3, dtype=np.dtype("f4"))
    assert numpy_kernels.tile_width(shape) == width
    assert shape.row_bytes == 4 * n_items
    assert numpy_kernels.block_bytes(shape) == (0, 12 * n_items)
    assert numpy_kernels.block_users(shape) == max(1, 6 * 2**20 // (4 * n_items))


@pytest.mark.parametrize(
    ("n_entries", "sizes"), [(1, [1] * 5), (26, [2, 2, 1]), (38, [2, 2, 1]), (10**6, [5])]
)
@pytest.mark.parametrize("is_factors", [True, False])
def test_the_best_items_are_searched_for_as_many_users_as_fit(n_entries, sizes, is_factors, monkeypatch):
    # Five users and thirteen items: 26 products or scores of two users, 39 of three.
    module = _factor_topk if is_factors else top_lists
    parts = []
    find_bound = module.topk_lower_bound

    def record(scores, k):
        parts.append(scores.shape)
        return find_bound(scores, k)

    monkeypatch.setattr(module, "ENTRIES", n_entries)
    monkeypatch.setattr(module, "topk_lower_bound", record)
    rng = np.random.default_rng(2)
    user, item = rng.normal(size=(5, 3)), rng.normal(size=(13, 3))
    split = Split.from_frames(None, pd.DataFrame({"user": range(5), "item": range(5)}), items=range(13))
    scores = user @ item.T
    top = rank_positives((user, item) if is_factors else scores, split, top_k=3).top
    assert top.item.tolist() == np.argsort(-scores, axis=1)[:, :3].tolist()
    assert parts == [(size, 13) for size in sizes]


def test_exact_scores_of_a_tile_are_computed_for_as_many_users_as_fit(monkeypatch):
    shapes = []
    row_scores = numpy_kernels.row_scores

    def record(user, columns, scores):
        shapes.append((user.shape, columns.shape, scores.shape))
        row_scores(user, columns, scores)

    monkeypatch.setattr(numpy_kernels, "row_scores", record)
    monkeypatch.setattr(_factors, "ROWS_BYTES", 8 * 200 * 2 + 8)
    # All items are nearly equal, so that every product is undecided.
    item = 1 + 1e-10 * np.random.default_rng(0).random((200, 1))
    user = np.array([[1 / 3], [2 / 3], [1 / 7]])
    split = Split.from_frames(None, pd.DataFrame({"user": range(3), "item": [4, 5, 6]}), items=range(200))
    ranked = rank_positives((user, item), split, compute=ComputeOptions(engine="numpy"))
    assert shapes == [((2, 1), (1, 200), (2, 200)), ((1, 1), (1, 200), (1, 200))]
    expected = [(user[u] * item[:, 0] > user[u] * item[i, 0]).sum() for u, i in enumerate([4, 5, 6])]
    assert ranked.n_above.tolist() == expected
