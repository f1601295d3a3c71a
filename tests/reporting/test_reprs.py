"""What public values look like when they are printed: a line or a small table, never their arrays."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.ranking.adapters import ModelScores
from tests.inference.worlds import random_ranks
from tests.inside.studies import RowOrders

RANKS, POPULARITY = random_ranks(0)
N_ITEMS = POPULARITY.size


def evaluation():
    propensity = ipseval.PowerLawPropensity(gamma=0.0).fit(popularity=POPULARITY)
    return ipseval.evaluate_ranks(
        RANKS, propensity=propensity, metrics=["atop", "recall@5"], low_ess="ignore"
    )


CASES = {
    "sensitivity": (
        lambda: evaluation().sensitivity([0.0, 1.0]),
        "Sensitivity(12 estimates at 2 values of γ from 0 to 1; .frame, .tipping_points())",
    ),
    "known per item": (
        lambda: ipseval.KnownPropensity(item=np.full(1000, 0.5)),
        "KnownPropensity(1,000 items)",
    ),
    "known per pair": (
        lambda: ipseval.KnownPropensity(
            pair=pd.DataFrame({"user": [0], "item": [0], "propensity": [0.5]}), is_probability=False
        ),
        "KnownPropensity(1 pair, relative)",
    ),
    "scores of a model": (
        lambda: ModelScores("implicit.als", factors=(np.ones((5, 2)), np.ones((1500, 2)), None)),
        "ModelScores(implicit.als: factors of 5 users and 1,500 items)",
    ),
    "orders": (lambda: RowOrders.from_values(np.ones((100, 3))), "RowOrders(100 rows of 3 recommenders)"),
    "sampling": (
        lambda: (
            ipseval.rank_positives(
                np.random.default_rng(0).random((60, N_ITEMS)),
                ipseval.Split.from_frames(
                    pd.DataFrame({"user": np.arange(60), "item": 0}),
                    pd.DataFrame({"user": np.arange(60), "item": 1}),
                    items=np.arange(N_ITEMS),
                ),
                candidates=ipseval.SampledCandidates(5, rng=0),
            ).sampling
        ),
        "Sampling(5 competitors of each of 60 positives, uniform, with replacement, from 'candidates')",
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_value_is_printed_as_one_line(case):
    make, expected = CASES[case]
    assert repr(make()) == expected
