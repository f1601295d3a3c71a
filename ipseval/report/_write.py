"""Texts for files: CSV without formulas, and the one way to hand a text over."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from ipseval._base.artefacts import write_text
from ipseval.report._escape import csv_cell, visible


def csv_text(frame: pd.DataFrame) -> str:
    """Return a frame as CSV in which no text is taken for a formula by a spreadsheet."""
    shown = frame.copy()
    for name in shown.columns:
        if not pd.api.types.is_numeric_dtype(shown[name]):
            shown[name] = [
                visible(csv_cell(value)) if isinstance(value, str) else value for value in shown[name]
            ]
    return shown.to_csv(index=False)


def deliver(text: str, path: str | Path | None) -> str:
    """Return a text, or the path that it is written to where one is given."""
    return text if path is None else str(write_text(path, text))
