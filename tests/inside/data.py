"""Private names of ipseval.data that tests reach for."""

from __future__ import annotations

from ipseval.data.splits._base import Leakage
