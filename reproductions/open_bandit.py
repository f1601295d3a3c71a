"""Open Bandit: the click rate of one policy from the other's log, beside OBP's formulas.

    python -m reproductions.open_bandit --data PATH [--resamples 100] [--write]

Both directions, each campaign, each position and all together. The random policy is known; that of Thompson
sampling is its share of each item at each position of its own log. OBP's estimates are its formulas (IPW,
SNIPW, and DR with its RegressionModel: a logistic regression of clicks on items at each position, three
folds), written out here.

An interval that is right covers the rate of a resampled other log less often than it says: the resampled log
carries the noise of its original and its own, 2Φ(1.96/√2) − 1 = 83.4 % in place of 95 %.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval import ExposureLog
from ipseval.datasets import load_open_bandit
from ipseval.policies import evaluate_policies
from reproductions.tables import ROOT, data_folder, markdown, write_tables

PAGE = ROOT / "docs" / "exposure-logs.md"
PLACES = {"all": (1, 2, 3), "1": (1,), "2": (2,), "3": (3,)}
LABELS = ("ips", "snips", "dr")
SEED, Z = 7, 1.959964


def shares(log: ExposureLog, places: tuple[int, ...]) -> np.ndarray:
    """Return how often each item stood at each place, (n_items, n_places)."""
    assert log.position is not None
    counts = np.array([np.bincount(log.item[log.position == one], minlength=log.n_items) for one in places]).T
    return counts / counts.sum(axis=0)


def obp(log: ExposureLog, policy: np.ndarray, places: tuple[int, ...]) -> dict[str, float]:
    """Return OBP's IPW, SNIPW and DR."""
    from sklearn.linear_model import LogisticRegression

    assert log.propensity is not None
    place = np.searchsorted(places, np.asarray(log.position))
    w = policy[log.item, place] / log.propensity
    fold = np.random.default_rng(12345).permutation(len(log)) % 3
    base, own = np.zeros(len(log)), np.zeros(len(log))
    one_hot = np.eye(log.n_items)
    for number in range(3):
        for at in range(len(places)):
            train, test = (fold != number) & (place == at), (fold == number) & (place == at)
            if log.clicked[train].any():
                model = LogisticRegression(max_iter=1000).fit(one_hot[log.item[train]], log.clicked[train])
                estimated = model.predict_proba(one_hot)[:, 1]
            else:
                estimated = np.zeros(log.n_items)
            base[test], own[test] = policy[:, at] @ estimated, estimated[log.item[test]]
    clicks = log.clicked.astype(float)
    return {
        "ips": float(np.mean(w * clicks)),
        "snips": float(np.sum(w * clicks) / np.sum(w)),
        "dr": float(np.mean(base + w * (clicks - own))),
    }


def rows(folder: Path, n_resamples: int) -> Iterator[dict[str, Any]]:
    """Yield one row for each campaign, direction, position and estimator."""
    rng = np.random.default_rng(SEED)
    for campaign in ("men", "women"):
        study = load_open_bandit(folder, campaign=campaign)
        logs = {"random": study.random.exposure_log(), "bts": study.bts.exposure_log()}
        for source, target in (("random", "bts"), ("bts", "random")):
            for name, places in PLACES.items():
                log, other = (
                    one.select(np.isin(np.asarray(one.position), places))
                    for one in (logs[source], logs[target])
                )
                known = np.full((log.n_items, len(places)), 1 / log.n_items)
                policy = shares(other, places) if target == "bts" else known
                observed = other.clicked.mean()
                theirs = obp(log, policy, places)
                ours = evaluate_policies(log, {"new": policy}, estimators=LABELS).frame.set_index("estimator")
                inside = dict.fromkeys(LABELS, 0)
                for _ in range(n_resamples):
                    part, seen = (one.select(rng.integers(0, len(one), len(one))) for one in (log, other))
                    # Each drawn impression is a visit of its own.
                    part = ExposureLog(
                        np.arange(len(part)), part.item, np.arange(len(part)), part.item_ids, part.clicked,
                        position=part.position, propensity=part.propensity,
                    )  # fmt: skip
                    again = shares(seen, places) if target == "bts" else known
                    found = evaluate_policies(part, {"new": again}, estimators=LABELS).frame
                    rate = seen.clicked.mean()
                    noise = rate * (1 - rate) / len(seen)
                    for label, value, error in found[["estimator", "estimate", "std_error"]].itertuples(
                        index=False
                    ):
                        inside[label] += abs(value - rate) <= Z * np.sqrt(error**2 + noise)
                for label in LABELS:
                    value = float(ours.loc[label, "estimate"])
                    noise = observed * (1 - observed) / len(other)
                    half = Z * np.sqrt(float(ours.loc[label, "std_error"]) ** 2 + noise)
                    yield {
                        "campaign": campaign,
                        "log": f"{source} → {target}",
                        "position": name,
                        "estimator": label,
                        "observed": observed,
                        "estimate": value,
                        "inside": bool(abs(value - observed) <= half),
                        "inside plain": bool(
                            ours.loc[label, "ci_low"] <= observed <= ours.loc[label, "ci_high"]
                        ),
                        "share inside": inside[label] / max(n_resamples, 1),
                        "relative error": abs(value - observed) / observed,
                        "of obp": abs(theirs[label] - observed) / observed,
                    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=data_folder() / "open-bandit")
    parser.add_argument("--resamples", type=int, default=100)
    parser.add_argument("--write", action="store_true", help="put the table into docs/exposure-logs.md")
    options = parser.parse_args()
    found = pd.DataFrame(rows(options.data, options.resamples))
    print(found.round(5).to_string())
    means = found.groupby(["log", "estimator"], sort=False)[
        ["inside", "inside plain", "share inside", "relative error", "of obp"]
    ].mean()
    lines = [
        [*key, f"{100 * one['inside']:.0f} %", f"{100 * one['share inside']:.1f} %"]
        + [f"{one[name]:.3f}" for name in ("relative error", "of obp")]
        for key, one in means.iterrows()
    ]
    header = (
        "log",
        "estimator",
        "observed rate inside",
        "over resamples",
        "relative error",
        "OBP's formulas",
    )
    table = markdown(header, lines)
    print(means.to_string(), table, sep="\n")
    if options.write:
        write_tables({"open-bandit": table}, PAGE)


if __name__ == "__main__":
    main()
