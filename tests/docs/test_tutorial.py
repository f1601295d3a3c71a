"""Every block of the tutorial runs in order and prints the text below it.

python -m tests.docs.test_tutorial --write    writes what the blocks print into the page
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
import tempfile
import warnings
from pathlib import Path

import pytest

import ipseval
from ipseval.cli import main
from ipseval.cli._demo_world import build_demo_world, merge_demo_log

PAGE = Path(__file__).resolve().parents[2] / "docs" / "tutorial.md"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)


def run_blocks() -> list[str]:
    """Run the blocks of the page in the working folder, and return what each prints to standard output."""
    texts = []
    names: dict[str, object] = {}
    for kind, block, _ in BLOCK.findall(PAGE.read_text("utf-8")):
        output = io.StringIO()
        with contextlib.redirect_stdout(output), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if kind == "python":
                exec(compile(block, PAGE.name, "exec"), names)
            else:
                words = shlex.split(block.replace("\\\n", " "))
                assert words[0] == "ipseval"
                assert main(words[1:]) == 0, block
        texts.append(remove_trailing_blanks(output.getvalue()))
    return texts


def remove_trailing_blanks(text: str) -> str:
    """Return a text without blanks at the ends of lines and without blank lines at its end."""
    return "\n".join(line.rstrip() for line in text.rstrip().splitlines())


@pytest.mark.slow
def test_every_block_of_the_tutorial_prints_the_text_below_it(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    monkeypatch.chdir(tmp_path)
    shown = [text.rstrip() for _, _, text in BLOCK.findall(PAGE.read_text("utf-8"))]
    assert run_blocks() == shown
    assert "<title>Evaluation of recommenders" in (tmp_path / "mine.html").read_text("utf-8")
    assert (tmp_path / "page.html").exists()


def test_the_page_on_reading_a_result_explains_the_lines_of_the_tutorial():
    page = (PAGE.parent / "reading-a-result.md").read_text("utf-8")
    text = page.split("## A verdict that names a winner")[0]
    quotations = re.findall(r"^```text\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert len(quotations) == 5
    tutorial = PAGE.read_text("utf-8")
    assert [quotation for quotation in quotations if quotation not in tutorial] == []


def test_the_tutorial_explains_why_the_assumed_weights_are_not_the_true_ones():
    world, demo_split = build_demo_world()
    log = ipseval.read(merge_demo_log(demo_split), users=range(3000), items=range(1000))
    split = ipseval.split_random(log, test_fraction=0.2, rng=0)
    in_file = 1 - (1 - world.propensity.item) ** 2
    held_out = 0.2 * in_file / (1 - 0.8 * in_file)
    popularity = split.train.popularity + 1  # smoothed
    assumed_ratio = (popularity.max() / popularity.min()) ** 0.5
    share = len(log) / world.n_relevant.sum()

    text = " ".join(PAGE.read_text("utf-8").split())
    for sentence in (
        f"contains the most popular item for {in_file.max():.0%} of the users who like it",
        f"the largest true weight is {held_out.max() / held_out.min():.0f} times the smallest,",
        f"with γ = 0 it is only {assumed_ratio:.0f} times.",
        f"the log contains (here {share:.0%})",
    ):
        assert sentence in text


def write_page() -> None:
    """Replace the text below each block by what the block prints."""
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        texts = iter(run_blocks())
        os.chdir(PAGE.parent)

    def format_block(match: re.Match[str]) -> str:
        text = next(texts)
        source = f"```{match[1]}\n{match[2]}```\n"
        if not text:
            return source
        return f"{source}\n```text\n{text}\n```\n"

    PAGE.write_text(BLOCK.sub(format_block, PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit("usage: python -m tests.docs.test_tutorial --write")
    write_page()
