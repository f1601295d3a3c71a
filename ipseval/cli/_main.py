"""`main`: the parser of all commands, and how a command ends."""

from __future__ import annotations

import argparse
import difflib
import io
import re
import sys
import warnings
from collections.abc import Sequence
from functools import cache, partial
from typing import Any, NoReturn

from ipseval._version import __version__
from ipseval.cli._about import DOCTOR
from ipseval.cli._correct import CORRECT, PLAN
from ipseval.cli._evaluate import EVALUATE, SPLIT
from ipseval.cli._fit import FIT
from ipseval.cli._options import Command
from ipseval.cli._output import print_message, show_warning, word_error
from ipseval.cli._stored import COMPARE, REPORT
from ipseval.cli._streams import (
    UnwritableOutputError,
    discard_output,
    flush_output,
    write_error,
    write_output,
    write_traceback,
)
from ipseval.cli._studies import DEMO, STUDY, VALIDATE
from ipseval.errors import IpsevalError
from ipseval.utils.peer_names import suggest_replacement

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (DEMO, EVALUATE, CORRECT, PLAN, SPLIT, FIT, VALIDATE, REPORT, COMPARE, STUDY, DOCTOR)
}
EXIT_CODES = """exit codes:
  0    done; of compare: better, or not shown to be worse
  1    of compare: worse
  2    input or options that cannot be used, with the reason on standard error
  3    of compare: suspiciously better
  4    of compare: cannot tell
  130  interrupted
  141  whoever read the output closed it"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done. 1, 3, 4, of `compare`: worse, suspiciously better, cannot tell. 2: unusable input or an error in
    a model, the reason on stderr. 130: interrupted. 141: whoever read the output closed it.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    options = argparse.Namespace()
    try:
        parser = build_parser()
        given = list(sys.argv[1:] if arguments is None else arguments)
        if not given:
            write_error(parser.format_help().rstrip("\n"))
            return 2
        options, unknown = parser.parse_known_args(given)
        if unknown:
            options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        with warnings.catch_warnings():
            warnings.showwarning = partial(show_warning, options)
            warnings.simplefilter("always", UserWarning)
            code = int(options.run(options))
        if not getattr(options, "quiet", False):
            for words in getattr(options, "read_as", ()):
                print_message(words)
        flush_output()
    except IpsevalError as error:
        print_message(f"error: {word_error(error, options)}")
        return 2
    except BrokenPipeError:
        discard_output()
        return 141
    except UnwritableOutputError as error:
        discard_output()
        write_error(f"ipseval: error: standard output must be writable; {error}. Use --out FILE.")
        return 2
    except (Exception, KeyboardInterrupt) as error:
        # Compiled modules that are interrupted while they load make an ImportError of it.
        if any(isinstance(one, KeyboardInterrupt) for one in (error, error.__cause__)):
            write_error("ipseval: interrupted")  # no import here: one may be half done
            return 130
        # Of a caller's model, or our own: 1 would say "worse".
        write_traceback()
        return 2
    return code


# Options of other programs that are no argument of Python.
SHELL = {
    "html": "--out page.html",
    "json": "--format json",
    "random_state": "--seed",
    "random_seed": "--seed",
}


# What --help shows of a command that has more options than fit a screen.
COMMON = {
    "--model",
    "--gamma",
    "--propensity",
    "--random-exposure",
    "--interactions",
    "--reference-values",
    "--n-users",
    "--n-items",
    "--positive-share",
    "--metrics",
    "--split",
    "--test-fraction",
    "--seed",
    "--threshold",
    "--train",
    "--test",
    "--by",
    "--out",
}
SCREEN = 40  # lines


class _HelpAll(argparse.Action):
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        write_output(parser.format_help())
        parser.exit(0)


class Parser(argparse.ArgumentParser):
    """A parser whose errors are one line, and whose help fits a screen."""

    def print_help(self, file: Any = None) -> None:
        """Print the help, or the most used options where all of them do not fit a screen."""
        text = self.format_help()
        if text.count("\n") > SCREEN:
            parts = self._get_formatter()
            parts.add_usage("%(prog)s [options] [LOG]", self._actions, [])
            parts.add_text(self.description)
            parts.start_section("most used options")
            parts.add_arguments([one for one in self._actions if COMMON & set(one.option_strings)])
            parts.end_section()
            text = (
                f"{parts.format_help()}\n`{self.prog} --help-all` lists all {len(self._actions)} options.\n"
            )
        self._print_message(text, file or sys.stdout)

    def _print_message(self, message: str, file: Any = None) -> None:
        """Write a message; argparse itself says nothing where standard output cannot be written."""
        if file is None or file is sys.stderr:
            write_error(message.rstrip("\n"))
        else:
            write_output(message)

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End the program, after everything is written."""
        if message:
            write_error(message.rstrip("\n"))
        flush_output()
        sys.exit(status)

    def error(self, message: str) -> NoReturn:
        """End with what is wrong, and what to type instead of an option that is not known."""
        ways = []
        if message.startswith("unrecognized"):
            for name in re.findall(r"--?([a-zA-Z][\w-]*)", message):
                way = SHELL.get(name.replace("-", "_")) or _convert_to_option(suggest_replacement(name))
                near = difflib.get_close_matches(f"--{name}", self._option_string_actions, n=1)
                meant = [f" Did you mean {one}?" for one in near if len(name) > 2]
                ways += [f" In place of --{name}: {way}."] if way else meant
        self.exit(
            2, f"{self.prog}: error: {message}.{''.join(ways)} `{self.prog} --help` lists what there is.\n"
        )


def _convert_to_option(text: str) -> str:
    """Return what a hint for Python says as an option: test_fraction= is --test-fraction."""
    found = re.search(r'\b([a-z_]+)=(?:\["|")?([\w@:=-]*)', text)
    return f"--{found[1].replace('_', '-')} {found[2]}".rstrip() if found else ""


@cache
def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = Parser(
        prog="ipseval",
        description="Offline evaluation of recommenders from biased implicit feedback.",
        epilog=f"`ipseval COMMAND --help` shows the options of a command.\n\n{EXIT_CODES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"ipseval {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND", dest="command")
    for command in COMMANDS.values():
        own = commands.add_parser(
            command.name,
            help=command.summary,
            description=command.description,
            epilog="\n  ".join(("examples:", *command.examples)),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        own.add_argument("--help-all", action=_HelpAll, nargs=0, help=argparse.SUPPRESS)
        for add in command.options:
            add(own)
        own.set_defaults(run=command.run, parser=own)
    return parser
