"""Agreement between two orderings of the same recommenders: OR@k, SRC, IPC and Kendall's tau-b."""

from __future__ import annotations

from ipseval.studies.agreement._blocks import Blocks
from ipseval.studies.agreement._orders import OrderAgreement, mean_agreement, order_agreement

__all__ = ["Blocks", "OrderAgreement", "mean_agreement", "order_agreement"]
