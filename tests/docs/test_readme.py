"""The README shows what its commands print."""

from __future__ import annotations

import re
import runpy
import sys
import warnings
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture(name="at_the_root")
def fixture_at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines())


@pytest.mark.usefixtures("at_the_root")
def test_the_example_prints_what_stands_below_it(capsys):
    exec(compile(blocks("python")[0], "README.md", "exec"), {"__name__": "__main__"})
    assert lines(capsys.readouterr().out) == blocks("text")[0].rstrip()


@pytest.mark.usefixtures("at_the_root")
def test_the_table_on_coat_is_what_its_command_prints(shared_data, monkeypatch, capsys):
    command = ["reproductions/first_results.py", "--data", str(shared_data("coat").parent), "--only", "coat"]
    monkeypatch.setattr(sys, "argv", command)
    runpy.run_path(command[0], run_name="__main__")
    assert blocks("text")[1].rstrip() in lines(capsys.readouterr().out)


@pytest.mark.usefixtures("at_the_root")
def test_the_sample_log_is_what_its_script_writes():
    clicks = runpy.run_path("data/samples/generate.py")["clicks"]()
    assert clicks.to_csv(index=False) == (ROOT / "data/samples/clicks.csv").read_text()
