"""Problems and counts that are collected while data are read."""

from __future__ import annotations

from dataclasses import dataclass, field

from ipseval.errors import InputError, Problem
from ipseval.utils.notes import Count, CountCode, drop_zero_counts


@dataclass(frozen=True)
class ColumnProblem(Problem):
    """Describe a problem of one column.

    Attributes
    ----------
    role : str
        Role of the column in a log, such as "propensity".
    """

    role: str = ""


@dataclass
class Audit:
    """Collect the problems of a source, and the numbers of rows that were left out, merged or kept."""

    problems: list[Problem] = field(default_factory=list)
    counts: list[Count] = field(default_factory=list)

    def add_problem(self, description: str, fix: str = "", *, role: str = "") -> None:
        """Add a problem with its suggested fix, and the role of the column that has it."""
        if role:
            self.problems.append(ColumnProblem(description, fix, role))
        else:
            self.problems.append(Problem(description, fix))

    def add_error(self, error: InputError) -> None:
        """Add the text of an error as a problem: its first sentence, and the others as the fix."""
        text = str(error).strip().rstrip(".")
        description, _, fix = text.partition(". ")
        self.add_problem(description, fix)

    def add_count(self, description: str, number: int, total: int, *, code: CountCode = "exclusion") -> None:
        """Add a count of excluded rows, or of others by `code`; a count of 0 is not recorded."""
        self.counts += drop_zero_counts(Count(description, number, total, code=code))
