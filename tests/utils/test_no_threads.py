"""Evaluation where no thread can be started, and without Numba, matplotlib and PyArrow."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from ipseval.utils.compute import SameThreadExecutor, can_start_threads, open_executor

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = """
import sys
import threading

for name in ("numba", "matplotlib", "pyarrow"):
    sys.modules[name] = None


def refuse(self):
    STARTED.append(self)
    raise RuntimeError("can't start new thread")


STARTED = []
threading.Thread.start = refuse
import ipseval

world = ipseval.simulation.World(n_users=200, n_items=60, mean_relevant=12, rng=0)
split = world.split(rng=1, train_scale=0.8, test_scale=0.4)
models = {"EASE": ipseval.baselines.ease(split.train), "popular": ipseval.baselines.popularity(split.train)}
models["factors"] = ipseval.baselines.pure_svd(split.train, n_factors=5)
options = {"propensity": "power-law:gamma=0,unseen=smooth", "metrics": ["recall@5", "ndcg@5", "psp@5"]}

compute = ipseval.ComputeOptions(n_threads=1)
evaluation = ipseval.evaluate(models, split, compute=compute, **options)
print(evaluation)
assert not STARTED, STARTED

evaluation = ipseval.evaluate(models, split, interval="bca", rng=0, **options)
evaluation.with_intervals("percentile", rng=0)
evaluation.sensitivity([-1.0, 0.0, 1.0])
evaluation.compare()
ipseval.beyond_accuracy(models, split)
assert len(STARTED) == 1, STARTED  # the attempt
print(evaluation)
for plot in (evaluation.plot, evaluation.sensitivity([0.0, 0.5]).plot):
    try:
        plot()
    except ipseval.InputError as error:
        print(error)
"""


def test_where_no_thread_can_be_started_and_optional_packages_are_absent_all_but_plots_runs():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT], cwd=ROOT, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Verdict") == 2
    no_plot = "plots need matplotlib, which is not installed. Install it by pip install matplotlib."
    assert done.stdout.splitlines()[-2:] == [no_plot, no_plot]


def test_tasks_run_in_the_calling_thread_and_keep_their_exceptions():
    executor = open_executor(0)
    assert isinstance(executor, SameThreadExecutor)
    with executor:
        assert executor.submit(threading.get_ident).result() == threading.get_ident()
        assert list(executor.map(abs, [-1, 2])) == [1, 2]
        failed = executor.submit(int, "x")
    with pytest.raises(ValueError, match="invalid literal"):
        failed.result()


def test_threads_are_used_where_they_can_be_started():
    assert can_start_threads()
    with open_executor(1) as executor:
        assert executor.submit(threading.get_ident).result() != threading.get_ident()
