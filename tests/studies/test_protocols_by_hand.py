"""Comparisons, tables, winners and words of a study whose results are given, so that all are known."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from ipseval.errors import InputError, UnknownNameError
from ipseval.estimators import Note
from ipseval.studies.protocols import Inversion, ProtocolStudy
from tests.inside.reporting import Heading, Notes, Table
from tests.inside.studies import (
    ProtocolComparison,
    ProtocolResult,
    Setting,
    _compute_covariance,
    _describe_most_frequent_swap,
    _estimate_joint_noise,
    _find_inversions,
    average_comparisons,
)

NAN = float("nan")
LEVEL = 0.8
N_REPLICATES = 20
# By log, split and estimator: estimates of x, y and z, and their standard errors. Independent errors.
GIVEN = {
    ("one", "RO_RS", "aoa"): ([0.5, 0.3, 0.1], 0.02),
    ("one", "TO_RS", "aoa"): ([0.3, 0.5, 0.1], 0.02),  # x and y change places, z = ±.2/(.02 √2) = ±7.07
    ("two", "RO_RS", "aoa"): ([0.5, 0.4, 0.1], 0.1),
    ("two", "TO_RS", "aoa"): ([0.4, 0.5, 0.1], 0.1),  # the same, z = ±.1/(.1 √2) = ±.71
    ("one", "RO_RS", "snips"): ([0.5, 0.3, 0.1], 0.02),
    ("one", "TO_RS", "snips"): ([NAN, 0.3, 0.1], 0.02),
    ("two", "RO_RS", "snips"): ([0.5, 0.3, 0.1], 0.02),
    ("two", "TO_RS", "snips"): ([0.5, 0.3, 0.1], 0.02),
    **{(log, split, "ips"): ([NAN, NAN, 0.1], 0.1) for log in ("one", "two") for split in ("RO_RS", "TO_RS")},
}


def result(
    number: int, log: str, split: str, estimator: str, estimates: list[float], error: float
) -> ProtocolResult:
    setting = Setting(log, split, "5-core", "full", estimator, None if estimator == "aoa" else 0.5)
    replicates = estimates + 0.15 * np.random.default_rng(number).normal(size=(N_REPLICATES, 3))
    identical = Note.create("identical_to_aoa", estimator="snips")
    notes = {4: (Note.create("text", text="many ties"),), 5: (identical,)}.get(number, ())
    covariance = error**2 * np.eye(3)
    return ProtocolResult(
        setting, "auc", np.array(estimates), covariance, replicates, replicates, 10 + number, notes
    )


RESULTS = [result(number, *where, *values) for number, (where, values) in enumerate(GIVEN.items())]
COLUMNS = ("log", "split", "note")
IDENTICAL = "snips is identical to aoa here: every user has one positive"


@pytest.fixture(scope="module", name="protocol_study")
def a_study_of_given_results() -> ProtocolStudy:
    frame = pd.DataFrame([], columns=COLUMNS)
    return ProtocolStudy(frame, tuple(RESULTS), ("x", "y", "z"), ("log 'a' is short", "so is 'b'"), LEVEL)


def test_every_comparison_has_agreement_and_swaps(protocol_study: ProtocolStudy) -> None:
    between = protocol_study.compare_levels("split")
    names = ["or@1", "src", "ipc", "tau_b"]
    measures = [column for name in names for column in (name, f"{name}_low", f"{name}_high")]
    where = ["split_a", "split_b", "k_core", "candidates", "estimator", "log", "metric"]
    assert list(between) == [*where, *measures, "n_beyond", "swaps", "note"]
    assert between["estimator"].tolist() == ["aoa"] * 2 + ["snips (γ = 0.5)"] * 2 + ["ips (γ = 0.5)"] * 2
    assert between["log"].tolist() == ["one", "two"] * 3
    assert set(between["split_a"]) == {"RO_RS"}
    assert set(between["split_b"]) == {"TO_RS"}
    # One of three pairs is inverted: SRC 1 − 6·2/(3·8) and tau 1/3.
    np.testing.assert_allclose(between["src"], [0.5, 0.5, NAN, 1, NAN, NAN])
    np.testing.assert_allclose(between["tau_b"], [1 / 3, 1 / 3, NAN, 1, NAN, NAN])
    np.testing.assert_array_equal(between["ipc"], [1, 1, NAN, 0, NAN, NAN])
    np.testing.assert_array_equal(between["or@1"], [0, 0, NAN, 1, NAN, NAN])
    assert between["n_beyond"].tolist() == [1, 0, 0, 0, 0, 0]
    assert between["swaps"].tolist() == ["x > y becomes y > x", "", "", "", "", ""]
    assert between["note"].tolist() == [
        *("", "", f"no agreement: the estimate of x is undefined; many ties; {IDENTICAL}", ""),
        *["no agreement: the estimate of x, y is undefined"] * 2,
    ]
    # The differences of rows 0 and 3 are seven standard errors or more, so the true orders are certain.
    for row, src, ipc in ((0, 0.5, 1), (3, 1, 0)):
        assert between.loc[row, ["src_low", "src_high", "ipc_low", "ipc_high"]].tolist() == [
            src,
            src,
            ipc,
            ipc,
        ]
    assert between.loc[1, "src_low"] < 0.5 < between.loc[1, "src_high"]  # differences of one standard error
    first = protocol_study.comparisons("split")[0]
    assert not first.agreement.intervals
    with_intervals = first.with_intervals(LEVEL)
    assert (with_intervals.n_units, with_intervals.confidence_level) == (10, LEVEL)  # of 10 and 11
    (swap,) = first.inversions
    # Of three pairs of models two are in the same order, so that Holm counts three: 3 (1 − Φ(7.07)).
    assert swap.p_value == pytest.approx(3 * stats.norm.sf(0.2 / (0.02 * np.sqrt(2))), rel=1e-9, abs=0)


def test_reference_is_the_first_level_of_every_comparison(protocol_study: ProtocolStudy) -> None:
    turned = protocol_study.compare_levels("split", reference="TO_RS")
    assert set(turned["split_a"]) == {"TO_RS"}
    assert set(turned["split_b"]) == {"RO_RS"}
    assert turned["swaps"].tolist() == ["y > x becomes x > y", "", "", "", "", ""]
    pd.testing.assert_frame_equal(
        protocol_study.compare_levels("split", reference="RO_RS"), protocol_study.compare_levels("split")
    )
    levels = protocol_study.levels("estimator")
    assert levels == ["aoa", "snips (γ = 0.5)", "ips (γ = 0.5)"]
    for level, (first_index, second_index) in zip(levels, ((1, 2), (0, 2), (0, 1)), strict=True):
        rows = protocol_study.compare_levels("estimator", reference=level)
        assert set(rows["estimator_a"]) == {level}
        assert set(rows["estimator_b"]) == {levels[first_index], levels[second_index]}
    assert protocol_study.compare_levels("split", metric="auc").equals(protocol_study.compare_levels("split"))
    for bad in ({"metric": "rr"}, {"reference": "GT"}):
        with pytest.raises(UnknownNameError):
            protocol_study.comparisons("split", **bad)
        with pytest.raises(UnknownNameError):
            protocol_study.winners(metric="rr")


def test_intervals_do_not_depend_on_which_setting_is_the_first(protocol_study: ProtocolStudy) -> None:
    ends = ["src_low", "src_high", "tau_b_low", "tau_b_high", "ipc_low", "ipc_high"]
    turned = protocol_study.compare_levels("split", reference="TO_RS")
    pd.testing.assert_frame_equal(turned[ends], protocol_study.compare_levels("split")[ends])
    pd.testing.assert_frame_equal(
        protocol_study.table("split", reference="TO_RS")[ends], protocol_study.table("split")[ends]
    )


def test_the_noise_has_the_standard_errors_of_the_results_and_the_correlations_of_the_replicates() -> None:
    a, b = RESULTS[:2]
    noise = _estimate_joint_noise(a, b)
    errors = np.sqrt(np.concatenate([np.diag(a.covariance), np.diag(b.covariance)]))
    assert np.sqrt(np.diag(noise)) == pytest.approx(errors)
    first = a.replicates[:, 0] - a.estimates[0]
    second = b.replicates[:, 2] - b.estimates[2]
    correlation = first @ second / np.sqrt(first @ first * (second @ second))
    assert noise[0, 5] == pytest.approx(correlation * errors[0] * errors[5])
    other = _estimate_joint_noise(a, RESULTS[2])  # another log, whose users are independent
    assert not other[:3, 3:].any()
    assert not other[3:, :3].any()
    assert other[:3, :3] == pytest.approx(noise[:3, :3])
    constant = np.tile(a.estimates, (N_REPLICATES, 1))
    without = _estimate_joint_noise(replace(a, replicates=constant), b)
    assert without[:3, :3] == pytest.approx(a.covariance)  # uncorrelated
    assert not without[:3, 3:].any()


def test_there_is_no_interval_where_the_noise_is_unknown_or_all_values_are_equal() -> None:
    first, second = RESULTS[:2]
    unknown = replace(second, covariance=np.full((3, 3), NAN))
    equal = replace(second, estimates=np.full(3, 0.5), covariance=np.zeros((3, 3)))
    for changed, reason in (
        (unknown, "no interval: fewer than two users"),
        (equal, "no interval: all users have the same value for all recommenders of one side"),
    ):
        study = ProtocolStudy(pd.DataFrame(), (first, changed), ("x", "y", "z"))
        between = study.compare_levels("split")
        assert reason in between.loc[0, "note"]
        assert "src_low" not in between
        assert "src_low" not in study.table("split")


def make_noisy_comparison(log: str, rng: np.random.Generator) -> ProtocolComparison:
    """Return a comparison whose true values agree, with noise as large as the differences."""
    true_values = np.array([0.1, 0.2, 0.3, 0.4])
    results = []
    for split in ("RO_RS", "TO_RS"):
        estimates = true_values + 0.1 * rng.normal(size=4)
        replicates = estimates + 0.1 * rng.normal(size=(400, 4))
        setting = Setting(log, split, "5-core", "full", "aoa", None)
        results.append(
            ProtocolResult(setting, "auc", estimates, 0.01 * np.eye(4), replicates, replicates, 50)
        )
    (comparison,) = ProtocolStudy(pd.DataFrame(), tuple(results), tuple("wxyz")).comparisons("split")
    return comparison


def test_logs_together_show_an_agreement_that_no_single_log_shows() -> None:
    rng = np.random.default_rng(5)
    comparisons = [make_noisy_comparison(f"log {number}", rng) for number in range(12)]
    lows = [comparison.with_intervals().intervals["tau_b"][0] for comparison in comparisons]
    assert np.median(lows) < 0.1
    mean = average_comparisons(comparisons, 0.95)
    low, high = mean.intervals["tau_b"]
    assert low > 0.1
    assert mean.tau_b < high  # noise makes the measured mean too small
    assert low <= 1 <= high + 0.35


def test_a_table_has_means_over_logs_and_counts_swaps_and_logs(protocol_study: ProtocolStudy) -> None:
    table = protocol_study.table("split")
    assert table["estimator"].tolist() == ["aoa", "snips (γ = 0.5)", "ips (γ = 0.5)"]
    assert table["n_beyond"].tolist() == [1, 0, 0]
    assert table["n_logs"].tolist() == [2, 1, 0]
    np.testing.assert_allclose(table["src"], [0.5, 1, NAN])
    np.testing.assert_array_equal(table["ipc"], [1, 0, NAN])
    # The first log is certain, with .5, so that the mean of both lies between −.25 and .75.
    assert -0.25 <= table.loc[0, "src_low"] <= 0.5 < table.loc[0, "src_high"] <= 0.75
    low, high = average_comparisons(protocol_study.comparisons("split")[:3], 0.95).intervals["src"]
    assert -0.25 <= low < 0.5 < high <= 0.75
    assert table.loc[1, ["src_low", "src_high"]].tolist() == [1, 1]
    mean = average_comparisons(protocol_study.comparisons("split")[:3], LEVEL)
    assert (mean.unit, mean.n_units, mean.confidence_level) == ("users", 10 + 12, LEVEL)
    assert mean.note == "2 data sets: the interval is hardly informative"
    with pytest.raises(InputError, match="a table averages over logs"):
        protocol_study.table("log")


def test_a_matrix_has_the_mean_over_all_defined_comparisons_of_two_levels(
    protocol_study: ProtocolStudy,
) -> None:
    for measure, diagonal, off_diagonal in (("src", 1.0, 2 / 3), ("ipc", 0.0, 2 / 3), ("or@1", 1.0, 1 / 3)):
        expected = [[diagonal, off_diagonal], [off_diagonal, diagonal]]
        np.testing.assert_allclose(protocol_study.matrix("split", measure), expected)
    estimators = protocol_study.matrix("estimator", "ipc")
    # aoa and snips differ in one of three pairs of recommenders, once in three comparisons.
    np.testing.assert_allclose(estimators, [[0, 1 / 3, NAN], [1 / 3, 0, NAN], [NAN, NAN, 0]])
    with pytest.raises(UnknownNameError):
        protocol_study.matrix("split", "or@2")
    with pytest.raises(InputError, match="ipc falls with agreement"):
        protocol_study.blocks("split", "ipc")
    with pytest.raises(InputError, match="4 entries of the agreement are undefined"):
        protocol_study.blocks("estimator")
    axes = protocol_study.plot("estimator")  # without blocks, as some entries are undefined
    assert [label.get_text() for label in axes.get_xticklabels()] == protocol_study.levels("estimator")
    (image,) = protocol_study.plot("k_core").images
    assert image.get_array().tolist() == [[1.0]]


def test_a_report_has_every_number_in_words_and_tables(protocol_study: ProtocolStudy, tmp_path: Path) -> None:
    report = protocol_study.tables()
    assert report.summary == (
        "3 recommenders · 2 logs · 12 settings · metrics auc",
        "Other splits change the order of recommenders in 2 of 3 comparisons, in 1 of them beyond its "
        "uncertainty.",
        # aoa against snips under TO_RS of "two": z is .71 in the one.
        "Other estimators change the order of recommenders in 1 of 3 comparisons, in 0 of them beyond its "
        "uncertainty.",
        "Other logs change the order of recommenders in 0 of 3 comparisons, in 0 of them beyond its "
        "uncertainty.",
    )
    texts = [part for part in report.parts if isinstance(part, str)]
    assert texts[0] == (
        "3 recommenders (x, y, z); 2 splits (RO_RS, TO_RS), 1 filters (5-core), 1 candidates (full), "
        "3 estimators (aoa, snips (γ = 0.5), ips (γ = 0.5)), 2 logs (one, two); metrics auc."
    )
    assert "number of inverted pairs of recommenders, of 3. n_beyond counts" in texts[2]
    assert texts[3].startswith("Brackets contain 80% intervals of the agreement of the true values")
    assert "Gail and Simon's at 20%, Holm" in texts[5]
    below = {
        heading.text: part
        for heading, part in pairwise(report.parts)
        if isinstance(heading, Heading) and isinstance(part, Table)
    }
    headings = [part.text for part in report.parts if isinstance(part, Heading) and part.level == 2]
    assert headings == [
        "Between splits (5-core, full, aoa)",
        "Between estimators (5-core, full)",
        "Between logs: mean src over all settings",
        "Which differences are larger than their uncertainty",
        "Notes",
    ]
    columns = ("a", "b", "comparisons", "different order", "beyond uncertainty", "most frequent swap")
    assert below["Splits"].header == columns
    swap = "x > y under a, the reverse under b (1)"
    rows = {name: [[cell.text for cell in row] for row in table.rows] for name, table in below.items()}
    assert rows["Splits"] == [["RO_RS", "TO_RS", "3", "2", "1", swap]]
    assert rows["Estimators"] == [
        ["aoa", "snips (γ = 0.5)", "3", "1", "0", ""],
        ["aoa", "ips (γ = 0.5)", "0", "0", "0", ""],
    ]
    assert rows["Logs"] == [["one", "two", "3", "0", "0", ""]]
    tables = [
        (heading.text, part)
        for heading, part in pairwise(report.parts)
        if isinstance(heading, Heading) and heading.text == "auc"
    ]
    splits, estimators, logs = (part for _, part in tables)
    assert splits.header == ("split_a", "split_b", "or@1", "src", "ipc", "tau_b", "n_beyond", "n_logs")
    texts = [cell.text for cell in splits.rows[0]]
    low, high = protocol_study.table("split").loc[0, ["src_low", "src_high"]]
    assert texts[:2] + texts[-2:] == ["RO_RS", "TO_RS", "1", "2"]
    bounds = [f"{end:.2f}" for end in (low, high)]
    assert texts[3] == f"0.50 [{bounds[0]}, {bounds[1]}]"
    assert len(splits.rows) == 1
    assert estimators.header == ("estimator_a", "estimator_b", "split", *splits.header[2:])
    assert (splits.n_keys, estimators.n_keys) == (2, 2)
    assert [[cell.text for cell in row] for row in logs.rows] == [
        ["one", "1.00", "1.00"],
        ["two", "1.00", "1.00"],
    ]
    assert protocol_study.tables(digits=3).parts[report.parts.index(logs)].rows[0][1].text == "1.000"
    (notes,) = (part.lines for part in report.parts if isinstance(part, Notes))
    assert notes[0].startswith("Every user has one positive under TO_RS (one): there per-user snips")
    assert notes[1:3] == ("log 'a' is short", "so is 'b'")
    assert notes[3].startswith("Intervals and tests are over users of the recommenders as trained.")
    assert {part.level for part in report.parts if isinstance(part, Heading)} == {2, 3}
    assert {table.n_keys for name, table in below.items() if name != "auc"} == {2}
    assert "log 'a' is short" in repr(protocol_study)
    written = [path.name for path in protocol_study.to_folder(tmp_path)]
    factors = ("split", "estimator", "log")
    assert written == ["report.md", "estimates.csv", *(f"agreement_{factor}.csv" for factor in factors)]
    for factor in factors:
        stored = pd.read_csv(tmp_path / f"agreement_{factor}.csv")
        assert len(stored) == len(protocol_study.compare_levels(factor))


def test_a_table_leaves_out_a_split_that_is_the_only_one() -> None:
    results = tuple(result for result in RESULTS if result.setting.split == "RO_RS")
    parts = ProtocolStudy(pd.DataFrame(columns=COLUMNS), results, ("x", "y", "z")).tables().parts
    (header, *_) = (part.header for part in parts if isinstance(part, Table))
    assert header[:3] == ("estimator_a", "estimator_b", "or@1")


def test_note_on_ties_comes_before_other_notes() -> None:
    pair = tuple(
        replace(comparison, notes=(Note.create("text", text="odd"),), estimates=np.array([0.5, 0.5, 0.1]))
        for comparison in RESULTS[:2]
    )
    (comparison,) = ProtocolStudy(pd.DataFrame(), pair, ("x", "y", "z")).comparisons("split")
    ties = [f"ties in {name}: or@1 averaged over breaking them at random" for name in "ab"]
    assert comparison.note == "; ".join([*ties, "odd"])


def test_study_with_one_setting_has_no_comparisons() -> None:
    alone = ProtocolStudy(pd.DataFrame(columns=COLUMNS), (RESULTS[0],), ("x", "y", "z"))
    assert alone.verdict == ""
    assert "There is one setting, so there is nothing to compare." in repr(alone)
    assert alone.compare_levels("split").empty


def make_repeated_result(repeats: list[list[float]]) -> ProtocolResult:
    setting = Setting("one", "RO_RS", "5-core", "full", "aoa", None)
    table = np.array(repeats)
    return ProtocolResult(setting, "auc", table.mean(axis=0), np.eye(3), table, table, 9)


def test_winners_share_repeats_where_they_tie() -> None:
    # First: x of repeat 1; x and y of 2; all of 3; y of 4: 1 + 1/2 + 1/3 of four repeats for both x and y.
    repeats = [[4.0, 1, 1], [2, 2, 1], [1, 1, 1], [1, 3, 0]]
    results = (
        make_repeated_result(repeats),
        make_repeated_result([[0.5, 0.25, 0.375]]),
        make_repeated_result([[0.5, NAN, 0.5]]),
    )
    winners = ProtocolStudy(pd.DataFrame(), results, ("x", "y", "z")).winners()
    assert winners["winner"].tolist()[:2] == ["x", "x"]
    assert winners["winner"].isna().tolist() == [False, False, True]
    np.testing.assert_allclose(winners["share_first"], [(1 + 1 / 2 + 1 / 3) / 4, 1, NAN])
    np.testing.assert_array_equal(winners["n_first"], [3, 1, NAN])
    np.testing.assert_allclose(winners["margin"], [2 - 7 / 4, 0.125, NAN])
    assert winners["n_repeats"].tolist() == [4, 1, 1]
    where = ["log", "split", "k_core", "candidates", "estimator", "gamma", "metric"]
    assert list(winners)[:7] == where
    assert winners.loc[0, where].drop("gamma").tolist() == ["one", "RO_RS", "5-core", "full", "aoa", "auc"]


def pair(estimates: list[float], covariance: object) -> ProtocolResult:
    none = np.zeros((1, 2))
    table = np.array(covariance, dtype=float)
    return ProtocolResult(RESULTS[0].setting, "auc", np.array(estimates), table, none, none, 9)


def test_swap_test_uses_the_covariance_and_allows_certain_or_unknown_differences() -> None:
    covariance = [[0.06, 0.05], [0.05, 0.06]]  # variance of the difference: .06 + .06 − 2 · .05 = .02
    singular = [[0.1, np.nextafter(0.1, 1)], [np.nextafter(0.1, 1), 0.1]]  # below 0, by rounding: 0
    p_values = {}
    for name, covariance_a, covariance_b in (
        ("both", covariance, covariance),
        ("certain", covariance, singular),
        ("both certain", singular, singular),
        ("unknown", covariance, np.full((2, 2), NAN)),
    ):
        (swap,) = _find_inversions(pair([0.5, 0.3], covariance_a), pair([0.1, 0.4], covariance_b), "xy")
        p_values[name] = swap.p_value
    expected = stats.norm.sf(0.2 / np.sqrt(0.02))
    assert p_values == pytest.approx({"both": expected, "certain": expected, "both certain": 0, "unknown": 1})
    assert not _find_inversions(
        pair([0.5, 0.5], covariance), pair([0.1, 0.4], covariance), "xy"
    )  # a tie is no swap


def test_swap_is_beyond_uncertainty_only_below_the_significance_level(protocol_study: ProtocolStudy) -> None:
    inversions = (Inversion("x", "y", 0.05), Inversion("y", "z", 0.01))
    first = replace(protocol_study.comparisons("split")[0], inversions=inversions)
    assert [inversion.better_in_b for inversion in first.beyond_uncertainty(0.05)] == ["z"]
    changed = replace(first, inversions=(Inversion("x", "z", 0.02), *first.inversions[1:]))
    assert _describe_most_frequent_swap([changed, first], 0.05) == "y > z under a, the reverse under b (2)"


def test_a_covariance_needs_two_users() -> None:
    parts = np.array([[0.5, 0.0], [-0.25, 1.0], [0.0, 0.0]])
    assert np.isnan(_compute_covariance(parts, 0)).tolist() == [[True, True], [True, True]]
    assert np.isnan(_compute_covariance(parts, 1)).all()
    assert _compute_covariance(parts, 2).tolist() == [[2 * 0.3125, 2 * -0.25], [2 * -0.25, 2 * 1.0]]
    assert _compute_covariance(parts[:, :1], 3).tolist() == [[1.5 * 0.3125]]


@pytest.mark.slow
def test_bootstrap_intervals_of_a_comparison_miss_the_true_agreement_where_differences_are_small():
    # Ten recommenders 0.01 apart, of which two swap; 100 users whose values vary by 0.3 around them.
    rng = np.random.default_rng(0)
    truth = 0.01 * np.arange(10)
    swapped = truth[[1, 0, *range(2, 10)]]
    true_tau = 1 - 2 / 45
    n_covered = 0
    for _ in range(50):
        weights = rng.multinomial(100, np.full(100, 0.01), size=200) / 100
        results = []
        for split, values in (("a", truth), ("b", swapped)):
            users = values + 0.3 * rng.standard_normal((100, 10))
            results.append(
                ProtocolResult(
                    setting=Setting("log", split, "all", "full", "aoa", None),
                    metric="recall@10",
                    estimates=users.mean(axis=0),
                    covariance=np.cov(users.T) / 100,
                    replicates=weights @ users,
                    repeats=users.mean(axis=0)[None],
                    n_users=100,
                )
            )
        study = ProtocolStudy(pd.DataFrame(), tuple(results), tuple("abcdefghij"))
        (comparison,) = study.comparisons("split")
        low, high = comparison.agreement.intervals["tau_b"]
        n_covered += low <= true_tau <= high
    assert n_covered < 5
