"""Estimates of all recommenders as arrays, and criteria of their agreement with a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from ipseval.estimators import Estimator, LinearForm, Sample, UserSums
from ipseval.inference.orders import RowOrders, compute_agreement
from ipseval.metrics import Metric
from ipseval.utils.ids import union_keys
from ipseval.utils.types import FloatArray, IntArray

CRITERIA = ("mae", "tau_b", "src", "ipc", "or1", "regret")


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of K recommenders and metrics, with the contribution of each user to them."""

    users: IntArray  # (n,) codes, ascending
    numerator: FloatArray  # (n, K) N_u; 0 where the metric of the column is undefined for the user
    denominator: FloatArray  # (n, 1) or (n, K) D_u
    value: FloatArray  # (K,)
    share: FloatArray  # (n, K) ψ_u/n: contribution of a user to the error of the estimate
    n_users: IntArray  # (K,) users that enter
    n_positives: int

    @classmethod
    def from_totals(
        cls, users: IntArray, numerator: FloatArray, denominator: FloatArray, *, n_positives: int
    ) -> Estimates:
        """Return ΣN/ΣD from the numerators (n, K) and denominators (n, 1) or (n, K) of users."""
        total = denominator.sum(axis=0)
        value = numerator.sum(axis=0) / total
        share = numerator - denominator * value
        share /= total
        return cls(
            users=users,
            numerator=numerator,
            denominator=denominator,
            value=value,
            share=share,
            n_users=np.full(value.size, users.size),
            n_positives=n_positives,
        )

    @classmethod
    def from_sums(cls, sums: Sequence[UserSums], n_positives: int) -> Estimates:
        """Return the estimates of one sum of users per column; columns may have different users."""
        users = reduce(union_keys, (user_sums.users for user_sums in sums))
        shape = (users.size, len(sums))
        numerator = np.zeros(shape)
        denominator = np.zeros(shape)
        share = np.zeros(shape)
        for column, user_sums in enumerate(sums):
            rows = np.searchsorted(users, user_sums.users)
            numerator[rows, column] = user_sums.numerator
            denominator[rows, column] = user_sums.denominator
            share[rows, column] = user_sums.influence() / max(user_sums.n_users, 1)
        return cls(
            users=users,
            numerator=numerator,
            denominator=denominator,
            value=np.array([user_sums.value() for user_sums in sums]),
            share=share,
            n_users=np.array([user_sums.n_users for user_sums in sums]),
            n_positives=n_positives,
        )

    @cached_property
    def std_error(self) -> FloatArray:
        """√(Σψ²/(n(n − 1))), (K,); NaN with fewer than two users."""
        return _compute_standard_errors(self.share, self.n_users)


def error_of_difference(first: Estimates, second: Estimates) -> FloatArray:
    """Return the standard errors of the differences, (K,); users that enter both estimates are paired."""
    users = union_keys(first.users, second.users)
    share = np.zeros((users.size, first.value.size))
    share[np.searchsorted(users, first.users)] = first.share
    share[np.searchsorted(users, second.users)] -= second.share
    return _compute_standard_errors(share, np.full(first.value.size, users.size))


def _compute_standard_errors(share: FloatArray, n_users: IntArray) -> FloatArray:
    """Return √(Σ share² · n/(n − 1)) from the contributions of users to K errors, (n_users, K)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        squares = np.einsum("uk,uk->k", share, share)
        factor = np.where(n_users > 1, n_users / (n_users - 1), np.nan)
        return np.asarray(np.sqrt(squares * factor))


def compute_estimates(
    samples: Mapping[str, Sample],
    metrics: Sequence[Metric],
    estimator: Estimator,
    contributions: FloatArray,
) -> Estimates:
    """Return the values of `estimate`, by metric and within it by recommender, from c (n_pos, K)."""
    first = next(iter(samples.values()))
    for metric in metrics:
        estimator.check(metric, is_probability=first.is_probability, n_relevant=first.n_relevant_kind)
    ranked = first.ranked
    form = _find_common_form(first, metrics, estimator)
    if form is None or form.is_sum or ranked.cluster is not None or np.isnan(contributions[:1]).any():
        sums: list[UserSums] = []
        for metric in metrics:
            for sample in samples.values():
                sums.append(estimator.sums(sample, metric).by_cluster(sample.ranked.cluster))
        return Estimates.from_sums(sums, len(ranked))
    weights = first.weights if form.weighted else np.ones(0)
    numerator, denominator = form.sums(weights, contributions)
    return Estimates.from_totals(ranked.users, numerator, denominator[:, None], n_positives=len(ranked))


def _find_common_form(sample: Sample, metrics: Sequence[Metric], estimator: Estimator) -> LinearForm | None:
    """Return the form that combines the contributions of all metrics; None where they have several."""
    forms = set()
    for metric in metrics:
        forms.add(estimator.linear_form(metric, sample.ranked, is_probability=sample.is_probability))
    if len(forms) != 1:
        return None
    return forms.pop()


def compute_contributions(samples: Mapping[str, Sample], metrics: Sequence[Metric]) -> FloatArray:
    """Return c of the positives of each metric and recommender, (n_pos, K); NaN where there is none."""
    n_positives = len(next(iter(samples.values())).ranked)
    columns = []
    for metric in metrics:
        for sample in samples.values():
            contributions = sample.contributions(metric)
            if contributions is None:
                contributions = np.full(n_positives, np.nan)
            columns.append(contributions)
    return np.column_stack(columns)


def compute_criteria(estimates: FloatArray, references: FloatArray) -> FloatArray:
    """Return the agreement of estimates (…, R) of recommenders with references (…, R), (…, 6).

    The columns are `CRITERIA`. mae: mean absolute error. tau_b: Kendall's τ_b. src: Spearman's correlation
    (average ranks on ties; NaN where all values are equal). ipc: inverted pairs. or1: whether the best
    recommender is the same. regret: the reference value of the best recommender minus the reference value of
    the recommender that the estimate ranks first.
    """
    estimate_rows = estimates.reshape(-1, estimates.shape[-1])
    reference_rows = references.reshape(-1, references.shape[-1])
    estimate_orders = RowOrders.from_values(estimate_rows)
    reference_orders = RowOrders.from_values(reference_rows)
    agreement = compute_agreement(estimate_orders, reference_orders, ())
    rows = np.arange(len(estimate_rows))
    criteria = np.column_stack(
        [
            np.abs(estimate_rows - reference_rows).mean(axis=1),
            agreement["tau_b"],
            agreement["src"],
            agreement["ipc"],
            estimate_orders.best == reference_orders.best,
            reference_rows[rows, reference_orders.best] - reference_rows[rows, estimate_orders.best],
        ]
    )
    criteria[np.isnan(criteria[:, 0])] = np.nan
    return criteria.reshape(*estimates.shape[:-1], -1)


def resample_estimates(estimates: Estimates, users: IntArray, weights: FloatArray) -> FloatArray:
    """Return ΣN/ΣD of estimates by rows of weights (n_weights, n_users), (n_weights, K); NaN: ΣD = 0."""
    n_estimates = estimates.value.size
    sums = np.zeros((users.size, n_estimates + estimates.denominator.shape[1]))
    rows = np.searchsorted(users, estimates.users)
    sums[rows] = np.hstack([estimates.numerator, estimates.denominator])
    totals = weights @ sums
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(totals[:, :n_estimates] / totals[:, n_estimates:])


def draw_user_weights(n_users: int, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """Return a row of ones and then `n_resamples` rows of bootstrap multiplicities, (1 + n, n_users)."""
    weights = np.ones((1 + n_resamples, n_users))
    for row in weights[1:]:
        row[:] = np.bincount(rng.integers(n_users, size=n_users), minlength=n_users)
    return weights
