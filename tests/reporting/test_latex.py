"""LaTeX of a report with nasty names compiles; nothing in a name is a command."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import ipseval
from ipseval.evaluation import write_statement
from ipseval.evaluation.verdict import ModelRanking
from ipseval.metrics import METRICS
from ipseval.reporting import Report, Tables
from ipseval.reporting.tables import Cell, Heading, Notes, Remark, Table
from tests.extras import require_program
from tests.golden.writers import REPORTS
from tests.inside.evaluation import CellStyle, _state_no_difference
from tests.inside.reporting import escape_controls, escape_latex, format_latex_formula, to_latex
from tests.reporting.test_report_names import NAMES
from tests.sources import modules, texts
from tests.worlds import random_split

# pdflatex has no glyphs for these scripts without further packages; xelatex has.
PRINTABLE = [name for name in NAMES if name.isascii() or "Zoë" in name]
PRINTABLE += [r"\end{tabular}", "100 % & #1 ~ ^{x}_{y} $z$"]
PREAMBLE = r"\documentclass{article}\usepackage[T1]{fontenc}\usepackage{booktabs,threeparttable}"


@pytest.fixture(scope="module")
def evaluation() -> ipseval.Evaluation:
    rng = np.random.default_rng(0)
    split = random_split(rng, 40, 20, 0.5)
    scores = {name: rng.normal(size=(split.n_users, split.n_items)) for name in PRINTABLE}
    return ipseval.evaluate(
        scores, split, propensity=ipseval.PowerLawPropensity(gamma=0.0), metrics=["recall@5", "ndcg@5"]
    )


def compiled(latex: str, folder: Path) -> str:
    """Return the log of pdflatex, which has stopped at the first error, if there is one."""
    program = require_program(("pdflatex",), "texlive-latex-extra")
    body = f"{PREAMBLE}\\begin{{document}}\n{latex}\\end{{document}}\n"
    (folder / "report.tex").write_text(body, encoding="utf-8")
    command = [program, "-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape", "report.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    log = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, log[-2000:]
    return log


def test_twenty_nasty_names_compile_and_nothing_is_read_or_missing(evaluation, tmp_path):
    assert len(PRINTABLE) == 20
    log = compiled(evaluation.to_latex(), tmp_path)
    assert (tmp_path / "report.pdf").stat().st_size > 10_000
    assert "Missing character" not in log
    assert "secret" not in log
    assert not list(tmp_path.glob("*secret*"))


@pytest.mark.parametrize("layout", ["long", "models x metrics"])
@pytest.mark.parametrize("notes", [True, False])
def test_each_layout_compiles_with_a_caption_and_a_label(evaluation, tmp_path, layout, notes):
    table = evaluation.to_latex(layout=layout, notes=notes, caption="50% & more_of it", label="tab:a")
    assert table.startswith("\\begin{table}\n\\centering\n\\caption{50\\% \\& more\\_of it}\n\\label{tab:a}")
    assert ("threeparttable" in table) == notes
    compiled(table + "\n\\ref{tab:a}\n", tmp_path)


def test_a_missing_compiler_is_named_and_fails_only_in_ci(monkeypatch):
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match="no nosuchprogram here; install the package tex"):
        require_program(("nosuchprogram",), "tex")
    monkeypatch.delenv("CI")
    with pytest.raises(pytest.skip.Exception, match="no nosuchprogram"):
        require_program(("nosuchprogram",), "tex")


def test_every_result_compiles_in_one_document(evaluation, tmp_path):
    """Blocks with titles, several tables, notes, headings and code."""
    texts = [
        evaluation.explain().to_latex(),
        evaluation.by("popularity:3").to_latex(),
        evaluation.decomposition("recall@5").to_latex(),
        write_statement(evaluation).to_latex(),
        to_latex(REPORTS["whole"]()),
    ]
    compiled("\n".join(texts), tmp_path)


def test_every_character_that_the_library_writes_compiles(tmp_path):
    written = set()
    for tree in modules().values():
        for text in texts(tree):
            written.update(re.findall(".[\u0300-\u036f]|[^\x00-\x7f\u0300-\u036f]", text))
    written = sorted(text for text in written if escape_controls(text) == text)
    assert len(written) > 20
    log = compiled("\\par\n".join(map(escape_latex, written)), tmp_path)
    assert "Missing character" not in log


def test_the_diff_compiles_too(evaluation, tmp_path):
    compiled(evaluation.diff(evaluation).to_latex(), tmp_path)


def test_the_compiler_stops_at_a_name_that_is_not_escaped(tmp_path):
    with pytest.raises(AssertionError, match="Undefined control sequence"):
        compiled(r"\nosuchcommand", tmp_path)


def test_chktex_finds_no_error(evaluation, tmp_path):
    """Another reader of LaTeX; its warnings are about typography, which names may break."""
    if shutil.which("chktex") is None:
        pytest.skip("no chktex here")
    (tmp_path / "report.tex").write_text(evaluation.to_latex(), encoding="utf-8")
    command = ["chktex", "-q", "-f", "%k %n %l\n", "report.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert [line for line in done.stdout.splitlines() if line.startswith("Error")] == []


@pytest.fixture(scope="module")
def small() -> ipseval.Evaluation:
    rng = np.random.default_rng(0)
    split = random_split(rng, 40, 20, 0.5)
    scores = rng.normal(size=(split.n_users, split.n_items))
    models = {"first": scores, "again": scores.copy(), "other": -scores}
    return ipseval.evaluate(
        models, split, propensity="power-law:gamma=0", metrics=["recall@5", "ndcg@5"], low_ess="ignore"
    )


def test_recommenders_that_are_printed_with_the_same_digits_share_bold(small):
    frame = small.frame.set_index(["model", "metric", "estimator"])["estimate"]
    by_model = {model: frame[model, "recall@5", "aoa"] for model in small.models}
    highest = {model for model, value in by_model.items() if value == max(by_model.values())}
    rows = small.to_latex(columns=["aoa"]).split(r"\midrule")[1].splitlines()
    bold = {line.split(" & ")[0] for line in rows if r"\textbf" in line}
    assert bold == highest
    assert r"\textbf" not in small.to_latex(bold=False)


@pytest.mark.filterwarnings("ignore::UserWarning")  # the scores contain the test part
def test_a_dagger_marks_what_the_paired_test_finds_lower_than_the_highest():
    rng = np.random.default_rng(0)
    split = random_split(rng, 200, 20, 0.5)
    truth = np.zeros((split.n_users, split.n_items))
    truth[split.test.user, split.test.item] = 1
    noise = rng.normal(size=truth.shape)
    models = {"good": truth + noise, "good too": truth + 1.01 * noise, "bad": rng.normal(size=truth.shape)}
    evaluation = ipseval.evaluate(models, split, metrics=["recall@5"], estimators=["aoa"])
    p_values = evaluation.compare("good").set_index("model")["p_adjusted"]
    assert p_values["bad"] < 0.05 < p_values["good too"]
    rows = {}
    for line in evaluation.to_latex().splitlines():
        name, _, cells = line.partition(" & ")
        rows[name] = cells
    assert {name: r"\dagger" in rows[name] for name in models} == {
        "good": False,
        "good too": False,
        "bad": True,
    }
    assert "significantly lower than the highest estimate" in evaluation.to_latex()
    assert "dagger" not in evaluation.to_latex(significance=False)


def evaluate_noise(seed: int) -> ipseval.Evaluation:
    rng = np.random.default_rng(seed)
    split = random_split(rng, 60, 20, 0.5)
    models = {name: rng.normal(size=(split.n_users, split.n_items)) for name in "abc"}
    return ipseval.evaluate(models, split, metrics=["recall@5"], estimators=["aoa"])


@pytest.mark.filterwarnings("ignore::UserWarning")  # the scores are random
def test_a_table_states_that_no_difference_is_significant_only_where_no_pair_differs():
    note = r"\item No difference is significant (paired test, Holm's correction, $p \geq 0.05$)."
    without_difference = evaluate_noise(0)
    assert (without_difference.compare()["p_adjusted"] >= 0.05).all()
    assert without_difference.to_latex().splitlines().count(note) == 1
    assert "significant" not in without_difference.to_latex(significance=False)
    alone = ipseval.evaluate_ranks({"a": without_difference.samples["a"].ranked}, metrics=["recall@5"])
    assert "significant" not in alone.to_latex()

    # The highest differs from none, but two others differ: nothing has a dagger, and the note would be false.
    two_differ = np.zeros((3, 3), dtype=bool)
    two_differ[1, 2] = two_differ[2, 1] = True
    for significant, n_notes in ((two_differ, 0), (np.zeros((3, 3), dtype=bool), 1)):
        tests = SimpleNamespace(is_significant=lambda names, level, value=significant: value)
        ranking = ModelRanking("aoa", ("a", "b", "c"), ("a", "b", "c"), np.nan, tests=tests)
        table = SimpleNamespace(labels=("aoa",), verdict=SimpleNamespace(rankings={"aoa": ranking}))
        assert len(_state_no_difference([table], CellStyle(bold=True, significance=True))) == n_notes


@pytest.mark.filterwarnings("ignore::UserWarning")  # the scores are random
def test_the_joint_table_names_the_evaluation_without_a_significant_difference():
    noise = evaluate_noise(0)
    rng = np.random.default_rng(0)
    split = random_split(rng, 200, 20, 0.5)
    truth = np.zeros((split.n_users, split.n_items))
    truth[split.test.user, split.test.item] = 1
    models = {"a": truth + rng.normal(size=truth.shape), "b": rng.normal(size=truth.shape)}
    different = ipseval.evaluate(models, split, metrics=["recall@5"], estimators=["aoa"])
    latex = Report({"noise": noise, "different": different}).to_latex()
    (line,) = (line for line in latex.splitlines() if "No difference is significant" in line)
    assert line.startswith(r"\item noise: ")
    twice = Report({"noise": noise, "again": evaluate_noise(0)}).to_latex()
    (line,) = (line for line in twice.splitlines() if "No difference is significant" in line)
    assert line.startswith(r"\item No difference")


def test_the_exponent_of_popularity_is_raised(small):
    assert r"propensities $\propto$ $\mathrm{popularity}^{(\gamma+1)/2}$, $\gamma$ = 0." in small.to_latex()


def test_columns_are_chosen_by_label_and_named_by_estimator_and_assumption(small):
    assert "SNIPS" not in small.to_latex(columns=["AOA"], notes=False)
    chosen = small.to_latex(columns=["snips-global"], layout="models x metrics", notes=False)
    assert r"\shortstack[r]{SNIPS\\($\gamma$ = 0 assumed)}" in chosen
    assert "AOA" not in chosen
    assert chosen.count(r"\cmidrule(lr)") == 2


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"columns": []}, "columns must name at least one estimator; got none"),
        ({"columns": ["aoa", "aoa"]}, "columns must be unique; got aoa, aoa"),
        ({"columns": ["ips"]}, "columns"),
        ({"layout": "tall"}, "layout"),
        ({"label": "a}b"}, "label must consist of ASCII letters"),
        ({"caption": 3}, "caption must be a text or None; got int"),
        ({"digits": 18}, "digits must be at most 17; got 18"),
    ],
)
def test_an_option_that_cannot_be_used_is_refused(small, options, words):
    with pytest.raises(ipseval.InputError, match=words):
        small.to_latex(**options)


def test_the_formula_of_every_metric_is_mathematics_that_compiles(tmp_path):
    lines = []
    for name in METRICS:
        cutoff = 5 if METRICS[name].takes_cutoff == "required" else None
        formula = METRICS[name](cutoff).definition.formula
        written = format_latex_formula(formula)
        assert written != escape_latex(formula)
        lines.append(f"{written}\\par")
    assert "Missing character" not in compiled("\n".join(lines), tmp_path)


@pytest.mark.parametrize(
    ("formula", "written"),
    [
        (
            "Σ_{i∈S} 1{r_i ≤ k} / log2(1 + r_i) / s",
            r"$\sum_{i\in S} 1\{r_{i} \leq k\} / \log_2(1 + r_{i}) / s$",
        ),
        ("(1 − p) Σ_{i∈S} p^(r_i − 1)", r"$(1 - p) \sum_{i\in S} p^{r_{i} - 1}$"),
        ("popularity^((γ+1)/2)", r"$\mathrm{popularity}^{(\gamma+1)/2}$"),
        ("0 beyond k", r"$0\ \mathrm{beyond}\ k$"),
        # What may be no formula is text: a command, a bracket without its partner, a sign that is not known.
        (r"\input{x}", r"\textbackslash{}input\{x\}"),
        ("r_{i", r"r\_\{i"),
        ("a) + (b", "a) + (b"),
        ("100%", r"100\%"),
    ],
)
def test_a_formula_is_mathematics_and_what_may_be_none_is_text(formula, written):
    assert format_latex_formula(formula) == written


def test_a_report_without_tables_begins_with_its_remarks_and_notes_follow_their_heading():
    parts = (Heading("One"), Notes(("first", "r_i ≤ k")), Heading("Two"), Notes(("last",)))
    report = Tables(
        ("summary",), parts, "title", remarks=(Remark("Verdict", ("none",)),), formulas=("r_i ≤ k",)
    )
    assert to_latex(report).splitlines() == [
        r"Verdict: none\par",
        r"summary\par",
        r"\paragraph{One}",
        r"first\par",
        r"$r_{i} \leq k$\par",
        r"\paragraph{Two}",
        r"last\par",
    ]


def test_notes_of_a_section_without_a_table_stay_below_their_heading_before_a_table():
    parts = (Heading("One"), Notes(("first",)), Heading("Two"), Table(("a",), ((Cell("1"),),)))
    lines = to_latex(Tables(("summary",), parts)).splitlines()
    assert lines[:3] == [r"\paragraph{One}", r"first\par", r"\paragraph{Two}"]
    assert r"\item summary" in lines[3:]
