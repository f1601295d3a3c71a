"""Studies of protocols: whether the order of recommenders survives another way to evaluate them."""

from __future__ import annotations

from ipseval.study._compare import Comparison, Inversion
from ipseval.study._config import run_config
from ipseval.study._main import study_protocols
from ipseval.study._protocol import Protocol, protocol_grid
from ipseval.study._study import ProtocolStudy

__all__ = [
    "Comparison",
    "Inversion",
    "Protocol",
    "ProtocolStudy",
    "protocol_grid",
    "run_config",
    "study_protocols",
]
