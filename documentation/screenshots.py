"""Screenshots of the main pages at the width of a desk and of a phone, to be looked at."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

PAGES = (
    *("index", "tutorial", "command-line", "cookbook", "glossary"),
    *("which-estimator", "propensity", "support", "api/evaluation", "notebooks/01-first-evaluation"),
)
WIDTHS = (1280, 400)
HEIGHT = 1600
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def browser() -> str | None:
    """Return the program of a Chromium, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def take(site: Path, folder: Path, pages: tuple[str, ...] = PAGES) -> list[Path]:
    """Write one PNG per page and width into a folder, and return them.

    A browser's window has a least width; a frame inside it has none.
    """
    program = browser()
    if program is None:
        raise SystemExit("screenshots need Chromium")
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    with tempfile.TemporaryDirectory() as scratch:
        for page in pages:
            for width in WIDTHS:
                frame = Path(scratch) / "frame.html"
                size = f'style="border:0" width="{width}" height="{HEIGHT}"'
                address = f"{(site / page).resolve().as_uri()}.html"
                frame.write_text(f'<body style="margin:0"><iframe {size} src="{address}"></iframe>')
                target = folder / f"{page.replace('/', '-')}-{width}.png"
                command = [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]
                command += [f"--user-data-dir={scratch}/profile", f"--window-size={max(width, 600)},{HEIGHT}"]
                command += ["--virtual-time-budget=3000", f"--screenshot={target}", frame.as_uri()]
                subprocess.run(command, capture_output=True, check=True, timeout=120)
                made.append(target)
    return made
