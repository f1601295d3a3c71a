"""Private names of ipseval.inference that tests reach for."""

from __future__ import annotations

from ipseval.inference._bootstrap import blocks, bootstrap, draw_counts, leave_one_out
from ipseval.inference._bounds import ratio_bounds
from ipseval.inference._comparisons import COLUMNS, adjust, minimum_detectable_difference, users_needed
from ipseval.inference._factors import required_factor
from ipseval.inference._influences import Units, squared_influences
from ipseval.inference._intervals import (
    bca_interval,
    jackknife_acceleration,
    normal_interval,
    percentile_interval,
)
from ipseval.inference._leads import leading_factors, leading_gammas
from ipseval.inference._linear import LinearGroup
from ipseval.inference._pairs import FEW, PairTests, pair_tests
from ipseval.inference._pareto import fit_generalised_pareto, pareto_k
from ipseval.inference._popularity import _by_popularity, popularity_weights
from ipseval.inference._refit import bootstrap_refit
from ipseval.inference._sensitivity import sensitivity
from ipseval.inference._weights import (
    AllWeights,
    Weighed,
    WeightDiagnostics,
    WeightTotals,
    diagnostics_by_estimator,
    effective_sample_size,
)
