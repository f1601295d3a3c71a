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
from ipseval.beyond import COMPAT

K, N_USERS, N_ITEMS, N_WORLDS = 5, 14, 25, 50
HERE = Path(__file__).parent


def world(seed):
    """Lists of one to seven items; some items never trained on, one user without history."""
    rng = np.random.default_rng(seed)
    seen = rng.random((N_USERS, N_ITEMS)) < rng.uniform(0.05, 0.5, N_ITEMS)
    seen[:, :3], seen[0] = False, False
    seen[1, 3:5] = True
    lists = []
    for own in seen:
        free = rng.permutation(np.flatnonzero(~own))
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
    return [one[:K] for one in lists]


@cache
def theirs(library: str) -> list[dict[str, float]]:
    # Of lists that are longer than k, measures without k are given the first k.
    short = library in ("recommenders", "lenskit")
    return values_of(library, [{**one, "lists": first(one["lists"])} for one in WORLDS] if short else WORLDS)


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


def ours(one, label):
    train = pd.DataFrame(one["train"], columns=["user", "item"])
    rows = [(u, i, place + 1) for u, own in enumerate(one["lists"]) for place, i in enumerate(own)]
    lists = pd.DataFrame(rows, columns=["user", "item", "rank"])
    test = lists[lists["rank"] == 1][["user", "item"]]  # every user has a positive
    split = ipseval.Split.from_frames(train, test, users=range(N_USERS), items=range(N_ITEMS))
    ranked = ipseval.rank_positives(lists, split, top_k=K)
    vectors = one["vectors"] if label.startswith("ild") else None
    found = ipseval.beyond_accuracy({"m": ranked}, split, measures=[label], item_vectors=vectors)
    return found.frame["estimate"].iloc[0]


@pytest.mark.parametrize(("library", "name"), [(one, name) for one in COMPAT for name in COMPAT[one]])
def test_values_equal_those_of_the_package_on_fifty_worlds(library, name):
    expected = [one[name] for one in theirs(library)]
    got = [ours(one, f"{name}@{K}[{library}]") for one in WORLDS]
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(("library", "name"), [(one, name) for one in COMPAT for name in COMPAT[one]])
def test_where_a_convention_is_called_the_same_it_is(library, name):
    difference = COMPAT[library][name][2]
    gaps = [abs(ours(one, f"{name}@{K}") - ours(one, f"{name}@{K}[{library}]")) for one in WORLDS[:10]]
    assert (max(gaps) > 1e-6) == bool(difference)


def test_exposure_gini_of_lenskit_weighs_places_and_is_the_number_of_the_page():
    found = theirs("lenskit")
    for one, values in zip(WORLDS, found, strict=True):
        weight = np.zeros(N_ITEMS)
        for own in first(one["lists"]):
            weight[own] += 0.85 ** np.arange(len(own))
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
