"""In which direction small training counts move a γ that is fitted to random exposure.

    python -m reproductions.gamma_small_counts [--worlds 10] [--write]

Every item is shown to every user, so that the shares of likes are exact, and the only error is the chance in
the training counts. Prints the mean of the fitted γ over simulated worlds; the fit to the expected counts
returns the true γ. --write fills docs/tables/propensity/gamma-small-counts.csv. One minute.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval.errors import DataWarning, IdentificationWarning
from ipseval.propensity import fit_gamma_from_exposure
from ipseval.validation.simulation import World

TABLE = Path(__file__).resolve().parents[1] / "docs" / "tables" / "propensity" / "gamma-small-counts.csv"
SPARSE = {"n_items": 300, "mean_relevant": 30, "popularity_skew": 0.8}  # many items that few users like
DENSE = {"n_items": 100, "mean_relevant": 20, "popularity_skew": 0.5}
# Parameters of the world, and the factor of all propensities of the training log.
SETTINGS: list[tuple[dict[str, Any], float]] = [
    *(({**SPARSE, "n_users": n_users, "gamma": 0.3}, 1.0) for n_users in (1000, 3000, 10_000)),
    *(({**DENSE, "n_users": 3000, "gamma": 0.3}, scale) for scale in (1.0, 0.3, 0.1, 0.03)),
    *(({**SPARSE, "n_users": 1000, "gamma": -0.5}, scale) for scale in (1.0, 0.3)),
]


def fit_world(parameters: dict[str, Any], scale: float, seed: int) -> dict[str, float]:
    """Return the fitted γ of one world, by the training counts and by their expectation."""
    world = World(**parameters, rng=seed)
    popularity = world.observe(seed + 1000, scale=scale).popularity
    liked = world.relevant.popularity
    shown = np.full(world.n_items, world.n_users)
    expected = liked * world.item_propensity * scale
    return {
        "share of items without training interactions": float((popularity == 0).mean()),
        "median count of the others": float(np.median(popularity[popularity > 0])),
        "fitted γ": fit_gamma_from_exposure(popularity, shown, liked).gamma,
        "γ by the expected counts": fit_gamma_from_exposure(expected, shown, liked).gamma,
    }


def summarise_worlds(n_worlds: int) -> pd.DataFrame:
    """Return the mean over worlds of every setting, and the standard error of the mean of γ."""
    rows = []
    for parameters, scale in SETTINGS:
        fits = pd.DataFrame([fit_world(parameters, scale, seed) for seed in range(n_worlds)])
        setting = {
            "users": parameters["n_users"],
            "items": parameters["n_items"],
            "factor of the propensities": scale,
            "true γ": parameters["gamma"],
        }
        error = float(fits["fitted γ"].std() / np.sqrt(n_worlds))
        rows.append({**setting, **fits.mean().round(3).to_dict(), "standard error": round(error, 3)})
    return pd.DataFrame(rows)


def main() -> None:
    """Print the table, or write it."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=10)
    parser.add_argument(
        "--write", action="store_true", help="write docs/tables/propensity/gamma-small-counts.csv"
    )
    arguments = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", IdentificationWarning)
        warnings.simplefilter("ignore", DataWarning)
        table = summarise_worlds(arguments.worlds)
    print(table.to_string(index=False))
    if arguments.write:
        table.to_csv(TABLE, index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
