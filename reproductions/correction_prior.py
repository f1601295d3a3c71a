"""The prior of the correction strength, by likelihood; prints the constants of CorrectionPrior.

    python -m reproductions.correction_prior --cache FOLDER --data PATH [--worlds 36] [--rounds 2]
    python -m reproductions.correction_prior --cache FOLDER --data PATH --table [--write]

The constants maximise the mean log density of the truth by the posterior, of levels and of differences alike,
at 0, 25, 100 and 400 exposed users of 20 items. Its logs are worlds of both simulators and splits of Coat,
each of the three with the same weight; the path of all interactions counts as another log. One constant is
changed at a time, by given steps.
`--table` leaves the search out, and shows the α of the worlds under the constants of `CorrectionPrior`.
`--features` asks whether seven numbers of the path foretell α: a line fitted on one simulator gives the prior
of α in the other.
"""

from __future__ import annotations

import argparse
import pickle
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from scipy.special import logsumexp

from ipseval.correction import CORRECTED, CorrectionPath, CorrectionPrior
from ipseval.correction._posterior import Posterior, RandomSample, compute_posterior
from ipseval.correction._prior import ALPHAS, REFERENCE
from ipseval.validation.datasets import load_coat
from reproductions import correction_family, correction_truth, feedback_worlds
from reproductions.correction_family import METRICS
from reproductions.tables import ROOT, markdown, write_tables

PAGE = ROOT / "docs" / "correction-accuracy.md"
SIZES = (0, 25, 100, 400)
COAT_SIZES = (0, 25, 100)
SEED = 1
COAT = 1000  # seeds of splits that are not those of the pages
STEPS = {
    "no_bias": (0.7, 1.4),
    "mean": (0.8, 1.25),
    "sd": (0.8, 1.25),
    "deviation": (0.75, 1.33),
    "whole_deviation": (0.75, 1.33),
    "flatness": (0.7, 1.4),
    "log_scale_sd": (0.8, 1.25),
    "shared": (0.8, 1.25),
    "own_personal": (0.6, 1.6),
    "interactions_mean": (0.85, 1.18),
    "interactions_sd": (0.75, 1.33),
    "interactions_weight": (0.8, 1.2),
    "interactions_deviation": (0.75, 1.33),
    "profiles_weight": (0.7, 1.4),
}
FLAT = CorrectionPrior(no_bias=1e-9, mean=0.6, sd=1e3)


@dataclass(frozen=True, eq=False)
class Case:
    """One path of a log, the truth with the covariance of its error, and a sample, or None."""

    source: str
    kind: str
    size: int
    path: CorrectionPath
    truth: np.ndarray
    error: np.ndarray
    sample: RandomSample | None


def cases_of(log: correction_truth.Case, source: str, sizes: Sequence[int], seed: int) -> list[Case]:
    """Return the cases of a log, one for each of its paths and sizes."""
    made = []
    for name, path in log.paths.items():
        rng, suffix = np.random.default_rng(seed), "" if name == CORRECTED else ", all interactions"
        for size in sizes:
            shown, truth, error = log.draw(size, rng)
            if shown is None or len(next(iter(shown.values()))):
                sample = None if shown is None else RandomSample.from_ranks(shown, path)
                # The judge's error covaries as contributions do.
                cover = np.outer(error, error) * path.similarity
                made.append(Case(source, log.kind + suffix, size, path, truth, cover, sample))
    return made


def case(source: str, number: int, folder: Path, data: Path | None) -> list[Case]:
    """Return the cases of a log of a source, kept in the folder."""
    kept = folder / f"{source}-{number}.pickle"
    if not kept.exists():
        if source == "first":
            world = correction_family.world_of(number, SEED, correction_family.PRIOR)
            log = correction_truth.of_world(world)
        elif source == "second":
            made = feedback_worlds.world_of(number, SEED, feedback_worlds.TRAINING)
            log = correction_truth.of_world(made.simulated(np.random.default_rng(number)))
        else:
            assert data is not None, "--data is needed for Coat"
            log = correction_truth.of_study(load_coat(data / "coat"), COAT + number, METRICS)
        found = cases_of(log, source, COAT_SIZES if source == "coat" else SIZES, number)
        folder.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(pickle.dumps([vars(one) for one in found]))
    return [Case(**one) for one in pickle.loads(kept.read_bytes())]


def log_density(found: Posterior, truth: np.ndarray, error: np.ndarray, n_metrics: int) -> float:
    """Return the mean log density of the true values, half by cells and half by differences from the mean."""
    models = truth.size // n_metrics
    apart = np.kron(np.eye(n_metrics), np.eye(models) - 1 / models)
    each = []
    for contrast in (np.eye(truth.size), apart):
        mean, sd = found.compute_moments(contrast)
        noise = np.einsum("ik,kl,il->i", contrast, error, contrast)
        variance = sd**2 + noise + 1e-8
        density = -((contrast @ truth - mean) ** 2 / variance + np.log(variance)) / 2
        each.append(logsumexp(density + np.log(found.weight)[:, None], axis=0).mean())
    return float(np.mean(each))


def fit_of(cases: Sequence[Case], prior: CorrectionPrior) -> float:
    """Return the mean log density over cases and samples; each source counts alike."""
    found: dict[str, list[float]] = {}
    for one in cases:
        made = compute_posterior(one.path, prior, one.sample)
        density = log_density(made, one.truth, one.error, len(one.path.metrics))
        found.setdefault(one.source, []).append(density)
    return float(np.mean([np.mean(own) for own in found.values()]))


def best(cases: Sequence[Case], start: CorrectionPrior, n_rounds: int) -> CorrectionPrior:
    """Return the prior by which the true values have the highest mean log density, one constant at a time."""
    prior, found = start, fit_of(cases, start)
    print(f"{found:.4f} {prior}", flush=True)
    for _ in range(n_rounds):
        for name, steps in STEPS.items():
            own = [one for one in cases if "interactions" in one.kind] if "interactions" in name else cases
            now = found if own is cases else fit_of(own, prior)
            for step in steps:
                tried = replace(prior, **{name: float(f"{getattr(prior, name) * step:.3g}")})
                value = fit_of(own, tried)
                while value > now + 1e-4:
                    prior, now = tried, value
                    print(f"{now:.4f} {name} {getattr(prior, name):g}", flush=True)
                    tried = replace(prior, **{name: float(f"{getattr(prior, name) * step:.3g}")})
                    value = fit_of(own, tried) if getattr(tried, name) < 4 else -np.inf
            found = now if own is cases else fit_of(cases, prior)
    return prior


def strength_likelihood(one: Case, prior: CorrectionPrior) -> np.ndarray:
    """Return the likelihood of the true values for each α, up to a factor."""
    known = RandomSample(one.truth, 1e-8 * np.eye(one.truth.size), 10**12, 10**12, 1.0)
    given = ("deviation", "whole_deviation", "log_scale_sd", "flatness", "shared", "own_personal")
    flat = replace(FLAT, **{name: getattr(prior, name) for name in given})
    return compute_posterior(one.path, flat, known).alpha_mass


def table(cases: Sequence[Case], prior: CorrectionPrior) -> str:
    """Return the α of the worlds by kind of exposure: mean and range of the posterior means."""
    rows = []
    for kind in dict.fromkeys(one.kind for one in cases):
        found = np.array(
            [strength_likelihood(one, prior) @ one.path.alpha[:25] for one in cases if one.kind == kind]
        )
        rows.append((kind, f"{found.size}", f"{found.mean():.2f}", f"{found.min():.2f} … {found.max():.2f}"))
    return markdown(("exposure", "worlds", "mean α", "smallest … largest"), rows)


def features(path: CorrectionPath) -> np.ndarray:
    """Return what a path knows before any exposure: sizes of weights and steps, and the height of AOA."""
    first, items = REFERENCE, REFERENCE + ALPHAS.size
    height, step = np.abs(path.above_chance).mean(), np.abs(path.value[0] - path.value[first]).mean()
    ess = path.ess[[first, items]] / path.ess[0]
    apart = (path.value[first] - path.value[items]).mean() / height
    top = path.value[0][path.whole].max()
    return np.array(
        [1, *np.log(ess), step / height, apart, top, np.log(path.n_positives / path.n_users), height]
    )


def foretold(cases: Sequence[Case], prior: CorrectionPrior) -> str:
    """Return how α of one simulator is foretold by the other, and what that does to the log density."""
    own = [one for one in cases if "interactions" not in one.kind and one.size in (0, 25)]
    rows, logs = [], [one for one in own if not one.size]
    alpha = {one: strength_likelihood(one, prior) @ one.path.alpha[:25] for one in logs}
    for fitted, judged in (("first", "second"), ("second", "first"), ("first", "coat"), ("second", "coat")):
        sides = [[one for one in logs if one.source == name] for name in (fitted, judged)]
        x = [np.array([features(one.path) for one in side]) for side in sides]
        y = [np.array([alpha[one] for one in side]) for side in sides]
        centre, spread = x[0].mean(axis=0), x[0].std(axis=0)
        spread[spread == 0], centre[0] = 1, 0
        design = [(one - centre) / spread for one in x]
        slope = np.linalg.solve(design[0].T @ design[0] + np.diag([0, *[1.0] * 7]), design[0].T @ y[0])
        left = float(np.std(y[0] - design[0] @ slope, ddof=8))
        change = []
        for one in (one for one in own if one.source == judged):
            row = (features(one.path) - centre) / spread
            mean = float(np.clip(row @ slope, 0, 1.8))
            made = fit_of([one], replace(prior, mean=mean, sd=max(left, 0.1)))
            change.append((one.size, made - fit_of([one], prior)))
        by_size = (np.mean([value for size, value in change if size == at]) for at in (0, 25))
        r = np.corrcoef(design[1] @ slope, y[1])[0, 1]
        rows.append((fitted, judged, f"{r:.2f}", *(f"{one:+.3f}" for one in by_size)))
    head = ("fitted on", "judged on", "correlation with α", "log density, nobody exposed", "25 users")
    return markdown(head, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps the logs")
    parser.add_argument("--data", type=Path, help="folder with coat/; without it, worlds alone")
    parser.add_argument("--worlds", type=int, default=36, help="of each simulator")
    parser.add_argument("--splits", type=int, default=4, help="of Coat")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--features", action="store_true", help="no search: a prior of α that reads the path")
    parser.add_argument("--table", action="store_true", help="no search: the constants as they are")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE.name}")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    sources = {"first": options.worlds, "second": options.worlds}
    if options.data is not None:
        sources["coat"] = options.splits
    cases = [
        one
        for source, n in sources.items()
        for number in range(n)
        for one in case(source, number, options.cache / "training", options.data)
    ]
    if options.features:
        print(foretold(cases, CorrectionPrior()))
        return
    found = CorrectionPrior() if options.table else best(cases, CorrectionPrior(), options.rounds)
    made = table([one for one in cases if "interactions" not in one.kind and not one.size], found)
    if options.write:
        write_tables({"correction-prior": made}, PAGE)
    print(f"{found}\n\n{made}")


if __name__ == "__main__":
    main()
