"""Every situation of the cookbook runs on files of its kind, and gives what it says."""

from __future__ import annotations

import ast
import re
import shlex

import pandas as pd
import pytest

from ipseval.cli import main
from tests.conftest import ROOT
from tests.docs.cookbook_files import write_files

PAGE = (ROOT / "docs" / "cookbook.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^## ([^\n]+)\n.*?^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
SITUATIONS = dict(BLOCKS)
OUTPUTS = dict(
    re.findall(r"^## ([^\n]+)\n(?:(?!^## ).)*?^```\n\n```text\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
)
BLOCK_FLAGS = re.MULTILINE | re.DOTALL
RATINGS = "I have a downloaded log of ratings"
VERSIONS = "I have impressions, and the lists of two versions"


@pytest.fixture(name="files", scope="module")
def fixture_files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cookbook")
    write_files(folder)
    return folder


def run(title: str) -> dict:
    names: dict = {}
    exec(compile(SITUATIONS[title], title, "exec"), names)
    return names


def statements(block: str) -> int:
    """Return the number of statements but imports."""
    return sum(not isinstance(statement, (ast.Import, ast.ImportFrom)) for statement in ast.parse(block).body)


def counts(data: pd.DataFrame) -> dict[tuple[str, str], int]:
    return dict(zip(zip(data["subject"], data["what"], strict=True), data["count"], strict=True))


def test_every_situation_has_its_block_and_there_are_ten():
    assert PAGE.count("\n## ") == len(SITUATIONS) >= 10


@pytest.mark.filterwarnings("ignore::UserWarning")  # of users without a list, few positives and rare items
@pytest.mark.parametrize("title", [one for one in SITUATIONS if one not in (RATINGS, VERSIONS)])  # below
def test_every_situation_runs(title, files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    names = run(title)
    assert capsys.readouterr().out == OUTPUTS[title]
    if "evaluation" in names and hasattr(names["evaluation"], "frame"):
        assert names["evaluation"].frame["estimate"].notna().any()


def test_every_recipe_shows_its_output():
    assert set(OUTPUTS) == set(SITUATIONS)


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_log_of_ratings_needs_five_statements_and_counts_what_it_leaves_out(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    assert statements(SITUATIONS[RATINGS]) <= 5
    counts_by_name = counts(run(RATINGS)["evaluation"].data)
    assert capsys.readouterr().out == OUTPUTS[RATINGS]
    frame = pd.read_csv("u.data", sep="\t")
    assert counts_by_name["log", "rows with a value below 4, left out"] == (frame["rating"] < 4).sum()
    assert (
        counts_by_name["split", "train pairs"] + counts_by_name["split", "test pairs"]
        == (frame["rating"] >= 4).sum()
    )


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_two_versions_need_five_statements_and_count_every_fault_of_the_files(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    assert statements(SITUATIONS[VERSIONS]) <= 5
    names = run(VERSIONS)
    assert capsys.readouterr().out == OUTPUTS[VERSIONS]
    evaluation, split = names["evaluation"], names["split"]
    counts_by_name = counts(evaluation.data)
    shown = pd.read_parquet("impressions.parquet")
    clicked = shown[shown["clicked"]]
    assert (
        counts_by_name["log", "clicks on a pair clicked before, left out"]
        == clicked.duplicated(["user_id", "item_id"]).sum()
    )
    train = set(split.train.to_frame()[["user", "item"]].itertuples(index=False, name=None))
    tested = set(split.test.to_frame()["user"])
    assert split.train.timestamp.max() < split.test.timestamp.min()  # nothing leaks back
    for name in ("v1", "v2"):
        entries = pd.read_parquet(f"recs_{name}.parquet")
        pairs = list(zip(entries["user_id"], entries["item_id"], strict=True))
        n_unknown = (~entries["item_id"].isin(shown["item_id"])).sum()
        n_missing = len(tested - set(entries["user_id"]))
        assert n_unknown > 0 < n_missing
        assert counts_by_name[name, "entries with items unknown to the split, left out"] == n_unknown
        assert counts_by_name[name, "entries that are training items of their user, left out"] == sum(
            p in train for p in pairs
        )
        assert counts_by_name[name, "users with test positives and no list, counted as misses"] == n_missing
    assert set(evaluation.frame["model"]) == {"v1", "v2"}
    assert list(evaluation.estimators) == ["aoa-pooled"]


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_variant_with_weights_prints_what_the_page_shows(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    variant = PAGE.partition("### Variant: whole lists were drawn at random")[2]
    block, output = re.search(r"^```python\n(.*?)^```\n\n```text\n(.*?)^```", variant, BLOCK_FLAGS).groups()
    exec(compile(block, "variant", "exec"), {})
    assert capsys.readouterr().out == output
    assert "No verdict" in output


def test_both_begin_in_one_command_as_well(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    commands = re.findall(r"^```sh\n(ipseval evaluate .*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(commands) == 2
    for command in commands:
        _, *arguments = shlex.split(command.replace("\\\n", " "))
        assert main(arguments) == 0
    assert "ipseval compare versions.npz --model v2=v1" in PAGE
    assert main(["compare", "versions.npz", "--model", "v2=v1"]) == 1  # WORSE, as the page says
    captured = capsys.readouterr()
    printed = " ".join(captured.out.split())
    assert "left out (clicks on a pair clicked before)" in printed
    for name in ("v1", "v2"):
        assert re.search(
            rf"{name}: \d+ of [\d,]+ left out \(entries with items unknown to the split\)", printed
        )
        assert re.search(rf"{name}: \d+ of [\d,]+ left out \(entries that are training items", printed)
        assert re.search(rf"'{name}' lacks \d+", captured.err)  # users without a list


def test_all_problems_of_a_faulty_log_are_printed(files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    run("My log has faults")
    printed = capsys.readouterr().out
    for text in (
        "faults.csv has 4 problems",
        "1 of 4 rows have no user",
        "no item",
        "no timestamp",
        "repeat",
    ):
        assert text in printed
