"""Off-policy evaluation: the clicks that policies would have earned, from the log of the present policy."""

from __future__ import annotations

from ipseval.policies._evaluate import evaluate_policies
from ipseval.policies._evaluate_rewards import evaluate_rewards
from ipseval.policies._result import PolicyEvaluation
from ipseval.utils import lazy
from ipseval.utils.border import guard

__all__ = ["PolicyEvaluation", "evaluate_policies", "evaluate_rewards"]
__getattr__ = lazy(__name__, dict.fromkeys(("rewards",), ""))

guard(__name__)
