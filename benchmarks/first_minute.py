"""From `pip install` to the first own result, in a new virtual environment: seconds of each step.

    python benchmarks/first_minute.py [--source FOLDER_OR_WHEEL]

The log is data/samples/clicks.csv. The first evaluation compiles files of Python; the second finds them. On a
busy machine the processor time, of a step and its children, says more than the clock.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def step(name: str, *command: str | Path, folder: Path) -> tuple[float, float]:
    """Run a command; print and return its seconds by the clock and of the processor."""
    environment = {key: text for key, text in os.environ.items() if key not in ("PYTHONPATH", "PYTHONHOME")}
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(list(map(str, command)), cwd=folder, env=environment, check=True, capture_output=True)
    wall, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(f"{name:32s} {wall:6.1f} s   processor {spent:6.1f} s", flush=True)
    return wall, spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--source", type=Path, default=ROOT)
    source = parser.parse_args().source.resolve()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        (folder / "clicks.csv").write_bytes((ROOT / "data/samples/clicks.csv").read_bytes())
        step("virtual environment", sys.executable, "-m", "venv", "venv", folder=folder)
        program = folder / "venv/bin"
        installed = step("pip install", program / "pip", "install", "--quiet", source, folder=folder)
        evaluate = (program / "ipseval", "evaluate", "clicks.csv", "--gamma", "0")
        first = step("first evaluation", *evaluate, folder=folder)
        step("second evaluation", *evaluate, folder=folder)
        both = [one + other for one, other in zip(installed, first, strict=True)]
        print(f"{'install and first result':32s} {both[0]:6.1f} s   processor {both[1]:6.1f} s")


if __name__ == "__main__":
    main()
