"""Pages on one subject: every block prints the output below it, whatever the versions of the machine."""

from __future__ import annotations

import re
import shlex

import pytest

from ipseval.cli import main
from tests.conftest import ROOT

N_OUTPUTS = {"designed-exposure.md": 8, "generated-lists.md": 6, "statement.md": 1}
BLOCK = re.compile(r"^```(sh|python|text)\n(.*?)^```", re.MULTILINE | re.DOTALL)
VERSIONS = re.compile(r"(Versions of the evaluation software: ).*")


def hide_versions(text: str) -> str:
    return VERSIONS.sub(r"\1…", text).rstrip("\n")


def run_block(page: str, kind: str, block: str, names: dict[str, object]) -> None:
    """Run one block; a line of shell is one command of ipseval."""
    if kind == "python":
        exec(compile(block, page, "exec"), names)
        return
    for line in block.replace("\\\n", " ").splitlines():
        words = shlex.split(line)
        assert words[0] == "ipseval"
        assert main(words[1:]) == 0, line


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("page", N_OUTPUTS)
def test_every_block_prints_the_output_below_it(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    printed = ""
    n_outputs = 0
    for kind, block in BLOCK.findall((ROOT / "docs" / page).read_text("utf-8")):
        if kind == "text":
            assert hide_versions(block) == hide_versions(printed)
            n_outputs += 1
            continue
        capsys.readouterr()
        run_block(page, kind, block, names)
        printed = capsys.readouterr().out
    assert n_outputs == N_OUTPUTS[page]
