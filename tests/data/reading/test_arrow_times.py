"""Timestamps of Arrow and of NumPy are read as the same moments, for every unit and time zone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval.data.reading._time_columns import convert_dates

pa = pytest.importorskip("pyarrow")
# around the changes of daylight saving time in Berlin, before 1970, and a missing one
MOMENTS = ["2024-03-31 00:30:00", "1969-12-31 23:59:59", None, "2024-10-27 03:30:00"]


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Berlin"])
def test_arrow_timestamps_are_the_moments_of_numpy(unit, zone):
    moments = pd.Series(pd.to_datetime(MOMENTS))
    if zone is not None:
        moments = moments.dt.tz_localize(zone)
    expected = pd.to_datetime(moments, utc=True).dt.tz_localize(None).to_numpy().astype(f"datetime64[{unit}]")
    dates = convert_dates(moments.astype(pd.ArrowDtype(pa.timestamp(unit, zone))))
    assert dates is not None
    assert dates.dtype == expected.dtype
    np.testing.assert_array_equal(dates, expected)
