"""What a subcommand is: its words, its options, and what it does."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """One subcommand of `ipseval`.

    Attributes
    ----------
    name, summary : str
        As in the list of commands.
    description : str
        What it does, for its own help.
    examples : tuple of str
        Command lines, shown at the end of the help.
    add : function of the parser
        Adds the options.
    run : function of the options
        Does the work and returns the exit code.
    """

    name: str
    summary: str
    description: str
    examples: tuple[str, ...]
    add: Callable[[argparse.ArgumentParser], None]
    run: Callable[[argparse.Namespace], int]
