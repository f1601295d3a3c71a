"""Estimators: how values of users are weighted and averaged."""

from __future__ import annotations

import re
from collections.abc import Callable

from ipseval._registry import lookup
from ipseval.errors import InputError
from ipseval.estimators._aoa import Aoa, AoaPooled
from ipseval.estimators._base import Estimator, Sample, UserSums
from ipseval.estimators._estimate import Estimate, estimate
from ipseval.estimators._ips import Ips
from ipseval.estimators._sample import NRelevantLike, weighted_sample
from ipseval.estimators._snips import ShrunkSnips, Snips, SnipsGlobal, SnipsPooled
from ipseval.estimators._stratified import Stratified

ESTIMATORS: dict[str, Callable[[], Estimator]] = {
    "aoa": Aoa,
    "aoa-pooled": AoaPooled,
    "ips": Ips,
    "snips": Snips,
    "snips-global": SnipsGlobal,
    "snips-pooled": SnipsPooled,
    "snips-shrunk": ShrunkSnips,
    "stratified": Stratified,
    "stratified-observed": lambda: Stratified(observed_shares=True),
}

_SHRUNK = re.compile(r"^snips-shrunk\((?P<value>[^()]*)\)$")


def resolve_estimator(name: str | Estimator) -> Estimator:
    """Return the estimator that a label names; an estimator object is returned as it is.

    Raises
    ------
    UnknownNameError
        For a label that is not registered.

    Examples
    --------
    >>> resolve_estimator("snips-shrunk(0.5)").shrinkage
    0.5
    """
    if not isinstance(name, str):
        if isinstance(name, type) or not (hasattr(name, "sums") and hasattr(name, "label")):
            raise InputError(f"an estimator is a label such as 'snips' or an Estimator object; got {name!r}.")
        return name
    match = _SHRUNK.match(name)
    if match is None:
        return lookup(ESTIMATORS, name, "estimator")()
    try:
        return ShrunkSnips(float(match["value"]))
    except ValueError:
        raise InputError(f"estimator {name!r}: the shrinkage must be a number in [0, 1].") from None


__all__ = [
    "ESTIMATORS",
    "Aoa",
    "AoaPooled",
    "Estimate",
    "Estimator",
    "Ips",
    "NRelevantLike",
    "Sample",
    "ShrunkSnips",
    "Snips",
    "SnipsGlobal",
    "SnipsPooled",
    "Stratified",
    "UserSums",
    "estimate",
    "resolve_estimator",
    "weighted_sample",
]
