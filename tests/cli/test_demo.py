"""The demonstration shows what it says: which estimator is nearest to a known truth."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import numpy as np
import pytest

import ipseval
from ipseval.cli import main
from ipseval.cli._demo_world import build_demo_world
from tests.inside.cli import run_demo

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def small():
    return run_demo(n_users=40, n_items=80)


@pytest.fixture(scope="module")
def picture(small):
    pytest.importorskip("matplotlib")
    return small.picture


@pytest.fixture(scope="module")
def repeated():
    return run_demo(n_users=40, n_items=80)


def test_weighted_estimates_are_far_nearer_to_the_truth_than_the_plain_average():
    errors = run_demo(n_users=600, n_items=300).errors()
    assert (errors["snips-global"] < 0.1 * errors["aoa"]).all()
    assert (errors["snips-pooled"] < 0.1 * errors["aoa-pooled"]).all()
    assert (errors["ips"] < 0.1 * errors["aoa"]).all()
    assert (errors["snips"] > 0.3 * errors["aoa"]).all()


def test_the_same_seed_gives_the_same_table(small, repeated):
    assert repeated.table.equals(small.table)
    assert not run_demo(rng=1, n_users=40, n_items=80).table.equals(small.table)


def test_errors_are_those_of_users_or_of_all_positives(small):
    rows = small.table[(small.table["metric"] == "atop") & (small.table["average"] == "user")]
    errors = small.errors()
    assert errors.loc["atop", "aoa"] == pytest.approx((rows["aoa"] - rows["truth"]).abs().mean())
    pooled = small.table[(small.table["metric"] == "atop") & (small.table["average"] == "pooled")]
    expected = (pooled["snips-pooled"] - pooled["truth"]).abs().mean()
    assert errors.loc["atop", "snips-pooled"] == pytest.approx(expected)
    assert list(errors.index) == ["atop", "recall@10", "mean_dcg@10"]
    assert len(rows) == len(pooled) == 5
    assert list(small.table.columns[:4]) == ["model", "metric", "average", "truth"]
    ranked = small.evaluation.samples["ease"].ranked
    said = f"{len(ranked)} held-out interactions of {np.unique(ranked.user).size} users"
    per_user = np.median(np.bincount(ranked.user)[np.bincount(ranked.user) > 0])
    text = " ".join(str(small).split())
    assert "A simulation of 40 users and 80 items" in text
    assert f"evaluated on {said} in a second biased log (median: {per_user:g} per user)" in text


def test_there_is_a_picture_and_the_verdict_comes_first(monkeypatch, capsys, small, picture, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ipseval.cli._demo_world.run_demo", lambda **_: small)
    assert main(["demo", "--html", "page.html"]) == 0
    printed = capsys.readouterr()
    assert printed.err == "Training five recommenders on a simulated log; this takes a few seconds.\n"
    assert printed.out.startswith("Verdict     The mean absolute error of recall@10 is 0.")
    errors = small.errors()
    removed = sorted(1 - errors["snips-global"] / errors["aoa"])
    assert f"SNIPS global removes {removed[0]:.0%} to {removed[-1]:.0%} of the error" in printed.out
    assert "Picture: ipseval-demo.svg" in printed.out
    assert printed.out.count("\n") <= 28  # a screen: the values of one metric, the errors of all
    assert (tmp_path / "ipseval-demo.svg").read_text() == picture
    page = (tmp_path / "page.html").read_text()
    assert "Estimates and true values" in page
    assert all(f"{metric}, mean over users" in page for metric in ("atop", "recall@10", "mean_dcg@10"))
    assert printed.out.count(", mean over users") == 1
    assert printed.out.endswith("\nNext:    ipseval evaluate YOUR-LOG.csv --gamma 0\n")
    shown, whole = small.tables(page=True), small.evaluation.tables(page=True)
    assert shown.title == "Estimates and true values"
    assert list(map(repr, shown.appendix[1:])) == list(
        map(repr, (*whole.summary, *whole.parts, *whole.appendix))
    )
    (tmp_path / "ipseval-demo.svg").unlink()
    monkeypatch.setattr("ipseval.cli._demo_world.run_demo", lambda **_: SimpleNamespace(log=small.log))
    assert main(["demo", "--picture", "", "--log", "log.csv", "--quiet"]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert printed.out.endswith("\nLog:     log.csv\nNext:    ipseval evaluate log.csv --gamma 0\n")
    assert {path.name for path in tmp_path.iterdir()} == {"page.html", "log.csv"}
    assert (tmp_path / "log.csv").read_text() == small.log.to_csv(index=False)


def test_the_picture_has_a_panel_for_each_metric_and_every_estimator_in_its_legend(small, picture):
    root = ElementTree.fromstring(picture)
    words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert [word for word in words if word in small.errors().index] == ["atop", "recall@10", "mean_dcg@10"]
    assert words.count("truth") == 3
    assert words[-4:] == ["estimate = truth", "aoa", "snips", "snips-global"]


@pytest.mark.slow
def test_the_same_seed_gives_the_same_picture(picture, repeated):
    assert picture == repeated.picture


def test_without_matplotlib_the_demonstration_writes_everything_but_the_picture(
    monkeypatch, capsys, small, tmp_path
):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ipseval.cli._demo_world.run_demo", lambda **_: small)
    monkeypatch.setattr("ipseval.cli._studies.find_spec", lambda name: None)
    monkeypatch.setattr("ipseval.reporting._views.find_spec", lambda name: None)
    assert main(["demo", "--html", "page.html", "--quiet"]) == 0
    assert (
        "Picture: none, because matplotlib is not installed: pip install matplotlib"
        in capsys.readouterr().out
    )
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert "This page has no pictures, because" in (tmp_path / "page.html").read_text(encoding="utf-8")
    assert main(["demo", "--picture", "a.svg", "--quiet"]) == 2
    assert "--picture needs matplotlib; pip install matplotlib." in capsys.readouterr().err


@pytest.mark.slow
def test_a_reader_of_one_line_gets_the_verdict_and_no_traceback(tmp_path):
    """As in `ipseval demo | head -1`."""
    command = [sys.executable, "-W", "error", "-m", "ipseval", "demo"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"}
    piped = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.Popen(command, env=environment, cwd=tmp_path, **piped)
    assert process.stdout is not None
    assert process.stderr is not None
    first = process.stdout.readline()
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    assert first.startswith("Verdict     The mean absolute error of recall@10 is ")
    assert error.count("\n") == 1  # that it works
    assert process.wait() == 0
    assert [path.stem for path in tmp_path.iterdir()] == ["ipseval-demo"]


def test_an_interrupt_while_a_compiled_module_loads_is_one_too(monkeypatch, capsys):
    def interrupted(**_):
        raise ImportError("initialization failed") from KeyboardInterrupt()

    monkeypatch.setattr("ipseval.cli._demo_world.run_demo", interrupted)
    monkeypatch.setitem(sys.modules, "ipseval.reporting", None)  # half imported: it cannot be imported now
    assert main(["demo", "--picture", "", "--quiet"]) == 130
    assert capsys.readouterr().err == "ipseval: interrupted\n"


def test_a_world_has_a_seed_that_is_a_whole_number():
    with pytest.raises(ipseval.InputError, match=r"^rng must be an integer >= 0; got -1"):
        build_demo_world(-1)
