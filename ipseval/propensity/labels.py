"""Registry of propensity models, and their labels such as "power-law:gamma=0,unseen=smooth"."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from inspect import Parameter, signature
from typing import Any

from ipseval.errors import InputError, UnknownNameError
from ipseval.propensity._base import PropensityModel
from ipseval.propensity._density_ratio import DensityRatioPropensity
from ipseval.propensity._exposure import DirectPropensity, StratifiedPropensity
from ipseval.propensity._jain import JainPropensity
from ipseval.propensity._known import KnownPropensity
from ipseval.propensity._power_law import PowerLawPropensity
from ipseval.propensity.impression_propensities import ImpressionPropensity, LoggedPropensity
from ipseval.utils.checks import describe_type
from ipseval.utils.public import public_function
from ipseval.utils.registry import Registry


def _check_model_class(name: str, candidate: Any) -> type[Any]:
    """Return a class that can be registered as a propensity model under a name that labels can contain."""
    if not (isinstance(candidate, type) and callable(getattr(candidate, "fit", None))):
        raise InputError(
            f"a propensity model is a class with fit(train) -> Propensity; got {describe_type(candidate)}."
        )
    if re.fullmatch(r"[\w-]+", name) is None:
        raise InputError(f"the name of a propensity model has letters, digits and hyphens; got {name!r}.")
    return candidate


_BUILT_IN: dict[str, type[Any]] = {
    "power-law": PowerLawPropensity,
    "jain": JainPropensity,
    "known": KnownPropensity,
    "direct": DirectPropensity,
    "stratified": StratifiedPropensity,
    "density-ratio": DensityRatioPropensity,
    "impressions": ImpressionPropensity,
    "logged": LoggedPropensity,
}
PROPENSITIES = Registry("propensity model", "ipseval.propensities", _BUILT_IN, _check_model_class)

# Names from other libraries, with the label to use here.
_POPULARITY_ADVICE = 'A propensity by popularity is "power-law:gamma=0".'
FOREIGN_NAMES = {
    "popularity": _POPULARITY_ADVICE,
    "pop": _POPULARITY_ADVICE,
    "item_popularity": _POPULARITY_ADVICE,
    "log_popularity": _POPULARITY_ADVICE,
    "naive": _POPULARITY_ADVICE,
}
# Options that hold data cannot be part of a label.
DATA_OPTIONS = {
    "exposure",
    "biased",
    "recommendations",
    "features",
    "log",
    "examination",
    "item",
    "pair",
    "user",
    "function",
}
LABEL = re.compile(r"\s*([\w-]+)\s*(?::(.*)|\((.*)\))?\s*", re.DOTALL)
WORD_VALUES = {"none": None, "true": True, "false": False}
OptionValue = bool | int | float | str | None


@public_function
def parse_propensity(label: str) -> PropensityModel:
    """Create the unfitted propensity model of a label.

    Parameters
    ----------
    label : str
        ``name:option=value,…`` or ``name(option=value, …)``.

    Returns
    -------
    PropensityModel
        The unfitted model.

    Raises
    ------
    UnknownNameError
        For a name that is not in `PROPENSITIES`, or an option that the model does not have.
    InputError
        When the label does not parse or lacks an option without default, or the model refuses a value.

    See Also
    --------
    PROPENSITIES : The names.

    Examples
    --------
    >>> parse_propensity("power-law:gamma=0,unseen=smooth").unseen
    'smooth'
    >>> parse_propensity("power-law(gamma=1, scale=max)").scale
    'max'
    """
    match = LABEL.fullmatch(label) if isinstance(label, str) else None
    if match is None:
        raise InputError(
            f"a propensity label is name:option=value,… or name(option=value, …); got {label!r}."
        )
    name, text_after_colon, text_in_brackets = match.groups()
    model_class = PROPENSITIES.find(name, FOREIGN_NAMES)
    options = _parse_options(text_after_colon or text_in_brackets or "", name, model_class)
    _check_required_options(options, name, model_class)
    model: PropensityModel = model_class(**options)
    return model


def add_label_options(label: str, options: Mapping[str, object]) -> str:
    """Return a label with further options, such as "power-law:gamma=0,scale=max" of "power-law:gamma=0"."""
    match = LABEL.fullmatch(label)
    if match is None or not options:
        return label
    name, text_after_colon, text_in_brackets = match.groups()
    assignments = []
    text = text_after_colon or text_in_brackets
    if text:
        assignments.append(text)
    for option, value in options.items():
        assignments.append(f"{option}={value}")
    return f"{name}:{','.join(assignments)}"


def _parse_options(text: str, name: str, model_class: type[Any]) -> dict[str, OptionValue]:
    """Return the options of a label for a model, or raise for options that the model cannot take."""
    parameters = signature(model_class).parameters
    allowed_names = []
    for parameter in parameters:
        if parameter not in DATA_OPTIONS:
            allowed_names.append(parameter)

    options: dict[str, OptionValue] = {}
    for assignment in text.split(","):
        if not assignment.strip():
            continue
        option_text, equals, value_text = assignment.partition("=")
        option = option_text.strip()
        if option in DATA_OPTIONS and option in parameters:
            raise _build_data_error(option, name, model_class)
        if option not in allowed_names:
            raise UnknownNameError(f"option of {name}", option, allowed_names)
        if not equals:
            raise InputError(f"each option of {name} is written as option=value; got {assignment.strip()!r}.")
        value = _parse_option_value(value_text.strip())
        if option in options:
            raise InputError(
                f"{option} of {name} must be given once; got {options[option]!r} and {value!r}. Leave one of them out."
            )
        options[option] = value
    return options


def _check_required_options(options: dict[str, OptionValue], name: str, model_class: type[Any]) -> None:
    """Raise `InputError` unless a label has every option without default."""
    missing_names = []
    for parameter in signature(model_class).parameters.values():
        is_named = parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        if is_named and parameter.default is Parameter.empty and parameter.name not in options:
            missing_names.append(parameter.name)
    if not missing_names:
        return
    for option in missing_names:
        if option in DATA_OPTIONS:
            raise _build_data_error(option, name, model_class)
    assignments = ",".join(f"{option}=VALUE" for option in missing_names)
    raise InputError(
        f"{name} must have a value for {' and '.join(missing_names)}; got none. Add {assignments} to the label."
    )


def _build_data_error(option: str, name: str, model_class: type[Any]) -> InputError:
    """Return the error of an option that holds data."""
    return InputError(
        f"{option} of {name} holds data, which a label cannot; make a {model_class.__name__} in Python."
    )


def _parse_option_value(text: str) -> OptionValue:
    """Return none, true, false or a number as a value, and any other text as it is."""
    if text.lower() in WORD_VALUES:
        return WORD_VALUES[text.lower()]
    for number_type in (int, float):
        with contextlib.suppress(ValueError):
            return number_type(text)
    return text
