"""A slow, independent evaluation in plain loops: no NumPy, no shared code with the library.

Ties are resolved by listing every order of the candidates that agrees with the scores and averaging the
textbook value over them ("expected"); AUC-type metrics count a tie as one half.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass


@dataclass
class User:
    """Scores of the user's candidates (training items removed) and its positives with their weights."""

    scores: dict[int, float]
    weights: dict[int, float]  # item -> 1/P; the positives


def orders(scores: dict[int, float]) -> list[list[int]]:
    groups: dict[float, list[int]] = {}
    for item, score in scores.items():
        groups.setdefault(score, []).append(item)
    choices = [list(itertools.permutations(groups[score])) for score in sorted(groups, reverse=True)]
    return [[item for group in combination for item in group] for combination in itertools.product(*choices)]


def discount(rank: int) -> float:
    return 1 / math.log2(1 + rank)


# Metrics that are sums over the positives, and the parts of denominators that depend on the number of relevant
# items: functions of s and of the length of the list. All other metrics are functions of the relevant ranks.
SUMS = ("cg", "dcg")
DENOMINATORS: dict[str, Callable[[int, int], int]] = {
    "recall": lambda s, depth: s,
    "hits": lambda s, depth: s,
    "mean_dcg": lambda s, depth: s,
    "adjusted_recall": min,
    "ap": min,
    "ap over s": lambda s, depth: s,
}


def parse_label(label: str) -> tuple[str, int | None]:
    """Return name and cutoff of a label; rbp has its p of 0.8, and other denominators have names of their own."""
    name, _, k = label.partition("@")
    if name == "precision(denominator=min)":
        name = "adjusted_recall"
    if name == "ap(denominator=s)":
        name = "ap over s"
    return name.partition("(")[0], int(k) if k else None


def textbook(name: str, k: int | None, order: list[int], weights: dict[int, float]) -> float:
    """Value of one user on one strict order with weights of its positives; equal ones: the plain value."""
    m = len(weights)
    n = len(order)
    depth = n if k is None else k
    rank = {item: place + 1 for place, item in enumerate(order)}
    top = [item for item in order if item in weights and rank[item] <= depth]
    total = sum(weights.values())
    largest = sorted(weights.values(), reverse=True)
    if name in ("recall", "hits"):
        return sum(weights[i] for i in top) / total
    if name == "cg":
        return m * sum(weights[i] for i in top) / total
    if name == "mean_dcg":
        return sum(weights[i] * discount(rank[i]) for i in top) / total
    if name == "dcg":
        return m * sum(weights[i] * discount(rank[i]) for i in top) / total
    if name == "precision":
        return sum(weights[i] for i in top) / sum(largest[:depth]) * min(depth, m) / depth
    if name == "adjusted_recall":
        return sum(weights[i] for i in top) / sum(largest[:depth])
    if name == "rbp":
        step = [0.2 * 0.8 ** (r - 1) for r in range(1, min(depth, m) + 1)]
        best = sum(w * c for w, c in zip(largest, step, strict=False))
        return sum(weights[i] * 0.2 * 0.8 ** (rank[i] - 1) for i in top) / best * sum(step)
    if name == "ndcg":
        best = sum(w * discount(r) for r, w in enumerate(largest[:depth], start=1))
        return sum(weights[i] * discount(rank[i]) for i in top) / best
    if name in ("ap", "ap over s"):
        value = 0.0
        for i in top:
            gain = sum(w for j, w in weights.items() if rank[j] <= rank[i])
            misses = sum(1 for j in order if j not in weights and rank[j] < rank[i])
            value += weights[i] * gain / (gain + total / m * misses)
        if name == "ap over s":
            return value / total
        return value / sum(largest[:depth])
    if name == "hit":
        return 1.0 if top else 0.0
    if name == "rr":
        return 1 / rank[top[0]] if top else 0.0
    raise KeyError(f"add the formula of {name} to the function textbook of tests/golden/oracle.py")


def unbiased(name: str, k: int | None, order: list[int], inverse: dict[int, float], s: int) -> float:
    """Unbiased form on one strict order, as a polynomial in ŷ over all subsets of the positives.

    Every metric of a relevance vector is multilinear: f(ŷ) = Σ_T f(1_T) Π_{i∈T} ŷ_i Π_{i∉T} (1 − ŷ_i), where
    functions of s that are given (not multilinear) are taken out first.
    """
    depth = len(order) if k is None else k
    denominator = DENOMINATORS.get(name, lambda s, depth: 1)
    items = list(inverse)
    value = 0.0
    for chosen in itertools.product([0, 1], repeat=len(items)):
        subset = [i for i, c in zip(items, chosen, strict=True) if c]
        if not subset:  # without relevant items the sum is 0
            continue
        weight = 1.0
        for i, c in zip(items, chosen, strict=True):
            weight *= inverse[i] if c else 1 - inverse[i]
        f = textbook(name, k, order, dict.fromkeys(subset, 1.0)) * denominator(len(subset), depth)
        value += weight * f
    return value / denominator(s, depth)


def mean_rank(user: User, item: int) -> float:
    above = sum(1 for candidate, score in user.scores.items() if score > user.scores[item])
    tied = sum(
        1 for candidate, score in user.scores.items() if score == user.scores[item] and candidate != item
    )
    return above + tied / 2 + 1


def user_value(name: str, k: int | None, user: User, weighted: bool) -> float:
    weights = user.weights if weighted else dict.fromkeys(user.weights, 1.0)
    total, m, n = sum(weights.values()), len(weights), len(user.scores)
    if name == "atop":
        if n == 1:
            return math.nan
        return sum(w * (n - mean_rank(user, i)) / (n - 1) for i, w in weights.items()) / total
    if name == "auc":
        if n == m:
            return math.nan
        value = 0.0
        for i, w in weights.items():
            negatives = [score for j, score in user.scores.items() if j not in weights]
            won = sum(
                1.0 if user.scores[i] > negative else 0.5 if user.scores[i] == negative else 0.0
                for negative in negatives
            )
            value += w * won / (n - m)
        return value / total
    every = orders(user.scores)
    return sum(textbook(name, k, order, weights) for order in every) / len(every)


def evaluate(name: str, k: int | None, users: list[User], estimator: str) -> float:
    """`aoa`, `snips` and their pooled, global and shrunk forms over the users that have positives."""
    name_of_estimator, _, parameter = estimator.rstrip(")").partition("(")
    if name_of_estimator not in (
        "aoa",
        "aoa-pooled",
        "snips",
        "snips-global",
        "snips-pooled",
        "snips-shrunk",
    ):
        raise NotImplementedError(f"Add the formula of {estimator!r} to evaluate of tests/golden/oracle.py.")
    users = [user for user in users if user.weights]
    weighted = estimator.startswith("snips")
    values = [user_value(name, k, user, weighted) for user in users]
    defined = [(user, value) for user, value in zip(users, values, strict=True) if not math.isnan(value)]
    if not defined:
        return math.nan
    if estimator in ("aoa", "snips"):
        return sum(value for _, value in defined) / len(defined)
    if name_of_estimator == "snips-shrunk":
        return shrunk(defined, float(parameter))
    if name in SUMS:
        if estimator == "aoa-pooled":
            return sum(value for _, value in defined) / len(defined)
        # Weights scaled so that all of them sum to the number of observed positives.
        weight = sum(sum(user.weights.values()) for user, _ in defined)
        count = sum(len(user.weights) for user, _ in defined)
        total = 0.0
        for user, value in defined:
            per_weight = value / len(user.weights)  # Σwg/Σw
            total += per_weight * sum(user.weights.values()) * count / weight
        return total / len(defined)
    numerator = denominator = 0.0
    for user, value in defined:
        w = sum(user.weights.values())
        m = len(user.weights)
        factor = {"aoa-pooled": float(m), "snips-global": w / m, "snips-pooled": w}[estimator]
        numerator += factor * value
        denominator += factor
    return numerator / denominator


def shrunk(defined: list[tuple[User, float]], shrinkage: float) -> float:
    """Mean over users of value · Σw / (λ Σw + (1 − λ) m w̄), where w̄ is the mean over users of Σw/m."""
    mean_weights = [sum(user.weights.values()) / len(user.weights) for user, _ in defined]
    overall = sum(mean_weights) / len(mean_weights)
    total = 0.0
    for user, value in defined:
        w = sum(user.weights.values())
        m = len(user.weights)
        total += value * w / (shrinkage * w + (1 - shrinkage) * m * overall)
    return total / len(defined)


def ips(name: str, k: int | None, users: list[User], relevant: list[int]) -> float:
    """Mean over all users of the unbiased form, with s_u given."""
    total = 0.0
    for user, s in zip(users, relevant, strict=True):
        n = len(user.scores)
        if name == "atop":
            total += sum(w * (n - mean_rank(user, i)) / (n - 1) for i, w in user.weights.items()) / s
        elif name == "auc":
            won = sum(w * (n - mean_rank(user, i)) for i, w in user.weights.items())
            total += (won - s * (s - 1) / 2) / (s * (n - s))
        else:
            every = orders(user.scores)
            total += sum(unbiased(name, k, order, user.weights, s) for order in every) / len(every)
    return total / len(users)
