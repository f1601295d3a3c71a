"""No control flow reads the text of notes, flags, warnings and errors: they are values, worded in one place."""

from __future__ import annotations

import ast
import re

from tests.sources import PACKAGE, modules, nodes

# Names of variables and attributes that hold text for readers.
TEXTS = re.compile(
    r"(^|_)(note|flag|caution|warning|message|claim|remark|reason|trust|verdict|error|description)s?$"
)
METHODS = ("startswith", "endswith", "partition", "split", "find", "index", "removeprefix", "removesuffix")


def is_label_of_count(node: ast.AST) -> bool:
    """Return whether a node is `count.label`; labels of metrics and estimators are no texts for readers."""
    return isinstance(node, ast.Attribute) and node.attr == "label" and name_of(node.value).endswith("count")


def name_of(node: ast.AST) -> str:
    """Return the name of a variable, an attribute, or the argument of `str(...)`."""
    if isinstance(node, ast.Name):
        return node.id
    if is_label_of_count(node):
        return "description"
    if isinstance(node, ast.Attribute):
        return node.attr
    is_text_of = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "str"
    if is_text_of and node.args:
        return name_of(node.args[0])
    return ""


def find_readers(tree: ast.Module) -> list[str]:
    """Return the methods and operators by which a module reads texts for readers."""
    readers = []
    for node in nodes(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            is_whitespace = node.func.attr == "split" and not node.args
            if node.func.attr in METHODS and not is_whitespace and TEXTS.search(name_of(node.func.value)):
                readers.append(node.func.attr)
        elif isinstance(node, ast.Compare) and any(map(is_label_of_count, (node.left, *node.comparators))):
            readers.append("compare")
        elif isinstance(node, ast.Compare) and isinstance(node.left, ast.Constant):
            is_text = isinstance(node.left.value, str) and len(node.left.value) > 1
            is_search = isinstance(node.ops[0], (ast.In, ast.NotIn))
            searched = name_of(node.comparators[0])
            if is_text and is_search and TEXTS.search(searched) and not searched.endswith("s"):
                readers.append("in")
    return readers


def test_the_search_finds_what_it_should_find():
    source = """
if note.startswith("suppressed") or "random" in split.description or str(error).split(". "):
    pass
if name.startswith("a") or "a" in notes or "aoa" in labels:
    pass
"""
    assert sorted(find_readers(ast.parse(source))) == ["in", "split", "startswith"]
    source = """
if count.label.startswith(STATED) or any(word in count.label for word in WORDS) or count.label == "pairs":
    source = row_count.label.removeprefix("rows read from ")
if metric.label.startswith("recall") or "aoa" in estimator.label or count.code == "exclusion":
    pass
"""
    assert sorted(find_readers(ast.parse(source))) == ["compare", "compare", "removeprefix", "startswith"]


def test_no_control_flow_reads_messages():
    readers_by_file = {}
    for path, tree in modules().items():
        readers = find_readers(tree)
        if readers:
            readers_by_file[path.relative_to(PACKAGE).as_posix()] = readers
    assert readers_by_file == {}
