"""docs/json.md documents each key of the JSON of an evaluation, and no other; its example is run."""

from __future__ import annotations

import contextlib
import io
import json
import re
import warnings
from pathlib import Path

import pytest

from tests.golden.json_keys import collect_keys
from tests.golden.outputs import write_json
from tests.golden.situations import SITUATIONS
from tests.golden.test_outputs_agree import ASSUMPTIONS

PAGE = Path(__file__).parents[2] / "docs" / "json.md"
ROW = re.compile(r"^\| `([^`]+)` \| (\w+) \| (.+) \| (.+) \|$", re.MULTILINE)
NUMBERS = {"number": {"number", "integer"}}


def document(situation: str) -> str:
    return write_json(SITUATIONS[situation]())


def documented() -> dict[str, tuple[str, str]]:
    """Return key -> its type, and what null means."""
    rows = ROW.findall(PAGE.read_text(encoding="utf-8"))
    assert len({key for key, *_ in rows}) == len(rows)
    return {key: (kind, null) for key, kind, _, null in rows}


@pytest.mark.parametrize("situation", ASSUMPTIONS)
def test_each_key_of_a_document_is_documented_with_its_type(situation):
    known = documented()
    keys = collect_keys(json.loads(document(situation)))
    assert set(keys) <= set(known)
    for key, types in keys.items():
        kind, null = known[key]
        allowed = NUMBERS.get(kind, {kind})
        if null != "never":
            allowed = allowed | {"null"}
        assert types <= allowed, key


def test_each_documented_key_occurs_with_a_value():
    """Graded relevance and given numbers of relevant items are in none of these situations."""
    types: dict[str, set[str]] = {}
    for situation in ASSUMPTIONS:
        for key, kinds_found in collect_keys(json.loads(document(situation))).items():
            types.setdefault(key, set()).update(kinds_found)
    assert set(types) == set(documented())
    only_null = {key for key, kinds_found in types.items() if kinds_found == {"null"}}
    assert only_null == {
        "data.gains_sha256",
        "data.n_relevant_sha256",
        "verdict.metrics[].gamma_range.next_below",
    }


@pytest.mark.parametrize("situation", ASSUMPTIONS)
def test_a_document_is_valid_json_without_nan(situation):
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    text = document(situation)
    parsed = json.loads(text, parse_constant=refuse)
    assert (parsed["schema"], parsed["schema_version"]) == ("ipseval.evaluation", 1)


@pytest.mark.parametrize("situation", ["two_metrics_flagged", "suppressed"])
def test_an_unreliable_number_has_neither_error_nor_interval_nor_test(situation):
    parsed = json.loads(document(situation))
    rows = [row for row in parsed["estimates"] if row["flag"]]
    assert {row["estimator"] for row in rows} == {"snips-global"}
    differences = [row for row in parsed["differences"] if row["estimator"] == "snips-global"]
    for row in (*rows, *differences):
        assert {row["std_error"], row["ci_low"], row["ci_high"], row.get("p_adjusted")} == {None}
    reliable = [row for row in parsed["estimates"] if not row["flag"]]
    assert all(row["ci_low"] < row["estimate"] < row["ci_high"] for row in reliable)


def test_the_example_of_the_page_prints_what_stands_below_it():
    text = PAGE.read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    (printed,) = re.findall(r"```text\n(.*?)```", text, re.DOTALL)
    stream = io.StringIO()
    with contextlib.redirect_stdout(stream), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(code, str(PAGE), "exec"), {})
    assert stream.getvalue() == printed
