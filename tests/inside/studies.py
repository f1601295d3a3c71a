"""Private names of ipseval.studies that tests reach for."""

from __future__ import annotations

from ipseval.inference.orders import RowOrders, measures
from ipseval.studies.agreement._blocks import blocks, silhouette
from ipseval.studies.online._noise import (
    Noisy,
    TrueSpread,
    _bounds,
    _deviance,
    _start,
    naive_pearson,
    reliability,
)
from ipseval.studies.protocols._compare import _inversions, _most_frequent, mean_of_comparisons
from ipseval.studies.protocols._evaluate import Result, Setting, _covariance
from ipseval.studies.protocols._protocol import Choice, described
from ipseval.studies.protocols._result import _reference
from ipseval.studies.protocols._run import Plan, run
from ipseval.studies.protocols._store import Store, _library, _Reader, fingerprint, log_fingerprint
from ipseval.studies.protocols._study import _log, _model, _protocols
