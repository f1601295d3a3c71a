"""Assertions for regression tests of recommenders: against a stored result, with uncertainty.

A result is a JSON file, written by `write_baseline` (or `ipseval evaluate --out`) and kept under version
control. It states its data, options and metric definitions; results that differ in these are not compared.
"""

from __future__ import annotations

from ipseval._border import guard
from ipseval.testing._compare import BaselineCheck, assert_metric, assert_not_worse, compare_results
from ipseval.testing._result import StoredResult, baseline_text, write_baseline

__all__ = [
    "BaselineCheck",
    "StoredResult",
    "assert_metric",
    "assert_not_worse",
    "baseline_text",
    "compare_results",
    "write_baseline",
]

guard(__name__)
