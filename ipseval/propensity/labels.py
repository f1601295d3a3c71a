"""The registry of propensity models, and their labels: "power-law:gamma=0,unseen=smooth"."""

from __future__ import annotations

import contextlib
import re
from inspect import signature
from typing import Any

from ipseval.errors import InputError, UnknownNameError
from ipseval.propensity._base import PropensityModel
from ipseval.propensity._density_ratio import DensityRatioPropensity
from ipseval.propensity._exposure import DirectPropensity, StratifiedPropensity
from ipseval.propensity._known import KnownPropensity
from ipseval.propensity._power_law import PowerLawPropensity
from ipseval.propensity.impressions import ImpressionPropensity, LoggedPropensity
from ipseval.utils.checks import kind_of
from ipseval.utils.registry import Registry


def _model_class(name: str, given: Any) -> type[Any]:
    """Return a class of propensity models that is registered by a name that a label can have."""
    if not (isinstance(given, type) and callable(getattr(given, "fit", None))):
        raise InputError(
            f"a propensity model is a class with fit(train) -> Propensity; got {kind_of(given)}."
        )
    if re.fullmatch(r"[\w-]+", name) is None:
        raise InputError(f"the name of a propensity model has letters, digits and hyphens; got {name!r}.")
    return given


_BUILT_IN: dict[str, type[Any]] = {
    "power-law": PowerLawPropensity,
    "known": KnownPropensity,
    "direct": DirectPropensity,
    "stratified": StratifiedPropensity,
    "density-ratio": DensityRatioPropensity,
    "impressions": ImpressionPropensity,
    "logged": LoggedPropensity,
}
PROPENSITIES = Registry("propensity model", "ipseval.propensities", _BUILT_IN, _model_class)
# Names that other libraries have, and the label here.
_POPULARITY = 'A propensity by popularity is "power-law:gamma=0".'
ELSEWHERE = dict.fromkeys(("popularity", "pop", "item_popularity", "log_popularity", "naive"), _POPULARITY)
# Options that hold data have no text.
DATA = {"exposure", "biased", "recommendations", "features", "log", "examination"}
DATA |= {"item", "pair", "user", "function"}
LABEL = re.compile(r"\s*([\w-]+)\s*(?::(.*)|\((.*)\))?\s*", re.DOTALL)
WORDS = {"none": None, "true": True, "false": False}


def parse_propensity(label: str) -> PropensityModel:
    """Return the unfitted propensity model of a label, name:option=value,… or name(option=value, …).

    Raises
    ------
    UnknownNameError
        For a name that is not in `PROPENSITIES`, or an option that the model does not have.
    InputError
        When the label does not parse, or the model refuses a value.

    Examples
    --------
    >>> parse_propensity("power-law:gamma=0,unseen=smooth").unseen
    'smooth'
    >>> parse_propensity("power-law(gamma=1, scale=max)").scale
    'max'
    """
    found = LABEL.fullmatch(label) if isinstance(label, str) else None
    if found is None:
        raise InputError(
            f"a propensity label is name:option=value,… or name(option=value, …); got {label!r}."
        )
    name, *inside = found.groups()
    model = PROPENSITIES.find(name, ELSEWHERE)
    parameters = signature(model).parameters
    names = [one for one in parameters if one not in DATA]
    options: dict[str, Any] = {}
    for part in filter(str.strip, (inside[0] or inside[1] or "").split(",")):
        option, equals, value = (text.strip() for text in part.partition("="))
        if option in DATA and option in parameters:
            raise InputError(
                f"{option} of {name} holds data, which a label cannot; make a {model.__name__} in Python."
            )
        if option not in names:
            raise UnknownNameError(f"option of {name}", option, names)
        if not equals or option in options:
            raise InputError(f"each option of {name} is given once, as option=value; got {part.strip()!r}.")
        options[option] = _value(value)
    made: PropensityModel = model(**options)
    return made


def _value(text: str) -> Any:
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return kind(text)
    return text
