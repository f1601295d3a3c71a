"""`main`: the parser of all commands, options from a file (`--config`), and how a command ends."""

from __future__ import annotations

import argparse
import io
import os
import sys
import tomllib
import traceback
import warnings
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from ipseval._version import __version__
from ipseval.cli._about import DOCTOR, METRICS
from ipseval.cli._evaluate import EVALUATE, SPLIT
from ipseval.cli._fit import FIT, PLAN
from ipseval.cli._options import Command
from ipseval.cli._output import complain, said, show_warning
from ipseval.cli._stored import COMPARE, DIFF, REPORT, SHOW
from ipseval.cli._studies import DEMO, STUDY, VALIDATE
from ipseval.errors import InputError, IpsevalError, UnknownNameError

COMMANDS: dict[str, Command] = {
    command.name: command
    for command in (
        *(DEMO, EVALUATE, SPLIT, FIT, VALIDATE, PLAN),
        *(SHOW, REPORT, COMPARE, DIFF, STUDY, METRICS, DOCTOR),
    )
}
EXIT_CODES = """exit codes:
  0    done; of compare: not worse
  1    of compare: worse
  2    input or options that cannot be used, with the reason on standard error
  130  interrupted
  141  whoever read the output closed it"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return its exit code.

    0: done. 1: worse, of `compare`. 2: unusable input or an error in a model, the reason on stderr. 130:
    interrupted. 141: whoever read the output closed it.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    options = argparse.Namespace()
    try:
        parser = build_parser()
        _complete(parser)
        given = list(sys.argv[1:] if arguments is None else arguments)
        if not given:
            parser.print_help(sys.stderr)
            return 2
        options = parser.parse_args(with_config(given, parser))
        with warnings.catch_warnings():
            warnings.showwarning = partial(show_warning, options)
            warnings.simplefilter("always", UserWarning)
            code = int(options.run(options))
        sys.stdout.flush()
    except IpsevalError as error:
        complain(f"error: {said(error, options)}")
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what Python flushes at its end
        return 141
    except (Exception, KeyboardInterrupt) as error:
        # Compiled modules that are interrupted while they load make an ImportError of it.
        if any(isinstance(one, KeyboardInterrupt) for one in (error, error.__cause__)):
            print("ipseval: interrupted", file=sys.stderr)  # no import here: one may be half done
            return 130
        # Of a caller's model, or our own: 1 would say "worse".
        traceback.print_exc()
        return 2
    return code


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
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
        command.add(own)
        own.set_defaults(run=command.run)
    return parser


def _complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks for completions; argcomplete is optional."""
    if "_ARGCOMPLETE" in os.environ:
        try:
            import argcomplete
        except ImportError:
            raise InputError("completion needs argcomplete: pip install 'ipseval[completion]'.") from None
        argcomplete.autocomplete(parser)


def with_config(arguments: list[str], parser: argparse.ArgumentParser) -> list[str]:
    """Return the arguments with those of the `--config` file before them, so that those given win."""
    command, rest = arguments[:1], arguments[1:]
    groups = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    own = groups[0].choices.get(*command) if command else None
    takes_config = own is not None and "--config" in own._option_string_actions
    if own is None or not takes_config or not any(text.split("=")[0] == "--config" for text in rest):
        return arguments
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config")
    found, rest = finder.parse_known_args(rest)
    return [*command, *_arguments(Path(found.config), own), *rest]


def _arguments(path: Path, parser: argparse.ArgumentParser) -> list[str]:
    """Return the options of a file as arguments; paths are those of its folder."""
    from ipseval._base.artefacts import check_is_file

    check_is_file(path)
    try:
        content = tomllib.loads(path.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"--config {path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"--config {path} is no TOML: {error}.") from None
    actions = {action.dest.replace("_", "-"): action for action in parser._actions if action.dest != "help"}
    del actions["config"]
    options: list[str] = []
    positionals: list[str] = []
    for key, value in content.items():
        name = key.replace("_", "-")
        if name not in actions:
            raise UnknownNameError(f"option of {path}", key, actions)
        action = actions[name]
        texts = _texts(key, value, action, path)
        if not action.option_strings:
            positionals += texts
        else:
            # With "=", since a value may begin with a minus sign.
            options += (
                [f"--{name}={text}" for text in texts] if action.nargs != 0 else [f"--{name}"] * len(texts)
            )
    return [*options, *positionals]


def _texts(key: str, value: Any, action: argparse.Action, path: Path) -> list[str]:
    """Return a value as the texts that would stand on the command line, one per use of the option."""
    repeated = isinstance(action, argparse._AppendAction)
    if action.nargs == 0:  # an option without a value: --quiet, or --header and --no-header
        if not isinstance(value, bool):
            raise InputError(f"--config {path}: {key} is true or false; got {value!r}.")
        negative = f"--no-{key.replace('_', '-')}"
        if not value and negative in action.option_strings:
            return [negative]
        return [f"--{key.replace('_', '-')}"] if value else []
    if isinstance(value, dict) and repeated:
        return [f"{name}={_located(one, action, path)}" for name, one in value.items()]
    if isinstance(value, list):
        texts = [_located(one, action, path) for one in value]
        return texts if repeated else [",".join(texts)]
    if isinstance(value, (bool, dict)):
        raise InputError(f"--config {path}: {key} takes a text or a number; got {value!r:.80}.")
    return [_located(value, action, path)]


def _located(value: Any, action: argparse.Action, path: Path) -> str:
    """Return the text of one value; that of a file is looked for beside the configuration."""
    text = str(value)
    kind = str(action.metavar or "")
    if text == "-" or not kind.endswith(("FILE", "LOG")):
        return text
    beside = path.parent / text
    # A label is no file; what follows a colon is said of the file.
    is_file = "|" not in kind or (path.parent / text.partition(":")[0]).exists()
    return str(beside) if is_file else text
