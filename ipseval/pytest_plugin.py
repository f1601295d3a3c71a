"""pytest plugin: the option --ipseval-update and the fixture `ipseval_baseline`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from ipseval.evaluation import Evaluation

__all__ = ["BaselineChecks", "ipseval_baseline", "pytest_addoption"]


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
    """

    def __init__(self, folder: Path, default_name: str, update: bool) -> None:
        self.folder = folder
        self.default_name = default_name
        self.update = update

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
        # Imported here because pytest loads plugins in every project.
        from ipseval.testing import assert_not_worse

        assert_not_worse(evaluation, self._path(name), update=self.update, **options)

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
        from ipseval.testing import assert_metric

        assert_metric(evaluation, self._path(name), update=self.update, **options)

    def _path(self, name: str | None) -> Path:
        """Return the path of a stored evaluation."""
        return self.folder / f"{name or self.default_name}.npz"


@pytest.fixture
def ipseval_baseline(request: pytest.FixtureRequest) -> BaselineChecks:
    """Return the checks of a test against its stored results; `pytest --ipseval-update` writes them."""
    name = request.node.name.replace("[", "-").replace("]", "").replace("/", "-")
    folder = Path(request.path).parent / "baselines"
    return BaselineChecks(folder, name, bool(request.config.getoption("--ipseval-update")))
