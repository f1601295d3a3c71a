"""Find dead links of the built site, and what its pages would load from other servers."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADING_ATTRIBUTES = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "srcset"}
RELATIONS_THAT_LOAD_NOTHING = ("canonical", "next", "prev", "alternate")


class Page(HTMLParser):
    """The links of a page, the addresses that it loads, and its anchors."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.anchors: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Collect the attributes of a tag."""
        attributes = {name: value for name, value in attrs if value}
        self.anchors |= {attributes[name] for name in ("id", "name") if name in attributes}
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if tag == "link" and attributes.get("rel") in RELATIONS_THAT_LOAD_NOTHING:
            return
        address = attributes.get(LOADING_ATTRIBUTES.get(tag, ""))
        if address:
            self.loads.append(address)


def find_problems(site: Path) -> list[str]:
    """Return one line for each dead link, dead anchor, and address of another server that a page loads."""
    pages = {path.resolve(): Page(path.read_text("utf-8")) for path in sorted(site.rglob("*.html"))}
    problems = []
    for path, page in pages.items():
        name = path.relative_to(site.resolve())
        if name.name == "404.html":
            continue  # its links start at the root of a server
        for address in page.loads:
            if urlsplit(address).scheme in ("http", "https"):
                problems.append(f"{name}: loads {address}")
        for link in (*page.links, *page.loads):
            problem = check_link(link, path, pages)
            if problem:
                problems.append(f"{name}: {link} {problem}")
    return problems


def check_link(link: str, path: Path, pages: dict[Path, Page]) -> str:
    """Return what is wrong with a link of a page; empty if nothing is, or if it leads to another server."""
    parts = urlsplit(link)
    if parts.scheme or link.startswith("//"):
        return ""
    target = path
    if parts.path:
        target = (path.parent / unquote(parts.path)).resolve()
    if target.is_dir():
        target = target / "index.html"
    if not target.exists():
        return "is not there"
    anchor = unquote(parts.fragment)
    is_made_by_script = anchor.startswith("__")  # by the theme, when the page is opened
    if target in pages and anchor and not is_made_by_script and anchor not in pages[target].anchors:
        return "has no such anchor"
    return ""
