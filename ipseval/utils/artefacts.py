"""Write files atomically, read them with clear errors, and store arrays with a header in one archive.

The archive is a .npz file of arrays with a JSON header, a checksum of each array, and a checksum of the
header. Nothing is ever unpickled. Files that are missing, damaged, changed by hand, of another version, or
that unpack to far more than their size, and folders without write access, are an `InputError`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
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

from ipseval._version import __version__
from ipseval.errors import InputError, IpsevalError
from ipseval.utils.types import AnyArray

# Number of the storage format, written as `format`. Raise it when older files can no longer be read.
FORMAT = 1
HEADER = "header.json"
PREFIX = ".ipseval-"
# An archive may unpack to this number of bytes, or to this multiple of its own size, if that is more.
SMALL = 2**26
MAX_RATIO = 100
_ARRAY = ".npy"
_TEXTS = ".json"

Pathlike = str | os.PathLike[str]


def check_writable(path: Pathlike) -> Path:
    """Return the absolute path of a file after a check that it can be written; its folder is created.

    Call it before a long computation, so that the computation is not lost.
    """
    try:
        file = Path(path).resolve()
        file.parent.mkdir(parents=True, exist_ok=True)
        check_is_file(path)
        with tempfile.TemporaryFile(dir=file.parent):
            return file
    except InputError:
        raise
    except (OSError, TypeError, ValueError, RuntimeError) as error:  # RuntimeError: links in a circle
        raise InputError(
            f"cannot write {path!s:.200}: {_format_error(error)}. Choose another place."
        ) from None


def check_is_file(path: Pathlike) -> None:
    """Raise `InputError` for a folder, and for a device or pipe, which may have no end."""
    file = Path(path)
    if file.exists() and not file.is_file():
        kind = "a folder" if file.is_dir() else "a device or pipe"
        raise InputError(f"{path} is {kind}; give the name of a file.")


@contextmanager
def open_atomically(path: Pathlike) -> Iterator[IO[bytes]]:
    """Open a stream that replaces the file at the end of the block.

    An interrupted write leaves the old file unchanged.

    The content is written to a temporary file, flushed to the disk and renamed, which is atomic on POSIX.
    """
    file = check_writable(path)
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
        raise InputError(f"cannot write {file}: {_format_error(error)}.") from None
    finally:
        temporary.unlink(missing_ok=True)


def write_text(path: Pathlike, text: str) -> Path:
    """Write a text in UTF-8 atomically and return its path; lone surrogates are escaped."""
    with open_atomically(path) as stream:
        stream.write(text.encode("utf-8", "backslashreplace"))
    return Path(path)


def remove_leftovers(folder: Path) -> None:
    """Remove temporary files of processes of this machine that have ended."""
    for leftover in folder.glob(f"{PREFIX}*.tmp"):
        parts = leftover.name.split(".")
        if len(parts) == 5 and parts[2] == _host() and not _is_running(parts[3]):
            with suppress(OSError):
                leftover.unlink()


@contextmanager
def reading(path: Pathlike, advice: str = "Get it, or write it, again.") -> Iterator[None]:
    """Convert any error of reading a missing or damaged file into an `InputError` with its name."""
    try:
        yield
    except IpsevalError:
        raise
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except Exception as error:  # readers of damaged files raise nearly anything
        reason = f"{type(error).__name__}: {_format_error(error)}"
        raise InputError(f"cannot read {path} ({reason:.300}). {advice}") from None


def check_members(path: Pathlike, sizes: Sequence[int]) -> None:
    """Raise `InputError` if an archive would unpack to far more bytes than real data of its size."""
    unpacked = sum(sizes)
    stored = Path(path).stat().st_size
    if unpacked > max(SMALL, MAX_RATIO * stored):
        raise InputError(
            f"{path} must unpack to at most {MAX_RATIO} times its {stored:,} bytes; got {unpacked:,} bytes. "
            "If this is intended, unpack it first (arrays: numpy.save, which does not compress)."
        )


@contextmanager
def open_archive(path: Pathlike, content: bytes | None = None) -> Iterator[zipfile.ZipFile]:
    """Open the zip archive at `path`, or the archive `content` inside it, after checks of its members.

    Use it inside `reading`, which words other errors.
    """
    check_is_file(path)
    source = path if content is None else io.BytesIO(content)
    with zipfile.ZipFile(source) as archive:
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
        arrays: dict[str, AnyArray] = {}
        for name in archive.namelist():
            arrays[name.removesuffix(_ARRAY)] = _read_numeric(archive, name)

        return arrays


def write_archive(stream: IO[bytes], header: Mapping[str, object], arrays: Sequence[AnyArray]) -> None:
    """Write arrays with a header of plain JSON values as one archive, readable by `numpy.load`."""
    body = {
        "format": FORMAT,
        "ipseval": __version__,
        **header,
        "sha256": [array_digest(array) for array in arrays],
    }
    with zipfile.ZipFile(stream, "w") as archive:
        _add_member(archive, HEADER, json.dumps(body | {"seal": _compute_digest(body)}).encode())
        for number, array in enumerate(arrays):
            if array.dtype.hasobject:
                content = json.dumps({"shape": array.shape, "values": _to_json_values(array)})
                _add_member(archive, f"{number}{_TEXTS}", content.encode())
            else:
                member = io.BytesIO()
                np.lib.format.write_array(member, array, allow_pickle=False)
                _add_member(archive, f"{number}{_ARRAY}", member.getbuffer())


def read_archive(
    path: Pathlike, advice: str, content: bytes | None = None
) -> tuple[dict[str, Any], list[AnyArray]]:
    """Return header and arrays written by `write_archive` to `path`, or to `content` inside it."""
    with reading(path, advice), open_archive(path, content) as archive:
        if HEADER not in archive.namelist():
            raise InputError(f"{path} is an archive that ipseval has not written. {advice}")
        header = json.loads(archive.read(HEADER))
        _check_header(path, header, advice)
        names = set(archive.namelist())
        arrays = []
        for number, expected in enumerate(header["sha256"]):
            name = f"{number}{_ARRAY}"
            if name in names:
                array = _read_numeric(archive, name)
            else:
                array = _read_objects(archive, f"{number}{_TEXTS}")
            if array_digest(array) != expected:
                raise InputError(f"{path}: array {number} is not the one that was written. {advice}")
            arrays.append(array)
        return header, arrays


def _check_header(path: Pathlike, header: Mapping[str, object], advice: str) -> None:
    """Raise `InputError` if a header has another format number or none, or was changed."""
    number = header.get("format")
    if type(number) is not int:
        raise InputError(
            f"{path} must have storage format {FORMAT}; got a file without a format number. {advice}"
        )
    if number != FORMAT:
        raise InputError(f"{path} must have storage format {FORMAT}; got format {number}. {advice}")
    body = {}
    for name, value in header.items():
        if name != "seal":
            body[name] = value

    if _compute_digest(body) != header.get("seal"):
        raise InputError(f"{path} is not as it was written: its checksum does not fit its content. {advice}")


def array_digest(array: AnyArray) -> str:
    """Return a hash of an array's type, shape and content."""
    if array.dtype.hasobject:
        content = json.dumps(_to_json_values(array)).encode()
    else:
        content = np.ascontiguousarray(array).tobytes()
    digest = hashlib.sha256(f"{array.dtype.str}{array.shape}".encode())
    digest.update(content)
    return digest.hexdigest()


def _read_numeric(archive: zipfile.ZipFile, name: str) -> AnyArray:
    """Return an array of an archive that holds numbers, dates or text of fixed length."""
    with archive.open(name) as member:
        array: AnyArray = np.lib.format.read_array(member, allow_pickle=False)
        member.read()  # the archive compares its checksum at the end of a member
        return array


def _read_objects(archive: zipfile.ZipFile, name: str) -> AnyArray:
    """Return an array of an archive that holds Python objects."""
    content = json.loads(archive.read(name))
    array = np.empty(len(content["values"]), dtype=object)
    array[:] = content["values"]
    return array.reshape(content["shape"])


def _to_json_values(array: AnyArray) -> list[bool | int | float | str | None]:
    """Return the entries of an array of objects as JSON values."""
    values = []
    for entry in array.ravel().tolist():
        value = entry.item() if isinstance(entry, np.generic) else entry
        if value is not None and not isinstance(value, (bool, int, float, str)):
            raise InputError(
                f"ids of type {type(value).__name__} cannot be stored ({value!r:.60}); use numbers or text."
            )
        values.append(value)
    return values


def _add_member(archive: zipfile.ZipFile, name: str, content: bytes | memoryview) -> None:
    """Add a compressed member with a fixed date, so that the same content gives the same bytes."""
    member = zipfile.ZipInfo(name)
    # The fastest level stores ranks seven times faster than the default, in 5% more bytes.
    archive.writestr(member, content, zipfile.ZIP_DEFLATED, compresslevel=1)


def _compute_digest(content: Mapping[str, object]) -> str:
    """Return a hash of JSON values."""
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _format_error(error: BaseException) -> str:
    """Return the text of an error on one line."""
    return " ".join(str(getattr(error, "strerror", None) or error).split())


def _host() -> str:
    """Return the name of this machine without characters that a file name cannot hold."""
    return re.sub(r"[\W_]", "-", socket.gethostname()) or "host"


def _is_running(process: str) -> bool:
    """Return whether a process with this number exists."""
    try:
        os.kill(int(process), 0)
    except PermissionError:
        return True
    except (ValueError, OverflowError, OSError):  # not a number, too large, or not a running process
        return False
    return True


def sha256(*texts: str) -> str:
    """Return the SHA-256 of a text, or of several texts that each end with a separator."""
    separator = "\x1e" if len(texts) > 1 else ""
    joined = "".join(f"{text}{separator}" for text in texts)
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()


ARRAYS = (".npy", ".npz")


def read_model_arrays(path: str | Path) -> AnyArray | tuple[AnyArray, AnyArray]:
    """Return the array in a file, or the factors in a .npz file with the arrays user_factors and item_factors."""
    if Path(path).suffix != ".npz":
        return read_array(path)
    arrays = read_arrays(path)
    if len(arrays) == 1:
        return next(iter(arrays.values()))
    has_bias = any("bias" in name for name in arrays)
    if {"user_factors", "item_factors"} <= arrays.keys() and not has_bias:
        return arrays["user_factors"], arrays["item_factors"]
    names = ", ".join(sorted(arrays))
    raise InputError(
        f"{path} must hold one array; got {len(arrays)} ({names:.100}). Factors are the arrays user_factors and "
        "item_factors, without a bias."
    )


def read_array(path: str | Path) -> AnyArray:
    """Return the array in a .npy file (memory-mapped, read-only) or the only one in a .npz file."""
    if Path(path).suffix == ".npz":
        arrays = read_arrays(path)
        if len(arrays) != 1:
            raise InputError(f"{path} must hold one array; got {len(arrays)}.")
        return next(iter(arrays.values()))
    with reading(path):
        array: AnyArray = np.lib.format.open_memmap(path, mode="r")
        return array
