"""The rooms of the package: what one of them alone may know."""

from __future__ import annotations

import ast

from ipseval.estimators import ESTIMATORS
from tests.sources import modules
from tests.test_architecture import layer, own_modules


def estimator_labels(tree: ast.Module) -> list[str]:
    """Return the texts of a module that are labels of estimators, docstrings left aside."""
    owners = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, owners) and node.body]
    words = {id(body[0].value) for body in bodies if isinstance(body[0], ast.Expr)}
    return [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in words
        if node.value.lower().partition("(")[0] in ESTIMATORS
    ]


def test_no_module_outside_estimators_knows_an_estimator_by_its_label():
    source = '"""aoa"""\nx = {"a": ["SNIPS-shrunk(1)", "snips too"]}'
    assert estimator_labels(ast.parse(source)) == ["SNIPS-shrunk(1)"]
    found = {
        module: labels
        for module, path in own_modules().items()
        if layer(module) != "estimators"
        and module not in ("_base.codec", "policies._estimators")  # names of classes; estimators
        if (labels := set(estimator_labels(modules()[path])))
    }
    assert not found, f"ask the estimator, or use the constants of ipseval.estimators: {found}"
