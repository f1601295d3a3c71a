"""Evaluation on clusters: Dask and Spark."""

from __future__ import annotations

from ipseval._base.border import guard
from ipseval.distributed._dask import evaluate_dask
from ipseval.distributed._spark import evaluate_spark

__all__ = ["evaluate_dask", "evaluate_spark"]

guard(__name__)
