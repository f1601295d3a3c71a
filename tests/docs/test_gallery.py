"""The gallery and the example pages: made by a command, of every kind of picture, and still what it makes."""

from __future__ import annotations

import re

import pytest

import ipseval
from reproductions import gallery
from reproductions.gallery import DOCS, KINDS
from tests.conftest import shared_data
from tests.inside.evaluation import PLOT_KINDS

COMMAND = "run `python -m reproductions.gallery`, which writes the page and its pictures"


def test_the_gallery_shows_every_kind_of_picture():
    assert tuple(KINDS) == PLOT_KINDS, (
        f"give {set(KINDS) ^ set(PLOT_KINDS)} a caption in KINDS of reproductions/gallery.py, in the order of "
        f"ipseval/evaluation/plotting.py; then {COMMAND}"
    )
    text = (DOCS / "api" / "gallery.md").read_text(encoding="utf-8")
    assert text == gallery.page(), COMMAND
    missing_files = []
    for target in re.findall(r"\]\((\S+)\)", text):
        if not (DOCS / "api" / target).exists():
            missing_files.append(target)
    assert not missing_files, COMMAND


def test_the_docstring_of_plot_names_every_kind():
    for kind in PLOT_KINDS:
        assert f'"{kind}"' in ipseval.Evaluation.plot.__doc__, (
            f"describe {kind!r} in the docstring of `plot` in ipseval/evaluation/evaluation.py"
        )


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
