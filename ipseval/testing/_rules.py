"""Rules of several metrics: their form in Python and in a TOML file."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ipseval.errors import InputError, UnknownNameError
from ipseval.testing._bounds import check_margin, parse_percentage
from ipseval.utils.artefacts import reading
from ipseval.utils.checks import check_real, check_type

RULE_OPTIONS = ("at_least", "estimator", "margin", "suspicious")
TABLE = "gate"  # of a file; in pyproject.toml it is tool.ipseval.gate
Rules: TypeAlias = Mapping[str, Mapping[str, float | str]] | str | Path


@dataclass(frozen=True)
class Rule:
    """The requirement of a gate for one metric.

    Attributes
    ----------
    threshold : float or None
        Value that the candidate must reach; None: there is no absolute limit.
    margin : float or None
        Tolerated loss, as in `gate`, which refuses a percentage.
    estimator : str or None
        Label of the estimator, as in `gate`.
    suspicious : float or None
        Share from which an improvement is implausible, as in `gate`.
    compares : bool
        Whether the candidate is compared with the incumbent.
    """

    threshold: float | None = None
    margin: float | None = None
    estimator: str | None = None
    suspicious: float | None = None
    compares: bool = True

    @property
    def limit(self) -> float:
        """The absolute limit; -inf where there is none."""
        return -math.inf if self.threshold is None else self.threshold


def read_rules(path: str | Path) -> dict[str, Rule]:
    """Return the rules of the table `gate` of a TOML file, or of `tool.ipseval.gate` of a pyproject.toml.

    Raises
    ------
    InputError
        When the file cannot be read, is not TOML, or has no such table.
    """
    path = Path(path)
    with reading(path):
        content = path.read_bytes()
    try:
        document = tomllib.loads(content.decode("utf-8"))
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{path} must be a TOML file; {error}.") from None

    name = TABLE
    table: object = document
    if path.name == "pyproject.toml":
        name = f"tool.ipseval.{TABLE}"
    for key in name.split("."):
        table = table.get(key) if isinstance(table, Mapping) else None
    if not isinstance(table, Mapping) or not table:
        raise InputError(
            f'{path} must have a table [{name}] with metrics; got none. Add a line such as "recall@10" = '
            "{margin = 0.01, at-least = 0.08}."
        )
    return parse_rules(table)


def parse_rules(table: Mapping[str, object]) -> dict[str, Rule]:
    """Return the rule of each metric of a mapping; at-least and at_least are the same option.

    Raises
    ------
    InputError
        For a value of the wrong type or out of range.
    UnknownNameError
        For an unknown option of a metric.
    """
    rules = {}
    for metric, options in table.items():
        if not isinstance(options, Mapping):
            raise InputError(f"the rule of {metric} must be a table of options; got {options!r:.60}.")
        rules[metric] = _parse_rule(metric, options)
    return rules


def parse_limits(limits: Mapping[str, float]) -> dict[str, Rule]:
    """Return a rule with an absolute limit alone for each metric."""
    rules = {}
    for metric, value in limits.items():
        threshold = check_real(f"limit of {metric}", value)
        rules[metric] = Rule(threshold=threshold, compares=False)
    return rules


def _parse_rule(metric: str, options: Mapping[str, object]) -> Rule:
    """Return the rule of one metric."""
    values: dict[str, object] = {}
    for name, value in options.items():
        option = name.replace("-", "_")
        if option not in RULE_OPTIONS:
            raise UnknownNameError(f"option of the rule of {metric}:", name, RULE_OPTIONS)
        values[option] = value

    threshold = None
    if "at_least" in values:
        threshold = check_real(f"at_least of {metric}", values["at_least"])
    margin: Any = None
    if "margin" in values:
        margin = values["margin"]
        if parse_percentage(margin) is None:
            margin = check_margin(f"margin of {metric}", margin)
    suspicious = None
    if "suspicious" in values:
        suspicious = check_real(f"suspicious of {metric}", values["suspicious"], low=0.0)
    estimator = values.get("estimator")
    check_type(f"estimator of {metric}", estimator, (str, type(None)))
    return Rule(
        threshold=threshold,
        margin=margin,
        estimator=estimator if isinstance(estimator, str) else None,
        suspicious=suspicious,
        compares=threshold is None or margin is not None or suspicious is not None,
    )
