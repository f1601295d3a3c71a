"""A study from a TOML file."""

from __future__ import annotations

import functools
import operator
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from ipseval.cli import main
from ipseval.errors import InputError
from ipseval.studies.protocols import run_config
from tests.inside.studies import _build_protocols, _load_model, _read_log
from tests.studies.test_protocols import make_log

CONFIG = """
path = "out"
[logs.shop]
file = "shop.csv"
timestamp = "time"
[models.first]
function = "config_models:constant"
[models.second]
function = "config_models:constant"
options = {item = 3}
[protocols]
holdout = ["leave-one-out"]
k_core = [0]
[study]
metrics = ["auc"]
estimators = ["aoa", "snips"]
gammas = [0.5]
n_resamples = 20
"""
MODULE = """
import numpy as np
def constant(train, item=0):
    return np.tile(np.arange(train.n_items) == item, (train.n_users, 1)).astype(float)
"""


def test_a_study_from_a_file_writes_report_and_tables(tmp_path: Path) -> None:
    make_log().to_frame().rename(columns={"timestamp": "time"}).to_csv(tmp_path / "shop.csv", index=False)
    (tmp_path / "study.toml").write_text(CONFIG)
    (tmp_path / "config_models.py").write_text(MODULE)
    result = run_config(tmp_path / "study.toml", progress=False)
    assert result.levels("split") == ["RO_LS", "TO_LS"]
    assert result.levels("k_core") == ["no filter"]
    written = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert written == [
        "agreement_estimator.csv",
        "agreement_split.csv",
        "estimates.csv",
        "ranks",
        "report.md",
    ]
    assert (tmp_path / "out" / "report.md").read_text(encoding="utf-8") == result.to_markdown()


def test_a_file_can_choose_positives_by_value_and_read_impressions(tmp_path: Path) -> None:
    frame = make_log().to_frame().assign(stars=np.tile([5, 4, 3, 4, 5, 1, 2, 4, 5, 4], 60))
    frame.to_csv(tmp_path / "shop.csv", index=False)
    log = _read_log("shop", {"file": "shop.csv", "value": "stars", "threshold": 4}, tmp_path)
    assert (len(log), log.value is None) == (7 * 60, True)
    frame.assign(clicked=frame["stars"] >= 4).drop(columns=["stars", "timestamp"]).to_csv(
        tmp_path / "shown.csv", index=False
    )
    assert len(_read_log("shop", {"file": "shown.csv"}, tmp_path)) == 7 * 60


def test_entries_are_read_as_options_of_grids_and_functions(tmp_path: Path) -> None:
    pool = {"n_sampled": 3, "distribution": "uniform", "rng": 0}
    entry = {"order": ["random"], "holdout": ["ratio"], "k_core": [0, 5], "candidates": ["all", pool]}
    protocols = _build_protocols(entry)
    assert [protocol.label for protocol in protocols] == [
        f"RO_RS, {core}, {name}" for core in ("no filter", "5-core") for name in ("full", "uniform-3")
    ]
    assert _load_model("a", {"function": "builtins:dict"}, tmp_path) is dict  # it does not say what it takes
    assert _load_model("a", {"function": "operator:neg", "options": {}}, tmp_path) is operator.neg
    assert sys.path[0] == str(tmp_path.resolve())
    again = list(sys.path)
    _load_model("a", {"function": "builtins:dict"}, tmp_path)
    assert sys.path == again


def test_results_are_written_next_to_the_file_without_a_named_folder(tmp_path: Path) -> None:
    text = CONFIG.replace("[protocols]", '[protocols]\norder = ["random"]')
    write_files(tmp_path, text.replace('path = "out"', ""))
    run_config(tmp_path / "study.toml", progress=False)
    assert (tmp_path / "study-results" / "report.md").is_file()


MODELS_OF_CONFIG = CONFIG[CONFIG.index("[models.first]") : CONFIG.index("[protocols]")]
BAD_CONFIGS = {
    "no models": (CONFIG.replace(MODELS_OF_CONFIG, ""), r"needs at least one \[models.<name>\]"),
    "no log": (
        CONFIG.replace(CONFIG[CONFIG.index("[logs.shop]") : CONFIG.index("[models.first]")], "[logs]\n"),
        r"needs at least one \[logs.<name>\]",
    ),
    "a function alone": (CONFIG.replace("config_models:c", ":c"), "needs function .*; got ':constant'"),
    "a module alone": (CONFIG.replace(":constant", ":"), "needs function .*; got 'config_models:'"),
    "no file named": (CONFIG.replace('file = "shop.csv"', ""), r"\[logs.shop\] needs file = '<path>'"),
    "unknown entry": (CONFIG.replace("[study]", "[studies]"), "unknown entries 'studies'"),
    "unknown column": (CONFIG.replace("timestamp =", "time ="), "unknown entries 'time'"),
    "no such module": (CONFIG.replace("config_models:c", "nowhere:c"), "No module named 'nowhere'"),
    "no function": (CONFIG.replace('"config_models:constant"', '"config_models"'), "'module:function'"),
    "no logs": (CONFIG.replace("[logs.shop]", "[log]"), "unknown entries 'log'"),
    "no file": (CONFIG.replace("shop.csv", "none.csv"), "none.csv does not exist"),
    "not TOML": ("[", "cannot read"),
    "no such column": (
        CONFIG.replace('timestamp = "time"', 'timestamp = "when"'),
        "column 'when' does not exist",
    ),
    "a random scheme without seed": (
        CONFIG.replace("k_core", "candidates = [{n_sampled = 3}]\nk_core"),
        "give a seed",
    ),
    "an unknown option of a scheme": (
        CONFIG.replace("k_core", "candidates = [{rng = 0, n_sampled = 3, n = 3}]\nk_core"),
        "SampledCandidates: .*'n'",
    ),
    "an option that a model does not take": (CONFIG.replace("item = 3", "items = 3"), "constant: .*'items'"),
    "a place that is a file": (CONFIG.replace('path = "out"', 'path = "shop.csv"'), "cannot write"),
}


WRONG_TYPES = {
    ("path", "[study]"): ["true"],
    ("logs", "the file"): ["[]"],
    ("protocols", "the file"): ['"all"'],
    ("file", "[logs.shop]"): ["{a = 1}"],
    ("timestamp", "[logs.shop]"): ["[1]"],
    ("threshold", "[logs.shop]"): ["true", "1979-05-27"],
    ("options", "[models.first]"): ['"item"'],
    ("function", "[models.first]"): ['["a:b"]'],
    ("k_core", "[protocols]"): ["5", '["5"]', "[5.0]", "[true]"],
    ("holdout", "[protocols]"): ['"ratio"', "[1]"],
    ("candidates", "[protocols]"): ['"all"', "[3]"],
    ("test_fraction", "[protocols]"): ['"a"'],
    ("gammas", "[study]"): ["1.0", '["1"]'],
    ("metrics", "[study]"): ["3", "[3]"],
    ("k", "[study]"): ['"1"', "[0.5]"],
    ("rng", "[study]"): ["0.5"],
}
WORDS = {
    **dict.fromkeys(("path", "file", "timestamp", "function"), "str"),
    **dict.fromkeys(("logs", "protocols", "options"), "dict"),
    **dict.fromkeys(("threshold", "test_fraction"), "float"),
    "k_core": "list[int]",
    "holdout": "list[str]",
    "candidates": "list[str | dict[str, typing.Any]]",
    "gammas": "list[float]",
    "metrics": "str | list[str]",
    "k": "int | list[int]",
    "rng": "int",
}
CASES = [(name, where, value) for (name, where), values in WRONG_TYPES.items() for value in values]


def with_entry(name: str, where: str, value: str) -> str:
    """Return the configuration with one entry set or replaced."""
    if name == "path":
        return CONFIG.replace('path = "out"', f"path = {value}")
    if where == "the file":
        head, *tables = CONFIG.split("\n[")
        other_tables = [table for table in tables if not table.startswith(name)]
        return "\n[".join([f"{head}\n{name} = {value}", *other_tables])
    lines = [line for line in CONFIG.split("\n") if not line.startswith(f"{name} =")]
    lines.insert(lines.index(where) + 1, f"{name} = {value}")
    return "\n".join(lines)


def test_an_entry_of_a_wrong_type_is_named_with_what_was_expected(tmp_path: Path) -> None:
    for name, where, value in CASES:
        write_files(tmp_path, with_entry(name, where, value))
        message = refusal(tmp_path / "study.toml")
        expected = f"{name} must be ({re.escape(WORDS[name])}|a list of values); got"
        assert re.search(expected, message), (name, where, value, message)


MODULES = {
    "ends the program": (
        "import sys\nsys.exit(0)\n",
        "importing .*_0:constant failed .SystemExit: 0",
    ),
    "is no Python": ("def constant(:\n", "failed .SyntaxError"),
    "raises": ("1 / 0\n", "failed .ZeroDivisionError"),
    "ends it when fitted": ("def constant(train, item=0):\n    raise SystemExit(0)\n", "ended the program"),
}


@pytest.mark.parametrize("name", MODULES)
def test_a_module_that_fails_or_ends_the_program_is_an_error(name: str, tmp_path: Path, capsys) -> None:
    module, message = MODULES[name]
    number = list(MODULES).index(name)
    write_files(tmp_path, CONFIG.replace("config_models", f"config_models_{number}"))
    (tmp_path / f"config_models_{number}.py").write_text(module)
    assert main(["study", str(tmp_path / "study.toml")]) == 2
    assert re.search(message.replace("_0:", f"_{number}:"), capsys.readouterr().err)


@functools.cache
def shop() -> str:
    frame = make_log().to_frame().rename(columns={"timestamp": "time"})
    return str(frame.assign(stars=3).to_csv(index=False))


def write_files(folder: Path, text: str) -> None:
    (folder / "shop.csv").write_text(shop())
    (folder / "config_models.py").write_text(MODULE)
    (folder / "study.toml").write_text(text)


def refusal(path: Path) -> str:
    """Return what is said of a file that is refused, or nothing."""
    try:
        run_config(path)
    except InputError as error:
        return str(error)
    return ""


def test_bad_files_say_what_was_expected(tmp_path: Path) -> None:
    for name, (text, message) in BAD_CONFIGS.items():
        write_files(tmp_path, text)
        error = refusal(tmp_path / "study.toml")
        assert re.search(message, error), (name, error)
