"""The ranking of the recommenders by one metric, and whom a correction names: leader and choice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval.utils.types import FloatArray

WINNER_PROBABILITY = 0.95  # to be better than every other recommender, from which a leader is named
CHALLENGER_PROBABILITY = 0.8  # to be better than AOA's first, from which a challenger takes its place
DIGITS = 12  # decimals by which averages are ordered
TIE_TOLERANCE = 16 * float(np.finfo(np.float64).eps)  # differences of averages that are rounding


@dataclass(frozen=True, eq=False, kw_only=True)
class MetricOrder:
    """The recommenders by one metric, ordered by AOA over held-out interactions, the first on top.

    Attributes
    ----------
    metric : str
    models : tuple of str
    aoa_pooled, corrected : (n_models,) arrays
        AOA and the bias-corrected estimate, means over relevant interactions.
    ci_low, ci_high : (n_models,) arrays
        Interval of the bias-corrected estimate, limited to [0, 1], where these metrics lie.
    expected_regret : (n_models,) array
        E[max θ] − E[θ]: what choosing a recommender loses on average to the best one.
    p_better : (n_models, n_models) array
        P(θ_row > θ_column).
    is_informed : bool
        Whether the posterior knows more about the order than the log alone: random exposure or interactions.
    is_explained : bool
        Whether the density ratio of the log explains exposure. If not, no leader is named.
    """

    metric: str
    models: tuple[str, ...]
    aoa_pooled: FloatArray
    corrected: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    expected_regret: FloatArray
    p_better: FloatArray
    is_informed: bool = False
    is_explained: bool = True

    def probability_better(self, model: str, reference: str) -> float:
        """Return P(model better than reference)."""
        return float(self.p_better[self.models.index(model), self.models.index(reference)])

    def regret_of(self, model: str) -> float:
        """Return the expected regret of choosing a recommender."""
        return float(self.expected_regret[self.models.index(model)])


def rank_by_aoa(aoa_pooled: FloatArray) -> list[int]:
    """Return the positions of the recommenders by AOA, the highest first; equal ones keep their order."""
    ordered = np.argsort(-np.round(aoa_pooled, DIGITS), kind="stable")
    return [int(position) for position in ordered]


def find_tied_first(order: MetricOrder) -> tuple[str, ...]:
    """Return the recommenders that share the highest AOA; none where one is alone."""
    gaps = order.aoa_pooled[0] - order.aoa_pooled
    tied = tuple(model for model, gap in zip(order.models, gaps, strict=True) if gap <= TIE_TOLERANCE)
    return tied if len(tied) > 1 else ()


def least_probability_better(order: MetricOrder, model: str) -> float:
    """Return the smallest probability that a recommender is better than one of the others; NaN if alone."""
    others = [reference for reference in order.models if reference != model]
    probabilities = [order.probability_better(model, reference) for reference in others]
    return min(probabilities, default=float("nan"))


def find_challenger(order: MetricOrder) -> str | None:
    """Return the recommender that is most probably better than AOA's first, from a probability of 0.8 on."""
    first = order.models[0]
    challenger = None
    highest = CHALLENGER_PROBABILITY
    for model in order.models[1:]:
        probability = order.probability_better(model, first)
        if probability > highest or (challenger is None and probability == highest):
            challenger = model
            highest = probability
    return challenger


def choose_recommender(order: MetricOrder) -> str:
    """Return the recommender to keep until more is known: AOA's first, or its challenger."""
    if find_tied_first(order):
        return order.models[0]
    return find_challenger(order) or order.models[0]


def find_leader(order: MetricOrder) -> str | None:
    """Return the recommender that is better than every other one with a probability of 0.95 or more.

    None without data about exposure, where the density ratio of the log does not explain exposure, and where
    several recommenders are tied for first place.
    """
    if len(order.models) == 1 or find_tied_first(order):
        return None
    if not (order.is_informed and order.is_explained):
        return None
    choice = choose_recommender(order)
    return choice if least_probability_better(order, choice) >= WINNER_PROBABILITY else None
