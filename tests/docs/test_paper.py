"""The paper: its numbers are those of the pages, its references exist, and it is short."""

from __future__ import annotations

import re

from paper.__main__ import HERE, MARK, MOST_WORDS, PAPER, collect_values, count_words, refresh

TEXT = PAPER.read_text("utf-8")


def test_every_number_of_the_paper_is_that_of_a_page():
    values = collect_values()
    assert set(re.findall(MARK, TEXT)) == set(values)
    assert refresh(TEXT, values) == TEXT, "python -m paper --numbers writes them again"


def test_the_paper_is_short_and_cites_what_it_lists():
    assert 700 < count_words(TEXT) <= MOST_WORDS
    listed = set(re.findall(r"^@\w+\{(\w+),", (HERE / "paper.bib").read_text("utf-8"), re.MULTILINE))
    assert set(re.findall(r"@([a-z]+\d{4})", TEXT)) == listed
