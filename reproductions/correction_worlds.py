"""The correction strength on held-out simulated worlds, judged by the truth.

    python -m reproductions.correction_worlds [--worlds 98] [--draws 4] [--write]

The worlds have other seeds, sizes and recommenders than those of the prior, and one kind of exposure that the
prior has not seen: `time`. Every exposed user is shown 20 random items.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import numpy as np
import pandas as pd
from scipy.stats import kendalltau

from ipseval.correction import CORRECTED, RANDOM_SAMPLE, Correction, CorrectionPrior, correct_path
from ipseval.estimators._labels import AOA_POOLED
from ipseval.validation import WITH_INTERACTIONS
from reproductions.correction_family import HELD_OUT, METRICS, Simulated, world_of
from reproductions.tables import ROOT, markdown, write_tables

SIZES = (0, 25, 100, 400, 2000)
N_SHOWN = 20
SEED = 7
ESTIMATORS = (CORRECTED, WITH_INTERACTIONS, RANDOM_SAMPLE, AOA_POOLED)
FROM_POSITIVES = {one: one for one in (CORRECTED, RANDOM_SAMPLE, AOA_POOLED)}
FROM_ALL = {CORRECTED: WITH_INTERACTIONS}
PAGE = ROOT / "docs" / "correction.md"


def scores(correction: Correction, truth: np.ndarray, names: Mapping[str, str]) -> Iterator[dict[str, Any]]:
    """Return error, coverage, half-width, order and regret of each estimator named, and metric."""
    frame = correction.frame
    frame = frame[frame["estimator"].isin(names)].replace({"estimator": dict(names)})
    for (metric, estimator), part in frame.groupby(["metric", "estimator"], sort=False):
        label = [one.label for one in correction.path.metrics].index(str(metric))
        right = truth.reshape(len(correction.path.metrics), -1)[label]
        value = part["estimate"].to_numpy()
        covered = (part["ci_low"].to_numpy() <= right) & (right <= part["ci_high"].to_numpy())
        yield {
            "metric": metric,
            "estimator": estimator,
            "error": np.abs(value - right).mean(),
            "covered": covered.mean(),
            "half_width": (part["ci_high"] - part["ci_low"]).mean() / 2,
            "tau": kendalltau(value, right).statistic,
            "regret": right.max() - right[value.argmax()],
        }


def judge(world: Simulated, number: int, n_draws: int, prior: CorrectionPrior | None) -> pd.DataFrame:
    """Return the scores of one world at every size; one draw where nobody is exposed."""
    rng, rows = np.random.default_rng(number), []
    for size in SIZES:
        for _ in range(n_draws if size else 1):
            random = world.expose(size, N_SHOWN, rng) if size else None
            for path, names in ((world.path, FROM_POSITIVES), (world.path_with_skipped, FROM_ALL)):
                found = correct_path(path, random, prior=prior)
                common = {"world": number, "kind": world.kind, "size": size, "alpha": found.alpha.mean}
                rows += [common | one for one in scores(found, world.truth, names)]
    return pd.DataFrame(rows)


def one_world(job: tuple[int, int, CorrectionPrior | None]) -> pd.DataFrame:
    """Return the scores of the world of a number."""
    number, n_draws, prior = job
    warnings.simplefilter("ignore")
    chosen = world_of(number, SEED, HELD_OUT)
    return judge(chosen, number, n_draws, prior)


def cut(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the share of AOA's error that each estimator removes, by size and metric, in percent."""
    error = rows.groupby(["size", "metric", "estimator"], sort=False)["error"].mean().unstack()
    return 100 * (1 - error.div(error[AOA_POOLED], axis=0))


def table(rows: pd.DataFrame, metrics: Iterable[str] = METRICS, unit: str = "world") -> str:
    """Return the table of sizes: per cell, one number for each metric."""
    metrics, removed = list(metrics), cut(rows)
    mean = rows.groupby(["size", "metric", "estimator"], sort=False).mean(numeric_only=True)
    each = rows.groupby(["size", "metric", "estimator", unit])["covered"].mean()
    low = each.groupby(["size", "metric", "estimator"]).quantile(0.1)

    def cell(source: Any, size: int, name: str, form: str) -> str:
        if (size, metrics[0], name) not in source.index:
            return "–"
        return " ".join(format(source[size, metric, name], form) for metric in metrics)

    lines = []
    for size in rows["size"].unique():
        for name in ESTIMATORS:
            if (size, metrics[0], name) not in mean.index or (name == AOA_POOLED and size):
                continue
            lines.append(
                (
                    f"{size:,}",
                    name,
                    cell(removed.stack(), size, name, ".0f"),
                    cell(100 * mean["covered"], size, name, ".0f"),
                    cell(100 * low, size, name, ".0f"),
                    cell(mean["half_width"], size, name, ".3f"),
                    cell(mean["tau"], size, name, ".2f"),
                )
            )
    header = "exposed users|estimator|error removed, %|coverage, %|coverage, worst tenth of worlds, %"
    return markdown([*header.split("|"), "half-width", "Kendall τ"], lines)


def by_kind(rows: pd.DataFrame) -> str:
    """Return the table of kinds of exposure at 0 and 100 users, correction strength only."""
    lines = []
    for kind in rows["kind"].unique():
        part = rows[rows["kind"] == kind]
        found = part[part["estimator"] == CORRECTED].groupby(["size", "metric"]).mean(numeric_only=True)
        texts = [f"{found.loc[0, 'alpha'].iloc[0]:.2f} → {found.loc[400, 'alpha'].iloc[0]:.2f}"]
        for size in (0, 100):
            removed = cut(part)[CORRECTED]
            texts.append(" ".join(f"{removed[size, metric]:.0f}" for metric in METRICS))
            texts.append(" ".join(f"{100 * found.loc[(size, m), 'covered']:.0f}" for m in METRICS))
        lines.append((kind, *texts))
    header = "exposure|α at 0 → 400 users|removed, 0 users|coverage|removed, 100 users|coverage"
    return markdown(header.split("|"), lines)


def run(n_worlds: int, n_draws: int, n_processes: int, prior: CorrectionPrior | None = None) -> pd.DataFrame:
    """Return the scores of all worlds."""
    jobs = [(number, n_draws, prior) for number in range(n_worlds)]
    if n_processes == 1:
        return pd.concat([one_world(job) for job in jobs], ignore_index=True)
    with ProcessPoolExecutor(n_processes) as pool:
        return pd.concat(list(pool.map(one_world, jobs)), ignore_index=True)


def tables(rows: pd.DataFrame) -> Mapping[str, str]:
    """Return the tables of the page."""
    n_worlds = rows["world"].nunique()
    head = f"{n_worlds} worlds; in a cell: {', '.join(METRICS)}.\n\n"
    return {"correction-worlds": head + table(rows), "correction-kinds": by_kind(rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--worlds", type=int, default=98)
    parser.add_argument("--draws", type=int, default=4)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--write", action="store_true", help=f"put the tables into {PAGE.name}")
    options = parser.parse_args()
    made = tables(run(options.worlds, options.draws, options.processes))
    if options.write:
        write_tables(made, PAGE)
    print("\n\n".join(made.values()))


if __name__ == "__main__":
    main()
