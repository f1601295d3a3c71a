"""Data sets: loaders of the original files, with licence, citation, sizes and checksums."""

from __future__ import annotations

from ipseval.utils.public import explain_missing_names
from ipseval.validation.datasets._adjacency import load_adjacency
from ipseval.validation.datasets._base import CARDS, DataCard, RandomExposureStudy, StudyPositives
from ipseval.validation.datasets._cm100k import load_cm100k
from ipseval.validation.datasets._mind import load_mind
from ipseval.validation.datasets._movielens import load_movielens
from ipseval.validation.datasets._open_bandit import BanditStudy, load_open_bandit
from ipseval.validation.datasets._random_exposure import (
    load_coat,
    load_kuairand,
    load_kuairec,
    load_yahoo_r3,
)

STUDIES = {
    "coat": load_coat,
    "yahoo-r3": load_yahoo_r3,
    "kuairand": load_kuairand,
    "kuairec": load_kuairec,
    "cm100k": load_cm100k,
}

__all__ = [
    "CARDS",
    "STUDIES",
    "BanditStudy",
    "DataCard",
    "RandomExposureStudy",
    "StudyPositives",
    "load_adjacency",
    "load_cm100k",
    "load_coat",
    "load_kuairand",
    "load_kuairec",
    "load_mind",
    "load_movielens",
    "load_open_bandit",
    "load_yahoo_r3",
]

__getattr__ = explain_missing_names(__name__)
