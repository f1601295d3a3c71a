"""Private names of ipseval.clusters that tests reach for."""

from __future__ import annotations

from ipseval.clusters import _spark
from ipseval.clusters._blocks import dealt, opened
