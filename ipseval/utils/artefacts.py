"""Artefacts: files that are whole or not there, and the one container of all that the library stores.

The container is a .npz of arrays with a JSON header, a checksum of each array, and one of the header. Nothing
is ever unpickled. Files that are missing, damaged, changed by hand, of another version, or that unpack to far
more than their size, and places that cannot be written to, are an `InputError` that says what to do.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import secrets
import shutil
import socket
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd

from ipseval._version import __version__
from ipseval.errors import InputError, IpsevalError
from ipseval.utils.types import AnyArray

# The number of the storage format, written as `format`. Raise it when older files can no longer be read.
FORMAT = 1
HEADER = "header.json"
PREFIX = ".ipseval-"
# An archive may always unpack to this many bytes; beyond, to so many times its own size.
SMALL = 2**26
MAX_RATIO = 100
_ARRAY, _TEXTS = ".npy", ".json"

Pathlike = str | os.PathLike[str]


def writable(path: Pathlike) -> Path:
    """Return the file that `path` stands for, its folder made; to be called before a long computation."""
    try:
        file = Path(path).resolve()
        file.parent.mkdir(parents=True, exist_ok=True)
        check_is_file(path)
        with tempfile.TemporaryFile(dir=file.parent):
            return file
    except InputError:
        raise
    except (OSError, TypeError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise InputError(f"cannot write {path!s:.200}: {_reason(error)}. Choose another place.") from None


def check_is_file(path: Pathlike) -> None:
    """Raise `InputError` for a folder, and for a device or pipe, which may have no end."""
    file = Path(path)
    if file.exists() and not file.is_file():
        what = "a folder" if file.is_dir() else "a device or pipe"
        raise InputError(f"{path} is {what}; give the name of a file.")


@contextmanager
def writing(path: Pathlike) -> Iterator[IO[bytes]]:
    """Open a stream whose content becomes the file at the end of the block; until then the old one stays."""
    # A file of another name, flushed to the disk and renamed, which POSIX does at once: who is killed leaves
    # the old file or the new one, whole.
    file = writable(path)
    remove_leftovers(file.parent)
    name = f"{PREFIX}{secrets.token_hex(8)}.{_host()}.{os.getpid()}.tmp"
    temporary = file.with_name(name)
    try:
        with temporary.open("xb") as stream:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        if file.exists():
            shutil.copymode(file, temporary)
        temporary.replace(file)
    except OSError as error:
        raise InputError(f"cannot write {file}: {_reason(error)}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Pathlike, text: str) -> Path:
    """Write a UTF-8 text whole or not at all and return its path; lone surrogates are escaped."""
    with writing(path) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
    return Path(path)


def remove_leftovers(folder: Path) -> None:
    """Remove the half-written files of processes of this machine that are dead."""
    for leftover in folder.glob(f"{PREFIX}*.tmp"):
        parts = leftover.name.split(".")
        if len(parts) == 5 and parts[2] == _host() and not _is_running(parts[3]):
            with suppress(OSError):
                leftover.unlink()


@contextmanager
def reading(path: Pathlike, advice: str = "Get it, or write it, again.") -> Iterator[None]:
    """Turn whatever a missing or damaged file makes a reader raise into `InputError` with its name."""
    try:
        yield
    except IpsevalError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except Exception as error:  # readers of damaged files raise nearly anything
        reason = f"{type(error).__name__}: {_reason(error)}"
        raise InputError(f"cannot read {path} ({reason:.300}). {advice}") from None


def check_members(path: Pathlike, sizes: Sequence[int]) -> None:
    """Raise `InputError` when the members of an archive are far larger than any real data of its size."""
    total, stored = sum(sizes), Path(path).stat().st_size
    if total > max(SMALL, MAX_RATIO * stored):
        raise InputError(
            f"{path} has {stored:,} bytes and would unpack to {total:,}: more than {MAX_RATIO} times as much "
            "is refused. If it is meant, unpack it first (arrays: numpy.save, which is not compressed)."
        )


@contextmanager
def open_archive(path: Pathlike, content: bytes | None = None) -> Iterator[zipfile.ZipFile]:
    """Open the zip archive at `path`, or inside of it, after a check; to be used inside of `reading`."""
    check_is_file(path)
    with zipfile.ZipFile(path if content is None else io.BytesIO(content)) as archive:
        members = archive.infolist()
        check_members(path, [member.file_size for member in members])
        if any(member.flag_bits & 1 for member in members):
            raise InputError(f"{path} is encrypted; store it without a password.")
        if len({member.filename for member in members}) < len(members):
            raise InputError(f"{path} holds several members of one name; write it again.")
        yield archive


def read_arrays(path: Pathlike) -> dict[str, AnyArray]:
    """Return the arrays of a .npz file by name."""
    with reading(path), open_archive(path) as archive:
        return {name.removesuffix(_ARRAY): _array(archive, name) for name in archive.namelist()}


def write_archive(stream: IO[bytes], header: Mapping[str, Any], arrays: Sequence[AnyArray]) -> None:
    """Write arrays with a header of plain JSON values as one archive, readable by `numpy.load`."""
    body = {
        "format": FORMAT,
        "ipseval": __version__,
        **header,
        "sha256": [array_digest(array) for array in arrays],
    }
    with zipfile.ZipFile(stream, "w") as archive:
        _add(archive, HEADER, json.dumps(body | {"seal": _digest(body)}).encode())
        for number, array in enumerate(arrays):
            if array.dtype.hasobject:
                content = json.dumps({"shape": array.shape, "values": _plain(array)})
                _add(archive, f"{number}{_TEXTS}", content.encode())
            else:
                member = io.BytesIO()
                np.lib.format.write_array(member, array, allow_pickle=False)
                _add(archive, f"{number}{_ARRAY}", member.getbuffer())


def read_archive(
    path: Pathlike, advice: str, content: bytes | None = None
) -> tuple[dict[str, Any], list[AnyArray]]:
    """Return header and arrays that `write_archive` has written to `path`, or as `content` inside of it."""
    with reading(path, advice), open_archive(path, content) as archive:
        if HEADER not in archive.namelist():
            raise InputError(f"{path} is an archive that ipseval has not written. {advice}")
        header = json.loads(archive.read(HEADER))
        _check_header(path, header, advice)
        names, arrays = set(archive.namelist()), []
        for number, expected in enumerate(header["sha256"]):
            name = f"{number}{_ARRAY}"
            array = _array(archive, name) if name in names else _objects(archive, f"{number}{_TEXTS}")
            if array_digest(array) != expected:
                raise InputError(f"{path}: array {number} is not the one that was written. {advice}")
            arrays.append(array)
        return header, arrays


def _check_header(path: Pathlike, header: dict[str, Any], advice: str) -> None:
    """Raise `InputError` if a header has another format number or none, or was changed."""
    number = header.get("format")
    if type(number) is not int or number != FORMAT:
        found = f"format {number}" if type(number) is int else "a file without a format number"
        raise InputError(f"{path} must have storage format {FORMAT}; got {found}. {advice}")
    body = {name: value for name, value in header.items() if name != "seal"}
    if _digest(body) != header.get("seal"):
        raise InputError(f"{path} is not as it was written: its checksum does not fit its content. {advice}")


def array_digest(array: AnyArray) -> str:
    """Return a hash of an array's type, shape and content."""
    if array.dtype.hasobject:
        content: Any = json.dumps(_plain(array)).encode()
    else:
        content = np.ascontiguousarray(array).tobytes()
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(content)
    return digest.hexdigest()


def _array(archive: zipfile.ZipFile, name: str) -> AnyArray:
    with archive.open(name) as member:
        array: AnyArray = np.lib.format.read_array(member, allow_pickle=False)
        member.read()  # to the end, where the checksum of the archive is compared
        return array


def _objects(archive: zipfile.ZipFile, name: str) -> AnyArray:
    content = json.loads(archive.read(name))
    array = np.empty(len(content["values"]), dtype=object)
    array[:] = content["values"]
    return array.reshape(content["shape"])


def _plain(array: AnyArray) -> list[Any]:
    """Return the entries of an array of objects as JSON values."""
    values = [one.item() if isinstance(one, np.generic) else one for one in array.ravel().tolist()]
    for one in values:
        if not (one is None or isinstance(one, (bool, int, float, str))):
            raise InputError(
                f"ids of type {type(one).__name__} cannot be stored ({one!r:.60}); use numbers or text."
            )
    return values


def _add(archive: zipfile.ZipFile, name: str, content: bytes | memoryview) -> None:
    member = zipfile.ZipInfo(name)  # of 1980: the same content gives the same bytes
    # The fastest level: ranks are a twentieth larger than at the usual one, and seven times faster.
    archive.writestr(member, content, zipfile.ZIP_DEFLATED, compresslevel=1)


def _digest(content: Any) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _reason(error: BaseException) -> str:
    return " ".join(str(getattr(error, "strerror", None) or error).split())


def _host() -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in socket.gethostname()) or "host"


def _is_running(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except PermissionError:
        return True
    except (ValueError, OverflowError, OSError):  # no number, none that a process can have, or nobody's
        return False
    return True


def sha256(*texts: str) -> str:
    """Return the SHA-256 of texts; of several, each ends with a separator."""
    end = "\x1e" if len(texts) > 1 else ""
    return hashlib.sha256("".join(text + end for text in texts).encode("utf-8", "surrogatepass")).hexdigest()


TABLES = (".csv", ".tsv", ".parquet")
ARRAYS = (".npy", ".npz")


def read_table(path: str | Path, columns: Mapping[str, str] | None = None) -> pd.DataFrame:
    """Return the table in a CSV, TSV or Parquet file; `columns` are renamed where it has them."""
    suffix = Path(path).suffix
    if suffix not in TABLES:
        raise InputError(f"{path}: expected a table ending in {', '.join(TABLES)}.")
    with reading(path):
        try:
            sep = {".csv": ",", ".tsv": "\t"}.get(suffix)
            frame = pd.read_parquet(path) if sep is None else pd.read_csv(path, sep=sep)
        except ImportError:
            raise InputError(f"{path} is Parquet; pip install 'ipseval[parquet]'.") from None
    wanted = {old: new for old, new in (columns or {}).items() if old in frame.columns and old != new}
    clash = [new for new in wanted.values() if new in frame.columns and new not in wanted]
    if clash:
        raise InputError(
            f"{path} has columns {', '.join(wanted)} and {', '.join(clash)}; remove one of them."
        )
    return frame.rename(columns=wanted)


def read_array(path: str | Path) -> AnyArray:
    """Return the array in a .npy file (memory-mapped, read-only) or the only one in a .npz file."""
    if Path(path).suffix == ".npz":
        arrays = read_arrays(path)
        if len(arrays) != 1:
            raise InputError(f"{path} holds {len(arrays)} arrays; expected one.")
        return next(iter(arrays.values()))
    with reading(path):
        array: AnyArray = np.lib.format.open_memmap(path, mode="r")
        return array
