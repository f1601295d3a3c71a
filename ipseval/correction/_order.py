"""The ranking of the recommenders by one metric, with its leader and the recommended choice."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ipseval.utils.types import FloatArray

# Probability to be better than every other recommender that a leader must reach.
WINNER_PROBABILITY = 0.95

# Standard errors of the difference by which the random sample itself must have a leader ahead of every other
# recommender. The posterior ties contrasts to AOA, and so may name a recommender that benefits from bias.
WINNER_LEAD = 0.5

# Probability to be better than the first recommender by AOA that a challenger must reach: with nobody exposed,
# and from this number of exposed users on. In between it falls in proportion to their number.
CHALLENGER_PROBABILITY = 0.8
EVIDENT_PROBABILITY = 0.5
N_EVIDENT_USERS = 100

# Averages are compared up to these decimals, because their last digits are rounding.
DIGITS = 12
TIE_TOLERANCE = 16 * float(np.finfo(np.float64).eps)


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
        Interval of the bias-corrected estimate, limited to [0, 1], the range of these metrics.
    expected_regret : (n_models,) array
        E[max θ] − E[θ]: the average loss of choosing a recommender instead of the best recommender.
    p_better : (n_models, n_models) array
        P(θ_row > θ_column).
    is_explained : bool
        Whether the model of exposure fits the log. If not, there is no leader.
    n_exposed : int
        Number of users with random exposure.
    sample_lead : (n_models, n_models) array or None
        Difference of row and column in the random sample alone, in standard errors of the difference; None
        without a random sample, so that there is no leader.
    """

    metric: str
    models: tuple[str, ...]
    aoa_pooled: FloatArray
    corrected: FloatArray
    ci_low: FloatArray
    ci_high: FloatArray
    expected_regret: FloatArray
    p_better: FloatArray
    is_explained: bool = True
    n_exposed: int = 0
    sample_lead: FloatArray | None = None

    @property
    def has_probabilities(self) -> bool:
        """Whether `p_better` rests on random items and a fitting model, and not mainly on the prior."""
        return self.sample_lead is not None and self.is_explained

    def probability_better(self, model: str, reference: str) -> float:
        """Return P(model better than reference)."""
        return float(self.p_better[self.models.index(model), self.models.index(reference)])

    def get_regret(self, model: str) -> float:
        """Return the expected regret of choosing a recommender."""
        return float(self.expected_regret[self.models.index(model)])


def rank_by_aoa(aoa_pooled: FloatArray) -> list[int]:
    """Return the positions of the recommenders by AOA, the highest first; ties keep their order."""
    positions = np.argsort(-np.round(aoa_pooled, DIGITS), kind="stable")
    return [int(position) for position in positions]


def find_tied_first(order: MetricOrder) -> tuple[str, ...]:
    """Return the recommenders that share the highest AOA; empty if a single recommender has it."""
    is_tied = order.aoa_pooled[0] - order.aoa_pooled <= TIE_TOLERANCE
    if is_tied.sum() < 2:
        return ()
    return tuple(order.models[position] for position in np.flatnonzero(is_tied))


def find_strongest_rival(order: MetricOrder, model: str) -> str | None:
    """Return the recommender that a model is least probably better than; None for a single recommender."""
    rival = None
    for reference in order.models:
        if reference == model:
            continue
        probability = order.probability_better(model, reference)
        if rival is None or probability < order.probability_better(model, rival):
            rival = reference
    return rival


def least_probability_better(order: MetricOrder, model: str) -> float:
    """Return the smallest probability to be better than another recommender; NaN for a single recommender."""
    rival = find_strongest_rival(order, model)
    if rival is None:
        return float("nan")
    return order.probability_better(model, rival)


def least_sample_lead(order: MetricOrder, model: str) -> float:
    """Return by how many standard errors the random sample has a model ahead of others, at the least.

    −inf without a random sample; NaN for a single recommender.
    """
    if order.sample_lead is None:
        return -float("inf")
    row = order.models.index(model)
    leads = np.delete(order.sample_lead[row], row)
    if not leads.size:
        return float("nan")
    return float(leads.min())


def compute_challenger_threshold(n_exposed: int) -> float:
    """Return the probability that a challenger must reach, with a number of exposed users.

    Examples
    --------
    >>> [round(compute_challenger_threshold(n_exposed), 2) for n_exposed in (0, 50, 100, 400)]
    [0.8, 0.65, 0.5, 0.5]
    """
    share = min(n_exposed / N_EVIDENT_USERS, 1.0)
    return CHALLENGER_PROBABILITY - share * (CHALLENGER_PROBABILITY - EVIDENT_PROBABILITY)


def find_challenger(order: MetricOrder) -> str | None:
    """Return the recommender that is most probably better than the first by AOA, if P reaches the threshold."""
    first = order.models[0]
    threshold = compute_challenger_threshold(order.n_exposed)
    challenger = None
    highest = EVIDENT_PROBABILITY
    for model in order.models[1:]:
        probability = order.probability_better(model, first)
        if probability >= threshold and probability > highest:
            challenger = model
            highest = probability
    return challenger


def choose_recommender(order: MetricOrder) -> str:
    """Return the best choice given the present data: the first recommender by AOA, or its challenger."""
    if find_tied_first(order):
        return order.models[0]
    return find_challenger(order) or order.models[0]


def find_leader(order: MetricOrder) -> str | None:
    """Return the recommender that is better than every other with a probability of 0.95 or more.

    The random sample itself must have it ahead of every other by at least half a standard error. So there is
    no leader without a random sample. There is none either where the model of exposure does not
    fit the log, and where several recommenders are tied for the first rank.
    """
    if len(order.models) == 1 or find_tied_first(order):
        return None
    if order.sample_lead is None or not order.is_explained:
        return None
    choice = choose_recommender(order)
    if least_probability_better(order, choice) < WINNER_PROBABILITY:
        return None
    if least_sample_lead(order, choice) < WINNER_LEAD:
        return None
    return choice
