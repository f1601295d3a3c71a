"""Markdown of a report, read by the rules of GitHub: every table has all its rows, and names stay text."""

from __future__ import annotations

import re

import numpy as np
import pytest

import ipseval
from ipseval.reporting import Tables
from tests.golden.writers import REPORTS
from tests.inside.reporting import Cell, Table, to_markdown
from tests.reporting.test_report_names import NAMES
from tests.worlds import random_split

markdown_it = pytest.importorskip("markdown_it", reason="markdown-it-py reads Markdown as GitHub does")


def read_tables(markdown: str) -> list[list[list[str]]]:
    """Return the tables of a document: rows of texts, as a reader of GitHub sees them."""
    tables: list[list[list[str]]] = []
    # "gfm-like" has tables and strikethrough; links that are not marked as such need another package.
    parser = markdown_it.MarkdownIt("commonmark").enable(["table", "strikethrough"])
    for token in parser.parse(markdown):
        if token.type == "table_open":
            tables.append([])
        elif token.type == "tr_open":
            tables[-1].append([])
        elif token.type == "inline" and token.level > 3:
            kinds = {child.type for child in token.children}
            assert kinds <= {"text", "text_special", "strong_open", "strong_close"}, token.content
            tables[-1][-1].append("".join(child.content for child in token.children))
    return tables


@pytest.fixture(scope="module")
def evaluation() -> ipseval.Evaluation:
    rng = np.random.default_rng(0)
    split = random_split(rng, 40, 20, 0.5)
    scores = {name: rng.normal(size=(split.n_users, split.n_items)) for name in NAMES}
    return ipseval.evaluate(scores, split, propensity="power-law:gamma=0", metrics=["recall@5", "ndcg@5"])


def test_a_table_per_metric_has_a_row_for_every_nasty_name_and_no_row_is_broken(evaluation):
    tables = read_tables(evaluation.to_markdown())
    assert len(tables) == 2
    for table in tables:
        assert len(table) == 1 + len(NAMES)
        assert {len(row) for row in table} == {len(table[0])}
        assert len(table[0]) >= 3


def test_every_cell_of_every_part_is_read_as_it_was_written():
    for name, build in REPORTS.items():
        report = build()
        written = [part for part in report.parts if isinstance(part, Table)]
        tables = read_tables(to_markdown(report))
        assert len(tables) == len(written), name
        for table, (header, *rows) in zip(written, tables, strict=True):
            assert len(header) == len(table.header)
            assert len(rows) == len(table.rows)
            for cells, texts in zip(table.rows, rows, strict=True):
                shown = [f"{cell.plain} {cell.mark}".strip() for cell in cells]
                assert [re.sub(" +", " ", text) for text in texts] == shown


@pytest.mark.parametrize(
    "name", ["a|b", "a\\|b", "`a|b`", "a\nb", "a\\", "<br>", "*a*", "[a](b)", "~~a~~", "a_b_", "|"]
)
def test_a_name_is_one_cell_and_itself(name):
    tables = Tables((), (Table(("name", "n"), ((Cell(name), Cell("1")),)),))
    (((_, _), row),) = read_tables(to_markdown(tables))
    assert row == [name.replace("\n", "\\n"), "1"]
