"""A real browser for the tests of pages: Chromium of the system, driven by playwright."""

from __future__ import annotations

import shutil
import subprocess
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import ipseval
from tests.extras import require_program

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
AXE = "axe-core@4"


@dataclass
class Visit:
    """A page that is open, with what it asked for beyond its own file, and what was refused."""

    page: Any
    requests: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def rows(self, number: int = 0, column: int = 0) -> list[str]:
        """Return the texts of a column of one table, of the rows that are shown, without its pictures."""
        table = self.page.locator("table").nth(number)
        rows = [row for row in table.locator("tbody tr").all() if row.is_visible()]
        return [row.locator("th,td").nth(column).inner_text().strip() for row in rows]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    program = require_program(BROWSERS, "chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright drives the browser")
    with playwright.sync_playwright() as running:
        browser = running.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def visit(chromium: Any) -> Iterator[Callable[..., Visit]]:
    contexts = []

    def opened(path: Path, *, width: int = 1280, dark: bool = False, media: str = "screen") -> Visit:
        scheme = "dark" if dark else "light"
        context = chromium.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.emulate_media(media=media)
        seen = Visit(page)
        uri = path.resolve().as_uri()
        page.on("request", lambda one: seen.requests.append(one.url) if one.url != uri else None)
        page.on("requestfailed", lambda one: seen.refused.append(f"{one.failure} {one.url}"))
        page.on("console", lambda one: seen.console.append(one.text))
        page.on("pageerror", lambda one: seen.console.append(str(one)))
        page.goto(uri)
        return seen

    yield opened
    for context in contexts:
        context.close()


@pytest.fixture(scope="session")
def axe(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the source of axe-core, which finds faults of accessibility, from npm."""
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("no npm here, which brings axe-core")
    folder = tmp_path_factory.mktemp("axe")
    packed = subprocess.run([npm, "pack", "--silent", AXE], cwd=folder, capture_output=True, check=False)
    archives = list(folder.glob("*.tgz"))
    if packed.returncode or not archives:
        pytest.skip(f"npm could not bring {AXE}: {packed.stderr.decode()[-200:]}")
    shutil.unpack_archive(archives[0], folder, filter="data")
    return (folder / "package" / "axe.min.js").read_text(encoding="utf-8")


@pytest.fixture(scope="session")
def evaluation() -> ipseval.Evaluation:
    """Evaluate six recommenders by two metrics, from good ones to a random one."""
    rng = np.random.default_rng(0)
    chance = np.linspace(0.6, 0.05, 60)
    pairs = pd.DataFrame(np.argwhere(rng.random((150, 60)) < chance), columns=["user", "item"])
    split = ipseval.split_random(ipseval.Interactions.from_frame(pairs), test_fraction=0.4, rng=0)
    noise, models = rng.normal(size=(6, 150, 60)), {}
    for number, name in enumerate(("EASE", "ALS", "BPR", "item-kNN", "popularity", "random")):
        scores = noise[number]
        scores[split.test.user, split.test.item] += 1.5 - 0.3 * number
        models[name] = scores + (5 - number) / 5 * np.log1p(split.train.popularity)
    gamma = ipseval.PowerLawPropensity(gamma=0.0)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "random finds .* as many as by chance")
        return ipseval.evaluate(models, split, propensity=gamma, metrics=["recall@10", "ndcg@10"])


@pytest.fixture(scope="session")
def report(evaluation: ipseval.Evaluation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    evaluation.to_html(path)
    return path
