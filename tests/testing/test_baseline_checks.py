"""Comparisons of stored results that are made by hand: every number, word and refusal of a check."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.estimators import Claim, Estimate, UserSums
from ipseval.evaluation import Evaluation
from ipseval.testing import BaselineCheck, assert_metric, compare_results

AOA, RECALL = "aoa", "recall@5"
NAN, INF = float("nan"), float("inf")


def entry(estimate: float, effects=(0.125, -0.125), *, users=None, flag: str = "") -> Estimate:
    """Return the mean of users' values that has such ψ_u/n, which sum to 0."""
    psi = np.array(effects) * len(effects)
    sums = UserSums.of(np.arange(psi.size) if users is None else np.array(users), np.zeros(psi.size))
    object.__setattr__(sums, "numerator", estimate + psi)  # NaN stays, and is not left out
    return Estimate("", "", sums, 20, Claim("biased"), flag=flag)


def stored(entries, **parts) -> Evaluation:
    basis = {
        "data": {"positives_sha256": "a" * 64},
        "options": {"ties": "mean"},
        "metrics": {metric: {"formula": metric} for _, metric, _ in entries},
    }
    weights = {label: SimpleNamespace(weighted=label != AOA) for _, _, label in entries}
    return Evaluation(entries, {}, weights, np.arange(10), given_basis=basis | parts)


def single(one: Estimate, model: str = "als", estimator: str = AOA, **options) -> Evaluation:
    return stored({(model, RECALL, estimator): one}, **options)


def compared(new: Estimate, old: Estimate, **options) -> BaselineCheck:
    (found,) = compare_results(single(new), single(old), metric=RECALL, **options)
    return found


def test_users_of_one_result_alone_count_with_their_own_influence():
    # Users 1, 4, 7 of the old result, 4 and 8 of the new: differences −1/4, 3/8 − 1/8, 3/8, −3/8 over four.
    old = entry(0.5, [0.25, 0.125, -0.375], users=[1, 4, 7])
    new = entry(0.25, [0.375, -0.375], users=[4, 8])
    found = compared(new, old)
    assert (found.old, found.new, found.difference) == (0.5, 0.25, -0.25)
    expected = np.sqrt(4 / 3 * (2 * 0.25**2 + 2 * 0.375**2))
    assert found.std_error == pytest.approx(expected, rel=1e-14)
    assert (found.low, found.high) == pytest.approx(
        (-0.25 - 1.959964 * expected, -0.25 + 1.959964 * expected)
    )
    half = compared(new, old, confidence_level=0.5)
    assert half.high - half.low == pytest.approx(2 * 0.6744898 * expected, rel=1e-6)


def check(low: float, high: float, **options) -> BaselineCheck:
    key = ("als", RECALL, AOA)
    given = {"old_key": key, "margin": 0.0, "rule": "no-evidence"} | options
    return BaselineCheck(key, given.pop("old_key"), 0.5, 0.25, 0.1, low, high, **given)


@pytest.mark.parametrize(
    ("low", "high", "rule", "margin", "passed"),
    [
        (-0.5, 0.0, "no-evidence", 0.0, True),
        (-0.5, -1e-9, "no-evidence", 0.0, False),
        (-0.5, -0.125, "no-evidence", 0.125, True),
        (-0.5, -0.126, "no-evidence", 0.125, False),
        (0.0, 0.5, "non-inferior", 0.0, True),
        (-1e-9, 0.5, "non-inferior", 0.0, False),
        (-0.125, 0.5, "non-inferior", 0.125, True),
        (-0.126, 0.5, "non-inferior", 0.125, False),
    ],
)
def test_a_check_passes_by_the_end_of_its_interval_that_its_rule_names(low, high, rule, margin, passed):
    assert check(low, high, rule=rule, margin=margin).passed == passed


@pytest.mark.parametrize(
    ("one", "text"),
    [
        (
            check(-0.5, 0.125),
            "ok: als  recall@5  aoa: 0.5 -> 0.25, difference -0.25 [-0.5, +0.125], margin 0",
        ),
        (
            check(-0.5, -0.125, old_key=("knn", RECALL, AOA)),
            "WORSE: als (was knn)  recall@5  aoa: 0.5 -> 0.25, difference -0.25 [-0.5, -0.125], margin 0",
        ),
        (
            check(-0.5, 0.125, rule="non-inferior", margin=0.01, flag="few users"),
            "NOT SHOWN NON-INFERIOR, UNRELIABLE: als  recall@5  aoa: 0.5 -> 0.25, difference -0.25 "
            "[-0.5, +0.125], margin 0.01; few users",
        ),
    ],
)
def test_a_check_is_printed_as_one_line(one, text):
    assert str(one) == text


def test_a_flag_on_either_side_is_that_of_the_check():
    plain, few, many = (entry(0.5, flag=flag) for flag in ("", "few", "many"))
    assert compared(plain, plain).flag == ""
    assert compared(few, plain).flag == "few"
    assert compared(plain, many).flag == "many"
    assert compared(few, many).flag == "few"


def two_by_two(estimators=(AOA, "snips")) -> Evaluation:
    models, metrics = ("als", "knn"), (RECALL, "dcg")
    keys = [(model, metric, one) for model in models for metric in metrics for one in estimators]
    return stored({key: entry(number / 8) for number, key in enumerate(keys)})


def test_without_names_all_models_and_all_estimators_that_both_hold_are_compared():
    new, old = two_by_two(), two_by_two(("snips", AOA, "ips"))
    found = compare_results(new, old, metric=RECALL)
    assert [(one.key[0], one.key[2]) for one in found] == [
        ("als", AOA), ("knn", AOA), ("als", "snips"), ("knn", "snips"),
    ]  # fmt: skip
    assert [one.old for one in found] == [1 / 8, 7 / 8, 0, 6 / 8]
    assert [one.new for one in found] == [0, 4 / 8, 1 / 8, 5 / 8]
    for models in ("knn", ["knn"], {"knn": "knn"}):
        (one,) = compare_results(new, old, metric="dcg", estimator="snips", models=models)
        assert (one.key, one.old, one.new) == (("knn", "dcg", "snips"), 9 / 8, 7 / 8)
    (turned,) = compare_results(new, old, metric="dcg", estimator=AOA, models={"als": "knn"})
    assert (turned.key, turned.old_key) == (("als", "dcg", AOA), ("knn", "dcg", AOA))
    assert (turned.new, turned.old) == (2 / 8, 10 / 8)


@pytest.mark.parametrize("models", [[], {}, [1], {"als": None}, {2: "als"}])
def test_models_are_names(models):
    with pytest.raises(InputError, match="models must be names of recommenders, or "):
        compare_results(two_by_two(), two_by_two(), metric=RECALL, models=models)


@pytest.mark.parametrize("bad", [-1e-9, NAN, INF, -INF])
def test_a_rule_is_known_and_a_margin_and_a_tolerance_are_finite_and_not_negative(bad):
    with pytest.raises(InputError, match="margin, the loss that is tolerated, must be a finite number >= 0"):
        compare_results(two_by_two(), two_by_two(), metric=RECALL, margin=bad)
    with pytest.raises(InputError, match="value for rule: 'equal'"):
        compare_results(two_by_two(), two_by_two(), metric=RECALL, rule="equal")
    with pytest.raises(InputError, match="tolerance must be a finite number >= 0"):
        assert_metric(None, "old.json", metric=RECALL, tolerance=bad)


@pytest.mark.parametrize("bad", [entry(NAN), entry(0.5, [0.0]), replace(entry(0.5), suppressed=True)])
def test_what_is_undefined_on_either_side_is_named(bad):
    with pytest.raises(InputError, match=r"'aoa'\) of the new result is undefined, or has"):
        compared(bad, entry(0.5))
    with pytest.raises(InputError, match=r"'aoa'\) of the old result is undefined, or has"):
        compared(entry(0.5), bad)


def test_an_estimate_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(
        InputError, match=r"no estimate \('bpr', 'recall@5', 'aoa'\); models: als, knn; metrics"
    ):
        compare_results(two_by_two(), two_by_two(), metric=RECALL, models={"als": "bpr"})
    with pytest.raises(InputError, match=r"no estimate \('als', 'recall@5', 'none'\)"):
        compare_results(two_by_two(), two_by_two(), metric=RECALL, estimator="none")
    with pytest.raises(InputError) as raised:
        compare_results(two_by_two(["snips"]), two_by_two(["ips"]), metric="dcg")
    both = [f"recall@5, dcg by {one}" for one in ("snips", "ips")]
    assert str(raised.value) == (
        f"the results share no estimator of dcg; the new one has {both[0]}, the old one {both[1]}."
    )


SAME = {"data": {"positives_sha256": "a" * 64, "propensity_sha256": "b" * 64}, "options": {"ties": "mean"}}
OTHERS = [
    ({"data": {"propensity_sha256": "b" * 64}}, "positives_sha256 aaaaaaaaaaaa… -> None"),
    (
        {"data": SAME["data"] | {"positives_sha256": "c" * 64}},
        "positives_sha256 aaaaaaaaaaaa… -> cccccccccccc…",
    ),
    ({"options": {}}, "ties 'mean' -> None"),
    ({"options": {"ties": "min", "missing": "drop"}}, "ties 'mean' -> 'min'; missing None -> 'drop'"),
    ({"metrics": {}}, "definition of recall@5: formula 'recall@5' -> None"),
    (
        {"metrics": {RECALL: {"formula": "n", "ties": "mean"}}},
        "definition of recall@5: formula 'recall@5' -> 'n'; definition of recall@5: ties None -> 'mean'",
    ),
]


@pytest.mark.parametrize(("other", "words"), OTHERS)
def test_results_of_other_data_options_or_definitions_are_not_compared(other, words):
    old, new = single(entry(0.5), **SAME), single(entry(0.5), **SAME | other)
    with pytest.raises(InputError) as raised:
        compare_results(new, old, metric=RECALL)
    start = f"the results cannot be compared: {words}. If the change is meant, store the"
    assert str(raised.value).startswith(start)


@pytest.mark.parametrize("estimator", [AOA, "snips", "one of mine"])
def test_another_propensity_matters_where_weights_do(estimator):
    old = single(entry(0.5), estimator=estimator, data=SAME["data"], options={"propensity": "a"})
    data = SAME["data"] | {"propensity_sha256": None}
    new = single(entry(0.5), estimator=estimator, data=data, options={"propensity": "b"})
    if estimator == AOA:
        assert compare_results(new, old, metric=RECALL)[0].difference == 0
        return
    with pytest.raises(InputError, match="propensity_sha256 bbbbbbbbbbbb… -> None; propensity 'a' -> 'b'"):
        compare_results(new, old, metric=RECALL)
