"""What a reader does with the page: sort, filter, choose, hover, print, read it on a phone or by ear."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import pairwise

import pytest

FINE = {"minor", "moderate"}


def numbers(texts: list[str]) -> list[float]:
    """Return the number that each text begins with."""
    return [float(re.match(r"[-+−]?[\d.]+", text).group().replace("−", "-")) for text in texts]


def heads(seen, table: int = 0):
    return seen.page.locator("table").nth(table).locator("thead th")


def test_a_click_sorts_by_the_number_and_says_so_and_a_second_click_turns_it_round(report, visit):
    seen = visit(report)
    names = seen.rows()
    button = heads(seen).nth(1).locator("button")
    button.click()
    audit = numbers(seen.rows(column=1))
    assert audit == sorted(audit, reverse=True)
    assert heads(seen).nth(1).get_attribute("aria-sort") == "descending"
    button.press("Enter")  # with the keyboard
    assert numbers(seen.rows(column=1)) == sorted(audit)
    assert heads(seen).nth(1).get_attribute("aria-sort") == "ascending"
    heads(seen).first.locator("button").click()
    assert seen.rows() == sorted(names, key=str.lower)
    assert [heads(seen).nth(place).get_attribute("aria-sort") for place in (0, 1)] == ["ascending", "none"]


def test_numbers_with_a_minus_sign_sort_below_zero_and_words_stay_last(visit, tmp_path):
    from ipseval.reporting import Tables
    from tests.inside.reporting import Cell, Table, to_html

    texts = ("−0.5", "+0.25", "undefined", "1,200", "−3e-05", ".125")
    rows = tuple((Cell(text), Cell(text)) for text in texts)
    page = Tables((), (Table(("name", "value"), rows, metric="m"),), title="Title")
    (tmp_path / "page.html").write_text(to_html(page), encoding="utf-8")
    seen = visit(tmp_path / "page.html")
    expected = ["1,200", "+0.25", ".125", "−3e-05", "−0.5"]
    heads(seen).nth(1).locator("button").click()
    assert seen.rows() == [*expected, "undefined"]
    heads(seen).nth(1).locator("button").click()
    assert seen.rows() == [*expected[::-1], "undefined"]


def test_the_filter_leaves_the_names_that_hold_the_words_in_every_table_of_recommenders(report, visit):
    seen = visit(report)
    seen.page.locator("#filter").fill("als")
    assert seen.rows(0) == seen.rows(1) == ["ALS"]
    assert seen.page.locator("#count").inner_text() == "1 shown"
    seen.page.locator("#filter").fill("")
    assert len(seen.rows(0)) == 6


def test_one_metric_can_be_chosen(report, visit):
    seen = visit(report)
    of_auc = seen.page.locator('[data-g="ndcg@10"]')
    assert of_auc.count() > 0
    seen.page.locator("#metric").select_option("recall@10")
    assert not any(element.is_visible() for element in of_auc.all())
    seen.page.locator("#metric").select_option("")
    assert all(element.is_visible() for element in of_auc.all())


def test_the_theme_follows_the_system_until_one_is_chosen(report, visit):
    paper = "getComputedStyle(document.body).backgroundColor"
    light, dark = visit(report), visit(report, dark=True)
    colours = light.page.evaluate(paper), dark.page.evaluate(paper)
    assert colours[0] == "rgb(255, 255, 255)" != colours[1]
    light.page.locator("#theme").select_option("dark")
    dark.page.locator("#theme").select_option("light")
    assert (dark.page.evaluate(paper), light.page.evaluate(paper)) == colours


def test_values_are_shown_where_the_pointer_is(report, visit):
    seen = visit(report)
    tip = seen.page.locator(".tip")
    assert not tip.is_visible()
    band = seen.page.locator("figure .h").nth(8)
    band.hover()
    assert tip.is_visible()
    assert re.match(r"γ = [−\d.]+\n", tip.inner_text())
    assert "EASE" in tip.inner_text()
    seen.page.keyboard.press("Escape")
    assert not tip.is_visible()


def test_on_a_phone_nothing_is_cut_and_every_value_of_a_card_has_its_name(report, visit):
    seen = visit(report, width=400)
    assert seen.page.evaluate("document.documentElement.scrollWidth") == 400
    for place, cell in enumerate(
        seen.page.locator("table").first.locator("tbody tr").first.locator("td").all()
    ):
        shown = cell.evaluate("one => getComputedStyle(one, '::before').content")
        name = heads(seen).nth(place + 1).locator("button").inner_text()
        assert shown.strip('"') == name
    wide = seen.page.evaluate(
        "[...document.querySelectorAll('main *')].filter(e => e.getBoundingClientRect().right > 401"
        " && !e.closest('details,table:not(.s) thead')).map(e => e.outerHTML.slice(0, 80))"
    )
    assert wide == []


def test_what_is_printed_is_unfolded_light_and_without_tools(report, visit):
    seen = visit(report, dark=True, media="print")
    assert not seen.page.locator("#tools").is_visible()
    assert not seen.page.locator("nav").is_visible()
    assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert seen.page.locator("details:not([open])").count() == 0
    assert seen.page.locator("details[open]").count() > 1
    seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert seen.page.locator("details[open]").count() == 0


def test_without_a_script_the_page_says_the_same(report, chromium):
    context = chromium.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(report.as_uri())
    assert not page.locator("#tools").is_visible()
    assert page.locator("table").first.locator("tbody tr").count() == 6
    context.close()


@pytest.mark.parametrize("options", [{}, {"dark": True}, {"width": 400}], ids=["light", "dark", "phone"])
def test_axe_finds_no_serious_fault_of_accessibility(report, visit, axe, options):
    seen = visit(report, **options)
    seen.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
    # The policy of the page refuses further scripts; the debugger may evaluate one.
    evaluation = seen.page.evaluate(f"{axe}; axe.run()")
    assert len(evaluation["passes"]) > 20
    faults = {
        (element["id"], element["impact"], node["html"][:120])
        for element in evaluation["violations"]
        if element["impact"] not in FINE
        for node in element["nodes"]
    }
    assert not faults


def test_a_screen_reader_hears_the_verdict_before_the_tables_and_no_level_of_heading_is_left_out(
    report, visit
):
    seen = visit(report)
    levels = [int(element.evaluate("e => e.tagName[1]")) for element in seen.page.locator("h1,h2,h3").all()]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(levels))
    order = seen.page.evaluate(
        "[...document.querySelectorAll('h1, .verdict, nav, #filter, main table')]"
        ".map(e => e.className || e.id || e.tagName)"
    )
    assert order[0] == "H1"
    assert order.index("verdict") < order.index("NAV") < order.index("filter") < order.index("s f")
    tree = seen.page.locator("main").aria_snapshot()
    # Rows, their heads and the columns keep their roles, as a table and as cards.
    for words in ("columnheader", "rowheader", 'button "'):
        assert words in tree
        assert words in visit(report, width=400).page.locator("main").aria_snapshot()
    assert all(element.get_attribute("aria-label") for element in seen.page.locator('svg[role="img"]').all())
    named = seen.page.locator("main .scroll").all()
    assert all(element.get_attribute("aria-label") for element in named)


def test_other_results_have_pages_of_the_same_kind(evaluation, visit, axe, tmp_path):
    """A diff and segments: by the same renderer, with the same tools and no faults."""
    pages = {
        "diff": evaluation.diff(evaluation).to_html(),
        "segments": replace(evaluation, segments={"popularity": evaluation.by("popularity:3")}).to_html(),
    }
    for name, text in pages.items():
        (tmp_path / f"{name}.html").write_text(text, encoding="utf-8")
        seen = visit(tmp_path / f"{name}.html", width=400)
        assert seen.requests == seen.console == []
        assert seen.page.evaluate("document.documentElement.scrollWidth") == 400
        heads(seen).nth(1).locator("button").click()
        assert heads(seen).nth(1).get_attribute("aria-sort") == "descending"
        seen.page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true; })")
        found = seen.page.evaluate(f"{axe}; axe.run()")
        assert [element["id"] for element in found["violations"] if element["impact"] not in FINE] == []
