"""Content of a file: decompressed bytes, decoded text, and errors for formats that are not read."""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from ipseval.errors import InputError
from ipseval.utils.artefacts import MAX_RATIO, SMALL
from ipseval.utils.checks import format_examples
from ipseval.utils.file_formats import BINARY_FORMATS, READ_FORMATS

START = 2**16  # bytes from which format, separator and header are found
CHUNK = 2**20
UTF8 = ("utf-8", "utf-8-sig", "ascii")
ZIP = b"PK"

# First bytes of formats that are not read, the name of the format, and the suggested fix.
FOREIGN_FORMATS = (
    (b"ARROW1", "a Feather (Arrow) file", "Pass pandas.read_feather(path)"),
    (b"FEA1", "a Feather file", "Pass pandas.read_feather(path)"),
    (b"\xd0\xcf\x11\xe0", "an Excel workbook", "Pass pandas.read_excel(path), or save it as CSV"),
    (b"\x89HDF", "an HDF5 file", "Pass pandas.read_hdf(path)"),
    (b"\x93NUMPY", "a NumPy array", "Pass a table with a row per interaction"),
    (b"SQLite format 3", "an SQLite database", "Pass pandas.read_sql(query, connection)"),
    (b"ORC", "an ORC file", "Pass pandas.read_orc(path)"),
    (b"Obj\x01", "an Avro file", "Convert it to Parquet"),
    (b"%PDF", "a PDF document", "Pass a table of text"),
    (b"\x28\xb5\x2f\xfd", "compressed by zstd", "Decompress it first"),
    (b"7z\xbc\xaf", "a 7z archive", "Decompress it first"),
    (b"Rar!", "a RAR archive", "Decompress it first"),
    (b"\x1f\x8b", "compressed a second time", "Decompress it first"),
    (b"BZh", "compressed a second time", "Decompress it first"),
    (b"\xfd7zXZ", "compressed a second time", "Decompress it first"),
    (b"PK\x03\x04", "compressed a second time", "Decompress it first"),
    (b"\xff\xfe", "text in UTF-16", "Pass encoding='utf-16'"),
    (b"\xfe\xff", "text in UTF-16", "Pass encoding='utf-16'"),
)
PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))


def read_bytes(path: Path) -> bytes:
    """Return the whole content of a file, decompressed if it is compressed."""
    with _open_decompressed(path) as stream:
        is_uncompressed = isinstance(stream, io.BufferedReader)
        if is_uncompressed:
            return stream.read()
        return _read_within_limit(path, stream)


def read_start(path: Path) -> bytes:
    """Return the first 64 kB of a file, or the whole content if they contain fewer than three lines."""
    with _open_decompressed(path) as stream:
        start = stream.read(START)
        if len(start) == START and start.count(b"\n") < 3:
            start += _read_within_limit(path, stream)
    return start


def find_binary_format(path: Path, start: bytes) -> str | None:
    """Return the binary format of a file with these decompressed first bytes; None if it is another file.

    Raise `InputError` if the file is compressed, because the libraries that read binary formats need its end.
    """
    for format_name, first_bytes in BINARY_FORMATS.items():
        if not start.startswith(first_bytes):
            continue
        with path.open("rb") as file:
            is_compressed = file.read(len(first_bytes)) != first_bytes
        if is_compressed:
            raise InputError(
                f"{path} must be a {format_name} file as it was written; got one that is compressed as a "
                "whole. Decompress it first."
            )
        return format_name
    return None


def decode_to_utf8(content: bytes, encoding: str) -> bytes:
    """Return text in UTF-8 without a byte order mark; raise the decoding error of another encoding."""
    content = content.removeprefix(codecs.BOM_UTF8)
    if codecs.lookup(encoding).name not in UTF8:
        return content.decode(encoding).removeprefix("\ufeff").encode()
    if not content.isascii():
        content.decode("utf-8")
    return content


def decode_start(start: bytes, encoding: str) -> str:
    """Return the first bytes of a file as text, up to the last complete line if the file continues."""
    decoder = codecs.getincrementaldecoder(encoding)()
    text = decoder.decode(start).removeprefix("\ufeff")
    continues = len(start) == START  # of a file with fewer lines, `read_start` returns all bytes
    if continues and "\n" in text:
        text = text[: text.rindex("\n") + 1]
    return text.replace("\r\n", "\n").replace("\r", "\n")


def refuse_foreign(path: Path, start: bytes, encoding: str) -> None:
    """Raise `InputError` with the format of a file that is not text."""
    is_default = codecs.lookup(encoding).name in UTF8
    for first_bytes, format_name, advice in FOREIGN_FORMATS:
        if start.startswith(first_bytes) and (is_default or "UTF-16" not in format_name):
            raise InputError(f"{path} must be a table of {READ_FORMATS}; it is {format_name}. {advice}.")
    if start[:2] in PICKLES:
        raise InputError(
            f"{path} must be a table of {READ_FORMATS}; it is a pickle, which is never loaded. "
            "Load it yourself and pass its data frame."
        )
    if start[257:262] == b"ustar":
        raise InputError(f"{path} must be a single table; it is a tar archive. Unpack it first.")
    if start.lstrip()[:9].lower().startswith((b"<!doctype", b"<html", b"<?xml")):
        raise InputError(f"{path} must be a table of {READ_FORMATS}; it is HTML or XML. Download it again.")
    if is_default and b"\x00" in start:
        raise InputError(
            f"{path} must be a table of {READ_FORMATS}; it holds zero bytes. Pass its encoding, or convert it to "
            "CSV."
        )


@contextmanager
def _open_decompressed(path: Path) -> Iterator[IO[bytes]]:
    """Open the content of a file; its first bytes, not its name, decide how it is decompressed."""
    with path.open("rb") as file:
        first_bytes = file.read(6)
        file.seek(0)
        if first_bytes.startswith(ZIP):
            with _open_member(path, file) as member:
                yield member
        elif first_bytes.startswith(b"\x1f\x8b"):
            with gzip.open(file) as stream:
                yield cast("IO[bytes]", stream)  # a GzipFile reads bytes, as the other streams do
        elif first_bytes.startswith(b"BZh"):
            with bz2.BZ2File(file) as stream:
                yield stream
        elif first_bytes.startswith(b"\xfd7zXZ"):
            with lzma.LZMAFile(file) as stream:
                yield stream
        else:
            yield file


@contextmanager
def _open_member(path: Path, file: IO[bytes]) -> Iterator[IO[bytes]]:
    """Open the only file in a zip archive; raise `InputError` for workbooks and arrays, also archives."""
    with zipfile.ZipFile(file) as archive:
        members = []
        for member in archive.infolist():
            if not member.is_dir():
                members.append(member)

        names = [member.filename for member in members]
        if "[Content_Types].xml" in names or "mimetype" in names:
            raise InputError(
                f"{path} must be a table of {READ_FORMATS}; it is an Excel workbook or another office "
                "document. Pass pandas.read_excel(path), or save it as CSV."
            )
        if names and all(name.endswith((".npy", ".json")) for name in names) and len(names) > 1:
            raise InputError(
                f"{path} holds arrays or a stored result. Give the log: a table with a row per interaction."
            )
        if len(members) != 1:
            listed_names = f" ({format_examples(names)})" if names else ""
            raise InputError(f"{path} holds {len(members)} files{listed_names}; unpack it and give one.")
        if members[0].flag_bits & 1:
            raise InputError(f"{path} is encrypted; store it without a password.")
        with archive.open(members[0]) as stream:
            yield stream


def _read_within_limit(path: Path, stream: IO[bytes]) -> bytes:
    """Return the rest of a stream; raise `InputError` for content far larger than real data of its size."""
    n_stored = path.stat().st_size
    max_bytes = max(SMALL, MAX_RATIO * n_stored)
    chunks = []
    n_bytes = 0
    while chunk := stream.read(CHUNK):
        n_bytes += len(chunk)
        if n_bytes > max_bytes:
            raise InputError(
                f"{path} has {n_stored:,} bytes and unpacks to more than {max_bytes:,}, {MAX_RATIO} times as "
                "much. Unpack it first if this is intended."
            )
        chunks.append(chunk)
    return b"".join(chunks)
