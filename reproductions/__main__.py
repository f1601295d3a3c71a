"""Run the reproductions: train what is not in the cache, execute the notebooks, fill docs/reproductions.md.

    pip install "ipseval[reproductions]"
    python -m reproductions --data PATH [--only sampled|citeulike|coat|ratings|protocols]

What takes long is kept in .cache/reproductions: from empty 45 minutes of one core, then a few.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
NOTEBOOKS = HERE.parent / "notebooks" / "reproductions"
# Piece -> (scripts that fill the page, notebook, whether it reads data).
PIECES = {
    "sampled": (("sampled",), "21_sampled_metrics.ipynb", False),
    "citeulike": (
        ("citeulike", "snapshots", "sampled_trained"),
        "22_citeulike.ipynb",
        True,
    ),
    "coat": (("coat",), "23_random_exposure.ipynb", True),
    "ratings": (("ratings", "learning"), "24_ratings.ipynb", True),
    "protocols": (("protocols",), "25_protocols.ipynb", True),
}


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
            # A progress bar that misses its widgets says so, with the path of this machine.
            cell.outputs = joined(one for one in cell.outputs if "TqdmWarning" not in one.get("text", ""))
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with citeulike-a/ and coat/")
    parser.add_argument("--only", choices=PIECES)
    parser.add_argument("--notebooks-only", action="store_true", help="leave the page as it is")
    options = parser.parse_args()
    os.environ["IPSEVAL_DATA"] = str(options.data.resolve())
    os.environ["PYTHONPATH"] = os.pathsep.join([str(HERE.parent), os.environ.get("PYTHONPATH", "")])
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    for name in [options.only] if options.only else PIECES:
        scripts, notebook, needs_data = PIECES[name]
        start = time.perf_counter()
        if not options.notebooks_only:
            data = ["--data", str(options.data.resolve())] if needs_data else []
            for script in scripts:
                subprocess.run(
                    [sys.executable, "-m", f"reproductions.{script}", *data, "--write"],
                    check=True,
                    cwd=HERE.parent,
                )
        execute(NOTEBOOKS / notebook)
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main()
