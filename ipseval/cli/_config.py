"""`--config file.toml`: options of a command from a file, as if they stood on the command line."""

from __future__ import annotations

import argparse
import tomllib
from pathlib import Path
from typing import Any

from ipseval.errors import InputError, UnknownNameError


def with_config(arguments: list[str], parser: argparse.ArgumentParser) -> list[str]:
    """Return the arguments with those of the `--config` file before them, so that those given win."""
    command, rest = arguments[:1], arguments[1:]
    own = _own_parser(parser, command)
    if own is None or not any(text.split("=")[0] == "--config" for text in rest):
        return arguments
    finder = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    finder.add_argument("--config")
    found, rest = finder.parse_known_args(rest)
    return [*command, *_arguments(Path(found.config), own), *rest]


def _own_parser(parser: argparse.ArgumentParser, command: list[str]) -> argparse.ArgumentParser | None:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction) and command:
            own = action.choices.get(command[0])
            return own if own and "--config" in own._option_string_actions else None
    return None


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
