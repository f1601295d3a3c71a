"""Gates fail closed: evidence that is damaged, mixed or impossible is an error and exit code 2."""

from __future__ import annotations

import base64
import hashlib
import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from ipseval.cli import main
from ipseval.errors import InputError, PositivityWarning
from ipseval.evaluation import evaluate_ranks
from ipseval.ranking import RankedPositives
from ipseval.testing import StoredResult, assert_not_worse, write_baseline
from tests.test_testing import TRUTH, baseline, changed, evaluated, noisy

__all__ = ["baseline"]  # a fixture


def pack(values: list[float]) -> str:
    return base64.b64encode(zlib.compress(np.array(values, "<f8").tobytes())).decode()


def influence(values: Callable[[int], list[float]]) -> Callable[[dict[str, Any]], object]:
    """Return the change of the first influence to values made from its number of users."""

    def change(content: dict[str, Any]) -> None:
        content["influence"][0][1] = pack(values(content["estimates"][0]["n_users"]))

    return change


def first_row(**values: object) -> Callable[[dict[str, Any]], object]:
    return lambda content: content["estimates"][0].update(values)


MIXED = {
    "influence of another run": (
        influence(lambda n: [30.0] * n),
        r"error is 0\.0\d+, that of its users",
    ),
    "influence that is not a number": (influence(lambda n: [math.nan] * n), "of some users is not finite"),
    "too few users": (influence(lambda n: [0.0] * (n - 1)), "expected 149 numbers"),
    "too many users": (influence(lambda n: [0.0] * (n + 1)), "expected 149 numbers"),
    "letters of no code": (
        lambda content: content["influence"][0].__setitem__(1, "!" + content["influence"][0][1]),
        "cannot read",
    ),
    "a bomb": (influence(lambda n: [0.0] * 10**6), "expected 149 numbers"),
    "users in another order": (
        lambda content: shuffled(content),
        "ascending codes",
    ),
    "an infinite estimate": (first_row(estimate=math.inf), "is infinite"),
    "a repeated row": (first_row(metric="ndcg@5"), "several rows of one estimate"),
    "a row less": (lambda content: content["estimates"].pop(), "cannot read"),
    "a number that is none": (first_row(estimate="high"), "could not convert"),
}


def shuffled(content: dict[str, Any]) -> None:
    users = np.arange(content["estimates"][0]["n_users"], dtype="<i4")[::-1]
    content["users"][0] = base64.b64encode(zlib.compress(users.tobytes())).decode()


@pytest.mark.parametrize("name", MIXED)
def test_a_gate_never_passes_on_evidence_that_does_not_fit(name, baseline, tmp_path, capsys):
    change, message = MIXED[name]
    write_baseline(evaluated(noisy(TRUTH, 1, 4.0)), tmp_path / "worse.json")
    compare = ["compare", str(tmp_path / "worse.json"), str(baseline), "--metric", "recall@5"]
    assert main(compare) == 1
    changed(baseline, change)
    with pytest.raises(InputError, match=message):
        StoredResult.read(baseline)
    assert main(compare) == 2
    assert "ok" not in capsys.readouterr().out


def test_a_result_that_was_edited_or_merged_is_refused(baseline):
    text = baseline.read_text()
    assert text.count('"n_positives": ') == 2
    edits = [('"n_positives": ', '"n_positives": 1'), ("recall@5", "recall@6"), ("influence", "other")]
    for old, new in edits:
        baseline.write_text(text.replace(old, new, 1))
        with pytest.raises(InputError, match="checksum does not fit"):
            StoredResult.read(baseline)


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


def test_an_unreliable_estimate_is_called_so_whether_it_passes_or_not(baseline, tmp_path, capsys):
    changed(baseline, lambda content: content.update(flags=["effective sample size 12", ""]))
    for noise, verdict, code in ((1.0, "ok, UNRELIABLE: model", 0), (4.0, "WORSE, UNRELIABLE: model", 1)):
        write_baseline(evaluated(noisy(TRUTH, 1, noise)), tmp_path / "new.json")
        compare = ["compare", str(tmp_path / "new.json"), str(baseline), "--metric"]
        assert main([*compare, "recall@5"]) == code
        printed = capsys.readouterr().out
        assert printed.startswith(verdict)
        assert printed.rstrip().endswith("paired; effective sample size 12")
        main([*compare, "ndcg@5"])
        assert "UNRELIABLE" not in capsys.readouterr().out


def test_a_gate_that_passes_by_an_unreliable_estimate_warns(baseline):
    changed(baseline, lambda content: content.update(flags=["effective sample size 12", ""]))
    new = evaluated(noisy(TRUTH, 1, 1.0))
    with pytest.warns(
        PositivityWarning, match=r"not worse than .*\n  ok, UNRELIABLE: model.*sample size 12$"
    ):
        assert_not_worse(new, baseline, metric="recall@5")
    assert_not_worse(new, baseline, metric="ndcg@5")  # warnings are errors here
    with pytest.raises(AssertionError, match="WORSE, UNRELIABLE"):
        assert_not_worse(evaluated(noisy(TRUTH, 1, 4.0)), baseline, metric="recall@5")
