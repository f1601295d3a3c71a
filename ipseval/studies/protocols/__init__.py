"""Studies of protocols: whether the order of recommenders survives another way to evaluate them."""

from __future__ import annotations

from ipseval._base.border import guard
from ipseval.studies.protocols._compare import Inversion, ProtocolComparison
from ipseval.studies.protocols._config import run_config
from ipseval.studies.protocols._protocol import Protocol, grid
from ipseval.studies.protocols._result import ProtocolStudy
from ipseval.studies.protocols._study import study
from ipseval.studies.protocols._tuned import Tuned

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
