"""The prior of the correction strength, from simulated worlds; prints the constants of CorrectionPrior.

    python -m reproductions.correction_prior [--worlds 144] [--table] [--write]

The constants maximise the mean log density of the truth by the posterior at 0, 25, 100, 400 and 1,600 exposed
users of 20 items. First those of the path from positives, then those of the one from all interactions.
`--table` leaves the search out, and shows the α of the worlds under the constants of `CorrectionPrior`.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit, logit, logsumexp

from ipseval.correction import CorrectionPath, CorrectionPrior
from ipseval.correction._posterior import Posterior, RandomSample, posterior
from reproductions.correction_family import PRIOR, world_of
from reproductions.correction_worlds import N_SHOWN, PAGE
from reproductions.tables import markdown, write_tables

SIZES = (25, 100, 400, 1600)
SEED = 1
START = CorrectionPrior(
    no_bias=0.25, mean=0.43, sd=0.2, deviation=0.09, whole_deviation=0.2, log_scale_sd=1.0
)
N_TRIALS = 100
# Of the path from all interactions: means, standard deviations and weights.
GRID = ((0.7, 0.8, 0.9, 1.0), (0.15, 0.25), (0.5, 0.8))
FLAT = CorrectionPrior(no_bias=1e-9, mean=0.6, sd=1e3)


@dataclass(frozen=True, eq=False)
class Case:
    """A world with what was sampled from it; None: nobody is exposed."""

    kind: str
    path: CorrectionPath
    path_with_skipped: CorrectionPath
    truth: np.ndarray
    samples: list[RandomSample | None]


def case(number: int) -> Case:
    """Return the world of a number."""
    warnings.simplefilter("ignore")
    world, rng = world_of(number, SEED, PRIOR), np.random.default_rng(number)
    n_users = next(iter(world.ranks.values())).n_population
    found: list[RandomSample | None] = [None]
    for size in SIZES:
        random = world.expose(min(size, n_users), N_SHOWN, rng)
        if len(next(iter(random.values()))):
            found.append(RandomSample.of(random, world.path))
    return Case(world.kind, world.path, world.path_with_skipped, world.truth, found)


def strength_likelihood(one: Case, prior: CorrectionPrior) -> np.ndarray:
    """Return the likelihood of the true values for each α, up to a factor."""
    known = RandomSample(one.truth, 1e-8 * np.eye(one.truth.size), 10**12, 10**12, 1.0)
    given = ("deviation", "whole_deviation", "log_scale_sd")
    flat = replace(FLAT, **{name: getattr(prior, name) for name in given})
    return posterior(one.path, flat, known).alpha_mass


def log_density(found: Posterior, truth: np.ndarray) -> float:
    """Return the mean log density of the true values by the posterior of each cell."""
    variance = np.diagonal(found.covariance, axis1=1, axis2=2) + 1e-8
    each = -((truth - found.mean) ** 2 / variance + np.log(variance)) / 2
    return float(logsumexp(each + np.log(found.weight)[:, None], axis=0).mean())


def best(cases: Sequence[Case]) -> CorrectionPrior:
    """Return the prior by which the true values have the highest mean log density."""

    def made(x: np.ndarray) -> CorrectionPrior:
        sd, deviation, whole, log_scale_sd = np.exp(x[2:]).tolist()
        return CorrectionPrior(float(expit(x[0])), float(x[1]), sd, deviation, whole, log_scale_sd)

    def loss(x: np.ndarray) -> float:
        prior = made(x)
        each = [log_density(posterior(c.path, prior, s), c.truth) for c in cases for s in c.samples]
        return -float(np.mean(each))

    spreads = np.log([START.sd, START.deviation, START.whole_deviation, START.log_scale_sd])
    first = np.array([logit(START.no_bias), START.mean, *spreads])
    options = {"maxfev": N_TRIALS, "xatol": 0.03, "fatol": 0.001}
    return made(minimize(loss, first, method="Nelder-Mead", options=options).x)


def best_with_skipped(cases: Sequence[Case], prior: CorrectionPrior) -> CorrectionPrior:
    """Return the prior with the best of a grid of strengths of the path from all interactions.

    Judged without random exposure and with a few users: later the prior matters little.
    """
    names = ("interactions_mean", "interactions_sd", "interactions_weight")
    tried = [replace(prior, **dict(zip(names, one, strict=True))) for one in product(*GRID)]

    def density(tried: CorrectionPrior) -> float:
        each = [
            log_density(posterior(one.path_with_skipped, tried, sample), one.truth)
            for one in cases
            for sample in one.samples[:2]
        ]
        return float(np.mean(each))

    return max(tried, key=density)


def table(cases: Sequence[Case], prior: CorrectionPrior) -> str:
    """Return the table of kinds: number of worlds, and the α of their true values."""
    alpha = np.array([strength_likelihood(one, prior) @ prior.alpha for one in cases])
    rows = []
    for kind in dict.fromkeys(one.kind for one in cases):
        own = alpha[[one.kind == kind for one in cases]]
        rows.append((kind, str(own.size), f"{own.mean():.2f}", f"{own.min():.2f} … {own.max():.2f}"))
    return markdown(("exposure", "worlds", "mean α", "smallest … largest"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=144)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--table", action="store_true", help="no search: the constants as they are")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args()
    with ProcessPoolExecutor(options.processes) as pool:
        cases = list(pool.map(case, range(options.worlds)))
    found = CorrectionPrior() if options.table else best_with_skipped(cases, best(cases))
    made = table(cases, found)
    if options.write:
        write_tables({"correction-prior": made}, PAGE)
    print(f"{found}\n\n{made}")


if __name__ == "__main__":
    main()
