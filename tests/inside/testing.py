"""Private names of ipseval.testing that tests reach for."""

from __future__ import annotations

from ipseval.testing._bounds import Difference as Difference
from ipseval.testing._bounds import _chance as _chance
from ipseval.testing._history import GateHistory as GateHistory
