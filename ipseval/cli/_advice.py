"""Errors and warnings on standard error, with options of the command line in place of arguments in Python."""

from __future__ import annotations

import argparse
import re
import sys
from typing import Any

# What is called otherwise on the command line than in Python.
_PHRASES = {
    r" to Split\.from_frames": "",
    r"pass propensity=PowerLawPropensity\(gamma=…\) or another model": "give --gamma or --propensity",
    r"correct with ipseval\.metric\(label, sampled='bv'\)": "take a metric such as recall(sampled=bv)@10",
}
_NAMES = {
    **{name: f"--{name}-column" for name in ("user", "item", "value", "timestamp", "position", "shown")},
    **{name: f"--{name}-column" for name in ("clicked", "query")},
    "rng": "--seed",
    "n_threads": "--threads",
    "max_memory": "--memory",
}


def in_options(text: str, options: argparse.Namespace) -> str:
    """Return the text of an error with options of the command line in place of arguments in Python."""
    for phrase, words in _PHRASES.items():
        text = re.sub(phrase, words, text)
    names = {name: f"--{name.replace('_', '-')}" for name in vars(options)} | {
        name: option for name, option in _NAMES.items() if hasattr(options, option[2:].replace("-", "_"))
    }
    for name, option in names.items():
        text = re.sub(rf"\b{name}=['\"]?([\w.…<>]+)['\"]?", rf"{option} \1", text)
        text = re.sub(rf"(?<![-\w]){name}\b", option, text) if "_" in name else text
    return text


def say(text: object) -> None:
    """Print to standard output; what could steer a terminal is shown as a code."""
    from ipseval.report import visible

    print(visible(text, keep="\n"))


def complain(text: str) -> None:
    """Print one line to standard error."""
    from ipseval.report import visible

    print(f"ipseval: {visible(text)}", file=sys.stderr)


def show_warning(
    options: argparse.Namespace, message: Warning | str, category: type[Warning], *_: Any, **__: Any
) -> None:
    """Print a warning as one line."""
    if not getattr(options, "quiet", False):
        complain(f"{category.__name__}: {in_options(str(message), options)}")
