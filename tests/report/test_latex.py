"""LaTeX and Markdown of a report with nasty names compile; nothing in a name is a command."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import ipseval
from tests.report.test_report_names import NAMES
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
    if shutil.which("pdflatex") is None:
        pytest.skip("no pdflatex here; install texlive-latex-extra")
    found = subprocess.run(["kpsewhich", "threeparttable.sty"], capture_output=True, text=True, check=False)
    if not found.stdout.strip():
        pytest.skip("no threeparttable here; install texlive-latex-extra")
    body = f"{PREAMBLE}\\begin{{document}}\n{latex}\\end{{document}}\n"
    (folder / "report.tex").write_text(body, encoding="utf-8")
    command = ["pdflatex", "-halt-on-error", "-interaction=nonstopmode", "-no-shell-escape", "report.tex"]
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
def test_one_table_of_all_metrics_compiles_in_both_layouts_with_caption_label_and_notes(
    evaluation, layout, tmp_path
):
    latex = evaluation.to_latex(
        columns=["aoa", "snips-global"], layout=layout, caption="50% of $x$ & #1", label="tab:results"
    )
    assert latex.count(r"\begin{tabular}") == latex.count(r"\toprule") == 1
    log = compiled(latex, tmp_path)
    assert "Missing character" not in log
    assert "secret" not in log
    for metric in ("recall@5", "ndcg@5"):
        assert metric in latex
    assert r"\label{tab:results}" in latex
    assert r"\caption{50\% of" in latex


@pytest.mark.parametrize("layout", ["long", "models x metrics"])
def test_notes_and_bold_can_be_left_out_and_columns_chosen(evaluation, layout, tmp_path):
    latex = evaluation.to_latex(columns=["snips-global"], layout=layout, notes=False, bold=False)
    for command in ("tablenotes", r"\textbf{", r"\begin{table}", "AOA"):
        assert command not in latex
    compiled(latex, tmp_path)
    with pytest.raises(ipseval.errors.UnknownNameError, match="columns"):
        evaluation.to_latex(columns=["ips"])


@pytest.mark.parametrize("layout", ["long", "models x metrics"])
def test_estimates_that_are_printed_alike_share_bold(layout):
    split = random_split(np.random.default_rng(0), 40, 20, 0.5)
    scores = np.random.default_rng(1).normal(size=(split.n_users, split.n_items))
    scores[split.test.user, split.test.item] += 1
    models = {"a": scores, "b": scores.copy(), "c": -scores}
    latex = ipseval.evaluate(models, split, metrics=["recall@5"]).to_latex(layout=layout)
    rows = [line for line in latex.splitlines() if line.startswith(("a &", "b &", "c &"))]
    assert [row.count(r"\textbf{") for row in rows] == [1, 1, 0]


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


def test_markdown_is_one_table_per_metric_with_every_name_as_text(evaluation):
    """Read by the parser of the documentation, which follows the same rules as GitHub for tables."""
    markdown = pytest.importorskip("markdown", reason="the parser of Markdown is not installed")
    html = markdown.markdown(evaluation.to_markdown(), extensions=["tables"])
    assert html.count("<table>") == 2
    assert not re.search(r"<(script|img|a|code)\b", html)
    assert html.count("<tr>") == 2 * (1 + len(PRINTABLE))
