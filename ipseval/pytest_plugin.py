"""pytest plugin: the option --ipseval-update and the fixture `ipseval_baseline`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation

__all__ = ["BaselineChecks", "ipseval_baseline", "pytest_addoption"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --ipseval-update."""
    group = parser.getgroup("ipseval")
    group.addoption(
        "--ipseval-update",
        action="store_true",
        help="write the stored results of ipseval_baseline instead of comparing with them",
    )


class BaselineChecks:
    """The assertions of `ipseval.testing` against files beside the test module, in `baselines/`."""

    def __init__(self, folder: Path, default_name: str, update: bool) -> None:
        self.folder = folder
        self.default_name = default_name
        self.update = update

    def assert_not_worse(self, evaluation: Evaluation, name: str | None = None, **options: Any) -> None:
        """Check against `baselines/<name>.npz`; the name of the test by default."""
        self._check("assert_not_worse", evaluation, name, options)

    def assert_metric(self, evaluation: Evaluation, name: str | None = None, **options: Any) -> None:
        """Check for the same numbers as in `baselines/<name>.npz`."""
        self._check("assert_metric", evaluation, name, options)

    def _check(
        self, assertion: str, evaluation: Evaluation, name: str | None, options: dict[str, Any]
    ) -> None:
        # Imported here: pytest loads plugins in every project of the environment.
        from ipseval import testing

        check: Callable[..., None] = partial(getattr(testing, assertion), update=self.update)
        check(evaluation, self.folder / f"{name or self.default_name}.npz", **options)


@pytest.fixture
def ipseval_baseline(request: pytest.FixtureRequest) -> BaselineChecks:
    """Give a test its stored results; `pytest --ipseval-update` writes them."""
    name = request.node.name.replace("[", "-").replace("]", "").replace("/", "-")
    folder = Path(request.path).parent / "baselines"
    return BaselineChecks(folder, name, bool(request.config.getoption("--ipseval-update")))
