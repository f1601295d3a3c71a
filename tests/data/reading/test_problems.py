"""Problems of an input: fixes for Python and the command line, and complete lists of problems."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pandas as pd
import pytest

import ipseval
from ipseval.data.reading import read_attributes
from ipseval.errors import ProblemsError
from tests.data.reading.test_malformed import entries, lists, log, text


def test_fixes_name_arguments_of_python_or_options_of_the_command_line(tmp_path):
    with pytest.raises(ProblemsError) as caught:
        ipseval.read(log(user=["a", None, "b", "b"], item=[1, 2, 3, 3]))
    assert "missing='drop'" in str(caught.value)
    assert "duplicates='drop'" in str(caught.value)
    options = caught.value.to_text(as_options=True)
    assert "--missing drop" in options
    assert "--duplicates drop" in options
    assert "='" not in options
    with pytest.raises(ProblemsError) as doubt:
        text("ann,x\nbob,y\n")(tmp_path)
    assert doubt.value.to_text(as_options=True).endswith("Pass --header or --no-header.")
    with pytest.raises(ProblemsError) as seen:
        lists(entries(item=[1, 4, 1, 4]))
    assert str(seen.value).endswith("Options go to ipseval.Lists or read_lists.")
    assert seen.value.to_text(as_options=True).endswith("--seen keep to let them keep their places.")


def test_an_error_lists_at_most_twelve_columns():
    wide = pd.DataFrame([[0] * 13], columns=[f"c{number}" for number in range(13)])
    users = wide.set_axis(["user" + "_" * number for number in range(13)], axis=1).assign(item=1)
    good = wide.assign(user=1, item=2)
    calls = [
        lambda: ipseval.read(wide),
        lambda: ipseval.read(good, ignore="d"),
        lambda: ipseval.Lists(good),
        lambda: read_attributes(good.assign(who=1), of="user", column="who"),
    ]
    for call in calls:
        with pytest.raises(ipseval.InputError, match=r"the columns are 'c0', .*'c11', …"):
            call()
    with pytest.raises(ProblemsError, match=r"columns 'user', .*'user_{11}', … could all be the user"):
        ipseval.read(users)
    assert ipseval.read(good).data["what"][0].endswith("'c10', 'c11', …")


FAULTS: dict[str, tuple[Callable[[pd.DataFrame], object], str]] = {
    "user": (lambda frame: frame.loc.__setitem__((0, "user"), None), "1 of 6 rows have no user"),
    "item": (lambda frame: frame.loc.__setitem__((1, "item"), None), "1 of 6 rows have no item"),
    "rating": (lambda frame: frame.loc.__setitem__((2, "rating"), "x"), "1 of 6 entries of column 'rating'"),
    "ts": (lambda frame: frame.loc.__setitem__((3, "ts"), "soon"), "1 of 6 entries of column 'ts'"),
    "pair": (lambda frame: frame.loc.__setitem__((5, "item"), "v"), "1 of 6 rows repeat an earlier"),
}


def test_one_error_lists_the_problems_of_every_pair_of_kinds_and_of_all_kinds():
    for kinds in (*itertools.combinations(FAULTS, 2), tuple(FAULTS)):
        frame = pd.DataFrame(
            {"user": list("aabbcc"), "item": list("xyxyvw"), "ts": ["2026-01-01"] * 6, "rating": [1] * 6},
            dtype=object,
        )
        for name in kinds:
            FAULTS[name][0](frame)
        with pytest.raises(ProblemsError) as error:
            ipseval.read(frame)
        assert len(error.value.problems) == len(kinds), kinds
        for name in kinds:
            assert FAULTS[name][1] in str(error.value), kinds
