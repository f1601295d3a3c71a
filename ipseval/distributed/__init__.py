"""Evaluation on Dask, on Spark, and out of core with DuckDB."""

from __future__ import annotations

from ipseval.distributed._dask import evaluate_dask
from ipseval.distributed._duckdb import evaluate_duckdb
from ipseval.distributed._spark import evaluate_spark

__all__ = ["evaluate_dask", "evaluate_duckdb", "evaluate_spark"]
