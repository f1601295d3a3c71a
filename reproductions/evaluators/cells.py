"""Runs of the benchmark: one cell is a log, a split and an evaluator; finished cells are kept in files.

Each split of a log has a file with one line of JSON per finished cell. A run that was killed continues with
the cells that are missing; a last line that was cut off is computed again. A cell holds a hash of the files
that define its evaluator, its log and the recommenders, and of all files of ipseval. It is computed again after
a change of these files.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import threading
import time
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ipseval.errors import IpsevalError
from reproductions.evaluators.context import PreparedSplit, prepare_split
from reproductions.evaluators.logs import LOGS
from reproductions.evaluators.plugins import call_plugin, hash_library, hash_source, load_plugins
from reproductions.evaluators.recommenders import list_recommenders
from reproductions.evaluators.registry import EVALUATORS, WARNED, Evaluator, check_estimates
from reproductions.evaluators.truth import measure_truth

TRUTH = "truth"
PREPARATION = "preparation"


@dataclass(frozen=True, kw_only=True)
class Task:
    """One split of one log, with the evaluators to run on it."""

    log: str
    number: int
    data: Path
    cache: Path
    evaluators: tuple[str, ...]
    plugins: tuple[Path, ...] = ()

    @property
    def file(self) -> Path:
        """File of the finished cells."""
        return self.cache / f"{self.log}-{self.number}.jsonl"

    def hash_source(self, name: str) -> str:
        """Return hashes of ipseval, and of the files that define the split, the log and one evaluator or the truth."""
        functions = [prepare_split, list_recommenders, LOGS[self.log]]
        if name == TRUTH:
            functions.append(measure_truth)
        else:
            functions.append(EVALUATORS[name].compute)
        return " ".join([hash_library(), *map(hash_source, functions)])


def run_tasks(tasks: Iterable[Task], n_processes: int) -> None:
    """Compute all missing cells, each split in one of some processes."""
    if n_processes == 1:
        for task in tasks:
            print(run_task(task), flush=True)
        return
    with ProcessPoolExecutor(n_processes, initializer=end_with_command) as pool:
        for line in pool.map(run_task, tasks):
            print(line, flush=True)


def end_with_command() -> None:
    """End this process when the command that started it was killed.

    Otherwise it would go on writing cells while the command is run again.
    """
    command = multiprocessing.parent_process()
    assert command is not None

    def wait_for_end() -> None:
        command.join()
        os._exit(1)

    threading.Thread(target=wait_for_end, daemon=True).start()


def run_task(task: Task) -> str:
    """Compute the missing cells of one split, and return a line for the progress report."""
    load_plugins(task.plugins)
    cells = read_cells(task.file)
    sources = {name: task.hash_source(name) for name in (TRUTH, *task.evaluators)}
    names = [name for name, source in sources.items() if cells.get(name, {}).get("source") != source]
    if not names:
        return f"{task.log}, split {task.number}: complete"
    task.file.parent.mkdir(parents=True, exist_ok=True)
    write_complete_lines(task.file)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        log = call_plugin(LOGS[task.log], task.data, task.number)
        prepared = prepare_split(log, task.number, list_recommenders())
    if PREPARATION not in cells:
        append_cell(task.file, PREPARATION, {"seconds": time.process_time() - start})
    for name in names:
        append_cell(task.file, name, {"source": sources[name]} | compute_cell(name, prepared))
    seconds = time.process_time() - start
    n_changed = sum(name in cells for name in names)
    n_cells = count_noun(len(names), "cell")
    line = f"{task.log}, split {task.number}: {n_cells}, {seconds:.0f} s of processor time"
    if n_changed:
        line += f"; {n_changed} computed again, because the code changed"
    return line


def count_noun(number: int, noun: str) -> str:
    """Return a number with a noun in the singular or the plural."""
    if number == 1:
        return f"1 {noun}"
    return f"{number} {noun}s"


def compute_cell(name: str, prepared: PreparedSplit) -> dict[str, Any]:
    """Return the truth, or the estimates of one evaluator, with the processor time."""
    start = time.process_time()
    if name == TRUTH:
        cell = {"truth": measure_truth(prepared)}
    else:
        cell = compute_estimates(EVALUATORS[name], prepared)
    return cell | {"seconds": time.process_time() - start}


def compute_estimates(evaluator: Evaluator, prepared: PreparedSplit) -> dict[str, Any]:
    """Return the estimates of one evaluator, or the reason why it refuses."""
    context = replace(prepared.context, estimand=evaluator.estimand)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            estimates = call_plugin(evaluator.compute, context)
    except IpsevalError as error:
        return {"refused": str(error)}
    frame = check_estimates(estimates, evaluator.name, context)
    shape = (len(context.models), len(context.metrics))
    cell: dict[str, Any] = {}
    for column in ("estimate", "low", "high"):
        cell[column] = frame[column].to_numpy(dtype=float).reshape(shape).tolist()
    if WARNED in estimates:
        cell[WARNED] = bool(estimates[WARNED].any())
    return cell


def append_cell(file: Path, name: str, cell: dict[str, Any]) -> None:
    """Append one finished cell to the file of its split."""
    line = json.dumps({"name": name} | cell) + "\n"
    with file.open("ab", buffering=0) as stream:
        stream.write(line.encode())


def read_cells(file: Path) -> dict[str, dict[str, Any]]:
    """Return the finished cells of a file by name; a line that was cut off is left out."""
    cells: dict[str, dict[str, Any]] = {}
    if not file.exists():
        return cells
    for line in file.read_text("utf-8").split("\n")[:-1]:
        cell = json.loads(line)
        cells[cell.pop("name")] = cell
    return cells


def write_complete_lines(file: Path) -> None:
    """Remove a last line that was cut off, so that the next cell starts a line."""
    if not file.exists():
        return
    content = file.read_bytes()
    n_complete = content.rfind(b"\n") + 1
    if n_complete < len(content):
        os.truncate(file, n_complete)


def add_seconds(cells: Iterable[dict[str, Any]]) -> float:
    """Return the processor time of some cells in seconds."""
    return math.fsum(cell["seconds"] for cell in cells)
