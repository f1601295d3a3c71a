"""Are wrong numbers found? Mutants of six rooms against their tests.

    python -m tests.mutation.run                      all rooms: what `make mutation` runs
    python -m tests.mutation.run metrics --n 20       one room, fewer mutants
    python -m tests.mutation.run --floor 0.9          exit code 1 where a room's score is lower
    python -m tests.mutation.run --trace trace.json   keep which test runs which line for the next run

A mutant is one change of one expression (an operator, a comparison, a number, a truth value, a loop) by
Cosmic Ray, at a place drawn with a fixed seed. It runs against tests that run its line, those of its room and
fast ones first, until one fails. Before that all tests pass without a change, and some fail with the control,
a change that has to be found. The score is the share of mutants found. `survivors.txt` says which are left
out, because no test can tell them from the library, and why.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutation.rooms import ROOMS, Room
from tests.mutation.sample import Mutant, sample

ROOT = Path(__file__).resolve().parents[2]
SURVIVORS = Path(__file__).with_name("survivors.txt")
PYTEST = ("-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers")
MARKS = ("-m", "not slow and not engines", "-W", "ignore::pytest.PytestAssertRewriteWarning")  # imported once
# Defaults are read without running a line of the function.
ALWAYS = ("tests/contracts/test_api.py::test_public_names_and_signatures_are_those_of_the_snapshot",)
NO_TESTS = 5  # exit code of pytest: all of them are slow
BEFORE = ("hypothesis", "pytest", "pandas", "scipy.stats", "matplotlib.pyplot", "numba")  # once, not in forks
MOST_SECONDS = 10.0  # of the room's tests for one mutant, and of others, as they take without a change
# Tests that start processes, wait, or read the documentation: no mutant is judged by them.
FAR = (
    *(f"tests/{name}" for name in ("fuzz", "browser", "mutation", "typed", "adapters", "reproductions")),
    *(f"tests/test_{name}.py" for name in ("kills", "docs", "site", "shell", "notebooks", "demo", "gallery")),
    *(
        f"tests/test_{name}.py"
        for name in ("architecture", "rooms", "english", "layers", "readme", "cookbook")
    ),
)


@dataclass
class Trace:
    """Which tests run a line, and how long a test takes; tests by name, parameters together."""

    tests: dict[str, dict[int, set[str]]]
    seconds: dict[str, float]
    digests: dict[str, str] = field(default_factory=dict)  # of the files that it was made with

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
        return json.dumps({"tests": lines, "seconds": self.seconds, "digests": self.digests})

    @classmethod
    def read(cls, text: str) -> Trace:
        """Return the trace of a text."""
        found = json.loads(text)
        lines = {
            path: {int(line): set(names) for line, names in of.items()} for path, of in found["tests"].items()
        }
        return cls(lines, found["seconds"], found["digests"])

    def changed(self, digests: Mapping[str, str]) -> set[str] | None:
        """Return the files whose tests have to be traced anew; None where that is all of them.

        They are the files of tests and doctests that changed, and those with a test that runs a line of code
        that changed. What tests share is no code that is traced.
        """
        names = {one for one in {*self.digests, *digests} if self.digests.get(one) != digests.get(one)}
        code = {one for one in names if one.startswith("ipseval/")}
        if not self.digests or not all(Path(one).name.startswith("test_") for one in names - code):
            return None
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


@dataclass
class Score:
    """What became of the mutants of a room."""

    n_places: int = 0
    found: int = 0
    excused: list[Mutant] = field(default_factory=list)
    survived: list[Mutant] = field(default_factory=list)

    @property
    def n(self) -> int:
        """How many mutants count."""
        return self.found + len(self.survived)

    @property
    def share(self) -> float:
        """The share that was found."""
        return self.found / self.n if self.n else float("nan")

    def interval(self, z: float = 1.959963984540054) -> tuple[float, float]:
        """Return Wilson's 95 % interval of the share among all places."""
        n, p = self.n, self.share
        middle, half = p + z * z / (2 * n), z * (p * (1 - p) / n + z * z / (4 * n * n)) ** 0.5
        return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)


class Plugin:
    """What a run of pytest notes: the seconds of each test, parameters together."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid.partition("[")[0]] += report.duration


def child(copy: Path, arguments: Sequence[str], *, trace: Path | None = None) -> int:
    """Run pytest in the copy, in this process; with `trace`, write there which test runs which line."""
    import pytest

    os.chdir(copy)
    sys.path.insert(0, str(copy))
    for name in [one for one in sys.modules if one.partition(".")[0] in ("tests", "ipseval")]:
        del sys.modules[name]
    with (copy.parent / "output.txt").open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    # Compiled once, and never of a mutant: files change more than once a second.
    sys.dont_write_bytecode = trace is None
    if trace is None:
        return int(pytest.main([*PYTEST, *MARKS, *arguments]))
    import coverage

    plugin = Plugin()
    measured = coverage.Coverage(data_file=None, source=[str(copy / "ipseval")], config_file=False)
    measured.set_option("run:dynamic_context", "test_function")
    measured.start()
    code = int(pytest.main([*PYTEST, *MARKS, *arguments], plugins=[plugin]))
    measured.stop()
    data = measured.get_data()
    node = {one.replace("/", ".").replace(".py::", "."): one for one in plugin.seconds}
    lines = {
        str(Path(path).relative_to(copy)): {
            line: {node[name] for name in names if name in node}
            for line, names in data.contexts_by_lineno(path).items()
        }
        for path in data.measured_files()
    }
    if code in (0, NO_TESTS):
        found = Trace(lines, plugin.seconds, digests(copy))
        trace.write_text(found.text(), encoding="utf-8")
    return code


def forked(copy: Path, arguments: Sequence[str], limit: float, *, trace: Path | None = None) -> int | None:
    """Return the exit code of pytest in a fork, or None where it was stopped at the limit of seconds."""
    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.setsid()
            code = child(copy, arguments, trace=trace)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    end = time.monotonic() + limit
    while time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def digests(copy: Path) -> dict[str, str]:
    """Return the SHA-256 of the code and of the tests that judge mutants."""
    paths = sorted(
        one.relative_to(copy).as_posix() for top in ("ipseval", "tests") for one in (copy / top).rglob("*.py")
    )
    return {
        one: hashlib.sha256((copy / one).read_bytes()).hexdigest() for one in paths if not one.startswith(FAR)
    }


def current(copy: Path, path: Path) -> Trace:
    """Return the trace of a file, with the tests that changed since traced anew; all, where code did."""
    kept = Trace.read(path.read_text(encoding="utf-8")) if path.exists() else Trace({}, {})
    files = kept.changed(digests(copy))
    if files == set():
        return kept
    if files is None:
        found = traced(copy, ("tests", "ipseval"))
    else:
        print(f"traced anew: {', '.join(sorted(files))}", flush=True)
        there = sorted(one for one in files if (copy / one).exists())
        found = kept.renewed(files, traced(copy, there) if there else Trace({}, {}, digests(copy)))
    path.write_text(found.text(), encoding="utf-8")
    return found


def traced(copy: Path, tests: Sequence[str]) -> Trace:
    """Run fast tests without a change, and return what they run."""
    path = copy.parent / "new.json"
    every = ("--doctest-modules", *tests, *(f"--ignore={one}" for one in FAR))
    code = forked(copy, every, 3600, trace=path)
    if code not in (0, NO_TESTS):
        output = (copy.parent / "output.txt").read_text(encoding="utf-8", errors="replace")
        sys.exit(f"the tests do not pass without a change: exit code {code}\n{output[-3000:]}")
    return Trace.read(path.read_text(encoding="utf-8"))


def is_found(copy: Path, room: Room, path: str, line: int, code: str, trace: Trace) -> bool:
    """Return whether a test fails, or takes too long, with a file changed."""
    target = copy / path
    kept = target.with_suffix(".kept")
    shutil.copy2(target, kept)
    names = trace.of(path, line, room)
    try:
        target.write_text(code, encoding="utf-8")
        result = forked(copy, ("--doctest-modules", *names), 20 + 6 * trace.expected(names))
    finally:
        os.replace(kept, target)
    output = (copy.parent / "output.txt").read_text(encoding="utf-8", errors="replace")
    if "no match in any of" in output:
        sys.exit(f"the trace names tests that are not there: make it anew\n{output[-1000:]}")
    return result not in (0, NO_TESTS)


def control(copy: Path, room: Room, trace: Trace) -> None:
    """Stop where the change that must be found is not."""
    path, old, new = room.control
    code = (copy / path).read_text(encoding="utf-8")
    place = code.find(old)
    if place < 0:
        sys.exit(f"the control is out of date: {old!r} does not stand in {path}")
    line = code.count("\n", 0, place) + 1
    if not is_found(copy, room, path, line, code[:place] + new + code[place + len(old) :], trace):
        sys.exit(f"the control survived: {path}:{line}, {old!r} as {new!r}. No score of this run counts.")


def reasons(text: str) -> Mapping[str, str]:
    """Return why a mutant cannot be found, or need not be, by its name: pairs of lines."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    return {name: why.strip() for name, why in zip(lines[::2], lines[1::2], strict=True)}


def judge(room: Room, copy: Path, trace: Trace, n: int, seed: int) -> Score:
    """Run a sample of the mutants of a room."""
    control(copy, room, trace)
    excuses = reasons(SURVIVORS.read_text(encoding="utf-8"))
    mutants, n_places = sample(copy, room.paths(copy), n, seed)
    score = Score(n_places)
    print("  control found", flush=True)
    for one in mutants:
        if is_found(copy, room, one.path, one.line, one.code, trace):
            score.found += 1
        elif one.name in excuses:
            score.excused.append(one)
        else:
            score.survived.append(one)
            print(f"  survived  {one.path}:{one.line}\n    {one.before}\n    {one.after}", flush=True)
    return score


def main() -> None:
    """Judge the rooms one after the other."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("rooms", nargs="*", metavar="room", help=", ".join(ROOMS))
    parser.add_argument("--n", type=int, default=100, help="mutants of each room")
    parser.add_argument("--seed", type=int, default=26)
    parser.add_argument(
        "--trace", type=Path, help="file that keeps which test runs which line; changed tests run anew"
    )
    parser.add_argument("--floor", type=float, default=0.9)
    options = parser.parse_args()
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    os.environ |= {"CI": "true", "MPLBACKEND": "Agg"}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("IPSEVAL_DATA", str(ROOT.parent / "shared" / "data"))
    for name in BEFORE:
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)

    low = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv", ".nox", "__pycache__", ".*_cache", ".hypothesis")
        shutil.copytree(ROOT, copy, ignore=ignored)
        os.environ["PYTHONPATH"] = str(copy)
        trace = current(copy, (options.trace or Path(folder) / "trace.json").resolve())
        for name in options.rooms or ROOMS:
            print(name, flush=True)
            begun = time.monotonic()
            score = judge(ROOMS[name], copy, trace, options.n, options.seed)
            bounds = " to ".join(f"{one:.0%}" for one in score.interval())
            print(
                f"  {score.share:.0%} found ({score.found} of {score.n}; 95 % interval {bounds}), "
                f"{len(score.excused)} with a reason, {score.n_places} places, "
                f"{(time.monotonic() - begun) / 60:.0f} min",
                flush=True,
            )
            if not score.share >= options.floor:
                low.append(name)
    if low:
        sys.exit(f"below {options.floor:.0%}: {', '.join(low)}")


if __name__ == "__main__":
    main()
