"""read_impressions(): what `read` cannot promise, and the name that both logs share."""

import pandas as pd
import pytest

import ipseval
from ipseval.data.reading import read_impressions
from ipseval.errors import InputError

PAIRS = pd.DataFrame({"user": [1, 1], "item": [1, 2]})


def test_impressions_are_read_as_read_does():
    log = read_impressions(PAIRS.assign(clicked=[1, 0]))
    assert isinstance(log, ipseval.ExposureLog)
    assert len(log.positives) == 1


def test_a_source_without_clicks_has_no_impressions():
    with pytest.raises(InputError, match="need a column of clicks"):
        read_impressions(PAIRS)


def test_positives_of_interactions_are_they_themselves():
    log = ipseval.read(PAIRS)
    assert log.positives is log
