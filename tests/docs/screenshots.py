"""Take pictures of the main pages of the site at the width of a desk and of a phone, for a person to look at.

python tools/build_site.py && python -m tests.docs.screenshots site FOLDER
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

PAGES = (
    *("index", "tutorial", "command-line", "cookbook", "glossary"),
    *("which-estimator", "propensity", "support", "api/evaluation", "notebooks/01-first-evaluation"),
)
WIDTHS = (1280, 400)
HEIGHT = 1600
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """Return the program of a Chromium, or None."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)


def take_screenshots(site: Path, folder: Path, pages: tuple[str, ...] = PAGES) -> list[Path]:
    """Write one PNG per page and width into a folder, and return them.

    A browser's window has a least width; a frame inside it has none.
    """
    program = find_browser()
    if program is None:
        raise SystemExit("screenshots need Chromium")
    folder.mkdir(parents=True, exist_ok=True)
    pictures = []
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
                pictures.append(target)
    return pictures


if __name__ == "__main__":
    print(*take_screenshots(Path(sys.argv[1]), Path(sys.argv[2])), sep="\n")
