"""Which items carry the weight, worked by hand."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from tests.inside.inference import popularity_weights


def evaluated(propensity, estimators=("aoa", "snips-global")):
    """Training: item a 1, b 4, c 9, d 16 times. Test: user x has a and d, user y has c and d."""
    counts = {"a": 1, "b": 4, "c": 9, "d": 16}
    train = pd.DataFrame([(f"u{n}", item) for item, count in counts.items() for n in range(count)])
    test = pd.DataFrame([("x", "a"), ("x", "d"), ("y", "c"), ("y", "d")])
    for frame in (train, test):
        frame.columns = ["user", "item"]
    split = ipseval.Split.from_frames(train, test)
    return ipseval.evaluate(
        {"any": np.ones((split.n_users, split.n_items))},
        split,
        propensity=propensity,
        metrics=["recall@1"],
        estimators=list(estimators),
        on_low_ess="ignore",
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_weight_of_a_group_is_that_of_its_inverse_propensities():
    """γ = 0: P ∝ √n*, so weights are 1, 1/3, 1/4 and 1/4 of a, c, d and d: in all 11/6."""
    one = evaluated(ipseval.PowerLawPropensity(gamma=0.0))
    found = popularity_weights(one.samples["any"], one.definitions[1], one.propensity)
    assert found["group"].tolist() == ["1", "9", "16"]
    assert found["estimator"].unique().tolist() == ["snips-global"]
    assert found[["n_items", "n_positives"]].to_numpy().tolist() == [[1, 1], [1, 1], [1, 2]]
    assert found["share"].tolist() == pytest.approx([1 / 4, 1 / 4, 1 / 2])
    assert found["weight_share"].tolist() == pytest.approx([6 / 11, 2 / 11, 3 / 11])


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_without_popularity_groups_are_made_by_the_propensity():
    one = evaluated(ipseval.KnownPropensity(item=[0.1, 0.2, 0.5, 0.5]))
    found = popularity_weights(one.samples["any"], one.definitions[1], one.propensity)
    assert found["by"].unique().tolist() == ["P"]
    assert found["group"].tolist() == ["0.1", "0.5"]
    assert found["weight_share"].tolist() == pytest.approx([10 / 16, 6 / 16])


def test_without_weights_there_is_nothing_to_show():
    one = evaluated(None, ["aoa"])
    assert popularity_weights(one.samples["any"], one.definitions[1], one.propensity).empty


@pytest.mark.parametrize(("n", "group"), [(0, 0), (1, 1), (2, 2), (4, 2), (5, 3), (9, 3), (10, 4), (20, 5)])
def test_groups_of_popularity_end_at_1_2_5_and_their_tens(n, group):
    from tests.inside.inference import _by_popularity

    value = pd.Series([n, 1000.0]).to_numpy(dtype=float)
    assert _by_popularity(value)[0] == group
