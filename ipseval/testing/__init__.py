"""Gates: decide whether a candidate is worse than the incumbent, and report the smallest detectable loss.

An incumbent is stored as a saved evaluation (`evaluation.save(path, ranks=False)`), which records its data,
options and metric definitions. Results that differ in these are not compared.
"""

from __future__ import annotations

from ipseval.testing._baselines import assert_metric, assert_not_worse
from ipseval.testing._gate import Gate, gate
from ipseval.testing._history import history
from ipseval.testing._metric_gates import MetricGates, gate_metrics
from ipseval.testing._preflight import preflight

__all__ = [
    "Gate",
    "MetricGates",
    "assert_metric",
    "assert_not_worse",
    "gate",
    "gate_metrics",
    "history",
    "preflight",
]
