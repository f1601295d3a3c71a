"""The page of the command line and the golden help, written from the parser itself."""

from __future__ import annotations

import argparse
import html
import os
import re
from unittest import mock

from documentation.stage import ROOT
from ipseval.cli._main import build_parser

PAGE = ROOT / "docs" / "command-line.md"
HELP = ROOT / "tests" / "golden" / "help"
MARK = "<!-- From here on the page is written by `python -m documentation --write`, from the parser. -->"


def parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the name and the parser of each command; "" is `ipseval` itself."""
    whole = build_parser()
    commands = next(one for one in whole._actions if isinstance(one, argparse._SubParsersAction))
    return {"": whole, **commands.choices}


def help_text(parser: argparse.ArgumentParser) -> str:
    """Return what --help prints, in words: how lines break differs between versions of Python."""
    with mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}):
        return parser.format_help()


def page() -> str:
    """Return the page: its own beginning, then one section per command."""
    beginning = PAGE.read_text("utf-8").split(MARK)[0]
    sections = [_section(name, parser) for name, parser in parsers().items() if name]
    return f"{beginning}{MARK}\n\n" + "\n\n".join(sections) + "\n"


def write() -> None:
    """Write the page and the golden help."""
    PAGE.write_text(page(), "utf-8")
    HELP.mkdir(exist_ok=True)
    for name, parser in parsers().items():
        (HELP / f"{name or 'ipseval'}.txt").write_text(help_text(parser), "utf-8")


def _section(name: str, parser: argparse.ArgumentParser) -> str:
    examples = [line.strip() for line in (parser.epilog or "").split("\n")[1:]]
    arguments = [one for one in parser._actions if not one.option_strings]
    usage = " ".join(["ipseval", name, *(_argument(one) for one in arguments), "[options]"])
    parts = [f"## {name}", " ".join((parser.description or "").split("\n")), f"```text\n{usage}\n```"]
    for group in parser._action_groups:
        rows = [one for one in group._group_actions if one.dest != "help" and one.help != argparse.SUPPRESS]
        if rows:
            titled = group.title not in ("positional arguments", "options")
            parts.append((f"**{_upper(group.title or '')}**" if titled else "") + _note(group.description))
            parts.append("\n".join(["| option | meaning |", "|---|---|", *map(_row, rows)]))
    parts.append("```sh\n" + "\n".join(examples) + "\n```")
    return "\n\n".join(filter(None, parts))


def _argument(action: argparse.Action) -> str:
    name = str(action.metavar or action.dest.upper())
    name = f"{name} …" if action.nargs in ("*", "+") else name
    return f"[{name}]" if action.nargs in ("?", "*") else name


def _row(action: argparse.Action) -> str:
    value = ""
    if action.nargs != 0:
        value = "|".join(map(str, action.choices)) if action.choices else str(action.metavar or action.dest)
    name = f"{action.option_strings[0]} {value}" if action.option_strings else value
    words = (action.help or "") % {"default": action.default}
    if action.choices and "default" not in words and isinstance(action.default, str):
        words += f"{'; ' if words else ''}default: {action.default}"
    shown = html.escape(name.strip()).replace("|", "&#124;")
    return f"| <code>{shown}</code> | {_escaped(words)} |"


def _escaped(words: str) -> str:
    return re.sub(r"([|*<>_])", r"\\\1", words)


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _note(text: str | None) -> str:
    return f". {_escaped(text)}" if text else ""
