"""CPU time and peak memory of every fit on 100,000 and 1,000,000 items; statsmodels is imported before.

Run: python benchmarks/propensity.py [n_items …]
"""

from __future__ import annotations

import resource
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import statsmodels.api  # noqa: F401 — its import, about a second, is not what is measured

from ipseval.propensity import fit_gamma, fit_gamma_from_exposure, fit_popularity_exponent

N_LISTS = 100_000


def simulate(n_items: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Return counts of a world with γ = 1.2, item effects of log-normal size, and a random exposure."""
    popularity = np.floor((1 - rng.random(n_items)) ** -1.0).clip(1, n_items / 5)
    intensity = popularity**1.2 * np.exp(rng.standard_normal(n_items))
    recommended = rng.binomial(N_LISTS, -np.expm1(-intensity / intensity.sum() * 50))
    exposed = rng.poisson(20, n_items)
    liked = rng.binomial(exposed, np.minimum(0.9, 0.01 * popularity**0.4))
    return {"popularity": popularity, "recommended": recommended, "exposed": exposed, "liked": liked}


def fits(data: dict[str, np.ndarray]) -> dict[str, Callable[[], object]]:
    """Return every fit, ready to run."""
    popularity, recommended = data["popularity"], data["recommended"]
    table: dict[str, Callable[[], object]] = {
        method: lambda method=method: fit_gamma(
            popularity, recommended, N_LISTS, method, source="logging-policy"
        )
        for method in ("negative-binomial", "poisson", "cloglog", "level-ols")
    }
    table["exposure"] = lambda: fit_gamma_from_exposure(popularity, data["exposed"], data["liked"])
    spread = popularity * np.random.default_rng(1).uniform(0.5, 1.5, popularity.size)
    table["negative-binomial, all n* distinct"] = lambda: fit_gamma(
        spread, recommended, N_LISTS, source="logging-policy"
    )
    table["popularity exponent"] = lambda: fit_popularity_exponent(popularity)
    return table


def main(sizes: list[int]) -> None:
    """Print one line per size and fit."""
    warnings.simplefilter("ignore")
    print(f"{'items':>10} {'fit':<36} {'CPU s':>8} {'exponent':>8} {'peak MB':>8}")
    for size in sizes:
        for name, run in fits(simulate(size, np.random.default_rng(0))).items():
            start = time.process_time()
            fit = run()
            seconds = time.process_time() - start
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
            shown = getattr(fit, "gamma", getattr(fit, "exponent", float("nan")))
            print(f"{size:>10,} {name:<36} {seconds:>8.2f} {shown:>8.3f} {peak:>8.0f}", flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [100_000, 1_000_000])
