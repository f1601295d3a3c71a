"""Corrected metrics for the evaluation layer: the correction replaces c(r), the weights stay."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from ipseval._checks import check_choice
from ipseval._types import FloatArray, TieChoice, TieRule
from ipseval.errors import InputError
from ipseval.metrics import Definition, Metric, metric
from ipseval.ranking import RankedPositives
from ipseval.sampled_metrics._correct import METHODS, Method, correct_sampled
from ipseval.sampled_metrics._targets import single_target


@dataclass(frozen=True, eq=False, repr=False)
class SampledMetric(Metric):
    """A metric of mean type for sampled ranks: (1/s) Σ M̂(r̃), with M̂ in place of the contribution c(r).

    Every estimator that takes c(r) takes M̂(r̃): the propensity weights undo what was not observed, M̂ what
    was not ranked. Standard errors are those of the estimator, with M̂ held fixed.
    """

    target_label: str = field(kw_only=True)
    method: Method = field(kw_only=True)
    options: dict[str, Any] = field(kw_only=True)

    name = "sampled"
    kind = "mean"
    takes_cutoff = "none"
    needs_n_relevant = True
    value_range = (float("-inf"), float("inf"))
    by_user = False  # M̂ is estimated from the ranks of all users
    corrects_sampling = True

    @property
    def approximate(self) -> str:  # type: ignore[override]  # follows from the correction
        """Why nothing is claimed of any estimator; "" for AUC, whose correction is unbiased."""
        linear = metric(self.target_label).linear_in_rank and self.method in ("rank", "importance")
        return "" if linear else "the correction for sampling is not unbiased"

    @property
    def definition(self) -> Definition:  # type: ignore[override]
        """The words of the card."""
        return Definition(
            formula=f"(1/s) Σ_{{i∈S}} M̂(r̃_i): {self.target_label} from sampled ranks by {self.method!r}",
            denominator="s, the number of relevant items",
        )

    def contributions(
        self, ranked: RankedPositives, weights: FloatArray | None = None, *, ties: TieChoice = "default"
    ) -> FloatArray:
        """Return M̂(r̃) of each positive, (n_pos,).

        A rank distribution that is fitted on the way is that of the positives weighted by `weights`.

        Raises
        ------
        InputError
            For ranks that are not sampled, and for a tie rule other than "expected".
        """
        if self._rule(ranked, ties) != "expected":
            raise InputError(f"{self.label} averages over ties; ties={ties!r} is not defined for it.")
        return correct_sampled(
            ranked, metric=self.target_label, method=self.method, weights=weights, **self.options
        ).contributions

    def _user_values(self, ranked: RankedPositives, weights: FloatArray | None, rule: TieRule) -> FloatArray:
        return ranked.mean_by_user(self.contributions(ranked, weights, ties=rule), weights)

    def _unbiased(
        self, ranked: RankedPositives, inverse: FloatArray, n_relevant: Any, rule: TieRule
    ) -> FloatArray:
        total = ranked.sum_by_user(self.contributions(ranked, inverse, ties=rule) * inverse)
        return np.asarray(total / n_relevant)


def sampled_metric(
    metric: Any,
    method: Method = "bv",
    *,
    variance_weight: float = 0.01,
    prior: Literal["uniform", "estimated"] | npt.ArrayLike | None = None,
    n_iterations: int = 100,
) -> SampledMetric:
    """Return a metric for `evaluate_ranks` that corrects sampled ranks: use it with any estimator.

    The value of a positive is M̂(r̃), an estimate of the metric M for that positive alone; a user's value is
    their (weighted) mean. So recall@k and mean_dcg@k are estimated as such; ndcg and ap in the form for one
    relevant item (1/log2(1 + r) and 1/r), which is mean_dcg for ndcg.

    Parameters
    ----------
    metric : str or metric object
        With a single-target form; see `correct_sampled`, which has the other parameters too.

    Raises
    ------
    InputError, UnknownNameError
        For a metric without a single-target form or an unknown method.

    Examples
    --------
    >>> sampled_metric("recall@10", "bv"), sampled_metric("ndcg", "mle")
    (recall@10~bv, ndcg~mle)
    """
    check_choice("method", method, METHODS)
    target = single_target(metric)
    options = {"variance_weight": variance_weight, "prior": prior, "n_iterations": n_iterations}
    label = f"{target.label}~{method}"
    return SampledMetric(label=label, target_label=target.label, method=method, options=options)
