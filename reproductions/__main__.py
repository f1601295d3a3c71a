"""Make all tables of the reproductions again, and their notebooks, piece by piece; go on where it stopped.

    pip install -e ".[reproductions]"
    python -m reproductions --data PATH [--only PIECE …] [--list]

A piece that this commit has made is not made again; --list says which commit made each. What is slow is kept
in .cache/reproductions. Each page says which commit and versions made its tables.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from reproductions.tables import commit

HERE = Path(__file__).resolve().parent
NOTEBOOKS = HERE.parent / "notebooks" / "reproductions"
CACHE = HERE.parent / ".cache" / "reproductions"
DONE = CACHE / "done.json"
DATA = ("--data", "{data}")
# Piece -> (scripts with their arguments, each of which fills its tables; notebook or "").
PIECES: dict[str, tuple[tuple[tuple[str, ...], ...], str]] = {
    "sampled": ((("sampled",),), "21_sampled_metrics.ipynb"),
    "citeulike": (
        (("citeulike", *DATA), ("snapshots", *DATA), ("sampled_trained", *DATA)), "22_citeulike.ipynb",
    ),
    "coat": ((("coat", *DATA),), "23_random_exposure.ipynb"),
    "ratings": ((("ratings", *DATA), ("learning", *DATA)), "24_ratings.ipynb"),
    "exposure": ((("random_exposure", *DATA),), ""),
    "cm100k": ((("cm100k", *DATA),), ""),
    "defaults": ((("default_weights", "--cache", "{cache}/weights", *DATA),), ""),
    "evaluators": ((("evaluators", *DATA),), ""),
    "leaderboard": ((("leaderboard", "{cache}/leaderboard", *DATA),), ""),
    "field": ((("field_study", "{cache}/field", *DATA),), ""),
    "validation": (
        (("validation", *DATA, "--write", "docs/validation.md"),
         ("validation_diagnostics", *DATA, "--write", "docs/validation.md"), ("coat_exposure", *DATA)), "",
    ),
    "protocols": ((("protocols", *DATA),), "25_protocols.ipynb"),
    "sequential": ((("sequential", *DATA),), ""),
    "generations": ((("generations",),), ""),
}  # fmt: skip


def execute(path: Path) -> None:
    """Execute a notebook in place, outputs kept."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    NotebookClient(
        notebook, timeout=3600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}
    ).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of execution would change the file at every run
        if cell.cell_type == "code":
            # Warnings name the path of this machine.
            cell.outputs = joined(one for one in cell.outputs if one.get("name") != "stderr")
    nbformat.write(notebook, path)


def joined(outputs: Iterable[Any]) -> list[Any]:
    """Return the outputs with printed text in one piece; the cuts depend on the machine."""
    made: list[Any] = []
    for one in outputs:
        if made and one.output_type == made[-1].output_type == "stream" and one.name == made[-1].name:
            made[-1].text += one.text
        else:
            made.append(one)
    return made


def run(name: str, data: Path, *, notebooks_only: bool) -> None:
    """Make the tables of a piece, and execute its notebook."""
    scripts, notebook = PIECES[name]
    for script, *words in () if notebooks_only else scripts:
        options = [one.format(data=data, cache=CACHE) for one in words]
        options += [] if "--write" in options else ["--write"]
        command = [sys.executable, "-m", f"reproductions.{script}", *options]
        subprocess.run(command, check=True, cwd=HERE.parent)
    if notebook:
        execute(NOTEBOOKS / notebook)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, help="folder with the data sets")
    parser.add_argument(
        "--only", nargs="+", choices=PIECES, help="these, even where this commit has made them"
    )
    parser.add_argument("--notebooks-only", action="store_true", help="leave the pages as they are")
    parser.add_argument("--list", action="store_true", help="say which commit made each piece here, and stop")
    options = parser.parse_args()
    done = json.loads(DONE.read_text("utf-8")) if DONE.exists() else {}
    now = commit()
    if options.list:
        print("\n".join(f"{name}: {done.get(name, 'never here')}" for name in PIECES))
        return
    if options.data is None:
        parser.error("--data is needed")
    data = options.data.resolve()
    os.environ["IPSEVAL_DATA"] = str(data)
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    failed: list[str] = []
    for name in options.only or [one for one in PIECES if done.get(one) != now]:
        start = time.perf_counter()
        try:
            run(name, data, notebooks_only=options.notebooks_only)
        except subprocess.CalledProcessError as error:  # its own text stands above; the others are made
            failed.append(f"{name} ({' '.join(error.cmd[1:3])})")
            continue
        if not options.notebooks_only:
            done[name] = now
            CACHE.mkdir(parents=True, exist_ok=True)
            DONE.write_text(json.dumps(done), "utf-8")
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    if failed:
        raise SystemExit(f"Not made: {', '.join(failed)}. The same command goes on with these.")


if __name__ == "__main__":
    main()
