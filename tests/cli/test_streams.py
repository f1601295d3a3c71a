"""Standard output that cannot be written ends a command with one line and exit code 2."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ipseval.cli import main

pytestmark = pytest.mark.skipif(
    not Path("/dev/full").exists(), reason="there is no device that is always full"
)

LOG = "user,item\n" + "".join(f"{user},{(user + step) % 7}\n" for user in range(20) for step in range(4))
COMMANDS = ("--help", "evaluate log.csv --model popularity --quiet", "doctor")
LIST = "evaluate --list-metrics"
FULL = "ipseval: error: standard output must be writable; No space left on device. Use --out FILE."


@pytest.fixture
def full():
    """A device without space; text that is still buffered at its end would raise an error."""
    with open("/dev/full", "w") as stream:
        yield stream


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run a command in this process, with a standard output."""
    (tmp_path / "log.csv").write_text(LOG)
    monkeypatch.chdir(tmp_path)

    def run_with(command: str, stdout: io.TextIOBase) -> int:
        monkeypatch.setattr(sys, "stdout", stdout)
        try:
            return main(command.split())
        except SystemExit as end:
            return end.code

    return run_with


def run_process(stdout: object, stderr: object) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "ipseval", *LIST.split()], stdout=stdout, stderr=stderr, text=True
    )
    return done.returncode, done.stderr or ""


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_device_is_one_line_and_exit_code_2(command, run, full, capsys):
    assert run(command, full) == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if "Warning" not in line]
    assert lines == [FULL]


def test_a_full_device_without_buffering_and_full_standard_error(run, full, capsys, monkeypatch):
    with open("/dev/full", "wb", buffering=0) as device:
        assert run(LIST, io.TextIOWrapper(device, write_through=True)) == 2
    assert capsys.readouterr().err == f"{FULL}\n"
    monkeypatch.setattr(sys, "stderr", full)
    assert run("evaluate missing.csv", io.StringIO()) == 2


@pytest.mark.slow  # above, the same in this process
def test_a_process_ends_with_exit_code_2_where_both_streams_are_full(full):
    assert run_process(full, full) == (2, "")


@pytest.fixture
def closed_pipe():
    """A pipe from which nobody reads."""
    reading, writing = os.pipe()
    os.close(reading)
    with open(writing, "w") as pipe:
        yield pipe


def test_a_reader_that_stops_gets_exit_code_141_and_no_line(run, capsys, closed_pipe):
    assert run("--help", closed_pipe) == 141
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_a_process_ends_with_exit_code_141_where_the_reader_stops(closed_pipe):
    assert run_process(closed_pipe, subprocess.PIPE) == (141, "")
