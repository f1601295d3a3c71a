"""The record of a mutation run: one line of JSON for each mutant, and the table of several runs.

    python -m tests.mutation.record after.jsonl before.jsonl

prints for each layer how many mutants the first run judged and found, and how many any of the other runs found,
which judge the same mutants by other tests. Below the table stand the mutants that only one side found.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from tests.mutation.sample import Mutant


@dataclass(frozen=True)
class Outcome:
    """A mutant, whether a test found it, and the first test that failed; empty for a limit of time."""

    layer: str
    mutant: Mutant
    is_found: bool
    test: str

    def to_json(self) -> str:
        """Return one line of JSON."""
        return json.dumps(asdict(self))


def read_record(path: Path) -> list[Outcome]:
    """Return the outcomes of a file."""
    outcomes = []
    for line in path.read_text(encoding="utf-8").splitlines():
        fields = json.loads(line)
        outcomes.append(Outcome(**(fields | {"mutant": Mutant(**fields["mutant"])})))
    return outcomes


def write_record(path: Path, outcomes: Iterable[Outcome]) -> None:
    """Add outcomes to a file."""
    with path.open("a", encoding="utf-8") as record:
        record.writelines(f"{outcome.to_json()}\n" for outcome in outcomes)


def select_found(outcomes: Iterable[Outcome]) -> set[Mutant]:
    """Return the mutants that a test found."""
    return {outcome.mutant for outcome in outcomes if outcome.is_found}


def format_table(after: Sequence[Outcome], found_before: set[Mutant]) -> str:
    """Return the numbers of planted and found mutants of each layer as a table in Markdown."""
    found_after = select_found(after)
    lines = [
        "| layer | planted | found before | found after | found before and after |",
        "|---|--:|--:|--:|--:|",
    ]
    names = list(dict.fromkeys(outcome.layer for outcome in after))
    for name in [*names, "all"]:
        planted = {outcome.mutant for outcome in after if name in (outcome.layer, "all")}
        before = planted & found_before
        counts = (len(planted), len(before), len(planted & found_after), len(before & found_after))
        lines.append(f"| {name} | {' | '.join(map(str, counts))} |")
    return "\n".join(lines)


def format_mutants(mutants: Iterable[Mutant]) -> str:
    """Return mutants as text, one after another."""
    return "\n".join(
        f"  {mutant.path}:{mutant.line}\n    {mutant.before}\n    {mutant.after}" for mutant in mutants
    )


def main() -> None:
    """Print the table of two or more records."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("after", type=Path, help="record of the tests of today")
    parser.add_argument("before", type=Path, nargs="+", help="records of other tests with the same mutants")
    options = parser.parse_args()
    after = read_record(options.after)
    found_after = select_found(after)
    found_before = set().union(*(select_found(read_record(path)) for path in options.before))
    planted = [outcome.mutant for outcome in after]
    print(format_table(after, found_before))
    print("\nfound before alone:")
    print(format_mutants(mutant for mutant in planted if mutant in found_before - found_after))
    print("\nfound after alone:")
    print(format_mutants(mutant for mutant in planted if mutant in found_after - found_before))
    print("\nfound by neither:")
    print(format_mutants(mutant for mutant in planted if mutant not in found_after | found_before))


if __name__ == "__main__":
    main()
