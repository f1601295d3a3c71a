"""Evaluate recommenders on a split, ranks, ratings or slates, and hold the results."""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

from ipseval.evaluation._evaluate import evaluate, evaluate_ranks
from ipseval.evaluation.evaluation import Evaluation
from ipseval.inference.estimate_frame import FRAME_COLUMNS

if TYPE_CHECKING:
    from ipseval.evaluation._integrations import lenskit_metric, recbole_metric, rectools_metric
    from ipseval.evaluation._ratings import evaluate_ratings
    from ipseval.evaluation.generations import GenerationsEvaluation, evaluate_generations
    from ipseval.evaluation.sequential import evaluate_sequential
    from ipseval.evaluation.statement import Statement, write_statement

__all__ = [
    "FRAME_COLUMNS",
    "Evaluation",
    "GenerationsEvaluation",
    "Statement",
    "evaluate",
    "evaluate_generations",
    "evaluate_ranks",
    "evaluate_ratings",
    "evaluate_sequential",
    "lenskit_metric",
    "recbole_metric",
    "rectools_metric",
    "write_statement",
]
# Names that evaluate() does not need are loaded at first use.
__getattr__, _, _ = lazy_loader.attach(
    __name__,
    submodules=["beyond", "segments", "slates"],
    submod_attrs={
        "_integrations": ["lenskit_metric", "recbole_metric", "rectools_metric"],
        "_ratings": ["evaluate_ratings"],
        "generations": ["GenerationsEvaluation", "evaluate_generations"],
        "sequential": ["evaluate_sequential"],
        "statement": ["Statement", "write_statement"],
    },
)
