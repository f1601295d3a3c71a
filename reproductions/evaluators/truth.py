"""The truth of one split: what the users whom no evaluator sees liked of randomly shown items.

The mean over relevant interactions is estimated by the mean over all liked random items. The mean over users
is over the users who have liked random items and held-out interactions, which is the population of the
evaluators of that mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import kendalltau

from ipseval.metrics import metric
from reproductions.evaluators.context import Estimand, PreparedSplit, Ranks

ESTIMANDS: tuple[Estimand, ...] = ("interactions", "users")
N_REPLICATES = 300
N_HALVES = 40
BOOTSTRAP_SEED = 65


@dataclass(frozen=True, eq=False)
class UserSums:
    """Sums of users from which a truth is computed: value = Σ numerator / Σ denominator.

    Attributes
    ----------
    users : (n_users,) int array
    numerator : (n_users, n_cells) array
        One column for each model and metric, metrics varying fastest.
    denominator : (n_users,) array
    """

    users: np.ndarray
    numerator: np.ndarray
    denominator: np.ndarray

    @property
    def value(self) -> np.ndarray:
        """Value of each cell, (n_cells,)."""
        return np.asarray(self.numerator.sum(axis=0) / self.denominator.sum())

    def compute_deviations(self) -> np.ndarray:
        """Return the influence of each user on each value, (n_users, n_cells)."""
        deviations = self.numerator - self.value * self.denominator[:, None]
        return np.asarray(deviations / self.denominator.sum())

    def compute_error(self, deviations: np.ndarray) -> np.ndarray:
        """Return standard errors from the influence of users, (n_cells,)."""
        n_users = self.users.size
        return np.asarray(np.sqrt(n_users / (n_users - 1) * (deviations**2).sum(axis=0)))

    def resample(self, weights: np.ndarray) -> np.ndarray:
        """Return the values under weights of users, (n_replicates, n_users) -> (n_replicates, n_cells)."""
        totals = weights @ self.numerator
        counts = weights @ self.denominator
        return np.asarray(totals / counts[:, None])


def sum_users(ranks: Ranks, metrics: tuple[str, ...], estimand: Estimand) -> UserSums:
    """Return the sums of users of one estimand."""
    first = next(iter(ranks.values()))
    counts = np.asarray(first.counts, dtype=np.float64)
    denominator = counts
    if estimand == "users":
        denominator = np.ones(counts.size)
    columns = []
    for ranked in ranks.values():
        for label in metrics:
            columns.append(metric(label).user_values(ranked) * denominator)
    return UserSums(np.asarray(first.users), np.column_stack(columns), denominator)


def measure_truth(prepared: PreparedSplit) -> dict[str, Any]:
    """Return values, errors, differences of pairs, reliability and replicates of both estimands."""
    context = prepared.context
    weights = draw_user_weights(prepared.users, context.split.n_users)
    truth: dict[str, Any] = {
        "models": list(context.models),
        "metrics": list(context.metrics),
        "n_training": len(context.split.train),
        "n_held_out": len(context.split.test),
        "n_liked_by_seen_users": int(context.exposure.positive.sum()),
        "n_seen_users": int(np.unique(context.exposure.user).size),
    }
    for estimand in ESTIMANDS:
        ranks = prepared.truth_ranks
        if estimand == "users":
            ranks = {
                name: ranked.select(np.isin(ranked.user, prepared.truth_held_out_users))
                for name, ranked in ranks.items()
            }
        sums = sum_users(ranks, context.metrics, estimand)
        truth[estimand] = describe_sums(sums, weights[:, sums.users], len(context.models), context.seed)
    return truth


def draw_user_weights(users: np.ndarray, n_users: int) -> np.ndarray:
    """Return how often each user is in each bootstrap sample, (n_replicates, n_users); equal in all splits."""
    rng = np.random.default_rng(BOOTSTRAP_SEED)
    counts = rng.multinomial(users.size, np.full(users.size, 1 / users.size), size=N_REPLICATES)
    weights = np.zeros((N_REPLICATES, n_users))
    weights[:, users] = counts
    return weights


def describe_sums(sums: UserSums, weights: np.ndarray, n_models: int, seed: int) -> dict[str, Any]:
    """Return what is kept of the truth of one estimand, in lists of models × metrics."""
    deviations = sums.compute_deviations()
    shape = (n_models, -1)
    value = sums.value.reshape(shape)
    pairs = list(combinations(range(n_models), 2))
    by_model = deviations.reshape(sums.users.size, n_models, -1)
    difference_errors = []
    for first, second in pairs:
        difference_errors.append(sums.compute_error(by_model[:, first] - by_model[:, second]).tolist())
    return {
        "value": value.tolist(),
        "error": sums.compute_error(deviations).reshape(shape).tolist(),
        "difference_error": difference_errors,
        "tau_of_halves": compare_halves(sums, n_models, seed).tolist(),
        "replicates": sums.resample(weights).reshape(len(weights), n_models, -1).tolist(),
        "n_users": int(sums.users.size),
        "total": float(sums.denominator.sum()),
    }


def compare_halves(sums: UserSums, n_models: int, seed: int) -> np.ndarray:
    """Return the mean Kendall τ of the orders of two random halves of the users, (n_metrics,)."""
    rng = np.random.default_rng([seed, N_HALVES])
    taus = []
    for _ in range(N_HALVES):
        in_first = rng.permutation(sums.users.size) < sums.users.size // 2
        halves = sums.resample(np.stack([in_first, ~in_first]).astype(float))
        first, second = halves.reshape(2, n_models, -1)
        taus.append([kendalltau(a, b).statistic for a, b in zip(first.T, second.T, strict=True)])
    return np.asarray(np.nan_to_num(taus).mean(axis=0))
