"""Measure which share of planted faults the tests find, by mutants of each layer.

    python -m tests.mutation.run                      all layers, as `nox -s mutation`
    python -m tests.mutation.run metrics --n 20       one layer, fewer mutants
    python -m tests.mutation.run --floor 0.9          exit code 1 where the score of a layer is lower
    python -m tests.mutation.run ranking --near       by the tests of the layer alone: faster, and fewer are found
    python -m tests.mutation.run --total 200 --least 8 --record faults.jsonl
                                                      200 mutants in proportion to the places of each layer, at
                                                      least 8 of each, and one line of JSON for each mutant

A mutant is one change of one expression (an operator, a comparison, a number, a truth value, a loop) by
Cosmic Ray, at a place drawn with a fixed seed. The run applies tests that execute its line, first those of
its layer and fast ones, then other tests of their files, until one fails. Before that all tests must pass
without a change, and a test must fail with the control, a change that the tests must find.

The score is the share of mutants found. `sample.py` leaves out changes without a meaning, and `layers.SPEED`
lists constants that affect the speed alone.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import json
import math
import os
import pickle
import re
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from statsmodels.stats.proportion import proportion_confint

from tests.mutation.layers import LAYERS, Layer
from tests.mutation.sample import Mutant, count_places, sample
from tests.mutation.trace import ALWAYS, FAR, Trace

ROOT = Path(__file__).resolve().parents[2]
PYTEST = ("-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers")
# Imported before the forks: pytest does not rewrite it, and filters of warnings that SciPy sets are gone.
IGNORED = ("-W", "ignore::pytest.PytestAssertRewriteWarning", "-W", "ignore:the matrix subclass")
MARKS = ("-m", "not slow and not engines", *IGNORED)
# Tests by engine: NumPy's, which is what is changed. Numba's call the same code around it and take longer.
ONE_ENGINE = ("-k", "not [numba and not -numba")
NO_TESTS = 5  # exit code of pytest: all of them are slow
BEFORE = ("hypothesis", "pytest", "pandas", "scipy.stats", "matplotlib.pyplot")  # once, not in forks


@dataclass(frozen=True)
class Outcome:
    """A mutant, whether a test found it, and the first test that failed; empty for a limit of time."""

    layer: str
    mutant: Mutant
    is_found: bool
    test: str

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self))


@dataclass
class Score:
    """The numbers of mutants of a layer that the tests found and did not find."""

    n_places: int = 0
    n_left_out: int = 0  # places in the values of constants of speed
    found: int = 0
    too_long: int = 0  # of those found: stopped at the limit of time
    survived: list[Mutant] = field(default_factory=list)
    outcomes: list[Outcome] = field(default_factory=list)

    @property
    def n(self) -> int:
        """How many mutants count."""
        return self.found + len(self.survived)

    @property
    def share(self) -> float:
        """The share that was found."""
        return self.found / self.n if self.n else float("nan")

    @property
    def standard_error(self) -> float:
        """The standard error of the share."""
        return math.sqrt(self.share * (1 - self.share) / self.n) if self.n else float("nan")

    def __str__(self) -> str:
        interval = proportion_confint(self.found, self.n, method="wilson") if self.n else ()
        bounds = " to ".join(f"{bound:.0%}" for bound in interval)
        return (
            f"  {self.share:.1%} found ({self.found} of {self.n}; standard error {self.standard_error:.1%}; "
            f"95% interval {bounds}; {self.too_long} by a limit of time); "
            f"{self.n_places} places, and {self.n_left_out} of SPEED left out"
        )


class Plugin:
    """What pytest notes: processor seconds of each test, its lines in all threads; parameters together."""

    def __init__(self, measured: Any) -> None:
        self.seconds: dict[str, float] = defaultdict(float)
        self.measured = measured

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.measured.switch_context(nodeid.partition("[")[0])
        self.seconds[nodeid.partition("[")[0]] -= sum(os.times()[:4])  # with programs that a test starts

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid.partition("[")[0]] += sum(os.times()[:4])
        self.measured.switch_context("")


def child(copy: Path, arguments: Sequence[str], trace: Path | None = None) -> int:
    """Run pytest in the copy, in this process; with `trace`, write there which test runs which line."""
    import pytest

    os.chdir(copy)
    sys.path.insert(0, str(copy))
    for name in [module for module in sys.modules if module.partition(".")[0] in ("tests", "ipseval")]:
        del sys.modules[name]
    with (copy.parent / "output.txt").open("w") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    # Compiled once, and never of a mutant: files change more than once a second.
    sys.dont_write_bytecode = trace is None
    if trace is None:
        return int(pytest.main([*PYTEST, *MARKS, *ONE_ENGINE, *arguments]))
    import coverage

    measured = coverage.Coverage(data_file=None, source=[str(copy / "ipseval")], config_file=False)
    plugin = Plugin(measured)
    measured.start()
    code = int(pytest.main([*PYTEST, *MARKS, *ONE_ENGINE, *arguments], plugins=[plugin]))
    measured.stop()
    data = measured.get_data()
    lines = {
        str(Path(path).relative_to(copy)): {
            line: {name for name in names if name in plugin.seconds}
            for line, names in data.contexts_by_lineno(path).items()
        }
        for path in data.measured_files()
    }
    if code in (0, NO_TESTS):
        trace.write_bytes(pickle.dumps((lines, dict(plugin.seconds))))
    return code


def forked(copy: Path, arguments: Sequence[str], limit: float, trace: Path | None = None) -> int | None:
    """Return the exit code of pytest in a fork, or None where it was stopped at the limit of seconds.

    They are seconds of the processor, which do not depend on what else runs, and five times as many to wait.
    """
    import resource  # as the forks, of POSIX alone

    pid = os.fork()
    if pid == 0:
        code = 70
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(limit), resource.RLIM_INFINITY))
            code = child(copy, arguments, trace)
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    end, done = time.monotonic() + 5 * limit, 0
    while not done and time.monotonic() < end:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done and os.waitstatus_to_exitcode(status) != -signal.SIGXCPU:
            return os.waitstatus_to_exitcode(status)
        time.sleep(0.02)
    with contextlib.suppress(ProcessLookupError):  # nothing that it has started is left
        os.killpg(pid, signal.SIGKILL)
    if not done:
        os.waitpid(pid, 0)
    return None


def scope(layers: Sequence[str], *, near: bool) -> tuple[str, ...]:
    """Return the tests and doctests that judge the mutants of layers: all tests, or those of the layers alone."""
    if not near:
        return "tests", "ipseval"
    folders = (LAYERS[name].folder for name in layers)
    tests = dict.fromkeys(test for name in layers for test in LAYERS[name].tests)
    return (*tests, *folders, *(test.partition("::")[0] for test in ALWAYS))


def traced(copy: Path, tests: Sequence[str]) -> Trace:
    """Run fast tests without a change, and return what they run."""
    path = copy.parent / "trace.pickle"
    code = forked(
        copy, ("--doctest-modules", *tests, *(f"--ignore={far_path}" for far_path in FAR)), 3600, path
    )
    if code not in (0, NO_TESTS):
        output = (copy.parent / "output.txt").read_text(encoding="utf-8", errors="replace")
        sys.exit(f"the tests do not pass without a change: exit code {code}\n{output[-3000:]}")
    return Trace(*pickle.loads(path.read_bytes()))


def is_found(
    copy: Path, layer: Layer, path: str, line: int, code: str, trace: Trace, score: Score | None = None
) -> bool:
    """Return whether a test fails, or takes too long, with a file changed."""
    target = copy / path
    kept = target.with_suffix(".kept")
    shutil.copy2(target, kept)
    names = trace.of(path, line, layer)
    result: int | None = NO_TESTS
    try:
        target.write_text(code, encoding="utf-8")
        for tests in (names, trace.beside(names)):
            if tests and result in (0, NO_TESTS):
                result = forked(copy, ("--doctest-modules", *tests), 20 + 6 * trace.expected(tests))
    finally:
        os.replace(kept, target)
    output = (copy.parent / "output.txt").read_text(encoding="utf-8", errors="replace")
    if "no match in any of" in output:
        sys.exit(f"the trace names tests that are not there: make it anew\n{output[-1000:]}")
    if result is None and score is not None:
        score.too_long += 1
    return result not in (0, NO_TESTS)


def read_failed_test(copy: Path) -> str:
    """Return the name of the first test that failed in the last run of pytest, or an empty text."""
    output = (copy.parent / "output.txt").read_text(encoding="utf-8", errors="replace")
    match = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return match.group(1) if match else ""


def share_mutants(layers: Sequence[str], total: int, least: int) -> dict[str, int]:
    """Return the number of mutants of each layer: in proportion to its places, and not below the least."""
    n_places = {name: count_places(ROOT, LAYERS[name].paths(ROOT)) for name in layers}
    n_all_places = sum(n_places.values())
    return {name: max(least, round(total * n_places[name] / n_all_places)) for name in layers}


def control(copy: Path, layer: Layer, trace: Trace) -> None:
    """Stop where the change that must be found is not."""
    file, old, new = layer.control
    path = f"{layer.folder}/{file}"
    code = (copy / path).read_text(encoding="utf-8")
    place = code.find(old)
    if place < 0:
        sys.exit(f"the control is out of date: {old!r} does not stand in {path}")
    line = code.count("\n", 0, place) + 1
    if not is_found(copy, layer, path, line, code[:place] + new + code[place + len(old) :], trace):
        sys.exit(f"the control survived: {path}:{line}, {old!r} as {new!r}. No score of this run counts.")


def judge(layer: Layer, copy: Path, trace: Trace, n: int, seed: int) -> Score:
    """Run a sample of the mutants of a layer."""
    control(copy, layer, trace)
    mutants, n_places, n_left_out = sample(copy, layer.paths(copy), n, seed)
    score = Score(n_places, n_left_out)
    print("  control found", flush=True)
    for mutant in mutants:
        n_too_long = score.too_long
        if is_found(copy, layer, mutant.path, mutant.line, mutant.code, trace, score):
            score.found += 1
            failed_test = read_failed_test(copy) if score.too_long == n_too_long else ""
            score.outcomes.append(Outcome(layer.name, mutant, True, failed_test))
        else:
            score.outcomes.append(Outcome(layer.name, mutant, False, ""))
            score.survived.append(mutant)
            print(
                f"  survived  {mutant.path}:{mutant.line}\n    {mutant.before}\n    {mutant.after}",
                flush=True,
            )
    return score


def main() -> None:
    """Judge the layers one after another."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("layers", nargs="*", metavar="layer", help=", ".join(LAYERS))
    parser.add_argument("--n", type=int, default=100, help="mutants of each layer")
    parser.add_argument("--total", type=int, help="mutants of all layers, by their places; replaces --n")
    parser.add_argument("--least", type=int, default=8, help="with --total: fewest mutants of a layer")
    parser.add_argument("--record", type=Path, help="file to which a line of JSON is added for each mutant")
    parser.add_argument("--seed", type=int, default=26)
    parser.add_argument("--near", action="store_true", help="judge by the tests of the layer alone")
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
        layers = options.layers or list(LAYERS)
        sizes = dict.fromkeys(layers, options.n)
        if options.total is not None:
            sizes = share_mutants(layers, options.total, options.least)
        trace = traced(copy, scope(layers, near=options.near))
        for name in layers:
            print(name, flush=True)
            begun = time.monotonic()
            score = judge(LAYERS[name], copy, trace, sizes[name], options.seed)
            if options.record is not None:
                with options.record.open("a", encoding="utf-8") as record:
                    record.writelines(f"{outcome.to_json()}\n" for outcome in score.outcomes)
            print(f"{score}, {(time.monotonic() - begun) / 60:.0f} min", flush=True)
            if not score.share >= options.floor:
                low.append(name)
    if low:
        sys.exit(f"below {options.floor:.0%}: {', '.join(low)}")


if __name__ == "__main__":
    main()
