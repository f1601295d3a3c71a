"""Errors and warnings on standard error, with options of the command line in place of arguments in Python."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

from ipseval.errors import IpsevalError, ProblemsError

# What is called otherwise on the command line than in Python.
_PHRASES = {
    r" to Split\.from_frames": "",
    r"pass propensity=PowerLawPropensity\(gamma=…\) or another model": "give --gamma or --propensity",
    "Use split_global_time or split_sliding to": "Use --split global-time to",
    r"correct with ipseval\.metric\(label, sampled='bv'\)": "take a metric such as recall@10~bv",
}
# Arguments of `read` whose option has another name, as the option of that name means something else.
_RENAMED = {"propensity": "propensity-column", "missing": "incomplete"}
_NAMES = {"rng": "--seed", "n_threads": "--threads", "max_memory": "--memory"}


def said(error: IpsevalError, options: argparse.Namespace) -> str:
    """Return the text of an error in the words of the command line."""
    if isinstance(error, ProblemsError):
        return _of_problems(error)
    return in_options(str(error), options)


def _of_problems(error: ProblemsError) -> str:
    """Return all problems of an input; columns of a file alone are named behind the file."""
    lists = "Lists" in error.takes_options

    def option(found: re.Match[str]) -> str:
        name, value = found[1], found[2]
        if lists and value in (None, "…"):
            return f"FILE:{name}=COLUMN"
        if value in ("True", "False"):
            return f"--{'' if value == 'True' else 'no-'}{name}"
        shown = f"--{_RENAMED.get(name, name).replace('_', '-')}"
        return shown if value is None else f"{shown} {value}"

    texts = []
    for one in error.problems:
        way_out = re.sub(r"\{(\w+)(?:=([^}]*))?\}", option, one.way_out)
        texts.append(f"{one.what}. {way_out}." if way_out else f"{one.what}.")
    if len(texts) == 1:
        return f"{error.source}: {texts[0]}"
    listed = "".join(f"\n  {place}. {text}" for place, text in enumerate(texts, 1))
    return f"{error.source} has {len(texts)} problems:{listed}"


def in_options(text: str, options: argparse.Namespace) -> str:
    """Return the text of an error with options of the command line in place of arguments in Python."""
    for phrase, words in _PHRASES.items():
        text = re.sub(phrase, words, text)
    names = {name: f"--{name.replace('_', '-')}" for name in vars(options)} | _NAMES
    for name, option in names.items():
        text = re.sub(rf"\b{name}=['\"]?([\w.…<>]+)['\"]?", rf"{option} \1", text)
        text = re.sub(rf"\b{name}=(?=[\s,;.)])", option, text)
        text = re.sub(rf"(?<![-\w]){name}\b", option, text) if "_" in name else text
    return text


def say(text: object) -> None:
    """Print to standard output; what could steer a terminal is shown as a code."""
    from ipseval.report._markup import visible

    sys.stdout.write(f"{visible(text, keep=chr(10))}\n")  # in one piece, also where output is not buffered


def complain(text: str) -> None:
    """Print one line to standard error."""
    from ipseval.report._markup import visible

    print(f"ipseval: {visible(text, keep=chr(10))}", file=sys.stderr)


def show_warning(
    options: argparse.Namespace, message: Warning | str, category: type[Warning], *_: Any, **__: Any
) -> None:
    """Print a warning as one line."""
    if not getattr(options, "quiet", False):
        complain(f"{category.__name__}: {in_options(str(message), options)}")
