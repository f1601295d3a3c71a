"""Offline metrics against online experiments: which of them tells what users will do."""

from __future__ import annotations

from ipseval._base.border import guard
from ipseval.studies.online._agreement import online_agreement
from ipseval.studies.online._result import OnlineAgreement

__all__ = ["OnlineAgreement", "online_agreement"]

guard(__name__)
