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
    assert len(quotations) == 4
    tutorial = PAGE.read_text("utf-8")
    assert [quotation for quotation in quotations if quotation not in tutorial] == []


def test_the_tutorial_states_the_true_values_of_the_simulation():
    world, demo_split = build_demo_world()
    log = ipseval.read(merge_demo_log(demo_split), users=range(3000), items=range(1000))
    split = ipseval.split_random(log, test_fraction=0.2, rng=0)
    models = {
        "popularity": ipseval.baselines.popularity(split.train),
        "ease": ipseval.baselines.ease(split.train),
    }
    popularity, ease = world.truth(models, ["recall@10"], split)["ideal"]
    text = " ".join(PAGE.read_text("utf-8").split())
    assert f"the true recall@10 of *popularity* is {popularity:.3f}." in text
    errors = f"AOA (0.524) is too high by {0.524 - popularity:.3f}, and SNIPS with γ = 0 (0.160) only by"
    assert f"{errors} {0.16 - popularity:.3f}." in text
    assert f"the true difference of the two recommenders is {abs(ease - popularity):.4f}." in text
    assert f"{split.test.activity[split.test.activity > 0].mean():.1f} on average" in text


def test_the_page_on_complete_logs_states_how_complete_the_log_of_the_tutorial_is():
    world, _ = build_demo_world()
    in_file = 1 - (1 - world.propensity.item) ** 2  # the file joins two logs
    text = " ".join((PAGE.parent / "complete-logs.md").read_text("utf-8").split())
    assert f"contains the most popular item for {in_file.max():.0%} of the users who like it" in text


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
