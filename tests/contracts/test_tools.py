"""The programs that measure the tests, and what no test may depend on."""

from __future__ import annotations

import ast
import re
import sys
from importlib import resources
from pathlib import Path

import pytest

import ipseval
from tests import extras, floors
from tests.conftest import ROOT
from tests.mutation import kept_tests, record, removed_tests, run
from tests.mutation.layers import LAYERS, SPEED
from tests.mutation.run import Score
from tests.mutation.sample import Mutant, places, sample
from tests.typed.__main__ import PAGES, expected, programs

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


def test_comparisons_with_a_text_are_not_changed_to_comparisons_by_order(tmp_path):
    pytest.importorskip("cosmic_ray")
    path = tmp_path / "code.py"
    changes = {}
    for literal in ("'user'", "2"):
        path.write_text(f"def f(x):\n    return x == {literal}\n", encoding="utf-8")
        mutants = [sample(tmp_path, [path], 9, seed)[0] for seed in range(12)]
        changes[literal] = {mutant.after for found in mutants for mutant in found}
    assert "return x != 'user'" in changes["'user'"]
    assert not any(order in change for change in changes["'user'"] for order in "<>")
    assert any(order in change for change in changes["2"] for order in "<>")


@pytest.mark.parametrize(("code", "n_mutants"), [("copy=False", 0), ("copy=True", 1), ("other=False", 1)])
def test_one_more_copy_is_no_mutant(code, n_mutants, tmp_path):
    pytest.importorskip("cosmic_ray")
    path = tmp_path / "code.py"
    path.write_text(f"x = f(y, {code})\n", encoding="utf-8")
    assert len(sample(tmp_path, [path], 9, seed=0)[0]) == n_mutants


def test_a_score_of_mutants_states_its_share_and_its_standard_error():
    survivor = Mutant("code.py", 1, "x + 1", "x - 1", CODE)
    score = Score(n_places=300, found=90, survived=[survivor] * 10)
    assert (score.n, score.share) == (100, 0.9)
    assert score.standard_error == pytest.approx(0.03)
    assert "90.0% found (90 of 100; standard error 3.0%;" in str(score)


def test_every_layer_is_mutated():
    assert {path.parent.name for path in Path(ipseval.__file__).parent.glob("*/__init__.py")} == set(LAYERS)


@pytest.mark.parametrize("name", LAYERS)
def test_a_mutated_layer_has_files_tests_and_a_control_in_one_of_its_files(name):
    layer = LAYERS[name]
    file, old, new = layer.control
    path = f"{layer.folder}/{file}"
    if not (ROOT / "ipseval").exists():
        pytest.skip("the source of the library is not beside the tests")
    assert ROOT / path in layer.paths(ROOT)
    assert old in (ROOT / path).read_text(encoding="utf-8")
    assert old != new
    assert all((ROOT / test).exists() for test in layer.tests)


def test_the_examples_that_type_checkers_read_are_those_of_the_pages():
    assert all("ipseval.evaluate(" in "".join(programs(page)) for page in PAGES)
    wrong = (Path(ROOT) / "tests" / "typed" / "wrong.py").read_text(encoding="utf-8")
    assert len(expected(wrong)) == 8


# A test that reads one of these can be red tomorrow or on another machine, though nothing has changed.
CHANGING_VALUES = re.compile(
    r"(datetime\.)?date(time)?\.(today|now|utcnow)|(pd\.)?Timestamp\.(today|now)|time\.(time|localtime|gmtime|ctime)"
    r"|os\.(cpu_count|sched_getaffinity|urandom|path\.getsize)|platform\.\w+|uuid\.uuid[14]"
    r"|np\.random\.(rand\w*|normal|uniform|choice|permutation|shuffle)"
)
GENERATOR = re.compile(r"((np\.)?random\.)?(default_rng|Random)")
RANDOM_MODULE = re.compile(r"random\.(random|choices?|sample|shuffle|randint|randrange|uniform)")


def find_changing_values(source: str) -> list[str]:
    """Return the calls of a test file whose results change with the day, the machine or the run."""
    patterns = (CHANGING_VALUES, RANDOM_MODULE, re.compile(rf"{GENERATOR.pattern}\(\)"))
    if not any(pattern.search(source) for pattern in patterns):  # to parse a file takes longer
        return []
    imports_random = re.search(r"^import random$", source, re.MULTILINE) is not None
    calls = []
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        is_unseeded = GENERATOR.fullmatch(name) and not node.args and not node.keywords
        is_global = imports_random and RANDOM_MODULE.fullmatch(name)
        if is_unseeded or is_global or CHANGING_VALUES.fullmatch(name):
            calls.append(f"{node.lineno}: {name}")
    return calls


def test_no_test_reads_the_day_the_processors_or_random_numbers_without_a_seed():
    calls = {}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        if values := find_changing_values(path.read_text(encoding="utf-8")):
            calls[path.relative_to(ROOT).as_posix()] = values
    assert not calls


@pytest.mark.parametrize(
    "call",
    [
        *("date.today()", "datetime.now(UTC)", "pd.Timestamp.now()", "time.time()", "os.cpu_count()"),
        *("os.path.getsize(path)", "platform.machine()", "np.random.rand(3)", "np.random.default_rng()"),
        *("random.Random()", "random.choice(ids)", "uuid.uuid4()"),
    ],
)
def test_a_value_that_changes_by_itself_is_found(call):
    assert find_changing_values(f"import random\nx = {call}\n") == [f"2: {call.partition('(')[0]}"]
    harmless = "np.random.default_rng(0), random.Random(1), random.choice(ids), np.datetime64('2026-01-01')"
    assert find_changing_values(harmless) == []


def test_the_package_says_that_it_is_typed():
    assert resources.files("ipseval").joinpath("py.typed").is_file()
    assert resources.files("ipseval").joinpath("__init__.pyi").is_file()


def test_a_library_that_a_test_hides_is_no_reason_to_skip(monkeypatch):
    error = ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow")
    monkeypatch.setattr(extras, "MISSING", frozenset({"pyarrow"}))
    assert extras.missing(error) == "pyarrow is not installed"
    monkeypatch.setattr(extras, "MISSING", frozenset())
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert extras.missing(error) is None


@pytest.mark.parametrize(("total", "expected"), [(40, {"cli": 8, "data": 33}), (10, {"cli": 8, "data": 8})])
def test_mutants_are_shared_in_proportion_to_places_and_not_below_the_least(monkeypatch, total, expected):
    n_places = {"cli": 50, "data": 250}
    monkeypatch.setattr(
        run, "count_places", lambda root, paths: n_places[paths[0].relative_to(root).parts[1]]
    )
    assert run.share_mutants(["cli", "data"], total, 8) == expected


def test_a_record_of_mutants_is_read_as_it_was_written_and_gives_its_table(tmp_path):
    mutants = [Mutant("ipseval/a.py", line, "x + 1", "x - 1", "code") for line in (1, 2, 3)]
    after = [
        record.Outcome("data", mutants[0], True, "tests/test_a.py::test_a[1]"),
        record.Outcome("data", mutants[1], False, ""),
        record.Outcome("cli", mutants[2], True, ""),
    ]
    record.write_record(tmp_path / "after.jsonl", after[:2])
    record.write_record(tmp_path / "after.jsonl", after[2:])
    assert record.read_record(tmp_path / "after.jsonl") == after
    rows = record.format_table(after, {mutants[0], mutants[1]}).splitlines()[2:]
    assert rows == ["| data | 2 | 2 | 1 | 1 |", "| cli | 1 | 0 | 1 | 0 |", "| all | 3 | 2 | 2 | 1 |"]


def test_a_test_is_kept_with_its_table_of_cases_and_an_example_with_its_text(monkeypatch):
    code = """
CASES = [1, 2]

@pytest.mark.parametrize("case", CASES)
def test_a(case):
    assert case

def test_b():
    assert f() == 1

class Square:
    def area(self):
        '''Return the area.

        >>> Square().area()
        4
        '''
"""
    texts = kept_tests.read_texts(code, "x.py")
    assert sorted(texts) == ["x.py::Square::area", "x.py::test_a", "x.py::test_b"]
    longer_texts = kept_tests.read_texts(code.replace("[1, 2]", "[1, 2, 3]").replace("4\n", "5\n"), "x.py")
    assert [name for name in texts if texts[name] == longer_texts[name]] == ["x.py::test_b"]
    name = "ipseval/data/sparse.py::ipseval.data.sparse.Square.area"
    assert kept_tests.name_examples(name) == "ipseval/data/sparse.py::Square::area"


def test_a_removed_test_is_one_that_no_new_test_resembles():
    body = "value = compute(1, 2)\nassert value == 3\nassert compute(2, 2) == 4"
    removed = removed_tests.Function("tests/test_a.py", "test_sums", body)
    renamed = removed_tests.Function("tests/test_a.py", "test_totals", body.replace("value", "total"))
    different = removed_tests.Function(
        "tests/test_a.py", "test_words", "assert read('x').words == ['a', 'b']"
    )
    assert removed_tests.find_same_test(removed, [different, renamed]) is renamed
    assert removed_tests.find_same_test(removed, [different]) is None
