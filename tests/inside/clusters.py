"""Private names of ipseval.clusters that tests reach for."""

from __future__ import annotations

from ipseval.clusters._blocks import dealt, opened
