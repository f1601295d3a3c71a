"""The trace: which tests run which line of code, and how it is kept up to date."""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutation.rooms import Room

# Defaults are read without running a line of the function.
ALWAYS = ("tests/contracts/test_api.py::test_public_names_and_signatures_are_those_of_the_snapshot",)
MOST_SECONDS = 10.0  # of the room's tests for one mutant, and of others, as they take without a change
# Tests that start processes, wait, or read the documentation: no mutant is judged by them.
FAR = (
    *(f"tests/{name}/" for name in ("fuzz", "mutation", "typed", "docs", "reproductions")),
    *("tests/report/browser/", "tests/ranking/adapters/"),
    *("tests/base/test_kills.py", "tests/cli/test_demo.py"),
    *(f"tests/test_{name}.py" for name in ("architecture", "rooms", "layers")),
)


@dataclass
class Trace:
    """Which tests run a line, and how long a test takes; tests by name, parameters together."""

    tests: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]
    digests: dict[str, str] = field(default_factory=dict)  # of the files that it was made with
    scope: list[str] = field(default_factory=list)  # which tests it was made with

    def of(self, path: str, line: int, room: Room) -> list[str]:
        """Return the tests that run a line: those of the room before others, each the fast ones first.

        Doctests of the file are among them. Where no test is known to run the line (it is run when the module
        is imported) they are those that run any line of the file.
        """
        lines = self.tests.get(path, {})
        known = lines.get(line) or set().union(*lines.values())
        doctests = [one for one in self.seconds if one.startswith(f"{path}::")]
        near = {one for one in known if one.startswith(room.tests)}
        always = [one for one in ALWAYS if one in self.seconds]
        return list(dict.fromkeys([*doctests, *self.fast(near), *self.fast(known - near), *always]))

    def fast(self, names: Iterable[str]) -> list[str]:
        """Return the fastest of some tests: at least one, and no more than fit the time of a mutant."""
        taken: list[str] = []
        total = 0.0
        for name in sorted(names, key=lambda one: (self.seconds.get(one, 0.0), one)):
            total += self.seconds.get(name, 0.0)
            if taken and total > MOST_SECONDS:
                break
            taken.append(name)
        return taken

    def expected(self, names: Iterable[str]) -> float:
        """Return how long tests take without a change."""
        return sum(self.seconds.get(one, 0.0) for one in names)

    def text(self) -> str:
        """Return what `read` reads."""
        lines = {path: {line: sorted(names) for line, names in of.items()} for path, of in self.tests.items()}
        return json.dumps(
            {"tests": lines, "seconds": self.seconds, "digests": self.digests, "scope": self.scope}
        )

    @classmethod
    def read(cls, text: str) -> Trace:
        """Return the trace of a text."""
        found = json.loads(text)
        lines = {
            path: {int(line): set(names) for line, names in of.items()} for path, of in found["tests"].items()
        }
        return cls(lines, found["seconds"], found["digests"], found.get("scope", []))

    def changed(self, digests: Mapping[str, str]) -> set[str] | None:
        """Return the files whose tests have to be traced anew; None where that is all of them.

        They are the files of tests and doctests that changed, and those with a test that runs a line of code
        that changed.
        """
        names = {one for one in {*self.digests, *digests} if self.digests.get(one) != digests.get(one)}
        if not self.digests or "tests/conftest.py" in names:
            return None
        code = [one for one in names if one.startswith("ipseval/")]
        runs = {name for path in code for tests in self.tests.get(path, {}).values() for name in tests}
        return names | {name.partition("::")[0] for name in runs}

    def renewed(self, files: set[str], new: Trace) -> Trace:
        """Return the trace with the tests of some files as a newer one has them."""

        def stays(name: str) -> bool:
            return name.partition("::")[0] not in files

        tests: dict[str, dict[int, set[str]]] = {}
        for path in {*self.tests, *new.tests}:
            old, known = self.tests.get(path, {}), new.tests.get(path, {})
            tests[path] = {
                line: set(filter(stays, old.get(line, ()))) | known.get(line, set())
                for line in {*old, *known}
            }
        seconds = {name: time for name, time in self.seconds.items() if stays(name)}
        return Trace(tests, seconds | new.seconds, new.digests)


def digests(copy: Path) -> dict[str, str]:
    """Return the SHA-256 of the code and of the tests that judge mutants."""
    paths = sorted(
        one.relative_to(copy).as_posix() for top in ("ipseval", "tests") for one in (copy / top).rglob("*.py")
    )
    return {
        one: hashlib.sha256((copy / one).read_bytes()).hexdigest() for one in paths if not one.startswith(FAR)
    }


def with_importers(copy: Path, files: set[str]) -> set[str]:
    """Return files of tests with the files of tests that import them, directly or not."""
    imports = {
        path.relative_to(copy).as_posix(): set(imported(path)) for path in (copy / "tests").rglob("*.py")
    }
    found: set[str] = set()
    while found != files:
        found = files
        modules = {one.removesuffix(".py").replace("/", ".") for one in found}
        files = found | {
            path for path, names in imports.items() if names & modules and not path.startswith(FAR)
        }
    return found


def imported(path: Path) -> Iterator[str]:
    """Yield the names of modules that a file imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{one.name}" for one in node.names)
        elif isinstance(node, ast.Import):
            yield from (one.name for one in node.names)
