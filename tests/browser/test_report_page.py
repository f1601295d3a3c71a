"""The HTML report in a real browser: a quiet console, no request, and nothing that users wrote is run."""

from __future__ import annotations

import re
import shutil
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import ipseval

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = pytest.mark.skipif(BROWSER is None, reason="no Chromium here; install the package chromium")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=2000",
    "--dump-dom",
)


@dataclass
class Server:
    """A server that counts what is asked of it."""

    port: int
    requests: list[str] = field(default_factory=list)

    def url(self, path: str) -> str:
        return f"http://127.0.0.1:{self.port}/{path}"


@pytest.fixture
def server() -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            counted.requests.append(self.path)
            self.send_response(404)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        counted = Server(running.server_address[1])
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield counted
        running.shutdown()
        thread.join()


def visit(page: Path, profile: Path) -> tuple[str, list[str]]:
    """Return the document as the browser holds it after loading, and the lines of its console."""
    done = subprocess.run(
        [str(BROWSER), *FLAGS, f"--user-data-dir={profile}", page.as_uri()],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout, re.findall(r"CONSOLE.*", done.stderr)


def report(path: Path, *names: str) -> None:
    """Write the report of two recommenders for each name, on items with quotes in their ids."""
    rng = np.random.default_rng(0)
    pairs = pd.DataFrame(np.argwhere(rng.random((40, 20)) < 0.8), columns=["user", "item"])
    pairs["item"] = [f"it\"em'<b>{item}" for item in pairs["item"]]
    split = ipseval.split_random(ipseval.Interactions.from_frame(pairs), test_fraction=0.4, rng=0)
    ipseval.evaluate(
        {name: rng.random((40, 20)) for name in names},
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0.0),
        metrics=["recall@5", "auc"],
        on_low_ess="ignore",
    ).to_html(path, title="<script>document.title='taken'</script>")


def test_a_report_with_hostile_names_runs_nothing_requests_nothing_and_has_a_quiet_console(tmp_path, server):
    names = (
        "<script>alert(1)</script>",
        "<script>console.error('taken')</script>",
        f"<img src='{server.url('image')}' onerror=\"document.title='taken'\">",
        f'"><link rel=stylesheet href={server.url("style")}>',
        f"' style='background:url({server.url('background')})",
        "{{ 7 * 7 }} ${7 * 7}",
    )
    report(tmp_path / "report.html", *names)
    document, console = visit(tmp_path / "report.html", tmp_path / "profile")
    assert console == []
    assert server.requests == []
    assert "<title>&lt;script&gt;document.title='taken'&lt;/script&gt;</title>" in document
    assert "<script" not in document
    assert '<link rel="icon" href="data:,">' in document
    assert document.count("<link") == 1
    # Every recommender has a row in both tables, its name as it was written.
    for name in names:
        written = name.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        assert document.count(f'<th scope="row">{written}</th>') == 2
    assert document.count("<img") == 2


def test_a_report_names_no_address_outside_the_page(tmp_path):
    report(tmp_path / "report.html", "als", "bpr")
    html = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert not re.search(r"https?:|//[a-z]|@import|url\(", re.sub(r"base64,[^\"]*", "", html))


def test_the_check_itself_sees_requests_scripts_and_console_errors(tmp_path, server):
    page = tmp_path / "page.html"
    page.write_text(
        f"<img src='{server.url('image')}'><script>console.error('seen'); document.title = 'taken'</script>"
    )
    document, console = visit(page, tmp_path / "profile")
    assert server.requests == ["/image"]
    assert any("seen" in line for line in console)
    assert "<title>taken</title>" in document


def test_the_policy_of_the_page_stops_what_escaping_would_miss(tmp_path, server):
    """Were a name ever written unescaped, the browser would still refuse to run or fetch it."""
    page = tmp_path / "report.html"
    report(page, "als", "bpr")
    planted = f"<img src='{server.url('image')}'><script>document.title = 'taken'</script></body>"
    page.write_text(page.read_text(encoding="utf-8").replace("</body>", planted), encoding="utf-8")
    document, console = visit(page, tmp_path / "profile")
    assert server.requests == []
    assert "<title>taken</title>" not in document
    assert any("Content Security Policy" in line for line in console)
