"""Write the page of the command line from the parsers, and the golden help text that lists the commands.

python -m tests.docs.command_line --write
"""

from __future__ import annotations

import argparse
import html
import os
import re
import sys
from pathlib import Path
from unittest import mock

from ipseval.cli._main import build_parser

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "command-line.md"
HELP = ROOT / "tests" / "golden" / "help.txt"
COMMAND = "python -m tests.docs.command_line --write"
MARK = f"<!-- From here on the page is written by `{COMMAND}`, from the parser. -->"


def list_parsers() -> dict[str, argparse.ArgumentParser]:
    """Return the name and the parser of each command; "" is `ipseval` itself."""
    parser = build_parser()
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            return {"": parser, **action.choices}
    raise AssertionError("the parser has no commands")


def format_help(parser: argparse.ArgumentParser) -> str:
    """Return the text that --help prints, without colours and for a screen of 100 columns."""
    with mock.patch.dict(os.environ, {"COLUMNS": "100", "NO_COLOR": "1"}):
        return parser.format_help()


def format_page() -> str:
    """Return the page: the part written by hand, then one section per command."""
    introduction = PAGE.read_text("utf-8").split("<!-- From here on")[0]
    sections = [format_section(name, parser) for name, parser in list_parsers().items() if name]
    return f"{introduction}{MARK}\n\n" + "\n\n".join(sections) + "\n"


def write() -> None:
    """Write the page, which has the words of every command, and the golden help text of `ipseval` itself."""
    PAGE.write_text(format_page(), "utf-8")
    HELP.write_text(format_help(list_parsers()[""]), "utf-8")


def format_section(name: str, parser: argparse.ArgumentParser) -> str:
    """Return the section of a command: description, usage, options by group, and examples."""
    positional_arguments = [action for action in parser._actions if not action.option_strings]
    usage = " ".join(["ipseval", name, *map(format_argument, positional_arguments), "[options]"])
    description = " ".join((parser.description or "").split("\n"))
    parts = [f"## {name}", description, f"```text\n{usage}\n```"]
    for group in parser._action_groups:
        parts += format_group(group)
    examples = [line.strip() for line in (parser.epilog or "").split("\n")[1:]]
    parts.append("```sh\n" + "\n".join(examples) + "\n```")
    return "\n\n".join(filter(None, parts))


def format_group(group: argparse._ArgumentGroup) -> list[str]:
    """Return the title and the table of a group of options; nothing for an empty group."""
    rows = []
    for action in group._group_actions:
        if action.dest != "help" and action.help != argparse.SUPPRESS:
            rows.append(format_row(action))
    if not rows:
        return []
    heading = ""
    if group.title not in ("positional arguments", "options"):
        title = group.title or ""
        heading = f"**{title[:1].upper()}{title[1:]}**"
    if group.description:
        heading += f". {escape(group.description)}"
    return [heading, "\n".join(["| option | meaning |", "|---|---|", *rows])]


def format_argument(action: argparse.Action) -> str:
    """Return a positional argument as it stands in the usage line."""
    name = str(action.metavar or action.dest.upper())
    if action.nargs in ("*", "+"):
        name = f"{name} …"
    if action.nargs in ("?", "*"):
        return f"[{name}]"
    return name


def format_row(action: argparse.Action) -> str:
    """Return the row of an option: its name with its value, and its help."""
    value = ""
    if action.nargs != 0:
        value = str(action.metavar or action.dest)
        if action.choices:
            value = "|".join(map(str, action.choices))
    name = value
    if action.option_strings:
        name = f"{', '.join(action.option_strings)} {value}"
    words = (action.help or "") % {"default": action.default}
    if action.choices and "default" not in words and isinstance(action.default, str):
        words = "; ".join(filter(None, (words, f"default: {action.default}")))
    escaped_name = html.escape(name.strip()).replace("|", "&#124;")
    return f"| <code>{escaped_name}</code> | {escape(words)} |"


def escape(words: str) -> str:
    """Return words as Markdown without markup."""
    return re.sub(r"([|*<>_])", r"\\\1", words)


if __name__ == "__main__":
    if sys.argv[1:] != ["--write"]:
        raise SystemExit(f"usage: {COMMAND}")
    write()
