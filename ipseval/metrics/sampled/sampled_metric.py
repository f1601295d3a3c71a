"""The public function `metric`, and metrics that correct sampled ranks by M̂ in place of c(r)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ipseval.errors import InputError
from ipseval.metrics.base import Definition, Metric
from ipseval.metrics.labels import parse_metric
from ipseval.metrics.sampled._correction import METHODS, Method, classify_prior, correct_sampled
from ipseval.metrics.sampled._correction_table import TABLE_METHODS, compute_correction_table
from ipseval.metrics.sampled._expectation import compute_sampled_values
from ipseval.ranking import RankedPositives
from ipseval.utils.checks import as_list, check_choice, distinct_labels
from ipseval.utils.public import public_class, public_function
from ipseval.utils.types import FloatArray, TieChoice, TieRule

Prior = Literal["uniform", "estimated"]


@public_class
@dataclass(frozen=True, eq=False, repr=False)
class SampledMetric(Metric):
    """A metric of mean type for sampled ranks: (1/s) Σ M̂(r̃), with M̂ in place of the contribution c(r).

    ``ipseval.metric(label, sampled=method)`` creates it. Every estimator that reads c(r) reads M̂(r̃): the
    propensity weights correct for the unobserved positives, and M̂ for the candidates that were not ranked.
    Standard errors are those of the estimator, with M̂ held fixed.

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
        return correct_sampled(
            positives,
            metric=self.base,
            method=self.method,
            weights=weights,
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


@public_function
def metric(
    label: str | Metric,
    *,
    sampled: Method | None = None,
    variance_weight: float = 0.01,
    prior: Prior | npt.ArrayLike | None = None,
    n_iterations: int = 100,
    **parameters: Any,
) -> Metric:
    """Return the metric that a label names; its repr is the label.

    Parameters
    ----------
    label : str or Metric
        A label such as "recall@10", "auc", "rbp(0.9)" or "dcg(gain=exponential)@10", in any case. Common
        other names are accepted ("mrr", "map@10", "hr@10", "p@5"). A Metric object is returned as it is.
    sampled : str, optional
        "bv", "mle", "cls", "rank", "ls", "importance" or "none": the metric for ranks among sampled
        candidates, corrected by that method of `correct_sampled`; its label is "recall@10~bv". The value of a
        positive is an estimate of the metric for that one positive, and the value of a user their
        (weighted) mean. So ndcg and ap are in the form for one relevant item: 1/log2(1 + r) and 1/r.
    variance_weight : float, default 0.01
        Option of the correction, see `correct_sampled`.
    prior : "uniform", "estimated" or (n,) array, optional
        Option of the correction, see `correct_sampled`.
    n_iterations : int, default 100
        Option of the correction, see `correct_sampled`.
    **parameters
        Parameters of the metric, as in the parentheses of a label:
        ``metric("precision@10", denominator="min")``.

    Returns
    -------
    Metric
        An object of the class that the label names, for `metrics` of `evaluate`.

    Raises
    ------
    UnknownNameError
        For a name or parameter that does not exist.
    InputError
        For a cutoff that is missing, not allowed, or not an integer >= 1, or a bad parameter value.

    See Also
    --------
    ipseval.estimators.card : Print the formula, the conventions and the guarantees of a metric.
    ipseval.register : Register a custom metric under a label.

    Examples
    --------
    >>> metric("nDCG@10"), metric("MAP@5")
    (ndcg@10, ap@5)
    >>> metric("recall@10", sampled="bv"), metric("ndcg~mle")
    (recall@10~bv, ndcg~mle)
    """
    if isinstance(label, str) and "~" in label:
        label, sampled = _split_correction(label, sampled)
    base = parse_metric(label, **parameters)
    if sampled is None:
        return base
    check_choice("sampled", sampled, METHODS)
    if isinstance(prior, str):
        check_choice("prior", prior, ("uniform", "estimated"))
    base.at_rank(np.ones(1), 2.0)  # raises for a metric that is not a function of one rank
    return SampledMetric(
        label=f"{base.label}~{sampled}",
        base=base,
        method=sampled,
        variance_weight=variance_weight,
        prior=prior,
        n_iterations=n_iterations,
    )


def _split_correction(label: str, sampled: Method | None) -> tuple[str, Method]:
    """Return the label before ~ and the correction after it, which must agree with `sampled`."""
    base_label, _, method_text = label.partition("~")
    base_label = base_label.strip()
    method: Any = method_text.strip()
    if sampled not in (None, method):
        raise InputError(f"metric {base_label!r}: the label says ~{method}, sampled={sampled!r}.")
    check_choice("the correction after ~", method, METHODS)
    return base_label, method


def resolve_metrics(metrics: Iterable[str | Metric]) -> list[Metric]:
    """Return the metrics that labels or objects name, without repetitions."""
    metric_objects = []
    for label in as_list(metrics, "metrics"):
        metric_objects.append(metric(label))

    return distinct_labels(metric_objects, "metrics")
