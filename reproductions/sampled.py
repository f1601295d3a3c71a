"""Krichene & Rendle (KDD 2020, doi:10.1145/3394486.3403226): what sampling does to a metric.

    python -m reproductions.sampled          (seconds; prints the tables of docs/reproductions.md)

Nothing is simulated but the last column: every expectation and standard deviation is an exact sum over the
law of the sampled rank.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ipseval import expected_sampled, order_agreement
from ipseval.metrics import metric as find_metric
from ipseval.metrics.sampled import std_sampled
from reproductions.sampling import chances_to_be_first
from reproductions.tables import markdown, write_tables

N = 10_000
M = 99
RANKS = {
    "A": [100, 100, 100, 100, 100],
    "B": [40, 40, 8437, 9266, 4482],
    "C": [212, 2, 743, 5342, 1548],
}
METRICS = {"AUC": "auc", "AP": "ap", "NDCG": "ndcg", "Recall@10": "recall@10"}
# The exact values as printed in the paper's toy table, to three decimals.
PAPER_EXACT = {
    "A": (0.990, 0.010, 0.150, 0.000),
    "B": (0.555, 0.010, 0.122, 0.000),
    "C": (0.843, 0.101, 0.208, 0.200),
}
# Sampled with m = 99, as printed: mean ± standard deviation over 1,000 repeats.
PAPER_SAMPLED = {
    "A": ((0.990, 0.004), (0.630, 0.129), (0.724, 0.097), (1.000, 0.000)),
    "B": ((0.555, 0.014), (0.336, 0.073), (0.444, 0.054), (0.400, 0.000)),
    "C": ((0.843, 0.014), (0.325, 0.050), (0.460, 0.039), (0.567, 0.092)),
}
PAPER_REPEATS = 1000
CORRECTIONS = {
    "rank estimate": ("rank", 0.01),
    "CLS": ("cls", 0.01),
    "BV 1": ("bv", 1.0),
    "BV 0.1": ("bv", 0.1),
    "BV 0.01": ("bv", 0.01),
    "BV 0.001": ("bv", 0.001),
}


def at_rank(ranks: Any, metric: str, n: int = N) -> Any:
    """Return the metric of the full ranking at each rank: all n − 1 other items are drawn, each once."""
    return expected_sampled(ranks, n, n - 1, metric, False)


def exact(ranks: list[int], metric: str, n: int = N) -> float:
    """Return the metric of the full ranking, averaged over instances with one relevant item each."""
    return float(at_rank(ranks, metric, n).mean())


def run_std(ranks: list[int], table: object, *, n: int = N, m: int = M, replacement: bool = True) -> float:
    """Return the standard deviation of the mean over the instances, each with its own draw of candidates."""
    return float(np.sqrt((std_sampled(ranks, n, m, table, replacement) ** 2).sum())) / len(ranks)


def toy_table(n: int = N, m: int = M) -> pd.DataFrame:
    """Return exact and expected sampled metrics of the three recommenders, with the paper's exact values."""
    rows = []
    for name, ranks in RANKS.items():
        for (label, metric), printed in zip(METRICS.items(), PAPER_EXACT[name], strict=True):
            rows.append(
                {
                    "recommender": name,
                    "metric": label,
                    "paper": printed,
                    "exact": exact(ranks, metric, n),
                    "with": float(expected_sampled(ranks, n, m, metric).mean()),
                    "without": float(expected_sampled(ranks, n, m, metric, False).mean()),
                    "std": run_std(ranks, metric, n=n, m=m),
                }
            )
    return pd.DataFrame(rows)


def monte_carlo_gap(replacement: bool = True, m: int = M) -> pd.DataFrame:
    """Return the printed sampled values, the exact expectation, and the gap in standard errors of 1,000 runs.

    A gap within about ±2 is what a simulation of that size leaves.
    """
    rows = []
    for name, ranks in RANKS.items():
        for (label, metric), (mean, std) in zip(METRICS.items(), PAPER_SAMPLED[name], strict=True):
            value = float(expected_sampled(ranks, N, m, metric, replacement).mean())
            sd = run_std(ranks, metric, m=m, replacement=replacement)
            # The printed mean is rounded to three decimals: that is noise too.
            error = np.hypot(sd / np.sqrt(PAPER_REPEATS), 0.001 / np.sqrt(12))
            rows.append(
                {"recommender": name, "metric": label, "paper": mean, "paper_std": std, "expected": value,
                 "std": sd, "gap": (mean - value) / error}
            )  # fmt: skip
    return pd.DataFrame(rows)


def order(values: dict[str, float]) -> str:
    """Return names from best to worst, `=` between values that agree to 1e-9."""
    names = sorted(values, key=lambda name: -values[name])
    text = names[0]
    for before, after in pairwise(names):
        text += (" = " if abs(values[before] - values[after]) < 1e-9 else " > ") + after
    return text


def smallest_faithful_m(metric: str, sizes: list[int]) -> int | None:
    """Return the smallest m from which on the expected sampled metric puts first whom full ranking does."""
    truth = {name: exact(ranks, metric) for name, ranks in RANKS.items()}
    best = max(truth, key=lambda name: truth[name])
    faithful = None
    for m in sorted(sizes, reverse=True):
        values = {name: float(expected_sampled(ranks, N, m, metric).mean()) for name, ranks in RANKS.items()}
        if max(values, key=lambda name: values[name]) != best:
            return faithful
        faithful = m
    return faithful


def full_order_from(metric: str, sizes: list[int]) -> int | None:
    """Return the smallest m from which on all pairs that full ranking tells apart are in the right order."""
    truth = {name: exact(ranks, metric) for name, ranks in RANKS.items()}
    faithful = None
    for m in sorted(sizes, reverse=True):
        values = {name: float(expected_sampled(ranks, N, m, metric).mean()) for name, ranks in RANKS.items()}
        if order_agreement(list(truth.values()), list(values.values()), k=[1]).values["ipc"] > 0:
            return faithful
        faithful = m
    return faithful


def rank_curves(m: int = M, n: int = N) -> pd.DataFrame:
    """Return M(r) and E[M(r̃) | r] over a grid of ranks: metric, rank, exact, sampled."""
    ranks = np.unique(np.round(np.geomspace(1, n, 120)).astype(int))
    frames = []
    for label, metric in METRICS.items():
        frame = pd.DataFrame({"metric": label, "rank": ranks, "exact": at_rank(ranks, metric, n)})
        frame["sampled"] = expected_sampled(ranks, n, m, metric)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def corrected(metric: str, method: Any, variance_weight: float) -> Any:
    """Return a corrected metric with the uniform prior of the paper."""
    return find_metric(metric, sampled=method, variance_weight=variance_weight, prior="uniform")


def corrected_table(m: int = M, n: int = N) -> pd.DataFrame:
    """Return, by metric, correction and recommender, exact value, expected corrected value, bias and std."""
    rows = []
    for label, metric in list(METRICS.items())[1:]:
        for name, (method, g) in CORRECTIONS.items():
            table = corrected(metric, method, g).table(n, m)
            for recommender, ranks in RANKS.items():
                value = float(expected_sampled(ranks, n, m, table).mean())
                rows.append(
                    {
                        "metric": label,
                        "correction": name,
                        "recommender": recommender,
                        "exact": exact(ranks, metric, n),
                        "expected": value,
                        "bias": value - exact(ranks, metric, n),
                        "std": run_std(ranks, table, n=n, m=m),
                    }
                )
    return pd.DataFrame(rows)


def bias_and_std(metric: str, m: int = M, n: int = N) -> pd.DataFrame:
    """Return bias and standard deviation of each correction over the exact rank, for one positive."""
    ranks = np.unique(np.round(np.geomspace(1, n, 100)).astype(int))
    truth = at_rank(ranks, metric, n)
    frames = []
    for name, (method, g) in {"none": ("none", 1.0), **CORRECTIONS}.items():
        table = corrected(metric, method, g).table(n, m)
        frame = pd.DataFrame({"correction": name, "rank": ranks})
        frame["bias"] = expected_sampled(ranks, n, m, table) - truth
        frame["std"] = std_sampled(ranks, n, m, table)
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def chance_best(metric: str, method: str, variance_weight: float, n_copies: int = 1) -> dict[str, float]:
    """Return how often C, the best by full ranking, comes first when m = 99 candidates are drawn."""
    ranks = {name: one * n_copies for name, one in RANKS.items()}
    table = corrected(metric, method, variance_weight).table(N, M)
    return chances_to_be_first(ranks, N, M, table, n_repeats=2000)


SIZES = sorted({*range(10, 400, 10), *range(400, 3001, 100), 5000, 9999})


def tables() -> dict[str, str]:
    """Return the tables of the page."""
    gap = monte_carlo_gap().set_index(["recommender", "metric"])
    rows = []
    for toy in toy_table().to_dict("records"):
        one = gap.loc[(toy["recommender"], toy["metric"])]
        rows.append(
            [f"{toy['recommender']}, {toy['metric']}", f"{toy['paper']:.3f}", f"{toy['exact']:.6f}",
             f"{one['paper']:.3f} ± {one['paper_std']:.3f}", f"{toy['with']:.4f} ± {toy['std']:.3f}",
             f"{one['gap']:+.1f}", f"{toy['without']:.4f}"]
        )  # fmt: skip
    header = ["", "exact: paper", "ours", "m = 99: paper, 1,000 runs", "ours, expectation", "gap in SE",
              "without replacement"]  # fmt: skip
    result = {"kr-toy": markdown(header, rows)}
    rows = []
    for label, metric in METRICS.items():
        truth = {name: exact(ranks, metric) for name, ranks in RANKS.items()}
        sampled = {name: float(expected_sampled(r, N, M, metric).mean()) for name, r in RANKS.items()}
        first, whole = smallest_faithful_m(metric, SIZES), full_order_from(metric, SIZES)
        rows.append([label, order(truth), order(sampled), str(first), str(whole)])
    result["kr-order"] = markdown(
        ["metric", "full ranking", "expected, m = 99", "right winner from m", "right order from m"], rows
    )
    corrected = corrected_table()
    rows = []
    for (metric, name), part in corrected.groupby(["metric", "correction"], sort=False):
        expected = dict(zip(part["recommender"], part["expected"], strict=True))
        cells = [f"{r.expected:.4f} ({r.bias:+.3f}; {r.std:.3f})" for r in part.itertuples()]
        share = chance_best(METRICS[metric], *CORRECTIONS[name])["C"]
        rows.append([f"{metric}, {name}", *cells, order(expected), f"{share:.0%}"])
    result["kr-corrected"] = markdown(
        ["", "A: expected (bias; sd)", "B", "C", "expected order", "C first"], rows
    )
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the tables into docs/reproductions.md")
    made = tables()
    if parser.parse_args().write:
        write_tables(made)
    else:
        print("\n\n".join(made.values()))


if __name__ == "__main__":
    main()
