"""Logs of one deterministic policy: enumerated expectations, truths, and what the tables hold."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from ipseval.propensity import ExaminationCurve, LoggedPropensity
from reproductions import deterministic_policy as dp


def test_a_click_counts_right_where_its_item_was_shown_and_the_click_model_is_right():
    frame = pd.DataFrame(dp.enumerated(), columns=["clicks", "page", "name", "value"])
    value = frame.set_index(["clicks", "page", "name"])["value"]
    same, unseen = dp.RANKED
    assert value["positions", same, dp.OWN] == pytest.approx(1, abs=1e-12)
    assert value["trust", same, dp.OWN] < 0.95
    for clicks in ("positions", "trust"):
        assert value[clicks, same, "CIPS"] == pytest.approx(1, abs=1e-12)
        assert value[clicks, unseen, "CDR"] == pytest.approx(1, abs=1e-12)
        assert value[clicks, unseen, "CIPS"] < 0.6
    # With a position-based click model CIPS is the position-based estimator, whatever the liking.
    for page in dp.RANKED:
        assert value["positions", page, "CIPS"] == pytest.approx(value["positions", page, dp.OWN], abs=1e-12)


@pytest.fixture(scope="module", name="case")
def small_case():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(dp, "N_USERS", 120)
        patch.setattr(dp, "LEFT_OUT", (*dp.LEFT_OUT, "chance", "content", "EASE 50", "SVD 8"))
        yield dp.Case.build("positions", 0)


def test_the_truth_of_the_incumbent_is_what_its_own_pages_get(case):
    log = case.log
    pages = np.unique(log.query).size
    clicks = np.bincount(log.query, log.clicked & (log.position <= dp.PLACES))
    clicks = clicks[np.unique(log.query)]
    # Users with more pages count more often in the log, and no differently: their number was drawn.
    assert abs(clicks.mean() - case.truth["incumbent", dp.CLICKS]) < 4 * clicks.std() / np.sqrt(pages / 3)


def test_places_are_the_propensity_of_a_policy_that_shows_with_certainty(case):
    log = case.log
    curve = ExaminationCurve.from_theta(dp.theta(np.arange(1, log.position.max() + 1)))
    impression_propensity = dp.own_impressions(log, curve).fit(case.split.train)
    sure = LoggedPropensity(examination=curve).fit(replace(log, propensity=np.ones(len(log))))
    test = case.split.test
    np.testing.assert_allclose(
        impression_propensity.for_pairs(test.user, test.item), sure.for_pairs(test.user, test.item), rtol=1e-8
    )


@pytest.mark.slow
def test_every_estimator_has_its_error_and_places_alone_are_repaired_by_places(case, monkeypatch):
    monkeypatch.setattr(dp.Case, "of", lambda *at: case)
    monkeypatch.setattr(dp, "KINDS", ("positions",))
    rows = dp.judged(("positions", 0))
    error = rows.set_index(["estimator", "metric"])["error"]
    for label in (dp.RECALL, dp.CLICKS):
        assert error[dp.OWN, label] < error[dp.PLAIN, label] / 2
    tables = dp.simulated_tables(rows)
    assert tables["deterministic"].count("\n") == 1 + (rows["metric"] == dp.RECALL).sum()
    assert dp.CORRECT in tables["deterministic"]
    assert dp.CORRECT not in tables["deterministic-clicks"]
