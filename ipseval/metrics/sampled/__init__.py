"""Metrics of rankings among sampled candidates: their expectation, and corrections for the sampling.

The functions take labels of metrics and are therefore loaded at first use: the module of the labels imports
`SampledMetric` from this package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from ipseval.metrics.sampled._correct_sampled import correct_sampled
    from ipseval.metrics.sampled._correction import SampledEstimate
    from ipseval.metrics.sampled._expectation import expected_sampled, rank_curves, std_sampled
    from ipseval.metrics.sampled.sampled_metric import SampledMetric

__all__ = [
    "SampledEstimate",
    "SampledMetric",
    "correct_sampled",
    "expected_sampled",
    "rank_curves",
    "std_sampled",
]
__getattr__, __dir__, _ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "_correct_sampled": ["correct_sampled"],
        "_correction": ["SampledEstimate"],
        "_expectation": ["expected_sampled", "rank_curves", "std_sampled"],
        "sampled_metric": ["SampledMetric"],
    },
)
