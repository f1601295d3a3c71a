"""Measures of lists against the packages that others use, on fifty random worlds.

IPSEVAL_PEERS names Pythons, separated as in PATH, that have rectools, replay-rec, recommenders or lenskit;
without it, this one is asked. They hold numpy and pandas at older versions: `python -m venv peers`,
`peers/bin/pip install rectools replay-rec`, `peers/bin/pip install --no-deps recommenders`; and, as it needs
PyTorch, `python -m venv lenskit`, `lenskit/bin/pip install lenskit`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ipseval

K, N_USERS, N_ITEMS, N_WORLDS = 5, 14, 25, 50
HERE = Path(__file__).parent


def world(seed):
    """Lists of one to seven items; some items never trained on, one user without history."""
    rng = np.random.default_rng(seed)
    seen = rng.random((N_USERS, N_ITEMS)) < rng.uniform(0.05, 0.5, N_ITEMS)
    seen[:, :3], seen[0] = False, False
    seen[1, 3:5] = True
    lists = []
    for is_seen in seen:
        free = rng.permutation(np.flatnonzero(~is_seen))
        lists.append(free[: rng.integers(1, 8)].tolist())
    return {
        "k": K,
        "n_items": N_ITEMS,
        "train": np.argwhere(seen).tolist(),
        "lists": lists,
        "vectors": rng.normal(size=(N_ITEMS, 3)).tolist(),
    }


WORLDS = [world(seed) for seed in range(N_WORLDS)]


def first(lists):
    return [items[:K] for items in lists]


@cache
def theirs(library: str) -> list[dict[str, float]]:
    # Of lists that are longer than k, measures without k are given the first k.
    short = library in ("recommenders", "lenskit")
    return values_of(
        library, [{**world, "lists": first(world["lists"])} for world in WORLDS] if short else WORLDS
    )


def values_of(library: str, worlds: list[dict]) -> list[dict[str, float]]:
    """Return what the package computes, by the first Python that has it."""
    for python in os.environ.get("IPSEVAL_PEERS", sys.executable).split(os.pathsep):
        done = subprocess.run(
            [python, str(HERE / "peer_values.py"), library],
            input=json.dumps(worlds),
            capture_output=True,
            text=True,
            check=False,
        )
        if "ModuleNotFoundError" not in done.stderr:
            assert done.returncode == 0, done.stderr
            return json.loads(done.stdout)
    pytest.skip(f"{library} is not installed; IPSEVAL_PEERS may name a Python that has it")


def ours(one, name):
    train = pd.DataFrame(one["train"], columns=["user", "item"])
    rows = [(u, i, place + 1) for u, items in enumerate(one["lists"]) for place, i in enumerate(items)]
    lists = pd.DataFrame(rows, columns=["user", "item", "rank"])
    test = lists[lists["rank"] == 1][["user", "item"]]  # every user has a positive
    split = ipseval.Split.from_frames(train, test, users=range(N_USERS), items=range(N_ITEMS))
    ranked = ipseval.rank_positives(lists, split, top_k=K)
    vectors = one["vectors"] if name == "ild" else None
    accuracy = ipseval.beyond_accuracy({"m": ranked}, split, measures=[f"{name}@{K}"], item_vectors=vectors)
    return accuracy.frame["estimate"].iloc[0]


def counts(one: dict) -> np.ndarray:
    """n* of each item."""
    return np.bincount([item for _, item in one["train"]], minlength=N_ITEMS)


def shown(one: dict) -> np.ndarray:
    """Whether each item stands in a list."""
    return np.bincount(np.concatenate(first(one["lists"])), minlength=N_ITEMS) > 0


def ild_with_zeros(one: dict) -> float:
    """A list of one item has diversity 0."""
    many = [len(items) > 1 for items in first(one["lists"])]
    return float(ours(one, "ild") * np.mean(many))


def coverage_of_trained(one: dict) -> float:
    """Items of the training log alone are counted, in the lists and in the catalogue."""
    return float(shown(one)[counts(one) > 0].mean())


def coverage_over_trained(one: dict) -> float:
    """Divided by the items of the training log, so that it can exceed 1."""
    return float(shown(one).sum() / (counts(one) > 0).sum())


def surprisal(one: dict) -> float:
    """Novelty over log2 U, and over k also where a list is shorter."""
    n_users = len({user for user, _ in one["train"]})
    bits = -np.log2(np.maximum(counts(one), 1) / n_users) / np.log2(n_users)
    return float(np.mean([bits[items].sum() / K for items in first(one["lists"])]))


def pooled_novelty(one: dict) -> float:
    """−log2(n*/Σn*) over all entries; items never trained on count as 0."""
    n = counts(one)
    bits = np.where(n > 0, -np.log2(np.maximum(n, 1) / n.sum()), 0.0)
    return float(bits[np.concatenate(first(one["lists"]))].mean())


def popularity_rank(one: dict) -> float:
    """The rank of n* among the items of the training log, as a share of them; 0 for other items."""
    n = pd.Series(counts(one))
    rank = (n[n > 0].rank() / (n > 0).sum()).reindex(n.index, fill_value=0.0).to_numpy()
    return float(np.mean([rank[items].mean() for items in first(one["lists"])]))


# What a library computes under the name of one of our measures: None where it is the same.
PEERS = {
    "rectools": {"coverage": None, "arp": None, "novelty": None, "ild": ild_with_zeros},
    "replay": {"coverage": coverage_of_trained, "novelty": surprisal},
    "recommenders": {
        "coverage": coverage_over_trained,
        "entropy": None,
        "novelty": pooled_novelty,
        "ild": None,
    },
    "lenskit": {"gini": None, "arp": popularity_rank, "length": None},
}
CASES = [(library, name) for library, names in PEERS.items() for name in names]


@pytest.mark.parametrize(("library", "name"), CASES)
def test_values_equal_those_of_the_package_on_fifty_worlds(library, name):
    expected = [world[name] for world in theirs(library)]
    rule = PEERS[library][name] or (lambda world: ours(world, name))
    np.testing.assert_allclose([rule(world) for world in WORLDS], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("library", "name"), [case for case in CASES if PEERS[case[0]][case[1]]])
def test_what_another_library_defines_in_another_way_is_another_number(library, name):
    gaps = [abs(ours(world, name) - PEERS[library][name](world)) for world in WORLDS[:10]]
    assert max(gaps) > 1e-6


def test_exposure_gini_of_lenskit_weighs_places_and_is_the_number_of_the_page():
    actual = theirs("lenskit")
    for world, values in zip(WORLDS, actual, strict=True):
        weight = np.zeros(N_ITEMS)
        for items in first(world["lists"]):
            weight[items] += 0.85 ** np.arange(len(items))
        ordered = np.sort(weight)
        gini = ((2 * np.arange(1, N_ITEMS + 1) - N_ITEMS - 1) * ordered).sum() / (N_ITEMS * ordered.sum())
        assert values["exposure gini"] == pytest.approx(gini, abs=1e-6)  # single precision there
        assert abs(gini - values["gini"]) > 1e-4
    # The example of docs/why-numbers-differ.md: Ann is shown c, d and Bob b, c, of a, b, c, d.
    page = {"k": 2, "n_items": 4, "train": [[0, 0], [0, 1], [1, 0]], "lists": [[2, 3], [1, 2]]}
    (values,) = values_of("lenskit", [page])
    assert values["gini"] == pytest.approx(0.375, abs=1e-12)
    assert values["arp"] == pytest.approx(0.125, abs=1e-12)
    assert round(values["exposure gini"], 4) == 0.3851
