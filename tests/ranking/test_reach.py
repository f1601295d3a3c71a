"""Scores beyond thresholds, counted by Numba: the lowest threshold first, on every processor alike."""

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


def counted(scores, lo, hi, before, n_before):
    from ipseval.ranking.kernels.numba_count import GROUP, count_all

    above, reach = np.full((2, lo.size), -1)
    kept = np.full(scores.size + GROUP, 7, dtype=scores.dtype)
    count_all(scores, lo, hi, 0, lo.size, kept, before, n_before, above, reach)
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
    above, reach = counted(scores, lo, hi, np.full(n, 9), 9 if low else 18)
    assert above == [sum(x > bound for x in scores.tolist()) for bound in hi.tolist()]
    assert reach == [sum(x >= bound for x in scores.tolist()) for bound in lo.tolist()]


def test_scores_beside_those_that_are_counted_are_neither_read_nor_written():
    from ipseval.ranking.kernels.numba_count import GROUP, count_all

    around = np.full(200, 9.0, dtype=np.float32)
    scores, kept = around[70 : 70 + 37], np.full(37 + GROUP + 8, 9.0, dtype=np.float32)
    scores[:] = np.arange(37)
    above, reach, bound = np.zeros(4, np.int64), np.zeros(4, np.int64), np.arange(4, dtype=np.float32)
    count_all(scores, bound, bound, 0, 4, kept[: 37 + GROUP], np.zeros(4, np.int64), 0, above, reach)
    assert above.tolist() == [36, 35, 34, 33]
    assert reach.tolist() == [37, 36, 35, 34]
    assert (kept[37 + GROUP :] == 9).all()


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
from tests.ranking.test_reach import ranks_of_a_world
from ipseval.ranking.kernels.numba_count import count_all
print(json.dumps([count_all.__name__, ranks_of_a_world()]))
"""
FEW = """
import json
import numpy as np
import numba.extending
from llvmlite import ir
del {gone}
from ipseval.ranking.kernels.numba_count import count_all
from tests.ranking.test_reach import counted
scores, bound, before = np.arange(40.0), np.array([3.0, 20.0, 9.0]), np.zeros(3, np.int64)
print(json.dumps([count_all.__name__, *counted(scores, bound, bound, before, 0)]))
"""


def ranks_of_a_world():
    """Return ranks by Numba in single and double precision, of users with many positives in two tiles."""
    rng = np.random.default_rng(3)
    world = random_world(rng, 30, 1100)
    user, item = rng.normal(size=(world.n_users, 7)), rng.normal(size=(1100, 7))
    found = []
    for scale in (1.0, 1e20):  # products of 1e40 leave the range of single precision
        compute = ComputeOptions(engine="numba", n_threads=1)
        found.append(rows(rank_positives((user * scale, item * scale), world.split, compute=compute)))
    return [[list(map(int, one)) for one in ranks] for ranks in found]


def printed_by_another_process(code, tmp_path, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_scores_are_gathered_where_the_processor_can():
    from ipseval.ranking.kernels.numba_count import GATHERS, count_all

    assert count_all.__name__ == ("_gather_first" if GATHERS else "_compare_all")


@pytest.mark.slow
def test_a_processor_that_cannot_gather_counts_alike(tmp_path):
    from numba.core.registry import cpu_target

    features = cpu_target.target_context.codegen().magic_tuple()[2].split(",")
    fewer = [f"-{one[1:]}" if one.startswith("+avx512") else one for one in features]
    environment = {"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": ",".join(fewer)}
    found = printed_by_another_process(SAME, tmp_path, **environment)
    assert found == ["_compare_all", ranks_of_a_world()]


@pytest.mark.slow
@pytest.mark.parametrize("gone", ["numba.extending.intrinsic", "ir.IRBuilder.ctpop"])
def test_where_instructions_cannot_be_inserted_all_scores_are_compared(gone, tmp_path):
    # Without the first nothing can be imported, without the second nothing compiled.
    found = printed_by_another_process(FEW.format(gone=gone), tmp_path)
    assert found == ["_compare_all", [36, 19, 30], [37, 20, 31]]
