"""Execute notebooks from a clean kernel, in place, and keep their outputs.

    python notebooks/run.py [--data PATH] [--check] [NAME …]

NAME is the beginning of a file name, such as 03; default: all. PATH is the folder with `coat/` and `citeulike-a/`
(see data/README.md), also read from IPSEVAL_DATA; a simulated log is used for what is not there. With --check
nothing is written. Needs nbclient and ipykernel. Time stamps and paths of the machine do not stay in the file.
"""

from __future__ import annotations

import argparse
import os
import re
import time
from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parent
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
# A warning begins with the file and line that raised it; below its text comes that line of code, indented.
WARNING = re.compile(r"^\S*?[/\\]\S+?:\d+: (?=\w+Warning: )", flags=re.MULTILINE)


def execute(path: Path, *, timeout: int = 600) -> nbformat.NotebookNode:
    """Return the notebook with the outputs of a new kernel; an error in a cell is raised."""
    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=timeout,
        record_timing=False,
        resources={"metadata": {"path": str(path.parent)}},
    ).execute()
    return clean(notebook)


def clean(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Return the notebook without what differs between machines and runs."""
    notebook.metadata = nbformat.from_dict({"kernelspec": KERNEL, "language_info": {"name": "python"}})
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
        cell.metadata = nbformat.from_dict({})
        for output in cell.get("outputs", []):
            if output.get("name") == "stderr":
                lines = WARNING.sub("", output.text).splitlines(keepends=True)
                output.text = "".join(line for line in lines if not line.startswith("  "))
    return notebook


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    if options.data:
        os.environ["IPSEVAL_DATA"] = str(options.data.resolve())
    for path in sorted(FOLDER.glob("*.ipynb")):
        if options.names and not path.name.startswith(tuple(options.names)):
            continue
        start = time.perf_counter()
        notebook = execute(path)
        if not options.check:
            nbformat.write(notebook, path)
        print(f"{path.name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
