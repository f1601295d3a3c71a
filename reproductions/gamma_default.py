"""Which method `fit_gamma` uses by default: error of the mean in lists of known γ, few and many items.

    python -m reproductions.gamma_default [--runs 40] [--write]

Lists are drawn as in `reproductions.gamma_simulation`: Plackett–Luce without replacement by γ·log n* + item
effect. The default is the method with the smallest maximum of |mean of γ̂ − γ|/γ over all settings. --write puts
the table into docs/propensity.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ipseval.errors import IpsevalError
from ipseval.propensity import fit_gamma
from reproductions.gamma_simulation import METHODS, world
from reproductions.tables import ROOT, deliver, markdown

PAGE = ROOT / "docs" / "propensity.md"
# Items -> lists and their length.
SIZES = {60: (300, 10), 300: (600, 20), 2000: (1000, 50)}
NOISES = (0.0, 1.0)
GAMMAS = (0.5, 1.0, 1.5, 2.0, 2.5)
WORSE = 0.03


@dataclass(frozen=True)
class Setting:
    """One setting with γ̂ of every run and method, (n_runs, n_methods); NaN where a fit is refused."""

    n_items: int
    noise: float
    gamma: float
    estimates: np.ndarray
    covered: np.ndarray

    @property
    def relative_errors(self) -> np.ndarray:
        """Relative error of the mean of each method."""
        return np.asarray(np.nanmean(self.estimates, axis=0) / self.gamma - 1)


def simulate(n_runs: int) -> Iterator[Setting]:
    """Yield every setting."""
    for n_items, (n_lists, length) in SIZES.items():
        for noise in NOISES:
            for gamma in GAMMAS:
                estimates = np.full((n_runs, len(METHODS)), np.nan)
                covered = np.full((n_runs, len(METHODS)), np.nan)
                for run in range(n_runs):
                    data = world(run, gamma, noise, n_items, n_lists, length)
                    for column, method in enumerate(METHODS):
                        try:
                            fit = fit_gamma(*data, method=method)  # type: ignore[arg-type]  # a method
                        except IpsevalError:
                            continue
                        low, high = fit.conf_int()
                        estimates[run, column] = fit.gamma
                        covered[run, column] = low <= gamma <= high
                yield Setting(n_items, noise, gamma, estimates, covered)


def table(settings: list[Setting]) -> str:
    """Return mean ± standard error, coverage of `conf_int` and, below, the largest relative errors."""
    rows = []
    for setting in settings:
        mean = np.nanmean(setting.estimates, axis=0)
        error = np.nanstd(setting.estimates, axis=0, ddof=1) / np.sqrt(len(setting.estimates))
        share = 100 * np.nanmean(setting.covered, axis=0)
        cells = [f"{m:.2f} ± {e:.2f} ({s:.0f}%)" for m, e, s in zip(mean, error, share, strict=True)]
        noise = "sd 1" if setting.noise else "none"
        rows.append((f"{setting.n_items:,}", noise, f"{setting.gamma:g}", *cells))
    errors = np.abs([setting.relative_errors for setting in settings])
    rows.append(("largest relative error", "", "", *(f"{100 * worst:.0f}%" for worst in errors.max(axis=0))))
    return markdown(("items", "item effect", "true γ", *METHODS), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=40, help="logs of each setting")
    parser.add_argument("--write", action="store_true", help=f"put the table into docs/{PAGE.name}")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    settings = list(simulate(options.runs))
    deliver({"gamma-default": table(settings)}, PAGE if options.write else None)
    errors = np.abs([setting.relative_errors for setting in settings])
    best = METHODS[int(errors.max(axis=0).argmin())]
    print(f"smallest largest error: {best}")
    for setting, error in zip(settings, errors, strict=True):
        worse = error[METHODS.index(best)] - error[METHODS.index("negative-binomial")]
        if worse > WORSE:
            print(
                f"{setting.n_items} items, item effect {setting.noise:g}, γ {setting.gamma:g}: {best} is "
                f"{100 * worse:.0f} points worse than negative-binomial"
            )


if __name__ == "__main__":
    main()
