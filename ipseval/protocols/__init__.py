"""Studies of protocols: whether the order of recommenders survives another way to evaluate them."""

from __future__ import annotations

from ipseval._border import guard
from ipseval.protocols._compare import Inversion, ProtocolComparison
from ipseval.protocols._config import run_config
from ipseval.protocols._protocol import Protocol, grid
from ipseval.protocols._result import ProtocolStudy
from ipseval.protocols._study import study
from ipseval.protocols._tuned import Tuned

__all__ = [
    "Inversion",
    "Protocol",
    "ProtocolComparison",
    "ProtocolStudy",
    "Tuned",
    "grid",
    "run_config",
    "study",
]

guard(__name__)
