"""Measure which share of planted faults the tests find, by mutants of each layer.

    python -m tests.mutation.run                      all layers, as `nox -s mutation`
    python -m tests.mutation.run metrics --n 20       one layer, fewer mutants
    python -m tests.mutation.run --floor 0.9          exit code 1 where the score of a layer is lower
    python -m tests.mutation.run ranking --near       by the tests of the layer alone: faster, and fewer are found
    python -m tests.mutation.run --total 200 --least 8 --record faults.jsonl
                                                      200 mutants in proportion to the places of each layer, at
                                                      least 8 of each, and one line of JSON for each mutant
    python -m tests.mutation.run --again faults.jsonl --tests-of COMMIT --record before.jsonl
                                                      the mutants of that file, by the tests as they were at a
                                                      commit; tests that fail on the unchanged code are left out
    python -m tests.mutation.run --again faults.jsonl --kept-since COMMIT --record before.jsonl
                                                      the same by the tests that the commit has word for word
    python -m tests.mutation.run --again faults.jsonl --survivors --slow --near
                                                      those that no test found, by the slow tests of their layer

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
import math
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from statsmodels.stats.proportion import proportion_confint

from tests.mutation.kept_tests import list_kept
from tests.mutation.layers import LAYERS, Layer
from tests.mutation.record import Outcome, read_record, write_record
from tests.mutation.sample import Mutant, count_places, sample
from tests.mutation.trace import ALWAYS, FAR, MOST_SECONDS, SLOW_SECONDS, Trace

ROOT = Path(__file__).resolve().parents[2]
PYTEST = ("-x", "-q", "-p", "no:randomly", "-p", "no:cacheprovider", "-o", "addopts=--strict-markers")
# Imported before the forks: pytest does not rewrite it, and filters of warnings that SciPy sets are gone.
IGNORED = ("-W", "ignore::pytest.PytestAssertRewriteWarning", "-W", "ignore:the matrix subclass")
FAST = "not slow and not engines"
SLOW = "slow and not engines"
# A run of earlier tests goes on where tests fail, to know which of them pass.
ALL_TESTS = ("--maxfail=1000000", "--continue-on-collection-errors")
# Tests by engine: NumPy's, which is what is changed. Numba's call the same code around it and take longer.
ONE_ENGINE = ("-k", "not [numba and not -numba")
NO_TESTS = 5  # exit code of pytest: all of them are slow
BEFORE = ("hypothesis", "pytest", "pandas", "scipy.stats", "matplotlib.pyplot")  # once, not in forks


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
        self.failed: set[str] = set()
        self.measured = measured

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self.measured.switch_context(nodeid.partition("[")[0])
        self.seconds[nodeid.partition("[")[0]] -= sum(os.times()[:4])  # with programs that a test starts

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self.seconds[nodeid.partition("[")[0]] += sum(os.times()[:4])
        self.measured.switch_context("")

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.add(report.nodeid)


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
        return int(pytest.main([*PYTEST, *IGNORED, *ONE_ENGINE, *arguments]))
    import coverage

    measured = coverage.Coverage(data_file=None, source=[str(copy / "ipseval")], config_file=False)
    plugin = Plugin(measured)
    measured.start()
    code = int(pytest.main([*PYTEST, *IGNORED, *ONE_ENGINE, *arguments], plugins=[plugin]))
    measured.stop()
    data = measured.get_data()
    lines = {
        str(Path(path).relative_to(copy)): {
            line: {name for name in names if name in plugin.seconds}
            for line, names in data.contexts_by_lineno(path).items()
        }
        for path in data.measured_files()
    }
    trace.write_bytes(pickle.dumps((lines, dict(plugin.seconds), plugin.failed)))
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


def trace_tests(copy: Path, tests: Sequence[str], *, marks: str, may_fail: bool) -> Trace:
    """Run tests without a change, and return what they run; tests that fail may be left out from then on."""
    path = copy.parent / "trace.pickle"
    arguments = ["--doctest-modules", "-m", marks, *tests, *(f"--ignore={far_path}" for far_path in FAR)]
    if may_fail:
        arguments += ALL_TESTS
    code = forked(copy, arguments, 3600, path)
    output = (copy.parent / "output.txt").read_text(encoding="utf-8", errors="replace")
    if code not in (0, NO_TESTS) and not (may_fail and path.exists()):
        sys.exit(f"the tests do not pass without a change: exit code {code}\n{output[-3000:]}")
    if may_fail:
        print(f"without a change: {output.splitlines()[-1]}", flush=True)
    return read_trace(path, marks)


def read_trace(path: Path, marks: str) -> Trace:
    """Return the trace in a file."""
    lines, seconds, failed = pickle.loads(path.read_bytes())
    most_seconds = SLOW_SECONDS if marks == SLOW else MOST_SECONDS
    deselected = (f"--deselect={name}" for name in sorted(failed))
    return Trace(lines, seconds, ("-m", marks, *deselected), most_seconds)


def is_found(
    copy: Path,
    layer: Layer,
    path: str,
    line: int,
    code: str,
    trace: Trace,
    score: Score | None = None,
    first_test: str = "",
) -> bool:
    """Return whether a test fails, or takes too long, with a file changed; one test may be run first."""
    target = copy / path
    kept = target.with_suffix(".kept")
    shutil.copy2(target, kept)
    names = trace.list_tests(path, line, layer)
    if first_test in trace.seconds:
        names = list(dict.fromkeys([first_test, *names]))
    result: int | None = NO_TESTS
    try:
        target.write_text(code, encoding="utf-8")
        for tests in (names, trace.beside(names)):
            if tests and result in (0, NO_TESTS):
                arguments = ("--doctest-modules", *trace.options, *tests)
                result = forked(copy, arguments, 20 + 6 * trace.expected(tests))
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


def judge(
    layer: Layer, copy: Path, trace: Trace, outcomes: Sequence[Outcome], score: Score, kept: set[str]
) -> None:
    """Run tests for each mutant of a layer; where an earlier run names a test that failed, that test first.

    Where that test is among those that are kept, its failure is known, and nothing is run.
    """
    for outcome in outcomes:
        mutant = outcome.mutant
        first_test = outcome.test.partition("[")[0]
        n_too_long = score.too_long
        if first_test in kept:
            score.found += 1
            score.outcomes.append(outcome)
            continue
        if is_found(copy, layer, mutant.path, mutant.line, mutant.code, trace, score, first_test):
            score.found += 1
            failed_test = read_failed_test(copy) if score.too_long == n_too_long else ""
            score.outcomes.append(Outcome(layer.name, mutant, True, failed_test))
        else:
            score.survived.append(mutant)
            score.outcomes.append(Outcome(layer.name, mutant, False, ""))
            print(
                f"  survived  {mutant.path}:{mutant.line}\n    {mutant.before}\n    {mutant.after}",
                flush=True,
            )


def draw_mutants(layer: Layer, copy: Path, trace: Trace, n: int, seed: int) -> tuple[list[Outcome], Score]:
    """Draw a sample of the mutants of a layer, whose control must be found."""
    control(copy, layer, trace)
    print("  control found", flush=True)
    mutants, n_places, n_left_out = sample(copy, layer.paths(copy), n, seed)
    return [Outcome(layer.name, mutant, False, "") for mutant in mutants], Score(n_places, n_left_out)


def replace_tests(copy: Path, commit: str) -> None:
    """Replace the tests of a copy by those of a commit."""
    archive = copy.parent / "tests.tar"
    subprocess.run(["git", "archive", f"--output={archive}", commit, "tests"], cwd=ROOT, check=True)
    shutil.rmtree(copy / "tests")
    shutil.unpack_archive(archive, copy, filter="data")


def parse_options() -> argparse.Namespace:
    """Return the options of the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("layers", nargs="*", metavar="layer", help=", ".join(LAYERS))
    parser.add_argument("--n", type=int, default=100, help="mutants of each layer")
    parser.add_argument("--total", type=int, help="mutants of all layers, by their places; replaces --n")
    parser.add_argument("--least", type=int, default=8, help="with --total: fewest mutants of a layer")
    parser.add_argument("--record", type=Path, help="file to which a line of JSON is added for each mutant")
    parser.add_argument("--seed", type=int, default=26)
    parser.add_argument("--again", type=Path, help="record of an earlier run, whose mutants are judged again")
    parser.add_argument("--survivors", action="store_true", help="with --again: those that no test found")
    parser.add_argument("--tests-of", metavar="COMMIT", help="judge by the tests as they were at a commit")
    parser.add_argument("--kept-since", metavar="COMMIT", help="judge by the tests that a commit has, too")
    parser.add_argument(
        "--trace", type=Path, help="file of the trace: read if it is there, otherwise written"
    )
    parser.add_argument("--slow", action="store_true", help="judge by the tests that are marked slow")
    parser.add_argument("--near", action="store_true", help="judge by the tests of the layer alone")
    parser.add_argument("--floor", type=float, default=0.9)
    return parser.parse_args()


def prepare_process() -> None:
    """Set the variables of the environment and import what every fork needs."""
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    os.environ |= {"CI": "true", "MPLBACKEND": "Agg"}
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ.setdefault("IPSEVAL_DATA", str(ROOT.parent / "shared" / "data"))
    for name in BEFORE:
        if importlib.util.find_spec(name.partition(".")[0]):
            importlib.import_module(name)


def main() -> None:
    """Judge the layers one after another."""
    options = parse_options()
    prepare_process()
    low = []
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        ignored = shutil.ignore_patterns(".git", ".venv", ".nox", "__pycache__", ".*_cache", ".hypothesis")
        shutil.copytree(ROOT, copy, ignore=ignored)
        os.environ["PYTHONPATH"] = str(copy)
        layers = options.layers or list(LAYERS)
        if options.tests_of is not None:
            replace_tests(copy, options.tests_of)
        earlier_outcomes = read_record(options.again) if options.again is not None else []
        if options.survivors:
            earlier_outcomes = [outcome for outcome in earlier_outcomes if not outcome.is_found]
        if options.again is not None:
            names = {outcome.layer for outcome in earlier_outcomes}
            layers = [name for name in layers if name in names]
        sizes = dict.fromkeys(layers, options.n)
        if options.total is not None:
            sizes = share_mutants(layers, options.total, options.least)
        marks = SLOW if options.slow else FAST
        may_fail = options.tests_of is not None
        if options.trace is not None and options.trace.exists():
            trace = read_trace(options.trace, marks)
        else:
            trace = trace_tests(copy, scope(layers, near=options.near), marks=marks, may_fail=may_fail)
            if options.trace is not None:
                shutil.copy2(copy.parent / "trace.pickle", options.trace)
        kept: set[str] = set()
        if options.kept_since is not None:
            kept = list_kept(trace.seconds, options.kept_since)
            trace = trace.select(kept)
        for name in layers:
            print(name, flush=True)
            begun = time.monotonic()
            if options.again is not None:
                outcomes = [outcome for outcome in earlier_outcomes if outcome.layer == name]
                score = Score()
            else:
                outcomes, score = draw_mutants(LAYERS[name], copy, trace, sizes[name], options.seed)
            judge(LAYERS[name], copy, trace, outcomes, score, kept)
            if options.record is not None:
                write_record(options.record, score.outcomes)
            print(f"{score}, {(time.monotonic() - begun) / 60:.0f} min", flush=True)
            if not score.share >= options.floor:
                low.append(name)
    if low:
        sys.exit(f"below {options.floor:.0%}: {', '.join(low)}")


if __name__ == "__main__":
    main()
