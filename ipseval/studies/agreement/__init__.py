"""Agreement between two orderings of the same recommenders: OR@k, SRC, IPC and Kendall's tau-b."""

from __future__ import annotations

from ipseval._base.border import guard
from ipseval.studies.agreement._blocks import Blocks, blocks
from ipseval.studies.agreement._orders import (
    OrderAgreement,
    RowOrders,
    mean_agreement,
    measures,
    order_agreement,
    with_intervals,
)

__all__ = [
    "Blocks",
    "OrderAgreement",
    "RowOrders",
    "blocks",
    "mean_agreement",
    "measures",
    "order_agreement",
    "with_intervals",
]

guard(__name__)
