"""Compare evaluators on logs with random exposure, and write docs/evaluators.md.

    python -m reproductions.evaluators --data PATH [--write]
    python -m reproductions.evaluators --check my_evaluator.py

Finished cells (log, split, evaluator) are kept in the cache folder, so a run that was killed continues where
it stopped; cells whose code changed are computed again. Logs whose folder is missing are left out. --add runs
files that add evaluators or logs. --check runs what such a file adds on two splits, of a simulated log if it
adds no log, and keeps nothing.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from reproductions.evaluators import EVALUATORS, LOGS
from reproductions.evaluators.cells import Task, count_noun, run_tasks
from reproductions.evaluators.plugins import PluginError, load_plugins
from reproductions.evaluators.registry import EstimatesError
from reproductions.evaluators.report import (
    draw_errors,
    list_pairs,
    list_rows,
    make_tables,
    tabulate_log,
    write_frame,
)
from reproductions.evaluators.scores import LogResults, list_scores, read_log, score_log
from reproductions.tables import ROOT, data_folder, write_tables

PAGE = ROOT / "docs" / "evaluators.md"
FIGURE = ROOT / "docs" / "images" / "evaluators.svg"
TABLES = ROOT / "docs" / "tables" / "evaluators"
CACHE = ROOT / ".cache" / "reproductions" / "evaluators"
N_SPLITS = 10
SIMULATED = "simulated"
CHECKED = ("AOA", "AOA per user", "random sample (half of the users)")


def choose_logs(data: Path) -> list[str]:
    """Return the logs whose folder is there."""
    return [name for name in LOGS if name != SIMULATED and (data / name).is_dir()]


def run(
    options: argparse.Namespace, logs: Sequence[str], evaluators: Sequence[str], cache: Path
) -> list[LogResults]:
    """Compute the missing cells of some logs and evaluators, and return the results of each log."""
    tasks = []
    for log in logs:
        for number in range(options.splits):
            task = Task(
                log=log,
                number=number,
                data=options.data,
                cache=cache,
                evaluators=tuple(evaluators),
                plugins=tuple(options.add),
            )
            tasks.append(task)
    run_tasks(tasks, options.processes)
    return [read_log(cache, log, range(options.splits), evaluators) for log in logs]


def check(options: argparse.Namespace) -> None:
    """Run what one file adds, and print the tables with well-known evaluators beside it."""
    known_evaluators = set(EVALUATORS)
    known_logs = set(LOGS)
    options.add = [options.check]
    options.splits = 2
    options.processes = 1
    load_plugins(options.add)
    new_evaluators = [name for name in EVALUATORS if name not in known_evaluators]
    new_logs = [name for name in LOGS if name not in known_logs]
    if not new_evaluators and not new_logs:
        raise SystemExit(f"{options.check} adds no evaluator and no log. Use @add_evaluator or @add_log.")
    logs = new_logs or [SIMULATED]
    with tempfile.TemporaryDirectory() as folder:
        for results in run(options, logs, [*CHECKED, *new_evaluators], Path(folder)):
            print(f"\n{tabulate_log(results, score_log(results))}")
            for name in new_evaluators:
                if name in results.refusals:
                    print(f"{name} refused: {results.refusals[name]}")
    print(
        f"\nThe file adds {count_noun(len(new_evaluators), 'evaluator')} and {count_noun(len(new_logs), 'log')}."
    )


def check_names(option: str, names: Sequence[str], registry: Iterable[str]) -> None:
    """Stop if a name is not in a registry."""
    known = list(registry)
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(
            f"{option} must be names of the list; got {unknown}. Choose from: {', '.join(known)}."
        )


def main(arguments: list[str] | None = None) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n")[0], prog="python -m reproductions.evaluators"
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=data_folder(),
        help="folder that holds coat/, cm100k/ and kuairand/, as data/README.md says; coat/ is enough for a "
        "first run; the folder in IPSEVAL_DATA by default, otherwise shared/data next to the clone",
    )
    parser.add_argument("--logs", nargs="+", help="names of logs; all whose folder is there by default")
    parser.add_argument(
        "--evaluators", nargs="+", help='names of evaluators, such as "SNIPS pooled, γ = 0"; all by default'
    )
    parser.add_argument(
        "--splits", type=int, default=N_SPLITS, help=f"number of splits, {N_SPLITS} by default"
    )
    parser.add_argument("--processes", type=int, default=2, help="number of processes, 2 by default")
    parser.add_argument("--cache", type=Path, default=CACHE, help="folder of finished cells")
    parser.add_argument("--add", type=Path, nargs="+", default=[], help="files that add evaluators or logs")
    parser.add_argument("--check", type=Path, help="run what a file adds on two splits, and stop")
    parser.add_argument("--write", action="store_true", help="write the page, its figure and its tables")
    options = parser.parse_args(arguments)
    try:
        if options.check is not None:
            check(options)
        else:
            compare(options)
    except (PluginError, EstimatesError) as error:
        raise SystemExit(str(error)) from error


def compare(options: argparse.Namespace) -> None:
    """Run evaluators on logs, and print the tables or write the page."""
    load_plugins(options.add)
    logs = options.logs or choose_logs(options.data)
    if not logs:
        raise SystemExit(
            f"--data must be a folder that holds the folder of a log, such as coat/; got {options.data}. "
            "data/README.md says where the files are."
        )
    evaluators = options.evaluators or list(EVALUATORS)
    check_names("--logs", logs, LOGS)
    check_names("--evaluators", evaluators, EVALUATORS)
    # Errors are relative to AOA.
    evaluators = list(dict.fromkeys(["AOA", "AOA per user", *evaluators]))
    all_results = run(options, logs, evaluators, options.cache)
    scores = {results.log: score_log(results) for results in all_results}
    tables = make_tables(all_results, scores)
    if options.write:
        write_frame(list_rows(all_results), TABLES / "rows.csv.gz")
        write_frame(list_pairs(all_results), TABLES / "pairs.csv.gz")
        write_frame(list_scores(scores, all_results[0].metrics), TABLES / "scores.csv")
        draw_errors(scores, FIGURE)
        write_tables(tables, PAGE)
    else:
        print("\n\n".join(f"{name}\n{table}" for name, table in tables.items()))
    seconds = sum(results.seconds for results in all_results)
    print(f"\nprocessor time of all cells: {seconds:.0f} s")


if __name__ == "__main__":
    main()
