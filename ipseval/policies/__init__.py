"""Policies: what another way of filling pages would have earned, from the log of the present one."""

from __future__ import annotations

from ipseval._border import guard
from ipseval.policies._evaluate import evaluate_policies
from ipseval.policies._result import PolicyEvaluation
from ipseval.policies._targets import LISTS_COLUMNS

__all__ = ["LISTS_COLUMNS", "PolicyEvaluation", "evaluate_policies"]

guard(__name__)
