"""Private names of ipseval.data that tests reach for."""

from __future__ import annotations

from ipseval.data.reading._text import find_layout
from ipseval.data.splits._leakage import Leakage
