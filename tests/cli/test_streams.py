"""Standard output that cannot be written ends a command with one line and exit code 2."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="there is no device that is always full"
)

LOG = "user,item\n" + "".join(f"{user},{(user + step) % 7}\n" for user in range(20) for step in range(4))
COMMANDS = ("--help", "evaluate log.csv --model popularity --quiet", "doctor")


def run(command: str, folder: Path, *, buffered: bool = True, **streams: object) -> tuple[int, str]:
    (folder / "log.csv").write_text(LOG)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    if not buffered:
        environment["PYTHONUNBUFFERED"] = "1"
    call = [sys.executable, "-m", "ipseval", *command.split()]
    options = {"stderr": subprocess.PIPE, **streams}
    done = subprocess.run(call, cwd=folder, env=environment, text=True, timeout=120, check=False, **options)
    return done.returncode, done.stderr or ""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_device_is_one_line_and_exit_code_2(command, tmp_path):
    with open("/dev/full", "w") as full:
        code, errors = run(command, tmp_path, stdout=full)
    assert code == 2
    lines = [line for line in errors.splitlines() if "Warning" not in line]
    assert lines == [
        "ipseval: error: standard output must be writable; No space left on device. Use --out FILE."
    ]


def test_a_full_device_without_buffering_and_full_standard_error(tmp_path):
    with open("/dev/full", "w") as full:
        code, errors = run("evaluate --list-metrics", tmp_path, buffered=False, stdout=full)
        assert (code, errors.count("\n")) == (2, 1)
        assert run("evaluate --list-metrics", tmp_path, stdout=full, stderr=full) == (2, "")
        assert run("evaluate missing.csv", tmp_path, stdout=subprocess.DEVNULL, stderr=full) == (2, "")


def test_a_reader_that_stops_gets_exit_code_141_and_no_line(tmp_path):
    reading, writing = os.pipe()
    os.close(reading)
    try:
        assert run("evaluate --list-metrics", tmp_path, stdout=writing) == (141, "")
        assert run("--help", tmp_path, stdout=writing) == (141, "")
    finally:
        os.close(writing)
