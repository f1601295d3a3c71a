"""The page on statements: every block prints the output below it, whatever the versions of the machine."""

from __future__ import annotations

import re
import shlex

import pytest

from ipseval.cli import main
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "statement.md").read_text("utf-8")
BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
VERSIONS = re.compile(r"(Versions of the evaluation software: ).*")


def hide_versions(text: str) -> str:
    return VERSIONS.sub(r"\1…", text).rstrip("\n")


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_block_prints_the_output_below_it(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = ""
    n_outputs = 0
    for kind, block in BLOCK.findall(PAGE):
        if kind == "text":
            assert hide_versions(block) == hide_versions(printed)
            n_outputs += 1
            continue
        capsys.readouterr()
        if kind == "python":
            exec(compile(block, "statement.md", "exec"), names)
        else:
            assert main(shlex.split(block)[1:]) == 0
        printed = capsys.readouterr().out
    assert n_outputs == 1
