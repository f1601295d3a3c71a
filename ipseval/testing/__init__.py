"""Assertions for regression tests of recommenders: against a stored result, with uncertainty.

A baseline is a saved evaluation (`evaluation.save(path, ranks=False)`) that is kept under version control. It
states its data, options and metric definitions; results that differ in these are not compared.
"""

from __future__ import annotations

from ipseval._border import guard
from ipseval.testing._compare import BaselineCheck, assert_metric, assert_not_worse, compare_results

__all__ = [
    "BaselineCheck",
    "assert_metric",
    "assert_not_worse",
    "compare_results",
]

guard(__name__)
