"""The page on what changed names names that exist, and earlier ones that do not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import ipseval

PAGE = Path(__file__).resolve().parents[2] / "docs" / "what-changed.md"
TABLE = PAGE.read_text("utf-8").partition("\n| before | now |")[2].partition("\n\n")[0]
NAMES = re.findall(r"^\| `([\w.]+)` \| `([\w.]+)`", TABLE, re.MULTILINE)


def found(name: str) -> Any:
    value: Any = ipseval
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_the_table_of_names_is_read():
    assert len(NAMES) > 15


@pytest.mark.parametrize(("before", "now"), NAMES)
def test_an_earlier_name_is_gone_and_its_successor_there(before: str, now: str):
    assert found(now) is not None
    with pytest.raises(AttributeError):
        found(before)
