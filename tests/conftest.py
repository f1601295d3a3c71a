"""Shared test set-up: layers of tests, public data sets, hypothesis profiles, a share of the slow tests."""

from __future__ import annotations

import gc
import itertools
import os
import re
import zlib
from collections.abc import Generator, Iterator
from functools import cache
from pathlib import Path

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings
from threadpoolctl import threadpool_limits

from tests.extras import MissingExtras
from tests.pages import without_pictures

ROOT = Path(__file__).resolve().parents[1]

# The layer of a test follows from its path. What no line names is a unit test: one room, values by hand.
LAYERS = {
    # One engine or library each, where it is installed: `nox -s engines`, not `python -m pytest`.
    "engines": [
        "tests/distributed/test_distributed_engines.py",
        *("tests/reporting/browser/", "tests/reporting/test_latex.py", "tests/evaluation/test_trackers.py"),
        *("tests/evaluation/beyond/test_peers.py", "tests/metrics/test_peers.py"),
        *("tests/evaluation/test_integrations.py", "tests/docs/test_action.py"),
        *(
            f"tests/ranking/adapters/test_{name}.py"
            for name in (
                *("cornac", "implicit", "inside_libraries", "lenskit", "lightfm", "recbole"),
                *("rectools", "spark", "surprise", "torch"),
            )
        ),
    ],
    # What holds for every member of a family, every public function, every command and file.
    "contract": [
        *("tests/contracts/", "tests/fuzz/", "tests/testing/", "tests/first_intuition/"),
        *(
            f"tests/cli/test_{name}.py"
            for name in ("cli", "cli_answers", "cli_commands", "cli_files", "cli_options", "cli_vectors")
        ),
        *("tests/docs/test_english.py", "tests/metrics/sampled/test_ranges.py"),
        *(f"tests/test_{name}.py" for name in ("architecture", "layers")),
        *(
            "tests/utils/test_artefacts.py",
            "tests/utils/test_kills.py",
            "tests/reporting/test_report_names.py",
        ),
        *("tests/data/reading/test_malformed.py", "tests/studies/test_protocols_resume.py"),
        *("tests/evaluation/test_saved_evaluations.py", "tests/evaluation/test_diff.py"),
        "tests/evaluation/test_list_metrics.py",
        *("tests/ranking/test_threads.py", "tests/ranking/test_parquet.py"),
    ],
    # Values from elsewhere: oracles, other libraries, enumeration, worlds of known truth, printed examples.
    "golden": [
        *("tests/golden/", "tests/statistical/"),
        *(f"tests/metrics/test_{name}.py" for name in ("docs", "enumeration", "known_answers")),
        *(f"tests/ranking/test_{name}.py" for name in ("exact_ranks", "duplicate_items", "remove_positives")),
        *(f"tests/ranking/adapters/test_{name}.py" for name in ("docs", "frames")),
        *(f"tests/inference/test_{name}.py" for name in ("docs", "bounds", "sensitivity", "comparisons")),
        "tests/inference/test_propensity_influence.py",
        *(
            f"tests/propensity/test_{name}.py"
            for name in (
                *("gamma_simulation", "density_ratio", "density_ratio_steady"),
                *("examination", "popularity_exponent"),
            )
        ),
        *(f"tests/metrics/sampled/test_{name}.py" for name in ("pools", "joint", "corrected", "expected")),
        "tests/validation/simulation/test_recovery.py",
        "tests/validation/test_validation_population.py",
        *(
            f"tests/docs/test_{name}.py"
            for name in ("docs", "readme", "shell", "cookbook", "gallery", "notebooks")
        ),
        *("tests/cli/test_demo.py", "tests/estimators/test_identities.py"),
        *(f"tests/policies/test_{name}.py" for name in ("doubly_robust", "policies", "policy_rewards")),
        "tests/studies/online/",
        *(
            f"tests/evaluation/test_{name}.py"
            for name in (*("evaluation_oracle", "ratings", "repeats", "production_log"),)
        ),
        *("tests/distributed/test_partition_groups.py", "tests/evaluation/slates/test_oracles.py"),
        "tests/reproductions/",
        "tests/correction/test_correction_scripts.py",
    ],
}

# A failure in CI must be the same failure at the desk: examples are derived from the test, not from a seed.
# `nox -s properties` and CI take six times as many examples as the fast suite.
settings.register_profile("local", deadline=None, print_blob=True, max_examples=10)
settings.register_profile("ci", settings.get_profile("local"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("ci"), max_examples=64)
settings.load_profile("ci" if os.environ.get("CI") else "local")


def examples(n: int) -> int:
    """Return how many examples a property test takes, where others take 100 for its `n`."""
    return max(1, n * settings.default.max_examples // 100)


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


@pytest.fixture
def no_pictures() -> Iterator[None]:
    """Write pages without pictures."""
    with without_pictures():
        yield


def pytest_configure(config: pytest.Config) -> None:
    # Looking for garbage after every few hundred objects took a sixth of the suite's time.
    gc.set_threshold(100_000, 10, 10)
    # Threads of BLAS wait for each other in small products, which took a fifth of it and more on a busy
    # machine. What they change in a number is looked at by `tests/processors.py`, also in CI.
    if "OPENBLAS_NUM_THREADS" not in os.environ:
        os.environ.update(dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), "1"))
        threadpool_limits(1, user_api="blas")  # where NumPy was loaded before
    # Pages name the day on which they are written: two that are compared must not differ at midnight.
    os.environ.setdefault("SOURCE_DATE_EPOCH", "1767225600")
    for plugin in (MissingExtras(), Collected()):
        config.pluginmanager.register(plugin)  # for the doctests of ipseval/, too


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--slow-share",
        type=int,
        default=1,
        metavar="N",
        help="of the tests marked slow, run one in N, chosen by a checksum of the test's name",
    )
    parser.addoption(
        "--share",
        type=int,
        default=1,
        metavar="N",
        help="of the files, read one in N, chosen in the same way",
    )
    parser.addoption(
        "--turn", type=int, default=0, metavar="K", help="which share: N turns one after the other run all"
    )


@cache
def layer_of(path: Path) -> str:
    """Return the layer of the tests in a file."""
    name = path.relative_to(ROOT).as_posix()
    return next((layer for layer, starts in LAYERS.items() if name.startswith(tuple(starts))), "unit")


def may_be_chosen(layer: str, text: str, expression: str) -> bool:
    """Return whether `-m expression` can choose a test of a layer in a file whose text names its markers."""
    names = set(re.findall(r"\w+", expression)) - {"and", "or", "not"}
    others = sorted({name for name in names - {"unit", *LAYERS} if re.search(rf"\b{name}\b", text)})
    outside = dict.fromkeys((*names, "unit", *LAYERS), False)
    markers = (
        {**outside, layer: True, **dict(zip(others, truth, strict=True))} for truth in truths(len(others))
    )
    return not expression or any(eval(expression, {}, marker) for marker in markers)


def truths(n: int) -> Iterator[tuple[bool, ...]]:
    """Yield all ways in which n statements can be true or false."""
    return itertools.product((False, True), repeat=n)


class Collected:
    """A plugin of pytest: which files are read. Hooks of this file would see those below `tests` alone."""

    def pytest_ignore_collect(self, collection_path: Path, config: pytest.Config) -> bool | None:
        # To import a file takes time, also where none of its tests is chosen.
        if collection_path.suffix != ".py":
            return None
        name = collection_path.relative_to(ROOT).as_posix()
        if not in_share(name, config.getoption("--share"), config.getoption("--turn")):
            return True
        text = collection_path.read_text(encoding="utf-8")
        return None if may_be_chosen(layer_of(collection_path), text, config.option.markexpr) else True

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(
        self, file_path: Path
    ) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        # To look for examples takes time, also in the files that hold none.
        collectors = yield
        return [
            collector
            for collector in collectors
            if not isinstance(collector, DoctestModule) or b">>>" in file_path.read_bytes()
        ]


@pytest.hookimpl(tryfirst=True)  # before tests are chosen by their markers
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        item.add_marker(layer_of(item.path))
    share, turn = config.getoption("--slow-share"), config.getoption("--turn")
    slow = (item for item in items if item.get_closest_marker("slow") is not None)
    left_out = [item for item in slow if not in_share(item.nodeid, share, turn)]
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = set(left_out)
        items[:] = [item for item in items if item not in gone]


def pytest_collection_finish() -> None:
    # Modules and tests live to the end: the collector of garbage need not look through them again and again.
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    # One look finds what the tests have left, such as open files, of which pytest warns. It looks five times,
    # and Python at its exit again, through all that is kept: the rest is left to the system.
    gc.collect()
    gc.freeze()


def in_share(name: str, share: int, turn: int) -> bool:
    """Return whether a test, or a file of tests, is among one in `share` of them."""
    return (zlib.crc32(name.encode()) + turn) % max(share, 1) == 0
