"""What is printed in many situations stands in text files, each read as a stranger would.

After a change of words: `python -m tests.golden.situations`, and read what it prints.
"""

from __future__ import annotations

import pytest

from tests.golden.situations import FOLDER, SITUATIONS
from tests.inside.report import WIDTH

LONG = ("exposure", "a_hundred_models", "thirty_models", "saved_and_loaded")  # a third of the time


@pytest.mark.filterwarnings("ignore:random .* as many as by chance")
@pytest.mark.parametrize("name", [one for one in SITUATIONS if one not in LONG])
def test_a_result_is_printed_as_its_file_says(name):
    assert f"{SITUATIONS[name]()!r}\n" == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:random .* as many as by chance")
@pytest.mark.parametrize("name", LONG)
def test_a_result_that_takes_longer_is_printed_as_its_file_says(name):
    test_a_result_is_printed_as_its_file_says(name)


def test_every_file_is_of_a_situation():
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(SITUATIONS)


# Five recommenders by two metrics at most, in each situation that a verdict tells apart.
DECIDED = {
    *(
        "commonest",
        "design",
        "exposure",
        "fitted",
        "thin",
        "flagged",
        "no_training",
        "one_model",
        "all_equal",
    ),
    *("a_hundred_models", "impressions", "without_a_claim"),
}


def test_a_result_takes_25_lines_and_no_result_is_wider_than_texts_are():
    texts = {name: (FOLDER / f"{name}.txt").read_text(encoding="utf-8") for name in SITUATIONS}
    assert max(len(texts[name].splitlines()) for name in DECIDED) <= 25
    printed = [text for name, text in texts.items() if not name.startswith("page")]  # a page has no width
    assert max(len(line) for text in printed for line in text.splitlines()) <= WIDTH


def test_the_verdict_stands_below_the_first_line_of_every_result():
    texts = {name: (FOLDER / f"{name}.txt").read_text(encoding="utf-8") for name in DECIDED}
    assert all(text.splitlines()[2].startswith("Verdict   ") for text in texts.values())


def test_a_loaded_result_prints_what_it_printed_before():
    printed = [(FOLDER / f"{name}.txt").read_bytes() for name in ("commonest", "saved_and_loaded")]
    assert printed[0] == printed[1]
