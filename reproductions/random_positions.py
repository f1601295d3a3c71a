"""Logs with some random positions: weights by design compared with `correct`, and both forms of AOA.

    python -m reproductions.random_positions [--logs 5] [--aoa-logs 10] [--jobs 2] [--write]

The logs are those of `deterministic_policy`, for the kinds in which one policy hides items. In the test
period, each of the ten positions of a page is random with a known probability. A random position has an item
drawn uniformly from the items that the user does not have in training; the other positions have the items of
the policy, in its order. The probability that an item is anywhere on the page is computed exactly and logged.

The same clicks are evaluated in two ways: by weights from these probabilities (`LoggedPropensity`, with the
true examination curve), and by `correct`, which receives the random positions as random exposure. The held-out log
of `correct` has all clicks, or only those on the other positions.

The second table compares AOA over users with AOA over clicks (pooled), each with its own true value.
"""

from __future__ import annotations

import argparse
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import cache

import numpy as np
import pandas as pd
from scipy.stats import binom, hypergeom, kendalltau

import ipseval
from ipseval import ImpressionLog, Split
from ipseval.propensity import ExaminationCurve, LoggedPropensity
from reproductions.deterministic_policy import KINDS, PLACES, RECALL, TRUST, Case, pairs_of, theta
from reproductions.tables import ROOT, markdown, write_tables

PAGE = ROOT / "docs" / "exposure-logs.md"
HIDING_KINDS = ("hidden", "trust", "taste")
SHARES = (0.03, 0.10)
SEED = 391
METHODS = {
    "aoa-pooled": "AOA",
    "snips-pooled": "SNIPS, `LoggedPropensity`",
    "corrected": "`correct` with the random positions",
    "corrected-apart": "`correct` with the random positions, which are not in the log",
}


@cache
def compute_page_probabilities(n_candidates: int, n_positions: int, share: float) -> np.ndarray:
    """Return the probability that an item is on a page, (n_positions + 1,): by its rank, last if unranked.

    With R random positions, an item is drawn for one of them with probability R/N. The item at rank r, if it
    is not drawn, is on the page when at most n_positions − R items that are not drawn have ranks up to r.
    """
    n_random = np.arange(n_positions + 1)
    probability_of_number = binom.pmf(n_random, n_positions, share)
    is_drawn = n_random / n_candidates
    probabilities = np.empty(n_positions + 1)
    for rank in range(1, n_positions + 1):
        fewest_drawn_above = rank - n_positions + n_random
        is_filled = hypergeom.sf(fewest_drawn_above - 1, n_candidates - 1, rank - 1, n_random)
        probabilities[rank - 1] = probability_of_number @ (is_drawn + (1 - is_drawn) * is_filled)
    probabilities[-1] = probability_of_number @ is_drawn
    return probabilities


def draw_page(
    ranked_items: np.ndarray, candidates: np.ndarray, share: float, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the items of a page, whether each position is random, and the probabilities of the items."""
    n_positions = ranked_items.size
    is_random = rng.random(n_positions) < share
    drawn_items = rng.choice(candidates, is_random.sum(), replace=False)
    remaining_items = ranked_items[~np.isin(ranked_items, drawn_items)]
    items = np.empty(n_positions, dtype=ranked_items.dtype)
    items[is_random] = drawn_items
    items[~is_random] = remaining_items[: n_positions - drawn_items.size]
    probabilities = compute_page_probabilities(candidates.size, n_positions, share)
    rank = np.full(candidates.max() + 1, n_positions)
    rank[ranked_items] = np.arange(n_positions)
    return items, is_random, probabilities[rank[items]]


def show_pages(case: Case, share: float, rng: np.random.Generator) -> pd.DataFrame:
    """Return the rows of the test pages of a case, with random positions and new clicks."""
    train = np.zeros(case.liked.shape, dtype=bool)
    train[case.split.train.user, case.split.train.item] = True
    rows = pd.DataFrame({"user": case.log.user, "item": case.log.item, "query": case.log.query})
    rows["position"] = case.log.position
    pages = []
    for _, page in rows.groupby("query", sort=False):
        candidates = np.flatnonzero(~train[page["user"].iloc[0]])
        items, is_random, probabilities = draw_page(page["item"].to_numpy(), candidates, share, rng)
        pages.append(page.assign(item=items, is_random=is_random, probability=probabilities))
    shown = pd.concat(pages, ignore_index=True)
    examination = theta(shown["position"])
    trust = TRUST if case.kind == "trust" else 0.0
    is_liked = case.liked[shown["user"], shown["item"]]
    shown["clicked"] = rng.random(len(shown)) < examination * np.where(is_liked, 1.0, trust * examination)
    return shown


def build_log(shown: pd.DataFrame, case: Case) -> ImpressionLog:
    """Return the impression log of a table of shown items, with the probabilities of the policy."""
    return ImpressionLog(
        shown["user"].to_numpy(),
        shown["item"].to_numpy(),
        case.split.user_ids,
        case.split.item_ids,
        clicked=shown["clicked"].to_numpy(),
        position=shown["position"].to_numpy(),
        query=shown["query"].to_numpy(),
        query_ids=np.arange(3 * case.split.n_users),
        propensity=shown["probability"].to_numpy(),
    )


def hold_out(shown: pd.DataFrame, case: Case) -> Split:
    """Return the split of a case with the clicked pairs of a table of shown items as its test part."""
    clicked = shown[shown["clicked"]]
    is_clicked = np.zeros(case.liked.shape, dtype=bool)
    is_clicked[clicked["user"], clicked["item"]] = True
    return Split(case.split.train, pairs_of(is_clicked))


def compare_methods(at: tuple[str, float, int]) -> pd.DataFrame:
    """Return error, coverage and τ of each method on one log."""
    warnings.simplefilter("ignore")
    kind, share, number = at
    case = Case.build(kind, number)
    rng = np.random.default_rng([SEED, KINDS.index(kind), number, SHARES.index(share)])
    shown = show_pages(case, share, rng)
    log = build_log(shown, case)
    curve = ExaminationCurve.from_theta(theta(np.arange(1, PLACES + 1)))
    split = hold_out(shown, case)
    weighted = ipseval.evaluate(
        case.models,
        split,
        propensity=LoggedPropensity(log=log, examination=curve),
        metrics=[RECALL],
        estimators=["aoa-pooled", "snips-pooled"],
    ).frame
    is_random = shown["is_random"].to_numpy()
    frames = [weighted]
    for label, log_part in {"corrected": split, "corrected-apart": hold_out(shown[~is_random], case)}.items():
        exposure = ipseval.RandomExposure.from_log(log, log_part, where=is_random, rate=share)
        frame = ipseval.correct(
            case.models, log_part, random_exposure=exposure, metrics=[RECALL], rng=0
        ).frame
        frames.append(frame[frame["estimator"] == "corrected"].assign(estimator=label))
    estimates = pd.concat(frames)
    rows = []
    for label, name in METHODS.items():
        frame = estimates[estimates["estimator"] == label].set_index("model")
        truth = np.array([case.truth[model, RECALL] for model in frame.index])
        is_covered = (frame["ci_low"] <= truth) & (truth <= frame["ci_high"])
        rows.append(
            {
                "kind": kind,
                "share": share,
                "method": name,
                "error": np.abs(frame["estimate"] - truth).mean(),
                "truth": truth.mean(),
                "coverage": is_covered.mean(),
                "tau": kendalltau(frame["estimate"], truth).statistic,
            }
        )
    return pd.DataFrame(rows)


def compare_forms_of_aoa(at: tuple[str, int]) -> dict[str, object]:
    """Return how AOA over users and AOA over clicks order the recommenders of one log."""
    warnings.simplefilter("ignore")
    kind, number = at
    case = Case.build(kind, number)
    frame = ipseval.evaluate(
        case.models, case.split, metrics=[RECALL], estimators=["aoa", "aoa-pooled"]
    ).frame
    estimates = frame.pivot(index="model", columns="estimator", values="estimate")
    is_outside = np.ones(case.liked.shape, dtype=bool)
    is_outside[case.split.train.user, case.split.train.item] = False
    liked = case.liked & is_outside
    n_liked = liked.sum(axis=1)
    true_means = []
    for model in estimates.index:
        user_sums = (liked * case.gain[model, RECALL]).sum(axis=1)
        true_means.append((user_sums[n_liked > 0] / n_liked[n_liked > 0]).mean())
    pooled_truth = [case.truth[model, RECALL] for model in estimates.index]
    return {
        "kind": kind,
        "same_first": estimates["aoa"].idxmax() == estimates["aoa-pooled"].idxmax(),
        "agreement": kendalltau(estimates["aoa"], estimates["aoa-pooled"]).statistic,
        "tau_users": kendalltau(estimates["aoa"], true_means).statistic,
        "tau_pooled": kendalltau(estimates["aoa-pooled"], pooled_truth).statistic,
    }


def build_method_table(rows: pd.DataFrame) -> str:
    """Return error in per cent of the true value, coverage in per cent and τ of each method."""
    groups = rows.groupby(["kind", "share", "method"], sort=False)
    means = groups[["coverage", "tau"]].mean()
    sums = groups[["error", "truth"]].sum()
    lines = []
    for key, mean in means.iterrows():
        kind, share, method = key
        error = 100 * sums.loc[key, "error"] / sums.loc[key, "truth"]
        coverage = 100 * mean["coverage"]
        lines.append(
            (kind, f"{100 * share:.0f}", method, f"{error:.0f}", f"{coverage:.0f}", f"{mean['tau']:.2f}")
        )
    return markdown(("kind", "random positions, %", "method", "error, %", "coverage, %", "Kendall τ"), lines)


def build_aoa_table(rows: pd.DataFrame) -> str:
    """Return how often both forms of AOA agree, and the τ of each with its true values."""
    groups = rows.groupby("kind", sort=False)
    means = groups[["agreement", "tau_users", "tau_pooled"]].mean()
    lines = []
    for kind, mean in means.iterrows():
        is_same = groups.get_group(kind)["same_first"]
        cells = [f"{mean[column]:.2f}" for column in means.columns]
        lines.append((str(kind), f"{is_same.sum()} of {len(is_same)}", *cells))
    header = (
        "kind",
        "logs with the same first recommender",
        "τ between both",
        "τ of AOA over users with its truth",
        "τ of AOA (pooled) with its truth",
    )
    return markdown(header, lines)


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--logs", type=int, default=5, help="of each kind and share of random positions")
    parser.add_argument("--aoa-logs", type=int, default=10, help="of each kind, for the second table")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true", help=f"write the tables that {PAGE.name} links to")
    options = parser.parse_args(arguments)
    cells = []
    for kind in HIDING_KINDS:
        for share in SHARES:
            cells += [(kind, share, number) for number in range(options.logs)]
    logs = [(kind, number) for kind in KINDS for number in range(options.aoa_logs)]
    with ProcessPoolExecutor(options.jobs) as pool:
        methods = pd.concat(pool.map(compare_methods, cells), ignore_index=True)
        orders = pd.DataFrame(pool.map(compare_forms_of_aoa, logs))
    tables = {
        "random-positions": build_method_table(methods),
        "aoa-forms": build_aoa_table(orders),
    }
    for name, table in tables.items():
        print(f"{name}\n{table}\n", flush=True)
    if options.write:
        write_tables(tables, PAGE)


if __name__ == "__main__":
    main()
