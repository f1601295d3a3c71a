"""The trace: which tests run which line of code."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tests.mutation.layers import Layer

# Defaults are read without running a line of the function.
ALWAYS = ("tests/contracts/test_api.py::test_public_names_and_signatures_are_those_of_the_snapshot",)
MOST_SECONDS = 10.0  # of the layer's tests for one mutant, and of other tests, as they take without a change
SLOW_SECONDS = 600.0  # the same where tests marked slow are run
# Tests that start processes, wait, or read the documentation: no mutant is judged by them.
FAR = (
    *(f"tests/{name}/" for name in ("fuzz", "mutation", "typed", "docs", "reproductions")),
    *("tests/reporting/browser/", "tests/ranking/adapters/"),
    "tests/utils/test_kills.py",
    *(f"tests/test_{name}.py" for name in ("architecture", "layers")),
)


@dataclass
class Trace:
    """Which tests run a line, and how long a test takes; tests by name, parameters together.

    Every later run of these tests has the options of pytest that choose them.
    """

    tests: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]
    options: tuple[str, ...] = ()
    most_seconds: float = MOST_SECONDS

    def select(self, names: set[str]) -> Trace:
        """Return the trace of some of the tests."""
        lines_of_path = {}
        for path, lines in self.tests.items():
            lines_of_path[path] = {line: line_tests & names for line, line_tests in lines.items()}
        seconds = {name: self.seconds[name] for name in self.seconds if name in names}
        return Trace(lines_of_path, seconds, self.options, self.most_seconds)

    def list_tests(self, path: str, line: int, layer: Layer) -> list[str]:
        """Return the tests that run a line: those of the layer first, and fast ones before slow ones.

        Doctests of the file are among them. Where no test is known to run the line (it is run when the module
        is imported) they are those that run any line of the file.
        """
        lines = self.tests.get(path, {})
        known = lines.get(line) or set().union(*lines.values())
        doctests = [test_name for test_name in self.seconds if test_name.startswith(f"{path}::")]
        near = {test_name for test_name in known if test_name.startswith(layer.tests)}
        always = [test_name for test_name in ALWAYS if test_name in self.seconds]
        return list(dict.fromkeys([*doctests, *self.fast(near), *self.fast(known - near), *always]))

    def beside(self, names: list[str]) -> list[str]:
        """Return other tests of the same files: what a module keeps is made in the first test that asks."""
        files = {test_name.partition("::")[0] for test_name in names if test_name not in ALWAYS}
        others = {test_name for test_name in self.seconds if test_name.partition("::")[0] in files}
        return self.fast(others.difference(names))

    def fast(self, names: Iterable[str]) -> list[str]:
        """Return the fastest of some tests: at least one, and no more than fit the time of a mutant."""
        taken: list[str] = []
        total = 0.0
        for name in sorted(names, key=lambda one: (self.seconds.get(one, 0.0), one)):
            total += self.seconds.get(name, 0.0)
            if taken and total > self.most_seconds:
                break
            taken.append(name)
        return taken

    def expected(self, names: Iterable[str]) -> float:
        """Return how long tests take without a change."""
        return sum(self.seconds.get(test_name, 0.0) for test_name in names)
