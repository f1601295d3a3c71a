"""The parsed modules of the library, each parsed once for all tests that read its source."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import ipseval

PACKAGE = Path(ipseval.__file__).parent  # the installed one


@cache
def modules() -> dict[Path, ast.Module]:
    """Return the syntax tree of every module of the package, by its file."""
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(PACKAGE.rglob("*.py"))}


@cache
def nodes(tree: ast.Module) -> tuple[ast.AST, ...]:
    """Return everything in a module."""
    return tuple(ast.walk(tree))


def texts(tree: ast.Module) -> list[str]:
    """Return the texts of a module, docstrings left aside."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in nodes(tree) if isinstance(node, owners) and node.body]
    words = {id(body[0].value) for body in bodies if isinstance(body[0], ast.Expr)}
    return [
        node.value
        for node in nodes(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in words
    ]
