"""pytest plugin: the option --ipseval-update and the fixture `ipseval_baseline`."""

from __future__ import annotations

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
        from ipseval.testing import assert_not_worse  # here: pytest loads plugins in every project

        assert_not_worse(evaluation, self._path(name), update=self.update, **options)

    def assert_metric(self, evaluation: Evaluation, name: str | None = None, **options: Any) -> None:
        """Check for the same numbers as in `baselines/<name>.npz`."""
        from ipseval.testing import assert_metric

        assert_metric(evaluation, self._path(name), update=self.update, **options)

    def _path(self, name: str | None) -> Path:
        return self.folder / f"{name or self.default_name}.npz"


@pytest.fixture
def ipseval_baseline(request: pytest.FixtureRequest) -> BaselineChecks:
    """Give a test its stored results; `pytest --ipseval-update` writes them."""
    name = request.node.name.replace("[", "-").replace("]", "").replace("/", "-")
    folder = Path(request.path).parent / "baselines"
    return BaselineChecks(folder, name, bool(request.config.getoption("--ipseval-update")))
