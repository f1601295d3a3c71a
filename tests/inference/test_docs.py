"""The page on uncertainty shows what its example prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "uncertainty.md").read_text(encoding="utf-8")


def test_the_example_prints_what_stands_below_it():
    program = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    shown = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert [line.rstrip() for line in done.stdout.splitlines()] == shown.splitlines()
