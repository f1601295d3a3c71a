"""Run mypy and pyright over main expressions, mistakes that they must find, and the examples of the pages.

python -m tests.typed            the checkers that are installed: pip install mypy pyright
"""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PAGES = ("docs/index.md", "docs/tutorial.md")
FILES = ("results.py", "wrong.py")


def programs(page: str) -> list[str]:
    """Return the programs of a page: each of its blocks of Python imports what it uses."""
    return re.findall(r"^```python\n(.*?)^```", (ROOT / page).read_text(encoding="utf-8"), flags=re.M | re.S)


def mypy(folder: Path) -> Counter[tuple[str, int]]:
    """Return in which lines mypy finds errors."""
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--strict"]
    files = map(str, sorted(folder.glob("*.py")))
    done = subprocess.run([*command, *files], cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"mypy failed\n{done.stdout}{done.stderr}")
    matches = re.findall(r"^(?:.*/)?(\w+\.py):(\d+): error: (.*)$", done.stdout, flags=re.M)
    for name, line, text in matches:
        print(f"mypy     {name}:{line}: {text}")
    return Counter((name, int(line)) for name, line, _ in matches)


def pyright(folder: Path) -> Counter[tuple[str, int]]:
    """Return in which lines pyright finds errors."""
    (folder / "pyrightconfig.json").write_text(
        json.dumps({"typeCheckingMode": "standard", "extraPaths": [str(ROOT)], "pythonVersion": "3.11"})
    )
    command = [sys.executable, "-m", "pyright", "--outputjson", "--pythonpath", sys.executable]
    done = subprocess.run([*command, "-p", str(folder)], cwd=ROOT, capture_output=True, text=True)
    if done.returncode not in (0, 1):
        sys.exit(f"pyright failed\n{done.stdout}{done.stderr}")
    complaints = [
        (Path(diagnostic["file"]).name, diagnostic["range"]["start"]["line"] + 1, diagnostic["message"])
        for diagnostic in json.loads(done.stdout)["generalDiagnostics"]
        if diagnostic["severity"] == "error"
    ]
    for name, line, text in complaints:
        print(f"pyright  {name}:{line}: {text.splitlines()[0]}")
    return Counter((name, line) for name, line, _ in complaints)


def expected(text: str) -> set[int]:
    """Return the lines that are mistakes."""
    return {number for number, line in enumerate(text.splitlines(), 1) if line.endswith("# error")}


def main() -> None:
    """Run the checkers; exit code 1 where one finds something else than the mistakes."""
    every = {"mypy": mypy, "pyright": pyright}
    checkers = {name: run for name, run in every.items() if importlib.util.find_spec(name)}
    if not checkers:
        sys.exit("neither mypy nor pyright is installed")
    failed = False
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        for name in FILES:
            (folder / name).write_text((HERE / name).read_text(encoding="utf-8"), encoding="utf-8")
        for page in PAGES:
            for number, program in enumerate(programs(page), 1):
                (folder / f"{Path(page).stem}_program_{number}.py").write_text(program, encoding="utf-8")
        wanted = {("wrong.py", line) for line in expected((HERE / "wrong.py").read_text(encoding="utf-8"))}
        for name, run in checkers.items():
            mistakes = set(run(folder))
            failed |= mistakes != wanted
            print(
                f"{name}: {len(mistakes - wanted)} false errors, {len(wanted - mistakes)} mistakes not found"
            )
    sys.exit(failed)


if __name__ == "__main__":
    main()
