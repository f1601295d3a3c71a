"""Two versions of a recommender and a log of impressions: no route names the worse one.

Users like items by hidden tastes; slates show what is popular, and the upper places are looked at more. By
what users like, version 2 has twice as many relevant items in its first ten as version 1, which follows
popularity; the plain average of clicks says the contrary.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.cli import main
from ipseval.data import ImpressionLog

N_USERS, N_ITEMS, SLATE, RATE = 3000, 800, 10, 0.03
MONTH = 200  # of these users, whose month is read from files
SPLITS = [("time", fraction, 0) for fraction in (0.1, 0.2, 0.3)]
SPLITS += [("random", fraction, seed) for fraction in (0.1, 0.2, 0.3) for seed in range(5)]
WEIGHTS = ("impressions", "gamma", "none")


@dataclass(frozen=True)
class Shop:
    """A log of impressions, which of them were explored, the scores of two versions, and what is liked."""

    log: ImpressionLog
    explored: np.ndarray
    scores: dict[str, np.ndarray]
    liked: np.ndarray

    @classmethod
    def simulate(cls, seed: int, months: int, rate: float = 0.0, n_users: int = N_USERS) -> Shop:
        """Return so many times the traffic of two to seven slates a user, and a share of random slots."""
        rng = np.random.default_rng(seed)
        popular = rng.zipf(1.6, N_ITEMS).clip(1, 500).astype(float)
        appeal = np.log(popular / popular.sum())
        taste, kind = rng.normal(size=(n_users, 8)), rng.normal(size=(N_ITEMS, 8))
        fit = taste @ kind.T
        liked = 1 / (1 + np.exp(-(fit / 3 - 1.5)))
        views = np.repeat(np.arange(n_users), rng.integers(2 * months, 8 * months, n_users))
        slates, random = [], []
        for user in np.array_split(views, len(views) // 4000 + 1):
            score = appeal + 0.5 * fit[user] + rng.gumbel(size=(user.size, N_ITEMS))
            top = np.argsort(-score, axis=1)[:, :SLATE]
            explored = rng.random(top.shape) < rate
            slates.append(np.where(explored, rng.integers(N_ITEMS, size=top.shape), top))
            random.append(explored)
        item, explored = np.concatenate(slates).ravel(), np.concatenate(random).ravel()
        user, place = np.repeat(views, SLATE), np.tile(np.arange(1, SLATE + 1), views.size)
        frame = pd.DataFrame({"user": user, "item": item, "position": place, "explored": explored})
        frame["slate"] = frame.index // SLATE
        frame["clicked"] = rng.random(user.size) < liked[user, item] / place**0.7
        # Where chance fills a slot with what the slate holds already, the explored one stays.
        frame = frame.sort_values("explored", ascending=False, kind="stable")
        frame = frame.drop_duplicates(["slate", "item"])
        ids = {"users": np.arange(n_users), "items": np.arange(N_ITEMS)}
        log = ImpressionLog.from_frame(frame, position="position", query="slate", gaps="keep", **ids)
        noise = rng.normal(size=(2, n_users, N_ITEMS))
        scores = {"v1": appeal + 0.3 * noise[0] + 0.3 * fit, "v2": 0.2 * appeal + fit + noise[1]}
        return cls(log, frame["explored"].to_numpy(), scores, liked)

    def truth(self, split: ipseval.Split) -> dict[str, float]:
        """Return recall@10 over all that users like outside training."""
        remaining, values = self.liked.copy(), {}
        remaining[split.train.user, split.train.item] = 0
        for name, score in self.scores.items():
            allowed = score.copy()
            allowed[split.train.user, split.train.item] = -np.inf
            top = np.argsort(-allowed, axis=1)[:, :10]
            values[name] = np.take_along_axis(remaining, top, axis=1).sum() / remaining.sum()
        return values


@pytest.fixture(scope="module", name="folder")
def fixture_folder(tmp_path_factory) -> Path:
    """Write the impressions of a month, and the top fifty of two versions for most users."""
    folder, rng = tmp_path_factory.mktemp("production"), np.random.default_rng(1)
    shop = Shop.simulate(0, months=1, n_users=MONTH)
    users = np.array([f"u_{code:05d}" for code in range(MONTH)])
    items = np.array([f"sku-{code:04d}" for code in range(N_ITEMS)])
    frame = shop.log.to_frame()
    start, minutes = pd.Timestamp("2026-03-01", tz="UTC"), rng.permutation(MONTH * 60)
    when = start + pd.to_timedelta(minutes[frame["query"]], unit="min")
    columns = {"user_id": users[frame["user"]], "item_id": items[frame["item"]], "ts": when}
    frame[["position", "clicked"]].assign(**columns).to_parquet(folder / "log.parquet")
    for name, score in shop.scores.items():
        top = np.argsort(-score, axis=1)[:, :50]
        has = np.flatnonzero(rng.random(MONTH) < 0.95)
        lists = pd.DataFrame({"user_id": np.repeat(users[has], 50), "item_id": items[top[has].ravel()]})
        lists.assign(rank=np.tile(np.arange(1, 51), has.size)).to_parquet(folder / f"{name}.parquet")
    return folder


def run_python(folder: Path, kind: str, fraction: float, seed: int, weights: str) -> ipseval.Evaluation:
    """Return the evaluation of five statements."""
    log = ipseval.read(folder / "log.parquet")
    models = {
        name: ipseval.read_lists(folder / f"{name}.parquet", seen="drop", unknown="drop")
        for name in ("v1", "v2")
    }
    if kind == "time":
        split = ipseval.split_global_time(log.positives, test_fraction=fraction)
    else:
        split = ipseval.split_random(log.positives, test_fraction=fraction, rng=seed)
    propensities = {
        "impressions": ipseval.ImpressionPropensity(log=split.test.impressions),
        "gamma": "power-law:gamma=0",
        "none": None,
    }
    return ipseval.evaluate(models, split, propensity=propensities[weights])


def run_shell(folder: Path, kind: str, fraction: float, seed: int, weights: str) -> ipseval.Evaluation:
    """Return the evaluation of one command."""
    arguments = {"impressions": ["--propensity", "impressions"], "gamma": ["--gamma", "0"], "none": []}
    how = ["--split", "global-time"] if kind == "time" else ["--split", "random", "--seed", str(seed)]
    lists = [part for name in ("v1", "v2") for part in ("--model", f"{name}={folder / name}.parquet")]
    out = ["--quiet", "--out", str(folder / "result.npz")]
    more = ["--test-fraction", str(fraction), "--seen", "drop", "--unknown", "drop"]
    assert (
        main(["evaluate", str(folder / "log.parquet"), *how, *lists, *arguments[weights], *more, *out]) == 0
    )
    return ipseval.Evaluation.load(folder / "result.npz")


def check(evaluation: ipseval.Evaluation) -> None:
    """Check that no version is named, as exposure was not randomised, and what would settle it."""
    assert evaluation.leader is None
    assert evaluation.order["model"].iloc[0] == "v1"  # by AOA, which follows popularity
    assert evaluation.verdict.startswith(("No verdict on recall@10: ", "No clear winner"))
    assert "`ipseval plan`" in evaluation.verdict


@pytest.mark.parametrize(
    ("route", "split", "weights"),
    [(run_python, SPLITS[1], "gamma"), (run_shell, SPLITS[8], "impressions"), (run_shell, SPLITS[1], "none")],
)
def test_no_route_names_the_worse_version(folder, route, split, weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(route(folder, *split, weights))


def test_weights_by_popularity_on_impressions_warn_of_users_without_a_list_once(folder, capsys):
    lists = ["--model", f"v1={folder / 'v1.parquet'}", "--seen", "drop", "--unknown", "drop"]
    assert main(["evaluate", str(folder / "log.parquet"), "--gamma", "0", *lists]) == 0
    assert capsys.readouterr().err.count("top-K lists are missing") == 1


@pytest.mark.slow
@pytest.mark.parametrize("weights", WEIGHTS)
@pytest.mark.parametrize("split", SPLITS, ids=str)
@pytest.mark.parametrize("route", [run_python, run_shell])
def test_no_route_names_the_worse_version_on_any_split(folder, route, split, weights):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        check(route(folder, *split, weights))
