"""Evaluation: `evaluate`, its result `Evaluation`, and functions for ranks, ratings and other libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ipseval.evaluation.evaluation import Evaluation
from ipseval.evaluation.pipeline import evaluate, evaluate_ranks
from ipseval.inference.estimate_frame import FRAME_COLUMNS
from ipseval.utils import lazy

if TYPE_CHECKING:
    from ipseval.evaluation._integrations import lenskit_metric, recbole_metric, rectools_metric
    from ipseval.evaluation._ratings import evaluate_ratings

__all__ = [
    "FRAME_COLUMNS",
    "Evaluation",
    "evaluate",
    "evaluate_ranks",
    "evaluate_ratings",
    "lenskit_metric",
    "recbole_metric",
    "rectools_metric",
]
# Modules that evaluate() does not need are loaded on first use.
__getattr__ = lazy(
    __name__,
    {
        "evaluate_ratings": "_ratings",
        **dict.fromkeys(("lenskit_metric", "recbole_metric", "rectools_metric"), "_integrations"),
        **dict.fromkeys(("beyond", "segments", "slates"), ""),
    },
)
