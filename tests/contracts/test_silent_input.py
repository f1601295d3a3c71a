"""What was once accepted without a word, and gave a wrong number or none: now an error that says so."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import ipseval
import ipseval.report.plots
from ipseval import inference
from tests.contracts.test_bad_input import SCORES, SPLIT, known, run
from tests.contracts.test_mistaken_input import RATINGS
from tests.inside.inference import (
    pareto_k,
    users_needed,
)

CASES: dict[str, tuple[Callable[[], object], str]] = {
    "positions for a mask": (
        lambda: ipseval.rank_positives(SCORES, SPLIT).select(np.arange(2)),
        r"keep must hold True or False for each of 2 rows; got int64 of shape \(2,\)",
    ),
    "values of other positives": (
        lambda: ipseval.rank_positives(SCORES, SPLIT).sum_by_user(np.ones(5)),
        r"values must have one entry for each of 2 positives",
    ),
    "more relevant items than items": (
        lambda: run(propensity=known(np.full(3, 0.5)).fit(SPLIT), estimators=["ips"], n_relevant=99),
        r"n_relevant is above the number of items, 3, for 3 users",
    ),
    "more pairs than items": (
        lambda: ipseval.evaluation.evaluate_ratings({"a": SCORES}, RATINGS, n_pairs=99),
        r"n_pairs is above the number of items, 3, for 3 users",
    ),
    "table as propensities": (
        lambda: ipseval.propensity.Propensity(np.ones((3, 2)), True, "mine", 3),
        r"item must be one-dimensional; got shape \(3, 2\)",
    ),
    "propensities of fewer items": (
        lambda: ipseval.propensity.Propensity(np.ones(2), True, "mine", 3),
        r"item must have 3 entries, one for each id; got 2",
    ),
    "distribution of one number": (
        lambda: ipseval.SampledCandidates(2, distribution=-1),
        r"distribution must be one-dimensional; got shape \(\)",
    ),
    "lists counted twice": (
        lambda: ipseval.fit_gamma(np.arange(1.0, 5), np.array([[0, 1], [2, 3]]), n_lists=40),
        r"recommended holds 2 lists, and n_lists is 40; leave it out",
    ),
    "masked ranks": (
        lambda: ipseval.expected_sampled(np.ma.array([1, 2], mask=[0, 1]), 10, 5, "recall@2"),
        r"ranks is a masked array",
    ),
    "infinitely many candidates": (
        lambda: ipseval.expected_sampled([1, 2], np.inf, 5, "recall@2"),
        r"n_candidates must be whole numbers; got inf",
    ),
    "no decimals": (lambda: run().to_markdown(digits=-1), r"digits must be an integer >= 1; got -1"),
    "seed that is not used": (lambda: run(rng="a"), r"rng must be an integer >= 0.*got 'a'"),
    "name that is a number": (
        lambda: ipseval.rank_positives(SCORES, SPLIT, name=5),
        r"name must be str; got int",
    ),
    "lists longer than memory": (
        lambda: ipseval.rank_positives(SCORES, SPLIT, top_k=2**62),
        r"lists of 4,611,686,018,427,387,904 items for 2 users need too much memory",
    ),
    "tail of negative values": (lambda: pareto_k(-np.ones(50)), r"50 of 50 are negative"),
    "a test of level 5": (
        lambda: users_needed(1.0, 0.2, level=5),
        r"level must be in \(0, 1\); got 5",
    ),
    "no metric to bound": (
        lambda: inference.bounds({}, [], [], factors=[2.0]),
        r"samples must not be empty",
    ),
    "axes that are text": (
        lambda: ipseval.plots.plot_estimates(run(), ax="a"),
        r"ax must be matplotlib axes",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_what_would_give_a_wrong_number_is_an_error(case: str):
    call, pattern = CASES[case]
    with pytest.raises(ipseval.IpsevalError) as caught:
        call()
    assert re.search(pattern, str(caught.value), flags=re.DOTALL), str(caught.value)
