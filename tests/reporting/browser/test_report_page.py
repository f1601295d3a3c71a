"""The HTML report in a real browser: what users wrote is never run, and nothing leaves the page."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd

import ipseval

NAMES = (
    "<script>alert(1)</script>",
    "<script>console.error('taken')</script>",
    "<img src='http://127.0.0.1:9/image' onerror=\"document.title='taken'\">",
    '"><link rel=stylesheet href=http://127.0.0.1:9/style>',
    "' style='background:url(http://127.0.0.1:9/background)",
    "{{ 7 * 7 }} ${7 * 7}",
)


def write_report(path: Path, *names: str) -> None:
    """Write the report of a recommender for each name, on items with quotes in their ids."""
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame(np.argwhere(rng.random((40, 20)) < 0.8), columns=["user", "item"])
    pairs["item"] = [f"it\"em'<b>{item}" for item in pairs["item"]]
    split = ipseval.split_random(ipseval.Interactions.from_frame(pairs), test_fraction=0.4, rng=0)
    ipseval.evaluate(
        {name: rng.random((40, 20)) for name in names},
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0.0),
        metrics=["recall@5", "auc"],
        low_ess="ignore",
    ).to_html(path, title="<script>document.title='taken'</script>")


def test_a_report_with_hostile_names_runs_nothing_requests_nothing_and_has_a_quiet_console(tmp_path, visit):
    write_report(tmp_path / "report.html", *NAMES)
    seen = visit(tmp_path / "report.html")
    assert seen.console == []
    assert seen.requests == []
    assert seen.page.title() == "<script>document.title='taken'</script>"
    assert seen.page.locator("script").count() == 1
    assert seen.page.locator("img").count() == 0
    assert seen.page.locator("link").count() == 1
    # Every recommender has a row in both tables, its name as it was written.
    for number in (0, 1):
        assert set(seen.rows(number)) == set(NAMES)
    # Hovering, sorting and filtering show names again: as text.
    seen.page.locator("#filter").fill("<script>")
    assert len(seen.rows(0)) == 2
    assert seen.console == seen.requests == []


def test_a_report_names_no_address_outside_the_page(tmp_path):
    write_report(tmp_path / "report.html", "als", "bpr")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|//[a-z]|@import|url\((?!#)", html)


def test_the_check_itself_sees_requests_scripts_and_console_errors(tmp_path, visit):
    page = tmp_path / "page.html"
    page.write_text(
        "<img src='http://127.0.0.1:9/image'><script>console.error('seen'); document.title = 'taken'</script>"
    )
    seen = visit(page)
    assert seen.requests == ["http://127.0.0.1:9/image"]
    assert "seen" in seen.console
    assert seen.page.title() == "taken"


def test_the_policy_of_the_page_stops_what_escaping_would_miss(tmp_path, visit):
    """Were a name ever written unescaped, the browser would still refuse to run, to style or to fetch it."""
    page = tmp_path / "report.html"
    write_report(page, "als", "bpr")
    planted = (
        "<img src='http://127.0.0.1:9/image'><script>document.title = 'taken'</script>"
        "<style>body{color:#123456}</style><p id='styled' style='color:#123456'>p</p></body>"
    )
    page.write_text(page.read_text(encoding="utf-8").replace("</body>", planted), encoding="utf-8")
    seen = visit(page)
    assert seen.page.title() != "taken"
    assert seen.refused == ["csp http://127.0.0.1:9/image"]
    colour = "getComputedStyle(document.getElementById('styled')).color"
    assert seen.page.evaluate(colour) != "rgb(18, 52, 86)"
    # Each of the four is refused, which the console says.
    assert sum("Content Security Policy" in line for line in seen.console) == 4
