"""Markdown, as GitHub reads it."""

from __future__ import annotations

from collections.abc import Sequence

from ipseval.report._escape import markdown, visible
from ipseval.report._tables import Cell, Code, Heading, Notes, Part, Picture, Table, Tables


def to_markdown(tables: Tables) -> str:
    """Return the tables with what was computed above, and notes below; names cannot become markup."""
    blocks = [f"# {markdown(tables.title)}"] if tables.title else []
    blocks += [markdown(line) for line in tables.summary]
    blocks += [f"**{markdown(line)}**" for line in tables.warnings]
    blocks += [_part(part) for part in tables.parts]
    blocks += [f"**{markdown(one.name)}.** {markdown(' '.join(one.lines))}" for one in tables.verdict]
    blocks.append(_bullets(tables.legend))
    return "\n\n".join(filter(None, blocks)) + "\n"


def _part(part: Part) -> str:
    if isinstance(part, Table):
        return "\n\n".join(filter(None, ("\n".join(_table(part)), _bullets(part.below))))
    if isinstance(part, Notes):
        return _bullets(part.lines)
    if isinstance(part, Heading):
        return f"{'#' * part.level} {markdown(part.text)}"
    if isinstance(part, Code):
        body = "\n".join(f"    {visible(line)}" for line in part.text.split("\n"))
        return f"{markdown(part.name)}\n\n{body}"
    return "" if isinstance(part, Picture) else markdown(part)


def _bullets(lines: Sequence[str]) -> str:
    return "\n".join(f"- {markdown(line.strip())}" for line in lines)


def _table(table: Table) -> list[str]:
    header = [markdown(name) for name in table.header]
    header[0] = markdown(table.title) or header[0]
    rules = ["---" if place in table.words else "---:" for place in range(len(header))]
    rows = [header, rules, *([_cell(cell) for cell in row] for row in table.rows)]
    return ["| " + " | ".join(row) + " |" for row in rows]


def _cell(cell: Cell) -> str:
    text = f"**{markdown(cell.text)}**" if cell.strong else markdown(cell.text)
    return " ".join(filter(None, (text, markdown(cell.error), cell.mark)))
