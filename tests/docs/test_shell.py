"""What pages show in the shell is run: commands in this process, pipes and redirections in a shell."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.cli import main
from ipseval.ranking import baselines
from tests.inside.cli import COMMANDS, run_demo
from tests.pages import without_pictures
from tests.worlds import STUDY

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return the blocks of shell and Python of a page, in order."""
    return BLOCK.findall(page.read_text("utf-8"))


def script(page: Path, *, after: str = "") -> str:
    """Return the shell of a page as one script, from a heading on."""
    text = page.read_text("utf-8")
    start = text.index(after)
    following = re.search(r"^## ", text[start + 1 :], re.MULTILINE)
    part = text[start : start + 1 + following.start()] if following and after else text[start:]
    return "\n".join(block for kind, block in BLOCK.findall(part) if kind == "sh")


def commands(block: str) -> list[str]:
    """Return the lines of a block, continued ones joined, without comments."""
    lines = block.replace("\\\n", " ").splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


def run_here(page: Path) -> None:
    """Run the blocks of a page in order; what installs something is left out."""
    names: dict[str, object] = {}
    for kind, block in blocks(page):
        if kind == "python":
            exec(compile(block, page.name, "exec"), names)
            continue
        for line in commands(block):
            if "pip install" not in line:
                words = shlex.split(line)
                assert words[0] == "ipseval", line
                assert main(words[1:]) == 0, line


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.slow  # test_tutorial.py compares its outputs, with the documentation site: see `.ci/run`
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_tutorial_runs_from_its_first_block_to_its_last(folder, capsys, monkeypatch):
    small = run_demo(n_users=60, n_items=80)
    monkeypatch.setattr("ipseval.cli._demo_world.run_demo", lambda **_: small)
    with without_pictures():
        run_here(DOCS / "tutorial.md")
    assert "<title>Evaluation of recommenders" in (folder / "mine.html").read_text()
    assert (folder / "page.html").exists()
    assert "Verdict" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_the_three_commands_of_the_first_page_lead_from_a_file_to_a_report(folder, capsys):
    clicks = pd.read_csv(ROOT / "data/samples/clicks.csv")
    clicks[clicks["user"] < "user080"].to_csv(folder / "clicks.csv", index=False)
    text = (DOCS / "index.md").read_text("utf-8")
    block = re.findall(
        r"^```sh\n(.*?)^```",
        text[text.index("## Evaluate a log in three commands") :],
        re.MULTILINE | re.DOTALL,
    )[0]
    lines = commands(block)
    assert len(lines) == 3
    with without_pictures():
        for line in lines:
            assert main(shlex.split(line, comments=True)[1:]) == 0, line
    assert (folder / "report.html").read_text().startswith("<!DOCTYPE html>")
    assert "Verdict" in capsys.readouterr().out


def run_script(text: str, folder: Path) -> str:
    """Run a script as a user would; return what it printed."""
    (folder / "bin").mkdir()
    program = folder / "bin" / "ipseval"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ipseval "$@"\n')
    program.chmod(0o755)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text],
        cwd=folder, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_journey_with_a_downloaded_log_runs_from_its_first_block_to_its_last(tmp_path, shared_data):
    shutil.copy(shared_data("ml-100k") / "u.data", tmp_path)
    printed = run_script(script(DOCS / "cookbook.md", after="## I have a downloaded log"), tmp_path)
    assert "SNIPS: equally exposed users, propensities ∝ popularity^((γ+1)/2), γ = 0." in printed
    assert "\\begin{tabular}" in (tmp_path / "time.tex").read_text()
    assert "Verdict" in (tmp_path / "time.html").read_text()


@pytest.mark.slow
def test_the_journey_with_a_production_log_runs_from_its_first_block_to_its_last(tmp_path, shared_data):
    make = shared_data("ml-100k").parents[1] / "journeys" / "production.py"
    if not make.exists():
        pytest.skip("the script that simulates the production log is not beside the data")
    here = Path.cwd()
    arguments, sys.argv = sys.argv, [str(make), str(tmp_path)]
    try:
        runpy.run_path(str(make))
    finally:
        sys.argv = arguments
        os.chdir(here)
    printed = run_script(script(DOCS / "cookbook.md", after="## I have impressions"), tmp_path)
    assert "v1 ranks first on recall@10 by AOA" in printed
    assert "WORSE by recall@10 (aoa)" in printed
    assert "exit code 1" in printed
    assert "Verdict" in (tmp_path / "versions.html").read_text()


def write_what_the_examples_name(folder: Path, coat: Path) -> None:
    """Write the files that the examples of the page on the command line name."""
    rng = np.random.default_rng(0)
    shutil.copy(ROOT / "data/samples/clicks.csv", folder)
    (folder / "data").mkdir()
    shutil.copytree(coat, folder / "data" / "coat")
    clicks = pd.read_csv(folder / "clicks.csv")
    times = pd.Timestamp("2026-04-01") + pd.to_timedelta(rng.integers(0, 60 * 24 * 60, len(clicks)), "min")
    clicks.assign(timestamp=times).to_parquet(folder / "log.parquet")
    users, items = clicks["user"].unique(), clicks["item"].unique()
    order = rng.random((users.size, items.size)).argsort(axis=1)[:, :50]
    columns = {
        "user": np.repeat(users, 50),
        "item": items[order.ravel()],
        "rank": np.tile(range(1, 51), users.size),
    }
    # Training items are no candidates; ranks go on without them.
    lists = pd.DataFrame(columns).merge(clicks, on=["user", "item"], how="left", indicator=True)
    lists = lists[lists.pop("_merge") == "left_only"]
    lists["rank"] = lists.groupby("user").cumcount() + 1
    lists.to_parquet(folder / "lists.parquet")
    split = ipseval.split_random(ipseval.read(folder / "clicks.csv"), rng=0)
    split.train.to_frame().to_csv(folder / "train.csv", index=False)
    split.test.to_frame().to_csv(folder / "test.csv", index=False)
    pairs = pd.MultiIndex.from_product([users, items], names=["user", "item"]).to_frame(index=False)
    train = split.train.to_frame()[["user", "item"]]
    pairs = pairs.merge(train, how="left", indicator=True).query("_merge == 'left_only'")
    popularity = pairs["item"].map(train["item"].value_counts()).fillna(0)
    for name, noise in (("old", 0.1), ("new", 5.0)):
        scores = popularity + noise * rng.random(len(pairs))
        pairs.assign(score=scores)[["user", "item", "score"]].to_csv(folder / f"{name}.csv", index=False)
    parts = ipseval.Split.from_frames(split.train.to_frame(), split.test.to_frame())
    np.save(folder / "scores.npy", rng.random((parts.n_users, parts.n_items)))
    shown = pd.DataFrame({"user": rng.choice(users, 6000), "item": rng.choice(items, 6000)}).drop_duplicates()
    liked = shown.merge(clicks.assign(clicked=1), how="left")["clicked"].fillna(0).to_numpy()
    ratings = shown.assign(rating=np.where(liked > 0, 5, rng.integers(1, 4, len(shown))))
    ratings[["user", "item", "rating"]].to_csv(folder / "ratings.csv", index=False)
    shown.assign(positive=np.maximum(liked, rng.random(len(shown)) < 0.05)).to_csv(
        folder / "shown.csv", index=False
    )
    slates = pd.DataFrame({"user": np.repeat(users, 10), "query": np.repeat(range(users.size), 10)})
    slates["item"] = items[rng.random((users.size, items.size)).argsort(axis=1)[:, :10].ravel()]
    slates["position"] = np.tile(range(1, 11), users.size)
    seen = rng.random(len(slates)) < slates["position"] ** -0.7
    slates.assign(clicked=seen & (rng.random(len(slates)) < 0.3)).to_parquet(folder / "impressions.parquet")
    (folder / "study.toml").write_text(STUDY + 'holdout = ["ratio"]\n[study]\nmetrics = ["recall@10"]\n')
    models = {
        "v1": baselines.popularity(split.train),
        "v2": baselines.item_knn(split.train),
        "ease": baselines.ease(split.train),
        "item_knn": baselines.item_knn(split.train),
    }
    result = ipseval.evaluate(models, split, propensity="power-law:gamma=0")
    (folder / "gates").mkdir()
    for name in (
        "result.npz",
        "baseline.npz",
        "new.npz",
        "old.npz",
        "books.npz",
        "music.npz",
        "random.npz",
        "time.npz",
    ):
        result.save(folder / name)
    (folder / "notes.toml").write_text('[data]\nsource = "log of a shop, 2026-01"\n', encoding="utf-8")
    (folder / "gate.toml").write_text('[gate]\n"recall@10" = {margin = 0.01}\n', encoding="utf-8")


@pytest.mark.slow
def test_every_example_of_the_page_on_the_command_line_runs(tmp_path, shared_data):
    write_what_the_examples_name(tmp_path, shared_data("coat"))
    text = (DOCS / "command-line.md").read_text("utf-8")
    found = [line for kind, block in BLOCK.findall(text) if kind == "sh" for line in commands(block)]
    lines = [line for line in found if line.startswith("ipseval ")]
    assert {line.split()[1] for line in lines} >= set(COMMANDS)
    lines.sort(key=lambda line: line.startswith("ipseval demo"))  # last, as it writes a clicks.csv of its own
    # Whatever a gate decides is right here; 2 would be an example that cannot be used.
    decided = [f"{line} || [ $? -ne 2 ]" if " compare " in line else line for line in lines]
    printed = run_script("\n".join(decided), tmp_path)
    assert "Validation on coat" in printed
    for name in ("page.html", "coat.html", "history.html", "study.html"):
        assert (tmp_path / name).read_text().startswith("<!DOCTYPE html>")
