"""Offline metrics against online experiments: which of them tells what users will do."""

from __future__ import annotations

from ipseval._border import guard
from ipseval.online._agreement import online_agreement
from ipseval.online._result import OnlineAgreement

__all__ = ["OnlineAgreement", "online_agreement"]

guard(__name__)
