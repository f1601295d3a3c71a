"""The page on JSON documents each key that occurs, and no other."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

from tests.golden.situations import SITUATIONS
from tests.golden.test_outputs_agree import ASSUMPTIONS

PAGE = (Path(__file__).parents[2] / "docs" / "json.md").read_text(encoding="utf-8")


def collect_keys(value: object, path: str, types: dict[str, set[type]]) -> None:
    """Add the path of each key below a value, with the types of its values."""
    if isinstance(value, dict):
        for name, inner in value.items():
            key = f"{path}.{name}" if path else name
            types.setdefault(key, set()).add(type(inner))
            collect_keys(inner, key, types)
    elif isinstance(value, list):
        for inner in value:
            collect_keys(inner, f"{path}[]", types)


def test_each_key_that_occurs_is_documented_and_each_documented_key_occurs():
    types: dict[str, set[type]] = {}
    for situation in ASSUMPTIONS:
        collect_keys(json.loads(SITUATIONS[situation]().to_json()), "", types)
    documented = dict(re.findall(r"^\| `([\w.\[\]]+)` \| (.+?) \|", PAGE, re.MULTILINE))
    assert set(documented) == set(types)
    nulls = {key for key, found in types.items() if type(None) in found}
    assert not {key for key in nulls if "null" not in documented[key]}


def test_the_example_prints_what_the_page_shows():
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    (shown,) = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
    command = [sys.executable, "-W", "ignore", "-c", code]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == shown
