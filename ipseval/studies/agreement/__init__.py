"""Agreement between two orderings of the same recommenders, and between the lists of two recommenders."""

from __future__ import annotations

from ipseval.studies.agreement._blocks import Blocks
from ipseval.studies.agreement._list_overlap import ListOverlap, list_overlap
from ipseval.studies.agreement._orders import OrderAgreement, mean_agreement, order_agreement

__all__ = ["Blocks", "ListOverlap", "OrderAgreement", "list_overlap", "mean_agreement", "order_agreement"]
