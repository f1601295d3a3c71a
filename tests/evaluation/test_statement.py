"""Statements: what each criterion says is computed here again, omissions are named, five set-ups are covered."""

from __future__ import annotations

import hashlib
import json
import re
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import ipseval
from ipseval.cli import main
from ipseval.errors import DataWarning, InputError, UnknownNameError
from ipseval.evaluation import write_statement
from ipseval.evaluation.statement import Statement
from tests.conftest import ROOT
from tests.inside.evaluation import CRITERIA, SOURCES, _state_power

FOLDER = Path(__file__).parent / "statements"
MODELS = ("a", "b", "c")
NOTES = {
    "data": {"source": "log of a shop, 2026-01", "access": "on request", "preprocessing": "purchases only"},
    "split": {"method": "by the shop", "seed": 7, "leakage": "none by design", "validation": "last week"},
    "recommenders": {
        model: {
            "implementation": f"library {model}",
            "tuning": f"grid of {model}",
            "hyperparameters": [f"factors of {model}", 64],
            "seeds": "5 runs",
        }
        for model in MODELS
    },
    "environment": {"code": "example.org/code"},
}
N_USERS, N_ITEMS = 40, 30


def make_log(*, times: bool = True) -> pd.DataFrame:
    rng = np.random.default_rng(5)
    rows = []
    for user in range(N_USERS):
        for item in rng.choice(N_ITEMS - 2, 8, replace=False):
            rows.append((user, item, int(rng.integers(1000))))
    frame = pd.DataFrame(rows, columns=["user", "item", "time"])
    return frame if times else frame.drop(columns="time")


def make_split(kind: str = "time") -> ipseval.Split:
    log = ipseval.Interactions.from_frame(
        make_log(times=kind != "frames"),
        timestamp=None if kind == "frames" else "time",
        users=np.arange(N_USERS + 1),
        items=np.arange(N_ITEMS),
    )
    if kind == "time":
        return ipseval.split_global_time(log, test_start=800)
    if kind == "random":
        return ipseval.split_random(log, rng=0)
    frame = log.to_frame()
    is_test = np.random.default_rng(1).random(len(frame)) < 0.2
    ids = {"users": np.arange(N_USERS + 1), "items": np.arange(N_ITEMS)}
    return ipseval.Split.from_frames(frame[~is_test], frame[is_test], **ids)


@pytest.fixture(scope="module")
def split() -> ipseval.Split:
    return make_split()


@pytest.fixture(scope="module")
def evaluation(split) -> ipseval.Evaluation:
    rng = np.random.default_rng(3)
    shape = (split.n_users, split.n_items)
    models = {"a": rng.random(shape), "b": rng.random(shape), "c": rng.integers(3, size=shape)}
    models["a"][split.test.user, split.test.item] += 0.5
    return ipseval.evaluate(models, split, metrics=["recall@5", "auc"], propensity="power-law:gamma=0")


@pytest.fixture(scope="module")
def stated(evaluation) -> Statement:
    """The statement with all notes of the authors."""
    return write_statement(evaluation, NOTES)


@pytest.fixture(scope="module")
def unstated(evaluation) -> Statement:
    """The statement without a note of the authors."""
    return write_statement(evaluation)


def answers_of(evaluation: ipseval.Evaluation, notes: object = None) -> pd.Series:
    return write_statement(evaluation, notes).frame.set_index("code")["answer"]


def test_the_statement_has_25_criteria_with_sources_and_answers_all_of_them(evaluation):
    statement = write_statement(evaluation, NOTES)
    assert len(CRITERIA) == 25 == len({criterion.code for criterion in CRITERIA})
    assert all(criterion.sources for criterion in CRITERIA)
    assert {source for criterion in CRITERIA for source in criterion.sources} == set(SOURCES)
    assert statement.omissions == ()
    assert "25 of 25 criteria are answered" in str(statement)


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("data-source", "log of a shop, 2026-01"),
        ("data-access", "on request"),
        ("validation", "last week"),
        ("split-seed", "seed 7"),
        ("code", "example.org/code"),
        ("implementations", "a: library a; b: library b; c: library c"),
        ("tuning", "a: grid of a; b: grid of b; c: grid of c"),
        ("hyperparameters", "a: factors of a, 64; b: factors of b, 64; c: factors of c, 64"),
        ("training-seeds", "a: 5 runs; b: 5 runs; c: 5 runs"),
    ],
)
def test_facts_of_the_authors_are_stated_or_named_as_omitted(stated, unstated, code, text):
    assert stated.frame.set_index("code").loc[code, "answer"] == text
    if code != "split-seed":  # a split by time has no seed
        assert code in unstated.omissions
        assert unstated.frame.set_index("code").loc[code, "answer"] == "not stated"
        question = next(criterion.question for criterion in CRITERIA if criterion.code == code)
        assert f"{question[0].upper()}{question[1:]}. To state it: " in unstated.to_markdown()


def test_a_note_on_the_seed_in_words_is_stated_as_it_is(evaluation):
    assert answers_of(evaluation, {"split": {"seed": "none, one date"}})["split-seed"] == "none, one date"
    assert answers_of(evaluation, {"split": {"seed": "7"}})["split-seed"] == "seed 7"


def test_preprocessing_needs_the_authors_and_adds_counts(evaluation):
    text = answers_of(evaluation, NOTES)["preprocessing"]
    assert text.startswith("purchases only. Counted by the evaluation: ")
    assert f"test pairs: {len(make_split().test)}" in text
    assert "preprocessing" in write_statement(evaluation).omissions


def test_sizes_are_those_of_the_split(evaluation, split):
    n_test_users = np.unique(split.test.user).size
    assert answers_of(evaluation)["size"] == (
        f"41 users, 30 items, {len(split.train)} training interactions; {len(split.test)} held-out interactions of "
        f"{n_test_users} users"
    )


def test_the_hash_is_that_of_pairs_and_candidates(evaluation, split):
    train = split.train.to_frame().groupby("user").size()
    pairs = sorted(zip(split.test.user.tolist(), split.test.item.tolist(), strict=True))
    columns = [
        [str(user) for user, _ in pairs],
        [str(item) for _, item in pairs],
        [str(30 - int(train.get(user, 0))) for user, _ in pairs],
    ]
    digest = hashlib.sha256("".join("\x1f".join(column) + "\x1e" for column in columns).encode()).hexdigest()
    assert answers_of(evaluation)["data-hash"] == (
        f"SHA-256 of the held-out pairs with their numbers of candidates: {digest}"
    )


def test_the_split_is_described_or_named_as_omitted(evaluation):
    assert answers_of(evaluation)["split"] == "global time, test from 800"
    assert answers_of(evaluation, NOTES)["split"] == "global time, test from 800. by the shop"
    assert answers_of(evaluation)["split-seed"] == "the split is not random"
    frames = make_split("frames")
    given = ipseval.evaluate({"a": np.zeros((41, 30))}, frames, metrics=["recall@5"])
    assert {"split", "split-seed", "leakage"} <= set(write_statement(given).omissions)
    assert answers_of(given, {"split": {"method": "files of the authors"}})["split"] == "files of the authors"
    drawn = ipseval.evaluate({"a": np.zeros((41, 30))}, make_split("random"), metrics=["recall@5"])
    assert "split-seed" in write_statement(drawn).omissions
    assert answers_of(drawn)["split"] == "random per user, 0.2 test"


def test_leaking_test_rows_are_counted():
    split = make_split("random")
    evaluation = ipseval.evaluate({"a": np.zeros((41, 30))}, split, metrics=["recall@5"])
    n_leaking = sum(time < split.train.timestamp.max() for time in split.test.timestamp)
    share = f"{100 * n_leaking / len(split.test):.1f}%"
    expected = (
        f"{n_leaking} of {len(split.test)} test interactions ({share}) have later training interactions"
    )
    assert answers_of(evaluation)["leakage"] == expected
    notes = {"split": {"leakage": "none by design"}}
    assert answers_of(evaluation, notes)["leakage"] == f"{expected}. none by design"


def test_cold_users_and_items_are_counted_among_those_that_are_evaluated(evaluation, split):
    """The catalogue has a user and two items without any interaction, which are not evaluated."""
    text = "0 of 33 evaluated users (0.0% of the held-out interactions) and 0 of 24 evaluated items have no"
    assert answers_of(evaluation)["cold"].startswith(text)
    is_kept = split.train.user >= 5
    later = ipseval.Split(split.train.select(is_kept), split.test)
    n_users = np.unique(split.test.user[split.test.user < 5]).size
    share = f"{100 * (split.test.user < 5).sum() / len(split.test):.1f}%"
    shape = (split.n_users, split.n_items)
    models = {"a": np.random.default_rng(0).random(shape)}
    answer = answers_of(ipseval.evaluate(models, later, metrics=["recall@5"]))["cold"]
    assert n_users > 1
    assert answer.startswith(f"{n_users} of 33 evaluated users ({share} of the held-out interactions) and ")
    ranked = ipseval.evaluate_ranks({"a": evaluation.ranks["a"]}, metrics=["recall@5"])
    assert "cold" in write_statement(ranked).omissions


def test_filters_that_the_evaluation_counted_are_stated_without_notes_but_stay_an_omission(evaluation):
    statement = write_statement(evaluation)
    answer = statement.frame.set_index("code").loc["preprocessing", "answer"]
    assert answer.startswith("Counted by the evaluation: ")
    assert answer.endswith("; further steps not stated")
    assert "preprocessing" in statement.omissions


def test_candidates_ties_and_missing_lists_are_those_of_the_request(evaluation, split):
    answers = answers_of(evaluation)
    assert answers["candidates"] == "all items minus the user's training items"
    assert (
        answers["ties"]
        == "expectation over random orders of tied items (recall@5); mean rank of tied items (auc)"
    )
    assert answers["missing-lists"] == "users without a list, and positions beyond a list, count as misses"
    user = int(split.test.user[0])
    free = np.setdiff1d(np.arange(30), split.train.item[split.train.user == user])
    lists = {user: free[:3].tolist()}
    with pytest.warns(DataWarning):
        other = ipseval.evaluate(
            {"few": lists}, split, metrics=["recall@5"], ties="min", missing_lists="drop"
        )
    answers = answers_of(other)
    assert answers["ties"] == "min rank of tied items"
    assert answers["missing-lists"].startswith(
        "users without a list of some recommender are left out of all (few: "
    )
    with pytest.warns(DataWarning):
        sampled = ipseval.evaluate(
            {"a": np.zeros((41, 30))},
            split,
            metrics=["recall@5"],
            candidates=ipseval.SampledCandidates(10, rng=0),
        )
    assert "10" in answers_of(sampled)["candidates"]


def test_metrics_estimators_and_bias_are_explained(evaluation):
    answers = answers_of(evaluation)
    assert "recall@5 = Σ_{i∈S} 1{r_i ≤ k} / s (left out: users without positives)" in answers["metrics"]
    assert "auc = " in answers["metrics"]
    claim = evaluation.estimate("a", "recall@5", "aoa").claim
    assert f"AOA, mean over users: {claim} (recall@5" in answers["estimators"]
    assert answers["exposure-bias"].startswith(
        "Propensity: power law, gamma = 0, known up to a constant factor. "
    )
    assert evaluation.verdict.rstrip(".") in answers["exposure-bias"]
    plain = ipseval.evaluate_ranks(evaluation.ranks, metrics=["recall@5"])
    assert answers_of(plain)["exposure-bias"].startswith("No propensity is used. ")


def test_intervals_are_described(evaluation):
    assert (
        answers_of(evaluation)["intervals"] == "95% confidence intervals, from the standard error over users"
    )
    bca = evaluation.with_intervals("bca", n_resamples=200, rng=0)
    assert answers_of(bca)["intervals"].endswith("bias-corrected and accelerated bootstrap over users")


def test_significance_and_power_equal_paired_t_tests(evaluation):
    values = {model: evaluation.per_user(model, "recall@5", "aoa") for model in MODELS}
    tests = {}
    for first, second in (("a", "b"), ("a", "c"), ("b", "c")):
        tests[first, second] = stats.ttest_rel(values[first], values[second]).pvalue
    adjusted = {}
    largest = 0.0
    for position, (pair, p_value) in enumerate(sorted(tests.items(), key=lambda entry: entry[1])):
        largest = max(largest, min(1.0, p_value * (3 - position)))
        adjusted[pair] = largest
    text = answers_of(evaluation)["significance"]
    assert "Holm correction over 3 pairs of recommenders" in text
    part = re.search(r"recall@5, AOA: ([^;]*)", text)[1]
    for first, second, sign, number in re.findall(r"(\w) against (\w) p ([<=]) ([\d.]+)", part):
        expected = adjusted[tuple(sorted((first, second)))]
        assert (
            float(number) == pytest.approx(expected, abs=0.006) if sign == "=" else expected < float(number)
        )
    assert len(re.findall("against", part)) == 3

    n_users = len(values["a"])
    detectable = []
    for first, second in tests:
        error = (values[first] - values[second]).std() / np.sqrt(n_users)
        detectable.append((stats.t.ppf(0.975, n_users - 1) + stats.t.ppf(0.8, n_users - 1)) * error)
    low, high = re.search(r"recall@5, AOA: ([\d.]+) to ([\d.]+)", answers_of(evaluation)["power"]).groups()
    assert float(low) == pytest.approx(min(detectable), rel=0.06)
    assert float(high) == pytest.approx(max(detectable), rel=0.06)
    single = ipseval.evaluate_ranks({"a": evaluation.ranks["a"]}, metrics=["recall@5"])
    assert {"significance", "power"} <= set(write_statement(single).omissions)


def test_many_pairs_are_counted(split):
    models = {f"m{number}": np.random.default_rng(number).random((41, 30)) for number in range(5)}
    evaluation = ipseval.evaluate(models, split, metrics=["recall@5"])
    n_significant = int((evaluation.compare()["p_adjusted"] < 0.05).sum())
    assert f"recall@5, AOA: {n_significant} of 10 pairs differ" in answers_of(evaluation)["significance"]


def test_versions_are_those_of_the_evaluation(evaluation):
    assert answers_of(evaluation)["versions"].startswith(f"ipseval {ipseval.__version__}, python ")
    assert f"numpy {np.__version__}" in answers_of(evaluation)["versions"]


def test_partly_documented_recommenders_are_named(evaluation):
    statement = write_statement(evaluation, {"recommenders": {"b": {"tuning": "grid"}}})
    assert answers_of(evaluation, {"recommenders": {"b": {"tuning": "grid"}}})["tuning"] == (
        "b: grid; not stated for a, c"
    )
    assert "tuning" in statement.omissions


# Set-ups of publications: notes, kind of split, recommenders and sampled candidates of a small log in their place.
SETUPS = {
    "lightgcn.toml": ("frames", ("LightGCN", "Mult-VAE"), None),
    "ncf.toml": ("last", ("NeuMF", "ItemPop"), 20),
    "sasrec.toml": ("last", ("SASRec", "PopRec"), 20),
    "multvae.toml": ("frames", ("Mult-VAE", "Mult-DAE"), None),
    "ease.json": ("frames", ("EASE", "Mult-VAE"), None),
}


@pytest.mark.parametrize("name", SETUPS)
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_published_setups_answer_at_least_80_percent_from_files_alone(name, tmp_path, capsys):
    kind, models, n_sampled = SETUPS[name]
    if kind == "last":
        log = ipseval.Interactions.from_frame(make_log(), timestamp="time")
        split = ipseval.split_leave_one_out(log, order="temporal")
    else:
        split = make_split(kind)
    rng = np.random.default_rng(2)
    scores = {model: rng.random((split.n_users, split.n_items)) for model in models}
    options = {}
    if n_sampled is not None:
        options["candidates"] = ipseval.SampledCandidates(n_sampled, rng=0)
    evaluation = ipseval.evaluate(scores, split, metrics=["recall@10"], **options)
    evaluation.save(tmp_path / "result.npz", ranks=False)
    arguments = ["report", str(tmp_path / "result.npz"), "--statement", "--notes", str(FOLDER / name)]
    assert main([*arguments, "--format", "json"]) == 0
    frame = pd.DataFrame(json.loads(capsys.readouterr().out))
    assert len(frame) == 25
    assert frame["is_stated"].mean() >= 0.8
    assert main([*arguments, "--out", str(tmp_path / "statement.md"), "--quiet"]) == 0
    text = (tmp_path / "statement.md").read_text()
    assert len(text.splitlines()) < 65  # one page
    for _, row in frame[~frame["is_stated"]].iterrows():
        assert f"{row['criterion'][0].upper()}{row['criterion'][1:]}. To state it" in text


def test_the_command_writes_every_format_and_refuses_options_without_effect(evaluation, tmp_path, capsys):
    evaluation.save(tmp_path / "e.npz")
    arguments = ["report", str(tmp_path / "e.npz")]
    outputs = [str(tmp_path / f"s.{suffix}") for suffix in ("md", "html", "csv", "json", "txt", "tex")]
    assert main([*arguments, "--statement", *(word for path in outputs for word in ("--out", path))]) == 0
    assert "Statement on the offline evaluation" in (tmp_path / "s.html").read_text()
    assert main([*arguments, "--notes", "notes.toml"]) == 2
    assert main([*arguments, "--statement", "--explain"]) == 2
    assert "--notes needs --statement" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("notes", "error", "message"),
    [
        ({"dta": {}}, UnknownNameError, "dta"),
        ({"data": {"origin": "x"}}, UnknownNameError, "origin"),
        ({"recommenders": {"z": {}}}, UnknownNameError, "z"),
        ({"recommenders": {"a": "tuned"}}, InputError, "recommenders.a must be a table of notes"),
        ({"data": {"source": {"name": "x"}}}, InputError, "must be a text, a number or a list"),
        ("missing.toml", InputError, "does not exist"),
    ],
)
def test_unusable_notes_are_refused(evaluation, notes, error, message):
    with pytest.raises(error, match=message):
        write_statement(evaluation, notes)


@pytest.mark.parametrize(("name", "content"), [("n.toml", "data = [1"), ("n.json", "{"), ("n.json", "[1]")])
def test_files_that_are_no_notes_are_refused(evaluation, tmp_path, name, content):
    (tmp_path / name).write_text(content)
    with pytest.raises(InputError, match="must be a"):
        write_statement(evaluation, tmp_path / name)


def test_the_page_lists_every_criterion_with_its_sources():
    page = (ROOT / "docs" / "statement.md").read_text("utf-8")
    rows = re.findall(r"^\| `([\w-]+)` \| (.*?) \| .*? \| (.*?) \| (.*?) \|$", page, re.MULTILINE)
    expected = []
    for criterion in CRITERIA:
        match = re.match(r"(\w+) in (\[[\w.]+\]) of the notes", criterion.remedy)
        key = f"`{match[1]}` in `{match[2]}`" if match else "–"
        expected.append((criterion.code, criterion.question, key, ", ".join(criterion.sources)))
    assert rows == expected
    for key, reference in SOURCES.items():
        assert f"| {key} | {reference} |" in page


def test_a_metric_without_a_detectable_difference_leaves_the_power_of_the_next_one():
    differences = pd.DataFrame(
        {
            "metric": ["auc", "recall@5", "recall@5"],
            "estimator": "aoa",
            "minimum_detectable_difference": [np.nan, 0.02, 0.01],
            "n_users": [1, 1200, 1000],
        }
    )
    text = _state_power(SimpleNamespace(differences=differences))
    assert (
        text
        == "smallest differences found with 80% power by tests over 1,200 users: recall@5, AOA: 0.01 to 0.02"
    )


def test_significance_is_stated_for_each_metric_and_estimator(evaluation):
    rows = evaluation.compare()[["metric", "estimator"]].drop_duplicates()
    names = {"aoa": "AOA", "ips": "IPS", "snips-global": "SNIPS"}
    text = answers_of(evaluation)["significance"]
    stated = re.findall(r"([\w@]+, \w+): a against b", text)
    assert stated == [f"{metric}, {names[estimator]}" for metric, estimator in rows.to_numpy()]
    assert len(stated) >= 4


def test_in_latex_the_answers_follow_the_heading_of_their_section(stated, unstated, tmp_path):
    for statement in (stated, unstated):
        expected = [statement.tables().summary[0]]
        for section, entries in groupby(statement.entries, key=lambda entry: entry.criterion.section):
            expected.append(f"HEADING {section}")
            for entry in entries:
                question = entry.criterion.question
                expected.append(f"{question[0].upper()}{question[1:]}: ")
        expected.append("HEADING Omissions")
        omitted = [entry for entry in statement.entries if not entry.is_stated]
        for entry in omitted:
            expected.append(
                f"{entry.criterion.question[0].upper()}{entry.criterion.question[1:]}. To state it: "
            )
        if not omitted:
            expected.append("None.")

        path = tmp_path / "statement.tex"
        statement.to_latex(path)
        lines = path.read_text(encoding="utf-8").splitlines()
        assert len(lines) == len(expected)
        for line, start in zip(lines, expected, strict=True):
            heading = re.fullmatch(r"\\paragraph\{(.*)\}", line)
            if start.startswith("HEADING "):
                assert heading is not None
                assert heading[1] == start.removeprefix("HEADING ")
            else:
                assert line.startswith(start)
                assert line.endswith(r"\par")


def test_in_latex_formulas_are_mathematics(stated):
    latex = stated.to_latex()
    assert r"recall@5 = $\sum_{i\in S} 1\{r_{i} \leq k\} / s$ (left out: users without positives)" in latex
    assert r"propensities $\propto$ $\mathrm{popularity}^{(\gamma+1)/2}$, $\gamma$ = 0" in latex
    assert "textasciicircum" not in latex
    assert "Σ_{i∈S} 1{r_i ≤ k} / s" in str(stated)
