"""The site: pages made from notebooks and from the parser, links, spelling, and search in a folder."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.docs import command_line
from tests.docs.links import find_problems
from tests.docs.screenshots import PAGES, find_browser, take_screenshots
from tools.build_site import build_site, convert_notebook, stage_pages, typeset_formulae

ROOT = Path(__file__).resolve().parents[2]
ZENSICAL = pytest.mark.skipif(
    any(find_spec(name) is None for name in ("zensical", "mkdocstrings")),
    reason="the site needs zensical: pip install -e '.[docs]'",
)


def test_the_page_of_the_command_line_is_what_the_parser_says():
    assert command_line.PAGE.read_text("utf-8") == command_line.format_page(), f"run: {command_line.COMMAND}"


def test_the_help_that_lists_the_commands_is_the_golden_one():
    # Where lines break differs between versions.
    printed = command_line.format_help(command_line.list_parsers()[""])
    assert printed.split() == command_line.HELP.read_text("utf-8").split(), f"run: {command_line.COMMAND}"


@pytest.mark.parametrize("name", [name for name in command_line.list_parsers() if name])
def test_the_help_of_a_command_fits_a_screen_and_names_the_rest(name: str, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "100")
    with pytest.raises(SystemExit):
        command_line.list_parsers()[""].parse_args([name, "--help"])
    printed = capsys.readouterr().out
    n_lines = printed.count("\n")
    assert n_lines <= 50, (
        f"{name} --help has {n_lines} lines: shorten a help text in ipseval/cli/_options.py, or hide an option"
    )
    assert "examples:\n  ipseval" in printed
    assert ("--help-all" in printed) == (
        command_line.format_help(command_line.list_parsers()[name]).count("\n") > 40
    )


def test_a_notebook_becomes_a_page_with_code_outputs_and_pictures(tmp_path):
    html = "<table>\n\n<tr><td>1</td></tr></table>"
    outputs = [
        {"output_type": "stream", "text": ["printed\n"]},
        {"output_type": "execute_result", "data": {"text/html": [html], "text/plain": ["1"]}},
        {"output_type": "display_data", "data": {"image/png": "aGVsbG8=", "text/plain": ["<Figure>"]}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# 1 · Title, [more](../docs/a.md)"]},
        {"cell_type": "code", "source": ["x = 1\n", "x"], "outputs": outputs},
    ]
    (tmp_path / "01-a.ipynb").write_text(json.dumps({"cells": cells}))
    page = convert_notebook(tmp_path / "01-a.ipynb").read_text()
    assert page == (
        "# 1 · Title, [more](../a.md)\n\n```python\nx = 1\nx\n```\n\n```text\nprinted\n```\n\n"
        '<div class="output">\n<table>\n<tr><td>1</td></tr></table>\n</div>\n\n'
        "![Picture drawn by the code above](01-a-1.png)\n"
    )
    assert (tmp_path / "01-a-1.png").read_bytes() == b"hello"


def test_staged_pages_link_to_pages_made_from_notebooks(tmp_path):
    configuration = stage_pages(tmp_path).read_text("utf-8")
    assert ".ipynb" not in configuration
    assert "notebooks/01-first-evaluation.md" in configuration
    index = (tmp_path / "docs/index.md").read_text("utf-8")
    assert "](notebooks/01-first-evaluation.md)" in index
    assert (tmp_path / "docs/notebooks/01-first-evaluation.md").exists()


def test_formulae_between_dollar_signs_become_mathml_and_code_stays():
    pytest.importorskip("latex2mathml", reason="latex2mathml is not installed: pip install -e '.[docs]'")
    page = typeset_formulae("$x_i$ and `$x$`\n\n$$\\frac{1}{n}$$\n\n```sh\necho $HOME $USER\n```\n")
    inline, _, rest = page.partition(" and `$x$`")
    assert inline.startswith("<math")
    assert 'display="inline"' in inline
    assert "<msub>" in inline
    assert "<mfrac>" in rest
    assert 'display="block"' in rest
    assert rest.endswith("```sh\necho $HOME $USER\n```\n")


def test_no_inline_formula_begins_a_line_because_markdown_would_make_it_a_paragraph():
    pytest.importorskip("latex2mathml", reason="latex2mathml is not installed: pip install -e '.[docs]'")
    assert typeset_formulae("the weight is\n$w$. Next").startswith("the weight is <math")
    for path in sorted((ROOT / "docs").rglob("*.md")):
        page = typeset_formulae(path.read_text("utf-8"))
        assert not re.search(r'^ *<math[^>]*display="inline"', page, re.MULTILINE), path.name


def test_dead_links_anchors_and_loads_from_elsewhere_are_found(tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "index.html").write_text(
        '<a href="sub/b.html#here">1</a><a href="sub/b.html#gone">2</a><a href="none.html">3</a>'
        '<a href="https://example.org">4</a><script src="https://example.org/x.js"></script>'
        '<img src="p.png"><link rel="canonical" href="https://example.org/">'
    )
    (tmp_path / "sub/b.html").write_text('<p id="here"><a href="../index.html">up</a>')
    assert find_problems(tmp_path) == [
        "index.html: loads https://example.org/x.js",
        "index.html: sub/b.html#gone has no such anchor",
        "index.html: none.html is not there",
        "index.html: p.png is not there",
    ]


def test_no_word_is_misspelled():
    program = shutil.which("codespell") or shutil.which("codespell", path=Path(sys.executable).parent)
    if program is None:
        pytest.skip("codespell is not installed: pip install -e '.[docs]'")
    prose = ["docs", *map(str, ROOT.glob("*.md")), "data/README.md"]
    done = subprocess.run([program, *prose], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout == ""


def test_the_ten_pages_of_the_screenshots_are_pages():
    menu = (ROOT / "mkdocs.yml").read_text("utf-8")
    assert len(set(PAGES)) == 10
    assert [page for page in PAGES if not re.search(rf" {page}\.(md|ipynb)", menu)] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("site") / "site"
    build_site(folder)
    return folder


@ZENSICAL
@pytest.mark.slow
def test_the_site_builds_without_dead_links_and_loads_nothing_from_elsewhere(site):
    assert find_problems(site) == []
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    assert not [page for page in pages if "unpkg.com" in page.read_text("utf-8")]
    assert "evaluate_ranks" in (site / "api/evaluation.html").read_text("utf-8")


@ZENSICAL
@pytest.mark.slow
@pytest.mark.skipif(find_browser() is None, reason="no Chromium here; install the package chromium")
def test_the_search_finds_a_word_in_a_site_that_is_opened_from_a_folder(site, tmp_path):
    script = """<script>addEventListener("load", () => setTimeout(() => {
        document.querySelector(".md-search__button").click();
        setTimeout(() => document.execCommand("insertText", false, "propensity"), 1000);
        setTimeout(() => { // the results are in a shadow tree, which is not dumped
            const trees = [...document.querySelectorAll("*")].map(one => one.shadowRoot?.textContent || "");
            document.body.dataset.found = trees.join(" ").slice(0, 5000);
        }, 4000); }, 1000))</script></body>"""
    page = site / "search-test.html"
    page.write_text((site / "index.html").read_text("utf-8").replace("</body>", script), "utf-8")
    command = [
        str(find_browser()),
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--virtual-time-budget=9000",
    ]
    command += [f"--user-data-dir={tmp_path}", "--dump-dom", page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    page.unlink()
    assert re.search(r"\d+ results", done.stdout)


@ZENSICAL
@pytest.mark.slow
@pytest.mark.skipif(find_browser() is None, reason="no Chromium here; install the package chromium")
def test_screenshots_of_the_main_pages_are_made_at_both_widths(site, tmp_path):
    pictures = take_screenshots(site, tmp_path, PAGES[:1])
    assert [path.name for path in pictures] == ["index-1280.png", "index-400.png"]
    assert all(path.stat().st_size > 20_000 for path in pictures)
