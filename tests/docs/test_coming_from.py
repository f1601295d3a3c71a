"""The examples of the page "Coming from another library" run, and both libraries compute the same values."""

from __future__ import annotations

import importlib
import re
import warnings
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "coming-from.md"
SECTION = re.compile(r"^## (\S+).*?\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)
TEXT = PAGE.read_text("utf-8")
DATA = BLOCK.findall(TEXT)[0]
SECTIONS = SECTION.findall(TEXT)[1:]  # the first section has the data
EXAMPLES = {name: BLOCK.findall(text) for name, text in SECTIONS if BLOCK.search(text)}
OUTPUT = re.search(r"^```text\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)
FIRST = EXAMPLES["ranx"][1]


def run_block(block: str, names: dict[str, object]) -> None:
    """Run a block of the page."""
    exec(compile(block, PAGE.name, "exec"), names)


def test_the_calls_of_this_library_run_and_have_the_values_by_hand(capsys):
    names: dict[str, object] = {}
    run_block(DATA, names)
    assert OUTPUT is not None
    assert capsys.readouterr().out == OUTPUT[1]
    run_block(FIRST, names)
    # recall@2: one of two items for u1, the only one for u2, one of two for u3
    assert names["ours"]["recall@2"] == pytest.approx((1 / 2 + 1 + 1 / 2) / 3)


@pytest.mark.engines
@pytest.mark.parametrize("library", ["ranx", "ir_measures", "RecTools"])
def test_the_calls_of_both_libraries_give_the_same_values(library: str):
    names: dict[str, object] = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # some of these libraries use deprecated names of NumPy
        pytest.importorskip(library.lower(), reason=f"{library} is not installed", exc_type=ImportError)
        for block in (DATA, FIRST, *EXAMPLES[library]):
            run_block(block, names)
    values = {
        str(label).replace("nDCG", "ndcg").replace("R@", "recall@"): value
        for label, value in names["theirs"].items()
    }
    assert values == pytest.approx(names["ours"], abs=1e-12)


def test_every_name_of_this_library_on_the_page_exists():
    names = set(re.findall(r"`(ipseval(?:\.\w+)+)", TEXT))
    assert len(names) > 8
    for name in names:
        value = importlib.import_module("ipseval")
        for part in name.split(".")[1:]:
            value = getattr(value, part)
