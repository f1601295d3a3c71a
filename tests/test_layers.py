"""The layers of the tests: each path that a layer names is there, and each layer has its target."""

from __future__ import annotations

import ast
import importlib
import itertools
import re
import tomllib

import pytest

from tests.conftest import LAYERS, ROOT, layer_of, may_be_chosen

# The lines that a recipe asks for, and where they go.
REGISTRIES = {
    "METRICS": "ipseval.metrics.labels",
    "ESTIMATORS": "ipseval.estimators.labels",
    "PROPENSITIES": "ipseval.propensity.labels",
    "ADAPTERS": "ipseval.ranking.adapters.registry",
    "FRAME_COLUMNS": "ipseval.inference.estimate_frame",
}


def test_every_path_of_a_layer_exists_and_is_in_no_other():
    paths = list(itertools.chain.from_iterable(LAYERS.values()))
    assert len(paths) == len(set(paths))
    assert not [path for path in paths if not (ROOT / path).exists()]
    assert not [(one, two) for one, two in itertools.permutations(paths, 2) if one.startswith(two)]


@pytest.mark.parametrize(
    ("path", "layer"),
    [
        ("tests/data/test_splits.py", "unit"),
        ("ipseval/data/splits/_core.py", "unit"),
        ("tests/contracts/test_ids.py", "contract"),
        ("tests/golden/oracle.py", "golden"),
        ("tests/ranking/adapters/test_spark.py", "engines"),
    ],
)
def test_the_layer_follows_from_the_path(path, layer):
    assert layer_of(ROOT / path) == layer


@pytest.mark.parametrize(
    ("expression", "text", "layers"),
    [
        ("", "", {"unit", *LAYERS}),
        ("not slow and not engines", "mark.slow", {"unit", "contract", "golden"}),
        ("unit and not slow", "", {"unit"}),
        ("slow", "@pytest.mark.slow", {"unit", *LAYERS}),
        ("slow", "slower", set()),
        ("golden or slow and contract", "slow", {"golden", "contract"}),
        ("golden or slow and contract", "", {"golden"}),
        ("not (unit or hypothesis)", "from hypothesis import given", set(LAYERS)),
    ],
)
def test_only_files_of_layers_and_markers_that_can_be_chosen_are_imported(expression, text, layers):
    assert {layer for layer in ("unit", *LAYERS) if may_be_chosen(layer, text, expression)} == layers


def test_the_recipes_name_files_registries_and_targets_that_are_there():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    code = re.findall(r"`([^`\n]+)`", text)
    paths = {one for one in code if "/" in one and " " not in one}
    assert len(paths) > 25
    assert not {path for path in paths if not (ROOT / path).exists()}
    sessions = set()
    for command in code:
        if command.startswith("nox -s "):
            sessions.update(command.removeprefix("nox -s ").split(" -- ")[0].split())
    assert len(sessions) > 15
    assert sessions <= nox_sessions()
    for name, module in REGISTRIES.items():
        assert f"`{name}`" in text
        assert isinstance(getattr(importlib.import_module(module), name), dict)


def nox_sessions() -> set[str]:
    """Return the names of the functions of noxfile.py that are sessions."""
    tree = ast.parse((ROOT / "noxfile.py").read_text(encoding="utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return {
        function.name
        for function in functions
        if any("nox.session" in ast.unparse(decorator) for decorator in function.decorator_list)
    }


def test_every_layer_is_a_marker(request):
    names = ["unit", *LAYERS, "slow"]
    options = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["pytest"]
    markers = {text.partition(":")[0] for text in options["ini_options"]["markers"]}
    assert markers == set(names)
    mark_names = {mark.name for mark in request.node.iter_markers()}
    assert mark_names & set(names) == {"contract"}
