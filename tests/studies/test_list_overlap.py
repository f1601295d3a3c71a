"""Rank-biased overlap of lists: a plain loop over the formula of Webber et al., and its properties."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.studies.agreement import list_overlap


def compute_by_loop(a: list[int], b: list[int], p: float) -> float:
    """Return equation 32 of Webber, Moffat and Zobel (2010), with sets of first items."""
    short, long = sorted((a, b), key=len)
    s = len(short)
    n = len(long)

    def n_common(depth: int) -> int:
        return len(set(short[:depth]) & set(long[:depth]))

    total = sum(n_common(d) / d * p**d for d in range(1, n + 1))
    total += sum(n_common(s) * (d - s) / (s * d) * p**d for d in range(s + 1, n + 1))
    return (1 - p) / p * total + ((n_common(n) - n_common(s)) / n + n_common(s) / s) * p**n


@pytest.mark.parametrize("p", [0.3, 0.9, 0.98])
def test_values_are_those_of_a_loop(p):
    rng = np.random.default_rng(20_10)
    a = {}
    b = {}
    for user in range(200):
        a[user] = rng.permutation(15)[: rng.integers(1, 12)].tolist()
        b[user] = rng.permutation(15)[: rng.integers(1, 12)].tolist()
    overlap = list_overlap(a, b, p=p)
    expected = [compute_by_loop(a[user], b[user], p) for user in range(200)]
    assert overlap.per_user.index.tolist() == list(range(200))
    assert overlap.per_user.to_numpy() == pytest.approx(np.array(expected), abs=1e-13)
    assert overlap.mean == pytest.approx(np.mean(expected))
    assert overlap.std_error == pytest.approx(np.std(expected, ddof=1) / math.sqrt(200))
    assert list_overlap(b, a, p=p).per_user.to_numpy() == pytest.approx(np.array(expected), abs=1e-13)
    assert overlap.per_user.between(0, 1).all()


def test_equal_lists_have_overlap_one_and_disjoint_lists_zero():
    lists = {"ann": ["x", "y", "z"], "bob": ["z"]}
    others = {"ann": ["u", "v"], "bob": ["w", "x"]}
    assert list_overlap(lists, lists).per_user.tolist() == pytest.approx([1, 1], abs=1e-15)
    assert list_overlap(lists, others).per_user.tolist() == [0, 0]
    # A prefix of a list: agreement is 1 at both depths.
    assert list_overlap({"ann": ["x"]}, {"ann": ["x", "y"]}, p=0.5).mean == pytest.approx(
        compute_by_loop([1], [1, 2], 0.5)
    )


def test_frames_with_scores_or_ranks_and_lists_are_read():
    by_rank = pd.DataFrame({"user": [1, 1, 2], "item": [5, 6, 5], "rank": [2, 1, 1]})
    by_score = pd.DataFrame({"user": [1, 1, 2], "item": [5, 6, 5], "score": [0.1, 0.9, 0.4]})
    assert list_overlap(by_rank, by_score).per_user.to_dict() == pytest.approx({1: 1, 2: 1})
    assert list_overlap(ipseval.Lists(by_rank), {1: [6, 5]}).per_user.to_dict() == pytest.approx({1: 1})


def test_users_with_one_list_are_left_out_and_counted():
    overlap = list_overlap({"ann": ["x"], "bob": ["y"]}, {"ann": ["x"], "cat": ["y"]})
    assert (overlap.per_user.to_dict(), overlap.n_users_left_out) == ({"ann": 1.0}, 2)
    assert math.isnan(overlap.std_error)
    assert repr(overlap) == "ListOverlap(1.0000 ± nan; 1 user; p = 0.9)"


@pytest.mark.parametrize(
    ("a", "options", "message"),
    [
        ({"bob": ["x"]}, {}, "no user has both"),
        ({"ann": ["x", "x"]}, {}, "repeat an item"),
        ({"ann": ["x"]}, {"p": 1}, "p must be"),
    ],
)
def test_unusable_lists_are_refused(a, options, message):
    with pytest.raises(InputError, match=message):
        list_overlap(a, {"ann": ["x"]}, **options)
