"""Zhao et al. (CIKM 2020) on twenty real logs, 13 of their own domains among them.

    python -m reproductions.field_study OUT [--data FOLDER] [--users N] [--jobs N] [--only LOG …] [--write]

OUT gets, for each log, the chosen settings, the ranks, the study and its seconds. What is there is not made
again: a run that was killed goes on where it stopped. --users 0 trains and evaluates all users of all logs,
--jobs is the number of processes that share them. --write puts the tables into docs/reproductions.md.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import time
import warnings
from collections.abc import Iterator
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ipseval import (
    ComputeOptions,
    Interactions,
    SampledCandidates,
    Split,
    evaluate,
    rank_positives,
    split_random,
    split_temporal,
)
from ipseval.data.splits import k_core
from ipseval.metrics import metric
from ipseval.studies import protocols
from ipseval.studies.protocols import Protocol, ProtocolStudy
from reproductions import field_logs
from reproductions.field_logs import METRICS
from reproductions.tables import PAGE, data_folder, deliver

ONE_THREAD = ComputeOptions(n_threads=1)
EVERYBODY = 10**9
STEPS = ("study", "again", "factors")
SHARES = {"test_fraction": 0.1, "validation_fraction": 0.1}


class SomeUsers(Protocol):
    """A protocol of which all users train, and those of `field_logs.evaluated` are evaluated."""

    @property
    def split_key(self) -> dict[str, Any]:
        return super().split_key | {"evaluated": field_logs.EVALUATED_USERS}

    def splits(self, core: Interactions, rng: int) -> Iterator[Split]:
        plain = Protocol(**{one.name: getattr(self, one.name) for one in fields(self)})
        return map(thinned, plain.splits(core, rng))


def thinned(split: Split) -> Split:
    """Return a split of which some users are tested."""
    kept = np.isin(split.test.user, field_logs.evaluated(split.n_users))
    return Split(split.train, split.test.select(kept), split.validation)


def grid(logged: bool) -> list[Protocol]:
    """Return the protocols of a log: two hold-outs, two orders where there is time, seven pools or three."""
    pools: dict[str, Any] = {"full": "all"} | {
        f"{law}-{n}": SampledCandidates(n, distribution=law, rng=0)
        for law in ("uniform", "popularity")
        for n in (10, 50, 100)
    }
    return [
        SomeUsers(order, holdout, 5, pool, name)  # type: ignore[arg-type]
        for order in (("random", "temporal") if logged else ("random",))
        for holdout in ("ratio", "leave-one-out")
        for name, pool in pools.items()
        if holdout == "ratio" or name in ("full", "uniform-100", "popularity-100")
    ]


def tuned(core: Interactions, file: Path) -> dict[str, Any]:
    """Return each recommender with the settings of the highest ndcg@10 on the validation part of RO_RS."""
    if not file.exists():
        split, judge, found = split_random(core, rng=0, **SHARES), metric("ndcg@10"), {}
        assert split.validation is not None
        check = thinned(Split(split.train, split.validation))
        for name, (fit, settings) in field_logs.GRID.items():
            values = []
            for one in settings if len(settings) > 1 else []:
                ranked = rank_positives(fit(split.train, **one), check, compute=ONE_THREAD)
                values.append(float(np.nanmean(judge.user_values(ranked))))
            found[name] = settings[int(np.argmax(values))] if values else settings[0]
        file.write_text(json.dumps(found), "utf-8")
    chosen = json.loads(file.read_text("utf-8"))
    return {name: partial(fit, **chosen[name]) for name, (fit, _) in field_logs.GRID.items()}


def pruned(train: Interactions, k: int) -> Interactions:
    """Return the pairs of the k-core of a training part, over the same users and items."""
    while len(train):
        kept = (train.activity[train.user] >= k) & (train.popularity[train.item] >= k)
        if kept.all():
            break
        train = train.select(kept)
    return train


def target(test: Interactions, which: str) -> Interactions:
    """Return the "first", "last" or a "random" test pair of each user, by time and then row; or "all"."""
    if which == "all":
        return test
    assert test.timestamp is not None
    by = np.random.default_rng(0).random(len(test)) if which == "random" else test.timestamp
    order = np.lexsort((np.arange(len(test)), by, test.user))
    user = test.user[order]
    ends = np.r_[user[1:] != user[:-1], True] if which == "last" else np.r_[True, user[1:] != user[:-1]]
    kept = np.zeros(len(test), dtype=bool)
    kept[order[ends]] = True
    return test.select(kept)


def factors(core: Interactions, models: dict[str, Any]) -> pd.DataFrame:
    """Return the estimates under other training parts (RO_RS) and, of the last 30%, other target items."""
    frames = []

    def add(factor: str, level: str, scorers: dict[str, Any], split: Split) -> None:
        found = evaluate(scorers, split, metrics=METRICS, estimators=["aoa"], compute=ONE_THREAD).frame
        about = {"factor": factor, "level": level, "n_train": len(split.train)}
        frames.append(found[["model", "metric", "estimate"]].assign(**about))

    split = thinned(split_random(core, rng=0, **SHARES))
    for k in (1, 3, 5):
        train = pruned(split.train, k)
        if len(train) and min(np.count_nonzero(train.activity), np.count_nonzero(train.popularity)) > 100:
            fitted = {name: fit(train) for name, fit in models.items()}
            add("training", f"{k}-core", fitted, Split(train, split.test))
    if core.timestamp is not None:
        whole = split_temporal(core, test_fraction=0.3, validation_fraction=0.0)
        split = thinned(Split(whole.train, whole.test))
        fitted = {name: fit(split.train) for name, fit in models.items()}
        for which in ("all", "first", "last", "random"):
            add("target", which, fitted, Split(split.train, target(split.test, which)))
    return pd.concat(frames)


def make(out: Path, folder: Path, users: int, task: tuple[str, str]) -> str:
    """Make one thing of one log, unless it is there; return a line of what that took."""
    field_logs.EVALUATED_USERS = users or EVERYBODY
    if not users:
        field_logs.TRAINED_USERS.clear()
    what, name = task
    start, wall = time.process_time(), time.perf_counter()
    place = out / name.replace(" ", "_")
    place.mkdir(parents=True, exist_ok=True)
    file = place / ("factors.csv" if what == "factors" else f"{what}.npz")
    if file.exists():
        return f"{what},{name}: there"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # leakage of splits in each user's own order: the page says so
        core = k_core(field_logs.read_log(name, folder), 5)
        models = tuned(core, place / "settings.json")
        if what == "factors":
            factors(core, models).to_csv(file, index=False)
        else:
            study(name, core, models, again=what == "again", path=place).save(file)
    took = f"{what},{name},{time.process_time() - start:.1f},{time.perf_counter() - wall:.1f}"
    with (out / "seconds.csv").open("a", encoding="utf-8") as seconds:
        seconds.write(took + "\n")
    return took


def study(name: str, core: Interactions, models: dict[str, Any], *, again: bool, path: Path) -> ProtocolStudy:
    """Return the study of one log; or of RO_RS alone, with another seed."""
    chosen = grid(core.timestamp is not None)
    return protocols.study(
        models, {name: core}, chosen[:1] if again else chosen, path=path, rng=int(again), metrics=METRICS,
        estimators=("aoa",), k=(1, 3), n_resamples=100, progress=False, compute=ONE_THREAD,
    )  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--data", type=Path, default=data_folder())
    parser.add_argument("--users", type=int, default=field_logs.EVALUATED_USERS, help="0: all")
    parser.add_argument("--only", nargs="+", choices=list(field_logs.loaders(Path())))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    names = options.only or list(field_logs.loaders(options.data))
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        work = partial(make, options.out, options.data, options.users)
        tasks = [(what, name) for what in STEPS for name in names]
        for line in pool.imap_unordered(work, tasks):
            print(line, flush=True)
    from reproductions import field_tables

    found = field_tables.Found(options.out)
    made = field_tables.tables(found, options.data)
    deliver(made, PAGE if options.write else None)
    if options.write:
        # The page states these numbers, which the CSV file does not contain.
        print(made["field-blocks"].rpartition("\n\n")[2])
        field_tables.heat_map(found, PAGE.parent / "images" / "protocols-logs.png")


if __name__ == "__main__":
    # Stored ranks are found again by the module of the fit function.
    from reproductions import field_study

    field_study.main()
