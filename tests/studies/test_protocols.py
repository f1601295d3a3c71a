"""The protocol study: numbers against hand values and evaluate(), storage, resumption."""

from __future__ import annotations

import functools
import math
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import ipseval
from ipseval.data import Interactions
from ipseval.data.splits import (
    k_core,
    repeated_splits,
    split_leave_one_out,
    split_temporal,
)
from ipseval.errors import DataWarning, InputError
from ipseval.evaluation import evaluate
from ipseval.metrics import metric as find_metric
from ipseval.propensity import PowerLawPropensity
from ipseval.ranking import SampledCandidates, rank_positives
from ipseval.studies.agreement import order_agreement
from ipseval.studies.protocols import Protocol, ProtocolStudy, Tuned, grid
from tests.inside.studies import ProtocolResult, Setting, _choose_reference, _find_inversions

# Orders in time within a user leak by design; tests/data/test_time.py has the warning.
pytestmark = pytest.mark.filterwarnings("ignore:.*later training rows:ipseval.errors.DataWarning")


@functools.cache
def make_log(seed: int = 0, n_users: int = 60, n_items: int = 25, timed: bool = True) -> Interactions:
    """Return 10 interactions per user, popular items first in time."""
    rng = np.random.default_rng(seed)
    weight = 1 / np.arange(1, n_items + 1)
    item = np.concatenate(
        [rng.choice(n_items, 10, replace=False, p=weight / weight.sum()) for _ in range(n_users)]
    )
    user = np.repeat(np.arange(n_users), 10)
    time = item * 10 + rng.integers(0, 100, item.size)
    ids = np.array([f"u{number}" for number in range(n_users)], dtype=object)
    return Interactions(user, item, ids, np.arange(n_items), timestamp=time if timed else None)


def popular(train: Interactions) -> np.ndarray:
    return np.tile(train.popularity.astype(float), (train.n_users, 1))


def rare(train: Interactions) -> np.ndarray:
    return -popular(train)


def noise(train: Interactions, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).random((train.n_users, train.n_items))


MODELS = {"popular": popular, "rare": rare, "noise": noise, "other": functools.partial(noise, seed=5)}
PAIR = {"popular": popular, "noise": noise}
THREE = PAIR | {"rare": rare}
FEW = {"metrics": ["auc", "recall@5"], "gammas": [0.5], "n_resamples": 50}


def study(path: Path, *protocols: Protocol, logs: object = None, **change: object) -> ProtocolStudy:
    """Return the study of one log, or of those that are given; of the default grid without protocols."""
    options: dict = {"models": MODELS, "logs": logs or {"shop": make_log()}, "protocols": protocols or None}
    return ipseval.studies.protocols.study(path=path, **options | FEW | change)


@pytest.fixture(scope="module", name="three_logs")
def a_study_of_three_logs(tmp_path_factory: pytest.TempPathFactory) -> ProtocolStudy:
    logs = {"one": make_log(0), "two": make_log(1, n_items=30), "three": make_log(2)}
    options = {"logs": logs, "models": THREE, "metrics": ["auc"], "estimators": ["aoa", "snips"]}
    options["n_resamples"] = 20
    return study(tmp_path_factory.mktemp("three"), *grid(holdout=["ratio"]), **options)


@pytest.fixture(scope="module", name="random_order")
def a_study_in_random_order(tmp_path_factory: pytest.TempPathFactory) -> ProtocolStudy:
    return study(tmp_path_factory.mktemp("random"), *grid(order=["random"]), models=THREE)


@pytest.mark.filterwarnings("ignore:.*have no propensity")
def test_estimates_are_those_of_evaluate(tmp_path: Path) -> None:
    shares = {"test_fraction": 0.3, "validation_fraction": 0.0}
    protocol = Protocol("temporal", "ratio", k_core=8, **shares)
    result = study(tmp_path, protocol, models=PAIR, gammas=[0.5, 0.0])
    log = k_core(make_log(), 8)
    assert len(log) < len(make_log())
    split, evaluations = split_temporal(log, test_fraction=0.3), []
    for gamma in (0.5, 0.0):
        with pytest.warns(DataWarning, match="the median user has"):
            evaluation = evaluate(
                {name: fit(split.train) for name, fit in PAIR.items()},
                split,
                propensity=PowerLawPropensity(gamma=gamma),
                metrics=["auc", "recall@5"],
                estimators=["aoa", "snips", "snips-global"] if gamma == 0.5 else ["snips", "snips-global"],
            )
        # A study has the notes of the estimates, without the cautions about weights.
        cautions = evaluation.diagnostics.set_index("estimator")["cautions"]
        direct = evaluation.frame.assign(gamma=gamma)
        direct["note"] = [
            note.removesuffix(cautions[estimator]).removesuffix("; ")
            for note, estimator in zip(direct["note"], direct["estimator"], strict=True)
        ]
        evaluations.append(direct)
    expected = pd.concat(evaluations)
    expected.loc[expected["estimator"] == "aoa", "gamma"] = np.nan
    keys = ["model", "metric", "estimator", "gamma"]
    merged = result.frame.merge(expected, on=keys, suffixes=("", "_direct"))
    assert len(merged) == len(result.frame) == 2 * 2 * (1 + 2 * 2)
    np.testing.assert_array_equal(merged["estimate"], merged["estimate_direct"])
    np.testing.assert_allclose(merged["std_error"], merged["std_error_direct"], rtol=1e-12)
    assert (merged["n_users"] == merged["n_users_direct"]).all()
    assert (merged["n_positives"] == merged["n_positives_direct"]).all()
    assert merged["note"].tolist() == merged["note_direct"].tolist()
    assert set(merged["n_repeats"]) == {1}
    assert merged["std_repeats"].isna().all()


def test_agreement_is_that_of_the_estimates(three_logs: ProtocolStudy) -> None:
    chosen = "log == 'two' and estimator == 'aoa'"
    by_split = three_logs.frame.query(chosen).set_index(["split", "model"])["estimate"]
    row = three_logs.compare_levels("split", metric="auc").query(chosen)
    expected = order_agreement(dict(by_split["RO_RS"]), dict(by_split["TO_RS"])).to_dict()
    assert row[list(expected)].iloc[0].to_dict() == pytest.approx(expected)
    assert (row["src_low"] <= row["src_high"]).all()


def test_replicates_have_the_standard_error_that_is_reported(tmp_path: Path) -> None:
    for result in study(tmp_path, Protocol(), models=PAIR, metrics=["auc"], n_resamples=2000).results:
        # The bootstrap divides by n, the standard error by n - 1: √(60/59) is 1.008. The error of a standard
        # deviation from 2,000 replicates is 1.6 %; 4 sigma.
        expected = np.sqrt(np.diag(result.covariance))
        np.testing.assert_allclose(result.replicates.std(axis=0), expected, rtol=0.075)
        spread = expected / math.sqrt(2000)
        assert (np.abs(result.replicates.mean(axis=0) - result.estimates) < 4.5 * spread).all()


def test_repeats_are_averaged_and_trained_once_each(tmp_path: Path) -> None:
    log = make_log(n_items=90)
    shares = {"test_fraction": 0.2, "validation_fraction": 0.0}
    options = {"models": PAIR, "metrics": ["auc"], "estimators": ["aoa"], "logs": {"shop": log}}
    study(tmp_path, Protocol(k_core=None, **shares), **options)
    result = study(tmp_path, Protocol(k_core=None, n_repeats=3, **shares), **options)
    frame = result.frame
    # The first repeat was there already.
    assert len(list((tmp_path / "ranks").glob("*.npz"))) == 3 * len(PAIR)
    values, influence = [], np.zeros((60, len(PAIR)))
    splits = list(repeated_splits(log, 3, rng=0, **shares))
    for split in splits:
        repeats = [
            find_metric("auc").user_values(rank_positives(fit(split.train), split)) for fit in PAIR.values()
        ]
        values.append(np.mean(repeats, axis=1))
        influence += (np.array(repeats).T - values[-1]) / 60 / 3
    np.testing.assert_allclose(frame["estimate"], np.mean(values, axis=0), rtol=1e-14)
    np.testing.assert_allclose(frame["std_repeats"], np.std(values, axis=0, ddof=1), rtol=1e-12)
    errors = np.sqrt(60 / 59 * (influence**2).sum(axis=0))
    np.testing.assert_allclose(frame["std_error"], errors, rtol=1e-9)
    assert (frame["n_positives"] == 3 * 120).all()
    assert (frame["n_users"] == 60).all()
    for name in ("n_cold_users", "n_cold_items"):
        assert set(frame[name]) == {sum(getattr(split, name) for split in splits)}
    assert [split.n_cold_items > 0 for split in splits] == [True] * 3
    leaks = [split.leakage for split in splits]
    assert set(frame["leakage"]) == {np.mean([leak.share for leak in leaks])}
    assert set(frame["median_future"]) == {np.mean([leak.median_future for leak in leaks])}
    (repeated,) = result.results
    np.testing.assert_array_equal(repeated.repeats, values)
    rng = np.random.default_rng([0, zlib.crc32(b"shop")])  # the same draws in every protocol of a log
    shifts = [influence[rng.integers(0, 60, 60)].sum(axis=0) for _ in range(50)]
    np.testing.assert_allclose(repeated.replicates, np.mean(values, axis=0) + shifts, rtol=1e-9)


def test_leave_one_out_says_that_snips_equals_aoa(random_order: ProtocolStudy) -> None:
    result = random_order
    one_out = result.frame[result.frame["split"] == "RO_LS"].pivot(
        index=["model", "metric"], columns="estimator", values="estimate"
    )
    np.testing.assert_allclose(one_out["snips"], one_out["aoa"], rtol=1e-12)
    assert not np.allclose(one_out["snips-global"], one_out["aoa"])
    text = result.to_markdown()
    assert "RO_LS (shop): there per-user snips equals aoa for every γ" in text
    notes = result.compare_levels("estimator").query("split == 'RO_LS' and estimator_b == 'snips (γ = 0.5)'")[
        "note"
    ]
    assert notes.str.contains("snips is identical to aoa here").all()


def result(estimates: list[float], errors: list[float]) -> ProtocolResult:
    """Return a result whose models have independent errors."""
    setting = Setting("shop", "RO_RS", "5-core", "full", "aoa", None)
    covariance = np.diag(np.square(errors))
    none = np.zeros((1, len(errors)))
    return ProtocolResult(setting, "auc", np.array(estimates), covariance, none, none, 100)


def test_swaps_are_tested_by_the_smaller_of_the_two_z_values() -> None:
    # Differences: +.3 with SE √(.06² + .08²) = .1, z = 3; and −.2 with SE .1, z = −2. p = 1 − Φ(2).
    a, b = result([0.5, 0.2], [0.06, 0.08]), result([0.3, 0.5], [0.06, 0.08])
    (swap,) = _find_inversions(a, b, ["x", "y"])
    assert (swap.better_in_a, swap.better_in_b) == ("x", "y")
    assert swap.p_value == pytest.approx(stats.norm.sf(2))
    (reverse,) = _find_inversions(b, a, ["x", "y"])
    assert (reverse.better_in_a, reverse.better_in_b) == ("y", "x")


def test_swaps_are_corrected_over_all_pairs_of_models() -> None:
    a, b = result([0.5, 0.2, 0.9], [0.06, 0.08, 0.0]), result([0.3, 0.5, 0.9], [0.06, 0.08, 0.0])
    (swap,) = _find_inversions(a, b, ["x", "y", "z"])
    assert swap.p_value == pytest.approx(3 * stats.norm.sf(2))


@pytest.mark.slow
def test_no_swap_is_found_when_only_noise_differs() -> None:
    # Two models of equal quality in both settings: both z must exceed 1.64 in opposite directions by chance.
    rng = np.random.default_rng(0)
    n_found = 0
    for _ in range(4000):
        draws = rng.normal(0, 0.1, (2, 2))
        swaps = _find_inversions(
            result(draws[0].tolist(), [0.1, 0.1]), result(draws[1].tolist(), [0.1, 0.1]), "xy"
        )
        n_found += any(swap.p_value < 0.05 for swap in swaps)
    # 2 · .05² = .5 % with a standard error of √(.005·.995/4000) = .0011.
    assert n_found / 4000 == pytest.approx(0.005, abs=4 * 0.0011)


@pytest.mark.slow
def test_a_false_swap_is_found_in_at_most_five_per_cent_when_one_difference_is_certain() -> None:
    # The worst case: a clear difference in a, none in b. Rate 5 %, standard error √(.05·.95/4000) = .0034.
    rng = np.random.default_rng(1)
    clear = result([1.0, 0.0], [0.05, 0.05])
    n_found = 0
    for _ in range(4000):
        values = rng.normal(0, 0.1, 2).tolist()
        n_found += any(s.p_value < 0.05 for s in _find_inversions(clear, result(values, [0.1, 0.1]), "xy"))
    assert n_found / 4000 == pytest.approx(0.05, abs=4 * 0.0034)


def test_tables_compare_with_the_full_catalogue_or_the_first_estimator() -> None:
    for pools, expected in ((["uniform-4", "full"], ("full", "aoa", None)), (["a", "b"], ("a", "aoa", None))):
        levels = {"candidates": pools, "estimator": ["aoa", "snips"], "k_core": ["5-core"]}
        study_levels = SimpleNamespace(levels=levels.get)
        assert (
            tuple(_choose_reference(study_levels, factor) for factor in ("candidates", "estimator", "k_core"))
            == expected
        )


@pytest.mark.filterwarnings("ignore:recall@1. computed on 4 sampled candidates")
def test_sampled_candidates_are_ranked_among_and_named(tmp_path: Path) -> None:
    log = make_log(n_users=30)
    pools = ["all", SampledCandidates(4, distribution="popularity", rng=0)]
    protocols = grid(order=["random"], holdout=["leave-one-out"], k_core=[None], candidates=pools)
    options = {"logs": {"shop": log}, "models": PAIR, "metrics": ["recall@1"], "estimators": ["aoa"]}
    result = study(tmp_path, *protocols, **options)
    assert result.levels("candidates") == ["full", "popularity-4"]
    (split,) = repeated_splits(log, 1, method=split_leave_one_out, rng=0)
    for protocol, pool in zip(protocols, pools, strict=True):
        direct = evaluate(
            {name: fit(split.train) for name, fit in PAIR.items()},
            split,
            metrics=["recall@1"],
            candidates=pool,
        )
        rows = result.frame[result.frame["candidates"] == protocol.candidates_label]
        assert rows["estimate"].tolist() == direct.frame["estimate"].tolist()
    table = result.table("candidates", reference="full")
    assert table["candidates_b"].tolist() == ["popularity-4"]


def test_the_heat_map_shows_the_matrix_symmetric_with_full_agreement_on_the_diagonal(three_logs) -> None:
    for measure, diagonal in (("src", 1.0), ("ipc", 0.0)):
        square = three_logs.matrix("log", measure, metric="auc")
        assert list(square.index) == list(square.columns) == ["one", "two", "three"]
        assert (np.diag(square) == diagonal).all()
        assert np.array_equal(square, square.T)
    pair = three_logs.compare_levels("log", metric="auc").query("log_a == 'one' and log_b == 'two'")
    expected = three_logs.matrix("log", "src", metric="auc")
    assert expected.loc["one", "two"] == pytest.approx(pair["src"].mean())
    axes = three_logs.plot("log", "src", metric="auc")
    labels = [label.get_text() for label in axes.get_xticklabels()]
    assert labels == [expected.index[index] for index in three_logs.blocks("log", metric="auc").order]
    np.testing.assert_array_equal(axes.images[0].get_array(), expected.loc[labels, labels])
    with pytest.raises(InputError, match="ipc counts pairs"):
        three_logs.plot("log", "ipc")


def test_table_averages_over_logs(three_logs) -> None:
    agreements = three_logs.compare_levels("split", metric="auc")
    for row in three_logs.table("split", metric="auc").itertuples():
        rows = agreements[agreements["estimator"] == row.estimator]
        assert row.src == pytest.approx(rows["src"].mean())
        assert row.n_beyond == rows["n_beyond"].sum()
        assert row.src_low <= row.src <= row.src_high
        assert row.n_logs == 3


def test_logs_without_time_leave_out_protocols_in_time_with_a_warning(tmp_path: Path) -> None:
    logs = {"plain": make_log(timed=False)}
    text = r"log 'plain' has no timestamps: 2 of 4 protocols are left out for it \(TO_RS, TO_LS\)\."
    with pytest.warns(DataWarning, match=text):
        result = study(tmp_path, logs=logs, models=PAIR, metrics=["auc"], estimators=["aoa"])
    assert result.levels("split") == ["RO_RS", "RO_LS"]
    assert "has no timestamps" in result.to_markdown()
    assert result.frame[["leakage", "median_future"]].isna().all(axis=None)


BAD_CALLS = {
    "no models": ({"models": {}}, "models must be a non-empty mapping"),
    "one model": ({"models": {"popular": popular}}, "at least two models"),
    "numbers for names": ({"models": {1: popular, 2: rare}}, r"models must have text as names; 2 of 2"),
    "a score matrix": ({"models": {"a": popular, "b": np.eye(2)}}, "'b' cannot be called"),
    "a frame": ({"logs": {"shop": pd.DataFrame()}}, "use Interactions.from_frame"),
    "no protocols": ({"protocols": []}, r"for example protocols\.grid\(\)"),
    "the same twice": ({"protocols": [Protocol(), Protocol()]}, "protocols repeat RO_RS, 5-core, full"),
    "repeats in time": ({"protocols": [Protocol("temporal", n_repeats=2)]}, "no effect in temporal order"),
    "repeats of all settings": (
        {
            "protocols": [Protocol("temporal", n_repeats=2)],
            "models": {"a": Tuned(noise, {"seed": [1, 2]}, budget=2), "b": rare},
        },
        "no effect in temporal order",
    ),
    "two of three twice": (
        {"protocols": [Protocol(), Protocol("temporal"), Protocol(), Protocol("temporal")]},
        "protocols repeat RO_RS, 5-core, full; TO_RS, 5-core, full. Tables",
    ),
    "a list and a protocol": ({"protocols": [Protocol(), "RO_RS"]}, "must be a list of Protocol"),
    "no confidence": ({"confidence_level": 1.0}, "confidence_level"),
    "no resamples": ({"n_resamples": 0}, "n_resamples must be an integer >= 1"),
    "no seed": ({"rng": None}, "rng must be an integer >= 0"),
    "a negative seed": ({"rng": -1}, "rng must be an integer >= 0"),
    "no metrics": ({"metrics": []}, "metrics is empty"),
    "unknown estimator": ({"estimators": ["snip"]}, "Did you mean 'snips'"),
    "weights without gamma": ({"gammas": []}, "snips, snips-global need gammas"),
    "nothing possible": (
        {"protocols": [Protocol("temporal")], "logs": {"shop": make_log(timed=False)}},
        "no protocol can be applied",
    ),
}


@pytest.mark.filterwarnings("ignore:log 'shop' has no timestamps")
@pytest.mark.parametrize("name", BAD_CALLS)
def test_bad_calls_say_what_was_expected(name: str, tmp_path: Path) -> None:
    change, text = BAD_CALLS[name]
    with pytest.raises(InputError, match=text):
        study(tmp_path, **{"protocols": [Protocol()]} | change)


def test_study_prints_the_effect_of_each_choice(random_order: ProtocolStudy) -> None:
    result = random_order
    printed, between = repr(result), result.compare_levels("split")
    assert len(result.comparisons("split", metric="auc")) == 3  # one for each estimator
    assert printed.startswith("3 recommenders · 1 log · ")
    n_changed, n_clear = int((between["ipc"] > 0).sum()), int((between["n_beyond"] > 0).sum())
    text = " ".join(printed.split())
    assert f"Other splits change the order of recommenders in {n_changed} of {len(between)} compar" in text
    assert f"in {n_clear} of them beyond its uncertainty." in text
    assert printed.endswith("More        Call .explain() on this result for details.")
    assert "Notes" in repr(result.explain())
