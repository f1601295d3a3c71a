"""Ranking of whatever `adapt` understands: the public `rank_positives`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import ParamSpec, TypeVar

from ipseval import ranking
from ipseval.adapters._adapt import adapt
from ipseval.splits._base import check_split

P = ParamSpec("P")
R = TypeVar("R")


def adapting(rank: Callable[P, R]) -> Callable[P, R]:
    """Return `rank` (model, split, …) such that it takes trained models of libraries too."""
    signature = inspect.signature(rank)

    # Not the module: by its name there, pickle finds a function.
    @wraps(rank, assigned=("__name__", "__qualname__", "__doc__", "__annotations__"))
    def ranked(*args: P.args, **kwargs: P.kwargs) -> R:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = bound.arguments
        check_split(given["split"])
        given["model"] = adapt(given["model"], given["split"], name=given["name"])
        return rank(*bound.args, **bound.kwargs)

    return ranked


# The signature and the text are those of the function below; the two differ in the models that they take.
rank_positives = adapting(ranking.rank_positives)
