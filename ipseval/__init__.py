"""ipseval: offline evaluation of recommenders from biased implicit feedback.

Logged clicks and purchases are missing not at random; a plain average over observed positives (AOA)
favours recommenders of popular items. ipseval weights each positive by its inverse propensity (IPS, SNIPS),
states the uncertainty of every number, and says what is claimed of it.

Names are loaded from their modules when they are first used, so that importing the package takes no time.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from typing import Any

from ipseval._version import __version__ as __version__

# Each line of the stub is "from MODULE import NAME as NAME", or "from . import WING as WING".
_STUB = (pkgutil.get_data(__name__, "__init__.pyi") or b"").decode("utf-8")
_HOME = {name: home for home, name in re.findall(r"^from (\w\S+) import (\w+)", _STUB, flags=re.MULTILINE)}

_WINGS = {
    *("data", "propensity", "ranking", "metrics", "estimators", "inference", "reporting"),
    *("evaluation", "correction", "validation", "policies", "studies", "distributed", "errors", "testing"),
}
__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Return a public name, loading the module it lives in."""
    if name in _WINGS:
        return importlib.import_module(f"{__name__}.{name}")
    if name not in _HOME:
        hint = importlib.import_module("ipseval.errors").hint(name)
        raise AttributeError(f"module 'ipseval' has no attribute {name!r}. {hint}".rstrip(". "))
    globals()[name] = getattr(importlib.import_module(_HOME[name]), name)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
