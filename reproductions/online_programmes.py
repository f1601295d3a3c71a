"""Coverage of the correlation of true offline and online differences, in simulated programmes of A/B tests.

Run: ``python -m reproductions.online_programmes [--programmes N]``. True differences are normal, or
heavy-tailed (t with 4 degrees of freedom: the model is then wrong); ρ is uniform in (0, .9), standard errors
differ between tests, reliabilities are .55–.8.
"""

from __future__ import annotations

import argparse

import numpy as np
import pandas as pd

from ipseval.studies.online import online_agreement
from reproductions.tables import markdown

SIZES = (20, 50, 100, 200)


def programme(rng: np.random.Generator, n: int, heavy: bool) -> tuple[float, pd.DataFrame, pd.DataFrame]:
    """Return the true correlation, and measured offline and online differences of `n` tests."""
    rho, noise = rng.uniform(0, 0.9), rng.uniform(0.5, 0.9, 2)
    true = rng.multivariate_normal([0, 0], [[1, rho], [rho, 1]], n)
    if heavy:
        true *= np.sqrt(2 / rng.chisquare(4, n))[:, None]  # variance 1
    errors = noise * np.exp(0.4 * rng.normal(size=(n, 2)))
    measured = true + errors * rng.normal(size=(n, 2))
    frames = [
        pd.DataFrame({"experiment": range(n), "difference": measured[:, side], "std_error": errors[:, side]})
        for side in (0, 1)
    ]
    return rho, frames[0], frames[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--programmes", type=int, default=300)
    options = parser.parse_args()
    rows = []
    for heavy in (False, True):
        for n in SIZES:
            rng = np.random.default_rng([n, heavy])
            found = []
            for _ in range(options.programmes):
                rho, offline, online = programme(rng, n, heavy)
                row = online_agreement(offline, online, n_folds=2, rng=0).frame.iloc[0]
                naive = row["naive_pearson"]
                in_naive = abs(np.arctanh(naive) - np.arctanh(rho)) < 1.96 / np.sqrt(n - 3)
                covered = row["pearson_low"] <= rho <= row["pearson_high"]
                width = (row["pearson_high"] - row["pearson_low"]) / 2
                found.append((covered, in_naive, row["pearson"] - rho, naive - rho, width))
            cover, naive_cover, bias, naive_bias, width = np.mean(found, axis=0)
            cells = f"{100 * cover:.1f}%", f"{100 * naive_cover:.1f}%", f"{bias:+.3f}", f"{naive_bias:+.3f}"
            rows.append(["t(4)" if heavy else "normal", str(n), *cells, f"{width:.2f}"])
    header = ["true differences", "tests", "coverage", "naive coverage", "bias", "naive bias", "half-width"]
    print(markdown(header, rows))


if __name__ == "__main__":
    main()
