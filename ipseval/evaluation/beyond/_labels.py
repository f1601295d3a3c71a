"""Labels of measures, such as "coverage@10"."""

from __future__ import annotations

import re
from dataclasses import dataclass

from ipseval._base.checks import check_positive_int
from ipseval._base.registry import lookup
from ipseval.errors import InputError
from ipseval.evaluation.beyond._measures import MEASURES, Definition, Rule

LABEL = re.compile(r"\s*([a-z_]+)@(\d+)\s*")
ALIASES = {"diversity": "ild", "popularity": "arp", "lift": "popularity_lift", "miuf": "novelty"}


@dataclass(frozen=True)
class Measure:
    """One measure of lists at a cutoff.

    Attributes
    ----------
    name : str
    cutoff : int
    """

    name: str
    cutoff: int

    def __post_init__(self) -> None:
        lookup(MEASURES, self.name, "measure")
        check_positive_int("the cutoff", self.cutoff)

    def __repr__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """What reports print, and `measure` reads."""
        return f"{self.name}@{self.cutoff}"

    @property
    def definition(self) -> Definition:
        """Formula, range and source."""
        return MEASURES[self.name]

    @property
    def rule(self) -> Rule:
        """What computes it from lists."""
        return self.definition.rule

    def card(self) -> str:
        """Return the definition as text."""
        one = self.definition
        return "\n".join(
            [
                self.label,
                f"  value      {one.formula}",
                f"  reads      {one.reads}",
                f"  direction  {one.direction}",
                "  claim      none: it describes the lists, and no propensity enters",
                f"  source     {one.source}",
            ]
        )


def measure(label: str | Measure) -> Measure:
    """Return the measure that a label names, such as "coverage@10".

    Raises
    ------
    InputError, UnknownNameError
        For text that is no label, and names that do not exist.

    Examples
    --------
    >>> measure("Coverage@10")
    coverage@10
    """
    if isinstance(label, Measure):
        return label
    found = LABEL.fullmatch(label.lower()) if isinstance(label, str) else None
    if found is None:
        raise InputError(
            f"a measure of lists is a name with a cutoff, such as coverage@10; got {label!r:.80}. Names: "
            f"{', '.join(MEASURES)}."
        )
    name, cutoff = found.groups()
    return Measure(ALIASES.get(name, name), int(cutoff))
