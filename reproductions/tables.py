"""What the reproductions share: Markdown tables, where they go, and which commit and versions made them.

python -m reproductions.tables        (adds the tables of which nothing is recorded, by what git knows)
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
import re
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd

import ipseval

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reproductions.md"
EXCERPT = "-excerpt"  # ends the name of a short table that is copied from a complete one
EMPHASIS = re.compile(r"\*+([^*]+)\*+")


def data_folder() -> Path:
    """Return the folder of the data sets: IPSEVAL_DATA, otherwise ../shared/data beside the project."""
    return Path(os.environ.get("IPSEVAL_DATA") or ROOT.parent / "shared" / "data")


def markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table; all columns but the first are right-aligned."""
    lines = [list(header), ["---"] + ["--:"] * (len(header) - 1), *(list(row) for row in rows)]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def write_tables(tables: Mapping[str, str], page: Path = PAGE) -> None:
    """Put each table where the page has a place for it, and record the commit and the versions that made it.

    The place is between `<!-- name -->` and `<!-- /name -->`. If the page `page.md` links to
    `tables/page/name.csv` instead, the table is written to that file.
    """
    text = page.read_text("utf-8")
    recorded = [name for name in tables if not name.endswith(EXCERPT)]
    if "<!-- made -->" in text and "made" not in tables and recorded:
        tables = {**tables, "made": record(text, dict.fromkeys(recorded, (commit(), versions())))}
    for name, table in tables.items():
        file = f"tables/{page.stem}/{name}.csv"
        if f"({file})" in text:
            write_csv(table, page.parent / file)
            continue
        place = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.S)
        if not place.search(text):
            raise SystemExit(
                f"{page.name} has no place for {name!r}: add <!-- {name} --> and <!-- /{name} -->, "
                f"or a link to {file}."
            )
        text = place.sub(lambda m, t=table: f"{m[1]}{t}\n{m[2]}", text)
    page.write_text(text, "utf-8")


def write_csv(text: str, path: Path) -> None:
    """Write the Markdown tables of a text as one CSV file.

    With several tables, the column "table" holds the first cell of the header of each, and the file has the
    columns of all. Tables with equal headers become one without this column. Text between tables is not written.
    """
    tables = parse_tables(text)
    titles = [header[0] for header, _ in tables]
    frames = [pd.DataFrame(rows, columns=name_columns(header)) for header, rows in tables]
    if len(set(titles)) > 1:
        named = zip(titles, frames, strict=True)
        frames = [frame.rename(columns={title: "name"}).assign(table=title) for title, frame in named]
    frame = pd.concat(frames, ignore_index=True)
    if "table" in frame:
        frame.insert(0, "table", frame.pop("table"))
    path.parent.mkdir(parents=True, exist_ok=True)
    frame.to_csv(path, index=False, lineterminator="\n")


def name_columns(header: Sequence[str]) -> list[str]:
    """Return the header of a table with names for its empty columns."""
    names = []
    for number, name in enumerate(header):
        default = "name" if number == 0 else f"column {number + 1}"
        names.append(name or default)
    return names


def parse_tables(text: str) -> list[tuple[list[str], list[list[str]]]]:
    """Return the header and the rows of each Markdown table of a text, without bold and italic type."""
    tables: list[tuple[list[str], list[list[str]]]] = []
    is_in_table = False
    for line in text.splitlines():
        if not line.startswith("|"):
            is_in_table = False
            continue
        cells = [EMPHASIS.sub(r"\1", cell.strip()) for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
        if not is_in_table:
            tables.append((cells, []))
            is_in_table = True
        elif not set(line) <= set("|-: "):
            tables[-1][1].append(cells)
    return tables


def record(text: str, new: Mapping[str, tuple[str, str]]) -> str:
    """Return a table of the commits and versions that made the tables; `new` replaces former entries."""
    found: dict[str, tuple[str, str]] = {}
    old = re.search(r"<!-- made -->\n(.*?)<!-- /made -->", text, re.S)
    for line in (old[1] if old else "").splitlines()[2:]:
        who, what, names = (cell.strip() for cell in line.strip("|").split("|"))
        found |= dict.fromkeys(names.split(", "), (who, what))
    found |= new
    groups: dict[tuple[str, str], list[str]] = {}
    for name in sorted(found):
        groups.setdefault(found[name], []).append(name)
    rows = [(who, what, ", ".join(names)) for (who, what), names in groups.items()]
    return markdown(("commit", "versions", "tables"), rows)


def commit() -> str:
    """Return the commit of the working tree, and whether files beside the pages differ from it."""
    changed = git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!docs", ":!notebooks")
    return git("rev-parse", "--short=8", "HEAD") + (" with changes" if changed else "")


def git(*words: str) -> str:
    """Return what git prints in the repository."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def unrecorded(page: Path = PAGE) -> dict[str, tuple[str, str]]:
    """Return the last commit that changed each table of which nothing is recorded."""
    text = page.read_text("utf-8")
    known, found = record(text, {}), {}
    for name, table in re.findall(r"<!-- ([a-z0-9-]+) -->\n(.*?)<!-- /\1 -->", text, re.S):
        line = next((one for one in table.splitlines() if one.count("|") > 2 and "--" not in one), "")
        if name != "made" and not name.endswith(EXCERPT) and line and not re.search(rf"\b{name}[,\s]", known):
            body = max(table.splitlines(), key=len)
            last = git(
                "log", "-1", "--format=%h", "--abbrev=8", f"-S{body}", "--", str(page.relative_to(ROOT))
            )
            found[name] = (f"last changed in {last}", "not recorded")
    return found


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


if __name__ == "__main__":
    for one in (PAGE, PAGE.with_name("validation.md")):
        write_tables({"made": record(one.read_text("utf-8"), unrecorded(one))}, one)
