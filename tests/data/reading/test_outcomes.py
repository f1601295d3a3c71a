"""Columns of 0 and 1 with the name of an outcome are read as clicks; unread columns are listed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.data import ImpressionLog
from ipseval.data.reading import read_impressions


def frame(name: str, values=(1, 0, 1, 0)) -> pd.DataFrame:
    return pd.DataFrame({"user": [1, 1, 2, 2], "item": [1, 2, 1, 3], name: values})


@pytest.mark.parametrize(
    ("name", "values"),
    [
        *((name, (1, 0, 1, 0)) for name in ("label", "target", "purchased", "Purchase", "is_bought")),
        ("y", (True, False, True, False)),
        ("liked", (1.0, 0.0, 1.0, 0.0)),
    ],
)
def test_zeros_of_an_outcome_are_no_positives(name, values):
    log = ipseval.read(frame(name, values))
    assert isinstance(log, ImpressionLog)
    assert log.clicked.tolist() == [True, False, True, False]
    assert len(log.positives) == 2


@pytest.mark.parametrize("values", [(1, 1, 1, 1), (1, 2, 3, 4), ("a", "b", "c", "d")])
def test_other_columns_with_the_name_of_an_outcome_are_listed_as_not_read(values):
    log = ipseval.read(frame("label", values))
    assert len(log) == 4
    assert log.data["what"].iloc[0].endswith("user, item; not read: 'label'")


def test_values_that_are_asked_for_come_before_an_outcome():
    rated = frame("label").assign(rating=[5, 1, 4, 2])
    assert ipseval.read(rated).clicked.tolist() == [True, False, True, False]
    assert len(ipseval.read(rated, threshold=4)) == 2
    assert np.array_equal(ipseval.read(rated, value="rating", threshold="all").value, [5, 1, 4, 2])


def test_clicks_come_before_an_outcome_of_another_name():
    log = ipseval.read(frame("label").assign(clicked=[0, 1, 1, 1]))
    assert log.clicked.tolist() == [False, True, True, True]
    assert log.data["what"].iloc[0].endswith("user, item, clicked; not read: 'label'")


def test_the_error_for_a_url_does_not_contain_the_password():
    with pytest.raises(
        ipseval.InputError, match=r"got a URL \(postgresql://…\)\. Load it with pandas first\.$"
    ) as caught:
        ipseval.read("postgresql://user:hunter2@host/db")
    assert "hunter2" not in str(caught.value)


def test_read_impressions_reads_clicks_and_raises_an_error_without_them():
    log = read_impressions(frame("clicked"))
    assert isinstance(log, ImpressionLog)
    assert len(log.positives) == 2
    with pytest.raises(ipseval.InputError, match="need a column of clicks"):
        read_impressions(frame("rating"))
    pairs = ipseval.read(frame("rating"))
    assert pairs.positives is pairs
