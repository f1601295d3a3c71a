"""Offline metrics against online experiments: agreement with the results of A/B tests."""

from __future__ import annotations

from ipseval.studies.online._agreement import OnlineAgreement, online_agreement

__all__ = ["OnlineAgreement", "online_agreement"]
