"""Private names of ipseval.testing that tests reach for."""

from __future__ import annotations

from ipseval.testing._bounds import Difference as Difference
from ipseval.testing._bounds import _exceedance_probability as _exceedance_probability
from ipseval.testing._gate import (
    _choose_estimator,
    _describe_contradiction,
    describe_detected_loss,
    find_comparable_estimators,
    round_up,
)
from ipseval.testing._history import GateHistory as GateHistory
from ipseval.testing._preflight import (
    Preflight,
    _shuffle_ranks,
    _truncate_ranks,
    compute_margin,
    compute_pass_probability,
    compute_users_needed,
    describe_passing_loss,
)
