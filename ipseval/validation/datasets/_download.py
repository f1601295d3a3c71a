"""Opt-in download of files with a published checksum; no loader ever downloads by itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ipseval._base.checks import check_choice
from ipseval.errors import InputError
from ipseval.validation.datasets._base import DataCard


def fetch(card: DataCard, folder: str | Path, file: str, *, mirror: str | None = None) -> Path:
    """Return the path of one downloaded file, or raise `InputError` unless its checksum is right."""
    # pooch moves it into place after the checksum has agreed, so that the target is either absent or right.
    check_choice("file", file, card.downloads)
    address, known_hash = card.downloads[file]
    if mirror is not None:
        address = f"{mirror.rstrip('/')}/{file}"
    try:
        import pooch
    except ImportError:
        raise InputError("downloads need pooch; install it with: pip install ipseval[download]") from None
    target = Path(folder) / file
    try:
        pooch.retrieve(
            address,
            known_hash=known_hash,
            fname=target.name,
            path=target.parent,
            downloader=pooch.HTTPDownloader(timeout=60),
        )
    except ValueError:
        raise InputError(
            f"{card.name}: what {address} sent for {file} does not have the checksum {known_hash[:19]}…; "
            "nothing was kept. The file was changed or the transfer was cut; try again or get it "
            f"from the authors' page ({card.url})."
        ) from None
    except OSError as error:  # requests' errors are OSErrors: no connection, time-out, HTTP status
        raise InputError(f"{card.name}: {file} could not be downloaded from {address}: {error}") from None
    return target


def fetch_all(
    cards: Mapping[str, DataCard], name: str, folder: str | Path, files: list[str] | None, mirror: str | None
) -> list[Path]:
    """Return the paths of the downloaded files of data set `name`."""
    check_choice("name", name, cards)
    card = cards[name]
    if not card.downloads:
        raise InputError(
            f"{name} cannot be downloaded from here (its terms forbid it, or no checksum is "
            f"published). {card.how_to_get} ({card.url})"
        )
    if files is None and len(card.downloads) > 1 and name == "movielens":
        raise InputError(f"movielens has several releases; pass files=[…] from {', '.join(card.downloads)}.")
    return [fetch(card, folder, file, mirror=mirror) for file in files or list(card.downloads)]
