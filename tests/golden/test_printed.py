"""What is printed in fifteen situations stands in text files, each read as a stranger would.

After a change of words: `python -m tests.golden.situations`, and read what it prints.
"""

from __future__ import annotations

import pytest

from tests.golden.situations import FOLDER, SITUATIONS


@pytest.mark.parametrize("name", SITUATIONS)
def test_a_result_is_printed_as_its_file_says(name):
    assert f"{SITUATIONS[name]()!r}\n" == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_every_file_is_of_a_situation():
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(SITUATIONS)


def test_the_commonest_result_takes_22_lines_and_no_result_more_than_100_columns():
    texts = {name: (FOLDER / f"{name}.txt").read_text(encoding="utf-8") for name in SITUATIONS}
    assert len(texts["commonest"].splitlines()) <= 22
    assert max(len(line) for text in texts.values() for line in text.splitlines()) <= 100


def test_a_loaded_result_prints_what_it_printed_before():
    printed = [(FOLDER / f"{name}.txt").read_bytes() for name in ("commonest", "saved_and_loaded")]
    assert printed[0] == printed[1]
