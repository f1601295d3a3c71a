"""The short tables of the pages are those of the complete tables."""

from __future__ import annotations

import re
from pathlib import Path

import pandas as pd
import pytest

from reproductions import excerpts
from reproductions.excerpts import Column, Excerpt

PLACES = [(page, name) for page, tables in excerpts.make_tables().items() for name in tables]


@pytest.mark.parametrize(("page", "name"), PLACES)
def test_a_short_table_on_a_page_is_computed_from_the_files(page: Path, name: str):
    table = excerpts.make_tables()[page][name]
    assert f"<!-- {name} -->\n{table}\n<!-- /{name} -->" in page.read_text("utf-8")


def test_no_page_has_a_short_table_that_no_file_makes():
    names = {name for _, name in PLACES}
    for page in sorted(excerpts.DOCS.glob("*.md")):
        places = set(re.findall(r"<!-- ([a-z0-9-]+-excerpt) -->", page.read_text("utf-8")))
        assert places <= names, page.name


def test_rows_and_columns_are_found_by_their_keys(tmp_path, monkeypatch):
    monkeypatch.setattr(excerpts, "TABLES", tmp_path)
    (tmp_path / "a.csv").write_text("log,users,error\nCoat,25,1 / 2\nCoat,100,3 / 4\n", "utf-8")
    columns = (Column("first", "a.csv", "error", 0), Column("all", "a.csv", "error"))
    short = Excerpt("page.md", "a-excerpt", "log", {("Coat", "100"): "Coat, 100 users"}, columns)
    assert excerpts.format_excerpt(short).splitlines() == [
        "| log | first | all |",
        "| --- | --: | --: |",
        "| Coat, 100 users | 3 | 3 / 4 |",
    ]


def test_pairs_are_written_with_the_number_of_all_pairs_and_shares_as_percentages(tmp_path, monkeypatch):
    monkeypatch.setattr(excerpts, "TABLES", tmp_path)
    (tmp_path / "a.csv").write_text("splits,beyond,OR@1\nfirst,41 in 60,0.62\nsecond,–,0.29\n", "utf-8")
    columns = (
        Column("pairs", "a.csv", "beyond", write=excerpts.write_pair_count),
        Column("same first", "a.csv", "OR@1", write=excerpts.write_percentage),
    )
    short = Excerpt("page.md", "a-excerpt", "splits", {("first",): "a", ("second",): "b"}, columns)
    assert excerpts.format_excerpt(short).splitlines()[2:] == [
        "| a | 41 of 1,260 | 62% |",
        "| b | not computed | 29% |",
    ]


def test_the_errors_of_evaluators_are_those_of_the_tables_of_the_logs():
    lines = excerpts.format_evaluators().splitlines()[2:]
    for position, log in enumerate(excerpts.EVALUATOR_LOGS):
        complete = pd.read_csv(excerpts.TABLES / "evaluators" / f"evaluators-{log}.csv", index_col=0)
        for line, evaluator in zip(lines, excerpts.SHOWN_EVALUATORS, strict=True):
            error = complete.loc[evaluator, "error, % of AOA's"].split(" ")[0]
            is_warned = evaluator == "correct (100 users)" and log == "kuairand"
            mark = " (warned)" if is_warned else ""
            assert line.split("|")[2 + position].strip() == f"{error}{mark}"
