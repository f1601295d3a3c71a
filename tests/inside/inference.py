"""Private names of ipseval.inference that tests reach for."""

from __future__ import annotations

from ipseval.inference._curves import standard_errors
from ipseval.inference._linear import LinearGroup
from ipseval.inference.comparisons import (
    FEW,
    PairTests,
    adjust,
    detectable,
    pair_tests,
)
from ipseval.inference.estimate_frame import too_wide
from ipseval.inference.gamma_range import GammaRange, _end, find_gamma_ranges
from ipseval.inference.gamma_sensitivity import sensitivity
from ipseval.inference.interval_methods import bootstrap_refit
from ipseval.inference.intervals import (
    bca_interval,
    blocks,
    bootstrap,
    draw_counts,
    jackknife_acceleration,
    leave_one_out,
    normal_interval,
    quantiles,
)
from ipseval.inference.weight_bounds import required_factors, row_bounds
from ipseval.inference.weight_diagnostics import (
    AllWeights,
    Weighed,
    WeightDiagnostics,
    WeightTotals,
    _by_popularity,
    effective_sample_size,
    fit_generalised_pareto,
    pareto_k,
    popularity_weights,
)
