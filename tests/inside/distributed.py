"""Private names of ipseval.distributed that tests reach for."""

from __future__ import annotations

from ipseval.distributed._blocks import dealt, opened
