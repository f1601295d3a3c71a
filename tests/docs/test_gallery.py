"""The gallery and the example pages: made by a command, of every kind of picture, and still what it makes."""

from __future__ import annotations

import re

import pytest

from reproductions import gallery
from reproductions.gallery import DOCS, KINDS
from tests.conftest import shared_data
from tests.inside.evaluation import PLOT_KINDS as DRAWN


def test_the_gallery_shows_every_kind_of_picture():
    assert set(KINDS) == set(DRAWN)
    page = (DOCS / "api" / "gallery.md").read_text(encoding="utf-8")
    linked = re.findall(r"\]\((\S+)\)", page)
    assert len(linked) == 3 + len(KINDS)
    assert not [page_name for page_name in linked if not (DOCS / "api" / page_name).exists()]


def test_the_example_pages_load_nothing_and_hold_no_data():
    pages = sorted((DOCS / "reports").glob("*.html"))
    assert [page.stem for page in pages] == ["coat", "movielens", "two-versions"]
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert not re.search(r"https?:|@import|url\((?!#)", text)
        assert "u_00" not in text  # users of the simulated impressions


@pytest.fixture(name="made", scope="module")
def evaluation_of_movielens():
    return gallery.movielens(shared_data("ml-100k").parent)


@pytest.mark.slow  # with the documentation site: see `.ci/run`
def test_the_page_of_movielens_is_what_the_command_makes(made):
    stored = (DOCS / "reports" / "movielens.html").read_text(encoding="utf-8")
    for remark in made.tables().remarks:
        if remark.name in ("Verdict", "Weights"):
            assert all(line.replace("<", "&lt;") in stored for line in remark.lines)
    assert made.data_hash in stored
