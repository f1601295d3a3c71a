"""Staging: the pages as the site generator takes them, with notebooks as Markdown."""

from __future__ import annotations

import base64
import json
import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(\]\([^)\s]*?)\.ipynb(#[^)\s]*)?\)")


def stage(folder: Path, root: Path = ROOT) -> Path:
    """Write docs/ and the menu of `root` into a folder, notebooks as pages; return the new mkdocs.yml."""
    docs = folder / "docs"
    shutil.copytree(
        root / "docs", docs, ignore=shutil.ignore_patterns("__pycache__", "*.py", "reproductions")
    )
    for path in sorted(docs.glob("notebooks/*.ipynb")):
        to_page(path)
        path.unlink()
    for page in docs.rglob("*.md"):
        text = page.read_text("utf-8")
        page.write_text(LINK.sub(r"\1.md\2)", text), "utf-8")
    configuration = (root / "mkdocs.yml").read_text("utf-8").replace(".ipynb", ".md")
    # The API is read from the package of the same state.
    configuration = configuration.replace("paths: [.]", f"paths: [{json.dumps(str(root))}]")
    target = folder / "mkdocs.yml"
    target.write_text(configuration, "utf-8")
    return target


def to_page(path: Path) -> Path:
    """Write a notebook as Markdown beside it, its pictures as files; return the page."""
    notebook = json.loads(path.read_text("utf-8"))
    parts: list[str] = []
    pictures = 0
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source.replace("](../docs/", "](../"))  # notebooks stand inside docs/ then
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            picture = output.get("data", {}).get("image/png")
            if picture is not None:
                pictures += 1
                file = path.with_name(f"{path.stem}-{pictures}.png")
                file.write_bytes(base64.b64decode("".join(picture)))
                alt = _words(output["data"].get("text/plain", "a picture"))
                parts.append(f"![{alt}]({file.name})")
            else:
                parts.append(_shown(output))
    page = path.with_suffix(".md")
    page.write_text("\n\n".join(filter(None, parts)) + "\n", "utf-8")
    return page


def _words(text: Any) -> str:
    shown = "".join(text)
    return "a picture of what the cell above draws" if shown.startswith("<") else shown.replace("\n", " ")


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        lines = "".join(data["text/html"]).split("\n")
        inside = "\n".join(line for line in lines if line.strip())  # a blank line would end the block
        return f'<div class="output">\n{inside}\n</div>'
    text = "".join(output.get("text", data.get("text/plain", ""))).rstrip("\n")
    return f"```text\n{text}\n```" if text.strip() else ""
