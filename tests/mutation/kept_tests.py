"""The tests that an earlier commit already had, word for word."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from pathlib import Path

from tests.mutation.removed_tests import ROOT, run_git


def read_texts(code: str, prefix: str) -> dict[str, str]:
    """Return the code of the tests of a file, and the docstrings with examples, by the names of pytest.

    A test has its decorators, and what a module defines for them: a table of cases is part of the test.
    """
    tree = ast.parse(code)
    definitions = {}
    for node in tree.body:
        for name in list_names(node):
            definitions[name] = ast.unparse(node)
    texts = {}
    for qualified_name, function in walk_functions(tree, ""):
        docstring = ast.get_docstring(function)
        if docstring is not None and ">>>" in docstring:
            texts[f"{prefix}::{qualified_name}"] = docstring
        if isinstance(function, ast.FunctionDef) and function.name.startswith("test_"):
            used_names = {
                part.id
                for decorator in function.decorator_list
                for part in ast.walk(decorator)
                if isinstance(part, ast.Name)
            }
            tables = [definitions[name] for name in sorted(used_names & definitions.keys())]
            texts[f"{prefix}::{qualified_name}"] = "\n".join([ast.unparse(function), *tables])
    return texts


def list_names(node: ast.stmt) -> list[str]:
    """Return the names that a statement of a module defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    return []


def walk_functions(
    tree: ast.Module | ast.ClassDef | ast.FunctionDef, prefix: str
) -> Iterator[tuple[str, ast.Module | ast.ClassDef | ast.FunctionDef]]:
    """Yield a module, its classes and its functions with their names inside the module."""
    yield prefix, tree
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield from walk_functions(node, f"{prefix}::{node.name}" if prefix else node.name)


def name_examples(name: str) -> str:
    """Return the name of a test as in `read_texts`: pytest names an example by its whole path in the library."""
    path, _, qualified_name = name.partition("::")
    if not path.startswith("ipseval/"):
        return name
    module_name = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    rest = qualified_name.removeprefix(module_name).removeprefix(".")
    return f"{path}::{rest.replace('.', '::')}"


def list_kept(names: Iterable[str], commit: str) -> set[str]:
    """Return those of some tests that a commit has in the same file with the same code."""
    kept = set()
    names_of_path: dict[str, list[str]] = {}
    for name in names:
        names_of_path.setdefault(name.partition("::")[0], []).append(name)
    for path, names_in_file in names_of_path.items():
        texts = read_texts((ROOT / Path(path)).read_text(encoding="utf-8"), path)
        earlier_texts = read_texts(run_git("show", f"{commit}:{path}"), path)
        for name in names_in_file:
            text = texts.get(name_examples(name))
            if text is not None and earlier_texts.get(name_examples(name)) == text:
                kept.add(name)
    return kept
