"""The page on uncertainty shows what its example prints."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "uncertainty.md").read_text(encoding="utf-8")


def test_the_example_of_the_page_prints_the_output_on_the_page(capsys):
    program = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    shown = re.findall(r"```text\n(.*?)```", PAGE, flags=re.DOTALL)[0]
    exec(compile(program, "uncertainty.md", "exec"), {"__name__": "__main__"})
    assert [line.rstrip() for line in capsys.readouterr().out.splitlines()] == shown.splitlines()
