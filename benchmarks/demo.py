"""Processor time, first byte, picture and exit code of `ipseval demo`, in the ways it may be called.

Run: ``python benchmarks/demo.py``. Each call is a fresh process, in an empty folder: as it is, without
matplotlib, on a terminal, with a reader of one line, with a page.
"""

from __future__ import annotations

import os
import pty
import resource
import select
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DEMO = f'"{sys.executable}" -m ipseval demo'
WITHOUT = (
    "import sys; sys.modules['matplotlib'] = None; sys.modules['matplotlib.figure'] = None\n"
    "import ipseval.cli._studies as demo; demo.find_spec = lambda name: None\n"
    "from ipseval.cli import main; sys.exit(main(['demo']))"
)
CALLS = {
    "as it is": DEMO,
    "without matplotlib": f'"{sys.executable}" -c "{WITHOUT}"',
    "with a page": f"{DEMO} --html demo.html",
    "| head -1": f"{DEMO} | head -1; exit ${{PIPESTATUS[0]}}",
}


def run(command: str, folder: Path) -> tuple[float, float, int, bytes]:
    """Return processor time, seconds to the first byte, exit code, and what was said on a terminal."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (24, 80))
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    process = subprocess.Popen(
        ["bash", "-c", command], cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=theirs
    )
    os.close(theirs)
    said, first = b"", float("nan")
    while True:
        select.select([ours], [], [])
        try:
            part = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        first = first if said else time.perf_counter() - start
        said += part
    code = process.wait()
    os.close(ours)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, first, code, said


def main() -> None:
    print(f"{'call':<20}{'processor s':>12}{'first byte s':>14}{'exit code':>11}  bar  picture")
    for name, command in CALLS.items():
        with tempfile.TemporaryDirectory() as folder:
            seconds, first, code, said = run(command, Path(folder))
            pictures = ", ".join(sorted(one.name for one in Path(folder).iterdir()))
            bar = "yes" if b"%" in said else "no"
            print(f"{name:<20}{seconds:>12.1f}{first:>14.2f}{code:>11}  {bar:<3}  {pictures}", flush=True)


if __name__ == "__main__":
    main()
