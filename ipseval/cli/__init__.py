"""Command line: subcommands of one subject a file, the options they share in `_options`, and `main`."""

from __future__ import annotations

from ipseval.cli._main import main

__all__ = ["main"]
