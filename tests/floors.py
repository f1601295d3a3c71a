"""Print the lines and branches of the library that the tests run, and fail below the floors.

python -m coverage run -m pytest && python -m tests.floors
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

FLOORS = {"lines": 0.95, "branches": 0.90}
FIELDS = {"lines": ("covered_lines", "num_statements"), "branches": ("covered_branches", "num_branches")}


def shares(report: dict[str, dict[str, int]]) -> dict[str, float]:
    """Return the share of lines in a report of coverage.py, and of branches where they were measured."""
    totals = report["totals"]
    return {name: totals[hit] / totals[every] for name, (hit, every) in FIELDS.items() if every in totals}


def low(found: dict[str, float]) -> list[str]:
    """Return what is below its floor."""
    return [name for name, share in found.items() if not share >= FLOORS[name]]


def main() -> None:
    """Read `.coverage`, print, and exit with 1 below a floor."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "coverage.json"
        subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", str(path)], check=True)
        report = json.loads(path.read_text(encoding="utf-8"))
    shares_by_folder = shares(report)
    rows = sorted(
        (file_report["summary"]["percent_covered"], name) for name, file_report in report["files"].items()
    )
    print("\n".join(f"{share:5.1f} %  {name}" for share, name in rows[:15]))
    print(
        ", ".join(
            f"{share:.1%} of {name} (floor {FLOORS[name]:.0%})" for name, share in shares_by_folder.items()
        )
    )
    if low(shares_by_folder):
        sys.exit(f"below the floor: {', '.join(low(shares_by_folder))}")


if __name__ == "__main__":
    main()
