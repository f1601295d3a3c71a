"""How often intervals of the agreement of two rankings contain the true agreement, in simulations.

    python -m reproductions.agreement_coverage --cache FOLDER [--runs 60] [--mean-runs 25] [--write]

Values of 5 and 10 recommenders have equal true distances, and 100 or 1,000 users add noise. The second ranking
swaps two recommenders of the first. In the other half of the settings two recommenders are far below the others
in both rankings, and the second one has the others in a random order. Each run computes the interval of
`order_agreement` from the values of the users, the one of `ProtocolStudy.compare_levels` from the estimates and
their bootstrap, and for comparison the quantiles of the agreement in this bootstrap. `ProtocolStudy.table`
averages over LOGS logs. The folder keeps what was made. --write puts the table into docs/tables/protocols.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy as np
import pandas as pd

from ipseval.inference.orders import RowOrders, compute_agreement
from ipseval.studies.agreement import OrderAgreement, order_agreement
from ipseval.studies.protocols import ProtocolStudy
from ipseval.studies.protocols._evaluate import (
    Options,
    ProtocolResult,
    Setting,
    _compute_covariance,
    _draw_shifts,
)
from reproductions.tables import ROOT, deliver, markdown

PAGE = ROOT / "docs" / "protocols.md"
N_RECOMMENDERS = (5, 10)
N_USERS = (100, 1000)
DISTANCES = (0.003, 0.01, 0.03)
TWO_SWAPPED = "two swapped"
TWO_FAR_BELOW = "others shuffled, two far below"
ORDERS = (TWO_SWAPPED, TWO_FAR_BELOW)
FAR = 0.2
MEASURES = ("src", "tau_b", "ipc")
LOGS = 5
METRIC = "recall@10"
N_RESAMPLES = 500
N_USER_DRAWS = 400
USER_SD = 0.2  # of the noise that the recommenders share
NOISE_SD = 0.25
TOLERANCE = 1e-9
LOWEST = 0.9


@dataclass(frozen=True)
class Cell:
    """One setting of the simulation."""

    n: int
    n_users: int
    distance: float
    order: str


@dataclass(frozen=True, eq=False)
class Data:
    """Values of users under both settings, (n, n_users), and the agreement of the true values."""

    a: np.ndarray
    b: np.ndarray
    truth: OrderAgreement


def simulate(cell: Cell, rng: np.random.Generator) -> Data:
    """Return one draw of a setting."""
    true_a = cell.distance * np.arange(cell.n)
    permutation = np.arange(cell.n)
    if cell.order == TWO_FAR_BELOW:
        true_a[:2] -= FAR
        permutation[2:] = rng.permutation(permutation[2:])
    else:
        permutation[[1, 2]] = permutation[[2, 1]]
    true_b = true_a[permutation]
    user = USER_SD * rng.standard_normal(cell.n_users)
    shape = (cell.n, cell.n_users)
    a = true_a[:, None] + user + NOISE_SD * rng.standard_normal(shape)
    b = true_b[:, None] + 0.5 * user + NOISE_SD * rng.standard_normal(shape)
    return Data(a, b, order_agreement(true_a, true_b, k=1))


def build_results(data: Data, log: str, seed: int) -> list[ProtocolResult]:
    """Return the results of the two settings, as a study of one log has them."""
    values = np.concatenate([data.a, data.b])
    n, n_users = data.a.shape
    means = values.mean(axis=1)
    influence = (values - means[:, None]).T / n_users
    options = Options(metrics=(METRIC,), estimators=("aoa",), gammas=(), n_resamples=N_RESAMPLES, rng=seed)
    shifts = _draw_shifts(influence, options, log)
    results = []
    for number, split in enumerate(("RO_RS", "TO_RS")):
        side = slice(number * n, (number + 1) * n)
        result = ProtocolResult(
            setting=Setting(log, split, "5-core", "full", "aoa", None),
            metric=METRIC,
            estimates=means[side],
            covariance=_compute_covariance(influence[:, side], n_users),
            replicates=means[side] + shifts[:, side],
            repeats=means[None, side],
            n_users=n_users,
        )
        results.append(result)
    return results


def build_study(results: list[ProtocolResult], n: int) -> ProtocolStudy:
    """Return a study of given results."""
    models = tuple(f"recommender {number}" for number in range(n))
    return ProtocolStudy(pd.DataFrame(), tuple(results), models, k=(1,))


def contains(low: float, high: float, value: float) -> float:
    """Return 1 if the interval contains the value, up to rounding; otherwise 0."""
    return float(low - TOLERANCE <= value <= high + TOLERANCE)


def judge(cell: Cell, number: int) -> Iterator[dict[str, float | str]]:
    """Yield, for each measure, which intervals of one draw contain the true agreement."""
    rng = np.random.default_rng([cell.n, cell.n_users, round(1000 * cell.distance), number])
    data = simulate(cell, rng)
    by_users = order_agreement(data.a, data.b, k=1, n_draws=N_USER_DRAWS, rng=number)
    results = build_results(data, "log", number)
    row = build_study(results, cell.n).compare_levels("split").iloc[0]
    orders = [RowOrders.from_values(result.replicates) for result in results]
    resampled = compute_agreement(orders[0], orders[1], (1,))
    for measure in MEASURES:
        true_value = data.truth.values[measure]
        bootstrap = np.quantile(resampled[measure], [0.025, 0.975])
        yield {
            "measure": measure,
            "true": true_value,
            "measured": by_users.values[measure],
            "order_agreement": contains(*by_users.intervals[measure], true_value),
            "compare_levels": contains(row[f"{measure}_low"], row[f"{measure}_high"], true_value),
            "bootstrap": contains(bootstrap[0], bootstrap[1], true_value),
            "width": row[f"{measure}_high"] - row[f"{measure}_low"],
        }


def judge_mean(cell: Cell, number: int) -> Iterator[dict[str, float | str]]:
    """Yield, for each measure, whether the interval of the mean over logs contains the true mean."""
    rng = np.random.default_rng([cell.n, cell.n_users, round(1000 * cell.distance), number, LOGS])
    results = []
    truths = []
    for log in range(LOGS):
        data = simulate(cell, rng)
        truths.append(data.truth)
        results.extend(build_results(data, f"log {log}", number))
    row = build_study(results, cell.n).table("split").iloc[0]
    for measure in MEASURES:
        true_value = float(np.mean([truth.values[measure] for truth in truths]))
        inside = contains(row[f"{measure}_low"], row[f"{measure}_high"], true_value)
        yield {"measure": measure, "table": inside}


def list_cells() -> list[Cell]:
    """Return all settings."""
    cells = []
    for order, distance, n, n_users in product(ORDERS, DISTANCES, N_RECOMMENDERS, N_USERS):
        cells.append(Cell(n, n_users, distance, order))
    return cells


def format_share(shares: pd.Series) -> str:
    """Return a share over runs in %, of all measures, with its standard error over runs."""
    by_run = shares.groupby("run").mean()
    return f"{100 * by_run.mean():.0f} ± {100 * by_run.sem():.0f}"


def table(rows: pd.DataFrame, mean_rows: pd.DataFrame) -> str:
    """Return the coverage of each setting, averaged over the measures."""
    lines = []
    for cell in list_cells():
        part = rows[rows["cell"] == repr(cell)].set_index("run")
        mean_part = mean_rows[mean_rows["cell"] == repr(cell)].set_index("run")
        tau = part[part["measure"] == "tau_b"]
        lines.append((
            f"{cell.n}", f"{cell.n_users:,}", f"{cell.distance:g}", cell.order,
            f"{tau['true'].mean():.2f}", f"{tau['measured'].mean():.2f}",
            format_share(part["order_agreement"]), format_share(part["compare_levels"]),
            f"{tau['width'].mean():.2f}", format_share(part["bootstrap"]), format_share(mean_part["table"]),
        ))  # fmt: skip
    header = (
        "recommenders", "users", "distance", "second ranking", "true τ", "mean measured τ",
        "coverage of order_agreement, %", "coverage of compare_levels, %", "mean width of the interval of τ",
        "coverage of bootstrap quantiles, %", f"coverage of table, {LOGS} logs, %",
    )  # fmt: skip
    return markdown(header, lines)


def list_low_cells(rows: pd.DataFrame, column: str) -> list[str]:
    """Return the settings with a coverage below 90%."""
    low_cells = []
    for cell in list_cells():
        share = rows.loc[rows["cell"] == repr(cell), column].mean()
        if share < LOWEST:
            low_cells.append(f"{column}, {cell}: {100 * share:.0f}%")
    return low_cells


def cached(folder: Path, cell: Cell, n_runs: int, n_mean_runs: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return the rows of one setting, of single logs and of means over logs."""
    name = f"{cell.n}-{cell.n_users}-{cell.distance:g}-{cell.order}"
    frames = []
    for kind, make, count in (("log", judge, n_runs), ("mean", judge_mean, n_mean_runs)):
        file = folder / f"{name}-{kind}-{count}.csv"
        if not file.exists():
            rows = []
            for number in range(count):
                rows.extend({"cell": repr(cell), "run": number} | row for row in make(cell, number))
            file.parent.mkdir(parents=True, exist_ok=True)
            pd.DataFrame(rows).to_csv(file, index=False)
        frames.append(pd.read_csv(file))
    return frames[0], frames[1]


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cache", type=Path, required=True, help="folder that keeps what was made")
    parser.add_argument("--runs", type=int, default=60, help="draws of each setting")
    parser.add_argument(
        "--mean-runs", type=int, default=25, help="draws of each setting for the mean over logs"
    )
    parser.add_argument("--write", action="store_true", help=f"write the table of docs/{PAGE.name}")
    options = parser.parse_args(arguments)
    frames = []
    mean_frames = []
    for cell in list_cells():
        rows, mean_rows = cached(options.cache, cell, options.runs, options.mean_runs)
        frames.append(rows)
        mean_frames.append(mean_rows)
    frame = pd.concat(frames, ignore_index=True)
    mean_frame = pd.concat(mean_frames, ignore_index=True)
    deliver({"agreement-coverage": table(frame, mean_frame)}, PAGE if options.write else None)
    low_cells = [
        *list_low_cells(frame, "order_agreement"),
        *list_low_cells(frame, "compare_levels"),
        *list_low_cells(mean_frame, "table"),
    ]
    print("\n".join(low_cells) or "No setting has a coverage below 90%.")


if __name__ == "__main__":
    main()
