"""How long exact ranking and a whole evaluation take, as ratios to the bare product of the factor matrices.

    python benchmarks/ranking.py                        # W1, W2, W3 with both engines
    python benchmarks/ranking.py --scaling --memory     # growth with users, items, positives; peak memory
    python benchmarks/ranking.py --workloads --shared   # popularity, and the ties of pure SVD

The bare product multiplies blocks of 512 users by all items, with all BLAS threads; it delivers nothing yet.
"reused" writes every block into the same memory; "plain" is `users @ items.T`, a new block each time, as it
is usually written (the operating system then clears the pages of every block). Everything is measured in
alternation with it, in one process; ratios are of medians. On a shared machine, `--clock cpu --threads 1`
compares the processor time of one thread.
"""

from __future__ import annotations

import argparse
import cProfile
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.metadata import version
from typing import Any

import numpy as np
from clocks import in_turn, seconds
from run import processor
from threadpoolctl import threadpool_info, threadpool_limits
from workloads import SIZES, Workload, build, make

import ipseval
from ipseval import ComputeOptions, PowerLawPropensity, evaluate_ranks, rank_positives

METRICS = ("auc", "atop", "recall@5", "recall@10", "recall@50", "mean_dcg", "ndcg@10")
ESTIMATORS = ("aoa", "snips", "snips-global")
BLOCK = 512


def main() -> None:
    arguments = parse()
    if arguments.peak:
        peak(arguments)
        return
    print(environment(arguments.threads))
    for name in arguments.workloads:
        compare(make(name), arguments)
    if arguments.scaling:
        scaling(arguments)
    if arguments.memory:
        memory(arguments)
    if arguments.startup:
        startup()
    if arguments.shared:
        shared(arguments)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", nargs="*", default=["W1", "W2", "W3"], choices=list(SIZES))
    parser.add_argument("--engines", nargs="+", default=["numba", "numpy"])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--clock", choices=["wall", "cpu"], default="wall")
    parser.add_argument("--stages", action="store_true", help="time of each stage, one thread")
    parser.add_argument("--scaling", action="store_true")
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--startup", action="store_true")
    parser.add_argument("--shared", action="store_true", help="scores and ties that users or items share")
    parser.add_argument("--peak", help=argparse.SUPPRESS)  # one measurement, in a process of its own
    return parser.parse_args()


def environment(n_threads: int) -> str:
    names = ("numpy", "numba", "scipy", "pandas")
    blas = {(one["internal_api"], one.get("architecture"), one["version"]) for one in threadpool_info()}
    versions = ", ".join(f"{name} {version(name)}" for name in names)
    return (
        f"ipseval {ipseval.__version__}, Python {platform.python_version()}, {versions}; "
        f"BLAS {', '.join(' '.join(map(str, one)) for one in blas)}\n{processor()}, {os.cpu_count()} cores, "
        f"{n_threads} threads used, {platform.system()}; load average at the start {os.getloadavg()[0]:.1f}"
    )


def clock(arguments: argparse.Namespace) -> Callable[[], float]:
    return {"wall": time.perf_counter, "cpu": time.process_time}[arguments.clock]


def bare_product(workload: Workload, *, reuse: bool = True) -> None:
    user, item = workload.user_factors, workload.item_factors
    out = np.empty((BLOCK, item.shape[0]), dtype=user.dtype) if reuse else None
    for first in range(0, user.shape[0], BLOCK):
        block = user[first : first + BLOCK]
        np.matmul(block, item.T, out=None if out is None else out[: block.shape[0]])


def calls(workload: Workload, engine: str, n_threads: int) -> dict[str, Callable[[], object]]:
    """Return the ranking, and what evaluate() does: ranking and all estimates."""
    model = (workload.user_factors, workload.item_factors)
    propensity = PowerLawPropensity(gamma=1.0)
    compute = ComputeOptions(engine=engine, n_threads=n_threads)

    def rank() -> ipseval.RankedPositives:
        return rank_positives(model, workload.split, compute=replace(compute, progress=False))

    def whole() -> ipseval.Evaluation:
        fitted = propensity.fit(workload.split.train)
        return evaluate_ranks(
            {"m": rank()}, propensity=fitted, metrics=METRICS, estimators=ESTIMATORS, compute=compute
        )

    return {"rank": rank, "evaluate": whole}


def compare(workload: Workload, arguments: argparse.Namespace) -> None:
    """Print the medians of the ratios, measured in alternation."""
    work = {
        (engine, what): call
        for engine in arguments.engines
        for what, call in calls(workload, engine, arguments.threads).items()
    }
    bare = {
        "reused": lambda: bare_product(workload),
        "plain": lambda: bare_product(workload, reuse=False),
    }
    measured: dict[tuple[str, str], list[float]] = {key: [] for key in (*work, *bare)}
    warnings.simplefilter("ignore", UserWarning)
    with threadpool_limits(arguments.threads, user_api="blas"):
        for call in (*work.values(), *bare.values()):
            call()  # compile, load, touch
        for _ in range(arguments.repeats):
            for key, call in work.items():
                for name, product in bare.items():
                    measured[name].append(seconds(product, clock(arguments)))
                measured[key].append(seconds(call, clock(arguments)))
    report(workload, measured, list(work), list(bare))
    if arguments.stages:
        for engine in arguments.engines:
            stages(workload, engine)


def report(
    workload: Workload, measured: dict[Any, list[float]], work: list[tuple[str, str]], bare: list[str]
) -> None:
    n_users = workload.split.n_users
    shape = f"{n_users:,} users x {workload.split.n_items:,} items x {workload.user_factors.shape[1]}"
    print(f"\n{workload.name}: {shape}; {len(workload.split.test):,} positives")
    for name in bare:
        low, middle, high = np.quantile(measured[name], [0.1, 0.5, 0.9]) / n_users * 1e6
        print(f"  bare product, {name:6}  {middle:8.2f} us per user (10 % to 90 %: {low:.2f} to {high:.2f})")
    print("  ratio of medians to the bare product:    " + "   ".join(f"{name:>8}" for name in bare))
    for key in work:
        ratios = [np.median(measured[key]) / np.median(measured[name]) for name in bare]
        print(f"    {key[0]:6} {key[1]:28}     " + "   ".join(f"{ratio:8.2f}" for ratio in ratios))
    for engine in dict.fromkeys(engine for engine, _ in work):
        rank, whole = (float(np.median(measured[engine, what])) for what in ("rank", "evaluate"))
        print(f"    {engine:6} share of ranking in evaluate     {min(rank / whole, 1):.0%}")


STAGES = {  # functions whose own time is a stage; NumPy's functions belong to the kernel that calls them
    "numba": {
        "products and comparison": ("numba_kernels", ("_count_users", "count")),
        "exact scores": ("numba_kernels", ("pair_scores", "row_scores")),
    },
    "numpy": {
        "products, training items": ("numpy_kernels", ("count",)),
        "comparison": ("numpy_count", ("count", "_compared", "_place", "_search")),
        "close scores": ("numpy_kernels", ("_near",)),
        "exact scores": ("numpy_kernels", ("pair_scores", "row_scores")),
    },
}


def stages(workload: Workload, engine: str) -> None:
    """Print the processor time of each stage of an evaluation with one thread, in us per user."""
    call = calls(workload, engine, 1)["evaluate"]
    profiler = cProfile.Profile(time.process_time)
    profiler.runcall(call)
    entries = profiler.getstats()
    total = sum(entry.inlinetime for entry in entries)
    spent = dict.fromkeys(STAGES[engine], 0.0)
    whole_ranking = 0.0
    for entry in entries:
        code = entry.code
        file, name = getattr(code, "co_filename", ""), getattr(code, "co_name", "")
        if file.endswith("_exact.py") and name == "rank_positives":
            whole_ranking = entry.totaltime
        for stage, (where, names) in STAGES[engine].items():
            if f"ranking/kernels/{where}.py" in file and name in names:
                spent[stage] += entry.inlinetime
                numpys = (x for x in entry.calls or () if "numpy" in getattr(x.code, "co_filename", "numpy"))
                spent[stage] += sum(sub.totaltime for sub in numpys)
    spent["rest of the ranking"] = whole_ranking - sum(spent.values())
    spent["metrics and estimators"] = total - whole_ranking
    per_user = 1e6 / workload.split.n_users
    shown = "; ".join(f"{name} {value * per_user:.2f}" for name, value in spent.items())
    print(f"    {engine} stages, us per user: {shown}")


def scaling(arguments: argparse.Namespace) -> None:
    """Print how the time of a ranking grows with users, items and positives per user."""
    engine = arguments.engines[0]
    grids = {
        "users": [{"scale_users": x} for x in (0.25, 0.5, 1)],
        "items": [{"scale_items": x} for x in (0.5, 1, 2)],
        "positives per user": [{"n_positives": x, "scale_users": 0.25} for x in (1, 10, 100)],
    }
    print(f"\nGrowth on W1 ({engine}, seconds of a ranking, relative to the first)")
    for what, grid in grids.items():
        loads = [make("W1", **options) for options in grid]
        runs = {place: calls(load, engine, arguments.threads)["rank"] for place, load in enumerate(loads)}
        times = in_turn(runs, arguments.repeats, clock(arguments))
        middle = [float(np.median(found)) for found in times.values()]
        steps = ", ".join(
            f"{next(iter(options.values())):g}: {value:.3f} s ({value / middle[0]:.2f})"
            for options, value in zip(grid, middle, strict=True)
        )
        print(f"  {what:20} {steps}")


def memory(arguments: argparse.Namespace) -> None:
    """Print the peak memory of a ranking above its inputs, each in a process of its own."""
    print("\nPeak resident memory of a ranking above the inputs")
    cases = [("W1", "128 MB"), ("W1", "16 MB"), ("W2", "128 MB"), ("million", "128 MB"), ("million", "16 MB")]
    for engine in arguments.engines:
        for workload, limit in cases:
            case = json.dumps([workload, limit, engine, arguments.threads])
            done = subprocess.run(
                [sys.executable, __file__, "--peak", case], capture_output=True, text=True, check=True
            )
            print(f"  {engine:6} {workload:8} max_memory={limit:7} {done.stdout.strip()}")


def peak(arguments: argparse.Namespace) -> None:
    name, limit, engine, n_threads = json.loads(arguments.peak)
    workload = build("million", 1_000, 1_000_000, 64) if name == "million" else make(name)
    small = build("small", 200, 3_000, workload.user_factors.shape[1])
    calls(small, engine, n_threads)["rank"]()  # load and compile what is needed
    before = current_bytes()
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # reset the peak to what is resident now
    took = seconds(
        lambda: rank_positives(
            (workload.user_factors, workload.item_factors),
            workload.split,
            compute=ComputeOptions(engine=engine, n_threads=n_threads, max_memory=limit),
        ),
        time.perf_counter,
    )
    total = current_bytes("VmHWM")
    print(f"{(total - before) / 2**20:7.0f} MB above; {total / 2**20:7.0f} MB in all; {took:.1f} s")


def shared(arguments: argparse.Namespace) -> None:
    """Print what a score per item costs on a large log, and low-rank factors against dense scores."""
    rng, n_users, n_items = np.random.default_rng(0), 142_857, 50_000
    share = np.arange(1, n_items + 1) ** -0.9
    item = np.searchsorted(np.cumsum(share / share.sum()), rng.random(6_500_000)).clip(0, n_items - 1)
    key = np.unique(rng.integers(n_users, size=item.size) * n_items + item)
    held = rng.random(key.size) < 0.2
    ids = np.arange(n_users), np.arange(n_items)
    parts = key[~held], key[held]
    train, test = (ipseval.Interactions(part // n_items, part % n_items, *ids) for part in parts)
    world = ipseval.simulation.World(n_users=4000, n_items=2000, mean_relevant=40, max_propensity=0.6, rng=0)
    small = world.split(rng=1)
    rest = world.relevant.select(~np.isin(world.relevant.pair_key, small.train.pair_key))
    user_factors, item_factors = ipseval.baselines.pure_svd(small.train)
    dense = np.zeros((4000, 2000))
    for k in range(user_factors.shape[1]):  # in order, as the scores of factors are defined
        dense += user_factors[:, k : k + 1] * item_factors[:, k]
    cases = {
        "popularity": (ipseval.baselines.popularity(train), ipseval.Split(train, test)),
        "pure SVD": ((user_factors, item_factors), ipseval.Split(small.train, rest)),
        "the same, dense": (dense, ipseval.Split(small.train, rest)),
    }
    print("\nShared scores and ties, seconds")
    for engine in arguments.engines:
        compute = ComputeOptions(engine=engine, n_threads=arguments.threads)
        for name, (model, split) in cases.items():
            call = partial(rank_positives, model, split, compute=replace(compute, progress=False))
            spent = in_turn({name: call}, arguments.repeats, clock(arguments))[name]
            print(f"  {engine:6} {name:16} {len(split.test):9,} positives {np.median(spent):6.2f}")


STARTUP = """
import time
t = time.process_time()
import ipseval
print(f"import ipseval {time.process_time() - t:.2f} s", end="")
import numpy as np, pandas as pd, numba
split = ipseval.Split.from_frames(*(pd.DataFrame({"user": [0], "item": [i]}) for i in (0, 1)))
factors, scores = (np.ones((1, 2), "f4"), np.ones((2, 2), "f4")), np.ones((1, 2), "f4")
for what, model in (("factors", factors), ("scores", scores)):
    t = time.process_time()
    options = ipseval.ComputeOptions(engine='numba', n_threads=1)
    ipseval.rank_positives(model, split, compute=options)
    print(f"; first ranking of {what} {time.process_time() - t:.2f} s", end="")
"""


def startup() -> None:
    """Print what importing and the first rankings with Numba cost, without and with a filled cache."""
    print("\nStart-up, processor time (Numba's own import not counted)")
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        for state in ("empty", "filled"):
            done = subprocess.run(
                [sys.executable, "-c", STARTUP], capture_output=True, text=True, check=True, env=environment
            )
            print(f"  cache {state:7} {done.stdout.strip()}")


def current_bytes(field: str = "VmRSS") -> int:
    """Return the resident memory of this process now, or its peak (Linux)."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith(field):
                return int(line.split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


if __name__ == "__main__":
    main()
