"""Evaluation on clusters and out of core: users in partitions, each reduced to sums that merge."""

from __future__ import annotations

from ipseval._border import guard
from ipseval.distributed._dask import evaluate_dask
from ipseval.distributed._duckdb import evaluate_duckdb
from ipseval.distributed._spark import evaluate_spark

__all__ = ["evaluate_dask", "evaluate_duckdb", "evaluate_spark"]

guard(__name__)
