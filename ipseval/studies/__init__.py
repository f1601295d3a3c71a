"""Studies of evaluation itself: protocols, agreement of orders, offline metrics against online ones."""

from __future__ import annotations

from ipseval.utils import lazy

__all__ = ["agreement", "online", "protocols"]
__getattr__ = lazy(__name__, dict.fromkeys(__all__, ""))
