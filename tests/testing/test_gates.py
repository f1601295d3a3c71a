"""Gates fail closed: evidence that is damaged, mixed or impossible is an error and exit code 2."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ipseval.cli import main
from ipseval.errors import PositivityWarning
from ipseval.evaluation import Evaluation, evaluate_ranks
from ipseval.ranking import RankedPositives
from ipseval.testing import BaselineCheck, assert_not_worse, concluded
from tests.testing.test_testing import TRUTH, baseline, evaluated, noisy

__all__ = ["baseline"]  # a fixture


def test_a_gate_never_passes_on_a_damaged_baseline(baseline, tmp_path, capsys):
    evaluated(noisy(TRUTH, 1, 4.0)).save(tmp_path / "worse.npz")
    compare = ["compare", str(tmp_path / "worse.npz"), str(baseline), "--metric", "recall@5"]
    assert main(compare) == 1
    whole = baseline.read_bytes()
    rng = np.random.default_rng(0)
    places = rng.integers(0, len(whole), 8)  # tests/base/test_artefacts.py takes every byte
    damaged = [whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :] for at in places]
    damaged += [whole[:at] for at in places]
    damaged += [whole[:at] + whole[at + 40 :] for at in places]
    codes = []
    for one in damaged:
        baseline.write_bytes(one)
        codes.append(main(compare))
    assert set(codes) <= {1, 2}  # 1: what changed says nothing, such as the date of a member
    assert codes.count(2) > 0.9 * len(codes)
    assert "ok" not in capsys.readouterr().out


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


def flag(path: Path) -> None:
    """Save an evaluation again with an unreliable estimate of recall@5."""
    one = Evaluation.load(path)
    key = "model", "recall@5", "aoa"
    flagged = replace(one.estimates[key], flag="effective sample size 12")
    replace(one, estimates=one.estimates | {key: flagged}).save(path)


def test_an_unreliable_estimate_is_called_so_whether_it_passes_or_not(baseline, tmp_path, capsys):
    flag(baseline)
    for noise, verdict, code in ((1.0, "ok, UNRELIABLE: model", 0), (4.0, "WORSE, UNRELIABLE: model", 1)):
        evaluated(noisy(TRUTH, 1, noise)).save(tmp_path / "new.npz")
        compare = ["compare", str(tmp_path / "new.npz"), str(baseline), "--metric"]
        assert main([*compare, "recall@5"]) == code
        printed = capsys.readouterr().out
        assert printed.splitlines()[1].startswith(verdict)
        assert printed.rstrip().endswith("margin 0; effective sample size 12")
        main([*compare, "ndcg@5"])
        assert "UNRELIABLE" not in capsys.readouterr().out


def test_a_gate_that_passes_by_an_unreliable_estimate_warns(baseline):
    flag(baseline)
    new = evaluated(noisy(TRUTH, 1, 1.0))
    with pytest.warns(
        PositivityWarning, match=r"not worse than .*\n  ok, UNRELIABLE: model.*sample size 12$"
    ):
        assert_not_worse(new, baseline, metric="recall@5")
    assert_not_worse(new, baseline, metric="ndcg@5")  # warnings are errors here
    with pytest.raises(AssertionError, match="WORSE, UNRELIABLE"):
        assert_not_worse(evaluated(noisy(TRUTH, 1, 4.0)), baseline, metric="recall@5")


def test_a_gate_that_finds_nothing_says_which_loss_it_would_have_found():
    """With a standard error of .01 the interval reaches .0196, and .8 of samples lie above −.0084."""
    low, high = 0.001 - 0.0196, 0.001 + 0.0196
    one = BaselineCheck(*[("als", "recall@10", "aoa")] * 2, 0.2, 0.201, 0.01, low, high, 0.0, "no-evidence")
    assert one.detectable == pytest.approx(0.0280, abs=1e-4)
    assert concluded([one]) == (
        "Verdict: not shown to be worse. With 80 % power a loss of 0.028 of recall@10 would have been found "
        "(als, aoa)."
    )
    worse = replace(one, key=("als", "recall@10", "snips-global"), high=-0.001)
    assert concluded([one, worse]) == "Verdict: als by recall@10 (snips-global) is worse."
