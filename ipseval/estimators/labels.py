"""Labels of estimators, name or name(parameter): the registry, the parser, and names for display."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

from ipseval.errors import InputError
from ipseval.estimators.aoa import Aoa
from ipseval.estimators.base import Estimator, Target
from ipseval.estimators.ips import Ips
from ipseval.estimators.snips import ShrunkSnips, Snips
from ipseval.utils.checks import describe_type
from ipseval.utils.registry import Registry

AOA: Final = "aoa"
AOA_POOLED: Final = "aoa-pooled"
IPS: Final = "ips"
SNIPS_PER_USER: Final = "snips"
SNIPS_GLOBAL: Final = "snips-global"
SNIPS_POOLED: Final = "snips-pooled"
ESTIMATORS_SHOWN = (
    AOA,
    AOA_POOLED,
    IPS,
    SNIPS_PER_USER,
    SNIPS_GLOBAL,
    SNIPS_POOLED,
)  # in the card of a metric

# Other names of the estimators in the literature.
ALIASES = {"naive": AOA, "ipw": IPS, "hajek": SNIPS_POOLED, "snipw": SNIPS_POOLED}
_LABEL = re.compile(r"(?P<name>[^()]*)(?:\((?P<parameter>[^()]*)\))?")


def _check_estimator(name: str, entry: object) -> Estimator:
    """Return the estimator of a registry entry, which may be its class; raise for a wrong name or type."""
    estimator = entry
    if isinstance(entry, type) and issubclass(entry, Estimator):
        estimator = entry()
    if not isinstance(estimator, Estimator):
        raise InputError(
            f"an estimator is an object or class of ipseval.estimators.Estimator; got {describe_type(entry)}."
        )
    if name in ALIASES:
        raise InputError(f"the estimator {name!r} is there already; choose another name.")
    if estimator.label.partition("(")[0] != name or re.fullmatch("[a-z][a-z0-9_-]*", name) is None:
        raise InputError(
            f"the estimator {type(estimator).__name__} has the label {estimator.label!r} and is "
            f"registered as {name!r}; both must be equal, of small letters, digits and hyphens."
        )
    return estimator


def _list_classes(entries: Iterable[object]) -> tuple[type[Estimator], ...]:
    """Return the class of each estimator once; a text that names an estimator of another layer has none."""
    classes: list[type[Estimator]] = []
    for entry in entries:
        if isinstance(entry, Estimator) and type(entry) not in classes:
            classes.append(type(entry))
    return tuple(classes)


# Each label with its estimator; `DISPLAY_NAMES` below has its name in tables.
_BUILT_IN: dict[str, Any] = {
    AOA: Aoa(normalize="user"),
    AOA_POOLED: Aoa(normalize="pooled"),
    IPS: Ips(),
    SNIPS_PER_USER: Snips(normalize="user"),
    SNIPS_GLOBAL: Snips(normalize="global"),
    SNIPS_POOLED: Snips(normalize="pooled"),
    "snips-shrunk": ShrunkSnips(),
    # Estimators that read impressions are in a layer above, and are imported when they are requested.
    "dm": "ipseval.policies._estimators:DirectMethod",
    "dr": "ipseval.policies._estimators:DoublyRobust",
    "snips-impressions": "ipseval.policies._estimators:SnipsImpressions",
}
# Classes of the built-in estimators, as files of results name them.
ESTIMATOR_CLASSES: tuple[type[Estimator], ...] = _list_classes(_BUILT_IN.values())
ESTIMATORS: Registry[Estimator] = Registry("estimator", "ipseval.estimators", _BUILT_IN, _check_estimator)


def resolve_estimator(name: str | Estimator) -> Estimator:
    """Return the estimator of a label, in any case; an Estimator object is returned as it is."""
    if isinstance(name, Estimator):
        return name
    if not isinstance(name, str):
        raise InputError(
            f"an estimator is a label such as {SNIPS_PER_USER!r} or an Estimator object; got {name!r}."
        )
    match = _LABEL.fullmatch(name.strip().lower())
    if match is None:
        raise InputError(f"estimator {name!r} does not parse; expected a name or name(parameter).")
    name = match["name"].strip()
    estimator = ESTIMATORS.find(ALIASES.get(name, name))
    if match["parameter"] is None:
        return estimator
    return estimator.with_parameter(match["parameter"].strip())


def default_estimators(*, weighted: bool) -> tuple[str, ...]:
    """Return the labels of the default estimators; `weighted` says whether there is a propensity."""
    if weighted:
        return (AOA, SNIPS_GLOBAL)
    return (AOA,)


def get_unweighted_estimator(target: Target) -> Estimator:
    """Return the unweighted estimator (AOA) of an average, with which weighted ones are compared."""
    if target == "pooled":
        return ESTIMATORS[AOA_POOLED]
    return ESTIMATORS[AOA]


# Names in tables and plots, by label.
DISPLAY_NAMES = {
    AOA: "AOA",
    AOA_POOLED: "AOA pooled",
    IPS: "IPS",
    SNIPS_PER_USER: "SNIPS per user",  # Snips(normalize="user")
    SNIPS_GLOBAL: "SNIPS",  # Snips(normalize="global")
    SNIPS_POOLED: "SNIPS pooled",
    "snips-shrunk": "SNIPS shrunk",
    "snips-impressions": "SNIPS of impressions",
    "dm": "DM",
    "dr": "DR",
}


def display_name(label: str) -> str:
    """Return the name of an estimator in tables, plots and sentences; an unknown label is its own name.

    Examples
    --------
    >>> display_name("aoa"), display_name("snips-global"), display_name("snips-shrunk(0.5)")
    ('AOA', 'SNIPS', 'SNIPS shrunk (0.5)')
    """
    name, parenthesis, parameter = label.partition("(")
    if name not in DISPLAY_NAMES:
        return label
    if not parenthesis:
        return DISPLAY_NAMES[name]
    return f"{DISPLAY_NAMES[name]} ({parameter}"


def display_names(labels: Sequence[str]) -> dict[str, str]:
    """Return label -> name of several estimators; snips-global is "SNIPS global" among several SNIPS."""
    names = {label: display_name(label) for label in labels}
    variants = []
    for label in labels:
        if label.startswith(SNIPS_PER_USER):
            variants.append(label)

    if SNIPS_GLOBAL in names and len(variants) > 1:
        names[SNIPS_GLOBAL] = "SNIPS global"
    return names
