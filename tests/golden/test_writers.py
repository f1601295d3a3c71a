"""Reports are written as their files say; after a change `python -m tests.golden.writers`, and read them."""

from __future__ import annotations

import pytest

from tests.golden.writers import FILES, FOLDER, write_report


@pytest.mark.parametrize("name", FILES)
def test_a_report_is_written_as_its_file_says(name):
    assert write_report(name) == (FOLDER / name).read_text(encoding="utf-8")


def test_every_file_is_of_a_report():
    assert {path.name for path in FOLDER.iterdir()} == set(FILES)
