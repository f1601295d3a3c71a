"""Ids, labels and times survive the border: no number changes with an order, nothing is converted wrongly."""

from __future__ import annotations

import datetime

import narwhals as nw
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ipseval
from ipseval import InputError, Interactions, Split
from tests.inside.utils import align_rows, to_id_array

# Orders in time within a user leak by design; tests/data/test_time.py has the warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*later training rows:ipseval.errors.DataWarning")

NAME = st.text("ab", min_size=1, max_size=4)
DATE = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
IDS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=3, max_size=6, unique=True),
    st.lists(st.integers(0, 2**64 - 1), min_size=3, max_size=6, unique=True),
    st.lists(st.integers(-4, 4), min_size=3, max_size=6, unique=True),
    st.lists(st.floats(allow_nan=False), min_size=3, max_size=6, unique=True),
    st.lists(NAME, min_size=3, max_size=6, unique=True),
    st.lists(DATE, min_size=3, max_size=6, unique=True),
)


@given(IDS, st.randoms())
def test_ids_come_back_from_their_codes(ids, random):
    rows = [random.choice(ids) for _ in range(5)]
    frame = pd.DataFrame({"user": pd.Series(rows), "item": range(5)})
    for universe in (None, ids, np.array(ids), np.array(ids, dtype=object), pd.Index(ids)):
        try:
            log = Interactions.from_frame(frame, users=universe)
        except InputError:
            assert universe is not None
            continue
        assert log.user_ids[log.user].tolist() == rows
        assert log.n_users == len(set(rows) if universe is None else ids)


@pytest.mark.parametrize("items", [[0, 1, 2, 3], [3, 1, 0, 2], [1, 2, 3, 4]])
@pytest.mark.parametrize("order", [[0, 1, 2, 3], [3, 2, 1, 0], [1, 3, 0, 2]])
def test_a_series_is_read_by_its_labels_whatever_index_pandas_gives_it(items, order):
    split = Split.from_frames(
        pd.DataFrame({"user": [0], "item": [1]}), pd.DataFrame({"user": [0], "item": [2]}), items=items
    )
    start = min(items)
    # [::-1] keeps a RangeIndex, which has to be read as labels all the same.
    by_id = pd.Series([0.1, 0.2, 0.3, 0.4], index=pd.RangeIndex(start, start + 4)).iloc[order]
    by_id = by_id[::-1]
    expected = [0.1 * (item - start + 1) for item in items]
    np.testing.assert_allclose(ipseval.KnownPropensity(item=by_id).fit(split).item, expected, rtol=1e-15)


def test_a_series_without_labels_is_in_the_order_of_the_ids():
    split = Split.from_frames(
        pd.DataFrame({"user": [0], "item": ["a"]}), pd.DataFrame({"user": [0], "item": ["b"]})
    )
    assert ipseval.KnownPropensity(item=pd.Series([0.1, 0.2])).fit(split).item.tolist() == [0.1, 0.2]
    with pytest.raises(InputError, match="different types"):
        ipseval.KnownPropensity(item=pd.Series([0.1, 0.2], index=[5, 6])).fit(split)


@pytest.mark.parametrize(
    ("labels", "rows", "expected"),
    [
        ("ba", "ab", [2, 1]),
        ([1, 0], None, [2, 1]),
        (None, "ab", [1, 2]),
        ([5, 6], None, [1, 2]),  # rows that were left out leave holes in their numbers
        ("aa", "aa", [1, 2]),
        ([6, 5], None, None),
        ("ab", "bc", None),
        ("ab", "aa", None),
        ("aa", "ab", None),
    ],
)
def test_values_of_rows_are_in_the_order_of_the_rows_by_their_labels(labels, rows, expected):
    values = pd.Series([1, 2], index=None if labels is None else list(labels))
    like = None if rows is None else pd.Series([0, 0], index=list(rows))
    if expected is None:
        with pytest.raises(InputError, match="weights must have the labels of the rows"):
            align_rows(values, "weights", like)
    else:
        assert align_rows(values, "weights", like).tolist() == expected


@given(
    st.lists(st.integers(-(10**11), 2 * 10**11), min_size=4, max_size=8, unique=True),
    st.sampled_from(["s", "ms", "us"]),
)
def test_time_keeps_its_order_or_is_refused(seconds, unit):
    time = np.array(seconds, dtype="datetime64[s]").astype(f"datetime64[{unit}]")
    frame = pd.DataFrame({"user": 0, "item": range(len(seconds)), "t": time})
    fits = all(abs(second) < 2**63 / 1e9 for second in seconds)
    try:
        log = Interactions.from_frame(frame, timestamp="t")
    except InputError:
        assert not fits
        return
    assert fits
    assert np.argsort(log.timestamp).tolist() == np.argsort(seconds).tolist()
    latest = ipseval.split_leave_one_out(log, order="temporal").test
    assert latest.item.tolist() == [int(np.argmax(seconds))]


def test_a_sentinel_date_is_refused_with_the_count_and_the_date():
    frame = pd.DataFrame({"user": [0, 0], "item": [1, 2], "t": pd.to_datetime(["2022-01-01", "2022-01-02"])})
    frame["t"] = np.array(["2022-01-01", "9999-12-31"], dtype="datetime64[s]")
    with pytest.raises(InputError, match=r"1 of 2 entries of column 't'.*9999.*1677 to 2262"):
        Interactions.from_frame(frame, timestamp="t")


def test_whole_numbers_beyond_int64_are_refused_as_values_and_kept_as_ids():
    large = np.array([2**63 + 5, 2**63 + 6], dtype=np.uint64)
    with pytest.raises(InputError, match=r"2 of 2 entries of column 'v'.*9223372036854775813.*2\^63 - 1"):
        Interactions.from_frame(pd.DataFrame({"user": [0, 1], "item": [1, 2], "v": large}), value="v")
    log = Interactions.from_frame(pd.DataFrame({"user": large[::-1], "item": [1, 2]}))
    assert log.user_ids[log.user].tolist() == large[::-1].tolist()


DATES = np.array(["2022-01-01", "2022-01-02"], dtype="datetime64[s]")


@pytest.mark.parametrize(
    ("ids", "others"),
    [(np.array([1, 2], dtype=np.uint64), np.array([1, 2])), (DATES, DATES.astype("datetime64[ns]"))],
)
def test_ids_of_equal_value_in_two_types_are_the_same_ids(ids, others):
    train, test = (pd.DataFrame({"user": one, "item": row}) for row, one in enumerate((ids, others)))
    split = Split.from_frames(train, test)
    assert split.user_ids.tolist() == others.tolist()
    assert split.n_users == 2


def test_an_unsigned_and_a_signed_id_that_no_type_holds_are_refused():
    with pytest.raises(InputError, match=r"uint64: 9223372036854775808.*int64: -1"):
        Split.from_frames(
            pd.DataFrame({"user": np.array([2**63], dtype=np.uint64), "item": [1]}),
            pd.DataFrame({"user": [-1], "item": [1]}),
        )


def test_whole_numbers_that_doubles_cannot_hold_are_never_matched_with_doubles():
    frame = pd.DataFrame({"user": [2**53, 2**53 + 1], "item": [0, 1]})
    with pytest.raises(InputError, match="doubles cannot represent every whole number"):
        Interactions.from_frame(frame, users=np.array([2.0**53, 2.0**53 + 2]))
    split = Split.from_frames(frame.iloc[:1], frame.iloc[1:])
    scores = pd.DataFrame(np.eye(2), index=[2.0**53, 2.0**53 + 2], columns=[0, 1])
    with pytest.raises(InputError, match="doubles cannot represent every whole number"):
        ipseval.rank_positives(scores, split)
    small = Interactions.from_frame(pd.DataFrame({"user": [3, 5], "item": [0, 1]}), users=[5.0, 3.0])
    assert small.user.tolist() == [1, 0]


def test_scores_of_mixed_columns_that_would_lose_digits_are_refused():
    split = Split.from_frames(
        pd.DataFrame({"user": [0], "item": [0]}), pd.DataFrame({"user": [0], "item": [1]}), items=range(3)
    )
    scores = pd.DataFrame({0: [0.5], 1: [2**60], 2: [2**60 + 1]})
    with pytest.raises(InputError, match="2 whole numbers above"):
        ipseval.rank_positives(scores, split)
    ranked = ipseval.rank_positives(scores.round().astype(object).astype("int64"), split)
    assert (ranked.n_above.tolist(), ranked.n_tied.tolist()) == ([1], [0])
    for column in ([pd.Timestamp(2026, 1, 1)], [True], ["1"]):
        with pytest.raises(InputError, match="must hold real numbers; got dtype object"):
            ipseval.rank_positives(pd.DataFrame({0: [0.5], 1: column, 2: [0.5]}), split)


@pytest.mark.parametrize(
    "universe", [[1, "a"], [True, 2], [1, 2.5], [1, None], [[1], [2]], "ab", {1: 2}, 3, None]
)
def test_a_universe_of_several_types_is_refused(universe):
    with pytest.raises(InputError):
        to_id_array(universe, "users")


HEADERS = ["user-id", "userId", "user_id", "USER_ID", "User", "uid"]


@pytest.mark.parametrize("header", HEADERS)
def test_a_header_read_as_data_is_refused(header):
    rows = pd.DataFrame({"user": [header, "196", "186"], "item": ["item_id", "242", "302"]})
    with pytest.raises(InputError, match=rf"row 0 of column 'user' looks like a header: it is '{header}'"):
        Interactions.from_frame(rows)
    with pytest.raises(InputError, match="row 0 of column 'user' looks like a header"):
        Split.from_frames(rows, pd.DataFrame({"user": ["3"], "item": ["4"]}))
    with pytest.raises(InputError, match="looks like a header"):
        Interactions.from_frame(rows, users=["196", "186"])
    mixed = pd.DataFrame({"user": pd.Series([header, 196, 186], dtype=object), "item": [1, 2, 3]})
    with pytest.raises(InputError, match="first row looks like a header"):
        Interactions.from_frame(mixed)


def test_an_id_that_only_looks_like_a_header_is_kept():
    rows = pd.DataFrame({"user": ["user", "anna", "7"], "item": [1, 2, 3]})
    assert Interactions.from_frame(rows).n_users == 3
    with pytest.raises(
        InputError, match=r"column 'item' must be numeric or a date.*first other: 'rating'\)\. Convert it"
    ):
        Interactions.from_frame(
            rows.assign(item=["rating", "3", "4"]), value="item", item="user", user="user"
        )


ONE = {"user": [0, 1], "item": [1, 0], "user_ids": ["a", "b"], "item_ids": [5, 6]}


def test_interactions_do_not_change_with_the_arrays_they_were_made_from():
    given = {name: np.array(values) for name, values in ONE.items()}
    log = Interactions(**given, value=(value := np.array([1.0, 2.0])))
    for array in (*given.values(), value):
        array[:] = array[::-1].copy()
    assert log.to_frame().to_numpy().tolist() == [["a", 6, 1.0], ["b", 5, 2.0]]
    view = (base := np.array([0, 1])).view()
    view.flags.writeable = False
    log = Interactions(**{**ONE, "user": view})
    base[:] = 1
    assert log.user.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"user": [0]}, "must have one length"),
        ({"value": [1.0]}, "must have one length"),
        ({"value": [1.0, np.nan]}, "value must be finite"),
        ({"value": ["x", "y"]}, "value must be numeric"),
        ({"timestamp": [[1, 2]]}, "timestamp must be one-dimensional"),
        ({"user": [0, 2]}, r"user must hold codes from 0 to 1.*1 of 2 are not \(first: 2\)"),
        ({"item": [-1, 0]}, r"item must hold codes.*first: -1"),
        ({"item": [0.0, 1.0]}, "item must hold whole numbers"),
        ({"user": [0, 0], "item": [1, 1]}, "1 of 2 rows repeat"),
        ({"user_ids": ["a", "a"]}, "user_ids repeats 1 ids"),
        ({"user_ids": ["a", None]}, "user_ids holds 1 missing ids"),
        ({"item_ids": None}, "item_ids must be"),
        ({"n_pairs_removed": -1}, "n_pairs_removed must be an integer >= 0"),
    ],
)
def test_interactions_check_themselves(changed, text):
    with pytest.raises(InputError, match=text):
        Interactions(**{**ONE, **changed})


@pytest.mark.parametrize("keep", [None, [0.5], [5], [[0, 1]], "a", [True], [0, 0], [0, -2]])
def test_a_choice_of_rows_that_is_none_is_refused(keep):
    with pytest.raises(InputError):
        Interactions(**ONE).select(keep)


@pytest.mark.parametrize("parts", [(None, None), (1, 2), ("a", pd.DataFrame())])
def test_a_split_checks_its_parts(parts):
    with pytest.raises(InputError, match="train must be Interactions"):
        Split(*parts)


def held(names):
    """Return text in every way that frames hold it, with the missing one that goes with it."""
    table = pa.table({"user": pa.array(names, pa.string())})
    cut = pa.chunked_array([names[:2], names[2:]], pa.large_string())
    yield "object", pd.DataFrame({"user": pd.Series(names, dtype=object)})
    yield "python string", pd.DataFrame({"user": pd.Series(names, dtype="string[python]")})
    yield "arrow string", pd.DataFrame({"user": pd.Series(names, dtype="string[pyarrow]")})
    yield "category", pd.DataFrame({"user": pd.Categorical(names, categories=["zz", "b", "é", "a", "𝔸"])})
    yield "chunks", pa.table({"user": cut})
    yield "dictionary", pa.table({"user": table["user"].dictionary_encode()})
    yield "polars", pl.from_arrow(table)
    yield "polars category", pl.from_arrow(table).cast(pl.Categorical)


NAMES = ["é", "a", "𝔸", "b", "a", "é"]


@pytest.mark.parametrize("number", range(8))
def test_text_is_the_same_ids_however_a_frame_holds_it(number):
    what, frame = list(held(NAMES))[number]
    named = nw.from_native(frame).with_row_index("item").to_native()
    log = Interactions.from_frame(named)
    assert log.user_ids.tolist() == ["a", "b", "é", "𝔸"], what
    assert log.user_ids.dtype == object
    assert {type(one) for one in log.user_ids.tolist()} == {str}
    assert log.user.tolist() == [2, 0, 3, 1, 0, 2]
    given_order = Interactions.from_frame(named, users=["𝔸", "a", "x", "é", "b"])
    assert given_order.user.tolist() == [3, 1, 0, 4, 1, 3]
    with pytest.raises(InputError, match=r"has 2 ids that are not in the given universe of 2 \('𝔸', 'b';"):
        Interactions.from_frame(named, users=["a", "é"])


@pytest.mark.parametrize("number", range(8))
def test_missing_text_is_counted_however_a_frame_holds_it(number):
    _, frame = list(held(["a", None, "b", None]))[number]
    with pytest.raises(InputError, match="column 'user' has 2 missing entries of 4"):
        Interactions.from_frame(nw.from_native(frame).with_row_index("item").to_native())


def test_half_a_character_is_an_id_as_any_text():
    log = Interactions.from_frame(
        pd.DataFrame({"user": pd.Series(["b", "\ud800"], dtype=object), "item": [1, 2]})
    )
    assert log.user_ids.tolist() == ["b", "\ud800"]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "uint64"])
def test_numbers_keep_their_type_as_ids(dtype):
    users = np.array([7, 3, 100, 3], dtype=dtype)
    log = Interactions.from_frame(pd.DataFrame({"user": users, "item": range(4)}))
    assert log.user_ids.dtype == dtype
    assert log.user_ids.tolist() == [3, 7, 100]
    assert log.user.tolist() == [1, 0, 2, 0]


def test_whole_numbers_beyond_64_bits_stay_what_they_are():
    for ids in ([2**63, 1], [2**64, 1], [-(2**63) - 1, 1]):
        log = Interactions.from_frame(pd.DataFrame({"user": ids, "item": [1, 2]}))
        assert log.user_ids.tolist() == sorted(ids)
    assert (
        Interactions.from_frame(
            pd.DataFrame({"user": pd.Series([2**63], dtype=object), "item": 1})
        ).user_ids.dtype
        == "u8"
    )
