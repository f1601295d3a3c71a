"""The tests that commits removed: the functions that are gone, and that no new function of the commit resembles.

    python -m tests.mutation.removed_tests 64e6b051            commits since then, with their numbers
    python -m tests.mutation.removed_tests 64e6b051 --names    and the names of the tests

A test with another name or in another file counts as the same test if at least `LEAST` of its words are, in their
order, in a test that the same commit adds. Cases of a table are no functions: the command does not see them.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEAST = 0.55  # the ratio of SequenceMatcher


@dataclass(frozen=True)
class Function:
    """A test as it stands in a file."""

    path: str
    name: str
    body: str


def run_git(*arguments: str) -> str:
    """Return what git prints, and an empty text for a file that a commit does not have."""
    process = subprocess.run(
        ["git", *arguments], cwd=ROOT, capture_output=True, text=True, errors="replace", check=False
    )
    return process.stdout


def list_functions(commit: str, path: str) -> dict[str, Function]:
    """Return the tests in a file of a commit."""
    functions = {}
    for node in ast.walk(ast.parse(run_git("show", f"{commit}:{path}"))):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            body = "\n".join(ast.unparse(statement) for statement in node.body)
            functions[node.name] = Function(path, node.name, body)
    return functions


def split_words(body: str) -> list[str]:
    """Return the words and signs of code."""
    return re.findall(r"\w+|[^\w\s]", body)


def find_same_test(function: Function, candidates: list[Function]) -> Function | None:
    """Return the candidate that resembles a test most, if it resembles it enough."""
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(split_words(function.body))
    best_ratio = LEAST
    best_candidate = None
    for candidate in candidates:
        if candidate.name == function.name:
            return candidate
        matcher.set_seq1(split_words(candidate.body))
        if matcher.real_quick_ratio() < best_ratio or matcher.quick_ratio() < best_ratio:
            continue
        ratio = matcher.ratio()
        if ratio >= best_ratio:
            best_ratio = ratio
            best_candidate = candidate
    return best_candidate


def find_removed(commit: str) -> list[Function]:
    """Return the tests that a commit removed."""
    paths = run_git("show", "--no-renames", "--name-only", "--format=", commit, "--", "tests").splitlines()
    removed = []
    added = []
    for path in paths:
        if not path.endswith(".py"):
            continue
        functions_before = list_functions(f"{commit}~1", path)
        functions_after = list_functions(commit, path)
        removed += [functions_before[name] for name in functions_before if name not in functions_after]
        added += [functions_after[name] for name in functions_after if name not in functions_before]
    left = []
    for function in removed:
        same_test = find_same_test(function, added)
        if same_test is None:
            left.append(function)
        else:
            added.remove(same_test)
    return left


def list_commits(start: str) -> Iterator[tuple[str, str]]:
    """Yield the commits since a start that change tests, the oldest first, with their subjects."""
    output = run_git("log", "--no-merges", "--reverse", "--format=%h %s", f"{start}..HEAD", "--", "tests")
    for line in output.splitlines():
        commit, _, subject = line.partition(" ")
        yield commit, subject


def main() -> None:
    """Print the commits that removed tests."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("start", help="the commit after which the search begins")
    parser.add_argument("--names", action="store_true", help="print the names of the tests, too")
    options = parser.parse_args()
    n_removed = 0
    for commit, subject in list_commits(options.start):
        removed = find_removed(commit)
        if not removed:
            continue
        n_removed += len(removed)
        print(f"{commit}  {len(removed):3d}  {subject}")
        if options.names:
            for function in removed:
                print(f"    {function.path}::{function.name}")
    print(f"{n_removed} tests removed")


if __name__ == "__main__":
    main()
