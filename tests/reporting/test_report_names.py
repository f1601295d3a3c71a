"""Names that users wrote stay names in every output: no command, markup, formula or error."""

from __future__ import annotations

import csv
import html
import io
import json
import re
import unicodedata

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.reporting import Tables
from tests.inside.reporting import Cell, Table, format_csv, to_html, to_latex, to_markdown, to_text
from tests.worlds import random_split

NAMES = [
    "\x1b[31mred\x1b[0m",
    "\x1b]0;title\x07",
    "over\rwritten",
    "two\nlines",
    "tab\tbed",
    "nul\x00byte",
    "\x9b31mC1",
    "\u202egnp.exe",
    "\u2066isolate\u2069",
    "line\u2028separator",
    "[2cm] row",
    "*starred",
    "a|b\\|c",
    r"\input{secret} \\ & % $ # _ ^ ~ {}",
    "-- dash",
    "<img src=x onerror=alert(1)>&lt;",
    "[link](javascript:alert(1)) `code` **bold** $x$",
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-1+1",
    "@SUM(A1)",
    "日本語の推薦",
    "Zoë ± γ",
]


@pytest.fixture(scope="module")
def evaluation() -> ipseval.Evaluation:
    rng = np.random.default_rng(0)
    split = random_split(rng, 30, 20)
    scores = {name: rng.normal(size=(split.n_users, split.n_items)) for name in NAMES}
    return ipseval.evaluate(scores, split, metrics=["recall@5"], estimators=["aoa"])


def hidden(text: str, allowed: str = "\n") -> set[str]:
    """Return the characters that a terminal or a reader would obey instead of show."""
    return {
        character
        for character in text
        if character not in allowed
        and (unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in "\u202e\u2066\u2069")
    }


def test_no_output_holds_a_character_that_is_obeyed_instead_of_shown(evaluation):
    for kind in ("markdown", "latex", "html", "json", "csv"):
        assert hidden(getattr(evaluation, f"to_{kind}")()) == set(), kind
    assert hidden(repr(evaluation)) == set()
    assert hidden(evaluation._repr_html_()) == set()


def test_text_has_one_line_per_name_with_codes_for_what_cannot_be_shown(evaluation):
    lines = repr(evaluation.explain()).split("\n\n")[1].splitlines()[1 : 1 + len(NAMES)]
    assert len(lines) == len(NAMES)
    assert all(re.search(r"0\.\d+ ± 0\.\d+$", line) for line in lines)
    for shown in (
        r"\x1b[31mred\x1b[0m",
        r"over\rwritten",
        r"\u202egnp.exe",
        "日本語の推薦",
    ):
        assert any(line.startswith(shown) for line in lines)


def test_markdown_has_three_cells_in_every_row_and_no_markup_of_a_name(evaluation):
    rows = [line for line in evaluation.to_markdown().splitlines() if line.startswith("| ")]
    assert len(rows) == 2 + len(NAMES)
    for row in rows:
        bare = re.sub(r"\\[^A-Za-z0-9 ]", "", row)
        assert bare.count("|") == 4
        assert not set("[]`<>$").intersection(bare)
    assert sum("**" in row for row in rows) == 1


def test_latex_rows_have_three_cells_and_start_with_no_argument_of_the_row_before(evaluation):
    body = evaluation.to_latex().split(r"\midrule")[1].split(r"\bottomrule")[0]
    rows = body.strip().split("\n")[1:]
    assert len(rows) == len(NAMES)
    for row in rows:
        assert row.endswith(r" \\")
        assert not row.startswith(("[", "*"))
        bare = re.sub(r"\\[&%$#_{}]", "", row.removesuffix(r" \\"))
        assert bare.count("&") == 2
        assert not set("%#_").intersection(bare)
        commands = set(re.findall(r"\\[A-Za-z]+", bare))
        known = {r"\pm", r"\dagger", r"\gamma", r"\textbf"}
        assert all(command.startswith(r"\text") or command in known for command in commands), commands
        assert bare.count("{") == bare.count("}")
    assert "--" not in body


def test_html_shows_every_name_as_text(evaluation):
    page = evaluation.to_html()
    assert page.encode("utf-8")
    heads = re.findall(r'<th scope="row">(.*?)</th>', page)[: len(NAMES)]
    assert "<img src=x onerror=alert(1)>&lt;" in map(html.unescape, heads)
    assert "<" not in "".join(heads)


def test_no_cell_of_a_csv_is_a_formula(evaluation):
    rows = list(csv.reader(io.StringIO(evaluation.to_csv())))
    assert len(rows) == 1 + len(NAMES)
    names = [row[0] for row in rows[1:]]
    assert not [name for name in names if name[0] in "=+-@\t\r"]
    assert "'=cmd|' /C calc'!A0" in names
    assert "'-1+1" in names


def test_json_gives_every_name_back(evaluation):
    document = json.loads(evaluation.to_json())
    models = [row["model"] for row in document["estimates"]]
    assert sorted(models) == sorted(NAMES)
    assert models == document["tables"][0]["models"]


def test_a_name_that_cannot_be_encoded_is_written_as_its_code():
    """A lone surrogate: pandas 3 holds none in a frame of text, but a caption or an older pandas may."""
    table = Table(("recommender", "aoa"), ((Cell("sur\ud800rogate"), Cell("1", hint="\udfff")),), "\udc80")
    tables = Tables(("\udc81",), (table, "\udc82"), title="\udc83", warnings=("\udc84",))
    for write in (to_text, to_markdown, to_latex, to_html):
        text = write(tables)
        assert text.encode("utf-8")
        for code in ("d800", "dc80", "dc81", "dc82", "dc84"):
            assert f"u{code}" in text
    assert to_latex(tables).count("dc81") == 1  # below the table alone
    frame = pd.DataFrame({"model": pd.Series(["sur\ud800rogate", "=1"], dtype=object), "value": [-1.5, 2.0]})
    assert format_csv(frame) == "model,value\nsur\\ud800rogate,-1.5\n'=1,2.0\n"


def test_a_recommender_whose_name_cannot_be_encoded_is_refused_by_its_code(evaluation):
    (ranked,) = {id(one.ranked): one.ranked for one in list(evaluation.samples.values())[:1]}.values()
    with pytest.raises(ipseval.InputError, match=r"1 hold half a character \(.*sur\\ud800rogate"):
        ipseval.evaluate_ranks({"sur\ud800rogate": ranked}, metrics=["recall@5"])


def test_latex_states_the_assumption_below_the_table(evaluation):
    notes = re.findall(r"^ *\\item (.*)$", evaluation.to_latex(), re.MULTILINE)
    assert [note.split(r"$\gamma$")[0] for note in notes[1:3]] == [
        "Split: random per user, 0.4 test.",
        "AOA: uniform exposure. SNIPS at ",
    ]
    assert " ranks first for " in notes[3]
    assert notes[4:] == [
        "Bold: the highest estimate of each column and metric.",
        r"No difference is significant (paired test, Holm's correction, $p \geq 0.05$).",
    ]
