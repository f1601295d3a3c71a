"""Shared test set-up: where the public data sets are, hypothesis profiles, a share of the slow tests."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

# A failure in CI must be the same failure at the desk: examples are derived from the test, not from a seed.
settings.register_profile("local", deadline=None, print_blob=True)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def shared_data(name: str) -> Path:
    """Return the path of a public data set (a folder or file), or skip the test with the reason.

    The data are not part of the project (see data/README.md); they are looked for in the folder named by the
    environment variable IPSEVAL_DATA, otherwise in ../shared/data beside the project.
    """
    folder = Path(os.environ.get("IPSEVAL_DATA") or ROOT.parent / "shared" / "data")
    path = folder / name
    if not path.exists():
        pytest.skip(f"data set {name!r} is not in {folder}; set IPSEVAL_DATA to the folder that holds it")
    return path


@pytest.fixture(name="shared_data", scope="session")
def shared_data_fixture():
    """Give tests the function `shared_data(name)`."""
    return shared_data


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow-share",
        type=int,
        default=1,
        metavar="N",
        help="of the tests marked slow, run one in N, chosen by a checksum of the test's name",
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    share = config.getoption("--slow-share")
    if share <= 1:
        return
    left_out = [
        item for item in items if item.get_closest_marker("slow") and zlib.crc32(item.nodeid.encode()) % share
    ]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        kept = set(items) - set(left_out)
        items[:] = [item for item in items if item in kept]
