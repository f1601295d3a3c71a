"""Reports show the numbers of the frame, mark what should be marked, and say only what is supported."""

from __future__ import annotations

import base64
import hashlib
import json
import math
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.estimators import Note
from ipseval.reporting import Tables
from ipseval.validation.simulation import World
from tests.inside import reporting as report
from tests.inside.estimators import SampleSize, resolve_estimator
from tests.inside.evaluation import (
    ModelRanking,
    Outcome,
    ReportContent,
    Verdict,
    build_explanation,
    write_verdict,
)
from tests.inside.inference import PairTests
from tests.inside.reporting import (
    Cell,
    Heading,
    Notes,
    Remark,
    Table,
    count_decimals,
    join_names,
    to_html,
    to_text,
)

NAN = float("nan")
ATTACK = "<script>alert(1)</script>"


@pytest.fixture(scope="module")
def evaluation() -> ipseval.Evaluation:
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame(np.argwhere(rng.random((60, 30)) < 0.4), columns=["user", "item"])
    pairs["item"] = [f"it\"em'{i}" for i in pairs["item"]]
    split = ipseval.split_random(ipseval.Interactions.from_frame(pairs), test_fraction=0.4, rng=0)
    good = rng.normal(size=(60, 30))
    good[split.test.user, split.test.item] += 2
    bad = rng.normal(size=(60, 30))
    return ipseval.evaluate(
        {"a|b_c & 5 %": bad, ATTACK: good},
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0.0, unseen="drop"),
        metrics=["recall@5", "auc"],
        estimators=["aoa", "snips", "snips-global"],
        low_ess="ignore",
    )


@pytest.fixture(scope="module")
def unreliable(evaluation) -> ipseval.Evaluation:
    """Evaluate with one item a million times as heavy as the others: aoa can be trusted, the rest cannot."""
    ranked = {name: one.ranked for name, one in evaluation.samples.items()}
    chance = np.full(30, 0.9)
    chance[next(iter(ranked.values())).item[0]] = 1e-6
    return ipseval.evaluate_ranks(
        ranked,
        propensity=ipseval.KnownPropensity(item=chance).fit(next(iter(ranked.values()))),
        metrics=["recall@5"],
        estimators=["aoa", "snips-global"],
        low_ess="ignore",
    )


class Reader(HTMLParser):
    """Collects tags, attributes and text, as a browser would see them."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict]] = []
        self.text: list[str] = []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.text.append(data)


def read(html: str) -> Reader:
    reader = Reader()
    reader.feed(html)
    return reader


@pytest.fixture(scope="module")
def page(evaluation, tmp_path_factory) -> str:
    """Return a page of a day that is given, from its file."""
    path = tmp_path_factory.mktemp("page") / "report.html"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", str(86_400 * 365 + 43_200))
        return Path(evaluation.to_html(path, title=ATTACK)).read_text(encoding="utf-8")


def test_html_holds_every_number_and_its_day_and_escapes_what_users_wrote(evaluation, page):
    assert ATTACK in read(page).text
    shown = np.array([float(number) for number in re.findall(r">(\d\.\d+)", page)])
    for value in evaluation.frame["estimate"]:
        assert np.abs(shown - value).min() <= 0.0005
    assert evaluation.data_hash in page
    assert "Definitions and guarantees" in page
    assert "page of 1971-01-01" in page


def test_the_policy_of_a_page_names_its_style_and_its_script_and_nothing_else(page):
    """The hashes are worked out here from what stands in the page; the browser does the same."""
    found = read(page).tags
    tags = [tag for tag, _ in found]
    assert tags.count("script") == tags.count("style") == 1
    given = [(tag, name, value) for tag, attributes in found for name, value in attributes.items()]
    assert not [one for one in given if one[1].startswith("on") or one[1] == "style"]
    links = [value for _, name, value in given if name in ("src", "href", "action", "srcset")]
    assert [link for link in links if not link.startswith("#")] == ["data:,"]
    (policy,) = [one["content"] for _, one in found if "http-equiv" in one]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    for name in ("script", "style"):
        (text,) = re.findall(rf"<{name}>(.*?)</{name}>", page, flags=re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert rules[f"{name}-src"] == f"'sha256-{digest}'"
    assert rules["default-src"] == rules["base-uri"] == rules["form-action"] == "'none'"
    assert "unsafe" not in policy


def test_the_mark_of_a_difference_is_that_of_the_paired_test_with_its_correction(evaluation):
    tests = evaluation.compare(correction="holm").set_index(["metric", "estimator"])
    assert (tests["p_adjusted"] < 0.05).all()
    written = evaluation.to_markdown()
    rows = [line for line in written.splitlines() if line.startswith("| a\\|b")]
    assert all(row.count("†") == 3 for row in rows)
    assert "paired test, Holm over all pairs" in written


def test_bounds_have_a_zero_before_the_point_and_no_bound_is_minus_zero():
    frame = pd.DataFrame({"model": ["a"], "x": [-0.02], "x_low": [-0.0001], "x_high": [1.05]})
    (row,) = Table.from_frame(frame, formats=".3f").rows
    assert [cell.text for cell in row] == ["a", "-0.020 [0.000, 1.050]"]
    (row,) = Table.from_frame(frame.assign(x_low=-0.3), formats=".2f").rows
    assert row[1].text == "-0.02 [-0.30, 1.05]"


def test_letters_are_explained_where_they_can_stand(evaluation):
    whole = repr(evaluation.explain())
    assert "S: a user's held-out positives" in whole
    assert "Propensity P: " in whole
    alone = ipseval.evaluate_ranks(
        {"mine": evaluation.samples[ATTACK].ranked}, metrics=["ndcg@5", "recall@5"], estimators=["aoa"]
    )
    part = repr(alone.explain())
    claims = [line for line in part.splitlines() if line.startswith("AOA (")]
    assert [line.split(":")[0] for line in claims] == ["AOA (ndcg@5)", "AOA (recall@5)"]
    for words in ("Propensity P: ", "order by", "highest"):
        assert words not in part


def make_notes(text: str) -> tuple[Note, ...]:
    """Return a note with a text; none without one."""
    return (Note.create("text", text=text),) if text else ()


def by_hand(values, errors, different_pairs=(), flags=("", "")):
    """Return the tables of recommenders a, b, … by AOA and SNIPS, `values[estimator][recommender]`."""
    names = "abcdef"[: len(values[0])]
    labels = ("aoa", "snips-global")
    rows = []
    for number, (column, spread) in enumerate(zip(values, errors, strict=True)):
        for model, value, error in zip(names, column, spread, strict=True):
            interval = (value - error, value + error)
            rows.append((model, "recall@10", labels[number], "users", value, error, *interval, "claimed", ""))
    columns = [
        "model",
        "metric",
        "estimator",
        "estimand",
        "estimate",
        "std_error",
        "ci_low",
        "ci_high",
        "claim",
        "note",
    ]
    frame = pd.DataFrame(rows, columns=columns)
    # By SNIPS no adjusted test finds a difference.
    rankings = {
        label: ModelRanking.from_rows(part, paired(names, different_pairs if label == "aoa" else ()))
        for label, part in frame.groupby("estimator", sort=False)
    }
    n_defined = len(rankings["aoa"].ranked)
    outcome = Outcome.SINGLE if n_defined == 1 else Outcome.NOT_IDENTIFIED
    verdicts = (Verdict("recall@10", rankings, unweighted="aoa", outcome=outcome),)
    content = ReportContent(
        models=tuple(names),
        frame=frame,
        diagnostics=pd.DataFrame(
            {"estimator": labels, "flag": flags, "cautions": "", "remark": "", "weighted": True}
        ),
        verdicts=verdicts,
        text=write_verdict(verdicts),
        estimators=tuple(resolve_estimator(label) for label in labels),
        propensity=None,
        flags={("recall@10", label): make_notes(flag) for label, flag in zip(labels, flags, strict=True)},
        notes={(model, "recall@10", label): () for model in names for label in labels},
        size=SampleSize(np.array([0, 4])),
        candidates="all items",
        confidence_level=0.95,
    )
    return build_explanation(content)


def table_lines(tables: Tables) -> list[str]:
    """Return the lines of the table of a text, the head first, and those below it."""
    return next(
        block for block in to_text(tables).split("\n\n") if block.startswith("recall@10 ")
    ).splitlines()


def paired(names, different_pairs) -> PairTests:
    """Return tests by which the pairs named by two letters differ significantly."""
    apart = {frozenset(pair) for pair in different_pairs}
    p_values = [
        [0.01 if {row_model, column_model} in apart else 0.06 for column_model in names]
        for row_model in names
    ]
    return PairTests(
        {name: row for row, name in enumerate(names)}, np.zeros(2 * [len(names)]), np.array(p_values)
    )


def test_rows_and_order_lines_are_sorted_by_the_estimates():
    """By AOA the order is c, a, b, and only c differs from both; by SNIPS it is b, a, c."""
    tables = by_hand([[0.2, 0.1, 0.9], [0.2, 0.3, 0.1]], 2 * [[0.01, 0.01, 0.01]], [("c", "a"), ("b", "c")])
    lines = table_lines(tables)
    assert [line.split()[0] for line in lines[1:4]] == ["c", "a", "b"]
    assert lines[4:6] == ["  order by AOA: c > a, b", "  order by SNIPS: b, a, c"]


def test_only_a_column_that_can_be_relied_on_has_a_best_and_marks():
    values = [[0.2, 0.1, 0.9], [0.2, 0.3, 0.1]]
    tables = by_hand(values, 2 * [[0.01] * 3], [("c", "a"), ("b", "c")], flags=("", "few"))
    first, *others = tables.parts[0].rows
    assert [(cell.strong, cell.mark, cell.flag) for cell in first[1:]] == [(True, "", ""), (False, "", "few")]
    for row in others:
        marks = [(cell.strong, cell.mark, cell.flag) for cell in row[1:]]
        assert marks == [(False, "†", ""), (False, "", "few")]
    assert first[1].hint == "interval 0.890 to 0.910"


def test_an_order_separates_only_what_every_pair_supports():
    values = 2 * [[0.4, 0.3, 0.2, 0.1]], 2 * [[0.01] * 4]
    told = ["ac", "bc", "ad", "bd"]
    assert "  order by AOA: a, b > c, d\n" in to_text(by_hand(*values, told))
    assert "order by every estimator: a, b, c, d\n" in to_text(by_hand(*values, told[:2] + told[3:]))


def test_an_unreliable_column_has_no_best_no_mark_and_no_place_in_an_order(unreliable):
    tests = unreliable.compare().set_index("estimator")
    flags = unreliable.diagnostics.set_index("estimator")["flag"]
    assert flags["snips-global"]
    assert not flags["aoa"]
    assert tests.loc["aoa", "p_adjusted"] < 0.05
    (table,) = [part for part in unreliable.tables().parts if isinstance(part, Table)]
    assert table.header[1:3] == ("AOA (unweighted)", "SNIPS (propensities assumed), unreliable")
    for row in table.rows:
        assert row[2].flag
        assert not row[2].strong
        assert not row[2].mark
        assert not row[1].flag
    assert "Unreliable: SNIPS. " in repr(unreliable).split("\n\n")[2]
    text = repr(unreliable.explain())
    assert "Unreliable: SNIPS. " in text.split("\n\n")[1]
    assert "order by AOA: " in text
    assert text.lower().count("effective sample size") == 2  # the warning, and what it means
    assert not re.search("order by .*(SNIPS|every)", text)


def test_standard_errors_have_two_significant_digits():
    """Errors .0123, .0004, 3 and 0 need 3, 5, 0 and no decimals; a column takes those of its median."""
    assert count_decimals([0.0123]) == 3
    assert count_decimals([0.0004, 0.0123, 0.0456]) == 3
    assert count_decimals([3.0]) == 1
    assert count_decimals([30.0]) == 0
    tables = by_hand([[0.2, 0.1], [0.00031, 0.00032]], [[0.01, 0.02], [0.000012, 0.000023]])
    text = to_text(tables)
    assert "0.200 ± 0.010  0.000310 ± 0.000012" in text
    assert "0.100 ± 0.020  0.000320 ± 0.000023" in text
    # One error far below the others of its column is still shown, and does not lengthen theirs.
    lines = table_lines(by_hand([[0.2, 0.1, 0.3]] * 2, [[0.01, 0.02, 0.00001]] * 2))
    assert lines[1].split()[1:4] == ["0.300000", "±", "0.000010"]
    assert lines[3].split()[1:4] == ["0.100", "±", "0.020"]


def test_undefined_values_stand_last_and_in_no_order():
    tables = by_hand([[np.nan, 0.1], [np.nan, 0.3]], 2 * [[np.nan, 0.01]])
    assert [line.split()[:2] for line in table_lines(tables)[1:3]] == [
        ["b", "0.100"],
        ["a", "undefined"],
    ]
    assert "order by every estimator: b\n" in to_text(tables)


def test_json_holds_the_estimates_and_is_written_to_a_path(evaluation, tmp_path):
    assert evaluation.to_json(tmp_path / "e") == str(tmp_path / "e")
    assert (tmp_path / "e").read_text(encoding="utf-8") == evaluation.to_json()
    stored = json.loads(evaluation.to_json())
    assert json.dumps(stored, indent=2, ensure_ascii=False) == evaluation.to_json()
    keys = ["model", "metric", "estimator"]
    estimates = {tuple(row[key] for key in keys): row["estimate"] for row in stored["estimates"]}
    assert estimates == evaluation.frame.set_index(keys)["estimate"].to_dict()


@pytest.mark.parametrize(("metrics", "has_choice"), [(("recall@5", "auc"), True), (("auc", "auc"), False)])
def test_a_page_lets_metrics_be_chosen_where_there_are_several(metrics, has_choice):
    parts = tuple(Table(("model",), ((Cell("als"),),), metric=metric) for metric in metrics)
    assert ('id="metric"' in to_html(Tables((), parts))) == has_choice


def test_of_many_or_long_names_the_first_are_listed():
    assert join_names(["a"]) == "a"
    assert join_names(list("abcd")) == "a, b, c and d"
    assert join_names(list("abcdef")) == "a, b, c, d and 2 more"
    assert join_names(["x" * 50, "y" * 30, "z"]) == f"{'x' * 50}, {'y' * 30} and 1 more"
    assert join_names(["x" * 90, "y"]) == f"{'x' * 90} and 1 more"


def test_numbers_in_words_at_their_bounds():
    assert [report.count_decimals([0.0123], 3), report.count_decimals([math.inf, 0.0123])] == [4, 3]
    assert [report.count_decimals([300.0]), report.count_decimals([NAN, 0.0], default=2)] == [0, 2]
    assert [report.format_number(one) for one in (-0.001, 0.334, 12.0, -2.5)] == ["0", "0.33", "12", "−2.5"]
    fixed = [report.format_fixed(value, 2) for value in (0.5, -0.5, 10.055, -0.001, 1234.5)]
    assert fixed == ["0.50", "−0.50", "10.05", "0.00", "1,234.50"]
    signed = [report.format_signed_digits(one, 2) for one in (12.3, -1234.0, 0.0204, 1.0, 0.0, NAN)]
    assert signed == ["+12", "−1,234", "+0.020", "+1.0", "0", "undefined"]
    p_values = {0.00099: "< 0.001", 0.001: "= 0.001", 0.0496: "= 0.0496", 0.05: "= 0.050"}
    p_values |= {0.0999: "= 0.100", 0.1: "= 0.10", 0.994: "= 0.99", 0.996: "= 1"}
    assert [report.format_p_value(p_value) for p_value in p_values] == [
        f"p {text}" for text in p_values.values()
    ]
    assert report.format_p_value(NAN) == "not tested"
    assert report.format_p_value(1.0, most=True) == "p ≤ 1"


@pytest.mark.parametrize(("last", "n_pieces"), [(46, 1), (47, 2)])
def test_a_table_of_110_columns_is_one_piece_and_a_wider_one_two(last, n_pieces):
    # Keys of 10 and 20, of 6, 8 and 14, or of 24; values of 28 or 36, and `last`; gaps of 2.
    for keys, first in (([10, 20], 28), ([6, 8, 14], 28), ([24], 36)):
        cells = tuple(Cell("x" * width) for width in (*keys, first, last))
        text = to_text(Tables((), (Table(tuple("abcde")[: len(cells)], (cells,), n_keys=len(keys)),)))
        assert len(text.split("\n\n")) == n_pieces
        assert text.splitlines()[1] == "  ".join(cell.text for cell in cells[: len(cells) + 1 - n_pieces])


@pytest.mark.parametrize(("rest", "shown"), [(99, "± 0.123456"), (100, "± 0.1")])
def test_errors_are_short_where_a_table_is_wider_than_110_columns(rest, shown):
    # A key of 1, a gap of 2, and a value of `rest` letters with its error.
    cells = (Cell("k"), Cell("v" * (rest - 3), "± 0.123456", short="± 0.1"))
    assert shown in to_text(Tables((), (Table(("a", "b"), (cells,)),))).splitlines()[1][rest:]


def test_a_hint_is_the_last_remark():
    remark = Remark("Data", ("word",))
    text = to_text(Tables((), ("table",), remarks=(remark,), hint="Call .explain() for details."))
    assert text == "table\n\nData        word\nMore        Call .explain() for details."


def test_a_word_with_hyphens_is_not_broken():
    sentence = f"{'x' * 90} not-to-be-broken"
    lines = to_text(Tables((), (), remarks=(Remark("Data", (sentence,)),))).splitlines()
    assert [line.split()[-1] for line in lines] == ["x" * 90, "not-to-be-broken"]


def names_shown(*names: str) -> list[str]:
    rows = tuple((Cell(name), Cell("1")) for name in names)
    return to_text(Tables((), (Table(("model", "n"), rows),))).splitlines()[1:]


def test_names_are_shortened_by_what_all_share_where_the_rest_is_short():
    start, end = "s" * 30, "e" * 5
    long_labels = [one * 26 for one in "ab"]
    assert names_shown(*(f"{start}{one}{end}" for one in long_labels)) == [
        *(f"…{one}…  1" for one in long_labels),
        *("  … stands for what all share: " + f"{start}…{end}",),
    ]
    longer = names_shown(*(f"{start}{one * 27}{end}" for one in "ab"))
    assert longer[:2] == ["sssssssssss…aaaaaaeeeee  1", "sssssssssss…bbbbbbeeeee  1"]
    assert names_shown("n" * 29) == ["nnnnnnnnnnn…nnnnnnnnnnn  1", f"  nnnnnnnnnnn…nnnnnnnnnnn: {'n' * 29}"]
    alike = ["n" * 27 + letter for letter in "ab"]  # 28 letters are not too many
    assert names_shown(*alike) == [f"{one}  1" for one in alike]
    twice = names_shown("m" * 40, "m" * 40)
    assert twice == ["mmmmmmmmmmm…mmmmmmmmmmm  1"] * 2 + [f"  mmmmmmmmmmm…mmmmmmmmmmm: {'m' * 40}"]
    three = names_shown(*("m" * 20 + letter + "m" * 20 + "x" * 9 + "m" * 11 for letter in "abc"), "z")
    assert [line.split("  ")[0] for line in three[:3]] == [
        "mmmmmmmmmmm…mmmmmmmmmmm",
        "mmmmmmmmmmm…mmmmmmmmmmm (2)",
        "mmmmmmmmmmm…mmmmmmmmmmm (3)",
    ]


def test_bounds_of_a_name_of_several_words_stand_beside_it():
    frame = pd.DataFrame({"my_gain": [0.5], "my_gain_low": [0.4], "my_gain_high": [0.6], "a_low": ["x"]})
    table = Table.from_frame(frame, formats=".1f")
    assert table.header == ("my_gain", "a_low")
    assert table.rows == ((Cell("0.5 [0.4, 0.6]"), Cell("x")),)
    assert table.words == {0, 1}
    apart = Table.from_frame(frame, formats=".1f", intervals=False, n_keys=2)
    assert apart.header == tuple(frame.columns)
    assert (apart.n_keys, apart.words, apart.folded) == (2, {0, 1, 3}, False)
    strange = pd.DataFrame({"n": [1000, 2000], "x": [1234.5, NAN], "v": [None, "a"]}).astype({"v": object})
    assert [[cell.text for cell in row] for row in Table.from_frame(strange).rows] == [
        ["1,000", "1234", "undefined"],
        ["2,000", "undefined", "a"],
    ]
    words, counts = pd.Series([None, "b"], dtype=object), pd.array([1, None], dtype="Int64")
    (first, second) = Table.from_frame(pd.DataFrame({"words": words, "counts": counts})).rows
    assert [cell.text for cell in (*first, *second)] == ["undefined", "1", "b", "undefined"]


class Made(report.Result):
    """A result of one table, with a page of its own."""

    def __init__(self, name: str, metrics: tuple[str, ...] = ("",), verdict: str = "") -> None:
        self.name, self.metrics, self.said = name, metrics, verdict
        self.frame = pd.DataFrame({"a": ["=1"]})

    def tables(self, *, digits: int = 2, page: bool = False) -> Tables:
        parts = [
            Table((self.name,), ((Cell(f"{digits}"),),), metric=metric, below=("below",))
            for metric in self.metrics
        ]
        return Tables(
            (f"summary of {self.name}",),
            tuple(parts),
            title=self.name,
            remarks=(Remark("Data", ("no",)), Remark("Verdict", (self.said,) * bool(self.said))),
            hint="explain()",
            appendix=(Heading("more"),) * page,
        )


def test_what_a_result_concludes_is_its_verdict_or_stands_below_its_tables():
    assert Made("a", verdict="als leads").verdict == "als leads"
    assert Made("a", ("x", "y")).verdict == "below below"
    whole = Made("a").explain(digits=3).tables()
    assert [type(part) for part in whole.parts] == [Table, Heading]
    assert (whole.parts[0].rows[0][0].text, whole.appendix, whole.hint) == ("3", (), "")
    assert Made("a").to_csv() == "a\n'=1\n"


@pytest.mark.parametrize("writer", ["to_markdown", "to_latex", "to_html"])
def test_digits_are_at_most_17(writer):
    write = getattr(Made("a"), writer)
    assert "17" in write(digits=17)
    assert write() == write(digits=2) != write(digits=3)
    with pytest.raises(ipseval.InputError, match=r"^digits must be at most 17; got 18\.$"):
        write(digits=18)


def test_a_report_of_two_evaluations_has_the_verdict_of_each_with_its_tables():
    world = World(n_users=500, n_items=200, mean_relevant=20, rng=0)
    evaluations = []
    for number in (1, 5):
        split = world.split(rng=number)
        models = world.example_models(split, rng=2)
        models = {name: models[name] for name in ("taste", "popular")}
        evaluations.append(ipseval.evaluate(models, split, metrics=["recall@10"]))

    first_verdict, second_verdict = (evaluation.verdict for evaluation in evaluations)
    assert first_verdict.startswith("No clear winner.")
    assert second_verdict.startswith("In the log, taste ranks first by AOA (p = 0.024")
    made = report.Report(evaluations)
    latex = made.to_latex()
    first_part, heading, second_part = latex.partition("\n\\paragraph{2 recommenders, 436 users")
    assert heading
    assert first_part.count("Verdict: No clear winner.") == 1
    assert second_part.count("Verdict: In the log, taste ranks first by AOA (p = 0.024") == 1
    assert latex.count("Verdict: ") == 2
    for text in (str(made), made.to_markdown(), made.to_html()):
        assert "(p = 0.024 against popular)" in " ".join(text.split())


def test_evaluations_with_names_are_one_latex_table():
    world = World(n_users=500, n_items=200, mean_relevant=20, rng=0)
    evaluations = {}
    for number, name in ((1, "random"), (5, "by_time")):
        split = world.split(rng=number)
        models = world.example_models(split, rng=2)
        models = {model: models[model] for model in ("taste", "popular")}
        evaluations[name] = ipseval.evaluate(models, split, metrics=["recall@10", "ndcg@10"])
    made = report.Report(evaluations)
    lines = made.to_latex().splitlines()
    titles = [match[1] for line in lines if (match := re.search(r"\\emph\{(.*)\}\}", line))]
    assert titles == ["recall@10, random", r"recall@10, by\_time", "ndcg@10, random", r"ndcg@10, by\_time"]
    assert sum(line.startswith(r"\begin{tabular}") for line in lines) == 1

    # The rows are those of the table of each evaluation.
    rows = [line for line in lines if line.startswith(("taste & ", "popular & "))]
    expected = {}
    for name, evaluation in evaluations.items():
        alone = evaluation.to_latex().splitlines()
        expected[name] = [line for line in alone if line.startswith(("taste & ", "popular & "))]
    first, second = expected.values()
    assert rows == [*first[:2], *second[:2], *first[2:], *second[2:]]

    # Notes that differ have the name of their evaluation; the others are printed once.
    notes = [line.removeprefix(r"\item ") for line in lines if line.startswith(r"\item ")]
    assert [note.split(":")[0] for note in notes[:2]] == ["random", r"by\_time"]
    assert len(set(notes)) == len(notes)
    assert sum(note.startswith("Bold: ") for note in notes) == 1
    for text in (str(made), made.to_markdown()):
        assert "random: 2 recommenders" in text.replace("**", "")


def test_evaluations_of_different_columns_are_no_latex_table():
    world = World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    split = world.split(rng=1)
    models = {"popular": world.example_models(split, rng=2)["popular"]}
    evaluations = {}
    for gamma in (0, 1):
        evaluations[f"γ{gamma}"] = ipseval.evaluate(
            models, split, metrics=["recall@10"], propensity=f"power-law:gamma={gamma}"
        )
    with pytest.raises(ipseval.InputError, match="results must have the same columns in one table; got AOA"):
        report.Report(evaluations).to_latex()


def test_named_results_of_different_classes_are_written_one_after_another_in_latex():
    world = World(n_users=300, n_items=80, mean_relevant=10, rng=0)
    split = world.split(rng=1)
    evaluation = ipseval.evaluate(world.example_models(split, rng=2), split, metrics=["recall@10"])
    latex = report.Report({"all": evaluation, "groups": evaluation.by("activity")}).to_latex()
    assert r"\paragraph{groups: By activity: 4 groups of users}" in latex


def test_a_report_of_several_results_has_their_parts_behind_the_first():
    first, second = Made("a", ("x", "y")), Made("b", ("y", "x", ""))
    text = report.Report([first, second]).tables()
    assert text.parts[3] == Notes(("Data: no",))
    text_parts = [*text.parts[:3], *text.parts[4:]]
    assert [getattr(part, "text", None) or part.header[0] for part in text_parts] == [
        *"aa",
        "summary of b",
        *"bbb",
    ]
    assert not text.parts[2].folded
    page = report.Report([first, second]).tables(digits=3, page=True)
    assert [part.metric for part in page.parts] == ["x", "y"]
    assert page.appendix[0] == Heading("summary of b", folded=True)
    assert page.appendix[1] == Notes(("Data: no",))
    assert [part.metric for part in page.appendix[2:4]] == ["x", ""]
    assert page.appendix[4:] == ("Groups by other metrics: .frame.", Heading("more"))
    assert page.appendix[2].rows[0][0].text == "3"
    same = report.Report((first, Made("b", ("x",)))).tables(page=True)
    assert "Groups by other metrics: .frame." not in same.appendix
    for none in ([], [3], [first, 3], "ab", first, {}, {"a": 3}, {1: first}):
        with pytest.raises(ipseval.InputError, match="results must be a sequence of at least one result"):
            report.Report(none)
