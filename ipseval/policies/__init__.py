"""Off-policy evaluation: the clicks that policies would have earned, from the log of the present policy."""

from __future__ import annotations

import lazy_loader

from ipseval.policies._evaluate import evaluate_policies
from ipseval.policies._evaluate_rewards import evaluate_rewards
from ipseval.policies._result import PolicyEvaluation

__all__ = ["PolicyEvaluation", "evaluate_policies", "evaluate_rewards"]
__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["rewards"])
