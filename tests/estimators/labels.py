"""The labels of all estimators of the library, for tests that include each of them."""

from __future__ import annotations

from ipseval.estimators import ESTIMATORS
from tests.inside.estimators import resolve_estimator

# A value other than the default, with which snips-shrunk is snips-global.
WITH_PARAMETER = {"snips-shrunk": "snips-shrunk(0.5)"}
# Estimators that read impressions; `evaluate_rewards` computes them.
OF_REWARDS = tuple(label for label in ESTIMATORS if resolve_estimator(label).needs_rewards)
# Estimators that `evaluate` computes.
OF_POSITIVES = tuple(WITH_PARAMETER.get(label, label) for label in ESTIMATORS if label not in OF_REWARDS)
# The same without ips, which needs calibrated propensities and the numbers of relevant items.
OF_RELATIVE_PROPENSITIES = tuple(label for label in OF_POSITIVES if label != "ips")
