"""Metrics that correct sampled ranks by M̂ in place of c(r)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ipseval.errors import InputError
from ipseval.metrics.base import Definition, Metric
from ipseval.metrics.sampled._correction import Method, classify_prior, estimate_correction, is_fitted
from ipseval.metrics.sampled._correction_table import (
    TABLE_METHODS,
    compute_correction_table,
    compute_sampled_values,
)
from ipseval.metrics.sampled._sampled_ranks import read_sampled_ranks
from ipseval.ranking import RankedPositives
from ipseval.utils.public import public_class
from ipseval.utils.types import FloatArray, TieChoice, TieRule


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class SampledMetric(Metric):
    """A metric of mean type for sampled ranks: (1/s) Σ M̂(r̃), with M̂ in place of the contribution c(r).

    ``ipseval.metric(label, sampled=method)`` creates it. Every estimator that reads c(r) reads M̂(r̃): the
    propensity weights correct for the unobserved positives, and M̂ for the candidates that were not ranked.
    Standard errors are those of the estimator, with M̂ held fixed. They are too small where M̂ is fitted to the
    sampled ranks ("mle", and "bv" without a given prior), and a warning says so; those of `correct_sampled`
    include the fit.

    Parameters
    ----------
    cutoff : None
        Not used; the cutoff is the one of `base`.
    label : str, default ""
        Label in reports; "" for the label of `base` with the method.
    base : Metric
        The metric of the full ranking.
    method : str
        The correction, see `correct_sampled`.
    variance_weight : float, default 0.01
        Weight of the variance in the method "bv", see `correct_sampled`.
    prior : {"uniform", "estimated"} or (n,) array, optional
        Distribution of the ranks, see `correct_sampled`.
    n_iterations : int, default 100
        EM steps of "mle" and prior="estimated".

    See Also
    --------
    ipseval.metric : Create the metric from a label.
    correct_sampled : Estimate a metric from sampled ranks outside of an evaluation.

    Examples
    --------
    >>> from ipseval import metric
    >>> auc = metric("auc", sampled="rank")
    >>> auc, auc.method, auc.base
    (auc~rank, 'rank', auc)
    >>> auc.table(n_candidates=9, n_sampled=4)
    array([1.  , 0.75, 0.5 , 0.25, 0.  ])
    """

    base: Metric = field(kw_only=True)
    method: Method = field(kw_only=True)
    variance_weight: float = field(default=0.01, kw_only=True)
    prior: Any = field(default=None, kw_only=True)
    n_iterations: int = field(default=100, kw_only=True)

    name = "sampled"
    kind = "mean"
    takes_cutoff = "none"
    needs_n_relevant = True
    value_range = (float("-inf"), float("inf"))
    corrects_sampling = True

    @property
    def approximate(self) -> str:  # type: ignore[override]  # follows from the correction
        """Reason why estimators have no statistical guarantee; "" for AUC with an unbiased correction."""
        if self.base.linear_in_rank and self.method in ("rank", "importance"):
            return ""
        return "the correction for sampling is not unbiased"

    @property
    def is_fitted_to_ranks(self) -> bool:  # type: ignore[override]  # follows from the correction
        """Whether the rank distribution behind M̂ is fitted to the sampled ranks."""
        return is_fitted(self.prior, self.method)

    @property
    def definition(self) -> Definition:  # type: ignore[override]
        """Formula and conventions of the metric."""
        return Definition(
            formula=f"(1/s) Σ_{{i∈S}} M̂(r̃_i): {self.base.label} from sampled ranks by {self.method!r}",
            denominator="s, the number of relevant items",
        )

    def table(self, n_candidates: int, n_sampled: int, *, replacement: bool = True) -> FloatArray:
        """Compute M̂(r̃) for every sampled rank from the sampling law.

        With A[r, i] = P(r̃ = i | r), D = diag(p), b[r] = M(r) and c[i] = Σ_r p(r) A[r, i]:

        ========  ============================================================================================
        "none"    M(r̃) among the m + 1 candidates: no correction
        "rank"    M(1 + (n − 1)(r̃ − 1)/m): the metric at the unbiased estimate of the rank
        "bv"      ((1 − g) AᵀDA + g diag(c))⁻¹ AᵀD b: least mean squared bias + g/(1 − g)·variance
        "cls"     least ‖D^½ (A M̂ − b)‖ over M̂ that are non-increasing and >= 0
        "ls"      least ‖D^½ (A M̂ − b)‖; refused where the system is ill-conditioned
        ========  ============================================================================================

        No method is unbiased for recall@k, AP or NDCG when m < n − 1, because E[M̂ | r] is a polynomial of
        degree <= m.

        Parameters
        ----------
        n_candidates : int
            n, the number of candidates, the positive included.
        n_sampled : int
            m, the number of sampled competitors; at most 5,000 for the methods that solve a system.
        replacement : bool, default True
            Whether candidates are drawn with replacement.

        Returns
        -------
        (n_sampled + 1,) float array
            NaN for a sampled rank that cannot occur under the prior.

        Raises
        ------
        InputError
            For "mle", "importance", and a prior that is estimated from data, as a table has no data; for bad
            sizes; and for a system whose condition number makes the answer noise.

        References
        ----------
        Krichene & Rendle (2020), doi:10.1145/3394486.3403226; Li et al. (2023), doi:10.1609/aaai.v37i4.25561

        Examples
        --------
        One competitor is drawn from n = 3, and (2 − r̃) estimates AUC = (3 − r)/2 without bias.

        >>> from ipseval.metrics import metric
        >>> metric("auc", sampled="ls").table(3, 1).round(12) + 0.0
        array([1., 0.])
        """
        if self.method == "none":
            return compute_sampled_values(self.base, n_sampled)
        if self.method not in TABLE_METHODS:
            raise InputError(
                f"{self.label} is fitted to sampled ranks, and a table has none; use correct_sampled, or "
                f"sampled={', '.join(map(repr, TABLE_METHODS))}."
            )
        if classify_prior(self.prior, self.method) == "estimated":
            raise InputError(
                f"{self.label} estimates its prior from sampled ranks, and a table has none; pass "
                "prior='uniform' or p(r) of every rank."
            )
        values, _ = compute_correction_table(
            n_candidates,
            n_sampled,
            self.base,
            self.method,
            replacement=replacement,
            variance_weight=self.variance_weight,
            prior=self.prior,
        )
        return values

    def contributions(
        self, positives: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return the corrected contribution M̂(r̃) of each positive.

        Parameters
        ----------
        positives : RankedPositives
            Sampled ranks of the positives.
        weights : (n_pos,) float array or None, default None
            Weights of the positives, to which a rank distribution is fitted where the method needs one.
        ties : {"default", "expected"}, default "default"
            The tie rule, which averages over ties.

        Returns
        -------
        (n_pos,) float array
            Contributions in the order of the positives.

        Raises
        ------
        InputError
            For ranks that are not sampled, and for a tie rule other than "expected".
        """
        if self._resolve_tie_rule(positives, ties) != "expected":
            raise InputError(f"{self.label} averages over ties; ties={ties!r} is not defined for it.")
        data = read_sampled_ranks(
            positives,
            n_candidates=None,
            n_sampled=None,
            replacement=None,
            users=None,
            weights=weights,
            method=self.method,
        )
        return estimate_correction(
            data,
            self.base,
            self.method,
            variance_weight=self.variance_weight,
            prior=self.prior,
            n_iterations=self.n_iterations,
        ).contributions

    def _user_values(
        self, positives: RankedPositives, weights: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        return positives.mean_by_user(self.contributions(positives, weights, ties=rule), weights)

    def _unbiased(
        self, positives: RankedPositives, inverse: FloatArray, n_relevant: FloatArray | None, rule: TieRule
    ) -> FloatArray:
        assert n_relevant is not None
        total = positives.sum_by_user(self.contributions(positives, inverse, ties=rule) * inverse)
        return np.asarray(total / n_relevant)
