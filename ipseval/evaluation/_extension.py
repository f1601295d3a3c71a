"""Members of one's own: metrics, estimators, propensity models and adapters of other packages, by name."""

from __future__ import annotations

from typing import Any, TypeVar

from ipseval.errors import InputError
from ipseval.estimators.base import Estimator
from ipseval.estimators.labels import ESTIMATORS
from ipseval.metrics.base import Metric
from ipseval.metrics.labels import METRICS
from ipseval.propensity.labels import PROPENSITIES
from ipseval.ranking.adapters.registry import ADAPTERS
from ipseval.utils.border import guard
from ipseval.utils.checks import kind_of
from ipseval.utils.registry import Registry

__all__ = ["register"]

Member = TypeVar("Member")


def register(member: Member, *, name: str | None = None) -> Member:
    """Return `member` after giving it a name, by which labels and the command line find it.

    It may stand above a class as `@ipseval.register`. A package that is installed registers its members by
    entry points of the groups `ipseval.metrics`, `ipseval.estimators`, `ipseval.propensities` and
    `ipseval.adapters`; they are loaded when a label or model asks for them.

    Parameters
    ----------
    member : class, object or function
        A metric: a class derived from `ipseval.metrics.Metric`. An estimator: an
        `ipseval.estimators.Estimator`, or a class of them that takes no argument. A propensity model: a class
        with `fit(train) -> Propensity`. An adapter: a function `describe(model, split)` that returns
        `ipseval.adapters.ModelScores`.
    name : str, optional
        A metric has a name of its own, and an estimator a label, which may have a parameter: `trimmed(0.1)`.
        For a propensity model: its label. For an adapter: the top-level module of the models that it takes.

    Raises
    ------
    InputError
        For anything else, and for a name that is taken. The same class, defined anew, replaces the former.

    Examples
    --------
    >>> from ipseval.ranking.adapters import ModelScores
    >>> def describe(model, split):
    ...     return ModelScores("torch", factors=(model.users, model.items, None))
    >>> register(describe, name="torch")
    Traceback (most recent call last):
    ipseval.errors.InputError: the adapter 'torch' is there already; choose another name.
    """
    registry, own_name = _family(member)
    chosen = name if name is not None else own_name
    if chosen is None:
        called = getattr(member, "__name__", type(member).__name__)
        raise InputError(f"this {registry.what} needs a name: ipseval.register({called}, name=…).")
    registry.add(chosen, member)
    return member


def _family(member: Any) -> tuple[Registry[Any], str | None]:
    """Return the registry of a member's family, and its own name."""
    kind = member if isinstance(member, type) else type(member)
    if issubclass(kind, Metric):
        return METRICS, getattr(member, "name", None)
    if issubclass(kind, Estimator):
        label: str = (member() if member is kind else member).label
        return ESTIMATORS, label.partition("(")[0]
    if hasattr(member, "fit"):
        return PROPENSITIES, None
    if callable(member) and not isinstance(member, type):
        return ADAPTERS, None
    raise InputError(
        "register takes a class of metrics, an estimator, a class of propensity models with fit(train), or a "
        f"function describe(model, split) of an adapter; got {kind_of(member)}."
    )


guard(__name__)
