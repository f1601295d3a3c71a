"""pytest plugin: the option --ipseval-update, the fixture `ipseval_baseline`, annotations on GitHub."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation

__all__ = ["BaselineChecks", "ipseval_baseline", "pytest_addoption", "pytest_terminal_summary"]

GATE_PROPERTY = "ipseval-gate"  # of a test in reports: a decision in one line, or the values of a baseline
PROPERTY = "ipseval"  # of a failed test in reports, such as those of --junit-xml: the decision


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option --ipseval-update to pytest."""
    group = parser.getgroup("ipseval")
    group.addoption(
        "--ipseval-update",
        action="store_true",
        help="write the stored results of ipseval_baseline instead of comparing with them",
    )


class BaselineChecks:
    """Assertions of `ipseval.testing` against files in the folder `baselines/` next to the test module.

    Parameters
    ----------
    folder : Path
        Folder of the stored evaluations.
    default_name : str
        Name of the file that an assertion without a name uses.
    update : bool
        Write the stored evaluations instead of comparing with them.
    node : pytest.Item or None, default None
        The test, whose reports get the decision that fails it.

    See Also
    --------
    ipseval.testing.assert_not_worse : The assertion for a file at any path.
    ipseval.testing.assert_metric : Require the same numbers as a file at any path.

    Examples
    --------
    Tests get such an object from the fixture `ipseval_baseline`. This one has a temporary folder:

    >>> from tempfile import TemporaryDirectory
    >>> from ipseval import evaluate, simulation
    >>> world = simulation.World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    >>> split = world.split(rng=1)
    >>> examples = world.example_models(split, rng=2)
    >>> evaluation = evaluate({"popular": examples["popular"]}, split, metrics=["recall@10"])
    >>> with TemporaryDirectory() as folder:
    ...     checks = BaselineChecks(Path(folder), "test_popular", update=True)
    ...     checks.assert_not_worse(evaluation)
    ...     print([path.name for path in Path(folder).iterdir()])
    ['test_popular.npz']
    """

    def __init__(
        self, folder: Path, default_name: str, update: bool, node: pytest.Item | None = None
    ) -> None:
        self.folder = folder
        self.default_name = default_name
        self.update = update
        self.node = node

    def assert_not_worse(self, evaluation: Evaluation, name: str | None = None, **options: Any) -> None:
        """Check that the gate passes an evaluation compared with `baselines/<name>.npz`.

        Parameters
        ----------
        evaluation : Evaluation
            Evaluation of the candidate.
        name : str, optional
            Name of the stored evaluation. Default: the name of the test.
        **options
            Options of `ipseval.testing.assert_not_worse`.
        """
        __tracebackhide__ = True
        # Imported here because pytest loads plugins in every project.
        from ipseval.testing import assert_not_worse

        self._check(assert_not_worse, evaluation, name, options)

    def assert_metric(self, evaluation: Evaluation, name: str | None = None, **options: Any) -> None:
        """Check that an evaluation has the same numbers as `baselines/<name>.npz`.

        Parameters
        ----------
        evaluation : Evaluation
            Evaluation of the recommenders to check.
        name : str, optional
            Name of the stored evaluation. Default: the name of the test.
        **options
            Options of `ipseval.testing.assert_metric`.
        """
        __tracebackhide__ = True
        from ipseval.testing import assert_metric

        self._check(assert_metric, evaluation, name, options)

    def _check(
        self,
        check: Callable[..., None],
        evaluation: Evaluation,
        name: str | None,
        options: dict[str, Any],
    ) -> None:
        """Call an assertion with a stored evaluation, and keep its failure for the reports of the test."""
        __tracebackhide__ = True
        path = self._path(name)
        if not self.update and not path.exists():
            test = ""
            if self.node is not None:
                _, separator, name_in_file = self.node.nodeid.partition("::")
                test = f"{os.path.relpath(self.node.path)}{separator}{name_in_file}"
            command = f"pytest --ipseval-update {test}".rstrip()
            pytest.fail(f"there is no baseline {path}. Write it: {command}", pytrace=False)
        try:
            check(evaluation, path, update=self.update, report=partial(self._keep_line, name), **options)
        except AssertionError as error:
            if self.node is not None:
                self.node.user_properties.append((PROPERTY, str(error)))
            raise

    def _keep_line(self, name: str | None, line: str) -> None:
        """Keep a decision for the summary after the tests; `name` names the stored evaluation."""
        if name is not None:
            line = f"{name}: {line}"
        if self.node is not None:
            self.node.user_properties.append((GATE_PROPERTY, line))

    def _path(self, name: str | None) -> Path:
        """Return the path of a stored evaluation."""
        return self.folder / f"{name or self.default_name}.npz"


@pytest.fixture
def ipseval_baseline(request: pytest.FixtureRequest) -> BaselineChecks:
    """Return the checks of a test against its stored results; `pytest --ipseval-update` writes them."""
    name = request.node.name.replace("[", "-").replace("]", "").replace("/", "-")
    folder = Path(request.path).parent / "baselines"
    update = bool(request.config.getoption("--ipseval-update"))
    return BaselineChecks(folder, name, update, request.node)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each decision in a line, and an annotation of each failed gate where GitHub Actions runs the tests."""
    lines = list_gates(terminalreporter)
    if lines and terminalreporter.config.option.verbose >= 0:
        terminalreporter.section("ipseval gates")
    for line in lines:
        terminalreporter.write_line(line)
    if os.environ.get("GITHUB_ACTIONS") != "true":
        return
    for report in terminalreporter.getreports("failed"):
        for name, text in report.user_properties:
            if name == PROPERTY:
                path, line, test = report.location
                terminalreporter.write_line(format_annotation(path, line or 0, test, str(text)))


def list_gates(terminalreporter: pytest.TerminalReporter) -> list[str]:
    """Return a line with the test and the decision for each gate that ran."""
    lines = []
    for reports in terminalreporter.stats.values():
        for report in reports:
            if getattr(report, "when", "") != "call":  # reports of fixtures repeat the properties of the test
                continue
            for name, line in report.user_properties:
                if name == GATE_PROPERTY:
                    lines.append(f"{report.nodeid}: {line}")
    return lines


def format_annotation(path: str, line: int, title: str, text: str) -> str:
    r"""Return the workflow command of GitHub that marks a line of a file as an error; `line` counts from 0.

    Examples
    --------
    >>> format_annotation("tests/test_als.py", 4, "test_als", "WORSE\nby 100%")
    '::error file=tests/test_als.py,line=5,title=test_als::WORSE%0Aby 100%25'
    """
    message = _escape(text)
    path = _escape(path).replace(":", "%3A").replace(",", "%2C")
    title = _escape(title).replace(":", "%3A").replace(",", "%2C")
    return f"::error file={path},line={line + 1},title={title}::{message}"


def _escape(text: str) -> str:
    """Return a text with the characters escaped that end a workflow command."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
