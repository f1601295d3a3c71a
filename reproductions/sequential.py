"""Next item at every step against leave-last-out: what the choice of the events does to values and orders.

    python -m reproductions.sequential --data PATH [--write]

MovieLens 100K and latest-small (ratings of 4 and more, with times) and two Amazon domains (the order of the
reviews of each user only). At every step, each interaction of the last fifth of the log is a target, and
recommenders are fitted to the interactions before it. Leave-last-out has one target for each user, the last
interaction, and recommenders are fitted to all other interactions. In both, the scores of an event are computed
from the history of its user at that time, and the items of the history do not compete.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import scipy.sparse as sp

import ipseval
from ipseval import Evaluation, Interactions
from ipseval.evaluation import evaluate_sequential
from ipseval.validation.datasets import load_adjacency, load_movielens
from reproductions.tables import markdown, write_tables

METRIC = "recall@10"
TEST_SHARE = 0.2
RIDGE = 100.0  # of EASE
Z = 1.959963984540054

Scorer = Callable[[int, np.ndarray, object], np.ndarray]


@dataclass(frozen=True)
class Domain:
    """A log with its name, and whether its times are comparable between users."""

    name: str
    log: Interactions
    has_times: bool


def load_domains(folder: Path) -> Iterable[Domain]:
    """Yield the four logs."""
    for name, path in (("MovieLens 100K", "ml-100k"), ("MovieLens latest-small", "ml-latest-small")):
        ratings = load_movielens(folder / path)
        liked = ratings.select(ratings.value >= 4).to_frame()
        yield Domain(name, Interactions.from_frame(liked, timestamp="timestamp"), has_times=True)
    for name in ("Amazon_Instant_Video", "Office_Products"):
        log = load_adjacency(folder / "amazon14-5core" / f"{name}.txt", ordered=True)
        yield Domain(name.replace("_", " "), log, has_times=False)


def select_last_events(log: Interactions) -> np.ndarray:
    """Return which rows are the last interaction of a user with at least two."""
    order = np.lexsort((log.timestamp, log.user))
    is_last_of_user = np.append(log.user[order][1:] != log.user[order][:-1], True)
    is_last = np.zeros(len(log), dtype=bool)
    is_last[order[is_last_of_user]] = True
    return is_last & (log.activity[log.user] > 1)


def select_period(domain: Domain) -> np.ndarray:
    """Return which rows belong to the last fifth: of the log by time, or of each user by order."""
    log = domain.log
    if domain.has_times:
        start = np.quantile(log.timestamp, 1 - TEST_SHARE, method="higher")
        return np.asarray(log.timestamp >= start)
    position = np.empty(len(log), dtype=np.int64)
    order = np.lexsort((log.timestamp, log.user))
    first = np.searchsorted(log.user[order], log.user[order])
    position[order] = np.arange(len(log)) - first
    return position >= np.ceil((1 - TEST_SHARE) * log.activity[log.user])


def fit_popularity(train: Interactions) -> Scorer:
    """Score items by the number of training interactions."""
    popularity = train.popularity.astype(np.float64)
    return lambda user, history, time: popularity


def fit_item_knn(train: Interactions) -> Scorer:
    """Score items by the sum of their cosine similarities to the items of the history."""
    matrix = train.to_csr().astype(np.float64)
    norm = np.sqrt(np.maximum(matrix.power(2).sum(axis=0), 1))
    normalized = sp.csr_array(matrix) @ sp.diags_array(1 / np.asarray(norm).ravel())
    similarity = (normalized.T @ normalized).toarray()
    np.fill_diagonal(similarity, 0)
    return lambda user, history, time: similarity[history].sum(axis=0)


def fit_ease(train: Interactions) -> Scorer:
    """Score items by the sum of the rows of EASE's weights for the items of the history."""
    matrix = train.to_csr().astype(np.float64)
    gram = (matrix.T @ matrix).toarray()
    gram[np.diag_indices_from(gram)] += RIDGE
    inverse = np.linalg.inv(gram)
    weights = -inverse / np.diag(inverse)
    np.fill_diagonal(weights, 0)
    return lambda user, history, time: weights[history].sum(axis=0)


def fit_transitions(train: Interactions) -> Scorer:
    """Score items by how often they follow the last item of the history, and then by popularity."""
    order = np.lexsort((train.timestamp, train.user))
    user, item = train.user[order], train.item[order]
    follows = user[1:] == user[:-1]
    counts = np.zeros((train.n_items, train.n_items))
    np.add.at(counts, (item[:-1][follows], item[1:][follows]), 1)
    popularity = train.popularity / (train.popularity.max() + 1)

    def score(user: int, history: np.ndarray, time: object) -> np.ndarray:
        if not history.size:
            return popularity
        return counts[history[-1]] + popularity

    return score


FITS = {
    "Popularity": fit_popularity,
    "Item-kNN": fit_item_knn,
    "EASE": fit_ease,
    "Markov chain": fit_transitions,
}


def evaluate(domain: Domain, targets: np.ndarray) -> Evaluation:
    """Return the evaluation of the recommenders that are fitted to the rows that are no targets."""
    train = domain.log.select(~targets)
    models = {name: fit(train) for name, fit in FITS.items()}
    return evaluate_sequential(models, domain.log, targets, metrics=[METRIC])


def describe(value: float, error: float, *, signed: bool = False) -> str:
    """Return a value with its 95% interval."""
    sign = "+" if signed else ""
    low, high = value - Z * error, value + Z * error
    return f"{value:{sign}.3f} [{low:{sign}.3f}, {high:{sign}.3f}]".replace("-", "−")


def compare(domain: Domain) -> list[list[str]]:
    """Return a row for each recommender: both values and their difference, paired by user."""
    evaluations = {
        "every": evaluate(domain, select_period(domain)),
        "last": evaluate(domain, select_last_events(domain.log)),
    }
    rows = []
    for name in FITS:
        every, last = (result.estimate(name, METRIC, "aoa") for result in evaluations.values())
        error, _, _ = every.user_sums.paired_error(last.user_sums)
        row = [
            *(domain.name, name, f"{every.n_positives:,}", f"{last.n_positives:,}"),
            describe(every.value, every.standard_error),
            describe(last.value, last.standard_error),
            describe(last.value - every.value, error, signed=True),
        ]
        rows.append(row)
        print(" | ".join(row), flush=True)
    return rows


def describe_top_items(domain: Domain, n_top: int = 10) -> list[str]:
    """Return the share of the most popular training items in training and in the events, and with shuffled orders.

    The order of each user is shuffled once. Nothing is excluded, so that the shares are bounds on recall.
    """
    log = domain.log
    cells = [domain.name, f"{n_top / log.n_items:.3f}"]
    shuffled = replace(log, timestamp=np.random.default_rng(0).permutation(len(log)))
    for part in (log, shuffled):
        is_target = select_period(Domain(domain.name, part, has_times=False))
        top = np.argsort(-part.select(~is_target).popularity, kind="stable")[:n_top]
        is_top = np.isin(part.item, top)
        cells += [f"{is_top[~is_target].mean():.3f}", f"{is_top[is_target].mean():.3f}"]
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of the data sets")
    parser.add_argument("--write", action="store_true", help="fill the table of docs/reproductions.md")
    parser.add_argument(
        "--only-top-items", action="store_true", help="only the table of the most popular items"
    )
    options = parser.parse_args()
    warnings.simplefilter("ignore", ipseval.errors.DataWarning)
    rows = []
    top_rows = []
    for domain in load_domains(options.data):
        if not domain.has_times:
            top_rows.append(describe_top_items(domain))
            print(" | ".join(top_rows[-1]), flush=True)
        if not options.only_top_items:
            rows += compare(domain)
    header = ("log", "recommender", "events", "last events", "every step", "leave-last-out", "difference")
    if options.write:
        top_header = (
            "log",
            "ten of all items",
            "training",
            "events",
            "training, shuffled",
            "events, shuffled",
        )
        tables = {"sequential-top": markdown(top_header, top_rows)}
        if rows:
            tables["sequential"] = markdown(header, rows)
        write_tables(tables)


if __name__ == "__main__":
    main()
