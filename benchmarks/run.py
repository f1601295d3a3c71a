"""All benchmarks, in one file with versions and hardware; or two commits in alternation.

    python benchmarks/run.py                                # every script once, into build/benchmarks.md
    python benchmarks/run.py segments.py "ties.py --users 1000"
    python benchmarks/run.py --against main                 # what got slower: small sizes, in five minutes
    python benchmarks/run.py ties.py --against main --repeats 5

With `--against` each script runs in this tree and in a fresh checkout of the other commit, in turn. The ratio
of processor time (of the process and its children) is the median over the pairs of runs, with the least and
the largest beside it; slower is what is so in every pair. A first run of both compiles, and is not counted.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import shlex
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from page import describe_processor, installed_version

ROOT = Path(__file__).resolve().parents[1]
SCRIPTS = (  # each makes a table of docs/performance.md
    "evaluate.py",
    "ties.py",
    "segments.py",
    "doubly_robust.py",
    "validation.py",
    "correction.py",
    "reading.py",
    "large_catalogue.py",
    "large_log.py",
    "out_of_core.py",
    "distributed_lists.py --engine dask --positives 1000000 --partitions 16",
)
SMALL = (  # what is run against another commit unless scripts are named
    "evaluate.py --cases W1 --no-libraries --repeats 1",
    "ties.py --users 100 --items 5000 --repeats 1",
    "reading.py --rows 1000000 --repeats 1",
)
PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "polars", "numba", "threadpoolctl")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("scripts", nargs="*", help="with their options; default: all, or small ones")
    parser.add_argument("--against", metavar="REV", help="a commit to compare with")
    parser.add_argument("--repeats", type=int, default=3, help="pairs of runs, with --against; default: 3")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "benchmarks.md")
    options = parser.parse_args()
    parts = [header(options.against)]
    print(parts[0], flush=True)
    if options.against is None:
        for script in options.scripts or SCRIPTS:
            parts.append(f"## {script}\n\n```text\n{run(ROOT, script)[1].strip()}\n```\n")
            print(parts[-1], flush=True)
    else:
        parts.append(against(options.against, options.scripts or SMALL, options.repeats))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text("\n".join(parts), encoding="utf-8")


def header(other: str | None) -> str:
    """Return what the figures depend on, as Markdown."""
    rows = {"commit": commit(ROOT, "HEAD")}
    if other is not None:
        rows["against"] = commit(ROOT, other)
    rows |= {"processor": describe_processor(), "cores": str(os.cpu_count()), "system": platform.platform()}
    rows["memory"] = f"{os.sysconf('SC_PHYS_PAGES') * os.sysconf('SC_PAGE_SIZE') / 2**30:.0f} GiB"
    rows["python"] = platform.python_version()
    rows |= {name: installed_version(name) for name in PACKAGES}
    lines = [f"| {name} | {value} |" for name, value in rows.items()]
    return "\n".join(["# Benchmarks", "", "| what | value |", "|---|---|", *lines, ""])


def against(rev: str, scripts: Sequence[str], repeats: int) -> str:
    """Return a table of processor times of both commits; the two are run in turn."""
    lines = ["| script | this, s | other, s | this / other | from | to | |", "|---|---|---|---|---|---|---|"]
    print(*lines, sep="\n", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        git("worktree", "add", "--detach", str(other), rev)
        try:
            for script in scripts:
                lines.append(compared(script, other, repeats))
                print(lines[-1], flush=True)
        finally:
            git("worktree", "remove", "--force", str(other))
    return "\n".join([*lines, ""])


def compared(script: str, other: Path, repeats: int) -> str:
    """Return the row of a script, which both trees run in turn."""
    seconds: dict[Path, list[float]] = {ROOT: [], other: []}
    for repeat in range(repeats + 1):
        for tree in (ROOT, other) if repeat % 2 else (other, ROOT):
            try:
                seconds[tree].append(run(tree, script)[0])
            except SystemExit as error:  # such as a name that the other commit does not have
                return f"| {script} | | | | | | {str(error).splitlines()[-1]} |"
    mine, theirs = (values[1:] for values in seconds.values())
    ratios = [one / two for one, two in zip(mine, theirs, strict=True)]
    verdict = "slower" if min(ratios) > 1.05 else "faster" if max(ratios) < 0.95 else ""
    figures = (*(statistics.median(one) for one in (mine, theirs, ratios)), min(ratios), max(ratios))
    return f"| {script} | {' | '.join(f'{one:.2f}' for one in figures)} | {verdict} |"


def run(tree: Path, script: str) -> tuple[float, str]:
    """Return the processor time of a script of this tree on the library of `tree`, and what it printed."""
    name, *arguments = shlex.split(script)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / name), *arguments],
        cwd=tree,
        env=os.environ | {"PYTHONPATH": str(tree)},
        capture_output=True,
        text=True,
        check=False,
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode:
        raise SystemExit(f"{script} failed in {tree}:\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def commit(tree: Path, rev: str) -> str:
    changed = " and changes" if rev == "HEAD" and git("status", "--porcelain", tree=tree) else ""
    return git("log", "-1", "--format=%h %cs", rev, tree=tree) + changed


def git(*arguments: str, tree: Path = ROOT) -> str:
    done = subprocess.run(["git", *arguments], cwd=tree, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"git {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout.strip()


if __name__ == "__main__":
    main()
