"""What is printed in many situations stands in text files, each read as a stranger would.

After a change of words: `python -m tests.golden.situations`, and read what it prints.
"""

from __future__ import annotations

import re

import pandas as pd
import pytest

import ipseval
from tests.golden.situations import DATA, FOLDER, RECALL, SITUATIONS

LONG = ("exposure", "a_hundred_models", "thirty_models", "saved_and_loaded")  # a third of the time


@pytest.mark.filterwarnings("ignore:random .* as many as by chance")
@pytest.mark.parametrize("name", [situation for situation in SITUATIONS if situation not in LONG])
def test_a_result_is_printed_as_its_file_says(name):
    assert f"{SITUATIONS[name]()!r}\n" == (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


@pytest.mark.filterwarnings("ignore:random .* as many as by chance")
@pytest.mark.parametrize("name", LONG)
def test_a_result_that_takes_longer_is_printed_as_its_file_says(name):
    test_a_result_is_printed_as_its_file_says(name)


def test_every_file_is_of_a_situation():
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(SITUATIONS)


# Results that print a verdict: those that groups, decompositions, differences and pages do not.
OTHERS = {
    "validation",
    "explained",
    "explained_flagged",
    "explained_missing_users",
    "decomposition",
    "difference",
}
EVALUATIONS = [name for name in SITUATIONS if name not in OTHERS and not name.startswith(("page", "groups"))]


def printed(name: str) -> str:
    return (FOLDER / f"{name}.txt").read_text(encoding="utf-8")


def test_five_recommenders_and_two_metrics_take_at_most_24_lines_of_110_columns():
    lines = printed("commonest").splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 110


@pytest.mark.parametrize("name", SITUATIONS)
def test_no_line_is_longer_than_110_columns(name):
    text = printed(name)
    if name.startswith("page"):
        text = re.sub(r"(?m)^.*less than the \d+ needed$", "", text)  # a page has no width
    assert max(len(line) for line in text.splitlines()) <= 110


@pytest.mark.parametrize("name", EVALUATIONS)
def test_the_verdict_is_below_the_first_line(name):
    lines = printed(name).splitlines()
    assert re.match(r"\d+ recommenders?, \d+ users", lines[0])
    assert lines[2].startswith("Verdict     ")


@pytest.mark.parametrize("name", EVALUATIONS)
def test_no_sentence_mentions_a_correction_that_was_not_requested(name):
    """The next step may name the command that corrects, and the assumption the probability of observation."""
    text = " ".join(printed(name).split())
    for allowed in (
        "`ipseval correct` compares the recommenders on the random exposure itself.",
        "is observed with probability ∝",
    ):
        text = text.replace(allowed, "")
    assert not re.search(r"correct|posterior|probability|regret|simulat", text, re.IGNORECASE)


def test_a_loaded_result_prints_what_it_printed_before():
    printed = [(FOLDER / f"{name}.txt").read_bytes() for name in ("commonest", "saved_and_loaded")]
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    ("missing_lists", "words"),
    [
        ("zero", "the lists of 'm' must contain users with held-out interactions; got lists of none"),
        ("drop", "no users with test positives have a list of every model"),
    ],
)
def test_lists_of_no_test_user_are_refused_instead_of_printed_as_zeros(missing_lists, words):
    """u000 has lists and no held-out interactions."""
    data = ipseval.Split(DATA.train, DATA.test.select(DATA.test.user > 0))
    lists = pd.DataFrame({"user": "u000", "item": DATA.item_ids[-10:], "rank": range(1, 11)})
    with pytest.raises(ipseval.InputError, match=words):
        ipseval.evaluate({"m": lists}, data, metrics=RECALL, missing_lists=missing_lists)
