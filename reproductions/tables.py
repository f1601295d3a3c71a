"""What the reproductions share: Markdown tables, where they go, and a line of versions."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import ipseval

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reproductions.md"


def data_folder() -> Path:
    """Return the folder of the data sets: IPSEVAL_DATA, otherwise ../shared/data beside the project."""
    return Path(os.environ.get("IPSEVAL_DATA") or ROOT.parent / "shared" / "data")


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are right-aligned."""
    lines = [list(header), ["---"] + ["--:"] * (len(header) - 1), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_tables(tables: Mapping[str, str], page: Path = PAGE) -> None:
    """Put each table between `<!-- name -->` and `<!-- /name -->` on the page."""
    text = page.read_text("utf-8")
    for name, table in tables.items():
        place = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.S)
        if not place.search(text):
            raise SystemExit(
                f"{page.name} has no place for {name!r}: add <!-- {name} --> and <!-- /{name} -->."
            )
        text = place.sub(lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text)
    page.write_text(text, "utf-8")


def deliver(tables: Mapping[str, str], page: Path | None) -> None:
    """Put the tables into a page, or print them."""
    if page is not None:
        write_tables(tables, page)
    else:
        print("\n\n".join(f"{name}\n{one}" for name, one in tables.items()), flush=True)


def command(description: str, tables: Callable[[Path], Mapping[str, str]], data: str = "citeulike-a") -> None:
    """Make the tables of a data set in the folder that the command line names; print or write them."""
    parser = argparse.ArgumentParser(description=description.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help=f"folder with {data}/")
    parser.add_argument("--write", action="store_true", help="put the tables into docs/reproductions.md")
    options = parser.parse_args()
    deliver(tables(options.data / data), PAGE if options.write else None)


def versions(*packages: str) -> str:
    """Return one line with the versions of Python, ipseval and the named packages."""
    named = [f"{name} {importlib.metadata.version(name)}" for name in ("numpy", "scipy", "pandas", *packages)]
    return ", ".join([f"Python {platform.python_version()}", f"ipseval {ipseval.__version__}", *named])
