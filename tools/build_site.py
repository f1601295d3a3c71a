"""Build the documentation site with Zensical, or serve it on this computer.

    python tools/build_site.py                     the site, into site/
    python tools/build_site.py --serve             the same, then on http://localhost:8000

Zensical does not show notebooks, so they become Markdown pages first. Formulae become MathML. Its search loads a
small script from another server when pages are opened from a folder, so the site gets a copy.
Needs `pip install -e ".[docs]"`.
"""

from __future__ import annotations

import argparse
import base64
import functools
import http.server
import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK_LINK = re.compile(r"(\]\([^)\s]*?)\.ipynb(#[^)\s]*)?\)")
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)
DISPLAYED_FORMULA = re.compile(r"\$\$(.+?)\$\$", re.DOTALL)
INLINE_FORMULA = re.compile(r"\$([^$\n]+)\$")
# An inline formula at the beginning of a line within a paragraph.
LINE_BREAK_BEFORE_FORMULA = re.compile(r"(?<=\S)\n *(?=\$[^$\n]+\$)")
SEARCH_SCRIPT_ADDRESS = "https://unpkg.com/iframe-worker/shim"
SEARCH_SCRIPT = Path(__file__).with_name("iframe-worker.js")


def build_site(site: Path) -> None:
    """Build the site into a folder; a dead link to a page or an anchor is an error."""
    with tempfile.TemporaryDirectory() as scratch:
        configuration = stage_pages(Path(scratch))
        command = [sys.executable, "-m", "zensical", "build", "--strict", "-f", str(configuration)]
        result = subprocess.run(command, cwd=scratch, capture_output=True, text=True, check=False)
        if result.returncode != 0:
            raise SystemExit(f"{result.stdout}\n{result.stderr}")
        shutil.rmtree(site, ignore_errors=True)
        shutil.copytree(Path(scratch) / "site", site)
    copy_search_script(site)


def stage_pages(folder: Path) -> Path:
    """Write the pages and the menu into a folder, with notebooks as Markdown; return the new mkdocs.yml."""
    docs = folder / "docs"
    shutil.copytree(ROOT / "docs", docs, ignore=shutil.ignore_patterns("__pycache__", "*.py"))
    shutil.rmtree(docs / "notebooks" / "reproductions", ignore_errors=True)
    for notebook in sorted(docs.glob("notebooks/*.ipynb")):
        convert_notebook(notebook)
        notebook.unlink()
    for page in docs.rglob("*.md"):
        text = NOTEBOOK_LINK.sub(r"\1.md\2)", page.read_text("utf-8"))
        page.write_text(typeset_formulae(text), "utf-8")

    configuration = (ROOT / "mkdocs.yml").read_text("utf-8").replace(".ipynb", ".md")
    # The docstrings of the reference come from the package in this folder.
    configuration = configuration.replace("paths: [.]", f"paths: [{json.dumps(str(ROOT))}]")
    target = folder / "mkdocs.yml"
    target.write_text(configuration, "utf-8")
    return target


def typeset_formulae(text: str) -> str:
    """Return a page with its formulae between dollar signs as MathML, which browsers show without a script."""
    parts = CODE.split(text)
    for number in range(0, len(parts), 2):  # the other parts are code
        part = DISPLAYED_FORMULA.sub(lambda match: convert_formula(match[1], "block"), parts[number])
        # Markdown would take a line that begins with <math> as a block of its own.
        part = LINE_BREAK_BEFORE_FORMULA.sub(" ", part)
        parts[number] = INLINE_FORMULA.sub(lambda match: convert_formula(match[1], "inline"), part)
    return "".join(parts)


def convert_formula(latex: str, display: str) -> str:
    """Return a formula as MathML; `display` is "block" or "inline"."""
    from latex2mathml.converter import convert

    return convert(latex, display=display)


def convert_notebook(path: Path) -> Path:
    """Write a notebook as a Markdown page beside it, and its pictures as files; return the page."""
    notebook = json.loads(path.read_text("utf-8"))
    parts: list[str] = []
    n_pictures = 0
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source.replace("](../docs/", "](../"))  # the pages of notebooks are inside docs/
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            picture = output.get("data", {}).get("image/png")
            if picture is None:
                parts.append(format_output(output))
                continue
            n_pictures += 1
            file = path.with_name(f"{path.stem}-{n_pictures}.png")
            file.write_bytes(base64.b64decode("".join(picture)))
            parts.append(f"![{describe_picture(output)}]({file.name})")
    page = path.with_suffix(".md")
    page.write_text("\n\n".join(filter(None, parts)) + "\n", "utf-8")
    return page


def describe_picture(output: dict[str, Any]) -> str:
    """Return the alternative text of a picture: the value of its cell, if that is a text for readers."""
    text = "".join(output["data"].get("text/plain", ""))
    if not text or text.startswith("<"):
        return "Picture drawn by the code above"
    return text.replace("\n", " ")


def format_output(output: dict[str, Any]) -> str:
    """Return the HTML or the text that a cell printed, as a block of Markdown."""
    data = output.get("data", {})
    if "text/html" in data:
        lines = "".join(data["text/html"]).split("\n")
        content = "\n".join(line for line in lines if line.strip())  # a blank line would end the block
        return f'<div class="output">\n{content}\n</div>'
    text = "".join(output.get("text", data.get("text/plain", ""))).rstrip("\n")
    if not text.strip():
        return ""
    return f"```text\n{text}\n```"


def copy_search_script(site: Path) -> None:
    """Let all pages load the script of the search from the site itself."""
    shutil.copy(SEARCH_SCRIPT, site / SEARCH_SCRIPT.name)
    for page in site.rglob("*.html"):
        n_folders = len(page.relative_to(site).parts) - 1
        path_to_root = "../" * n_folders or "./"
        text = page.read_text("utf-8").replace(SEARCH_SCRIPT_ADDRESS, path_to_root + SEARCH_SCRIPT.name)
        page.write_text(text, "utf-8")


def main() -> None:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--site", type=Path, default=ROOT / "site", help="folder; default: site/")
    parser.add_argument("--serve", action="store_true", help="serve the site after the build")
    options = parser.parse_args()
    build_site(options.site)
    print(options.site)
    if options.serve:
        handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(options.site))
        http.server.ThreadingHTTPServer(("localhost", 8000), handler).serve_forever()


if __name__ == "__main__":
    main()
