"""Data sets: loaders of the original files, with licence, citation, sizes and checksums."""

from __future__ import annotations

from ipseval.datasets import _citeulike, _coat
from ipseval.datasets._base import DataCard, Study, StudyPositives
from ipseval.datasets._citeulike import load_citeulike_a
from ipseval.datasets._coat import load_coat

CARDS = {module.CARD.name: module.CARD for module in (_citeulike, _coat)}

__all__ = [
    "CARDS",
    "DataCard",
    "Study",
    "StudyPositives",
    "load_citeulike_a",
    "load_coat",
]
