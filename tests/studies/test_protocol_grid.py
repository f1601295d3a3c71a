"""Protocols one by one: their labels, keys and splits, and the grid of all that exist."""

from __future__ import annotations

import functools
from types import SimpleNamespace

import numpy as np
import pytest

from ipseval.data.splits import (
    Split,
    repeated_splits,
    split_global_time,
    split_leave_one_out,
    split_random,
    split_temporal,
)
from ipseval.errors import InputError
from ipseval.ranking import SampledCandidates
from ipseval.studies.protocols import Protocol, grid
from tests.studies.test_protocols import make_log

# Orders in time within a user leak by design; tests/data/test_time.py has the warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*later training rows:ipseval.errors.DataWarning")


def test_the_grid_has_every_combination_that_exists() -> None:
    pools = {"full": "all", "some": 3}
    options = {"n_repeats": 4, "n_searches": 3}
    protocols = grid(holdout=["ratio", "global-time"], k_core=[None, 5], candidates=pools, **options)
    assert [protocol.label for protocol in protocols] == [
        f"{split}, {core}, {pool}"
        for core in ("no filter", "5-core")
        for split in ("RO_RS", "TO_RS", "GT")
        for pool in ("full", "some")
    ]
    assert [protocol.n_repeats for protocol in protocols[:6]] == [4, 4, 3, 3, 3, 3]
    assert [protocol.n_repeats for protocol in grid()] == [1] * 4


def test_labels_name_the_candidates_and_whether_training_items_are_included() -> None:
    pools = {"full": "all", "given lists": make_log().to_frame(), "7": 7, "some": "some"}
    # A scheme of one's own has both a distribution and a number, or is what it prints.
    for half in (SimpleNamespace(distribution="uniform"), SimpleNamespace(distribution=1, n_sampled=3)):
        pools |= {str(half): half}
    pools |= {"popularity-3": SampledCandidates(3, distribution="popularity", rng=0)}
    for name, pool in pools.items():
        assert Protocol(candidates=pool).candidates_label == name
        seen = Protocol("temporal", "global-time", 3, pool, "ours", seen="include")
        assert seen.label == "GT, 3-core, ours with seen items"


def test_splits_with_the_same_sizes_share_a_key() -> None:
    ratio = {"order": "random", "holdout": "ratio", "k_core": 5, "seen": "exclude"}
    shares = {"test_fraction": 0.1, "validation_fraction": 0.1}
    assert Protocol(n_validation=0).split_key == ratio | shares
    by_number = Protocol("temporal", "leave-one-out", test_fraction=0.3, n_validation=0, n_repeats=3)
    expected_key = {"order": "temporal", "holdout": "leave-one-out", "n_validation": 0}
    assert by_number.split_key == ratio | expected_key
    assert [by_number.split_number(2), Protocol().split_number(2)] == [0, 2]
    validated = [
        *(by_number, Protocol(holdout="leave-one-out"), Protocol(n_validation=0)),
        Protocol(validation_fraction=0.0),
        Protocol("temporal", "global-time", validation_fraction=0.0),
    ]
    assert [protocol.has_validation for protocol in validated] == [False, True, True, False, False]
    first, *other_splits = by_number.splits(make_log(), 0)
    assert (first.validation, other_splits) == (None, [first, first])
    (seen,) = Protocol(seen="include").splits(make_log(), 0)
    assert seen.seen == "include"


def test_a_protocol_makes_the_split_that_it_names() -> None:
    log = make_log()
    (split,) = Protocol("temporal", "leave-one-out").splits(log, 0)
    assert np.array_equal(split.test.pair_key, split_leave_one_out(log, order="temporal").test.pair_key)
    methods = {"RO_RS": split_random, "TO_RS": split_temporal, "GT": split_global_time}
    for protocol in grid(holdout=["ratio", "leave-one-out", "global-time"], n_repeats=2):
        splits = list(protocol.splits(log, 0))
        assert len(splits) == (2 if protocol.order == "random" else 1)
        if protocol.split_label in methods:
            shares = {"test_fraction": 0.1, "validation_fraction": 0.1}
            method = methods[protocol.split_label]
            if protocol.order == "random":
                method = functools.partial(repeated_splits, n_repeats=2, method=method, rng=0)
            expected = method(log, **shares)
            expected = expected if isinstance(expected, Split) else next(expected)
            assert np.array_equal(splits[0].test.pair_key, expected.test.pair_key)


BAD_PROTOCOLS = {
    "an order that is none": (lambda: grid(order=["rand"]), "unknown value for order: 'rand'"),
    "random global time": (lambda: Protocol("random", "global-time"), "Use order='temporal'"),
    "unknown field": (lambda: grid(core=[5]), "core: no such field"),
    "no core": (lambda: Protocol(k_core=0), "k_core must be an integer >= 1"),
    "no repeats": (lambda: Protocol(n_repeats=0), "n_repeats must be an integer >= 1"),
    "validation below 0": (lambda: Protocol(n_validation=-1), "n_validation must be an integer >= 0"),
    "nothing held out": (lambda: Protocol(test_fraction=0.0), "test_fraction must"),
    "a bare number": (lambda: grid(k_core=5), r"k_core must be a list .* Write \[5\]"),
    "a bare value": (
        lambda: grid(order="random"),
        r"order must be a list .* Write \['random'\]",
    ),
    "empty": (
        lambda: grid(order=["random"], holdout=["global-time"]),
        "no protocol is left",
    ),
}


@pytest.mark.parametrize("name", BAD_PROTOCOLS)
def test_bad_protocols_say_what_was_expected(name: str) -> None:
    call, text = BAD_PROTOCOLS[name]
    with pytest.raises(InputError, match=text):
        call()
