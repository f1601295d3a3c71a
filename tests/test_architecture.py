"""The layers of the package: who may import whom, and what may be loaded.

`WINGS` has each wing above those that it may import from. Inside a wing the files may import each other
without circles, and never their own face, `__init__`.
`THIRD_PARTY` lists what a module may import beside numpy and the standard library; a file inside a package
may have a line of its own, which is added to that of its package.
The rule holds for every import: at the top, inside a function, and for type checkers only.
"""

from __future__ import annotations

import ast
import graphlib
import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

import ipseval
from ipseval.estimators import ESTIMATORS
from tests.sources import PACKAGE, modules, texts

ROOT = Path(__file__).resolve().parents[1]

# From the ground up: a wing imports from wings that stand before it, and from none behind it.
WINGS = (
    *("errors", "_version", "utils", "data", "reporting", "propensity", "ranking", "metrics", "estimators"),
    *("inference", "evaluation", "correction", "validation", "policies", "studies", "distributed"),
    *("testing", "pytest_plugin", "cli", "__main__"),
    "",  # ipseval/__init__.py: the curated public names; nobody imports from it
)
LEVELS = {name: level for level, name in enumerate(WINGS)}

THIRD_PARTY = {
    "utils": {"pandas"},
    "utils.columns": {"narwhals"},
    "utils.compute": {"threadpoolctl", "tqdm"},
    "data": {"pandas"},
    "data.splits": {"narwhals"},
    "data.random_exposure": {"scipy"},
    "data.interactions": {"scipy"},
    "data.sparse": {"scipy"},
    "data.reading": {"narwhals"},
    "data.reading._parquet_source": {"pyarrow"},
    "reporting": {"pandas"},
    "reporting._html": {"jinja2"},
    "reporting.plots": {"matplotlib"},
    "propensity": {"scipy", "statsmodels", "pandas", "narwhals"},
    "ranking._scorers": {"pandas"},
    "ranking.lists": {"pandas"},
    "ranking._user_functions": {"pandas"},
    "ranking._parquet": {"pandas", "pyarrow"},
    "ranking.baselines": {"scipy"},
    **{f"ranking.kernels.{name}": {"numba", "llvmlite"} for name in ("numba_compile", "numba_count")},
    "ranking.adapters": {"scipy", "pandas"},
    "ranking.adapters.registry": {"narwhals"},
    "ranking.adapters._libraries": {"lenskit", "recbole", "torch", "pyspark"},
    "metrics.sampled": {"scipy", "pandas"},
    "estimators": {"scipy"},
    "inference": {"scipy", "statsmodels", "pandas", "tqdm"},
    "evaluation": {"pandas", "scipy"},
    "correction": {"scipy", "pandas"},
    "evaluation._integrations": {"lenskit", "rectools", "recbole", "mlflow"},
    "distributed._duckdb": {"duckdb"},
    "validation": {"pandas", "scipy", "tqdm"},
    "policies": {"pandas", "scipy"},
    "studies": {"pandas", "scipy"},
    "distributed": {"pandas"},
    "distributed._dask": {"dask", "distributed"},
    "distributed._spark": {"pyspark", "pyarrow"},
    "testing": {"pandas", "scipy"},
    "pytest_plugin": {"pytest"},
    "cli": {"pandas"},
}

OPTIONAL = [
    *("numba", "matplotlib", "pyarrow", "polars", "duckdb", "pytest", "powerlaw"),
    *("llvmlite", "implicit", "cornac", "lenskit", "rectools", "recbole", "surprise", "lightfm", "torch"),
    *("dask", "distributed", "pyspark", "sklearn", "mlflow"),
]
# Files made of code of numba: they may import it at the top, as they are themselves imported only
# where it is used. So may plots matplotlib, and the plugin that pytest loads pytest.
KERNELS = {"ranking.kernels.numba_compile", "ranking.kernels.numba_count"}


@dataclass(frozen=True)
class Import:
    """One import statement: where it stands and what it names."""

    source: str  # dotted name of the importing module below ipseval
    target: str  # dotted name, "ipseval.…" for our own
    line: int
    lazy: bool  # inside a function
    typing_only: bool  # under `if TYPE_CHECKING:`
    relative: bool

    def __str__(self) -> str:
        return f"ipseval/{self.source.replace('.', '/')}.py:{self.line} imports {self.target}"


def module_name(path: Path) -> str:
    """Return the dotted name below ipseval; a package's `__init__` is the package itself."""
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def walk(
    node: ast.AST, lazy: bool = False, typing_only: bool = False
) -> Iterator[tuple[ast.AST, bool, bool]]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):  # none holds a statement
            continue
        inside = lazy or isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef))
        if is_type_checking(child):
            for part in child.body:
                yield part, inside, True
                yield from walk(part, inside, True)
            for part in child.orelse:
                yield part, inside, typing_only
                yield from walk(part, inside, typing_only)
            continue
        yield child, inside, typing_only
        yield from walk(child, inside, typing_only)


@cache
def own_modules() -> dict[str, Path]:
    return {module_name(path): path for path in modules()}


@cache
def imports() -> tuple[Import, ...]:
    import_list = []
    for source, path in own_modules().items():
        for node, lazy, typing_only in walk(modules()[path]):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = node.module or ""
                # `from ipseval.ranking import lists` names a module, `… import RankedPositives` does not.
                names = [
                    f"{base}.{alias.name}" if f"{base}.{alias.name}"[8:] in own_modules() else base
                    for alias in node.names
                ]
            else:
                continue
            relative = isinstance(node, ast.ImportFrom) and node.level > 0
            import_list += [Import(source, name, node.lineno, lazy, typing_only, relative) for name in names]
    return tuple(import_list)


def own_imports() -> list[Import]:
    return [imported for imported in imports() if imported.target.split(".")[0] == "ipseval"]


def layer(module: str) -> str:
    return module.split(".")[0]


def below_package(found: Import) -> str:
    return found.target[len("ipseval") :].lstrip(".")


def may_import(found: Import) -> bool:
    source, target = layer(found.source), layer(below_package(found))
    if source == target:
        return below_package(found) != source or found.source == source
    return LEVELS[target] < LEVELS[source]


def test_every_module_has_a_level():
    unknown = sorted({layer(module) for module in own_modules()} - set(LEVELS))
    assert not unknown, f"give these modules a level in LEVELS: {unknown}"


def test_imports_go_to_strictly_lower_levels():
    assert not [str(imported) for imported in own_imports() if not may_import(imported)]


def test_no_import_is_relative():
    assert not [str(imported) for imported in imports() if imported.relative]


def test_files_of_a_package_do_not_import_each_other_in_a_circle():
    graph: dict[str, set[str]] = {}
    for imported in own_imports():
        target = below_package(imported)
        if layer(imported.source) == layer(target) and imported.source != target:
            graph.setdefault(imported.source, set()).add(target)
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        pytest.fail(f"these files import each other in a circle: {' -> '.join(error.args[1])}")


def third_party_imports() -> list[tuple[Import, str]]:
    named = [(imported, imported.target.split(".")[0]) for imported in imports()]
    return [pair for pair in named if pair[1] not in sys.stdlib_module_names and pair[1] != "ipseval"]


def allowed(module: str) -> set[str]:
    parts = module.split(".")
    prefixes = [".".join(parts[:length]) for length in range(1, len(parts) + 1)]
    return {"numpy", "lazy_loader"}.union(*(THIRD_PARTY.get(prefix, set()) for prefix in prefixes))


def test_third_party_imports_are_the_listed_ones():
    unlisted = [
        str(imported)
        for imported, name in third_party_imports()
        if name not in allowed(imported.source) and not imported.typing_only
    ]
    assert not unlisted, f"list them in THIRD_PARTY, or do without: {unlisted}"


def test_optional_dependencies_are_imported_only_when_used():
    eager = [
        str(imported)
        for imported, name in third_party_imports()
        if name in OPTIONAL
        and not (imported.lazy or imported.typing_only)
        and not (
            imported.source in KERNELS | {"pytest_plugin"} or imported.source.startswith("reporting.plots")
        )
    ]
    assert not eager, f"move these imports into the function that needs them: {eager}"


def test_importing_the_package_warns_nothing_and_loads_nothing_optional_and_evaluate_nothing_slow():
    # pandas itself loads pyarrow where it is installed, so what pandas brings does not count.
    slow = {"scipy.stats", "scipy.optimize", "scipy.cluster", "statsmodels"}  # to import
    program = (
        "import sys, pandas; before = set(sys.modules); import ipseval; ipseval.evaluate; "
        f"print(*({slow!r} & set(sys.modules))); [getattr(ipseval, n) for n in "
        f"ipseval.__all__ if n != 'plots']; print(*(set({OPTIONAL!r}) & (set(sys.modules) - before)))"
    )
    command = [sys.executable, "-W", "error", "-c", program]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")


def test_every_public_name_of_the_stub_is_there_and_comes_from_its_module():
    assert 40 < len(ipseval.__all__) <= 48
    assert len(set(ipseval.__all__)) == len(ipseval.__all__)
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text("utf-8"))
    imported = {}
    for statement in stub.body:
        if isinstance(statement, ast.ImportFrom) and statement.level == 0:
            for alias in statement.names:
                imported[alias.asname] = getattr(importlib.import_module(statement.module), alias.name)
    assert sorted(imported) == ipseval.__all__
    for name, member in imported.items():
        assert getattr(ipseval, name) is member
    with pytest.raises(AttributeError, match="no attribute 'evaluat'"):
        ipseval.evaluat  # noqa: B018


def check(source: str, target: str, *, lazy: bool = False, typing_only: bool = False) -> bool:
    return may_import(Import(source, target, 1, lazy, typing_only, relative=False))


def test_no_layer_imports_a_private_module_of_another_layer():
    private = {
        (statement.source, below_package(statement))
        for statement in own_imports()
        if layer(below_package(statement)) != layer(statement.source)
        if any(part.startswith("_") for part in below_package(statement).split(".")[1:])
    }
    assert not private, f"a module that other layers import has no underscore: {private}"


def test_the_rules_refuse_what_they_should_refuse():
    assert check("ranking.exact_ranks", "ipseval.data.splits")
    assert check("ranking.exact_ranks", "ipseval.ranking.lists")
    assert check("evaluation._evaluate", "ipseval.reporting")
    assert check("ranking.adapters.registry", "ipseval.ranking.ranked_positives")
    assert not check("reporting._page", "ipseval.evaluation")
    for kind in ({}, {"lazy": True}, {"typing_only": True}):
        assert not check("data.splits", "ipseval.evaluation", **kind)
    assert not check("propensity._base", "ipseval.ranking.exact_ranks")
    assert not check("ranking.exact_ranks", "ipseval.ranking")
    assert not check("ranking.exact_ranks", "ipseval")
    assert allowed("ranking._parquet") == {"numpy", "lazy_loader", "pandas", "pyarrow"}


# A tag of HTML or SVG, or the beginning or end of one whose name is inserted; a group of a pattern and the word
# '<path>' are none.
TAG = re.compile(
    r"(?<!P)(?<!')<(svg|g|path|rect|circle|line|text|html|head|body|div|p|span|table|thead|tbody|tr|th|td|ul|li|h[1-6]"
    r"|b|i|a|s|code|pre|style|script|details|summary|figure|section|nav|dl|dt|dd)(\s[^<]*)?>|</|/>"
)


def test_html_and_svg_are_written_by_templates_alone():
    planted = '''"<p>"\nx = f"{a}<tr class='s'>"\ny = "a < b > c, <FILE>", f"</{a}>"'''
    assert [text for text in texts(ast.parse(planted)) if TAG.search(text)] == ["<tr class='s'>", "</"]
    found = {
        module: tags
        for module, path in own_modules().items()
        if (tags := [text[:60] for text in texts(modules()[path]) if TAG.search(text)])
    }
    assert not found, f"write it in ipseval/reporting/templates: {found}"


def test_templates_insert_nothing_unescaped_but_what_the_library_wrote():
    folder = PACKAGE / "reporting" / "templates"
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["page.css", "page.html.jinja", "page.js", "parts.html.jinja"]
    unescaped = []
    for name in names:
        unescaped += re.findall(r"[\w.]+\|safe", (folder / name).read_text("utf-8"))
    assert sorted(unescaped) == ["script|safe", "style|safe", "view.svg|safe"]


LABEL = re.compile(rf"\b({'|'.join(ESTIMATORS)})\b", re.IGNORECASE)


def estimator_labels(tree: ast.Module) -> list[str]:
    """Return the texts of a module that are labels of estimators, docstrings left aside."""
    return [text for text in texts(tree) if text.lower().partition("(")[0] in ESTIMATORS]


def test_no_module_outside_estimators_knows_an_estimator_by_its_label():
    source = '"""aoa"""\nx = {"a": ["SNIPS-shrunk(1)", "snips too"]}'
    assert estimator_labels(ast.parse(source)) == ["SNIPS-shrunk(1)"]
    found = {
        module: labels
        for module, path in own_modules().items()
        if layer(module) != "estimators"
        # Names of classes, names of other libraries, and estimators of policies.
        and module not in ("utils.codec", "utils.peer_names", "policies._estimators")
        and LABEL.search(path.read_text("utf-8"))
        if (labels := set(estimator_labels(modules()[path])))
    }
    assert not found, f"ask the estimator, or use the constants of ipseval.estimators: {found}"
