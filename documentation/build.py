"""Building: pages, search that works from a folder, and one site per version."""

from __future__ import annotations

import html
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from documentation.links import faults
from documentation.stage import ROOT, stage

SHIM = "https://unpkg.com/iframe-worker/shim"
WORKER = Path(__file__).with_name("iframe-worker.js")


def build(site: Path, root: Path = ROOT) -> Path:
    """Build the site of a checkout into a folder; dead links, and loads from elsewhere, are errors."""
    with tempfile.TemporaryDirectory() as scratch:
        configuration = stage(Path(scratch), root)
        command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", str(configuration)]
        done = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{done.stdout}\n{done.stderr}")
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(Path(scratch) / "site", site)
    _search_from_a_folder(site)
    wrong = faults(site)
    if wrong:
        raise SystemExit("\n".join(wrong))
    return site


def _search_from_a_folder(site: Path) -> None:
    """Let pages load the small script that search needs in a folder from the site itself."""
    shutil.copy(WORKER, site / WORKER.name)
    for page in site.rglob("*.html"):
        up = "../" * (len(page.relative_to(site).parts) - 1) or "./"
        page.write_text(page.read_text("utf-8").replace(SHIM, up + WORKER.name), "utf-8")


def build_versions(site: Path, versions: list[str]) -> Path:
    """Build one site per tag or branch, the newest first, and a page that leads to them."""
    for version in versions:
        with tempfile.TemporaryDirectory() as scratch:
            checkout = Path(scratch) / "checkout"
            git = ["git", "-C", str(ROOT), "worktree"]
            subprocess.run([*git, "add", "--detach", "-q", str(checkout), version], check=True)
            try:
                build(site / version, checkout)
            finally:
                subprocess.run([*git, "remove", "--force", str(checkout)], check=True)
    items = "".join(
        f'<li><a href="{html.escape(one)}/index.html">{html.escape(one)}</a></li>' for one in versions
    )
    newest = html.escape(versions[0])
    (site / "index.html").write_text(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>ipseval: versions</title>'
        f'<meta http-equiv="refresh" content="0; url={newest}/index.html"></head>'
        f"<body><h1>ipseval</h1><p>Versions of the documentation:</p><ul>{items}</ul></body></html>\n",
        "utf-8",
    )
    return site
