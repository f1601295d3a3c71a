"""Storage of a study: nothing is trained twice, and a killed study gives the same tables."""

from __future__ import annotations

import os
import queue
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ipseval import ComputeOptions
from ipseval.data import Interactions
from ipseval.data.splits import Split, split_random
from ipseval.errors import InputError
from ipseval.ranking import RankedPositives, SampledCandidates, rank_positives
from ipseval.studies.protocols import Protocol, grid, study
from tests.inside.studies import Plan, Store, run_plan

ROOT = Path(__file__).resolve().parents[2]

SCRIPT = """
import os, sys, time
import numpy as np
from ipseval.data.interactions import Interactions
import ipseval

folder = sys.argv[1]

def log(seed):
    rng = np.random.default_rng(seed)
    item = np.concatenate([rng.choice(30, 10, replace=False) for _ in range(80)])
    return Interactions(np.repeat(np.arange(80), 10), item, np.arange(80), np.arange(30),
                        timestamp=rng.integers(0, 50, item.size))

def note(name):
    with open(os.environ["FITS"], "a") as stream:
        stream.write(name + "\\n")
    time.sleep(0.03)

def popular(train):
    note("popular")
    return np.tile(train.popularity.astype(float), (train.n_users, 1))

def noise(train):
    note("noise")
    return np.random.default_rng(len(train)).random((train.n_users, train.n_items))

def factors(train):
    note("factors")
    rng = np.random.default_rng(1)
    return rng.normal(size=(train.n_users, 3)), rng.normal(size=(train.n_items, 3))

study = ipseval.studies.protocols.study({"popular": popular, "noise": noise, "factors": factors},
                        {"one": log(0), "two": log(1)},
                        ipseval.studies.protocols.grid(k_core=[None], n_repeats=2), path=folder,
                        metrics=["auc", "recall@5"],
                        gammas=[0.0], n_resamples=100, progress=False)
study.to_folder(folder)
"""
# 2 logs × (2 splits in random order × 2 repeats + 2 in time) × 3 models.
N_FITS = 36


def start(script: Path, folder: Path, fits: Path) -> subprocess.Popen[bytes]:
    environment = os.environ | {"PYTHONPATH": str(ROOT), "FITS": str(fits)}
    return subprocess.Popen([sys.executable, str(script), str(folder)], env=environment)


def n_lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def contents(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".tmp"]
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


def kill_and_resume(tmp_path: Path, n_kills: int, seed: int) -> None:
    script = tmp_path / "study.py"
    script.write_text(SCRIPT)
    assert start(script, tmp_path / "whole", tmp_path / "whole.fits").wait() == 0
    expected = contents(tmp_path / "whole")
    assert sum(name.startswith("ranks") for name in expected) == N_FITS
    assert n_lines(tmp_path / "whole.fits") == N_FITS

    choose = random.Random(seed)
    fits = tmp_path / "killed.fits"
    for _ in range(n_kills):
        process = start(script, tmp_path / "killed", fits)
        before = n_lines(fits)
        while n_lines(fits) == before and process.poll() is None:
            time.sleep(0.002)
        # Anywhere in the next one or two models: training, ranking, writing, or between.
        time.sleep(choose.uniform(0, 0.08))
        process.send_signal(signal.SIGKILL)
        assert process.wait() == -signal.SIGKILL, "the study ended before it was killed"
    assert start(script, tmp_path / "killed", fits).wait() == 0
    assert contents(tmp_path / "killed") == expected
    # Each kill costs at most the model in flight.
    assert N_FITS < n_lines(fits) <= N_FITS + n_kills


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the platform has no SIGKILL")
def test_a_study_that_was_killed_gives_the_same_files_bit_for_bit(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, n_kills=1, seed=0)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="the platform has no SIGKILL")
def test_a_study_killed_ten_times_gives_the_same_files_bit_for_bit(seed: int, tmp_path: Path) -> None:
    kill_and_resume(tmp_path, n_kills=10, seed=seed)


def make_log() -> Interactions:
    rng = np.random.default_rng(0)
    item = np.concatenate([rng.choice(20, 8, replace=False) for _ in range(30)])
    return Interactions(np.repeat(np.arange(30), 8), item, np.arange(30), np.arange(20))


def make_counting_fit(name: str) -> Callable[[Interactions], np.ndarray]:
    """Return a fit function that notes its calls in COUNTS, outside of what its fingerprint covers."""

    def fit(train: Interactions) -> np.ndarray:
        COUNTS.put(name)
        return np.tile(train.popularity.astype(float), (train.n_users, 1)) * len(name)

    return fit


COUNTS: queue.SimpleQueue[str] = queue.SimpleQueue()
OPTIONS = {"metrics": ["auc"], "estimators": ["aoa"], "n_resamples": 10}


def count_fits(
    tmp_path: Path, *protocols: Protocol, names: tuple[str, ...] = ("a", "b"), **options: int
) -> int:
    """Return how many models a study trains."""
    before = COUNTS.qsize()
    models = {name: make_counting_fit(name) for name in names}
    study(
        models,
        {"log": make_log()},
        protocols or grid(order=["random"]),
        path=tmp_path,
        **OPTIONS,
        **options,
    )
    return COUNTS.qsize() - before


def test_only_new_models_are_trained(tmp_path: Path) -> None:
    assert count_fits(tmp_path, Protocol()) == 2
    assert count_fits(tmp_path, Protocol(), names=("a", "b", "c")) == 1
    assert count_fits(tmp_path, Protocol(), Protocol(holdout="leave-one-out")) == 2
    assert count_fits(tmp_path, Protocol(test_fraction=0.3)) == 2
    assert count_fits(tmp_path, Protocol(), rng=1) == 2
    assert count_fits(tmp_path, Protocol(n_repeats=3)) == 4


def test_every_ranking_is_counted_once_whether_it_was_there_or_not(tmp_path: Path) -> None:
    pools = {"full": "all", "four": SampledCandidates(4, rng=0)}
    random = grid(order=["random"], holdout=["ratio"], n_repeats=2, candidates=pools)
    protocols = [*random, Protocol(k_core=3)]
    models, logs = {name: make_counting_fit(name) for name in "ab"}, {"one": make_log(), "two": make_log()}
    # Two models and two logs; two repeats of two protocols, and one of the last.
    for chosen, n_ranks in ((protocols[:1], 8), (protocols, 20), (protocols, 20)):
        plan = Plan(models, logs, chosen, 0, Store.from_path(tmp_path), ComputeOptions())
        counts: list[int] = []
        ranked = list(run_plan(plan, counts.append))
        assert plan.count_rankings() == sum(counts) == n_ranks
        assert min(counts) >= 0
        assert len(ranked) == n_ranks / 2
        for repeat in ranked:
            test, pairs = repeat.split.test, repeat.ranks["a"]
            assert np.array_equal(pairs.user, test.user[: len(pairs)])
            assert list(repeat.ranks) == ["a", "b"]


def test_progress_bar_is_shown_on_request(tmp_path: Path, capsys) -> None:
    for progress in (False, True):
        count_fits(tmp_path / str(progress), Protocol(), progress=progress)
        output = capsys.readouterr().err
        assert ("study" in output, "2/2" in output) == (progress, progress)


def test_models_are_trained_once_for_all_choices_of_candidates(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def spy(
        model: object, split: Split, *, name: str, candidates: object, compute: object
    ) -> RankedPositives:
        asked.append((name, candidates))
        return rank_positives(model, split, name=name)

    monkeypatch.setattr("ipseval.studies.protocols._run.rank_positives", spy)
    pools = {"full": "all", "ten": 10, "hundred": 100}
    assert count_fits(tmp_path, *grid(order=["random"], holdout=["ratio"], candidates=pools)) == 2
    assert asked == [(name, pool) for name in "ab" for pool in ("all", 10, 100)]


def test_warnings_of_the_ranking_are_reported_again_by_a_resumed_study(tmp_path: Path) -> None:
    # Item 19 is never drawn by popularity when nobody trained on it.
    log = make_log()
    log = log.select(log.item < 19)
    scheme = SampledCandidates(3, distribution="popularity", rng=0)
    models, protocols = (
        {name: make_counting_fit(name) for name in "ab"},
        [Protocol(k_core=None, candidates=scheme)],
    )
    texts = [study(models, {"log": log}, protocols, path=tmp_path, **OPTIONS).to_markdown() for _ in "12"]
    assert texts[0] == texts[1]
    assert "items have probability 0 and are never drawn" in texts[0]


def test_error_in_a_model_keeps_earlier_rankings_and_names_the_model(tmp_path: Path) -> None:
    def broken(train: Interactions) -> np.ndarray:
        raise RuntimeError("out of memory")

    models = {"a": make_counting_fit("a"), "broken": broken}
    with pytest.raises(RuntimeError, match="out of memory") as caught:
        study(models, {"log": make_log()}, [Protocol()], path=tmp_path, **OPTIONS)
    assert "model 'broken', log 'log', RO_RS, 5-core, repeat 0" in caught.value.__notes__[0]
    assert count_fits(tmp_path, Protocol()) == 1


def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    count_fits(tmp_path, Protocol())
    file = sorted((tmp_path / "ranks").glob("*.npz"))[0]
    file.write_bytes(file.read_bytes()[:100])
    with pytest.raises(InputError, match=f"cannot read .*{file.name} .* Delete it"):
        count_fits(tmp_path, Protocol())


def test_a_finished_study_trains_nothing_whatever_other_files_are_in_the_folder(tmp_path: Path) -> None:
    folder = Store.from_path(tmp_path).folder
    for name in ("foo.tmp", f".ipseval-aa.host.{10**30}.tmp", "key.host.1.tmp", "notes.txt", "x.npz"):
        (folder / name).write_bytes(b"half")
    assert count_fits(tmp_path) == 4
    assert count_fits(tmp_path) == 0


@pytest.mark.filterwarnings("ignore")
def test_threads_share_a_folder(tmp_path: Path) -> None:
    def run(_: int) -> str:
        models, protocols = {name: make_counting_fit(name) for name in "ab"}, grid(order=["random"])
        options = {"path": tmp_path, "progress": False, **OPTIONS}
        return study(models, {"log": make_log()}, protocols, **options).frame.to_csv()

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(run, range(4)))) == 1
    assert len(list((tmp_path / "ranks").iterdir())) == 4


FEW_ITEMS = pd.DataFrame({"user": np.repeat(np.arange(30), 10), "item": np.tile(np.arange(10), 30)})
POOLS = {
    "all": "all",
    "given": FEW_ITEMS,  # positives beyond are left out, and |C_u| is not the catalogue minus training
    "uniform": SampledCandidates(6, distribution="uniform", rng=0),
    "popularity": SampledCandidates(6, distribution="popularity", rng=0),
}


@pytest.mark.filterwarnings("ignore:.*not among")
@pytest.mark.parametrize("pool", POOLS)
def test_stored_ranks_equal_the_written_ranks(pool: str, tmp_path: Path) -> None:
    split = split_random(make_log(), rng=0)
    scores = np.random.default_rng(0).integers(0, 4, (30, 20)).astype(float)
    ranked, store = rank_positives(scores, split, candidates=POOLS[pool]), Store.from_path(tmp_path)
    store.write("key", ranked, {"log": "x"})
    back, _ = store.read("key", split)
    assert (len(ranked) < len(split.test)) == (pool == "given")
    mask = np.arange(len(ranked)) % 2 == 0  # what was drawn is read again for candidates that are left
    for written, stored in ((ranked, back), (ranked.remove_positives(mask), back.remove_positives(mask))):
        for name in ("user", "item", "n_above", "n_tied", "n_candidates", "candidates_by_user"):
            assert np.array_equal(getattr(written, name), getattr(stored, name)), name
        assert written.n_not_candidates == stored.n_not_candidates
        assert (stored.max_rank, stored.candidates, stored.gain) == (None, written.candidates, None)
        for field in fields(written.sampling) if written.sampling is not None else ():
            assert np.array_equal(getattr(written.sampling, field.name), getattr(stored.sampling, field.name))


def test_ranks_of_other_positives_are_refused(tmp_path: Path) -> None:
    log = make_log()
    store = Store.from_path(tmp_path)
    split = split_random(log, rng=0)
    store.write("key", rank_positives(np.zeros((30, 20)), split), {})
    part = Split(split.train, split.test.select(np.arange(len(split.test)) > 0))
    renamed = Interactions(log.user, log.item, log.user_ids + 1, log.item_ids)
    for other_split in (split_random(log, rng=1), part, split_random(renamed, rng=0)):
        with pytest.raises(InputError, match="ranks of other positives"):
            store.read("key", other_split)
    store.write("part", rank_positives(np.zeros((30, 20)), part), {})
    with pytest.raises(InputError, match="ranks of other positives"):
        store.read("part", split)  # all of them are there, and one is missing
    assert len(store.read("part", part)[0]) == len(split.test) - 1


def test_key_includes_the_version_of_the_library(tmp_path: Path, monkeypatch) -> None:
    assert count_fits(tmp_path, Protocol()) == 2
    monkeypatch.setattr("ipseval.studies.protocols._run.__version__", "0.0.1")
    assert count_fits(tmp_path, Protocol()) == 2
