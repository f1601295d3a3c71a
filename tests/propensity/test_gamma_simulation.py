"""γ from simulated lists: the bias of each method, and the coverage of the bootstrap.

Lists hold the 50 items with the highest γ·log n* + item effect + Gumbel noise: Plackett–Luce draws without
replacement. n* = ⌊1/(1 − U)⌋ with U uniform, at most 1000: P(n* >= x) = 1/x, a power law with density
exponent 2.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ipseval.errors import IdentificationWarning
from ipseval.propensity import fit_gamma

N_ITEMS = 5000
N_LISTS = 3000
LENGTH = 50
REPETITIONS = 4

# Means of at least four repetitions, of an independent implementation, with another power law for n*.
TABLE = {
    # (item effect's sd, γ): level-ols, negative-binomial, cloglog; all without the top 0.5 % of items
    (0, 1.0): (0.97, 0.98, 1.00),
    (0, 1.7): (1.63, 1.66, 1.70),
    (0, 2.5): (2.36, 2.41, 2.50),
    (1, 0.5): (0.30, 0.50, 0.50),
    (1, 1.0): (0.78, 0.97, 0.95),
    (1, 1.7): (1.45, 1.66, 1.63),
    (1, 2.5): (2.19, 2.45, 2.35),
}
METHODS = ("level-ols", "negative-binomial", "cloglog")


def simulate_lists(seed: int, gamma: float, noise: float, n_items=N_ITEMS, n_lists=N_LISTS, length=LENGTH):
    """Return n* and the lists, (n_lists, length)."""
    rng = np.random.default_rng(seed)
    popularity = np.floor(1 / (1 - rng.random(n_items))).clip(1, 1000)
    score = gamma * np.log(popularity) + noise * rng.standard_normal(n_items)
    blocks = [
        np.argpartition(-(score + rng.gumbel(size=(size, n_items))), length, axis=1)[:, :length]
        for size in np.diff(np.append(np.arange(0, n_lists, 500), n_lists))
    ]
    return popularity, np.concatenate(blocks)


def repeat_estimates(gamma: float, noise: float, n_repetitions: int, **sizes) -> np.ndarray:
    """Return γ by repetition and method."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)  # γ > 1, by construction
        return np.array(
            [
                [
                    fit_gamma(*simulate_lists(seed, gamma, noise, **sizes), method=method).gamma
                    for method in METHODS
                ]
                for seed in range(n_repetitions)
            ]
        )


@pytest.mark.slow
@pytest.mark.parametrize(("noise", "gamma"), TABLE)
def test_every_method_has_the_bias_that_was_computed_for_it(noise, gamma):
    table = repeat_estimates(gamma, noise, REPETITIONS)
    error = table.std(axis=0, ddof=1) / np.sqrt(REPETITIONS)
    # Both sides are means over four draws of the world, and the printed one is rounded to .01.
    tolerance = 4 * np.sqrt(2) * error + 0.005
    assert np.all(np.abs(table.mean(axis=0) - TABLE[noise, gamma]) < tolerance), (table.mean(0), tolerance)


def test_cloglog_has_no_bias_for_saturated_lists():
    # Half of the slots go to items that are in nearly every list. 5 draws; four standard errors.
    table = repeat_estimates(0.9, 0, 5, n_items=400, n_lists=60, length=20)
    ols, negative_binomial, cloglog = table.mean(axis=0)
    error = table.std(axis=0, ddof=1) / np.sqrt(5)
    assert abs(cloglog - 0.9) < 4 * error[2]
    assert negative_binomial < 0.9 - 4 * error[1]
    assert ols < 0.9 - 4 * error[0]


def compute_coverage(gamma: float, n_repetitions: int, **sizes) -> float:
    """Return how often the 95 % bootstrap interval over lists covers γ."""
    hits = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        for seed in range(n_repetitions):
            gamma_fit = fit_gamma(*simulate_lists(seed, gamma, 0, **sizes), method="cloglog").bootstrap(
                399, rng=seed
            )
            low, high = gamma_fit.conf_int(kind="bootstrap")
            hits.append(low <= gamma <= high)
    return float(np.mean(hits))


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.5, 1.0, 1.7])
def test_bootstrap_interval_covers_gamma_in_93_to_97_percent_of_400_worlds(gamma):
    assert 0.93 <= compute_coverage(gamma, 400, n_items=2000, n_lists=1000) <= 0.97
