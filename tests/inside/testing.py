"""Private names of ipseval.testing that tests reach for."""

from __future__ import annotations

from ipseval.testing._bounds import Difference as Difference
from ipseval.testing._bounds import _above as _above
from ipseval.testing._history import GateHistory as GateHistory
