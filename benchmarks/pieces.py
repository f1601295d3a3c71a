"""What each piece of special code buys: processor time of one thread without it, relative to that with it.

    python benchmarks/pieces.py [NAME …] [--repeats N]

A piece is taken out by putting what is simpler in its place, in a process of its own, on the case that it is
for. The integers and numbers are the same. What buys less than a fifth, 1.2, should go.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import contextmanager
from functools import partial

import numpy as np
from clocks import in_turn
from ties import CASES
from workloads import build

import ipseval

Run = Callable[[], object]


def ranking(case: str = "clear", engine: str = "numba", users: int = 1_000, positives: int = 10) -> Run:
    """Return the ranking of a case of `ties.py`, 20,000 items."""
    work = build("pieces", users, 20_000, 64, positives)
    model = CASES[case](np.random.default_rng(1), work.user_factors, work.item_factors)
    return partial(
        ipseval.rank_positives,
        model,
        work.split,
        compute=ipseval.ComputeOptions(engine=engine, n_threads=1, progress=False),
    )


def correction() -> Run:
    """Return a correction by the log alone; BLAS may take both cores."""
    world = ipseval.simulation.World(n_users=5_000, n_items=1_000, mean_relevant=30, rng=0)
    split = world.split(rng=1)
    models = world.example_models(split, rng=2)
    return partial(ipseval.correct, models, split, metrics=["atop", "recall@10"], rng=0)


def without_numba() -> None:
    from ipseval.ranking.kernels import numba_kernels, numpy_kernels

    for name in (
        "Worker",
        "tile_width",
        "block_users",
        "block_bytes",
        "pair_scores",
        "row_scores",
        "count_stored",
    ):
        setattr(numba_kernels, name, getattr(numpy_kernels, name))


def without_gather() -> None:
    from ipseval.ranking.kernels import numba_count

    numba_count.count_all = numba_count._compare_all  # before the kernels are compiled


def without_duplicates() -> None:
    from ipseval.ranking import _passes

    _passes.DuplicateItems.of = classmethod(lambda cls, factors: None)


def without_exact_products() -> None:
    from ipseval.ranking._factors import Factors

    Factors.step = 0.0


def without_whole_tiles() -> None:
    from ipseval.ranking.kernels import numpy_kernels

    numpy_kernels.FEW = 1e-9  # however many pairs are close, each has its own exact sum


def without_sorting() -> None:
    from ipseval.ranking.kernels import numpy_count

    numpy_count.SLOTS = sys.maxsize


def without_byte_lanes() -> None:
    from ipseval.ranking.kernels import numpy_count

    class Plain:  # NumPy, but for sums of words
        def __getattr__(self, name: str) -> object:
            return getattr(np, name)

        einsum = staticmethod(lambda form, words: words.view(np.uint8).reshape(*words.shape[:2], -1))

    numpy_count.np = Plain()


def without_one_blas_thread() -> None:
    from ipseval._base import compute

    compute.one_blas_thread = contextmanager(lambda: iter([None]))  # before what it decorates is imported


# name: the case, and what takes the piece out; the piece is in the NumPy engine where the case says so.
PIECES: dict[str, tuple[Callable[[], Run], Callable[[], None]]] = {
    "Numba": (partial(ranking, users=10_000), without_numba),
    "gather": (partial(ranking, users=10_000), without_gather),
    "equal items": (partial(ranking, "copies, 1000", "numpy"), without_duplicates),
    "exact products": (partial(ranking, "whole numbers", "numpy"), without_exact_products),
    "whole tiles": (partial(ranking, "one place", "numpy", 100), without_whole_tiles),
    "sorting": (partial(ranking, "clear", "numpy", 300, 100), without_sorting),
    "byte lanes": (partial(ranking, "clear", "numpy"), without_byte_lanes),
    "one thread of BLAS": (correction, without_one_blas_thread),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(PIECES))
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--child", choices=("with", "without"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        make, take_out = PIECES[options.names[0]]
        if options.child == "without":
            take_out()
        print(statistics.median(in_turn({"": make()}, options.repeats)[""]))
        return
    for name in options.names or PIECES:
        own, other = (measured(name, child, options.repeats) for child in ("with", "without"))
        print(f"{name:20} {own:6.2f} s, without it {other:6.2f} s, {other / own:5.2f} times", flush=True)


def measured(name: str, child: str, repeats: int) -> float:
    """Return the median seconds of a piece's case in a process that compiles for itself."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, name, "--child", child, "--repeats", str(repeats)]
        done = subprocess.run(
            command, env=os.environ | {"NUMBA_CACHE_DIR": cache}, capture_output=True, text=True, check=True
        )
    return float(done.stdout)


if __name__ == "__main__":
    main()
