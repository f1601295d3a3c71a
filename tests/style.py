"""Measure the style of Python code: names, density and types. `python -m tests.style ipseval` prints the measures.

Rates are per 1,000 lines of code, without docstrings, comments and blank lines. Words that are bad names alone
or at the end of a name are those of `PREPOSITIONS`, `QUANTIFIERS` and `PARTICIPLES`, and words that end in -ed or
-ing. `ALLOWED` holds standard terms of the field.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import MappingProxyType

PREPOSITIONS = frozenset(
    "of by from beside behind with without over about among in on at to for after before along under above within "
    "across between ahead alone apart aside instead toward towards together elsewhere whence away".split()
)
QUANTIFIERS = frozenset(
    "some all each one two other others both many few several more most least same none any rest whole half own "
    "alike else everyone nobody".split()
)
PARTICIPLES = frozenset(
    "said told found shown given drawn made known taken kept held left put split read written seen met bound lost "
    "grown hidden chosen built cut set".split()
)
NOUNS_IN_ING = frozenset(
    "seed need feed speed embed string rating ranking heading thing setting embedding".split()
)
PRONOUNS = frozenset({"one", "other", "each", "both", "found", "own"})
CONVENTIONAL_PREFIXES = ("to_", "from_", "with_", "is_", "has_", "n_")
ALLOWED = frozenset(
    "by of_counts expected_regret expected_sampled weighted unweighted sampled seen unseen missing fixed paired "
    "pooled observed signed nested mixed clicked expected held_out fit_transform sorted reversed ranked_positives "
    "RankedPositives rating ranking embedding setting string mapping warning encoding padding meaning spacing "
    "string_dtype".split()
)
CLAUSE = re.compile(r"\b(what|who|whom|whose|those of|that of|of what|wherever|beside)\b", re.IGNORECASE)
MOST_POSITIONAL = 5
HOMONYMS = "functions of one name"  # at the top level of several modules

Function = ast.FunctionDef | ast.AsyncFunctionDef
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
COUNTED = (
    *(
        ast.Module,
        ast.ClassDef,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
        ast.Name,
        ast.Assign,
        ast.IfExp,
        ast.Call,
    ),
    *COMPREHENSIONS,
)


@cache
def is_unclear(name: str) -> bool:
    """Return whether a name says what was done to a value, or where it stands, in place of what it is."""
    stem = name.strip("_")
    if not stem or stem in ALLOWED or stem.startswith(CONVENTIONAL_PREFIXES):
        return False
    if stem in PREPOSITIONS | QUANTIFIERS | PARTICIPLES:
        return True
    if re.fullmatch(r"[a-z]+(ed|ing)", stem) and stem not in NOUNS_IN_ING:
        return True
    words = stem.split("_")
    if words[0] in PREPOSITIONS or words[-1] in PREPOSITIONS:
        return True
    if len(words) == 1 or words[0] in NOUNS_IN_ING:
        return False
    return bool(re.fullmatch(r"[a-z]+(ed|ing)", words[0]) or re.fullmatch(r"[a-z]+ed", words[-1]))


@dataclass
class Places:
    """Places in the code that were counted for a measure, and those among them that count against it."""

    n: int = 0
    hits: list[str] = field(default_factory=list)

    def add(self, place: str, *, is_hit: bool = True) -> None:
        """Count a place."""
        self.n += 1
        if is_hit:
            self.hits.append(place)

    @property
    def share(self) -> float:
        """The share of hits in per cent."""
        return 100 * len(self.hits) / max(1, self.n)


class Measures:
    """The style of a package or of a single text."""

    def __init__(self) -> None:
        self.n_lines = 0
        self.places: dict[str, Places] = defaultdict(Places)
        self.modules_by_function: dict[str, set[str]] = defaultdict(set)

    def add(self, text: str, path: str, tree: ast.Module) -> None:
        """Count the places of a module, of which the text and the syntax tree are given."""
        nodes = [node for node in ast.walk(tree) if isinstance(node, COUNTED)]
        self.n_lines += count_code_lines(text, nodes)
        for node in tree.body:
            if isinstance(node, Function):
                self.modules_by_function[node.name].add(path)
        for node in nodes:
            self._add_node(node, f"{path}:{getattr(node, 'lineno', 1)}", path)

    def _add_node(self, node: ast.AST, place: str, path: str) -> None:
        """Count one node of a syntax tree."""
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            self._add_summary(node, place)
        if isinstance(node, Function) and not node.name.startswith("__"):
            self.places["function names"].add(f"{place} {node.name}", is_hit=is_unclear(node.name))
        elif isinstance(node, ast.ClassDef):
            for statement in node.body:
                if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                    name = statement.target.id
                    self.places["fields"].add(f"{place} {name}", is_hit=is_unclear(name))
        elif isinstance(node, ast.Name):
            self._add_name(node, place)
        elif isinstance(node, ast.Assign):
            if isinstance(node.targets[0], ast.Tuple) and isinstance(node.value, ast.Tuple):
                self.places["packed assignments"].add(place)
        elif isinstance(node, ast.IfExp):
            self.places["conditional expressions"].add(place)
        elif isinstance(node, COMPREHENSIONS):
            self.places["comprehensions"].add(place)
        elif isinstance(node, ast.Call):
            is_starred = any(isinstance(argument, ast.Starred) for argument in node.args)
            if len(node.args) > MOST_POSITIONAL and not is_starred and "/kernels/" not in path:
                self.places["long positional calls"].add(place)

    def _add_summary(self, node: Function | ast.ClassDef | ast.Module, place: str) -> None:
        """Count the summary of a docstring."""
        docstring = ast.get_docstring(node)
        if docstring:
            summary = " ".join(docstring.strip().split("\n\n")[0].split())
            self.places["docstring summaries"].add(f"{place} {summary}", is_hit=bool(CLAUSE.search(summary)))

    def _add_name(self, node: ast.Name, place: str) -> None:
        """Count a local variable, or the type `Any`."""
        if isinstance(node.ctx, ast.Store):
            self.places["local names"].add(f"{place} {node.id}", is_hit=is_unclear(node.id))
            self.places["pronouns"].add(f"{place} {node.id}", is_hit=node.id in PRONOUNS)
        elif node.id == "Any":
            self.places["Any"].add(place)

    def list_homonyms(self) -> list[str]:
        """Return the names of functions that several modules define, each with its modules."""
        homonyms = []
        for name, modules in sorted(self.modules_by_function.items()):
            if len(modules) > 1:
                homonyms.append(f"{name}: {', '.join(sorted(modules))}")
        return homonyms

    def list_places(self, name: str) -> list[str]:
        """Return the places that count against a measure."""
        if name == HOMONYMS:
            return self.list_homonyms()
        return self.places[name].hits

    def summarise(self) -> dict[str, float]:
        """Return shares in per cent, and rates per 1,000 lines or numbers."""
        thousands = max(1, self.n_lines) / 1000
        shares = ("function names", "fields", "local names", "pronouns", "docstring summaries")
        rates = ("packed assignments", "conditional expressions", "comprehensions", "Any")
        return {
            **{name: self.places[name].share for name in shares},
            **{name: len(self.places[name].hits) / thousands for name in rates},
            "long positional calls": len(self.places["long positional calls"].hits),
            HOMONYMS: len(self.list_homonyms()),
        }


def count_code_lines(text: str, nodes: Iterable[ast.AST]) -> int:
    """Return the number of lines that are neither blank, nor comments, nor docstrings."""
    docstring_lines: set[int] = set()
    for node in nodes:
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            docstring = node.body[0]
            docstring_lines.update(range(docstring.lineno, (docstring.end_lineno or docstring.lineno) + 1))
    n_lines = 0
    for number, line in enumerate(text.split("\n"), start=1):
        is_code = bool(line.strip()) and not line.strip().startswith("#")
        n_lines += is_code and number not in docstring_lines
    return n_lines


def measure(paths: Iterable[Path], trees: Mapping[Path, ast.Module] = MappingProxyType({})) -> Measures:
    """Return the measures of files, of which some may be parsed already."""
    measures = Measures()
    for path in paths:
        text = path.read_text(encoding="utf-8")
        measures.add(text, path.as_posix(), trees.get(path) or ast.parse(text))
    return measures


def main() -> None:
    """Print the measures of a folder, or with a second argument the places of one measure."""
    measures = measure(sorted(Path(sys.argv[1]).rglob("*.py")))
    if len(sys.argv) > 2:
        print("\n".join(measures.list_places(sys.argv[2])))
        return
    for name, value in measures.summarise().items():
        print(f"{value:8.1f}  {name}")


if __name__ == "__main__":
    main()
