"""Simulation: worlds in which relevance and propensity are known."""

from __future__ import annotations

from ipseval.validation.simulation._world import World

__all__ = ["World"]
