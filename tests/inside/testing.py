"""Private names of ipseval.testing that tests reach for."""

from __future__ import annotations

from ipseval.testing._bounds import Difference as Difference
from ipseval.testing._bounds import _chance as _chance
from ipseval.testing._gate import _against, _estimator, rounded_up, same_quantity, unseen_below
from ipseval.testing._history import GateHistory as GateHistory
from ipseval.testing._preflight import Preflight, _shuffled, _truncated
