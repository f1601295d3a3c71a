"""What is printed, documented or said of a function is plain English: no riddles, at most 40 words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.sources import PACKAGE, modules, nodes

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    *sorted((ROOT / "docs").rglob("*.md")),
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md")),
]
GENERATED = ("command-line.md",)
BANNED = (
    r"\bread off\b",
    r"\b(held|holds?) (\w+ ){0,2}against\b",
    r"\bworth [\dX].*\bof\b",
    r"\bnot to be trusted\b",
    r"\bwhat .* weighs\b",
    r"\b1/P alone\b",
    r"\bwhere nothing is said\b",
    r"\bstands? for about\b",
    r"\bchange places\b.*\bof\b",
    r"\bwithheld\b",
    r"\bholds while no weight\b",
)
# Letters of a formula: fine where a formula stands, a riddle in an error or a note.
LETTERS = (r"S\*_u", r"\bs_u\b", r"\be₂")
MOST_WORDS = 40
TERMS = Path(__file__).with_name("terms.tsv")


def texts(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Yield the line and the text of every literal that is printed; values become one word each."""
    found = nodes(tree)
    inside = {id(part) for node in found if isinstance(node, ast.JoinedStr) for part in node.values}
    inside |= {id(node.value) for node in found if isinstance(node, ast.Expr)}  # a docstring
    for node in found:
        if isinstance(node, ast.JoinedStr):
            parts = [part.value if isinstance(part, ast.Constant) else "X" for part in node.values]
            yield node.lineno, "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inside:
            yield node.lineno, node.value


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.;:?!])\s|\n", re.sub(r"\([^()]*\)", "", text))


@cache
def printed() -> tuple[tuple[str, str], ...]:
    return tuple(
        (f"{path.relative_to(PACKAGE.parent)}:{line}", text)
        for path, tree in modules().items()
        for line, text in texts(tree)
        if len(text.split()) > 3 and not re.search(r"[{}]|\\[a-z]", text)  # no styles, no LaTeX
    )


def faults(text: str, banned: tuple[str, ...] = BANNED) -> list[str]:
    found = [f"banned: {word}" for word in banned if re.search(word, text, flags=re.IGNORECASE)]
    counts = [sum(any(map(str.isalnum, word)) for word in sentence.split()) for sentence in sentences(text)]
    return found + [f"{count} words in a sentence" for count in counts if count > MOST_WORDS]


@cache
def first_lines() -> tuple[tuple[str, str], ...]:
    """Return where a docstring stands and its first paragraph, its spaces left as they are."""
    owners = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
    return tuple(
        (
            f"{path.relative_to(PACKAGE.parent)}:{node.body[0].lineno}",
            text.split("\n\n")[0].replace("\n", " "),
        )
        for path, tree in modules().items()
        for node in nodes(tree)
        if isinstance(node, owners) and (text := ast.get_docstring(node, clean=False))
    )


def prose() -> Iterator[tuple[str, str]]:
    """Yield the paragraphs and items of the pages: no code, tables, headings or formulas."""
    for page in PAGES:
        if page.name in GENERATED:
            continue
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        for block in re.split(r"\n\s*\n", text):
            if any(re.match(r"\s*(\||#|:::|!!!|<|\$\$)|    ", line) for line in block.split("\n")):
                continue
            for item in re.split(r"\n(?=\s*(?:[-*]|\d+\.)\s)", block):
                plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", " ".join(item.split()))
                yield page.name, re.sub(r"`[^`]*`", "X", plain).replace("*", "")


def wrong(texts: Iterable[tuple[str, str]], banned: tuple[str, ...] = BANNED) -> str:
    found = ((place, text, faults(text, banned)) for place, text in texts)
    return "\n".join(f"{place}: {', '.join(fault)}: {text}" for place, text, fault in found if fault)


def test_no_printed_sentence_is_a_riddle_or_longer_than_40_words():
    assert not wrong(printed())


def test_no_error_or_note_uses_letters_of_a_formula():
    """Definitions, cards and the glossary have formulas; what is raised, warned or noted has none."""
    assert not wrong(((place, text) for place, text in printed() if not re.search("[Σ=≤√]", text)), LETTERS)


def test_no_first_line_of_a_docstring_is_a_riddle_or_longer_than_40_words():
    assert not wrong(first_lines())


def test_no_sentence_of_a_page_is_a_riddle_or_longer_than_40_words():
    assert not wrong(prose())


@cache
def docstrings() -> tuple[tuple[str, str], ...]:
    """Return where every docstring begins and its text, its lines as they are."""
    owners = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)
    return tuple(
        (f"{path.relative_to(PACKAGE.parent)}:{node.body[0].lineno}", text)
        for path, tree in modules().items()
        for node in nodes(tree)
        if isinstance(node, owners) and (text := ast.get_docstring(node, clean=False))
    )


@cache
def replaced_terms() -> tuple[tuple[re.Pattern[str], str], ...]:
    """Return the patterns of terms.tsv, and the term of the field that replaces each."""
    lines = TERMS.read_text(encoding="utf-8").splitlines()
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    return tuple((re.compile(pattern, flags=re.IGNORECASE), term) for pattern, term in rows)


def term_faults(text: str, place: str = "text:1") -> list[str]:
    """Return what to write for the words of terms.tsv, apart from code, labels and examples; `place` is FILE:LINE."""
    file, _, first_line = place.rpartition(":")
    lines = ["" if line.strip().startswith((">>>", "...")) else line for line in text.split("\n")]
    code = r"``[^`]*``|`[^`]*`|\"[^\"\n]*\""
    plain = re.sub(code, lambda match: "X" + "\n" * match[0].count("\n"), "\n".join(lines))
    found = []
    for sentence in re.finditer(r"(?:(?!(?<=[.;:?!])\s|\n\n).)+", plain, flags=re.DOTALL):
        words = " ".join(sentence[0].split())
        for pattern, term in replaced_terms():
            match = pattern.search(words)
            if match is not None:
                line = (
                    int(first_line) + plain.count("\n", 0, sentence.start()) + line_of(pattern, sentence[0])
                )
                found.append(
                    f'{file}:{line}: write "{term}" for "{match[0]}" (list: {TERMS.relative_to(ROOT)})'
                )
    return found


def line_of(pattern: re.Pattern[str], sentence: str) -> int:
    """Return the number of the line of a sentence, from 0, on which the first match of a pattern ends."""
    lines = sentence.split("\n")
    for number in range(len(lines)):
        if pattern.search(" ".join(" ".join(lines[: number + 1]).split())):
            return number
    return len(lines) - 1


def test_no_docstring_or_message_uses_words_of_the_project_alone():
    texts_of_package = (
        *docstrings(),
        *((place, text) for place, text in printed() if not re.search(r"</?\w", text)),
    )
    found = [fault for place, text in texts_of_package for fault in term_faults(text, place)]
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    "text", ["the plain average", "ranks are told apart", "known up to a factor", "95 %"]
)
def test_words_of_the_project_alone_are_found(text):
    assert term_faults(text)
    assert not term_faults(f"the label `{text}`, and\n>>> {text}")


def test_a_word_of_the_project_is_reported_with_its_line_and_the_term_of_the_field():
    text = "Return a `value\n    of it`.\n\n    >>> 1\n    Then ranks are compared by the plain\n    average, once.\n"
    assert term_faults(text, "box.py:10") == [
        'box.py:15: write "unweighted average (AOA)" for "plain average" (list: tests/docs/terms.tsv)'
    ]


def test_the_collection_sees_errors_warnings_and_notes():
    everything = " ".join(text for _, text in printed())
    assert "effective sample size" in everything
    assert "rank all recommenders on one split" in everything
    assert "the order of recommenders may change" in everything
    assert "The statistical guarantee of an estimate, with its condition." in {
        text for _, text in first_lines()
    }
    assert len(list(prose())) > 300


@pytest.mark.parametrize(
    "text",
    [
        "the weights are worth 12 of 400 positives",
        "recall@10: read off lists of 100 candidates",
        "every estimate can be held against the truth",
        " ".join(41 * ["word"]),
    ],
)
def test_the_rule_refuses_what_it_should_refuse(text):
    assert faults(text)
    assert not faults("Short sentences are plain. " * 9)
