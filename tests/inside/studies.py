"""Private names of ipseval.studies that tests reach for."""

from __future__ import annotations

from ipseval.inference.orders import RowOrders, compute_agreement
from ipseval.studies.agreement._blocks import blocks, compute_silhouette
from ipseval.studies.online._noise import (
    NoisyDifferences,
    TrueSpread,
    _compute_deviance,
    _spread_bounds,
    _start_values,
    compute_reliability,
    naive_pearson,
)
from ipseval.studies.protocols._compare import (
    ProtocolComparison,
    _describe_most_frequent_swap,
    _estimate_joint_noise,
    _find_inversions,
    average_comparisons,
)
from ipseval.studies.protocols._evaluate import ProtocolResult, Setting, _compute_covariance
from ipseval.studies.protocols._protocol import Choice, format_setting
from ipseval.studies.protocols._result import _choose_reference
from ipseval.studies.protocols._run import Plan, run_plan
from ipseval.studies.protocols._store import (
    Store,
    _describe_library,
    _FingerprintReader,
    fingerprint,
    fingerprint_log,
)
from ipseval.studies.protocols._study import _build_protocols, _load_model, _read_log
