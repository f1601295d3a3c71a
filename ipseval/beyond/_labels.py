"""Labels of measures: "coverage@10", or "novelty@10[replay]" for another library's convention."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ipseval._checks import check_positive_int
from ipseval._registry import lookup
from ipseval.beyond._measures import COMPAT, MEASURES, Definition, Rule
from ipseval.errors import InputError

LABEL = re.compile(r"\s*([a-z_]+)@(\d+)(?:\[([a-z]+)\])?\s*")
ALIASES = {"diversity": "ild", "popularity": "arp", "lift": "popularity_lift", "miuf": "novelty"}


@dataclass(frozen=True)
class Measure:
    """One measure of lists at a cutoff, by our definition or that of a library.

    Attributes
    ----------
    name : str
    cutoff : int
    library : str
        "" for ipseval's own.
    """

    name: str
    cutoff: int
    library: str = ""

    def __post_init__(self) -> None:
        lookup(MEASURES, self.name, "measure")
        check_positive_int("the cutoff", self.cutoff)
        if self.library:
            lookup(lookup(COMPAT, self.library, "library"), self.name, f"measure of {self.library}:")

    def __repr__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """What reports print, and `measure` reads."""
        return f"{self.name}@{self.cutoff}" + (f"[{self.library}]" if self.library else "")

    @property
    def definition(self) -> Definition:
        """Formula, range and source."""
        return MEASURES[self.name]

    @property
    def rule(self) -> Rule:
        """What computes it from lists."""
        return COMPAT[self.library][self.name][1] if self.library else self.definition.rule

    def card(self) -> str:
        """Return the definition as text, with the conventions of other libraries."""
        one = self.definition
        lines = [
            self.label,
            f"  value      {one.formula}",
            f"  reads      {one.reads}",
            f"  direction  {one.direction}",
            "  claim      none: it describes the lists, and no propensity enters",
            f"  source     {one.source}",
        ]
        for library, known in COMPAT.items():
            if self.name in known:
                name, _, difference = known[self.name]
                lines.append(f"  [{library}]  {name}: {difference or 'the same'}")
        return "\n".join(lines)


def measure(label: str | Measure) -> Measure:
    """Return the measure that a label names, such as "coverage@10" or "novelty@10[replay]".

    Raises
    ------
    InputError, UnknownNameError
        For text that is no label, and names that do not exist.

    Examples
    --------
    >>> measure("Coverage@10"), measure("novelty@5[replay]").library
    (coverage@10, 'replay')
    """
    if isinstance(label, Measure):
        return label
    found = LABEL.fullmatch(label.lower()) if isinstance(label, str) else None
    if found is None:
        raise InputError(
            f"a measure of lists is a name with a cutoff, such as coverage@10; got {label!r:.80}. Names: "
            f"{', '.join(MEASURES)}."
        )
    name, cutoff, library = found.groups()
    return Measure(ALIASES.get(name, name), int(cutoff), library or "")
