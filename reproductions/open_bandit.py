"""Open Bandit: the click rate of one policy from the other's log, beside OBP's estimates.

    python -m reproductions.open_bandit --data PATH [--splits 100] [--resamples 100] [--write]

Both directions, each campaign, each position and all together. The random policy is known; that of Thompson
sampling is its share of each item at each position of its own log. OBP's estimates come from obp where it is
installed, otherwise from its formulas (IPW, SNIPW, and DR with its RegressionModel: a logistic regression of
clicks on items at each position, three folds), written out here. What is drawn for folds is averaged over ten
seeds, of theirs and of ours.

Splits: both logs are cut into random halves, and each half of the one is held against its half of the other
with the interval for the difference. Both pairs of a split are as independent as two studies of half the
size, and a right 95% interval holds 95% of them. Over bootstrap resamples of both logs it holds less: they
carry the noise of their originals and their own, 2Φ(1.96/√2) − 1 = 83.4%. Seeds, and the number of splits,
were fixed before the run; the interval was chosen in the simulation (reproductions.open_bandit_worlds).
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval import ImpressionLog
from ipseval.policies import PolicyEvaluation, evaluate_policies
from ipseval.validation.datasets import load_open_bandit
from reproductions.tables import ROOT, data_folder, markdown, write_tables

PAGE = ROOT / "docs" / "off-policy.md"
PLACES = {"all": (1, 2, 3), "1": (1,), "2": (2,), "3": (3,)}
DIRECTIONS = (("random", "bts"), ("bts", "random"))
LABELS = ("ips", "snips", "dr")
SEED, N_SEEDS, Z = 7, 10, 1.959964
STRENGTH = 10.0  # impressions that the rate of the place counts for in a reward model made for both packages
Model = Callable[[np.ndarray, np.ndarray], np.ndarray]


def shares(log: ImpressionLog, places: tuple[int, ...]) -> np.ndarray:
    """Return how often each item stood at each place, (n_items, n_places)."""
    assert log.position is not None
    counts = np.array([np.bincount(log.item[log.position == one], minlength=log.n_items) for one in places]).T
    return counts / counts.sum(axis=0)


def policy_of(other: ImpressionLog, target: str, places: tuple[int, ...]) -> np.ndarray:
    """Return the chances of a target policy, which is uniform or known from its own log."""
    uniform = np.full((other.n_items, len(places)), 1 / other.n_items)
    return shares(other, places) if target == "bts" else uniform


def judged(
    log: ImpressionLog, other: ImpressionLog, target: str, places: tuple[int, ...], rng: int = 0
) -> tuple[PolicyEvaluation, pd.DataFrame]:
    """Return the evaluation of the policy of another log, and its difference from the rate of that log."""
    found = evaluate_policies(log, {"new": policy_of(other, target, places)}, estimators=LABELS, rng=rng)
    return found, found.compare_with_log(other).set_index("estimator")


def normal(found: PolicyEvaluation, other: ImpressionLog) -> dict[str, bool]:
    """Return whether normal intervals of both logs agree."""
    rate = other.clicked.mean()
    noise = rate * (1 - rate) / len(other)
    return {
        row.estimator: bool(abs(row.estimate - rate) <= Z * np.sqrt(row.std_error**2 + noise))
        for row in found.frame.itertuples()
    }


def as_visits(log: ImpressionLog) -> ImpressionLog:
    """Return the log with each row as a visit of its own, as after drawing with replacement."""
    rows = np.arange(len(log))
    return ImpressionLog(
        rows, log.item, rows, log.item_ids, log.clicked, position=log.position, propensity=log.propensity
    )


def of_splits(
    log: ImpressionLog,
    other: ImpressionLog,
    target: str,
    places: tuple[int, ...],
    n: int,
    rng: np.random.Generator,
) -> pd.DataFrame:
    """Return, for both pairs of halves of n splits, whether each estimator agrees: (2n, estimators × 2)."""
    rows = []
    for number in range(n):
        cut = [rng.permutation(len(one)) % 2 for one in (log, other)]
        for half in range(2):
            part, seen = (one.select(of == half) for one, of in zip((log, other), cut, strict=True))
            found, against = judged(part, seen, target, places, number)
            plain = normal(found, seen)
            rows += [
                {"estimator": label, "halves": bool(against.loc[label, "agrees"]), "normal": plain[label]}
                for label in LABELS
            ]
    return pd.DataFrame(rows)


def of_resamples(
    log: ImpressionLog,
    other: ImpressionLog,
    target: str,
    places: tuple[int, ...],
    n: int,
    rng: np.random.Generator,
) -> pd.Series:
    """Return the share of n bootstrap resamples of both logs in which each estimator agrees."""
    inside = pd.Series(0.0, index=list(LABELS))
    for _ in range(n):
        part, seen = (as_visits(one.select(rng.integers(0, len(one), len(one)))) for one in (log, other))
        inside += judged(part, seen, target, places)[1]["agrees"].astype(float)
    return inside / max(n, 1)


def weighted(
    log: ImpressionLog, policy: np.ndarray, places: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    """Return each row's place, counted from 0, and its weight."""
    assert log.propensity is not None
    place = np.searchsorted(places, np.asarray(log.position))
    return place, policy[log.item, place] / log.propensity


def counts(log: ImpressionLog, place: np.ndarray, n_places: int) -> tuple[np.ndarray, np.ndarray]:
    """Return impressions and clicks of each item at each place, (n_items, n_places)."""
    cell, shape = np.asarray(log.item) * n_places + place, (log.n_items, n_places)
    size = log.n_items * n_places
    return (
        np.bincount(cell, minlength=size).reshape(shape).astype(float),
        np.bincount(cell, log.clicked, minlength=size).reshape(shape),
    )


def logistic(shown: np.ndarray, clicks: np.ndarray) -> np.ndarray:
    """Return the click rates of OBP's RegressionModel: at each place a logistic regression on the item."""
    from sklearn.linear_model import LogisticRegression

    rates, one_hot = np.zeros_like(shown), np.eye(len(shown))
    for at in np.flatnonzero(clicks.sum(axis=0)):
        taken, left = clicks[:, at], shown[:, at] - clicks[:, at]
        model = LogisticRegression(max_iter=1000)
        model.fit(
            np.tile(one_hot, (2, 1)), np.repeat([1, 0], len(shown)), sample_weight=np.append(taken, left)
        )
        rates[:, at] = model.predict_proba(one_hot)[:, 1]
    return rates


def shrunk(shown: np.ndarray, clicks: np.ndarray, strength: float = STRENGTH) -> np.ndarray:
    """Return click rates that are shrunk to those of the place."""
    return (clicks + strength * clicks.sum(axis=0) / shown.sum(axis=0)) / (shown + strength)


def cross_fitted(
    log: ImpressionLog, place: np.ndarray, n_places: int, n_folds: int, seed: int, model: Model
) -> np.ndarray:
    """Return the click rate of each row, item and place, (n, n_items, n_places), from rows of other folds."""
    fold = np.random.default_rng(seed).permutation(len(log)) % n_folds
    made = [model(*counts(log.select(fold != one), place[fold != one], n_places)) for one in range(n_folds)]
    return np.array(made)[fold]


def doubly_robust(
    log: ImpressionLog, policy: np.ndarray, places: tuple[int, ...], estimated: np.ndarray
) -> float:
    """Return OBP's DR with the click rates of each row, (n, n_items, n_places), by obp or by its formula."""
    place, w = weighted(log, policy, places)
    if has_obp():
        import obp.ope

        return float(
            obp.ope.DoublyRobust().estimate_policy_value(
                **handed(log, policy, place), estimated_rewards_by_reg_model=estimated
            )
        )
    at = np.arange(len(log))
    base = (policy[:, place].T * estimated[at, :, place]).sum(axis=1)
    return float(np.mean(base + w * (log.clicked - estimated[at, log.item, place])))


def same_model(log: ImpressionLog, policy: np.ndarray, places: tuple[int, ...], seed: int = 0) -> float:
    """Return how far `dr` is from OBP's DR with the same reward model, as a part of it."""
    made = evaluate_policies(log, {"new": policy}, estimators="dr", shrinkage=STRENGTH, n_folds=5, rng=seed)
    ours = float(made.frame["estimate"][0])
    place, _ = weighted(log, policy, places)
    theirs = doubly_robust(log, policy, places, cross_fitted(log, place, len(places), 5, seed, shrunk))
    return abs(ours / theirs - 1)


def formulas(log: ImpressionLog, policy: np.ndarray, places: tuple[int, ...], seed: int) -> dict[str, float]:
    """Return OBP's IPW, SNIPW and DR, written out."""
    place, w = weighted(log, policy, places)
    fold = np.random.default_rng(seed).permutation(len(log)) % 3
    clicks, rest = log.clicked.astype(float), 0.0
    for number in range(3):
        train, test = fold != number, fold == number
        rates = logistic(*counts(log.select(train), place[train], len(places)))
        base, own = (policy * rates).sum(axis=0)[place[test]], rates[log.item[test], place[test]]
        rest += float((base - w[test] * own).sum())
    ips = float(np.mean(w * clicks))
    return {"ips": ips, "snips": ips / float(np.mean(w)), "dr": ips + rest / len(log)}


def handed(log: ImpressionLog, policy: np.ndarray, place: np.ndarray) -> dict[str, np.ndarray]:
    """Return a log and a policy as obp takes them."""
    return {
        "reward": log.clicked.astype(int), "action": np.asarray(log.item), "position": place,
        "pscore": np.asarray(log.propensity),
        "action_dist": np.broadcast_to(policy, (len(log), *policy.shape)).copy(),
    }  # fmt: skip


def installed(log: ImpressionLog, policy: np.ndarray, places: tuple[int, ...], seed: int) -> dict[str, float]:
    """Return the estimates of obp itself."""
    import obp.ope
    from sklearn.linear_model import LogisticRegression

    given = handed(log, policy, weighted(log, policy, places)[0])
    model = obp.ope.RegressionModel(
        n_actions=log.n_items, len_list=len(places), base_model=LogisticRegression(max_iter=1000)
    )
    estimated = model.fit_predict(
        context=np.zeros((len(log), 1)), n_folds=3, random_state=seed,
        **{name: given[name] for name in ("action", "reward", "pscore", "position")},
    )  # fmt: skip
    ips, snips = obp.ope.InverseProbabilityWeighting(), obp.ope.SelfNormalizedInverseProbabilityWeighting()
    return {
        "ips": float(ips.estimate_policy_value(**given)),
        "snips": float(snips.estimate_policy_value(**given)),
        "dr": doubly_robust(log, policy, places, estimated),
    }


def has_obp() -> bool:
    """Return whether obp can be imported."""
    try:
        import obp.ope  # noqa: F401
    except ImportError:
        return False
    return True


def estimates(
    log: ImpressionLog, other: ImpressionLog, target: str, places: tuple[int, ...], n_seeds: int = N_SEEDS
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return our estimates and OBP's, (n_seeds, estimators)."""
    policy, theirs = policy_of(other, target, places), installed if has_obp() else formulas
    return (
        pd.DataFrame([judged(log, other, target, places, seed)[1]["estimate"] for seed in range(n_seeds)]),
        pd.DataFrame([theirs(log, policy, places, seed) for seed in range(n_seeds)]),
    )


def rows(folder: Path, n_splits: int, n_resamples: int) -> Iterator[dict[str, Any]]:
    """Yield one row for each campaign, direction, position and estimator."""
    rng = np.random.default_rng(SEED)
    for campaign in ("men", "women"):
        study = load_open_bandit(folder, campaign=campaign)
        logs = {"random": study.random, "bts": study.bts}
        for source, target in DIRECTIONS:
            for name, places in PLACES.items():
                log, other = (
                    one.select(np.isin(np.asarray(one.position), places))
                    for one in (logs[source], logs[target])
                )
                policy, observed = policy_of(other, target, places), float(other.clicked.mean())
                ours, peers = estimates(log, other, target, places)
                against, gap = judged(log, other, target, places)[1], same_model(log, policy, places)
                halves = of_splits(log, other, target, places, n_splits, rng).groupby("estimator").mean()
                resampled = of_resamples(log, other, target, places, n_resamples, rng)
                for label in LABELS:
                    yield {
                        "campaign": campaign,
                        "log": f"{source} → {target}",
                        "position": name,
                        "estimator": label,
                        "observed": observed,
                        "estimate": ours[label].mean(),
                        "inside": bool(against.loc[label, "agrees"]),
                        "halves": halves.loc[label, "halves"],
                        "normal": halves.loc[label, "normal"],
                        "resamples": resampled[label],
                        "relative error": float((ours[label] - observed).abs().mean() / observed),
                        "of obp": float((peers[label] - observed).abs().mean() / observed),
                        "gap": gap if label == "dr" else np.nan,
                    }


HEADER = (
    *("log", "estimator", "rate inside", "halves: rate inside", "with normal intervals"),
    *("resamples: rate inside", "relative error", "OBP", "not above OBP"),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=data_folder() / "open-bandit")
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--resamples", type=int, default=100)
    parser.add_argument("--write", action="store_true", help="put the table into docs/off-policy.md")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module="obp")
        warnings.filterwarnings("ignore", module="sklearn")
        found = pd.DataFrame(rows(options.data, options.splits, options.resamples))
    print("OBP:", "obp itself" if has_obp() else "its formulas")
    print(found.drop(columns="gap").round(5).to_string())
    print(f"dr with the same reward model: at most {found['gap'].max():.1e} from OBP's DR, as a part of it")
    numbers = ["inside", "halves", "normal", "resamples", "relative error", "of obp"]
    means = found.groupby(["log", "estimator"], sort=False)[numbers].mean()
    lines = [
        [*map(str, key), *(f"{100 * one[name]:.0f}%" for name in numbers[:1])]
        + [f"{100 * one[name]:.1f}%" for name in numbers[1:4]]
        + [f"{one[name]:.3f}" for name in numbers[4:]]
        for key, one in means.iterrows()
    ]
    good = found["relative error"] <= found["of obp"] + 1e-9
    for line, count in zip(
        lines, good.groupby([found["log"], found["estimator"]], sort=False).sum(), strict=True
    ):
        line.append(f"{count} of {2 * len(PLACES)}")
    table = markdown(HEADER, lines)
    print(table)
    if options.write:
        write_tables({"open-bandit": table}, PAGE)


if __name__ == "__main__":
    main()
