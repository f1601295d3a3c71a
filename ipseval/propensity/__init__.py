"""Propensities: how likely a relevant item was to be observed."""

from __future__ import annotations

from ipseval.propensity._base import Propensity
from ipseval.propensity._known import KnownPropensity
from ipseval.propensity._power_law import PowerLawPropensity

__all__ = ["KnownPropensity", "PowerLawPropensity", "Propensity"]
