"""Counts of scores beyond thresholds by Numba, with the same result on every processor."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ipseval import ComputeOptions, rank_positives
from tests.ranking.worlds import needs_numba, random_world, rows

pytestmark = needs_numba
ROOT = Path(__file__).resolve().parents[2]


def count_scores(scores, lo, hi, counts, n_counted):
    from ipseval.ranking.kernels.numba_count import GROUP, count_all

    above, reach = np.full((2, lo.size), -1)
    buffer = np.full(scores.size + GROUP, 7, dtype=scores.dtype)
    count_all(scores, lo, hi, 0, lo.size, buffer, counts, n_counted, above, reach)
    return above.tolist(), reach.tolist()


@given(
    seed=st.integers(0, 2**32 - 1),
    size=st.integers(0, 150),
    n=st.integers(1, 12),
    dtype=st.sampled_from((np.float32, np.float64)),
    low=st.booleans(),
)
def test_scores_above_and_reaching_each_threshold_are_counted(seed, size, n, dtype, low):
    rng = np.random.default_rng(seed)
    scores = rng.integers(-5, 6, size=size).astype(dtype)
    scores[rng.random(size) < 0.2] = rng.choice([np.nan, np.inf, -np.inf])
    lo = rng.integers(-6, 7, size=n).astype(dtype)
    hi = lo + rng.integers(0, 3, size=n).astype(dtype)
    lo[rng.random(n) < 0.1] = -np.inf
    # `low`: the lowest threshold lies below most of the scores seen so far.
    above, reach = count_scores(scores, lo, hi, np.full(n, 9), 9 if low else 18)
    assert above == [sum(x > bound for x in scores.tolist()) for bound in hi.tolist()]
    assert reach == [sum(x >= bound for x in scores.tolist()) for bound in lo.tolist()]


def test_neighbouring_scores_in_memory_are_neither_read_nor_written():
    from ipseval.ranking.kernels.numba_count import GROUP, count_all

    memory = np.full(200, 9.0, dtype=np.float32)
    scores = memory[70 : 70 + 37]
    buffer = np.full(37 + GROUP + 8, 9.0, dtype=np.float32)
    scores[:] = np.arange(37)
    above = np.zeros(4, np.int64)
    reach = np.zeros(4, np.int64)
    bound = np.arange(4, dtype=np.float32)
    count_all(scores, bound, bound, 0, 4, buffer[: 37 + GROUP], np.zeros(4, np.int64), 0, above, reach)
    assert above.tolist() == [36, 35, 34, 33]
    assert reach.tolist() == [37, 36, 35, 34]
    assert (buffer[37 + GROUP :] == 9).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("width", [1, 7, 16, 1000, 1023, 1024])
def test_the_memory_of_a_worker_has_room_for_all_scores_and_a_group_more(width, dtype):
    from ipseval.ranking.kernels.blocks import Shape
    from ipseval.ranking.kernels.numba_count import GROUP
    from ipseval.ranking.kernels.numba_kernels import Worker

    scores = Worker(Shape(8, width, 5, np.dtype(dtype)))._scores
    assert scores.shape[1] >= width + GROUP
    assert scores.strides[0] % 4096


SAME = """
import json
from tests.ranking.test_numba_count import compute_ranks
from ipseval.ranking.kernels.numba_count import count_all
print(json.dumps([count_all.__name__, compute_ranks()]))
"""
FEW = """
import json
import numpy as np
import numba.extending
from llvmlite import ir
del {removed}
from ipseval.ranking.kernels.numba_count import count_all
from tests.ranking.test_numba_count import count_scores
scores = np.arange(40.0)
bound = np.array([3.0, 20.0, 9.0])
counts = np.zeros(3, np.int64)
print(json.dumps([count_all.__name__, *count_scores(scores, bound, bound, counts, 0)]))
"""


def compute_ranks():
    """Return ranks by Numba in single and double precision, of users with many positives in two tiles."""
    rng = np.random.default_rng(3)
    world = random_world(rng, 30, 1100)
    user = rng.normal(size=(world.n_users, 7))
    item = rng.normal(size=(1100, 7))
    results = []
    for scale in (1.0, 1e20):  # products of 1e40 leave the range of single precision
        compute = ComputeOptions(engine="numba", n_threads=1)
        results.append(rows(rank_positives((user * scale, item * scale), world.split, compute=compute)))
    return [[list(map(int, row)) for row in result] for result in results]


def run_in_another_process(code, tmp_path, **environment):
    process = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    return json.loads(process.stdout)


def test_scores_are_gathered_where_the_processor_can():
    from ipseval.ranking.kernels.numba_count import GATHERS, count_all

    assert count_all.__name__ == ("_gather_first" if GATHERS else "_compare_all")


@pytest.mark.slow
def test_a_processor_that_cannot_gather_counts_alike(tmp_path):
    from numba.core.registry import cpu_target

    features = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    reduced_features = [
        f"-{feature[1:]}" if feature.startswith("+avx512") else feature for feature in features
    ]
    environment = {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ",".join(reduced_features)}
    printed = run_in_another_process(SAME, tmp_path, **environment)
    assert printed == ["_compare_all", compute_ranks()]


@pytest.mark.slow
@pytest.mark.parametrize("removed", ["numba.extending.intrinsic", "ir.IRBuilder.ctpop"])
def test_where_instructions_cannot_be_inserted_all_scores_are_compared(removed, tmp_path):
    # Without the first nothing can be imported, without the second nothing compiled.
    printed = run_in_another_process(FEW.format(removed=removed), tmp_path)
    assert printed == ["_compare_all", [36, 19, 30], [37, 20, 31]]
