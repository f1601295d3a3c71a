"""Data sets: loaders of the original files, with licence, citation, sizes and checksums."""

from __future__ import annotations

from pathlib import Path

from ipseval._base.border import guard
from ipseval.validation.datasets import _coat, _kuairec, _movielens, _open_bandit, _yahoo
from ipseval.validation.datasets._adjacency import load_adjacency
from ipseval.validation.datasets._base import DataCard, RandomExposureStudy, StudyPositives
from ipseval.validation.datasets._coat import load_coat
from ipseval.validation.datasets._download import fetch_all as _fetch_all
from ipseval.validation.datasets._kuairec import load_kuairec
from ipseval.validation.datasets._movielens import load_movielens
from ipseval.validation.datasets._open_bandit import BanditLog, BanditStudy, load_open_bandit
from ipseval.validation.datasets._yahoo import load_yahoo_r3

CARDS = {module.CARD.name: module.CARD for module in (_coat, _kuairec, _movielens, _open_bandit, _yahoo)}
STUDIES = {"coat": load_coat, "yahoo-r3": load_yahoo_r3, "kuairec": load_kuairec}


def download(
    name: str, folder: str | Path, *, files: list[str] | None = None, mirror: str | None = None
) -> list[Path]:
    """Return the paths of files fetched into `folder`; nothing in this library downloads unless told to.

    Only files with a published checksum are offered: `CARDS[name].downloads`. Each is checked and then put in
    place in one step, so that a broken transfer leaves nothing behind. Reading the licence on the card first
    is up to you.

    Parameters
    ----------
    name : str
        Data set, a key of `CARDS`.
    folder : path
        Where the files go; sub-folders are made as the loader expects them.
    files : list of str, optional
        Which files; default: all (for "movielens", name a release such as "ml-100k.zip").
    mirror : str, optional
        Address of a folder that holds the same files; the checksums stay the same.

    Raises
    ------
    InputError
        When the data set may not or cannot be downloaded, the transfer fails, or a checksum disagrees.
    """
    return _fetch_all(CARDS, name, folder, files, mirror)


__all__ = [
    "CARDS",
    "STUDIES",
    "BanditLog",
    "BanditStudy",
    "DataCard",
    "RandomExposureStudy",
    "StudyPositives",
    "download",
    "load_adjacency",
    "load_coat",
    "load_kuairec",
    "load_movielens",
    "load_open_bandit",
    "load_yahoo_r3",
]

guard(__name__)
