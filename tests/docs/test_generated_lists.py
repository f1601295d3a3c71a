"""The page on generated lists: every block prints the output below it."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "generated-lists.md").read_text("utf-8")
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)


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
        exec(compile(block, "generated-lists.md", "exec"), names)
        printed = capsys.readouterr().out
    assert n_outputs == 6
