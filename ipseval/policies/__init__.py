"""Policies: what another way of filling pages would have earned, from the log of the present one."""

from __future__ import annotations

from ipseval._base import lazy
from ipseval._base.border import guard
from ipseval.policies._evaluate import evaluate_policies
from ipseval.policies._evaluate_rewards import evaluate_rewards
from ipseval.policies._result import PolicyEvaluation

__all__ = ["PolicyEvaluation", "evaluate_policies", "evaluate_rewards"]
__getattr__ = lazy(__name__, dict.fromkeys(("rewards",), ""))

guard(__name__)
