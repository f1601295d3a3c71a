"""The simulation of the coverage of agreement intervals: its truth, its study, and its command."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval.studies.agreement import order_agreement
from reproductions import agreement_coverage
from reproductions.agreement_coverage import Cell, build_results, build_study, judge, judge_mean, simulate

CLEAR = Cell(5, 400, 0.3, "two swapped")  # distances of 0.3 with standard errors of 0.013


def test_the_true_agreement_is_that_of_one_inverted_pair():
    assert simulate(CLEAR, np.random.default_rng(0)).truth.tau_b == pytest.approx(1 - 2 / 10)
    ten = simulate(Cell(10, 20, 0.3, "two swapped"), np.random.default_rng(0))
    assert ten.truth.tau_b == pytest.approx(1 - 2 / 45)
    assert ten.a.shape == ten.b.shape == (10, 20)


def test_the_study_has_the_means_and_standard_errors_of_the_values():
    data = simulate(CLEAR, np.random.default_rng(1))
    first, second = build_results(data, "log", 0)
    assert first.estimates == pytest.approx(data.a.mean(axis=1))
    assert np.sqrt(np.diag(second.covariance)) == pytest.approx(data.b.std(axis=1, ddof=1) / 20)
    spread = first.replicates.std(axis=0) / np.sqrt(np.diag(first.covariance))
    assert spread == pytest.approx(1, abs=0.15)  # 500 replicates: a standard error of 3%
    row = build_study([first, second], 5).compare_levels("split").iloc[0]
    assert row["tau_b"] == order_agreement(data.a.mean(axis=1), data.b.mean(axis=1)).tau_b


def test_a_clear_order_has_intervals_of_no_width_around_the_truth():
    rows = pd.DataFrame(judge(CLEAR, 0)).set_index("measure")
    assert rows.loc["tau_b", "true"] == pytest.approx(0.8)
    assert (rows["width"] == 0).all()
    assert (rows[["order_agreement", "compare_levels", "bootstrap"]] == 1).all(axis=None)
    assert [row["table"] for row in judge_mean(CLEAR, 0)] == [1, 1, 1]


@pytest.mark.slow
def test_the_command_prints_the_coverage_of_each_setting(tmp_path, monkeypatch, capsys):
    noisy = Cell(5, 100, 0.01, "two swapped")
    monkeypatch.setattr(agreement_coverage, "list_cells", lambda: [CLEAR, noisy])
    agreement_coverage.main(["--cache", str(tmp_path), "--runs", "2", "--mean-runs", "2"])
    printed = capsys.readouterr().out
    assert "\n| 5 | 400 | 0.3 | two swapped | 0.80 | 0.80 | 100 ± 0 | 100 ± 0 | 0.00 |" in printed
    assert "\n| 5 | 100 | 0.01 | two swapped | 0.80 |" in printed


@pytest.mark.slow
@pytest.mark.parametrize("n_users", [100, 1000])
@pytest.mark.parametrize("n", [5, 10])
def test_intervals_of_compare_levels_contain_the_true_agreement_in_90_per_cent(n: int, n_users: int) -> None:
    cell = Cell(n, n_users, 0.01, "two swapped")
    rows = pd.DataFrame([row for number in range(60) for row in judge(cell, number)])
    assert rows["compare_levels"].mean() >= 0.9
    assert rows["order_agreement"].mean() >= 0.9
    # The bootstrap adds noise a second time.
    assert rows["bootstrap"].mean() < rows["compare_levels"].mean()
