"""Estimates of all recommenders as arrays, and how well they meet a reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce

import numpy as np

from ipseval.estimators import Estimator, Sample, UserSums
from ipseval.estimators.estimate import independent_sums
from ipseval.inference.orders import RowOrders, measures
from ipseval.metrics import Metric
from ipseval.utils.ids import union
from ipseval.utils.types import FloatArray, IntArray

CRITERIA = ("mae", "tau_b", "src", "ipc", "or1", "regret")


@dataclass(frozen=True, eq=False)
class Estimates:
    """Estimates of K recommenders and metrics, with what each user adds to them."""

    users: IntArray  # (n,) codes, ascending
    numerator: FloatArray  # (n, K) N_u; 0 where the metric of the column is undefined for the user
    denominator: FloatArray  # (n, 1) or (n, K) D_u
    value: FloatArray  # (K,)
    share: FloatArray  # (n, K) ψ_u/n: what a user adds to the error of the estimate
    n_users: IntArray  # (K,) users that enter
    n_positives: int

    @classmethod
    def of_totals(
        cls, users: IntArray, numerator: FloatArray, denominator: FloatArray, *, n_positives: int
    ) -> Estimates:
        """Return ΣN/ΣD of what users add to both, (n, K) and (n, 1) or (n, K)."""
        total = denominator.sum(axis=0)
        value = numerator.sum(axis=0) / total
        share = numerator - denominator * value
        share /= total
        return cls(users, numerator, denominator, value, share, np.full(value.size, users.size), n_positives)

    @classmethod
    def of_sums(cls, sums: Sequence[UserSums], n_positives: int) -> Estimates:
        """Return the estimates that sums of users make, whatever they are."""
        users = reduce(union, (one.users for one in sums))
        numerator, denominator, share = (np.zeros((users.size, len(sums))) for _ in range(3))
        for column, one in enumerate(sums):
            place = np.searchsorted(users, one.users)
            numerator[place, column], denominator[place, column] = one.numerator, one.denominator
            share[place, column] = one.influence() / max(one.n_users, 1)
        value, n_users = (np.array(one) for one in zip(*((s.value(), s.n_users) for s in sums), strict=True))
        return cls(users, numerator, denominator, value, share, n_users, n_positives)

    @cached_property
    def std_error(self) -> FloatArray:
        """√(Σψ²/(n(n − 1))), (K,); NaN with fewer than two users."""
        return _errors(self.share, self.n_users)


def error_of_difference(one: Estimates, other: Estimates) -> FloatArray:
    """Return the standard errors of the differences, (K,); users that enter both count as paired."""
    users = union(one.users, other.users)
    share = np.zeros((users.size, one.value.size))
    share[np.searchsorted(users, one.users)] = one.share
    share[np.searchsorted(users, other.users)] -= other.share
    return _errors(share, np.full(one.value.size, users.size))


def _errors(share: FloatArray, n: IntArray) -> FloatArray:
    """Return √(Σ share² · n/(n − 1)) of what users add to K errors, (n_users, K)."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.sqrt(np.einsum("uk,uk->k", share, share) * np.where(n > 1, n / (n - 1), np.nan)))


def estimates(
    samples: Mapping[str, Sample], metrics: Sequence[Metric], kind: Estimator, contributions: FloatArray
) -> Estimates:
    """Return what `estimate` gives of each metric, and within it of each recommender, from c (n_pos, K)."""
    first = next(iter(samples.values()))
    for one in metrics:
        kind.check(one, is_probability=first.is_probability, n_relevant=first.n_relevant_kind)
    ranked = first.ranked
    forms = {kind.linear_form(one, ranked, is_probability=first.is_probability) for one in metrics}
    form = forms.pop() if len(forms) == 1 else None
    if form is None or form.is_sum or ranked.cluster is not None or np.isnan(contributions[:1]).any():
        sums = [independent_sums(sample, one, kind) for one in metrics for sample in samples.values()]
        return Estimates.of_sums(sums, len(ranked))
    # One form combines the contributions of all metrics.
    numerator, denominator = form.sums(first.weights if form.weighted else np.ones(0), contributions)
    return Estimates.of_totals(ranked.users, numerator, denominator[:, None], n_positives=len(ranked))


def contributions_of(samples: Mapping[str, Sample], metrics: Sequence[Metric]) -> FloatArray:
    """Return c of the positives of each metric and recommender, (n_pos, K); NaN where there is none."""
    found = [sample.contributions(one) for one in metrics for sample in samples.values()]
    size = len(next(iter(samples.values())).ranked)
    return np.column_stack([np.full(size, np.nan) if one is None else one for one in found])


def criteria(estimate: FloatArray, reference: FloatArray) -> FloatArray:
    """Return how estimates (…, R) of recommenders meet references (…, R): the six `CRITERIA`, (…, 6)."""
    # mae: mean absolute error. Order: τ_b, Spearman's correlation (average ranks on ties; NaN where all are
    # equal), inverted pairs, whether the best recommender is the same, and regret: the reference value of the
    # best recommender minus that of the one chosen by the estimate.
    own, true = (one.reshape(-1, one.shape[-1]) for one in (estimate, reference))
    order, right = RowOrders.of(own), RowOrders.of(true)
    found, every = measures(order, right, ()), np.arange(len(own))
    made = np.column_stack(
        [
            np.abs(own - true).mean(axis=1),
            *(found[name] for name in ("tau_b", "src", "ipc")),
            order.best == right.best,
            true[every, right.best] - true[every, order.best],
        ]
    )
    made[np.isnan(made[:, 0])] = np.nan
    return made.reshape(*estimate.shape[:-1], -1)


def resampled(one: Estimates, users: IntArray, weights: FloatArray) -> FloatArray:
    """Return ΣN/ΣD of estimates by rows of weights (n_weights, n_users), (n_weights, K); NaN: ΣD = 0."""
    n_estimates = one.value.size
    sums = np.zeros((users.size, n_estimates + one.denominator.shape[1]))
    sums[np.searchsorted(users, one.users)] = np.hstack([one.numerator, one.denominator])
    totals = weights @ sums
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(totals[:, :n_estimates] / totals[:, n_estimates:])


def user_weights(n_users: int, n_resamples: int, rng: np.random.Generator) -> FloatArray:
    """Return a row of ones and then `n_resamples` rows of bootstrap multiplicities, (1 + n, n_users)."""
    weights = np.ones((1 + n_resamples, n_users))
    for row in weights[1:]:
        row[:] = np.bincount(rng.integers(n_users, size=n_users), minlength=n_users)
    return weights
