"""The benchmark of evaluators: which method estimates the metrics of recommenders, and where.

    python -m reproductions.evaluators --data PATH

`reproductions.evaluators.registry` lists evaluators, `reproductions.evaluators.logs` lists logs, and
docs/evaluators.md shows the results, and docs/add-an-evaluator.md how to add to both.
"""

from __future__ import annotations

from reproductions.evaluators import exposure_evaluators, log_evaluators
from reproductions.evaluators.context import Context
from reproductions.evaluators.logs import LOGS, DividedLog, add_log, divide_study
from reproductions.evaluators.registry import EVALUATORS, Evaluator, add_evaluator

__all__ = [
    "EVALUATORS",
    "LOGS",
    "Context",
    "DividedLog",
    "Evaluator",
    "add_evaluator",
    "add_log",
    "divide_study",
    "exposure_evaluators",
    "log_evaluators",
]
