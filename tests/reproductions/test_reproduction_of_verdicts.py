"""How often a verdict names the wrong recommender: what is counted, and a world of each simulator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from reproductions import correction_family, feedback_worlds, verdicts
from reproductions.verdicts import FAMILIES, KNOWN, Call, table, world_of

TRUTH = {"a": 0.3, "b": 0.2}


@pytest.mark.parametrize(
    ("name", "loss", "wrong"),
    [("a", 0.0, False), ("b", 0.05, True), ("b", 0.15, False), (None, 0.0, False)],
)
def test_a_name_is_wrong_beyond_the_loss_that_was_expected(name, loss, wrong):
    assert Call.from_name(name, TRUTH, dict.fromkeys(TRUTH, loss)) == Call(name or "", wrong)


def test_the_table_counts_names_and_wrong_names():
    row = {"known": KNOWN[0], "n": 10, "verdict": "a", "verdict wrong": False, "loss": 0.01, "expected": 0.02}
    calls = [
        {"before": "b", "before wrong": True},
        {"verdict": "", "before": "a", "before wrong": False},
    ]
    rows = pd.DataFrame([row | call | {"known": k, "n": n} for call in calls for k in KNOWN for n in (3, 10)])
    line = next(each for each in table(rows).splitlines() if "the log alone, all ten" in each)
    assert line.split("|")[2:7] == [" 2 ", " 50% ", " 0 of 1 (0%) ", " 100% ", " 1 of 2 (50%) "]


@pytest.mark.parametrize("family", FAMILIES)
def test_a_world_has_a_log_and_a_truth(family, monkeypatch):
    small = ((300,), (60,), (0.15,), (5, 20), (10.0, 100.0), (2, 4))
    monkeypatch.setattr(feedback_worlds, "HELD_OUT", feedback_worlds.Sizes(*small))
    kinds = correction_family.KINDS
    monkeypatch.setattr(correction_family, "HELD_OUT", correction_family.Setting(*small, kinds))
    world = world_of(family, 0)
    truth = world.truth((verdicts.METRIC,))
    assert truth.shape == (len(world.models),) == (10,)
    assert np.isfinite(truth).all()
    assert not (world.left().pair_key[:, None] == world.split.train.pair_key[:50]).any()
    assert set(world.split.test.pair_key) <= set(world.left().pair_key) & set(world.interactions.pair_key)


@pytest.mark.slow
def test_verdicts_of_a_world_are_judged_for_everything_that_is_known():
    rows = pd.DataFrame(verdicts.rows_of(FAMILIES[0], 0))
    assert rows["known"].value_counts().to_dict() == dict.fromkeys(KNOWN, 5)
    assert (rows["expected"].dropna() >= 0).all()
    assert not (rows.loc[rows["known"] == KNOWN[0], "verdict"] != "").any()
