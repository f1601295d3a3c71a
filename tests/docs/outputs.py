"""What the Python blocks of the pages print, compared by the tests and written into the pages.

python -m tests.docs.outputs --write                 writes the output of every block below it, in about four minutes
python -m tests.docs.outputs --write propensity.md   the same for the pages that are named; README.md is a page, too

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
from functools import partial
from pathlib import Path

import ipseval
from ipseval.cli import main
from reproductions.tables import data_folder
from tests.docs.cookbook_files import write_files

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(python|sh)\n(.*?)^```\n(?:\n```text\n(.*?)^```\n)?", re.MULTILINE | re.DOTALL)
PAGES = (
    "coming-from.md",
    "complete-logs.md",
    "correction.md",
    "correction-other-data.md",
    "doubly-robust.md",
    "exposure-logs.md",
    "how-the-verdict-is-made.md",
    "impression-weights.md",
    "logged-probabilities.md",
    "off-policy.md",
    "propensity.md",
    "protocols.md",
    "random-positions.md",
    "reading-a-result.md",
    "sampled.md",
    "uncertainty.md",
)
MIXED_PAGES = ("index.md", "json.md", "statement.md")
ENGINES = ("dask", "pyspark", "duckdb")


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


def replace_outputs(text: str, run: Callable[[str, str], str | None], *, share_names: bool = True) -> str:
    """Return a page with the output of each block that has one: `run` takes the kind and the block.

    Where `run` returns None, the output stays. Where blocks do not share their names, a block without an output
    is not run.
    """

    def format_block(match: re.Match[str]) -> str:
        kind, block, shown = match.groups()
        if shown is None and (kind == "sh" or not share_names):
            return match[0]
        printed = run(kind, block)
        if shown is None or printed is None:
            return match[0]
        if strip_lines(printed) == strip_lines(shown):
            return match[0]
        return f"```{kind}\n{block}```\n\n```text\n{printed.rstrip()}\n```\n"

    return BLOCK.sub(format_block, text)


def write_page(page: str) -> None:
    """Write the output of the Python blocks of a page, which share their names."""
    names: dict[str, object] = {}
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
    """Write the output of the examples with Dask, Spark and DuckDB, where these are installed and Spark starts."""
    if any(importlib.util.find_spec(name) is None for name in ENGINES):
        print(f"performance.md is left as it is: it needs {', '.join(ENGINES)}")
        return
    import dask

    os.environ["PYSPARK_PYTHON"] = (
        sys.executable
    )  # of the workers, which otherwise take the first on the PATH
    names: dict[str, object] = {}
    path = DOCS / "performance.md"

    def run(kind: str, block: str) -> str | None:
        if kind != "python" or starts_a_cluster(block):
            return ""
        try:
            return print_block(block, names)
        except Exception as error:  # Java or a port may be missing
            if not starts_spark(block):
                raise
            reason = str(error).strip().partition("\n")[0]
            print(f"performance.md: the output of the block with Spark is left as it is: {reason}")
            return None

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


def write_readme() -> None:
    """Write the outputs of the README, and of the first example on reading a result, from MovieLens 100K."""
    log = data_folder() / "ml-100k" / "u.data"
    if not log.exists():
        print(f"README.md is left as it is: there is no {log}")
        return
    Path("u.data").symlink_to(log)
    path = ROOT / "README.md"
    text = path.read_text("utf-8").replace("```output\n", "```text\n")
    page = replace_outputs(text, lambda kind, block: print_block(block, {}), share_names=False)
    path.write_text(page.replace("```text\n", "```output\n"), "utf-8")

    path = DOCS / "reading-a-result.md"
    text = path.read_text("utf-8")
    (shown,) = re.findall(r"```output\n(.*?)```", text, re.DOTALL)
    path.write_text(text.replace(f"output\n{shown}", f"output\n{print_default_result(log)}\n"), "utf-8")


def print_default_result(log: Path) -> str:
    """Return what is printed for two recommenders on MovieLens 100K without further arguments."""
    split = ipseval.split_random(ipseval.read(log, threshold=4), test_fraction=0.2, rng=0)
    models = {
        "EASE": ipseval.baselines.ease(split.train),
        "item-kNN": ipseval.baselines.item_knn(split.train),
    }
    return strip_lines(str(ipseval.evaluate(models, split)))


def list_writers() -> dict[str, Callable[[], None]]:
    """Return the function that writes the outputs of each page, by the name of its file."""
    writers: dict[str, Callable[[], None]] = {page: partial(write_page, page) for page in PAGES}
    for page in MIXED_PAGES:
        writers[page] = partial(write_mixed_page, page)
    return writers | {
        "adapters.md": write_adapters,
        "cookbook.md": write_cookbook,
        "regression-tests.md": write_gate,
        "performance.md": write_performance,
        "README.md": write_readme,
    }


def write(pages: list[str]) -> None:
    """Write the outputs of pages, each in an empty folder with the log of the demonstration."""
    writers = list_writers()
    home = Path.cwd()
    for page in pages or list(writers):
        with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.chdir(folder)
            if page in MIXED_PAGES:
                with contextlib.redirect_stdout(io.StringIO()):
                    assert main(["demo", "--log", "clicks.csv", "--quiet"]) == 0
            writers[page]()
            os.chdir(home)


def parse_pages(arguments: list[str]) -> list[str]:
    """Return the names of the pages that the command line lists, or exit with the names that there are."""
    names = [Path(argument).name for argument in arguments[1:]]
    known = sorted(list_writers())
    unknown = [name for name in names if name not in known]
    if arguments[:1] != ["--write"] or unknown:
        for name in unknown:
            print(f"{name} has no outputs that this command writes.", file=sys.stderr)
        raise SystemExit(f"usage: python -m tests.docs.outputs --write [PAGE …], of {', '.join(known)}")
    return names


if __name__ == "__main__":
    write(parse_pages(sys.argv[1:]))
