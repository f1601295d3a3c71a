"""Estimators of a metric from observed positives, and their statistical guarantees.

`aoa.py`, `ips.py` and `snips.py` hold the formulas: `Estimator.sums` returns N_u and D_u of each user, and
`UserSums.value` in `user_sums.py` returns Σ_u N_u / Σ_u D_u. `labels.py` has one row for each label; the column
"SNIPS" of tables is the label "snips-global", `Snips(normalize="global")`.
"""

from __future__ import annotations

from ipseval.estimators._linear_form import LinearForm, Parts
from ipseval.estimators.aoa import Aoa
from ipseval.estimators.base import Estimator
from ipseval.estimators.estimate import Estimate, card, claim
from ipseval.estimators.guarantees import Claim
from ipseval.estimators.ips import Ips
from ipseval.estimators.labels import ESTIMATORS
from ipseval.estimators.sample import Sample
from ipseval.estimators.snips import ShrunkSnips, Snips
from ipseval.estimators.user_sums import UserSums
from ipseval.utils.notes import Note

__all__ = [
    "ESTIMATORS",
    "Aoa",
    "Claim",
    "Estimate",
    "Estimator",
    "Ips",
    "LinearForm",
    "Note",
    "Parts",
    "Sample",
    "ShrunkSnips",
    "Snips",
    "UserSums",
    "card",
    "claim",
]
