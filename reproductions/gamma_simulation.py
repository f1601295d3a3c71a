"""Bias of every γ fit, and coverage of the bootstrap over lists, in worlds of known γ.

Run: python -m reproductions.gamma_simulation [repetitions of the table] [repetitions of the coverage]

Lists hold the 50 items with the highest γ·log n* + item effect + Gumbel noise (Plackett–Luce without
replacement); n* = ⌊1/(1 − U)⌋, at most 1000. Table: 5000 items, 3000 lists. Coverage: 2000 items, 1000 lists.
"""

from __future__ import annotations

import sys
import warnings

import numpy as np

from ipseval.propensity import fit_gamma

SETTINGS = [(0, 1.0), (0, 1.7), (0, 2.5), (1, 0.5), (1, 1.0), (1, 1.7), (1, 2.5)]
METHODS = ("level-ols", "poisson", "negative-binomial", "cloglog")
LENGTH = 50


def world(
    seed: int, gamma: float, noise: float, n_items: int, n_lists: int, length: int = LENGTH
) -> tuple[np.ndarray, np.ndarray]:
    """Return n* and the lists, (n_lists, length)."""
    rng = np.random.default_rng(seed)
    popularity = np.floor(1 / (1 - rng.random(n_items))).clip(1, 1000)
    score = gamma * np.log(popularity) + noise * rng.standard_normal(n_items)
    blocks = []
    for first in range(0, n_lists, 500):
        key = score + rng.gumbel(size=(min(500, n_lists - first), n_items))
        blocks.append(np.argpartition(-key, length, axis=1)[:, :length])
    return popularity, np.concatenate(blocks)


def bias_table(repetitions: int) -> None:
    """Print mean ± standard error of γ by setting and method."""
    print(f"| item effect | true γ | {' | '.join(METHODS)} |")
    print(f"|---|---|{'---|' * len(METHODS)}")
    for noise, gamma in SETTINGS:
        found = np.array(
            [
                [fit_gamma(*data, method=method).gamma for method in METHODS]
                for data in (world(seed, gamma, noise, 5000, 3000) for seed in range(repetitions))
            ]
        )
        error = found.std(axis=0, ddof=1) / np.sqrt(repetitions)
        cells = [f"{mean:.3f} ± {se:.3f}" for mean, se in zip(found.mean(axis=0), error, strict=True)]
        print(f"| {'none' if noise == 0 else 'sd 1'} | {gamma} | {' | '.join(cells)} |", flush=True)


def coverage_table(repetitions: int) -> None:
    """Print how often the 95% interval of 399 resamples of the lists covers γ."""
    print("\n| true γ | method | coverage of the 95% interval | mean estimate | mean standard error |")
    print("|---|---|---|---|---|")
    for gamma in (0.5, 1.0, 1.7):
        results: dict[str, list[tuple[bool, float, float]]] = {"cloglog": [], "negative-binomial": []}
        for seed in range(repetitions):
            data = world(seed, gamma, 0, 2000, 1000)
            for method, rows in results.items():
                fit = fit_gamma(*data, method=method).bootstrap(399, rng=seed)  # type: ignore[arg-type]  # the key is a method's name
                low, high = fit.conf_int(kind="bootstrap")
                rows.append((low <= gamma <= high, fit.gamma, float(np.std(fit.replicates))))
        for method, rows in results.items():
            covered, estimate, error = np.mean(rows, axis=0)
            print(f"| {gamma} | {method} | {covered:.1%} | {estimate:.4f} | {error:.4f} |", flush=True)


def main(table: int, coverage: int) -> None:
    """Print both tables as Markdown."""
    warnings.simplefilter("ignore")
    bias_table(table)
    coverage_table(coverage)


if __name__ == "__main__":
    counts = [int(argument) for argument in sys.argv[1:]]
    main(*counts, *(8, 400)[len(counts) :])
