"""The README has its two commands, and the examples of it and of the first page print what is shown."""

from __future__ import annotations

import re
import runpy
import shutil
import warnings
from pathlib import Path

import pytest

import ipseval
from tests.conftest import shared_data
from tests.docs.outputs import print_default_result
from tests.inside.cli import build_demo_world, merge_demo_log

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
INDEX = (ROOT / "docs/index.md").read_text(encoding="utf-8")


def blocks(kind: str, page: str = INDEX) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", page, flags=re.DOTALL)


@pytest.fixture(name="at_the_root")
def fixture_at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def lines(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.splitlines())


@pytest.mark.usefixtures("at_the_root")
def test_the_example_prints_of_the_demonstrations_log_what_stands_below_it(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "\nipseval demo --log clicks.csv\n" in blocks("sh")[0]
    merge_demo_log(build_demo_world()[1]).to_csv("clicks.csv", index=False)
    exec(compile(blocks("python")[0], "index.md", "exec"), {"__name__": "__main__"})
    assert lines(capsys.readouterr().out) == blocks("text")[0].rstrip()


def test_the_true_value_on_the_first_page_is_that_of_the_simulation():
    world, log_parts = build_demo_world()
    log = ipseval.Interactions.from_frame(
        merge_demo_log(log_parts), users=log_parts.user_ids, items=log_parts.item_ids
    )
    split = ipseval.split_random(log, test_fraction=0.2, rng=0)
    models = {"popularity": ipseval.baselines.popularity(split.train)}
    truth = world.truth(models, ["recall@10"], split)["ideal"].item()
    assert f"recall@10 of *popularity*: it is {truth:.3f}." in " ".join(INDEX.split())


def test_the_readme_has_two_commands():
    assert README.count("```sh") == 2


@pytest.mark.usefixtures("at_the_root")
def test_the_example_of_the_readme_prints_what_stands_below_it(capsys, tmp_path, monkeypatch):
    shutil.copy(shared_data("ml-100k") / "u.data", tmp_path)
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("python", README)
    (printed,) = blocks("output", README)
    exec(compile(program, "README.md", "exec"), {"__name__": "__main__"})
    assert lines(capsys.readouterr().out) == printed.rstrip()


def test_the_first_example_on_reading_a_result_is_what_is_printed_for_movielens():
    page = (ROOT / "docs/reading-a-result.md").read_text(encoding="utf-8")
    printed = print_default_result(shared_data("ml-100k") / "u.data")
    assert f"```output\n{printed}\n```" in page
    text = " ".join(printed.split())
    for quotation in re.findall(
        r"^\* \*(.*?)\*:", page.split("### The verdict")[1].split("### The tables")[0], re.M
    ):
        explained = quotation.removeprefix("For ndcg@10").removeprefix("For rr@100")
        assert explained != quotation or quotation.lower() in text.lower(), quotation


@pytest.mark.parametrize(
    "words", ["unbiased", "confidence interval", "missing not at random", "import ipseval"]
)
def test_the_readme_uses_the_words_that_readers_search_for(words):
    assert words in README.lower()


def test_the_readme_fits_two_screens():
    assert len(README.splitlines()) <= 80


@pytest.mark.usefixtures("at_the_root")
def test_the_sample_log_is_what_its_script_writes():
    clicks = runpy.run_path("data/samples/generate.py")["clicks"]()
    assert clicks.to_csv(index=False) == (ROOT / "data/samples/clicks.csv").read_text()
