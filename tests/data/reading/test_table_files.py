"""Tables other than logs: ids as in a log, names of columns, and errors."""

from __future__ import annotations

import pandas as pd
import pytest

from ipseval.data.reading.table_files import read_table
from ipseval.errors import InputError


@pytest.mark.parametrize("separator", [",", "\t"])
def test_an_id_may_be_the_text_na_and_is_missing_only_if_it_is_empty(separator, tmp_path):
    frame = pd.DataFrame(
        {"uid": ["NA", "null", None], "item": ["a", "None", "nan"], "score": [1.0, None, 3.0]}
    )
    path = tmp_path / "a.txt"
    frame.to_csv(path, index=False, sep=separator, na_rep="")
    table = read_table(path, {"uid": "user"})
    assert table["user"].tolist()[:2] == ["NA", "null"]
    assert table["user"].isna().tolist() == [False, False, True]
    assert table["item"].tolist() == ["a", "None", "nan"]
    path.write_text(path.read_text().replace("null", "x").replace("3.0", "NA"))
    assert read_table(path)["score"].isna().tolist() == [False, True, True]


def test_ids_with_leading_zeros_stay_text_and_whole_numbers_in_quotes_are_numbers(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('item,vector\n007,1\n8,2\n"9",3\n')
    assert read_table(path)["item"].tolist() == ["007", "8", "9"]
    path.write_text('item,vector\n7,"[1, 2]"\n8,"[3, 4]"\n')
    assert read_table(path)["item"].tolist() == [7, 8]
    path.write_text("item,vector\n1.23457E+12,1\n")
    with pytest.raises(InputError, match="numbers that a spreadsheet has shortened"):
        read_table(path)


def test_columns_are_renamed_where_the_table_has_them(tmp_path):
    frame = pd.DataFrame({"u": [1, 2], "item": [3, 4]})
    path = tmp_path / "a.csv"
    frame.to_csv(path, index=False)
    assert list(read_table(path, {"u": "user", "item": "item", "z": "time"}).columns) == ["user", "item"]
    assert list(read_table(path, {"u": "item", "item": "u"}).columns) == ["item", "u"]
    assert read_table(path, {"z": "item"}).equals(frame)
    with pytest.raises(InputError) as caught:
        read_table(path, {"u": "item"})
    assert str(caught.value) == f"{path} has columns u and item; remove one of them."


def test_the_first_line_of_text_names_the_columns_whatever_it_holds(tmp_path):
    (tmp_path / "a.csv").write_text("item,0,1\n5,0.5,2\n")
    assert read_table(tmp_path / "a.csv").to_dict("list") == {"item": [5], "0": [0.5], "1": [2]}


def test_numbers_in_json_are_numbers(tmp_path):
    (tmp_path / "a.json").write_text('[{"item": "x", "propensity": 0.5}, {"item": "y", "propensity": null}]')
    table = read_table(tmp_path / "a.json")
    assert table["propensity"].dtype == float
    assert table["propensity"].isna().tolist() == [False, True]


def test_the_error_names_a_file_that_is_missing_or_of_another_format(tmp_path):
    with pytest.raises(InputError, match=r"^no\.csv does not exist\.$"):
        read_table("no.csv")
    (tmp_path / "a.csv").write_bytes(b"\xd0\xcf\x11\xe0")
    with pytest.raises(InputError, match=r"must be a table of text, JSON.*; it is an Excel workbook"):
        read_table(tmp_path / "a.csv")
