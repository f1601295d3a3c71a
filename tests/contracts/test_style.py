"""The style of the code: names, density and types stay within limits that may only shrink."""

from __future__ import annotations

import ast
import tomllib
from pathlib import Path

import pytest

from tests.sources import PACKAGE, modules, nodes
from tests.style import Measures, is_unclear, measure

ROOT = Path(__file__).resolve().parents[2]
LIMITS = tomllib.loads(Path(__file__).with_name("style.toml").read_text(encoding="utf-8"))
TOLERANCE = 0.1  # a limit may lie above its measure by this share of it
MOST_NESTED = 5
MOST_PARAMETERS = 10
NESTING = (ast.For, ast.While, ast.If, ast.With, ast.Try)


# The checks of a change measure the tests with lint: see `.ci/run`.
@pytest.mark.parametrize(
    "folder", [pytest.param(name, marks=pytest.mark.slow if name == "tests" else ()) for name in LIMITS]
)
def test_the_code_is_within_the_limits_of_style(folder):
    """`style.toml` lists the goal of each measure, and a higher limit where the goal is not reached yet."""
    measures = measure(sorted((ROOT / folder).rglob("*.py")), modules())
    values = measures.summarise()
    for name, limits in LIMITS[folder].items():
        limit = limits.get("limit", limits["goal"])
        value = values[name]
        assert value <= limit, (
            f"{name} is {value:.1f}, and at most {limit} are allowed; `python -m tests.style {folder} '{name}'` "
            "lists the places. Rename or rewrite some of them."
        )
        if "limit" in limits:
            advice = f"{name} is {value:.1f}; lower its limit in style.toml"
            assert limit <= max(limits["goal"], value * (1 + TOLERANCE)), advice


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("merge_counts", False),
        ("joined", True),
        ("_beside", True),
        ("some", True),
        ("count_of", True),
        ("is_told", False),
        ("n_dropped", False),
        ("user_sums", False),
        ("ranking_error", False),
        ("missing_users", True),
        ("missing", False),
        ("estimator", False),
    ],
)
def test_a_name_is_unclear_if_it_is_or_ends_with_a_participle_or_preposition(name, expected):
    assert is_unclear(name) is expected


def test_functions_of_one_name_are_listed_with_their_modules():
    measures = Measures()
    for path in ("a.py", "b.py"):
        source = f"def merge(): ...\ndef merge_{path[0]}(): ..."
        measures.add(source, path, ast.parse(source))
    assert measures.list_places("functions of one name") == ["merge: a.py, b.py"]
    assert measures.summarise()["functions of one name"] == 1


def test_places_are_counted_once_each():
    source = '''
"""What a module says."""
from typing import Any
def joined(a: Any) -> int:
    """Return the sum."""
    one, x = 1, 2
    total = one if a else x
    call(1, 2, 3, 4, 5, 6)
    return sum(value for value in (one, total))
class Box:
    """A box."""
    kept: int
'''
    measures = Measures()
    measures.add(source, "ipseval/box.py", ast.parse(source))
    hits = {name: len(places.hits) for name, places in measures.places.items()}
    assert hits == {
        "docstring summaries": 1,
        "function names": 1,
        "fields": 1,
        "local names": 2,
        "pronouns": 1,
        "Any": 1,
        "packed assignments": 1,
        "conditional expressions": 1,
        "comprehensions": 1,
        "long positional calls": 1,
    }
    assert measures.places["local names"].n == 5
    assert measures.n_lines == 8


def depth_of(node: ast.AST) -> int:
    """Return how deeply statements are nested below a node; `elif` does not nest."""
    deepest = 0
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):  # none holds a statement
            continue
        below = depth_of(child)
        is_elif = isinstance(node, ast.If) and isinstance(child, ast.If) and child in node.orelse
        if isinstance(child, NESTING) and not is_elif:
            below += 1
        deepest = max(deepest, below)
    return deepest


def test_no_function_nests_statements_deeply():
    deep = []
    for path, tree in modules().items():
        for node in nodes(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and depth_of(node) > MOST_NESTED:
                deep.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name}")
    assert not deep


def test_only_public_functions_have_many_parameters():
    public = set()
    for line in (ROOT / "public-api.txt").read_text(encoding="utf-8").splitlines():
        names = [part.strip() for part in line.split("|")]
        public.update(name.rpartition(".")[2] for name in (names[0], *names[2:3]) if name)
    long = []
    for path, tree in modules().items():
        for node in nodes(tree):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or node.name in public:
                continue
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            n_parameters = sum(argument.arg not in ("self", "cls") for argument in arguments)
            if n_parameters > MOST_PARAMETERS and "kernels" not in path.parts and node.name != "__init__":
                long.append(f"{path.relative_to(PACKAGE)}:{node.lineno} {node.name} has {n_parameters}")
    assert not long
