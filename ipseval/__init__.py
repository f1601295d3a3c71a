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

# Each line of the stub is "from MODULE import NAME as NAME"; MODULE is "ipseval" where NAME is a module.
_STUB = (pkgutil.get_data(__name__, "__init__.pyi") or b"").decode("utf-8")
_HOME = {name: home for home, name in re.findall(r"^from (\S+) import (\w+)", _STUB, flags=re.MULTILINE)}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    """Return a public name, loading the module it lives in."""
    if name not in _HOME:
        raise AttributeError(f"module 'ipseval' has no attribute {name!r}")
    whole = _HOME[name] == __name__
    module = importlib.import_module(f"{__name__}.{name}" if whole else _HOME[name])
    globals()[name] = module if whole else getattr(module, name)
    return globals()[name]


def __dir__() -> list[str]:
    return __all__
