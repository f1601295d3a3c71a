"""Notebooks run from a clean kernel, with and without public data, and what they keep is fit to be read."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
RUNNABLE = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("nbclient", "nbformat", "ipykernel", "matplotlib")),
    reason="running notebooks needs nbclient, ipykernel and matplotlib: pip install -e '.[docs]'",
)
REPRODUCTIONS = sorted((FOLDER / "reproductions").glob("*.ipynb"))
executed = pytest.mark.parametrize("path", [*NOTEBOOKS, *REPRODUCTIONS], ids=lambda path: path.stem)
READING = [path for path in NOTEBOOKS if "IPSEVAL_DATA" in path.read_text("utf-8")]  # others read no file
each = pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)


def cells(path: Path) -> list[dict]:
    return [
        cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"
    ]


def outputs(path: Path) -> list[dict]:
    return [output for cell in cells(path) for output in cell["outputs"]]


def test_notebooks_are_numbered_each_once():
    numbers = [int(path.name[:2]) for path in NOTEBOOKS]
    assert len(set(numbers)) == len(numbers) >= 8
    assert [path.stem[:2] for path in REPRODUCTIONS] == ["21", "22", "23", "24", "25"]


@executed
def test_outputs_are_kept_from_one_run_from_the_top(path: Path):
    assert [cell["execution_count"] for cell in cells(path)] == list(range(1, len(cells(path)) + 1))
    assert outputs(path)
    assert not [output for output in outputs(path) if output["output_type"] == "error"]


@executed
def test_outputs_name_no_path_of_the_machine_and_no_time_of_the_run(path: Path):
    text = path.read_text(encoding="utf-8")
    assert not re.findall(r"/(?:home|root|tmp|Users|usr|work|opt|var)/|[A-Z]:\\\\", text)
    assert "iopub" not in text
    kernel = json.loads(text)["metadata"]["kernelspec"]["name"]
    assert kernel == "python3"


@each
def test_each_has_a_title_and_a_picture_or_a_table(path: Path):
    notebook = json.loads(path.read_text(encoding="utf-8"))
    assert "".join(notebook["cells"][0]["source"]).startswith(f"# {int(path.name[:2])} · ")
    kinds = {kind for output in outputs(path) for kind in output.get("data", {})}
    assert "image/png" in kinds


def run(path: Path, data: Path) -> None:
    """Run a notebook in a clean kernel of a process of its own; nothing is written."""
    script = [sys.executable, str(FOLDER / "run.py"), "--check", "--data", str(data), path.stem]
    environment = {**os.environ, "PYTHONPATH": str(FOLDER.parent)}
    done = subprocess.run(script, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert path.name in done.stdout


@RUNNABLE
@pytest.mark.slow
@each
def test_it_runs_without_any_data(path: Path, tmp_path: Path):
    run(path, tmp_path)


@RUNNABLE
@pytest.mark.slow
@pytest.mark.parametrize("path", READING, ids=lambda path: path.stem)
def test_it_runs_with_the_public_data(path: Path, shared_data):
    run(path, shared_data("coat").parent)
