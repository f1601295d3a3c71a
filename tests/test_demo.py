"""The demonstration shows what it says: which estimator is nearest to a known truth."""

from __future__ import annotations

import signal
import subprocess
import sys
import time

import pytest

from ipseval import InputError, cli
from ipseval.demo import plot_demo, run_demo


@pytest.fixture(scope="module")
def small():
    return run_demo(n_users=300, n_items=200)


def test_weighted_estimates_are_far_nearer_to_the_truth_than_the_plain_average():
    start = time.process_time()
    errors = run_demo().errors()
    assert time.process_time() - start < 10  # "some seconds": about 2 on one core
    assert (errors["snips-global"] < 0.1 * errors["aoa"]).all()
    assert (errors["snips-pooled"] < 0.1 * errors["aoa-pooled"]).all()
    assert (errors["ips"] < 0.1 * errors["aoa"]).all()
    assert (errors["snips"] > 0.3 * errors["aoa"]).all()


def test_the_same_seed_gives_the_same_table(small):
    assert run_demo(n_users=300, n_items=200).table.equals(small.table)
    assert not run_demo(rng=1, n_users=300, n_items=200).table.equals(small.table)


def test_the_command_says_at_once_that_it_works_and_in_the_end_why_there_is_no_picture(
    monkeypatch, capsys, small
):
    monkeypatch.setattr("ipseval.demo.run_demo", lambda rng: small)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    assert cli.main(["demo"]) == 0
    printed = capsys.readouterr()
    assert printed.err.startswith("Five recommenders learn in a simulated world")
    assert printed.out.endswith("matplotlib is not installed; get it with: pip install 'ipseval[plot]'\n")


def test_a_picture_that_cannot_be_written_is_an_error(small, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    for path in (tmp_path / "nowhere" / "a.png", tmp_path / "a.nonsense"):
        with pytest.raises(InputError, match="the picture cannot be written to"):
            plot_demo(small, path)


def test_an_interrupt_ends_the_command_with_one_line_and_its_exit_code():
    command = [sys.executable, "-W", "ignore", "-m", "ipseval.cli", "demo", "--picture", ""]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    assert running.stderr.readline().startswith("Five recommenders")
    running.send_signal(signal.SIGINT)
    _, error = running.communicate(timeout=60)
    assert (running.returncode, error) == (130, "ipseval: interrupted\n")
