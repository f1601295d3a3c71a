"""Data frames of every library give bit-identical results; lists as other libraries export them."""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import pytest

from ipseval.data import Interactions
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.evaluation import Evaluation, evaluate
from ipseval.propensity import PowerLawPropensity
from ipseval.ranking import rank_positives
from ipseval.ranking.adapters import adapt


def to_polars(frame: pd.DataFrame):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    return polars.DataFrame({name: frame[name].to_list() for name in frame.columns})


def to_polars_lazy(frame: pd.DataFrame):
    return to_polars(frame).lazy()


def to_pyarrow(frame: pd.DataFrame):
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    return pyarrow.table({name: frame[name].to_list() for name in frame.columns})


def to_duckdb(frame: pd.DataFrame):
    duckdb = pytest.importorskip("duckdb", reason="duckdb is not installed: pip install duckdb")
    return duckdb.from_arrow(to_pyarrow(frame))  # a connection of its own would be closed too early by 1.x


def to_pandas_arrow(frame: pd.DataFrame) -> pd.DataFrame:
    pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    return frame.convert_dtypes(dtype_backend="pyarrow")


FORMS = [to_polars, to_polars_lazy, to_pyarrow, to_pandas_arrow, to_duckdb]


def make_example(seed: int = 0) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(seed)
    user, item = np.nonzero(rng.random((25, 20)) < 0.5)
    log = pd.DataFrame(
        {
            "user": [f"u{code}" for code in user],
            "item": item * 7,
            "rating": rng.integers(1, 6, user.size) / 2,
            "time": pd.to_datetime("2024-05-01")
            + pd.to_timedelta(rng.integers(0, 10**6, user.size), unit="s"),
        }
    )
    log = log.sample(frac=1, random_state=0).reset_index(drop=True)
    in_test = rng.random(len(log)) < 0.25
    train = log[~in_test].reset_index(drop=True)
    test = log[in_test].reset_index(drop=True)
    training_pairs = set(zip(train["user"], train["item"], strict=True))
    pairs = [(f"u{u}", i * 7, u * 1.0 + rng.random()) for u in range(25) for i in range(20)]
    lists = pd.DataFrame(
        [pair for pair in pairs if pair[:2] not in training_pairs], columns=["user", "item", "score"]
    )
    return {"train": train, "test": test, "lists": lists}


def assert_same(first, second) -> None:
    for name in ("user", "item", "user_ids", "item_ids", "value", "timestamp"):
        first_values = getattr(first, name)
        second_values = getattr(second, name)
        assert first_values.dtype == second_values.dtype, name
        np.testing.assert_array_equal(first_values, second_values)


@pytest.mark.parametrize("form", FORMS)
def test_interactions_of_every_frame_library_have_the_same_bits(form):
    frame = make_example()["train"]
    expected = Interactions.from_frame(frame, value="rating", timestamp="time")
    assert_same(Interactions.from_frame(form(frame), value="rating", timestamp="time"), expected)


def keep_frame(frame: pd.DataFrame) -> pd.DataFrame:
    return frame


def with_ids_of(user: type, item: type) -> dict[str, pd.DataFrame]:
    """Return the example with ids of the given types; its rows are in no order."""
    return {name: frame.copy() for name, frame in shuffle_rows(user, item).items()}


@cache
def shuffle_rows(user: type, item: type) -> dict[str, pd.DataFrame]:
    frames = make_example()
    for name, frame in frames.items():
        users = frame["user"] if user is str else frame["user"].str[1:].astype(int)
        items = frame["item"] if item is int else "i" + frame["item"].astype(str)
        frames[name] = frame.assign(user=users, item=items).sample(frac=1, random_state=1)
    return {name: frame.reset_index(drop=True) for name, frame in frames.items()}


def evaluate_frames(frames: dict[str, pd.DataFrame], form) -> Evaluation:
    """Return an evaluation of frames that were all converted to the type of a library."""
    inputs = {name: form(frame) for name, frame in frames.items()}
    split = Split.from_frames(inputs["train"], inputs["test"], value="rating")
    return evaluate(
        {"lists": inputs["lists"], "random": np.random.default_rng(1).random((split.n_users, split.n_items))},
        split,
        propensity=PowerLawPropensity(gamma=1.0),
        metrics=("recall@5", "ndcg@5"),
        estimators=("aoa", "snips-global"),
    )


@cache
def evaluate_pandas(user: type, item: type, *, in_order: bool = False) -> Evaluation:
    frames = with_ids_of(user, item)
    if in_order:
        frames = {name: frame.sort_values(["user", "item"]) for name, frame in frames.items()}
    return evaluate_frames({name: frame.reset_index(drop=True) for name, frame in frames.items()}, keep_frame)


@pytest.mark.filterwarnings("ignore::ipseval.errors.DataWarning")
@pytest.mark.parametrize("form", FORMS)
def test_evaluate_gives_the_same_bits_for_every_frame_library(form):
    frames = with_ids_of(int, str)
    assert not frames["train"]["user"].is_monotonic_increasing
    actual = evaluate_frames(frames, form)
    expected = evaluate_pandas(int, str)
    pd.testing.assert_frame_equal(actual.frame, expected.frame, check_exact=True)
    for model in ("lists", "random"):
        per_user = [evaluation.per_user(model, "ndcg@5", "snips-global") for evaluation in (actual, expected)]
        pd.testing.assert_series_equal(*per_user, check_exact=True)


@pytest.mark.filterwarnings("ignore::ipseval.errors.DataWarning")
@pytest.mark.parametrize("form", [keep_frame, *FORMS])
def test_the_order_of_the_rows_changes_no_bit(form):
    frames = with_ids_of(str, int)
    shuffle_rows = {name: frame.iloc[::-1].reset_index(drop=True) for name, frame in frames.items()}
    expected = evaluate_pandas(str, int, in_order=True)
    pd.testing.assert_frame_equal(evaluate_frames(shuffle_rows, form).frame, expected.frame, check_exact=True)


def missing(frame: str, column: str, size: int) -> str:
    """Return the error message for two missing entries."""
    if frame == "lists":
        return rf"2 of {size:,} entries have no {column} \(first: rows 0, 3\)"
    return rf"column '{column}' has 2 missing entries of {size}; remove them"


@pytest.mark.parametrize("form", [keep_frame, *FORMS])
@pytest.mark.parametrize(
    ("kind", "frame", "column"),
    [(str, "train", "item"), (int, "test", "user"), (str, "lists", "user"), (int, "lists", "item")],
)
def test_a_missing_id_is_the_same_error_in_every_frame_library(form, kind, frame, column):
    frames = with_ids_of(kind, kind)
    incomplete = frames[frame].astype({column: object if kind is str else "Int64"})
    incomplete.loc[[0, 3], column] = None
    incomplete = incomplete.assign(
        **{column: incomplete[column].astype(object).where(incomplete[column].notna(), None)}
    )
    with pytest.raises(InputError, match=missing(frame, column, len(incomplete))):
        evaluate_frames(frames | {frame: form(incomplete)}, keep_frame)


@pytest.mark.parametrize("form", [keep_frame, *FORMS])
@pytest.mark.parametrize(("frame", "column"), [("test", "rating"), ("lists", "score")])
def test_a_missing_number_is_the_same_error_in_every_frame_library(form, frame, column):
    frames = with_ids_of(str, int)
    incomplete = frames[frame]
    incomplete.loc[[0, 3], column] = np.nan
    if form is not keep_frame:  # a null, where the library tells it from NaN
        incomplete = incomplete.assign(
            **{column: incomplete[column].astype(object).where(incomplete[column].notna(), None)}
        )
    with pytest.raises(InputError, match=missing(frame, column, len(incomplete))):
        evaluate_frames(frames | {frame: form(incomplete)}, keep_frame)


SPLIT = Split.from_frames(
    pd.DataFrame({"user": [1, 2], "item": [10, 20]}),
    pd.DataFrame({"user": [1, 2], "item": [20, 30]}),
    items=[10, 20, 30, 40],
)
# User 1: 20 is second behind 30. User 2: 30 is not in the list of two.
LONG = pd.DataFrame({"user": [1, 1, 2, 2], "item": [30, 20, 40, 10], "score": [0.9, 0.5, 0.8, 0.3]})
NESTED = {1: [(30, 0.9), (20, 0.5)], 2: [(40, 0.8), (10, 0.3)]}


def nest_lists(entry) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "customer": list(NESTED),
            "recommendations": [[entry(*pair) for pair in entries] for entries in NESTED.values()],
        }
    )


def as_dict(item: int, rating: float) -> dict[str, float]:
    return {"product": item, "rating": rating}


@pytest.mark.parametrize(
    ("frame", "form"),
    [
        (LONG, keep_frame),
        (LONG.rename(columns={"user": "user_id", "item": "item_id"}).assign(rank=[1, 2, 1, 2]), keep_frame),
        (LONG.rename(columns={"user": "user_id", "item": "item_id"}), keep_frame),
        (nest_lists(as_dict), keep_frame),
        (nest_lists(lambda item, rating: (item, rating)), keep_frame),
        (nest_lists(as_dict), to_polars),
        (nest_lists(as_dict), to_pyarrow),
        (nest_lists(as_dict), to_duckdb),
    ],
    ids=["ours", "rectools", "rectools-scores", "dicts", "tuples", "polars", "pyarrow", "duckdb"],
)
def test_exported_lists_have_the_ranks_in_their_rank_column(frame, form):
    ranked = rank_positives(adapt(form(frame), SPLIT), SPLIT)
    assert ranked.n_above.tolist() == [1, 2]
    assert ranked.max_rank == 2


@pytest.mark.parametrize(
    ("frame", "text"),
    [
        (
            pd.DataFrame({"a": [1], "b": [2], "recommendations": [[(1, 2.0)]]}),
            "must have one other column, the user; got 'a', 'b', 'recommendations'",
        ),
        (
            pd.DataFrame({"user": [1], "recommendations": [[{"item": 1, "score": 2.0}]]}),
            "must have an item and a rating; got 'item', 'score'",
        ),
    ],
)
def test_nested_frames_of_another_form_get_an_error(frame, text):
    with pytest.raises(InputError, match=text):
        adapt(frame, SPLIT)
