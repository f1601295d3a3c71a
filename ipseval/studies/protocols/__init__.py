"""Studies of protocols: whether the order of recommenders survives another way to evaluate them."""

from __future__ import annotations

from ipseval.studies.protocols._compare import Inversion, ProtocolComparison
from ipseval.studies.protocols._protocol import Protocol, Tuned, grid
from ipseval.studies.protocols._result import ProtocolStudy
from ipseval.studies.protocols._study import run_config, study

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
