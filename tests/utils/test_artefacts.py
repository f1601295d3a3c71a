"""Files are whole or not there; damage of any kind is an InputError that names the file."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
import time
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest

import ipseval
from ipseval.errors import InputError
from tests.inside.reporting import escape_controls, escape_formula
from tests.inside.utils import artefacts

ARRAYS = [np.arange(6).reshape(2, 3), np.array(["a", None, 3, 0.5, True], dtype=object), np.array([np.nan])]


def write(path: Path) -> None:
    with artefacts.open_atomically(path) as stream:
        artefacts.write_archive(stream, {"about": "x"}, ARRAYS)


def read(path: Path, content: bytes | None = None) -> list[np.ndarray]:
    header, arrays = artefacts.read_archive(path, "Write it again.", content)
    assert header["about"] == "x"
    return arrays


def same(found: list[np.ndarray]) -> bool:
    pairs = zip(found, ARRAYS, strict=True)
    return all(
        artefacts.array_digest(array) == artefacts.array_digest(different_array)
        for array, different_array in pairs
    )


def test_a_digest_does_not_depend_on_the_order_of_names():
    assert artefacts._compute_digest({"a": 1, "b": 2}) == artefacts._compute_digest({"b": 2, "a": 1})


def test_an_archive_is_compressed():
    stream = io.BytesIO()
    artefacts.write_archive(stream, {}, [np.arange(1000)])
    assert len(stream.getvalue()) < 4000


def test_an_archive_comes_back_as_it_was_and_has_the_same_bytes_each_time(tmp_path):
    write(tmp_path / "a.npz")
    time.sleep(0.01)
    write(tmp_path / "b.npz")
    assert same(read(tmp_path / "a.npz"))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_every_flipped_byte_and_every_truncation_is_an_error_or_changes_nothing(tmp_path):
    path = tmp_path / "a.npz"
    write(path)
    content = path.read_bytes()
    places = range(len(content))
    damaged = [content[:place] + bytes([content[place] ^ 255]) + content[place + 1 :] for place in places]
    damaged += [content[:place] for place in places]
    n_refused = 0
    for one in damaged:
        try:
            assert same(read(path, one))
        except InputError:
            n_refused += 1
    assert n_refused > len(content)


def test_a_header_that_was_changed_or_is_of_another_version_is_refused(tmp_path):
    path = tmp_path / "a.npz"
    for name, other, message in [
        ("about", "y", "is not as it was written"),
        ("seal", "0" * 64, "is not as it was written"),
        ("seal", "f" * 64, "is not as it was written"),
        ("format", 9, "must have storage format 1; got format 9. Write it again."),
        ("sha256", ["0" * 64], "is not as it was written"),
    ]:
        write(path)
        with zipfile.ZipFile(path) as archive:
            members = {member_name: archive.read(member_name) for member_name in archive.namelist()}
        header = json.loads(members[artefacts.HEADER]) | {name: other}
        with zipfile.ZipFile(path, "w") as archive:
            for member_name, content in (members | {artefacts.HEADER: json.dumps(header).encode()}).items():
                archive.writestr(member_name, content)
        with pytest.raises(InputError, match=rf"a\.npz {message}"):
            read(path)


def test_an_archive_that_unpacks_to_far_more_than_its_size_is_refused_unread(tmp_path, monkeypatch):
    assert artefacts.SMALL == 2**26
    monkeypatch.setattr(artefacts, "SMALL", 2**22)
    path = tmp_path / "bomb.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("a.npy", "w") as member,
    ):
        for _ in range(8):
            member.write(bytes(2**20))
    tracemalloc.start()
    with pytest.raises(
        InputError, match=r"bomb\.npz must unpack to at most 100 times its .* bytes; got 8,388,608"
    ):
        artefacts.read_arrays(path)
    assert tracemalloc.get_traced_memory()[1] < 2**20
    tracemalloc.stop()


def test_encrypted_pickled_repeated_and_foreign_members_are_refused(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, größe=np.arange(3))  # which sets another flag
    assert artefacts.read_arrays(path)["größe"].tolist() == [0, 1, 2]
    np.savez(path, a=np.arange(3))
    content = bytearray(path.read_bytes())
    content[content.index(b"PK\x03\x04") + 6] |= 1
    content[content.index(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"a\.npz is encrypted"):
        artefacts.read_arrays(path)
    np.savez(path, a=np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"cannot read .*a\.npz"):
        artefacts.read_arrays(path)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.npy", b"1")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("a.npy", b"2")
    with pytest.raises(InputError, match="several members of one name"):
        artefacts.read_arrays(path)


def test_ids_that_are_neither_numbers_nor_text_are_refused_and_nothing_is_left(tmp_path):
    with (
        pytest.raises(InputError, match="ids of type tuple cannot be stored"),
        artefacts.open_atomically(tmp_path / "a.npz") as stream,
    ):
        artefacts.write_archive(stream, {}, [np.array([(1,), None], dtype=object)[:1]])
    assert list(tmp_path.iterdir()) == []


def test_where_a_file_cannot_be_written_is_said_before_anything_is_computed(tmp_path):
    (tmp_path / "file").write_text("")
    cases = {
        tmp_path: "is a folder",
        tmp_path / "file" / "x": "cannot write",
        tmp_path / "a\0b": "cannot write",
    }
    cases |= {3: "cannot write"}
    if os.path.exists("/dev/full"):
        cases["/dev/full"] = "is a device or pipe"
    for path, message in cases.items():
        with pytest.raises(InputError, match=message):
            artefacts.check_writable(path)
    assert artefacts.check_writable(tmp_path / "new" / "folder" / "x.json").parent.is_dir()


def test_a_link_and_the_permissions_of_a_file_survive_writing(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("old")
    target.chmod(0o640)
    link.symlink_to(target)
    artefacts.write_text(link, "new")
    assert link.is_symlink()
    assert (target.read_text(), target.stat().st_mode & 0o777) == ("new", 0o640)


def test_an_error_while_writing_leaves_the_old_file_and_nothing_else(tmp_path):
    path = tmp_path / "a"
    path.write_text("old")

    def write_half() -> None:
        with artefacts.open_atomically(path) as stream:
            stream.write(b"half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_half()
    assert [(one.name, one.read_text()) for one in tmp_path.iterdir()] == [("a", "old")]


def test_many_threads_write_one_file_and_it_is_that_of_one_of_them(tmp_path):
    path, texts = tmp_path / "a", [str(number) * 100_000 for number in range(8)]
    threads = [threading.Thread(target=artefacts.write_text, args=(path, text)) for text in texts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert path.read_text() in texts
    assert len(list(tmp_path.iterdir())) == 1


def test_leftovers_of_dead_processes_are_removed_and_all_others_kept(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    host = artefacts._host()
    kept = {
        ".ipseval-aa.elsewhere.1.tmp",
        *(f".ipseval-aa.{name}.{dead.pid}.tmp" for name in ("0", f"{host}z")),
        f".ipseval-aa.{host}.{os.getpid()}.tmp",
        "foo.tmp",
        ".ipseval-x.tmp",
    }
    gone = {f".ipseval-aa.{host}.{process}.tmp" for process in (dead.pid, 10**30, "none")}
    for name in kept | gone:
        (tmp_path / name).write_text("half")
    artefacts.remove_leftovers(tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == kept


@pytest.mark.parametrize(("host", "part"), [("node-1.lan", "node-1-lan"), ("", "host")])
def test_a_half_written_file_is_named_after_its_machine_without_dots(tmp_path, monkeypatch, host, part):
    monkeypatch.setattr("socket.gethostname", lambda: host)
    with artefacts.open_atomically(tmp_path / "a"):
        (half,) = (path.name.split(".") for path in tmp_path.iterdir())
    assert half[2:] == [part, str(os.getpid()), "tmp"]


def test_what_steers_a_terminal_or_runs_in_a_spreadsheet_is_made_visible():
    assert escape_controls("\x1b]0;t\x07\rok\n") == "\\x1b]0;t\\x07\\rok\\n"
    assert escape_controls("a\u202eb\u2066\x9b\ud800") == "a\\u202eb\\u2066\\x9b\\ud800"
    assert escape_controls("Größe 推薦 🎬\nx", keep="\n") == "Größe 推薦 🎬\nx"
    cells = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(A1)", "\t=1"]
    assert [escape_formula(cell) for cell in cells] == [f"'{cell}" for cell in cells]
    assert [escape_formula(cell) for cell in ("als", "", -1.5, None)] == ["als", "", -1.5, None]


def text_of(error: type[Exception], call) -> str:
    with pytest.raises(error) as caught:
        call()
    return str(caught.value)


def test_what_may_always_be_unpacked_and_what_only_in_proportion_to_its_size(tmp_path):
    path = tmp_path / "a.zip"
    path.write_bytes(bytes(10))
    artefacts.check_members(path, [2**25, 2**25])
    assert text_of(InputError, lambda: artefacts.check_members(path, [2**26, 1])) == (
        f"{path} must unpack to at most 100 times its 10 bytes; got 67,108,865 bytes. If this "
        "is intended, unpack it first (arrays: numpy.save, which does not compress)."
    )
    with path.open("r+b") as stream:
        stream.truncate(2**20)  # a hole: nothing is written
    artefacts.check_members(path, [100 * 2**20])
    with pytest.raises(InputError, match=r"100 times its 1,048,576 bytes; got 104,857,601"):
        artefacts.check_members(path, [100 * 2**20, 1])


def test_a_reader_that_fails_is_an_error_that_names_the_file_and_the_way_out():
    def failing(error: Exception) -> None:
        with artefacts.reading("there.csv", "Ask again."):
            raise error

    for error, text in (
        (FileNotFoundError(2, "No such file"), "there.csv does not exist."),
        (
            OSError(5, "Input/output  error"),
            "cannot read there.csv (OSError: Input/output error). Ask again.",
        ),
        (KeyError("a\nb"), "cannot read there.csv (KeyError: 'a\\nb'). Ask again."),
        (InputError("as it is"), "as it is"),
    ):
        assert text_of(InputError, lambda error=error: failing(error)) == text
    with pytest.raises(ZeroDivisionError), artefacts.open_atomically("never") as _:
        raise ZeroDivisionError


def test_archives_that_ipseval_has_not_written_or_an_older_one_has(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, a=np.arange(3))
    assert text_of(InputError, lambda: read(path)) == (
        f"{path} is an archive that ipseval has not written. Write it again."
    )
    assert artefacts.read_arrays(path)["a"].tolist() == [0, 1, 2]
    digest = artefacts.array_digest(np.arange(2))
    for number, sha256, text in (
        (1, digest, ""),
        (1, "0" * 64, "array 0 is not the one that was written"),  # below the digest
        (1, "f" * 64, "array 0 is not the one that was written"),  # above it
        (2, digest, "must have storage format 1; got format 2. Write it again."),
        (None, digest, "must have storage format 1; got a file without a format number. Write it again."),
        (True, digest, "must have storage format 1; got a file without a format number. Write it again."),
        ("ipseval", digest, "must have storage format 1; got a file without a format number. Write it"),
    ):
        header = {"about": "x", "sha256": [sha256]}
        if number is not None:
            header["format"] = number
        header["seal"] = artefacts._compute_digest(header)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr(artefacts.HEADER, json.dumps(header))
            with archive.open("0.npy", "w") as member:
                np.lib.format.write_array(member, np.arange(2))
        if text:
            assert text in text_of(InputError, lambda: read(path))
        else:
            assert read(path)[0].tolist() == [0, 1]
    artefacts.write_text(path, "no archive")
    assert text_of(InputError, lambda: read(path)).startswith(f"cannot read {path} (BadZipFile: ")


def test_an_array_that_another_one_replaces_is_named_by_its_number(tmp_path):
    path = tmp_path / "a.npz"
    write(path)
    with zipfile.ZipFile(path) as archive:
        members = {member_name: archive.read(member_name) for member_name in archive.namelist()}
    assert list(members) == ["header.json", "0.npy", "1.json", "2.npy"]
    header = json.loads(members[artefacts.HEADER])
    assert {name: header[name] for name in ("format", "ipseval")} == {
        "format": 1,
        "ipseval": ipseval.__version__,
    }
    members["0.npy"], members["2.npy"] = members["2.npy"], members["0.npy"]
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    assert text_of(InputError, lambda: read(path)) == (
        f"{path}: array 0 is not the one that was written. Write it again."
    )


def test_a_digest_is_of_type_shape_and_content():
    array = np.arange(6).reshape(2, 3)
    others = [array.ravel(), array.astype("i4"), array + 1, array.astype(object), array.astype("M8[s]")]
    assert len({artefacts.array_digest(different_array) for different_array in (array, *others)}) == 6
    assert artefacts.array_digest(array.T) == artefacts.array_digest(array.T.copy())
    assert artefacts.sha256("a") == "ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb"
    assert artefacts.sha256("a", "b") == artefacts.sha256("a\x1eb\x1e") != artefacts.sha256("ab")
    assert artefacts.sha256("\ud800")


def test_a_process_runs_where_it_can_be_asked_even_if_it_is_of_somebody_else(monkeypatch):
    def refuse(process: int, signal: int) -> None:
        assert signal == 0
        raise PermissionError if process == 1 else ProcessLookupError

    assert artefacts._is_running(str(os.getpid()))
    monkeypatch.setattr(os, "kill", refuse)
    assert [artefacts._is_running(name) for name in ("1", "2", "x")] == [True, False, False]


def test_arrays_are_read_from_either_kind_of_file(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    np.savez(tmp_path / "a.npz", a=np.arange(3))
    np.savez(tmp_path / "b.npz", a=np.arange(3), b=np.arange(2))
    mapped = artefacts.read_array(tmp_path / "a.npy")
    assert isinstance(mapped, np.memmap)
    assert not mapped.flags.writeable
    assert mapped.tolist() == artefacts.read_array(tmp_path / "a.npz").tolist() == [0, 1, 2]
    path = tmp_path / "b.npz"
    assert text_of(InputError, lambda: artefacts.read_array(path)) == f"{path} must hold one array; got 2."
