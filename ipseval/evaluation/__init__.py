"""The answer and what it can be asked: `evaluate`, `Evaluation`, and doors that take one, ranks or a log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipseval._base import lazy
from ipseval.evaluation._evaluate import FRAME_COLUMNS, Evaluation, evaluate, evaluate_ranks

if TYPE_CHECKING:
    from ipseval.evaluation._integrations import lenskit_metric, recbole_metric, rectools_metric
    from ipseval.evaluation._ratings import evaluate_ratings
    from ipseval.evaluation.partitions._duckdb import evaluate_duckdb

__all__ = [
    "FRAME_COLUMNS",
    "Evaluation",
    "evaluate",
    "evaluate_duckdb",
    "evaluate_ranks",
    "evaluate_ratings",
    "lenskit_metric",
    "recbole_metric",
    "rectools_metric",
]
# What evaluate() itself does not need is loaded when it is asked for.
__getattr__ = lazy(
    __name__,
    {
        "evaluate_duckdb": "partitions._duckdb",
        "evaluate_ratings": "_ratings",
        **dict.fromkeys(("lenskit_metric", "recbole_metric", "rectools_metric"), "_integrations"),
        **dict.fromkeys(("beyond", "segments", "slates"), ""),
    },
)
