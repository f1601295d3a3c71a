"""Links: every page of the built site leads only to what is there, and loads nothing from elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "srcset"}


class Page(HTMLParser):
    """What a page links to, loads, and can be linked to by."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Take what a tag says."""
        found = {name: value for name, value in attrs if value}
        self.anchors |= {found[name] for name in ("id", "name") if name in found}
        if tag == "a" and "href" in found:
            self.links.append(found["href"])
        loaded = found.get(LOADED.get(tag, ""))
        if loaded and not (tag == "link" and found.get("rel") in ("canonical", "next", "prev", "alternate")):
            self.loads.append(loaded)


def faults(site: Path) -> list[str]:
    """Return what is wrong: dead links and anchors, and what is loaded from elsewhere; one line each."""
    pages = {path.resolve(): Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    found = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        if name.name == "404.html":
            continue  # its links start at the root of a server
        found += [f"{name}: loads {one}" for one in page.loads if urlsplit(one).scheme in ("http", "https")]
        for link in (*page.links, *page.loads):
            parts = urlsplit(link)
            if parts.scheme or link.startswith("//"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            target = target / "index.html" if target.is_dir() else target
            if not target.exists():
                found.append(f"{name}: {link} is not there")
            elif target in pages and not _has(pages[target], unquote(parts.fragment)):
                found.append(f"{name}: {link} has no such anchor")
    return found


def _has(page: Page, anchor: str) -> bool:
    """Whether a page has an anchor; those that begin with two underscores are made by the theme's script."""
    return not anchor or anchor.startswith("__") or anchor in page.anchors
