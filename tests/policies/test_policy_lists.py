"""Lists and probabilities of policies on a log of six rows, with hand-computed values."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval import ImpressionLog
from ipseval.policies import evaluate_policies
from ipseval.propensity import ExaminationCurve
from tests.policies.test_policies import NEW

# Three users. Lists: user 0 has items 0 and 2, user 1 item 1, and item 0 at place 3, which the log has not,
# user 2 items 1 and 2 from place 2 on.
SMALL = ImpressionLog(
    np.array([0, 0, 1, 1, 2, 2]), np.array([0, 1, 0, 2, 2, 1]), np.arange(3), np.arange(3),
    np.array([1, 0, 1, 0, 1, 0], dtype=bool), position=np.array([1, 2, 1, 2, 2, 1]),
    propensity=np.array([0.5, 0.25, 0.5, 0.25, 0.25, 0.5]),
)  # fmt: skip
LISTS = pd.DataFrame(
    [
        (0, 0, 1),
        (0, 2, 2),
        (1, 1, 1),
        (1, 0, 3),
        (1, 7, 4),
        (1, 8, 5),
        (2, 1, 2),
        (2, 2, 3),
        (8, 0, 1),
        (9, 0, 1),
    ],
    columns=["user", "item", "position"],
)  # items 7 and 8, users 8 and 9 are not in the log


def test_lists_have_hand_computed_values():
    options = {"n_folds": 3, "shrinkage": 2.0, "rng": 0}  # each user is judged by the two others
    evaluation = evaluate_policies(
        SMALL, {"lists": LISTS}, estimators=["ips", "dm", "dcg"],
        examination=ExaminationCurve.from_theta([1, 0.5]), **options,
    )  # fmt: skip
    # Only the first row shows what the list has there: w = 1/.5. Others than users 0 and 1 clicked on 1 of 2
    # rows of each place: item 0 has (1 + 2/2)/(1 + 2), item 2 (1 + 2/2)/(2 + 2), item 1 (0 + 2/2)/(1 + 2).
    dm = (2 / 3 + 2 / 4 + 1 / 3) / 6
    # Clicks on items that the list has at places 1, 3 and 3; the last was at place 2, examined with .5.
    dcg = (1 / 0.5 + 0.5 / 0.5 + 0.5 / (0.25 * 0.5)) / 6
    assert evaluation.frame["estimate"].tolist() == pytest.approx([2 / 6, dm, dcg])
    assert evaluation.overlap.loc[0].tolist() == ["lists", 1.0, 2.0, 1.0, pytest.approx(1 / 3), 5 / 6]
    second = SMALL.select(SMALL.position == 2)  # where lists go on from a place that the log has not
    assert (
        evaluate_policies(second, {"lists": LISTS}, estimators=["ips"], **options).frame["estimate"][0] == 0
    )
    assert "lists: 1 effective impressions of 6; 83% show items that it never shows there." in repr(
        evaluation
    )


def test_the_dcg_of_a_table_adds_up_over_positions_and_a_log_without_positions_has_one():
    evaluation = evaluate_policies(SMALL, {"new": NEW}, estimators=["dcg"], n_folds=2, rng=0)
    worth = NEW[:, 0] + NEW[:, 1] / np.log2(3)
    assert evaluation.frame["estimate"][0] == pytest.approx((2 * worth[0] / 0.5 + worth[2] / 0.25) / 6)
    plain = ImpressionLog(SMALL.user, SMALL.item, SMALL.user_ids, SMALL.item_ids, SMALL.clicked,
                        propensity=SMALL.propensity)  # fmt: skip
    policies = {
        "lists": LISTS[LISTS["position"] == 1].assign(position=0),
        "chances": np.array([[0.5], [0.25], [0.25]]),
    }
    values = evaluate_policies(plain, policies, estimators=["ips", "dcg"], n_folds=2, rng=0).frame["estimate"]
    # Clicks on items 0, 0 and 2 of the chances, and on item 0 of user 0 in the lists; d = 1 at one place.
    chances = (2 * 0.5 / 0.5 + 0.25 / 0.25) / 6
    assert values.tolist() == pytest.approx([1 / 3, 1 / 3, chances, chances])


def test_a_log_of_one_user_has_estimates_without_errors():
    single_user_log = SMALL.select(SMALL.user == 0)
    frame = evaluate_policies(
        single_user_log, {"new": NEW}, estimators=["ips", "dm"], shrinkage=0.0, rng=0
    ).frame
    assert frame["estimate"].tolist() == [pytest.approx(NEW[0, 0] / 0.5 / 2), 0.0]
    assert frame[["std_error", "ci_low", "ci_high"]].isna().all(axis=None)
