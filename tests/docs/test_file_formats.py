"""Help, docstrings and pages name every file format that is read."""

from __future__ import annotations

from pathlib import Path

import pytest

import ipseval
from ipseval.cli._about import EXTRAS
from ipseval.utils.file_formats import BINARY_FORMATS, READ_FORMATS

ROOT = Path(__file__).resolve().parents[2]
# Page -> the beginning of the sentence or row that lists formats.
PAGES = {
    "README.md": "- **Your tables**",
    "docs/command-line.md": "**Files.**",
    "docs/tutorial.md": "ipseval reads ",
}


@pytest.mark.parametrize("page", PAGES)
def test_a_page_that_lists_formats_names_all_of_them(page):
    beginning = PAGES[page]
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    passages = []
    for number, line in enumerate(lines, start=1):
        if line.startswith(beginning):
            passages.append((number, line))
    assert len(passages) == 1, f"no single line of {page} begins with {beginning!r}; correct PAGES"
    number, line = passages[0]
    for file_format in BINARY_FORMATS:
        assert file_format in line, f"name {file_format} in line {number} of {page}"


def test_the_dependencies_name_the_library_of_each_format():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    for file_format in BINARY_FORMATS:
        assert f"| {file_format} files |" in text, (
            f"add a row with the purpose '{file_format} files' to Dependencies in CONTRIBUTING.md"
        )


def test_docstrings_and_extras_name_all_formats():
    purposes = " ".join(purpose for _, _, purpose in EXTRAS.values())
    for file_format in BINARY_FORMATS:
        assert file_format in ipseval.read.__doc__, f"name {file_format} in the docstring of read (_logs.py)"
        assert file_format in purposes, f"name {file_format} in EXTRAS of ipseval/cli/_about.py"
    assert READ_FORMATS in ipseval.read_lists.__doc__, (
        f"write {READ_FORMATS!r} into the summary of read_lists (ipseval/data/reading/_lists.py)"
    )
