"""Comparisons of stored results that are made by hand: every number, word and refusal of a check."""

from __future__ import annotations

import base64
import zlib

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.testing import BaselineCheck, StoredResult, assert_metric, compare_results
from ipseval.testing._result import Entry, _parse

AOA, RECALL = "aoa", "recall@5"
NAN, INF = float("nan"), float("inf")


def entry(estimate: float, influence=None, *, users=None, std_error: float = 0.1, flag: str = "") -> Entry:
    """Return an entry with ψ_u/n of users, from which its error follows, or with an error of its own."""
    if influence is None:
        return Entry(estimate, std_error, 9, 20, None, flag)
    psi = np.array(influence, dtype=float)
    users = np.arange(psi.size) if users is None else np.array(users)
    error = float(np.sqrt(psi.size / (psi.size - 1) * psi @ psi))
    return Entry(estimate, error, psi.size, 20, (users, psi), flag)


def stored(entries, source="old.json", **parts) -> StoredResult:
    definitions = {metric: {"formula": metric} for _, metric, _ in entries}
    parts = {"data": {"positives_sha256": "a" * 64}, "options": {"ties": "mean"}} | parts
    return StoredResult(
        entries, parts["data"], parts["options"], parts.get("definitions", definitions), source
    )


def single(one: Entry, model: str = "als", estimator: str = AOA, **options) -> StoredResult:
    return stored({(model, RECALL, estimator): one}, **options)


def compared(new: Entry, old: Entry, **options) -> BaselineCheck:
    (found,) = compare_results(single(new, source="new.json"), single(old), metric=RECALL, **options)
    return found


def test_users_of_one_result_alone_count_with_their_own_influence():
    # Users 1, 4 and 7 of the old result, 4 and 8 of the new: differences −.1, .3 − .2, .3, −.3 over four.
    old = entry(0.5, [0.1, 0.2, -0.3], users=[1, 4, 7])
    new = entry(0.4, [0.3, -0.3], users=[4, 8])
    found = compared(new, old)
    assert (found.old, found.new, found.difference) == (0.5, 0.4, pytest.approx(-0.1))
    assert found.paired
    expected = np.sqrt(4 / 3 * (0.1**2 + 0.1**2 + 0.3**2 + 0.3**2))
    assert found.std_error == pytest.approx(expected, rel=1e-14)
    assert (found.low, found.high) == pytest.approx((-0.1 - 1.959964 * expected, -0.1 + 1.959964 * expected))
    half = compared(new, old, confidence_level=0.5)
    assert half.high - half.low == pytest.approx(2 * 0.6744898 * expected, rel=1e-6)


@pytest.mark.parametrize("without", ["new", "old", "both"])
def test_without_users_on_either_side_errors_add_up_as_if_independent(without):
    kept, alone = entry(0.5, [0.1, -0.1]), entry(0.5, std_error=0.3)
    found = compared(*{"new": (alone, kept), "old": (kept, alone), "both": (alone, alone)}[without])
    errors = (0.3, 0.3) if without == "both" else (0.3, 0.2)
    assert (found.paired, found.std_error) == (False, pytest.approx(np.hypot(*errors)))


def check(low: float, high: float, **options) -> BaselineCheck:
    key = ("als", RECALL, AOA)
    given = {"old_key": key, "paired": True, "margin": 0.0, "rule": "no-evidence"} | options
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
            "ok: als  recall@5  aoa: 0.5 -> 0.25, difference -0.25 [-0.5, +0.125], margin 0, paired",
        ),
        (
            check(-0.5, -0.125, paired=False, old_key=("knn", RECALL, AOA)),
            "WORSE: als (was knn)  recall@5  aoa: 0.5 -> 0.25, difference -0.25 [-0.5, -0.125], margin 0, "
            "unpaired",
        ),
        (
            check(-0.5, 0.125, rule="non-inferior", margin=0.01, flag="few users"),
            "NOT SHOWN NON-INFERIOR, UNRELIABLE: als  recall@5  aoa: 0.5 -> 0.25, difference -0.25 "
            "[-0.5, +0.125], margin 0.01, paired; few users",
        ),
    ],
)
def test_a_check_is_printed_as_one_line(one, text):
    assert str(one) == text


@pytest.mark.parametrize(
    ("old", "name"), [("abc", "als (was abc)"), ("als", "als"), ("bpr", "als (was bpr)")]
)
def test_another_name_in_the_old_result_is_said(old, name):
    assert f"ok: {name}  recall@5" in str(check(-0.5, 0.5, old_key=(old, RECALL, AOA)))


def test_a_flag_on_either_side_is_that_of_the_check():
    plain, few, many = (entry(0.5, flag=flag) for flag in ("", "few", "many"))
    assert compared(plain, plain).flag == ""
    assert compared(few, plain).flag == "few"
    assert compared(plain, many).flag == "many"
    assert compared(few, many).flag == "few"


def two_by_two(source: str, estimators=(AOA, "snips")) -> StoredResult:
    models, metrics = ("als", "knn"), (RECALL, "dcg")
    keys = [(model, metric, one) for model in models for metric in metrics for one in estimators]
    return stored({key: entry(number / 10) for number, key in enumerate(keys)}, source)


def test_without_names_all_models_and_all_estimators_that_both_hold_are_compared():
    new, old = two_by_two("new.json"), two_by_two("old.json", ("snips", AOA, "ips"))
    found = compare_results(new, old, metric=RECALL)
    assert [(one.key[0], one.key[2]) for one in found] == [
        ("als", AOA), ("knn", AOA), ("als", "snips"), ("knn", "snips"),
    ]  # fmt: skip
    assert [one.old for one in found] == [0.1, 0.7, 0.0, 0.6]
    assert [one.new for one in found] == [0.0, 0.4, 0.1, 0.5]
    for models in ("knn", ["knn"], {"knn": "knn"}):
        (one,) = compare_results(new, old, metric="dcg", estimator="snips", models=models)
        assert (one.key, one.old, one.new) == (("knn", "dcg", "snips"), 0.9, 0.7)
    (turned,) = compare_results(new, old, metric="dcg", estimator=AOA, models={"als": "knn"})
    assert (turned.key, turned.old_key) == (("als", "dcg", AOA), ("knn", "dcg", AOA))
    assert (turned.new, turned.old) == (0.2, 1.0)


@pytest.mark.parametrize("models", [[], {}, [1], {"als": None}, {2: "als"}])
def test_models_are_names(models):
    with pytest.raises(InputError, match="models must be names of recommenders, or "):
        compare_results(two_by_two("new"), two_by_two("old"), metric=RECALL, models=models)


@pytest.mark.parametrize("bad", [-1e-9, NAN, INF, -INF])
def test_a_margin_and_a_tolerance_are_finite_and_not_negative(bad):
    with pytest.raises(InputError, match="margin must be a finite number >= 0, the loss"):
        compare_results(two_by_two("new"), two_by_two("old"), metric=RECALL, margin=bad)
    with pytest.raises(InputError, match="tolerance must be a finite number >= 0"):
        assert_metric(None, "old.json", metric=RECALL, tolerance=bad)


@pytest.mark.parametrize("bad", [entry(NAN), entry(INF), entry(0.5, std_error=NAN)])
def test_what_is_undefined_on_either_side_is_named(bad):
    with pytest.raises(InputError, match=r"\('als', 'recall@5', 'aoa'\) of new.json is undefined, or has"):
        compared(bad, entry(0.5))
    with pytest.raises(InputError, match=r"\('als', 'recall@5', 'aoa'\) of old.json is undefined, or has"):
        compared(entry(0.5), bad)


def test_an_estimate_that_is_not_there_is_named_with_those_that_are():
    with pytest.raises(InputError) as raised:
        two_by_two("old.json").entry(("als", RECALL, "ips"))
    assert str(raised.value) == (
        "old.json has no estimate ('als', 'recall@5', 'ips'); it has models als, knn, metrics recall@5, dcg, "
        "estimators aoa, snips."
    )
    with pytest.raises(InputError) as raised:
        compare_results(two_by_two("new.json", ["snips"]), two_by_two("old.json", ["ips"]), metric="dcg")
    assert str(raised.value) == (
        "new.json and old.json share no estimator of dcg; they have metrics recall@5, dcg and recall@5, dcg."
    )


SAME = {"data": {"positives_sha256": "a" * 64, "propensity_sha256": "b" * 64}, "options": {"ties": "mean"}}
CHANGED = SAME["data"] | {"positives_sha256": "c" * 64}
OTHERS = [
    ({"data": {"propensity_sha256": "b" * 64}}, "positives_sha256 aaaaaaaaaaaa… -> none"),
    (
        {"data": SAME["data"] | {"positives_sha256": "c" * 64}},
        "positives_sha256 aaaaaaaaaaaa… -> cccccccccccc…",
    ),
    ({"options": {}}, "ties 'mean' -> None"),
    ({"options": {"ties": "min", "missing": "drop"}}, "ties 'mean' -> 'min'; missing None -> 'drop'"),
    ({"definitions": {}}, "definition of recall@5: {'formula': 'recall@5'} -> None"),
    (
        {"definitions": {RECALL: {"formula": "n", "ties": "mean"}}},
        "definition of recall@5: formula 'recall@5' -> 'n', ties None -> 'mean'",
    ),
]


@pytest.mark.parametrize(("other", "words"), OTHERS)
def test_results_of_other_data_options_or_definitions_are_not_compared(other, words):
    old, new = single(entry(0.5), **SAME), single(entry(0.5), source="new.json", **SAME | other)
    with pytest.raises(InputError) as raised:
        compare_results(new, old, metric=RECALL)
    start = f"new.json cannot be compared with old.json: {words}. If the change is meant, store the"
    assert str(raised.value).startswith(start)


@pytest.mark.parametrize("estimator", [AOA, "snips", "one of mine"])
def test_another_propensity_matters_where_weights_do(estimator):
    old = single(entry(0.5), estimator=estimator, data=SAME["data"], options={"propensity": "a"})
    data = SAME["data"] | {"propensity_sha256": None}
    new = single(entry(0.5), estimator=estimator, data=data, options={"propensity": "b"})
    if estimator == AOA:
        assert compare_results(new, old, metric=RECALL)[0].difference == 0
        return
    with pytest.raises(InputError, match="propensity_sha256 bbbbbbbbbbbb… -> none; propensity 'a' -> 'b'"):
        compare_results(new, old, metric=RECALL)


def packed(values, dtype: str) -> str:
    return base64.b64encode(zlib.compress(np.array(values, dtype=dtype).tobytes())).decode()


def content(users=(0, 2), influence=(0.25, -0.25), std_error=0.5, estimate=0.5, **rest) -> dict:
    """Return the content of a file with one estimate of two users: √(2/1 · 2/16) = 1/2."""
    row = {"model": "als", "metric": RECALL, "estimator": AOA, "estimate": estimate, "std_error": std_error}
    return {
        "estimates": [row | {"n_users": len(influence), "n_positives": 7}],
        "influence": [[0, packed(influence, "<f8")]],
        "users": [packed(users, "<i4")],
        "flags": [""],
        "data": {},
        "options": {},
        "metrics": {},
        "interval": "normal",
    } | rest


def test_a_file_gives_back_its_users_and_their_influence():
    found = _parse(content(missing="drop", flags=["few"]), "x.json")
    one = found.entry(("als", RECALL, AOA))
    assert (one.estimate, one.std_error, one.n_users, one.n_positives, one.flag) == (0.5, 0.5, 2, 7, "few")
    assert one.influence is not None
    assert [part.tolist() for part in one.influence] == [[0, 2], [0.25, -0.25]]
    assert (found.options, found.models, found.source) == ({"missing": "drop"}, ["als"], "x.json")
    alone = _parse(content() | {"influence": None}, "x.json")
    assert alone.entry(("als", RECALL, AOA)).influence is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"std_error": 0.5 + 2e-9}, "its standard error is 0.5, that of its users 0.5"),
        ({"std_error": 0.4}, "its standard error is 0.4, that of its users 0.5"),
        ({"std_error": None}, "its standard error is nan, that of its users 0.5"),
        ({"users": (2, 0)}, "its users are not ascending codes"),
        ({"users": (2, 2)}, "its users are not ascending codes"),
        ({"users": (-1, 2)}, "its users are not ascending codes"),
        ({"influence": (NAN, 0.25)}, "the influence of some users is not finite"),
        ({"estimate": INF}, "the estimate or its standard error is infinite"),
        ({"std_error": -INF}, "the estimate or its standard error is infinite"),
    ],
)
def test_evidence_that_does_not_fit_its_estimate_is_refused(changed, words):
    with pytest.raises(InputError) as raised:
        _parse(content(**changed), "x.json")
    assert f"x.json cannot be used: for als, recall@5, aoa {words}. Write it again" in str(raised.value)


@pytest.mark.parametrize(
    "changed",
    [
        {"std_error": 0.5 + 0.4e-9},
        {"std_error": 0.4, "interval": "percentile"},
        {"std_error": 0.4, "interval": "bca"},
        {"std_error": 0.4, "refit": 100},
        {"std_error": None, "influence": (0.25,), "users": (3,)},  # one user has no error
        {"estimate": None, "std_error": None, "influence": (NAN, NAN)},  # undefined, and said so
    ],
)
def test_evidence_that_fits_or_need_not_is_read(changed):
    _parse(content(**changed), "x.json")


@pytest.mark.parametrize("users", [(0,), (0, 1, 2), tuple(range(3000))])
def test_more_or_fewer_users_than_the_row_says_are_damage(users):
    with pytest.raises(InputError, match="expected 2 numbers for its users"):
        _parse(content(users=users), "x.json")


@pytest.mark.parametrize("name", ["users", "influence"])
def test_a_character_that_does_not_belong_is_damage(name):
    whole = content()
    if name == "users":
        whole["users"][0] += "!"
    else:
        whole["influence"][0][1] = "!" + whole["influence"][0][1]
    with pytest.raises(InputError, match=r"cannot read x\.json"):
        _parse(whole, "x.json")


def test_one_estimate_has_one_row():
    whole = content()
    twice = {name: whole[name] * 2 for name in ("estimates", "influence", "flags")}
    with pytest.raises(InputError, match=r"x\.json has several rows of one estimate"):
        _parse(whole | twice, "x.json")
