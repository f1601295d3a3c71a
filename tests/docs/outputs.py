"""What the Python blocks of the pages print, compared by the tests and written into the pages.

python -m tests.docs.outputs --write    writes the output of every block below it

`python -m tests.docs.test_tutorial --write` does the same for the tutorial.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import re
import shlex
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd

import ipseval
from ipseval.cli import main
from reproductions.tables import data_folder
from tests.docs.cookbook_files import write_files

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
PAGES = (
    "coming-from.md",
    "correction.md",
    "exposure-logs.md",
    "how-the-verdict-is-made.md",
    "impression-weights.md",
    "off-policy.md",
    "propensity.md",
    "protocols.md",
    "reading-a-result.md",
    "sampled.md",
    "uncertainty.md",
)
MIXED_PAGES = ("index.md", "json.md", "statement.md")
ENGINES = ("dask", "pyspark", "duckdb")


def exploration_names() -> dict[str, object]:
    """Return the log of the page on the correction in which some positions are random."""
    rng = np.random.default_rng(3)
    shown = {"user": np.repeat(np.arange(200), 10), "item": np.tile(np.arange(10), 200)}
    frame = pd.DataFrame(shown | {"slot": rng.choice(["random", "ranked"], 2000)})
    return {
        "frame": frame,
        "log": ipseval.ImpressionLog.from_frame(frame.assign(clicked=rng.random(2000) < 0.3)),
    }


def strip_lines(text: str) -> str:
    """Return a text without blanks at the ends of lines and blank lines at both ends."""
    return "\n".join(line.rstrip() for line in text.splitlines()).strip()


def print_block(block: str, names: dict[str, object]) -> str:
    """Run a Python block, and return what it prints."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        exec(compile(block, "page", "exec"), names)
    return output.getvalue()


def print_commands(block: str) -> str:
    """Run the commands of a block, and return what the last one prints."""
    printed = ""
    for line in block.replace("\\\n", " ").splitlines():
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            assert main(shlex.split(line)[1:]) == 0, line
        printed = output.getvalue()
    return printed


def replace_outputs(text: str, run: Callable[[str, str], str], *, share_names: bool = True) -> str:
    """Return a page with the output of each block that has one: `run` takes the kind and the block.

    Where blocks do not share their names, a block without an output is not run.
    """

    def format_block(match: re.Match[str]) -> str:
        kind, block, shown = match.groups()
        if shown is None and (kind == "sh" or not share_names):
            return match[0]
        printed = run(kind, block)
        if shown is None:
            return match[0]
        if strip_lines(printed) == strip_lines(shown):
            return match[0]
        return f"```{kind}\n{block}```\n\n```text\n{printed.rstrip()}\n```\n"

    return BLOCK.sub(format_block, text)


def write_page(page: str) -> None:
    """Write the output of the Python blocks of a page, which share their names."""
    names = exploration_names() if page == "correction.md" else {}
    path = DOCS / page
    text = path.read_text("utf-8")

    def run(kind: str, block: str) -> str:
        return print_block(block, names) if kind == "python" else ""

    # The later blocks of the page on other libraries need these libraries, and print nothing.
    first, heading, rest = text.partition("## implicit\n")
    path.write_text(f"{replace_outputs(first, run)}{heading}{rest}", "utf-8")


def write_mixed_page(page: str) -> None:
    """Write the output of the Python blocks and of the shell blocks of a page, which share names and files."""
    names: dict[str, object] = {}
    path = DOCS / page

    def run(kind: str, block: str) -> str:
        if "load_coat" in block:  # the page shows how to load a data set that the reader has
            return ""
        return print_block(block, names) if kind == "python" else print_commands(block)

    path.write_text(replace_outputs(path.read_text("utf-8"), run), "utf-8")


def write_adapters() -> None:
    """Write the output of the example with several models, which continues that of implicit."""
    if importlib.util.find_spec("implicit") is None:
        print("adapters.md is left as it is: it needs implicit")
        return
    path = DOCS / "adapters.md"
    names: dict[str, object] = {}
    Path("coat").symlink_to(data_folder() / "coat")

    def run(kind: str, block: str) -> str:
        return print_block(block, names) if kind == "python" else ""

    text = path.read_text("utf-8")
    heading = re.escape("## Several models and the printed result")
    first, other_libraries, example, rest = re.split(
        rf"(?=^### cornac)|(?=^{heading})|(?=^## Metrics inside)", text, flags=re.MULTILINE
    )
    replace_outputs(first, run)
    path.write_text(first + other_libraries + replace_outputs(example, run) + rest, "utf-8")


def write_cookbook() -> None:
    """Write the output of every recipe, each of which has its own names."""
    path = DOCS / "cookbook.md"
    write_files(Path())
    text = path.read_text("utf-8")
    page = replace_outputs(text, lambda kind, block: print_block(block, {}), share_names=False)
    path.write_text(page, "utf-8")


def write_performance() -> None:
    """Write the output of the examples with Dask, Spark and DuckDB, where these are installed."""
    if any(importlib.util.find_spec(name) is None for name in ENGINES):
        print(f"performance.md is left as it is: it needs {', '.join(ENGINES)}")
        return
    import dask

    names: dict[str, object] = {}
    path = DOCS / "performance.md"

    def run(kind: str, block: str) -> str:
        return print_block(block, names) if kind == "python" and not starts_a_cluster(block) else ""

    with dask.config.set(scheduler="synchronous"):
        path.write_text(replace_outputs(path.read_text("utf-8"), run), "utf-8")


def starts_a_cluster(block: str) -> bool:
    """Return whether a block shows how to start a cluster of a certain size, which the tests do otherwise."""
    return "LocalCluster" in block or "local[" in block


def starts_spark(block: str) -> bool:
    """Return whether a block needs Spark, or starts a cluster of a certain size."""
    return "SparkSession" in block or starts_a_cluster(block)


def write_gate() -> None:
    """Write the output of the example on the page on gates."""
    path = DOCS / "regression-tests.md"
    assert main(["demo", "--log", "clicks.csv", "--quiet"]) == 0
    before, heading, after = path.read_text("utf-8").partition("## What the gate prints\n")
    example, next_heading, rest = after.partition("## What the gate decides\n")
    example = replace_outputs(example, lambda kind, block: print_commands(block))
    path.write_text(f"{before}{heading}{example}{next_heading}{rest}", "utf-8")


def write() -> None:
    """Write the outputs of all pages, in an empty folder."""
    home = Path.cwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        for page in PAGES:
            write_page(page)
        assert main(["demo", "--log", "clicks.csv", "--quiet"]) == 0
        for page in MIXED_PAGES:
            write_mixed_page(page)
        write_adapters()
        write_cookbook()
        write_gate()
        write_performance()
        os.chdir(home)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit("usage: python -m tests.docs.outputs --write")
    write()
