"""Careful reading of files and archives: nothing is extracted to disk, unpickled or guessed."""

from __future__ import annotations

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
from typing import IO, Any

import pandas as pd
from pandas.errors import ParserError, ParserWarning

from ipseval.errors import InputError
from ipseval.utils.artefacts import MAX_RATIO, SMALL, check_members, open_archive
from ipseval.utils.checks import examples
from ipseval.validation.datasets._base import DataCard

BROKEN = (zipfile.BadZipFile, tarfile.TarError, gzip.BadGzipFile, EOFError, zlib.error, lzma.LZMAError)


@contextmanager
def _contents(
    path: str | Path, name: str, card: DataCard
) -> Iterator[tuple[list[str], Callable[[str], Any]]]:
    """Yield the names of the files in a folder, zip or tar archive, and the function that opens one."""
    # Members are streamed, never written to disk: one called "../x" has nowhere to go.
    source = Path(path)
    try:
        if source.is_dir():
            names = {one.name.removesuffix(".gz") for one in source.iterdir() if one.is_file()}
            yield sorted(names), lambda member: _open_plain_or_packed(source / member)
        elif source.is_file() and zipfile.is_zipfile(source):
            with open_archive(source) as archive:
                yield [info.filename for info in archive.infolist() if not info.is_dir()], archive.open
        elif source.is_file() and tarfile.is_tarfile(source):
            with tarfile.open(source) as tar:
                files = [info for info in tar.getmembers() if info.isfile()]
                check_members(source, [info.size for info in files])
                yield [info.name for info in files], tar.extractfile
        else:
            what = "is neither a folder nor an intact zip or tar archive"
            what = what if source.exists() else "does not exist"
            raise InputError(f"{card.name}: {source} {what}. {card.how_to_get} ({card.url})")
    except (*BROKEN, OSError) as error:
        raise InputError(
            f"{card.name}: {name} in {source} is truncated or damaged ({error}). Get it again."
        ) from None


def _open_plain_or_packed(file: Path) -> Any:
    packed = file.with_name(f"{file.name}.gz")
    if file.is_file():
        return file.open("rb")
    with packed.open("rb") as tail:
        tail.seek(max(packed.stat().st_size - 4, 0))
        size = int.from_bytes(tail.read(), "little")  # that of the content, modulo 2³²
    if size > max(SMALL, MAX_RATIO * packed.stat().st_size):
        raise EOFError(f"it would unpack to {size:,} bytes")
    return gzip.GzipFile(packed, "rb")


def _named(members: list[str], name: str) -> list[str]:
    return [member for member in members if PurePosixPath(member).name == name]


@contextmanager
def open_file(path: str | Path, name: str, card: DataCard) -> Iterator[IO[bytes]]:
    """Open `name` (or `name`.gz) in a folder, or the one member of that name in a zip or tar archive."""
    with _contents(path, name, card) as (members, open_member):
        found = _named(members, name)
        if len(found) != 1:
            amount = "not" if not found else f"{len(found)} times ({examples(found)})"
            raise InputError(
                f"{card.name}: {name} is {amount} in {path}; expected once. It holds "
                f"{examples(members) or 'no file'}. {card.how_to_get} ({card.url})"
            )
        with open_member(found[0]) as stream:
            yield stream


def has_file(path: str | Path, name: str, card: DataCard) -> bool:
    """Return whether a folder or archive holds `name` (in a folder also `name`.gz)."""
    with _contents(path, name, card) as (members, _):
        return bool(_named(members, name))


def read_text(path: str | Path, name: str, card: DataCard, *, verify: bool = False) -> str:
    """Return a small text file; with `verify`, after a check of its sha256 against the card."""
    with open_file(path, name, card) as stream:
        content = stream.read()
    if verify:
        check_sha256(content, name, card)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise InputError(f"{card.name}: {name} is not a text file.") from None


def check_sha256(content: bytes, name: str, card: DataCard) -> None:
    """Raise `InputError` unless the content has the checksum on the card."""
    expected, found = card.sha256[name], hashlib.sha256(content).hexdigest()
    if found != expected:
        raise InputError(
            f"{card.name}: {name} has sha256 {found[:12]}…, expected {expected[:12]}…: it is not the "
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
    """Return `columns` (name to dtype) of a delimited text file; `header` names all where no line does."""
    with open_file(path, name, card) as stream, warnings.catch_warnings():
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
