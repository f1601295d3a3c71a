"""Data sets: loaders of the original files, with licence, citation, sizes and checksums."""

from __future__ import annotations

from ipseval._base.border import guard
from ipseval.validation.datasets._base import DataCard, RandomExposureStudy, StudyPositives
from ipseval.validation.datasets._logs import MOVIELENS, load_adjacency, load_movielens
from ipseval.validation.datasets._open_bandit import OPEN_BANDIT, BanditStudy, load_open_bandit
from ipseval.validation.datasets._random_exposure import (
    COAT,
    KUAIRAND,
    KUAIREC,
    YAHOO_R3,
    load_coat,
    load_kuairand,
    load_kuairec,
    load_yahoo_r3,
)

CARDS = {card.name: card for card in (COAT, KUAIRAND, KUAIREC, MOVIELENS, OPEN_BANDIT, YAHOO_R3)}
STUDIES = {
    "coat": load_coat,
    "yahoo-r3": load_yahoo_r3,
    "kuairand": load_kuairand,
    "kuairec": load_kuairec,
}

__all__ = [
    "CARDS",
    "STUDIES",
    "BanditStudy",
    "DataCard",
    "RandomExposureStudy",
    "StudyPositives",
    "load_adjacency",
    "load_coat",
    "load_kuairand",
    "load_kuairec",
    "load_movielens",
    "load_open_bandit",
    "load_yahoo_r3",
]

guard(__name__)
