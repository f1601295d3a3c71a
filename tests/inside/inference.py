"""Private names of ipseval.inference that tests reach for."""

from __future__ import annotations

from ipseval.inference._gamma_curves import GammaCurves, compute_standard_errors
from ipseval.inference._linear_groups import LinearGroup
from ipseval.inference.bootstrap_intervals import bootstrap_refit
from ipseval.inference.comparisons import (
    FEW,
    PairTests,
    _compute_differences_by_products,
    _stack_common_effects,
    adjust_p_values,
    compute_detectable_difference,
    compute_pair_tests,
)
from ipseval.inference.gamma_range import GammaRange, _find_range_end, find_gamma_ranges
from ipseval.inference.gamma_sensitivity import Sensitivity, sensitivity
from ipseval.inference.intervals import (
    Bootstrap,
    bca_interval,
    blocks,
    bootstrap,
    compute_normal_interval,
    compute_quantiles,
    constrain_to_unit_interval,
    draw_counts,
    jackknife_acceleration,
    leave_one_out,
)
from ipseval.inference.weight_bounds import compute_required_factors, row_bounds
from ipseval.inference.weight_diagnostics import (
    AllWeights,
    WeightDiagnostics,
    WeightMoments,
    WeightTotals,
    _group_by_popularity,
    effective_sample_size,
    fit_generalised_pareto,
    group_weights_by_popularity,
    pareto_k,
)
