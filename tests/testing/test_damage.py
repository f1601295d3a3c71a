"""Gates fail closed: evidence that is damaged, mixed or impossible is an error and exit code 2."""

from __future__ import annotations

import hashlib
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipseval.cli import main
from ipseval.evaluation import evaluate_ranks
from ipseval.ranking import RankedPositives
from tests.testing.test_testing import WORSE, baseline

__all__ = ["baseline"]  # a fixture


def list_centres(path: Path) -> list[int]:
    """Return the place in the middle of the data of each member of an archive."""
    content = path.read_bytes()
    centres = []
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            # The local header has 30 bytes, the last four of which are the lengths of name and extra field.
            name_length, extra_length = struct.unpack_from("<HH", content, member.header_offset + 26)
            start = member.header_offset + 30 + name_length + extra_length
            centres.append(start + member.compress_size // 2)
    return centres


def test_a_gate_never_passes_on_a_damaged_baseline(baseline, tmp_path, capsys):
    WORSE.save(tmp_path / "worse.npz")
    compare = ["compare", str(tmp_path / "worse.npz"), str(baseline), "--metric", "recall@5"]
    assert main(compare) == 1
    capsys.readouterr()
    content = baseline.read_bytes()
    centres = list_centres(baseline)  # tests/utils/test_artefacts.py takes every byte
    assert len(centres) > 3
    for centre in (centres[0], centres[-1]):  # the header and an array
        flipped = content[:centre] + bytes([content[centre] ^ 255]) + content[centre + 1 :]
        for damaged in (flipped, content[:centre], content[:centre] + content[centre + 40 :]):
            baseline.write_bytes(damaged)
            assert main(compare) == 2
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
