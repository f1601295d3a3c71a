"""Reward models, which predict the probability of a click on an examined item from an impression log."""

from __future__ import annotations

from ipseval.policies.rewards._models import (
    FactorReward,
    ItemReward,
    Reward,
    RewardModel,
    ShownData,
)
from ipseval.policies.rewards._rewards import FittedRewards, Rewards

__all__ = [
    "FactorReward",
    "FittedRewards",
    "ItemReward",
    "Reward",
    "RewardModel",
    "Rewards",
    "ShownData",
]
