"""What changes of single lines once left standing: each has its test."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval

LISTED = pd.DataFrame({"query": [1, 1, 2], "item": ["x", "y", "x"], "label": [1, 0, 1]})


def test_the_error_names_a_pair_that_is_not_listed():
    scores = pd.DataFrame({"query": [1, 1, 2, 2], "item": ["x", "y", "x", "y"], "score": [4.0, 3, 2, 1]})
    with pytest.raises(ipseval.InputError, match=r"scores 1 item of 4 .*first: query and item 2, 'y'"):
        ipseval.evaluate_slates({"m": scores}, LISTED, metrics=["rr"])


def test_masked_lists_are_refused():
    lists = np.ma.array([[1, 2]], mask=[[False, True]])
    with pytest.raises(ipseval.InputError, match="masked"):
        ipseval.Lists(lists)


def test_minus_zero_is_the_time_zero():
    frame = pd.DataFrame({"user": [1, 1, 1], "item": [1, 2, 3], "t": [-1.0, -0.0, 0.0]})
    log = ipseval.Interactions.from_frame(frame, timestamp="t")
    moved = ipseval.Interactions.from_frame(frame.assign(t=[-1.0, 0.0, -0.0]), timestamp="t")
    found = [ipseval.split_leave_one_out(one, order="temporal").test.item.tolist() for one in (log, moved)]
    assert found[0] == found[1]
    assert len(found[0]) == 1
