"""Gates fail closed: evidence that is damaged, mixed or impossible is an error and exit code 2."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np
import pytest

from ipseval.cli import main
from ipseval.evaluation import evaluate_ranks
from ipseval.ranking import RankedPositives
from tests.testing.test_testing import WORSE, baseline

__all__ = ["baseline"]  # a fixture


def test_a_gate_never_passes_on_a_damaged_baseline(baseline, tmp_path, capsys):
    WORSE.save(tmp_path / "worse.npz")
    compare = ["compare", str(tmp_path / "worse.npz"), str(baseline), "--metric", "recall@5"]
    assert main(compare) == 1
    content = baseline.read_bytes()
    rng = np.random.default_rng(0)
    positions = rng.integers(0, len(content), 4)  # tests/utils/test_artefacts.py takes every byte
    damaged = [
        content[:position] + bytes([content[position] ^ 255]) + content[position + 1 :]
        for position in positions
    ]
    damaged += [content[:position] for position in positions]
    damaged += [content[:position] + content[position + 40 :] for position in positions]
    codes = []
    for damaged_content in damaged:
        baseline.write_bytes(damaged_content)
        codes.append(main(compare))
    assert set(codes) <= {1, 2}  # 1: what changed says nothing, such as the date of a member
    codes_of_truncated = codes[len(positions) : 2 * len(positions)]
    assert set(codes_of_truncated) == {2}  # wherever the file ends too early
    printed = capsys.readouterr().out
    assert "better" not in printed
    assert "not shown" not in printed


@pytest.mark.filterwarnings("ignore:.*the cutoff exceeds")
def test_the_hash_of_the_data_covers_users_items_and_numbers_of_candidates():
    def ranks(user: str = "a", item: int = 7, n_candidates: int = 9) -> RankedPositives:
        ids = {"user_ids": np.array([user, "b"], dtype=object), "item_ids": np.array([item, 8])}
        counts = {"n_above": np.zeros(2, int), "n_tied": np.zeros(2, int)}
        candidates = np.array([n_candidates, 9])
        return RankedPositives(np.arange(2), np.arange(2), n_candidates=candidates, **ids, **counts)

    def compute_hash(**changes: Any) -> str:
        return evaluate_ranks({"m": ranks(**changes)}, metrics=["recall@5"], estimators=["aoa"]).data_hash

    by_hand = hashlib.sha256(b"a\x1fb\x1e7\x1f8\x1e9\x1f9\x1e").hexdigest()
    assert compute_hash() == by_hand
    assert len({by_hand, compute_hash(user="c"), compute_hash(item=6), compute_hash(n_candidates=10)}) == 4
