"""A sample of mutants: one change at each of some places of the code, by the operators of Cosmic Ray."""

from __future__ import annotations

import ast
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.mutation.layers import SPEED

# `x == None` and `x is None`, `n == 1` and `n is 1` are the same here. Decorators declare, and without those
# that keep a result only time is lost. Two operators need names to insert.
SAME = ("Is_Eq", "IsNot_NotEq", "Eq_Is", "NotEq_IsNot")
NO_OPERATORS = ("RemoveDecorator", "VariableReplacer", "VariableInserter")
# Of truth values the product is their conjunction, and the sum their disjunction.
OF_TRUTH = ("ReplaceBinaryOperator_BitAnd_Mul", "ReplaceBinaryOperator_BitOr_Add")
# Of `text == "user"` only the opposite: which of the choices comes first in the alphabet has no meaning, so a
# comparison with one of them by order is the same as by equality for some pairs of choices.
ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
# `strict=` is a guard; the others say how a file is read at once, not what is read.
KEYWORDS = ("strict", "use_threads", "batch_readahead", "fragment_readahead")
WITH_NONE = ("Is_", "IsNot_")  # of `is` only the opposite: any other comparison with None is a TypeError


@dataclass(frozen=True)
class Mutant:
    """One changed file: where, what stood there, what stands there now."""

    path: str
    line: int
    before: str
    after: str
    code: str


def operators() -> list[str]:
    """Return the operators that are applied."""
    from cosmic_ray.plugins import operator_names  # here, as in what follows: the tests do without it

    return [name for name in operator_names() if applies(name.split("/")[1])]


def applies(name: str) -> bool:
    """Return whether an operator makes mutants that a test could find."""
    change = name.removeprefix("ReplaceComparisonOperator_")
    if change.startswith(WITH_NONE):
        return change in ("Is_IsNot", "IsNot_Is")
    return change not in SAME and name not in (*NO_OPERATORS, *OF_TRUTH)


def nodes(node: Any) -> Iterator[Any]:
    """Yield the nodes of a tree in the order in which Cosmic Ray counts."""
    yield node
    for child in getattr(node, "children", ()):
        yield from nodes(child)


def places(code: str) -> dict[tuple[int, int], list[tuple[str, int]]]:
    """Return what can be changed at each place: operators and their occurrence in the file."""
    from cosmic_ray.ast import get_ast
    from cosmic_ray.plugins import get_operator

    every = list(nodes(get_ast(code)))
    groups: dict[tuple[int, int], list[tuple[str, int]]] = defaultdict(list)
    for name in operators():
        operator = get_operator(name)()
        positions = [
            mutation_position for node in every for mutation_position in operator.mutation_positions(node)
        ]
        for occurrence, (start, _) in enumerate(positions):
            groups[start].append((name, occurrence))
    return groups


def meaning(code: str) -> str:
    """Return the syntax tree without annotations, which no run reads, and without values of `KEYWORDS`.

    Which arguments are passed by name or by position is a declaration too: `*` and `/` are left out.
    """
    tree = ast.parse(code)
    for node in ast.walk(tree):
        for name in ("annotation", "returns"):
            if getattr(node, name, None) is not None:
                setattr(node, name, ast.Constant(None))
        if isinstance(node, ast.arguments):
            node.args = [*node.posonlyargs, *node.args, *node.kwonlyargs]
            node.defaults = [*node.defaults, *(value for value in node.kw_defaults if value is not None)]
            node.posonlyargs, node.kwonlyargs, node.kw_defaults = [], [], []
        if isinstance(node, ast.keyword) and node.arg in KEYWORDS:
            node.value = ast.Constant(None)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            node.test, node.body = ast.Constant(None), [ast.Pass()]
    return ast.dump(tree)


def count_text_orders(code: str) -> int:
    """Return how many comparisons of a module ask whether a text comes before, or after, a literal text."""
    count = 0
    for node in ast.walk(ast.parse(code)):
        if not isinstance(node, ast.Compare):
            continue
        operands = (node.left, *node.comparators)
        has_text = any(
            isinstance(operand, ast.Constant) and isinstance(operand.value, str) for operand in operands
        )
        if has_text and any(isinstance(operator, ORDERS) for operator in node.ops):
            count += 1
    return count


def count_copies(code: str) -> int:
    """Return how many calls of a module ask for a copy by `copy=True`."""
    count = 0
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.keyword) and node.arg == "copy" and ast.unparse(node.value) == "True":
            count += 1
    return count


def mutant(root: Path, path: Path, name: str, occurrence: int) -> Mutant | None:
    """Return a mutant, or None where the change cannot be seen or is no Python."""
    from cosmic_ray.mutating import mutate_code
    from cosmic_ray.plugins import get_operator

    code = path.read_text(encoding="utf-8")
    try:
        changed = mutate_code(code, get_operator(name)(), occurrence)
        if changed is None or meaning(changed) == meaning(code):
            return None
        if count_text_orders(changed) > count_text_orders(code):
            return None
        if count_copies(changed) > count_copies(code):  # one more copy takes memory, and changes no value
            return None
    except (SyntaxError, AttributeError):  # Cosmic Ray cannot replace an exception of a module
        return None
    old, new = code.splitlines(), changed.splitlines()
    line = next((i for i, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]), len(new) - 1)
    if new[line].lstrip().startswith("@"):  # frozen=, eq=, slots=: declarations as well
        return None
    return Mutant(str(path.relative_to(root)), line + 1, old[line].strip(), new[line].strip(), changed)


def speed_lines(code: str, names: Sequence[str]) -> set[int]:
    """Return the lines of a module that say what these constants are; each of them has to be there."""
    mutants = {
        target.id: range(node.lineno, (node.end_lineno or node.lineno) + 1)
        for node in ast.parse(code).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return {line for name in names for line in mutants[name]}


def list_places(
    root: Path, paths: Sequence[Path]
) -> tuple[list[tuple[Path, tuple[int, int], list[tuple[str, int]]]], int]:
    """Return the places of files with what can be changed there, and how many the constants of speed leave out."""
    every = []
    n_left_out = 0
    for path in paths:
        code = path.read_text(encoding="utf-8")
        left_out = speed_lines(code, SPEED.get(path.relative_to(root).as_posix(), ()))
        sorted_places = sorted(places(code).items())
        kept = [(path, start, makers) for start, makers in sorted_places if start[0] not in left_out]
        every += kept
        n_left_out += len(sorted_places) - len(kept)
    return every, n_left_out


def count_places(root: Path, paths: Sequence[Path]) -> int:
    """Return the number of places of files."""
    return len(list_places(root, paths)[0])


def sample(root: Path, paths: Sequence[Path], n: int, seed: int) -> tuple[list[Mutant], int, int]:
    """Return `n` mutants of files, at places drawn without replacement, and the number of places.

    Every place is as likely as any other, and at a place every operator. The values of the constants in
    `SPEED` are no places: how many are left out for that reason comes last.
    """
    chooser = random.Random(seed)
    every, n_left_out = list_places(root, paths)
    chooser.shuffle(every)
    mutants: list[Mutant] = []
    for path, _, makers in every:
        if len(mutants) == n:
            break
        new_mutant = mutant(root, path, *chooser.choice(makers))
        if new_mutant is not None:
            mutants.append(new_mutant)
    return mutants, len(every), n_left_out
