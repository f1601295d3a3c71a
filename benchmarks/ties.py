"""What ranking costs where many scores are equal or nearly so, relative to the same shapes without ties.

    python benchmarks/ties.py                          # all cases, both engines, processor time of one thread
    python benchmarks/ties.py --cases groups whole     # some of them
    python benchmarks/ties.py --dimensions 16

"clear" are the factors of `workloads.py`, W1 with fewer users, whose scores are hardly ever close. Each case
has other factors of the same shape, the same positives and training items, and is measured in turn with it.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
from clocks import in_turn
from page import add_write_option, deliver
from workloads import build

from ipseval import ComputeOptions, rank_positives
from reproductions.tables import markdown

Pair = tuple[np.ndarray, np.ndarray]


def groups(rng: np.random.Generator, item: np.ndarray, size: int) -> np.ndarray:
    """Return items of which `size` at a time have the factors of the first, in no order."""
    return item[rng.permutation(np.arange(item.shape[0]) // size * size)]


def copies(size: int) -> Callable[..., Pair]:
    return lambda rng, user, item: (user, groups(rng, item, size))


def almost_copies(size: int) -> Callable[..., Pair]:
    """Return groups of items that differ in the last bits of single precision."""

    def add_noise(rng: np.random.Generator, user: np.ndarray, item: np.ndarray) -> Pair:
        bits = (1 + 1e-7 * rng.integers(-2, 3, size=item.shape)).astype("f4")
        return user, groups(rng, item, size) * bits

    return add_noise


def rounding_noise(rng: np.random.Generator, user: np.ndarray, item: np.ndarray) -> Pair:
    """Double precision: groups of a hundred that differ in the last bits."""
    return user.astype(float), groups(rng, item, 100) * (1 + 2e-16 * rng.integers(-1, 2, size=item.shape))


def two_factors(rng: np.random.Generator, user: np.ndarray, item: np.ndarray) -> Pair:
    """Rank two, turned into all dimensions: two hundred places, single precision."""
    turn = np.linalg.qr(rng.normal(size=(item.shape[1], 2)))[0]
    angle = rng.integers(200, size=item.shape[0]) * (np.pi / 100)
    flat = np.column_stack([np.cos(angle), np.sin(angle)]) + 1e-7 * rng.normal(size=(item.shape[0], 2))
    return (user[:, 1:3] @ turn.T).astype("f4"), (flat @ turn.T).astype("f4")


def whole_numbers(rng: np.random.Generator, user: np.ndarray, item: np.ndarray) -> Pair:
    return tuple(rng.integers(-2, 3, size=x.shape).astype("f4") for x in (user, item))


def tenths(rng: np.random.Generator, user: np.ndarray, item: np.ndarray) -> Pair:
    """Whole numbers times .1: the same ties up to rounding."""
    return tuple((rng.integers(-2, 3, size=x.shape) * 0.1).astype("f4") for x in (user, item))


def popularity(rng: np.random.Generator, user: np.ndarray, item: np.ndarray) -> Pair:
    """Every user has the same factors, the items a count in one of them."""
    count = rng.zipf(1.3, size=item.shape[0]).clip(0, 10_000)
    return np.ones_like(user), (count[:, None] * np.eye(1, item.shape[1])).astype("f4")


def short_tail(rng: np.random.Generator, user: np.ndarray, item: np.ndarray) -> Pair:
    """Nine items in ten have factors a hundred million times shorter than the others."""
    return user, item * np.where(rng.random((item.shape[0], 1)) < 0.9, 1e-8, 1.0).astype("f4")


def one_place(rng: np.random.Generator, user: np.ndarray, item: np.ndarray) -> Pair:
    """All items in one place but for the last bits: every pair is too close to call."""
    return user, item[:1] * (1 + 1e-7 * rng.integers(-2, 3, size=item.shape)).astype("f4")


def one_place_double(rng: np.random.Generator, user: np.ndarray, item: np.ndarray) -> Pair:
    return user.astype(float), item[:1] * (1 + 2e-16 * rng.integers(-1, 2, size=item.shape))


CASES: dict[str, Callable[..., Pair]] = {
    "clear": lambda rng, user, item: (user, item),
    "clear, double precision": lambda rng, user, item: (user.astype(float), item.astype(float)),
    "clear, factors times 10,000": lambda rng, user, item: (user * np.float32(1e4), item * np.float32(1e4)),
    "groups of 2 equal items": copies(2),
    "groups of 8 equal items": copies(8),
    "groups of 100 equal items": copies(100),
    "groups of 1,000 equal items": copies(1000),
    "groups of 10 that differ in the last bits": almost_copies(10),
    "groups of 30 that differ in the last bits": almost_copies(30),
    "groups of 100 that differ in the last bits": almost_copies(100),
    "groups of 100 that differ in the last bits, double precision": rounding_noise,
    "rank two, 200 directions and noise of 1e-7": two_factors,
    "whole numbers": whole_numbers,
    "whole numbers times 0.1": tenths,
    "one count for each item": popularity,
    "nine items in ten 100 million times shorter": short_tail,
    "all items equal up to the last bits": one_place,
    "all items equal up to the last bits, double precision": one_place_double,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", default=[""], help="cases that begin with one of these")
    parser.add_argument("--engines", nargs="+", default=["numba", "numpy"])
    parser.add_argument("--users", type=int, default=500)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--dimensions", type=int, default=64)
    parser.add_argument("--repeats", type=int, default=3)
    add_write_option(parser)
    options = parser.parse_args()
    work = build("ties", options.users, options.items, options.dimensions)
    chosen = [name for name in CASES if name.startswith(tuple(options.cases)) and name != "clear"]
    rows = []
    for name in chosen:
        pair = CASES[name](np.random.default_rng(1), work.user_factors, work.item_factors)
        found = []
        for engine in options.engines:
            compute = ComputeOptions(engine=engine, n_threads=1)
            rank = partial(rank_positives, split=work.split, compute=replace(compute, progress=False))
            runs = {"clear": partial(rank, (work.user_factors, work.item_factors)), name: partial(rank, pair)}
            clear, times = in_turn(runs, options.repeats).values()
            found.append(np.median(times) / np.median(clear))
        rows.append((name, *(f"{ratio:.2f}" for ratio in found)))
        print(" | ".join(rows[-1]), flush=True)
    deliver("ties", markdown(("scores", *options.engines), rows), options.write)


if __name__ == "__main__":
    main()
