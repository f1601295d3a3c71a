"""Printed sentences are plain English: the nouns of the field, no riddles, at most 25 words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "ipseval"
BANNED = (
    r"\bread off\b",
    r"\bheld? (.* )?against\b",
    r"\bworth .*\bof\b",
    r"\bnot to be trusted\b",
    r"\bwhat .* weighs\b",
)
MOST_WORDS = 25


def texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every literal that is printed; values become one word each."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "X" for part in child.values]
            yield child.lineno, "".join(map(str, parts))
        elif isinstance(child, ast.Constant) and isinstance(child.value, str):
            yield child.lineno, child.value
        elif not (isinstance(child, ast.Expr) and isinstance(child.value, ast.Constant)):  # a docstring
            yield from texts(child)


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.;:?!])\s|\n", re.sub(r"\([^()]*\)", "", text))


def printed() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        for line, text in texts(ast.parse(path.read_text(encoding="utf-8"))):
            if len(text.split()) > 3 and not re.search(r"[{}]|\\[a-z]", text):  # no styles, no LaTeX
                yield f"{path.relative_to(PACKAGE.parent)}:{line}", text


def faults(text: str) -> list[str]:
    found = [f"banned: {word}" for word in BANNED if re.search(word, text, flags=re.IGNORECASE)]
    counts = [len(sentence.split()) for sentence in sentences(text)]
    return found + [f"{count} words in a sentence" for count in counts if count > MOST_WORDS]


def test_no_printed_sentence_is_a_riddle_or_longer_than_25_words():
    wrong = [f"{place}: {', '.join(found)}: {text}" for place, text in printed() if (found := faults(text))]
    assert not wrong, "\n".join(wrong)


def test_the_collection_sees_errors_warnings_and_notes():
    everything = " ".join(text for _, text in printed())
    assert "effective sample size" in everything
    assert "rank all recommenders on one split" in everything
    assert "recommenders may change places" in everything


@pytest.mark.parametrize(
    "text",
    [
        "the weights are worth 12 of 400 positives",
        "recall@10: read off lists of 100 candidates",
        "every estimate can be held against the truth",
        " ".join(26 * ["word"]),
    ],
)
def test_the_rule_refuses_what_it_should_refuse(text):
    assert faults(text)
    assert not faults("Short sentences are plain. " * 9)
