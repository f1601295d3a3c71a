"""The page on designed exposure: every block prints the output below it."""

from __future__ import annotations

import re
import shlex

import pytest

from ipseval.cli import main
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "designed-exposure.md").read_text("utf-8")
BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def run_block(kind: str, block: str, names: dict[str, object]) -> None:
    """Run one block; a line of shell is one command of ipseval."""
    if kind == "python":
        exec(compile(block, "designed-exposure.md", "exec"), names)
        return
    for line in block.splitlines():
        words = shlex.split(line)
        assert words[0] == "ipseval"
        assert main(words[1:]) == 0, line


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_block_prints_the_output_below_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = ""
    n_outputs = 0
    for kind, block in BLOCK.findall(PAGE):
        if kind == "text":
            assert block.rstrip("\n") == printed.rstrip("\n")
            n_outputs += 1
            continue
        capsys.readouterr()
        run_block(kind, block, names)
        printed = capsys.readouterr().out
    assert n_outputs == 7
