"""Labels of all metrics of the registry, so that a new metric enters the tests that hold for every metric."""

from __future__ import annotations

import ipseval
from ipseval.metrics import METRICS


def metric_labels(*cutoffs: int, with_ratios: bool = True) -> list[str]:
    """Return labels of every metric without a cutoff and with cutoffs, where the metric allows them.

    Ratios of sums over users, which are no averages of the values of users, can be left out.
    """
    labels = []
    for name, family in METRICS.items():
        if family.is_ratio_of_sums and not with_ratios:
            continue
        if family.takes_cutoff != "required":
            labels.append(ipseval.metric(name).label)
        if family.takes_cutoff != "none":
            labels += [ipseval.metric(f"{name}@{k}").label for k in cutoffs]
    return labels
