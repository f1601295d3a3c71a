"""Strict reading of files and archives: nothing is extracted to disk, unpickled or guessed."""

from __future__ import annotations

import fnmatch
import gzip
import hashlib
import lzma
import tarfile
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO

import pandas as pd
from pandas.errors import ParserError, ParserWarning

from ipseval.errors import InputError
from ipseval.utils.artefacts import MAX_RATIO, SMALL, check_members, open_archive
from ipseval.utils.checks import format_examples
from ipseval.validation.datasets._base import DataCard

DAMAGE_ERRORS = (
    zipfile.BadZipFile,
    tarfile.TarError,
    gzip.BadGzipFile,
    EOFError,
    zlib.error,
    lzma.LZMAError,
)
Opener = Callable[[str], IO[bytes] | gzip.GzipFile | None]


@contextmanager
def _open_source(path: str | Path, name: str, card: DataCard) -> Iterator[tuple[list[str], Opener]]:
    """Yield the names of the files in a folder, zip or tar archive, and the function that opens a file.

    Members of archives are streamed and never written to disk, so a member called "../x" cannot do harm.
    """
    source = Path(path)
    try:
        if source.is_dir():
            yield _list_folder(source), lambda member: _open_plain_or_gzip(source / member)
        elif source.is_file() and zipfile.is_zipfile(source):
            with open_archive(source) as archive:
                members = []
                for member in archive.infolist():
                    if not member.is_dir():
                        members.append(member.filename)

                yield members, archive.open
        elif source.is_file() and tarfile.is_tarfile(source):
            with tarfile.open(source) as tar:
                files = []
                for info in tar.getmembers():
                    if info.isfile():
                        files.append(info)

                check_members(source, [info.size for info in files])
                yield [info.name for info in files], tar.extractfile
        else:
            problem = "does not exist"
            if source.exists():
                problem = "is neither a folder nor an intact zip or tar archive"
            raise InputError(f"{card.name}: {source} {problem}. {card.how_to_get} ({card.url})")
    except (*DAMAGE_ERRORS, OSError) as error:
        raise InputError(
            f"{card.name}: {name} in {source} is truncated or damaged ({error}). Get it again."
        ) from None


def _list_folder(folder: Path) -> list[str]:
    """Return the names of the files in a folder, without the ending .gz."""
    names = set()
    for file in folder.iterdir():
        if file.is_file():
            names.add(file.name.removesuffix(".gz"))
    return sorted(names)


def _open_plain_or_gzip(file: Path) -> IO[bytes] | gzip.GzipFile:
    """Return a stream of a file, or of its compressed form with the ending .gz."""
    if file.is_file():
        return file.open("rb")
    compressed = file.with_name(f"{file.name}.gz")
    compressed_size = compressed.stat().st_size
    with compressed.open("rb") as stream:
        stream.seek(max(compressed_size - 4, 0))
        content_size = int.from_bytes(stream.read(), "little")  # modulo 2³²
    if content_size > max(SMALL, MAX_RATIO * compressed_size):
        raise EOFError(f"it would unpack to {content_size:,} bytes")
    return gzip.GzipFile(compressed, "rb")


def _find_members(members: list[str], name: str) -> list[str]:
    """Return the members with a file name, in whichever folder they are."""
    matching_members: list[str] = []
    for member in members:
        if PurePosixPath(member).name == name:
            matching_members.append(member)

    return matching_members


@contextmanager
def open_data_file(path: str | Path, name: str, card: DataCard) -> Iterator[IO[bytes] | gzip.GzipFile]:
    """Open `name` (or `name`.gz) in a folder, or the one member of that name in a zip or tar archive."""
    with _open_source(path, name, card) as (members, open_member):
        matches = _find_members(members, name)
        if len(matches) != 1:
            number = f"{len(matches)} times ({format_examples(matches)})" if matches else "not"
            raise InputError(
                f"{card.name}: {name} is {number} in {path}; expected once. It contains "
                f"{format_examples(members) or 'no file'}. {card.how_to_get} ({card.url})"
            )
        stream = open_member(matches[0])
        assert stream is not None  # it is a file
        with stream:
            yield stream


def has_file(path: str | Path, name: str, card: DataCard) -> bool:
    """Return whether a folder or archive holds `name` (in a folder also `name`.gz)."""
    with _open_source(path, name, card) as (members, _):
        return bool(_find_members(members, name))


def find_files(path: str | Path, pattern: str, card: DataCard) -> list[str]:
    """Return the sorted names of files of a folder or archive that match a pattern such as "log_*.csv"."""
    with _open_source(path, pattern, card) as (members, _):
        names = {PurePosixPath(member).name for member in members}
    return sorted(fnmatch.filter(names, pattern))


def read_text(path: str | Path, name: str, card: DataCard, *, verify: bool = False) -> str:
    """Return a small text file; with `verify`, after a check of its sha256 against the card."""
    with open_data_file(path, name, card) as stream:
        content = stream.read()
    if verify:
        check_sha256(content, name, card)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{card.name}: {name} is not a text file.") from None


def check_sha256(content: bytes, name: str, card: DataCard) -> None:
    """Raise `InputError` unless the content has the checksum on the card."""
    expected = card.sha256[name]
    actual = hashlib.sha256(content).hexdigest()
    if actual != expected:
        raise InputError(
            f"{card.name}: {name} has sha256 {actual[:12]}…, expected {expected[:12]}…: it is not the "
            "published file. Get it again, or pass verify=False to read it as it is."
        )


def read_columns(
    path: str | Path,
    name: str,
    card: DataCard,
    columns: Mapping[str, str],
    *,
    sep: str = ",",
    header: list[str] | None = None,
) -> pd.DataFrame:
    """Return `columns` (name to dtype) of a delimited text file.

    `header` names all columns of a file without a line of names.
    """
    with open_data_file(path, name, card) as stream, warnings.catch_warnings():
        warnings.simplefilter("error", ParserWarning)
        try:
            frame = pd.read_csv(
                stream,
                sep=sep,
                header=None if header else "infer",
                names=header,
                index_col=False,
                # With usecols pandas drops surplus fields silently; without, they are an error.
                usecols=None if header else list(columns),
                dtype=dict(columns),
                encoding="utf-8",
                compression=None,
            )
        except (ValueError, ParserError, ParserWarning, OverflowError) as error:
            detail = " ".join(str(error).split())
            raise InputError(
                f"{card.name}: {name} cannot be read as {', '.join(columns)} separated by {sep!r}: {detail}. "
                "The file is truncated, changed or of another format."
            ) from None
    frame = frame[list(columns)]
    n_missing = int(frame.isna().to_numpy().sum())
    if n_missing or frame.empty:
        problem = f"has {n_missing} missing entries" if n_missing else "has no rows"
        raise InputError(f"{card.name}: {name} {problem}; the file is truncated or changed.")
    return frame
