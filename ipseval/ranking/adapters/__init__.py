"""Adapters: trained models of other libraries as scorers, found by the type of the model.

`evaluate` and `rank_positives` call `adapt` themselves. A library is imported only when one of its models is
passed.
"""

from __future__ import annotations

from ipseval.ranking.adapters._model_scores import ModelScores
from ipseval.ranking.adapters.registry import adapt
from ipseval.utils.public import explain_missing_names

__all__ = ["ModelScores", "adapt"]

__getattr__ = explain_missing_names(__name__)
