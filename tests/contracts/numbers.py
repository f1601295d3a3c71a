"""The contract of numbers: `numbers.txt` holds what the library computed, and no number changes unsaid.

After a change of a number: a line under *Numbers changed* in CHANGELOG.md, then

    python -m tests.contracts.numbers --write "a few words of that line"

New numbers are added without words. The head of the file lists the words of every change; a test looks them
up in the changelog, and the seal says that numbers and words were written by this command.
"""

from __future__ import annotations

import argparse
import hashlib
import math
import re
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.contracts.number_cases import CASES

FILE = Path(__file__).with_name("numbers.txt")
CHANGELOG = Path(__file__).resolve().parents[2] / "CHANGELOG.md"
RELATIVE = 1e-12
ABSOLUTE = 1e-14  # of numbers that are zero but for rounding
REFRESH = (
    "a number changed: add a line under *Numbers changed* in CHANGELOG.md and refresh by "
    '`python -m tests.contracts.numbers --write "a few words of that line"`'
)

ADD = "numbers are not stored: add them by `python -m tests.contracts.numbers --write`"


@dataclass(frozen=True)
class Kept:
    """What the file holds: the words of each change, the numbers by case and name, and the seal."""

    changes: tuple[str, ...]
    numbers: Mapping[str, Mapping[str, float]]
    seal: str = ""

    def body(self) -> str:
        """Return the file's text below the seal."""
        lines = [f"changed: {words}" for words in self.changes]
        for case, values in self.numbers.items():
            lines += ["", f"[{case}]", *(f"{name} = {value!r}" for name, value in values.items())]
        return "\n".join(lines) + "\n"

    def text(self) -> str:
        """Return the file's text."""
        return f"seal: {sealed(self.body())}\n{self.body()}"

    @classmethod
    def parse(cls, text: str) -> Kept:
        """Return what a text of `text()` holds."""
        changes: list[str] = []
        numbers: dict[str, dict[str, float]] = {}
        seal = ""
        for line in text.splitlines():
            if line.startswith("["):
                case = numbers.setdefault(line[1:-1], {})
            elif " = " in line:
                name, value = line.rsplit(" = ", 1)
                case[name] = float(value)
            elif line.startswith("changed: "):
                changes.append(line.removeprefix("changed: "))
            elif line.startswith("seal: "):
                seal = line.removeprefix("seal: ")
        return cls(tuple(changes), numbers, seal)


def sealed(body: str) -> str:
    """Return the checksum of a body."""
    return hashlib.sha256(body.encode()).hexdigest()[:16]


def computed() -> dict[str, dict[str, float]]:
    """Return the numbers of today, by case and name."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {case: {name: float(one) for name, one in make().items()} for case, make in CASES.items()}


def same(a: float, b: float) -> bool:
    """Return whether two numbers are one, up to rounding."""
    return math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE) or (math.isnan(a) and math.isnan(b))


def changed(kept: Mapping[str, Mapping[str, float]], now: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Return a line for each number kept that is another now, or gone."""
    changed_lines = []
    for case, values in kept.items():
        for name, old in values.items():
            new = now.get(case, {}).get(name)
            if new is None:
                changed_lines.append(f"[{case}] {name}: {old!r}, and now not computed")
            elif not same(old, new):
                changed_lines.append(f"[{case}] {name}: {old!r}, and now {new!r}")
    return changed_lines


def entries(changelog: str) -> list[str]:
    """Return the entries under *Numbers changed*, of every release, each on one line."""
    sections = re.findall(r"^### Numbers changed\n(.*?)(?=^##? |^### |\Z)", changelog, flags=re.M | re.S)
    return [" ".join(word.split()) for text in sections for word in re.split(r"^ *- ", text, flags=re.M)[1:]]


def refreshed(kept: Kept, now: Mapping[str, Mapping[str, float]], words: str, changelog: str) -> Kept:
    """Return what the file shall hold; a ValueError says what is missing.

    A number that changed needs words of an entry under *Numbers changed* which no change before has used.
    """
    different = changed(kept.numbers, now)
    if not different:
        if words:
            raise ValueError("no number changed, so no words are kept")
        # Rounding of this machine: numbers that are the same stay as they were written.
        old = {case: dict(kept.numbers.get(case, {})) for case in now}
        return Kept(
            kept.changes, {case: {k: old[case].get(k, v) for k, v in now[case].items()} for case in now}
        )
    if not any(words and words in one for one in entries(changelog)):
        raise ValueError("\n".join([REFRESH, *different]))
    if words in kept.changes:
        raise ValueError(f"{words!r} stands for an earlier change: this one needs a line of its own")
    return Kept((*kept.changes, words), now)


def main() -> None:
    """Write the file anew."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--write", nargs="?", const="", metavar="WORDS", required=True)
    words = " ".join(parser.parse_args().write.split())
    kept = Kept.parse(FILE.read_text(encoding="utf-8")) if FILE.exists() else Kept((), {})
    try:
        new = refreshed(kept, computed(), words, CHANGELOG.read_text(encoding="utf-8"))
    except ValueError as error:
        sys.exit(str(error))
    FILE.write_text(new.text(), encoding="utf-8")
    print(f"{FILE.name}: {sum(map(len, new.numbers.values()))} numbers, {len(new.changes)} changes")


if __name__ == "__main__":
    main()
