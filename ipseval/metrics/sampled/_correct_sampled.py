"""The public function `correct_sampled`: estimate a full-ranking metric from sampled ranks."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from ipseval.metrics.labels import parse_metric
from ipseval.metrics.sampled._correction import METHODS, Method, SampledEstimate, estimate_correction
from ipseval.metrics.sampled._sampled_ranks import read_sampled_ranks
from ipseval.utils.checks import check_choice
from ipseval.utils.public import public_function


@public_function
def correct_sampled(
    sampled_ranks: Any,
    n_candidates: npt.ArrayLike | None = None,
    n_sampled: int | None = None,
    metric: Any = "recall@10",
    method: Method = "bv",
    *,
    replacement: bool | None = None,
    users: npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    variance_weight: float = 0.01,
    prior: Any = None,
    n_iterations: int = 100,
) -> SampledEstimate:
    """Estimate a full-ranking metric from ranks among sampled candidates.

    The estimate is the average over positives (or over users, of the mean over the positives of each user) of
    M̂(r̃). No method is unbiased for recall@k, AP or NDCG when m < n − 1; compare several, and see
    `std_sampled`.

    Parameters
    ----------
    sampled_ranks : (n_pos,) array of whole numbers, or RankedPositives from sampled candidates
        r̃ in 1 … m + 1. RankedPositives also have n, m, the law, the users and the ties.
    n_candidates : int or (n_pos,) array
        n, the number of candidates to sample from, the positive included. Where a user has s relevant items
        and none of them was drawn as a competitor, n − s + 1.
    n_sampled : int
        m, the number of sampled competitors.
    metric : str or Metric, default "recall@10"
        A metric of `METRICS`, or a custom metric that defines `_value_at_rank`; without graded gains.
    method : str, default "bv"
        "bv", "cls", "rank", "ls": see `SampledMetric.table`. "mle": the metric under the rank distribution
        that EM fits to the sampled ranks; M̂ is the posterior mean. "importance": the metric at the
        importance-weighted rank, for candidates drawn with known unequal probabilities (RankedPositives
        only). "none": no correction.
    replacement : bool, optional
        Whether candidates were drawn with replacement. Default: True, or the law of the RankedPositives.
    users : (n_pos,) array, optional
        User of each positive: the average is then over users, who are the independent units.
    weights : (n_pos,) array > 0, optional
        1/P of each positive: the average becomes Σ_u mean(w M̂) / Σ_u mean(w), the estimator "snips-global",
        and a fitted rank distribution becomes that of the weighted positives.
    variance_weight : float, default 0.01
        g of "bv", see `SampledMetric.table`.
    prior : "uniform", "estimated" or (n,) array, optional
        Distribution of the exact ranks for "bv", "cls" and "ls". "estimated" is the distribution that "mle"
        fits; only "bv" takes it, as its default. The other methods default to "uniform". The ranks of a
        recommender concentrate at the head of the list: under the uniform prior of Krichene & Rendle (2020)
        the corrected recall@10 of a good recommender is far too low.
    n_iterations : int, default 100
        EM steps of "mle" and prior="estimated".

    Returns
    -------
    SampledEstimate
        The estimate, its standard error, and M̂(r̃) of each positive.

    Raises
    ------
    InputError
        For ranks outside 1 … m + 1; for an ill-conditioned system (with its condition number); for a method
        that assumes equal probabilities on candidates drawn with unequal ones; and for a given prior when the
        number of candidates differs between positives.

    See Also
    --------
    expected_sampled, std_sampled : Mean and standard deviation of the uncorrected metric.
    ipseval.metric : Metrics that correct sampled ranks within an evaluation.

    References
    ----------
    Krichene & Rendle (2020), doi:10.1145/3394486.3403226; Jin et al. (2021), doi:10.1609/aaai.v35i5.16537;
    Li et al. (2023), doi:10.1609/aaai.v37i4.25561

    Examples
    --------
    Two positives rank 1 and 3 among 2 sampled of 4 others; AUC is affine in the rank, so its correction is
    the sampled AUC itself, (1 + 0)/2.

    >>> correct_sampled([1, 3], 5, 2, "auc", "rank")
    SampledEstimate(auc: 0.5000 ± 0.5000 by rank, 0.5000 uncorrected; 2 positives of 2 users, 2 sampled
    candidates)
    """
    check_choice("method", method, METHODS)
    target = parse_metric(metric)
    data = read_sampled_ranks(
        sampled_ranks,
        n_candidates=n_candidates,
        n_sampled=n_sampled,
        replacement=replacement,
        users=users,
        weights=weights,
        method=method,
    )
    return estimate_correction(
        data,
        target,
        method,
        variance_weight=variance_weight,
        prior=prior,
        n_iterations=n_iterations,
    )
