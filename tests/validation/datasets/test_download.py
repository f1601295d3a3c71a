"""Downloads, against a local server: opt-in, checked, and all or nothing."""

import functools
import hashlib
import http.server
import threading
from dataclasses import replace

import pytest

from ipseval.errors import InputError
from ipseval.validation.datasets import CARDS, download, load_movielens
from tests.inside.validation import _files

pytest.importorskip("pooch", reason="downloads need pooch")
CONTENT = b"10\t3\t4\t100\n2\t3\t1\t200\n"


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(name="server")
def local_server(tmp_path):
    folder = tmp_path / "served"
    (folder / "sub").mkdir(parents=True)
    for name in ("u.data", "ml-100k.zip"):
        (folder / name).write_bytes(CONTENT)
    (folder / "sub" / "part.csv").write_bytes(b"a,b\n1,2\n")
    handler = functools.partial(Quiet, directory=str(folder))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()
    thread.join()


def card(server, content=CONTENT, name="u.data"):
    checksum = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return replace(CARDS["movielens"], downloads={name: (f"{server}/{name}", checksum)})


def test_a_file_with_the_right_checksum_arrives_and_can_be_loaded(server, tmp_path):
    path = _files.fetch(card(server), tmp_path / "new" / "folder", "u.data")
    assert path.read_bytes() == CONTENT
    assert len(load_movielens(path.parent)) == 2


def test_a_file_in_a_sub_folder_keeps_its_place(server, tmp_path):
    path = _files.fetch(card(server, b"a,b\n1,2\n", "sub/part.csv"), tmp_path / "new", "sub/part.csv")
    assert path == tmp_path / "new" / "sub" / "part.csv"
    assert path.is_file()


def test_a_wrong_checksum_is_an_error_and_leaves_nothing_behind(server, tmp_path):
    with pytest.raises(InputError, match=r"does not have the checksum sha256:.*nothing was kept"):
        _files.fetch(card(server, b"something else"), tmp_path / "new", "u.data")
    assert list((tmp_path / "new").iterdir()) == []


def test_the_published_checksum_guards_a_mirror(server, tmp_path):
    with pytest.raises(InputError, match="does not have the checksum md5:0e33842e24a9"):
        download("movielens", tmp_path / "new", files=["ml-100k.zip"], mirror=server)
    assert list((tmp_path / "new").iterdir()) == []


def test_a_file_that_is_there_already_is_not_fetched_again(server, tmp_path):
    (tmp_path / "u.data").write_bytes(CONTENT)
    closed = card("http://127.0.0.1:9")  # nothing listens there: fetching would fail
    assert _files.fetch(closed, tmp_path, "u.data").read_bytes() == CONTENT


@pytest.mark.parametrize("name", ["missing.dat"])
def test_a_missing_address_is_an_error_with_the_address(server, tmp_path, name):
    with pytest.raises(InputError, match=r"missing\.dat could not be downloaded from http://127.*404"):
        _files.fetch(card(server, name=name), tmp_path / "new", name)


def test_no_connection_is_an_error_with_the_address(tmp_path):
    with pytest.raises(InputError, match="could not be downloaded from http://127"):
        _files.fetch(card("http://127.0.0.1:9"), tmp_path, "u.data")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("yahoo-r3", {}, "cannot be downloaded from here.*Request data set R3"),
        ("coat", {}, r"cannot be downloaded from here.*coat\.zip"),
        ("movielens", {}, r"pass files=\[…\] from ml-100k\.zip"),
        ("movielens", {"files": ["ml-3.zip"]}, r"unknown value for file: 'ml-3\.zip'"),
        ("nothing", {}, "unknown value for name"),
    ],
)
def test_what_cannot_be_downloaded_says_why(tmp_path, name, options, message):
    with pytest.raises(InputError, match=message):
        download(name, tmp_path, **options)
