"""Lists of every form give the same ranks; entries that do not fit the split are treated as by loops."""

from __future__ import annotations

import json
from functools import partial
from types import SimpleNamespace

import numpy as np
import pandas as pd
import polars as pl
import pytest

import ipseval
from ipseval import InputError, Lists, Split, rank_positives, read_lists
from ipseval.errors import ProblemsError
from tests.file_formats import BINARY_WRITERS

SPLIT = Split.from_frames(
    pd.DataFrame({"user": ["a", "b", "c"], "item": [1, 2, 3]}),
    pd.DataFrame({"user": ["a", "a", "b", "c"], "item": [2, 5, 1, 4]}),
    items=range(1, 8),
)
# a: 6 2 7; b: 1; c: 5 4.
FRAME = pd.DataFrame(
    {
        "user": list("aaabcc"),
        "item": [6, 2, 7, 1, 5, 4],
        "rank": [1, 2, 3, 1, 1, 2],
        "score": [9, 5, 1, 3, 2.5, 0],
    }
)
MAPPING = {"a": {6: 9.0, 2: 5, 7: 1}, "b": {1: 3}, "c": {5: 2.5, 4: 0}}
ARRAY = np.array([[6, 2, 7], [1, -1, -1], [5, 4, -1]])


def read_csv_file(folder):
    frame = FRAME.drop(columns="score").rename(columns={"user": "user_id", "item": "sku"})
    frame.to_csv(folder / "lists.csv", index=False)
    return read_lists(folder / "lists.csv")


def read_trec_run(folder):
    lines = [f"{row.user} Q0 {row.item} {row.rank} {row.score} mine" for row in FRAME.itertuples()]
    (folder / "mine.run").write_text("\n".join(lines) + "\n")
    return read_lists(folder / "mine.run")


def read_ranx_run(folder):
    ranx = pytest.importorskip("ranx", reason="ranx is not installed")
    run = {
        user: {str(item): float(score) for item, score in scores.items()} for user, scores in MAPPING.items()
    }
    frame = ranx.Run(run).to_dataframe()
    return Lists(frame.astype({"doc_id": int}))


def read_json_file(folder, content, name="lists.json"):
    (folder / name).write_text(json.dumps(content))
    return read_lists(folder / name)


ITEMS = {user: list(scores) for user, scores in MAPPING.items()}
NESTED = pd.DataFrame({"user": list(ITEMS), "items": list(ITEMS.values())})


def read_nested_file(write, folder):
    write(NESTED, folder / "lists")
    return read_lists(folder / "lists")


FORMS = {
    **{
        f"a column of lists in {name}": partial(read_nested_file, write)
        for name, write in BINARY_WRITERS.items()
    },
    "a column of lists of polars": lambda folder: Lists(pl.from_pandas(NESTED)),
    "a column of arrays": lambda folder: Lists(NESTED.assign(items=NESTED["items"].map(np.array))),
    "lists beside scores": lambda folder: Lists(
        NESTED.assign(scores=[list(scores.values()) for scores in MAPPING.values()])
    ),
    "JSON of users": lambda folder: read_json_file(folder, ITEMS),
    "ranks": lambda folder: Lists(FRAME.drop(columns="score")),
    "scores": lambda folder: Lists(FRAME.drop(columns="rank")),
    "shuffled": lambda folder: Lists(FRAME.sample(frac=1, random_state=0)),
    "other names": lambda folder: Lists(
        FRAME.set_axis(["u", "i", "r", "s"], axis=1), user="u", item="i", rank="r"
    ),
    "scores of users": lambda folder: Lists(MAPPING),
    "pairs of users": lambda folder: Lists({user: list(scores.items()) for user, scores in MAPPING.items()}),
    "an array": lambda folder: Lists(ARRAY),
    "an array with ids": lambda folder: Lists(ARRAY[::-1], users=["c", "b", "a"]),
    "places of ids": lambda folder: Lists(np.where(ARRAY < 0, -1, ARRAY - 1), items=SPLIT.item_ids),
    "ids and scores": lambda folder: Lists((ARRAY[:, ::-1], -np.tile(np.arange(3.0)[::-1], (3, 1)))),
    "CSV": read_csv_file,
    "TREC": read_trec_run,
    "what becomes a frame": lambda folder: Lists(SimpleNamespace(to_df=lambda: FRAME.drop(columns="score"))),
    "what becomes a dataframe": lambda folder: Lists(
        SimpleNamespace(to_dataframe=lambda: FRAME.drop(columns="rank"))
    ),
    "ranx": read_ranx_run,
}


SLOW = {"ranx"}  # it compiles when it is imported


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in FORMS]
)
def test_lists_of_every_form_give_the_same_ranks(name, tmp_path):
    ranked = rank_positives(FORMS[name](tmp_path), SPLIT)
    # a: 2 is second, 5 is not listed; b: 1 is first; c: 4 is second.
    assert ranked.n_above.tolist() == [1, 3, 0, 1]
    assert ranked.max_rank == 3
    assert ranked.list_length.tolist() == [3, 1, 2]
    assert ranked.n_tied.tolist() == [0, 0, 0, 0]


def treat_by_loops(lists, train, catalogue, seen, unknown):
    """Return {user: items in order}, with "?" for unknown items that keep their positions, and counts."""
    treated_lists = {}
    n_seen = 0
    n_unknown = 0
    for user, items in lists.items():
        treated_items = []
        for item in items:
            if item not in catalogue:
                n_unknown += 1
                if unknown == "candidate":
                    treated_items.append("?")
                continue
            if (user, item) in train:
                n_seen += 1
                if seen == "drop":
                    continue
            treated_items.append(item)
        treated_lists[user] = treated_items
    return treated_lists, n_seen, n_unknown


@pytest.mark.parametrize("seen", ["drop", "keep"])
@pytest.mark.parametrize("unknown", ["drop", "candidate"])
def test_training_items_and_unknown_items_are_treated_as_by_loops(seen, unknown):
    rng = np.random.default_rng(7)
    for n_users in (3, 8):
        n_items = int(rng.integers(6, 15))
        train = set()
        test = set()
        for user in range(n_users):
            order = rng.permutation(n_items).tolist()
            cut = int(rng.integers(1, 4))
            train |= {(user, item) for item in order[:cut]}
            test |= {(user, item) for item in order[cut : cut + 2]}
        split = Split.from_frames(
            *(pd.DataFrame(sorted(pairs), columns=["user", "item"]) for pairs in (train, test))
        )
        catalogue = set(split.item_ids.tolist())
        lists = {
            user: rng.permutation(n_items + 4)[: int(rng.integers(1, 7))].tolist()
            for user in range(n_users)
            if rng.random() < 0.9
        } or {0: [0]}
        expected, n_seen, n_unknown = treat_by_loops(lists, train, catalogue, seen, unknown)
        ranked = rank_positives(Lists(lists, seen=seen, unknown=unknown), split)
        length = max(map(len, expected.values()))
        for row in range(len(ranked)):
            user = ranked.user_ids[ranked.user[row]]
            item = ranked.item_ids[ranked.item[row]]
            items = expected.get(user, [])
            assert ranked.n_above[row] == (items.index(item) if item in items else length)
        assert ranked.list_length.tolist() == [len(expected.get(user, [])) for user in split.user_ids]
        counts = {count.label: count.count for count in ranked.row_counts}
        treatment = {"drop": "left out", "keep": "kept as misses"}[seen]
        assert counts.get(f"entries that are training items of their user, {treatment}", 0) == n_seen
        treatment = {"drop": "left out", "candidate": "added as candidates"}[unknown]
        assert counts.get(f"entries with items unknown to the split, {treatment}", 0) == n_unknown


def test_unknown_users_repeats_gaps_and_missing_entries_have_counts():
    frame = pd.DataFrame(
        {
            "user": ["a", "a", "a", "z", None, "b", "b"],
            "item": [2, 6, 2, 1, 1, 1, 4],
            "rank": [1, 2, 3, 1, 7, 4, 9],
        }
    )
    lists = Lists(frame, unknown="drop", duplicates="drop", missing="drop")
    ranked = rank_positives(lists, SPLIT)
    assert ranked.n_above.tolist() == [0, 2, 0, 2]
    assert {count.label: (count.count, count.total) for count in ranked.row_counts} == {
        "entries read from the lists: user, item, rank": (7, None),
        "entries without a user, left out": (1, 7),
        "lists whose ranks were not 1, 2, 3, …, renumbered": (1, 3),
        "entries that repeat an item of their list, left out": (1, 6),
        "entries with users unknown to the split, left out": (1, 5),
    }


def test_scores_of_every_type_rank_from_the_largest():
    for dtype in (np.int8, np.uint8, np.int64, np.uint64, np.float32):
        lowest, highest = (
            (np.iinfo(dtype).min, np.iinfo(dtype).max) if np.dtype(dtype).kind in "iu" else (-1, 7)
        )
        scores = np.array(
            [[highest - 1, lowest, highest]], dtype=dtype
        )  # also those that doubles take for one
        frame = pd.DataFrame({"user": "a", "item": [6, 2, 5], "score": scores[0]})
        for lists in (Lists((np.array([[6, 2, 5]]), scores), users=["a"]), Lists(frame)):
            assert rank_positives(lists, SPLIT).n_above[:2].tolist() == [2, 0]


def test_arrays_have_empty_positions_and_ids_of_any_type():
    assert Lists(ARRAY).data[["what", "count", "of"]].to_numpy().tolist() == [
        ["entries read from an array", 9, pd.NA],
        ["empty positions of the array, left out", 3, 9],
    ]
    scores = np.array([[1, np.nan]])
    assert repr(Lists((np.array([[1, -1]]), scores))) == "Lists(1 entry of 1 user, by score)"
    for array, size in (
        (np.array([["x", "y"]]), "2 entries of 1 user"),
        (np.array([["x", None]], dtype=object), "1 entry of 1 user"),
        (np.array([[1, np.nan]]), "1 entry of 1 user"),
        (np.array([[0, 1]]), "2 entries of 1 user"),
        (np.array([[-1]]), "0 entries of 0 users"),
    ):
        assert repr(Lists(array)) == f"Lists({size}, by rank)"
    assert repr(Lists(np.array([[-1]]), items=[1])) == "Lists(0 entries of 0 users, by rank)"


def test_lists_without_problems_report_none():
    for source in (FRAME, {"a": [2], "b": [2]}, {"a": [2, 5, 6], "b": [2]}):
        assert Lists(source, gaps="raise").problems == ()
    frame = pd.DataFrame({"user": ["a", "a"], "item": [1, 2], "rank": [2, 3]})
    description = "lists whose ranks were not 1, 2, 3, …, renumbered"
    assert Lists(frame).data.iloc[1].tolist() == ["lists", description, 1, 1]
    empty_lists = Lists(frame.assign(user=None), missing="drop")
    assert repr(empty_lists) == "Lists(0 entries of 0 users, by rank)"


def test_ranks_of_frames_may_count_from_0_in_all_lists_but_not_in_some():
    from_0 = pd.DataFrame({"user": list("aaabb"), "item": [2, 5, 6, 2, 5], "rank": [0, 1, 2, 0, 1]})
    from_1 = from_0.assign(rank=from_0["rank"] + 1)
    above = []
    for frame in (from_0, from_1):
        assert Lists(frame, gaps="raise").problems == ()
        above.append(
            rank_positives(Lists(frame, gaps="raise", unknown="drop", seen="drop"), SPLIT).n_above.tolist()
        )
    assert above[0] == above[1]
    for ranks in ([0, 1, 2, 1, 2], [0, 1, 3, 0, 1], [0, 0, 1, 0, 1]):
        assert len(Lists(from_0.assign(rank=ranks), gaps="raise").problems) == 1


def test_a_score_may_be_infinite():
    ranked = rank_positives(Lists({"a": {6: 1.0, 2: np.inf, 5: -np.inf}}), SPLIT)
    assert ranked.n_above[:2].tolist() == [0, 2]


def test_ties_of_ranks_and_scores_stay_ties():
    for lists in (
        Lists({"a": {2: 1.0, 6: 1.0, 5: 0.5}}),
        Lists(pd.DataFrame({"user": "a", "item": [2, 6, 5], "rank": [1, 1, 3]})),
    ):
        ranked = rank_positives(lists, SPLIT)
        assert ranked.n_above[:2].tolist() == [0, 2]
        assert ranked.n_tied[:2].tolist() == [1, 0]


def test_training_items_compete_in_lists_of_a_split_that_includes_them():
    split = Split.from_frames(
        pd.DataFrame({"user": ["a"], "item": [1]}),
        pd.DataFrame({"user": ["a"], "item": [1]}),
        items=[1, 2],
        seen="include",
    )
    ranked = rank_positives(Lists({"a": [2, 1]}), split)
    assert ranked.n_above.tolist() == [1]
    assert ranked.max_rank is None  # the list holds all candidates


def test_a_list_with_kept_training_items_is_never_the_whole_ranking():
    split = Split.from_frames(
        pd.DataFrame({"user": ["a"], "item": [1]}),
        pd.DataFrame({"user": ["a"], "item": [3]}),
        items=[1, 2, 3],
    )
    assert rank_positives(Lists({"a": [1, 2, 3]}, seen="drop"), split).max_rank is None
    ranked = rank_positives(Lists({"a": [1, 2, 3]}, seen="keep"), split)
    assert (ranked.max_rank, ranked.n_above.tolist()) == (3, [2])


def test_items_that_are_not_candidates_follow_the_option_unknown():
    lists = {"a": [6, 2], "b": [1], "c": [4]}
    with pytest.raises(InputError, match=r"1 entries of the lists are not candidates.*unknown='drop'"):
        rank_positives(Lists(lists), SPLIT, candidates=[1, 2, 4, 5])
    without_unknown = rank_positives(Lists(lists, unknown="drop"), SPLIT, candidates=[1, 2, 4, 5])
    with_candidates = rank_positives(Lists(lists, unknown="candidate"), SPLIT, candidates=[1, 2, 4, 5])
    assert (without_unknown.n_above[0], with_candidates.n_above[0]) == (0, 1)
    assert without_unknown.row_counts[-1].label == "entries that are not candidates, left out"


def test_the_problems_of_all_lists_are_raised_before_the_first_ranking():
    def model(users):
        raise AssertionError("ranked before the lists were checked")

    wrong_lists = Lists({"a": [1, 99], "b": [1]})
    with pytest.raises(InputError) as error:
        ipseval.evaluate({"slow": model, "v1": wrong_lists, "v2": Lists({"z": [2]})}, SPLIT)
    message = str(error.value)
    assert message.startswith("the top-K lists have 3 problems:")
    for text in (
        "v1: 1 of 3 entries have items unknown",
        "v1: 1 of 3 entries are training items",
        "v2: 1 of 1",
    ):
        assert text in message
    frame = pd.DataFrame({"user": ["a", 1], "item": [1, 2], "rank": [1, 1]})
    with pytest.raises(ProblemsError, match="column 'user' mixes ids of types int, str") as error:
        ipseval.evaluate({"slow": model, "v1": Lists(frame)}, SPLIT)
    assert len(error.value.problems) == 1


@pytest.mark.filterwarnings("ignore::ipseval.errors.DataWarning")
def test_an_evaluation_of_lists_counts_users_without_one_and_short_lists():
    evaluation = ipseval.evaluate(
        {"v1": Lists({"a": [1, 6], "b": [1]}, seen="drop")}, SPLIT, metrics=["recall@3"]
    )
    data = evaluation.data[evaluation.data["subject"] == "v1"]
    assert data.iloc[1:][["what", "count", "of"]].to_numpy().tolist() == [
        ["entries that are training items of their user, left out", 1, 3],
        ["users with test positives and no list, counted as misses", 1, 3],
        ["lists shorter than 3, padded with misses", 2, 2],
    ]
    frame = evaluation.frame
    assert frame["estimate"].tolist() == [pytest.approx(1 / 3)]  # only b has its item, of three users


def make_entries(order: str, values, *, n_users: int = 12, n_entries: int = 5) -> pd.DataFrame:
    """Return lists of text ids; `values` are the ranks or scores of each list."""
    users = [f"u{user}" for user in range(n_users) for _ in range(n_entries)]
    items = [f"i{(user + place) % 9}" for user in range(n_users) for place in range(n_entries)]
    return pd.DataFrame({"user": users, "item": items, order: list(values) * n_users})


@pytest.mark.parametrize("name", ["score", "prediction", "est", "rating"])
def test_ranks_below_the_name_of_scores_raise_an_error_unless_the_caller_names_the_column(name, tmp_path):
    frame = make_entries(name, [1, 2, 3, 4, 5])
    frame.to_csv(tmp_path / "lists.csv", index=False)
    for read_again in (
        lambda **names: Lists(frame, **names),
        lambda **names: read_lists(tmp_path / "lists.csv", **names),
    ):
        with pytest.raises(InputError, match=f"rank='{name}'.*score='{name}'"):
            rank_positives(read_again(), split_of(frame))
        assert rank_positives(read_again(rank=name), split_of(frame)).n_above.tolist() == [0] * 12
        assert rank_positives(read_again(score=name), split_of(frame)).n_above.tolist() == [4] * 12


def split_of(frame: pd.DataFrame) -> Split:
    """Return a split whose test positives are the first entries of the lists."""
    first_entries = frame.drop_duplicates("user")[["user", "item"]]
    return Split.from_frames(None, first_entries, items=sorted(set(frame["item"])))


def test_few_entries_are_noted_and_scores_from_the_highest_are_read():
    few_entries = Lists(make_entries("score", [1, 2, 3], n_users=3, n_entries=3))
    assert few_entries.problems == ()
    assert few_entries.data["what"].str.contains("as ranks are written").any()
    for values in ([5, 4, 3, 2, 1], [1, 2, 3, 4, 6], [0.1, 0.2, 0.3, 0.4, 0.5]):
        assert Lists(make_entries("score", values)).problems == ()
    assert Lists({f"u{user}": {"x": 1, "y": 2, "z": 3} for user in range(30)}).problems == ()


@pytest.mark.parametrize("values", [[0.9, 0.7, 0.6, 0.2, 0.1], [-1, -2, -3, -4, -5], [1, 2, 3.25, 4, 5]])
@pytest.mark.parametrize("name", ["rank", "position"])
def test_scores_below_the_name_of_ranks_raise_an_error_unless_the_caller_names_the_column(name, values):
    frame = make_entries(name, values)
    with pytest.raises(InputError, match=f"must hold ranks.*score='{name}'"):
        rank_positives(Lists(frame), split_of(frame))
    assert Lists(frame, score=name).problems == ()
    assert Lists(frame, rank=name).problems == ()
    assert Lists(make_entries(name, [1, 2.5, 2.5, 4, 5])).problems == ()


@pytest.mark.parametrize("day", ["2024-05-{:02d}", "{:02d}/05/2024"])
def test_dates_below_the_name_of_items_raise_an_error_in_lists(day):
    frame = make_entries("rank", [1, 2, 3, 4, 5])
    frame["item"] = [day.format(row % 28 + 1) for row in range(len(frame))]
    with pytest.raises(InputError, match="'item' as item holds times"):
        rank_positives(Lists(frame), SPLIT)
    assert Lists(frame, item="item", user="user").problems == ()


def test_problems_of_lists_have_counts_and_name_the_first_entry():
    frame = pd.DataFrame(
        {"user": list("aaabbc"), "item": [1, 1, 2, 1, 1, 1], "rank": [2, 1, 3, 1, 2, 1], "n": range(6)}
    )
    (problem,) = Lists(frame).problems
    description = "2 of 6 entries repeat an item of their list (first: 'a', 1)"
    assert problem.description == description
    lists = Lists(frame, duplicates="drop")
    assert lists.problems == ()
    assert lists.entries.order.tolist() == [1, 3, 1, 1]  # of each item the best position
    gaps = Lists(frame.assign(item=[1, 2, 3, 1, 2, 1], rank=[1, 2, 4, 3, 2, 1]), gaps="raise")
    (problem,) = gaps.problems
    assert problem.description == (
        "the ranks of 2 users are not 1, 2, 3, … without gap or repetition (e.g. user 'a', 'b')"
    )
    missing = frame.assign(user=["a", "a", None, None, "b", "b"], item=[1, 2, 3, 3, None, None])
    descriptions = [
        problem.description for problem in Lists(missing.assign(rank=[1, 2, 1, 1, 1, 2])).problems
    ]
    assert descriptions == [
        "2 of 6 entries have no user (first: rows 2, 3)",
        "2 of 6 entries have no item (first: rows 4, 5)",
    ]


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (np.array([[1], [2]]), {"users": ["a"]}, "users must hold one id for each of 2 rows; got 1"),
        (np.array([[1], [2]]), {"users": list("abc")}, "users must hold one id for each of 2 rows; got 3"),
        (np.array([[0, 2]]), {"items": ["x", "y"]}, "must hold positions below 2; got 0, 2"),
        (np.array([[0.0, 1.0]]), {"items": ["x", "y"]}, "must hold positions below 2; got 0.0, 1.0"),
        ((np.array([[1, 2]]), np.array([[1.0]])), {}, r"scores must be numbers of shape \(1, 2\) as the ids"),
        ((np.array([[1, 2]]), np.array([["a", "b"]])), {}, r"as the ids; got <U1 \(1, 2\)"),
        ((np.array([[1, 2, 3]]), np.array([[np.nan, 1.0, np.nan]])), {}, "2 of 3 scores are NaN"),
    ],
)
def test_arrays_of_lists_have_users_positions_and_scores_of_their_shape(source, options, message):
    with pytest.raises(ipseval.InputError, match=message):
        Lists(source, **options)
    lists = Lists(np.array([[1, 0], [1, -1]]), users=["a", "b"], items=["x", "y"])
    assert lists.entries.item_ids[lists.entries.item].tolist() == ["y", "x", "y"]
