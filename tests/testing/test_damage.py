"""Gates fail closed: evidence that is damaged, mixed or impossible is an error and exit code 2."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from ipseval.cli import main
from ipseval.evaluation import evaluate_ranks
from ipseval.ranking import RankedPositives
from tests.testing.test_testing import WORSE, baseline

__all__ = ["baseline"]  # a fixture


def test_a_gate_never_passes_on_a_damaged_baseline(baseline, tmp_path, capsys):
    WORSE.save(tmp_path / "worse.npz")
    compare = ["compare", str(tmp_path / "worse.npz"), str(baseline), "--metric", "recall@5"]
    assert main(compare) == 1
    whole = baseline.read_bytes()
    rng = np.random.default_rng(0)
    places = rng.integers(0, len(whole), 4)  # tests/utils/test_artefacts.py takes every byte
    damaged = [whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :] for at in places]
    damaged += [whole[:at] for at in places]
    damaged += [whole[:at] + whole[at + 40 :] for at in places]
    codes = []
    for one in damaged:
        baseline.write_bytes(one)
        codes.append(main(compare))
    assert set(codes) <= {1, 2}  # 1: what changed says nothing, such as the date of a member
    cut = codes[len(places) : 2 * len(places)]
    assert set(cut) == {2}  # wherever the file ends too early
    printed = capsys.readouterr().out
    assert "better" not in printed
    assert "not shown" not in printed


def test_the_hash_of_the_data_covers_users_items_and_numbers_of_candidates():
    def ranks(user: str = "a", item: int = 7, n_candidates: int = 9) -> RankedPositives:
        ids = {"user_ids": np.array([user, "b"], dtype=object), "item_ids": np.array([item, 8])}
        counts = {"n_above": np.zeros(2, int), "n_tied": np.zeros(2, int)}
        candidates = np.array([n_candidates, 9])
        return RankedPositives(np.arange(2), np.arange(2), n_candidates=candidates, **ids, **counts)

    def found(**changes: Any) -> str:
        return evaluate_ranks({"m": ranks(**changes)}, metrics=["recall@5"], estimators=["aoa"]).data_hash

    by_hand = hashlib.sha256(b"a\x1fb\x1e7\x1f8\x1e9\x1f9\x1e").hexdigest()
    assert found() == by_hand
    assert len({by_hand, found(user="c"), found(item=6), found(n_candidates=10)}) == 4
