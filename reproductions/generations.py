"""Coverage of intervals for repeated generations, with users as units, and with every list as a unit.

    python -m reproductions.generations [--repeats N] [--write]

Each user has one target, and a probability that a generated list contains it, drawn from a beta distribution with
the given mean. With the concentration 0.5 the generations of a user are mostly alike; with 5 they differ. The hits
of 2 to 20 generations of 50 to 2,000 users give an estimate of the mean probability, and its 95% interval. A
flag says that fewer than 10 users have a hit.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

import ipseval
from ipseval.evaluation.generations import compute_interval, estimate_mean
from reproductions.tables import ROOT, markdown, write_tables

HIT_RATES = (0.02, 0.05, 0.2, 0.5)
N_USERS = (50, 200, 2000)
N_GENERATIONS = (2, 5, 20)
CONCENTRATIONS = (0.5, 5.0)
METRIC = ipseval.metric("recall@10")
SEED = 66


@dataclass(frozen=True)
class Coverage:
    """Shares of the repeats in which an interval contains the mean probability of a hit.

    Attributes
    ----------
    by_user : float
        Coverage of the interval with users as units.
    by_list : float
        Coverage of the interval that takes all lists as independent.
    flagged : float
        Share of the repeats with a flag.
    missed_unflagged : float
        Share of the repeats without a flag in which the interval with users as units does not contain it.
    """

    by_user: float
    by_list: float
    flagged: float
    missed_unflagged: float


def draw_hits(
    hit_rate: float, concentration: float, n_users: int, n_runs: int, rng: np.random.Generator
) -> np.ndarray:
    """Return the hits of the generated lists, (n_runs, n_users)."""
    probability = rng.beta(hit_rate * concentration, (1 - hit_rate) * concentration, n_users)
    return (rng.random((n_runs, n_users)) < probability).astype(np.float64)


def contains(values: np.ndarray, hit_rate: float) -> tuple[bool, bool]:
    """Return whether the interval of values (n_runs, n_units) contains the hit rate, and whether it has a flag."""
    estimate = estimate_mean(values, np.arange(values.shape[1]), METRIC, values.size)
    interval = compute_interval(estimate, is_unit=True, confidence_level=0.95)
    return interval.low <= hit_rate <= interval.high, bool(interval.note)


def simulate(
    hit_rate: float,
    concentration: float,
    n_users: int,
    n_runs: int,
    *,
    n_repeats: int,
    rng: np.random.Generator,
) -> Coverage:
    """Return the coverage of both intervals in repeated samples of users and generations."""
    results = np.zeros((n_repeats, 4))
    for repeat in range(n_repeats):
        hits = draw_hits(hit_rate, concentration, n_users, n_runs, rng)
        by_user, is_flagged = contains(hits, hit_rate)
        by_list, _ = contains(hits.reshape(1, -1), hit_rate)
        results[repeat] = by_user, by_list, is_flagged, not (by_user or is_flagged)
    return Coverage(*results.mean(axis=0).tolist())


def format_range(values: list[float]) -> str:
    """Return the smallest and the largest percentage."""
    return f"{min(values) * 100:.1f}–{max(values) * 100:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=2000, help="samples for each setting; default: 2000")
    parser.add_argument("--write", action="store_true", help="fill the table of docs/generated-lists.md")
    options = parser.parse_args()
    rng = np.random.default_rng(SEED)
    rows = []
    for hit_rate in HIT_RATES:
        for n_users in N_USERS:
            cells = []
            for n_runs in N_GENERATIONS:
                for concentration in CONCENTRATIONS:
                    cells.append(
                        simulate(hit_rate, concentration, n_users, n_runs, n_repeats=options.repeats, rng=rng)
                    )
            row = [f"{hit_rate:g}", f"{n_users:,}"]
            row += [
                format_range([cell.by_user for cell in cells]),
                format_range([cell.by_list for cell in cells]),
            ]
            row.append(format_range([cell.flagged for cell in cells]))
            row.append(format_range([cell.missed_unflagged for cell in cells]))
            rows.append(row)
            print(" | ".join(row), flush=True)
    header = (
        *("hit rate", "users", "coverage, users as units", "coverage, lists as units"),
        *("with a flag", "missed without a flag"),
    )
    if options.write:
        write_tables({"generations": markdown(header, rows)}, ROOT / "docs" / "generated-lists.md")


if __name__ == "__main__":
    main()
