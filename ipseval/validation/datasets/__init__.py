"""Data sets: loaders of the original files, with licence, citation, sizes and checksums."""

from __future__ import annotations

from pathlib import Path

from ipseval._base.border import guard
from ipseval._base.checks import check_choice
from ipseval.errors import InputError
from ipseval.validation.datasets._base import DataCard, RandomExposureStudy, StudyPositives
from ipseval.validation.datasets._files import fetch as _fetch
from ipseval.validation.datasets._logs import MOVIELENS, load_adjacency, load_movielens
from ipseval.validation.datasets._open_bandit import OPEN_BANDIT, BanditLog, BanditStudy, load_open_bandit
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
    check_choice("name", name, CARDS)
    card = CARDS[name]
    if not card.downloads:
        raise InputError(
            f"{name} cannot be downloaded from here (its terms forbid it, or no checksum is "
            f"published). {card.how_to_get} ({card.url})"
        )
    if files is None and len(card.downloads) > 1 and name == "movielens":
        raise InputError(f"movielens has several releases; pass files=[…] from {', '.join(card.downloads)}.")
    return [_fetch(card, folder, file, mirror=mirror) for file in files or list(card.downloads)]


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
    "load_kuairand",
    "load_kuairec",
    "load_movielens",
    "load_open_bandit",
    "load_yahoo_r3",
]

guard(__name__)
