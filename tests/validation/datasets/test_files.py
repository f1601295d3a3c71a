"""Archives, pickles and damaged files: nothing is extracted, unpickled or half read."""

import gzip
import io
import pickle
import tarfile
import zipfile

import pytest

from ipseval.errors import InputError
from ipseval.validation.datasets import CARDS, load_coat, load_kuairec, load_movielens, load_yahoo_r3
from tests.inside.utils import artefacts as _artefacts
from tests.inside.validation import _files

RATINGS = b"10\t3\t4\t100\n2\t3\t1\t200\n"


def write_zip(path, members):
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members:
            archive.writestr(name, content)
    return path


def write_tar(path, members):
    with tarfile.open(path, "w:gz") as archive:
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize(("pack", "name"), [(write_zip, "ml.zip"), (write_tar, "ml.tar.gz")])
@pytest.mark.parametrize("member", ["u.data", "ml-100k/u.data", "../../u.data", "/etc/u.data"])
def test_a_member_is_read_from_an_archive_and_nothing_is_written(tmp_path, pack, name, member):
    folder = tmp_path / "inner" / "folder"
    folder.mkdir(parents=True)
    path = pack(folder / name, [("README", b"hello"), (member, RATINGS)])
    before = sorted(tmp_path.rglob("*"))
    assert load_movielens(path).value.tolist() == [4, 1]
    assert sorted(tmp_path.rglob("*")) == before


def test_compressed_file_of_two_bytes_is_refused(tmp_path):
    (tmp_path / "u.data.gz").write_bytes(b"ab")
    with pytest.raises(InputError, match=r"truncated or damaged \(Not a gzipped file"):
        load_movielens(tmp_path)


def test_two_members_of_the_same_name_are_ambiguous(tmp_path):
    path = write_zip(tmp_path / "a.zip", [("x/u.data", RATINGS), ("y/u.data", RATINGS)])
    with pytest.raises(InputError, match=r"u\.data is 2 times \('x/u.data', 'y/u.data'\) in .*expected once"):
        load_movielens(path)


def test_a_link_in_a_tar_archive_is_not_followed(tmp_path):
    (tmp_path / "secret").write_bytes(RATINGS)
    path = tmp_path / "a.tar"
    with tarfile.open(path, "w") as archive:
        info = tarfile.TarInfo("u.data")
        info.type, info.linkname = tarfile.SYMTYPE, str(tmp_path / "secret")
        archive.addfile(info)
    with pytest.raises(InputError, match=r"is not in .*a\.tar; expected once. It contains no file"):
        load_movielens(path)


@pytest.mark.parametrize("keep", [0.5, 0.97])
def test_a_truncated_archive_is_refused(tmp_path, keep):
    content = RATINGS * 2000
    archive = write_zip(tmp_path / "a.zip", [("u.data", content)]).read_bytes()
    (tmp_path / "a.zip").write_bytes(archive[: int(len(archive) * keep)])
    with pytest.raises(InputError, match="neither a folder nor an intact zip or tar archive"):
        load_movielens(tmp_path / "a.zip")


def test_a_flipped_byte_in_a_zip_member_is_noticed(tmp_path):
    path = write_zip(tmp_path / "a.zip", [("u.data", RATINGS)])
    path.write_bytes(path.read_bytes().replace(b"\t4\t", b"\t5\t"))
    with pytest.raises(InputError, match=r"truncated or damaged \(Bad CRC-32"):
        load_movielens(path)


def test_compressed_file_with_a_plausible_ratio_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "SMALL", 100)
    rows = "".join(f"{row}\t{row % 7}\t{row % 5 + 1}\t{row}\n" for row in range(1, 201))
    (tmp_path / "u.data.gz").write_bytes(gzip.compress(rows.encode()))
    assert len(load_movielens(tmp_path)) == 200


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "gz"])
def test_archive_with_an_implausible_compression_ratio_is_refused_unread(kind, tmp_path, monkeypatch):
    zeros = bytes(65 * 2**20)
    if kind != "zip":  # the same with less to pack
        zeros = zeros[: 70 * 2**10]
        for module in (_artefacts, _files):
            monkeypatch.setattr(module, "SMALL", 2**16)
    path = tmp_path / f"a.{kind}"
    if kind == "zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
            archive.writestr("u.data", zeros)
    elif kind == "gz":
        path = tmp_path
        (tmp_path / "u.data.gz").write_bytes(gzip.compress(zeros))
    else:
        (tmp_path / "u.data").write_bytes(zeros)
        with tarfile.open(path, "w:gz", compresslevel=1) as tar:
            tar.add(tmp_path / "u.data", "u.data")
    with pytest.raises(InputError, match=f"{len(zeros):,} bytes"):
        load_movielens(path)


class Bomb:
    """Unpickling this would raise: no loader may get that far."""

    def __reduce__(self):
        return (pytest.fail, ("a pickle was loaded",))


@pytest.mark.parametrize(
    ("load", "names"),
    [
        (load_coat, ["train.ascii", "test.ascii"]),
        (
            load_yahoo_r3,
            ["ydata-ymusic-rating-study-v1_0-train.txt", "ydata-ymusic-rating-study-v1_0-test.txt"],
        ),
        (load_kuairec, ["big_matrix.csv", "small_matrix.csv"]),
        (load_movielens, ["ratings.csv"]),
        (load_movielens, ["u.data"]),
    ],
)
def test_a_pickle_under_the_right_name_is_refused_unread(tmp_path, load, names):
    for name in names:
        (tmp_path / name).write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(InputError, match=f"{names[0].split('.')[0]}"):
        load(tmp_path)


def test_every_card_has_a_source_and_a_citation():
    assert set(CARDS) == {
        "cm100k", "coat", "kuairand", "kuairec", "movielens", "open-bandit", "yahoo-r3",
    }  # fmt: skip
    for name, card in CARDS.items():
        assert card.name == name
        assert card.url.startswith("https://")
        assert card.how_to_get.endswith(".")
        for part in (card.title, card.licence, card.citation):
            assert len(part) > 5
            assert part in str(card)


def test_caveats_are_the_last_line_of_a_card_that_has_some():
    assert str(CARDS["cm100k"]).splitlines()[-1].startswith("  caveats   Known is what a user remembers")
    assert "caveats" not in str(CARDS["coat"])
