"""Registration of custom metrics, estimators, propensity models and adapters by name."""

from __future__ import annotations

from typing import Any, TypeVar

from ipseval.errors import InputError
from ipseval.estimators.base import Estimator
from ipseval.estimators.labels import ESTIMATORS
from ipseval.metrics.base import Metric
from ipseval.metrics.labels import METRICS
from ipseval.propensity.labels import PROPENSITIES
from ipseval.ranking.adapters.registry import ADAPTERS
from ipseval.utils.checks import describe_type
from ipseval.utils.public import public_function
from ipseval.utils.registry import Registry

__all__ = ["register"]

Member = TypeVar("Member")


@public_function
def register(member: Member, *, name: str | None = None) -> Member:
    """Register a custom metric, estimator, propensity model or adapter under a name.

    Labels and the command line find the member by this name. The function also works as a decorator of a
    class, `@ipseval.register`. An installed package registers its members by entry points of the groups
    `ipseval.metrics`, `ipseval.estimators`, `ipseval.propensities` and `ipseval.adapters`; they are loaded
    when a label or model needs them.

    Parameters
    ----------
    member : class, object or function
        A metric: a class derived from `ipseval.metrics.Metric`. An estimator: an
        `ipseval.estimators.Estimator`, or a class of them that takes no argument. A propensity model: a class
        with `fit(train) -> Propensity`. An adapter: a function `describe(model, split)` that returns
        `ipseval.adapters.ModelScores`.
    name : str, optional
        Default: the name of the metric, or the label of the estimator, which may have a parameter:
        `trimmed(0.1)`. Required for a propensity model: its label; and for an adapter: the top-level module
        of the models that it supports.

    Returns
    -------
    class, object or function
        `member`, unchanged.

    Raises
    ------
    InputError
        For any other object, and for a name that is taken. The same class, defined again, replaces the
        former.

    See Also
    --------
    ipseval.metric : Find a metric by its label.
    ipseval.metrics.Metric : Base class of metrics.
    ipseval.estimators.Estimator : Base class of estimators.

    Examples
    --------
    >>> from ipseval.ranking.adapters import ModelScores
    >>> def describe(model, split):
    ...     return ModelScores("torch", factors=(model.users, model.items, None))
    >>> register(describe, name="torch")
    Traceback (most recent call last):
    ipseval.errors.InputError: the adapter 'torch' is there already; choose another name.
    """
    registry, default_name = _find_registry(member)
    if name is None:
        name = default_name
    if name is None:
        argument = getattr(member, "__name__", type(member).__name__)
        raise InputError(f"this {registry.kind} needs a name: ipseval.register({argument}, name=…).")
    registry.add(name, member)
    return member


def _find_registry(member: object) -> tuple[Registry[Any], str | None]:
    """Return the registry of a member's family, and its default name; None where it has none."""
    cls = type(member)
    if isinstance(member, type):
        cls = member
    if issubclass(cls, Metric):
        return METRICS, getattr(member, "name", None)
    if issubclass(cls, Estimator):
        estimator = member
        if isinstance(member, type):
            estimator = cls()
        assert isinstance(estimator, Estimator)
        return ESTIMATORS, estimator.label.partition("(")[0]
    if hasattr(member, "fit"):
        return PROPENSITIES, None
    if callable(member) and not isinstance(member, type):
        return ADAPTERS, None
    raise InputError(
        "register takes a class of metrics, an estimator, a class of propensity models with fit(train), or a "
        f"function describe(model, split) of an adapter; got {describe_type(member)}."
    )
