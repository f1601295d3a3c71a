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
