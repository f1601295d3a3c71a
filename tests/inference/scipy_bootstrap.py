"""SciPy's BCa bootstrap of a mean, whatever SciPy calls the generator."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from scipy import stats

GENERATOR = "rng" if "rng" in inspect.signature(stats.bootstrap).parameters else "random_state"  # until 1.14


def bca_of_mean(values: np.ndarray, *, n_resamples: int, confidence_level: float = 0.95) -> Any:
    generator = {GENERATOR: np.random.default_rng(1)}
    return stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=n_resamples,
        confidence_level=confidence_level,
        method="BCa",
        **generator,
    )
