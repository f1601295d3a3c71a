"""The programs that measure the tests: floors of coverage, samples of mutants, examples for type checkers."""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import pytest

import ipseval
from tests import floors
from tests.conftest import ROOT
from tests.mutation.rooms import ROOMS, SPEED
from tests.mutation.run import Score
from tests.mutation.sample import places, sample
from tests.typed.__main__ import PAGES, expected, program

CODE = """
from __future__ import annotations
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    import os

def f(x: int | None = 1) -> int | None:
    return None if x is None else x + 1
"""


def test_a_floor_that_is_missed_is_named():
    counts = {"num_statements": 100, "covered_lines": 95, "num_branches": 50, "covered_branches": 44}
    found = floors.shares({"totals": counts})
    assert found == {"lines": 0.95, "branches": 0.88}
    assert floors.low(found) == ["branches"]
    assert floors.shares({"totals": dict(list(counts.items())[:2])}) == {"lines": 0.95}  # without `--branch`
    assert floors.low({"lines": 0.9499, "branches": 0.9}) == ["lines"]
    assert floors.low({"lines": float("nan"), "branches": 1.0}) == ["lines"]


def test_values_of_constants_of_speed_are_left_out_of_a_sample_and_counted(tmp_path, monkeypatch):
    pytest.importorskip("cosmic_ray")
    path, code = tmp_path / "code.py", f"{CODE}\nMANY = 2 * 3\n"
    path.write_text(code, encoding="utf-8")
    assert sample(tmp_path, [path], 99, seed=0)[1:] == (len(places(code)), 0)
    monkeypatch.setitem(SPEED, "code.py", ("MANY",))
    found, n_places, n_left_out = sample(tmp_path, [path], 99, seed=0)
    assert (n_places, n_left_out) == (len(places(CODE)), len(places(code)) - len(places(CODE)))
    assert n_left_out > 0
    assert "MANY" not in {each.before.partition(" ")[0] for each in found}
    assert f"{n_places} places, and {n_left_out} of SPEED left out" in str(
        Score(n_places, n_left_out, found=1)
    )


def test_every_wing_has_a_room():
    assert {path.parent.name for path in Path(ipseval.__file__).parent.glob("*/__init__.py")} == set(ROOMS)


@pytest.mark.parametrize("name", ROOMS)
def test_a_room_has_files_tests_and_a_control_that_stands_in_one_of_them(name):
    room = ROOMS[name]
    file, old, new = room.control
    path = f"{room.folder}/{file}"
    if not (ROOT / "ipseval").exists():
        pytest.skip("the source of the library is not beside the tests")
    assert ROOT / path in room.paths(ROOT)
    assert old in (ROOT / path).read_text(encoding="utf-8")
    assert old != new
    assert all((ROOT / test).exists() for test in room.tests)


def test_the_examples_that_type_checkers_read_are_those_of_the_pages():
    assert all("ipseval.evaluate(" in program(page) for page in PAGES)
    wrong = (Path(ROOT) / "tests" / "typed" / "wrong.py").read_text(encoding="utf-8")
    assert len(expected(wrong)) == 8


def test_the_package_says_that_it_is_typed():
    assert resources.files("ipseval").joinpath("py.typed").is_file()
    assert resources.files("ipseval").joinpath("__init__.pyi").is_file()
