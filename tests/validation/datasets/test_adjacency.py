"""Files with one line per user: what is read, counted and refused."""

from __future__ import annotations

import pytest

from ipseval.errors import InputError
from ipseval.validation.datasets import load_adjacency


def write(folder, name="train.txt", content="0 3 5\n7 3\n"):
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def pairs(log):
    return list(zip(log.user_ids[log.user].tolist(), log.item_ids[log.item].tolist(), strict=True))


@pytest.mark.parametrize(
    "content",
    [
        *("0 3 5\n7 3\n", "0 3 5\n7 3", "0 3 5\r\n7 3\r\n", "0\t3  5 \n7 3 \n\n", "\ufeff0 3 5\n7 3\n"),
        "0\v3\f5\n7 3\n",
    ],
    ids=["lf", "no end", "cr lf", "blanks", "byte order mark", "other blanks"],
)
def test_each_line_is_a_user_and_then_items(tmp_path, content):
    log = load_adjacency(write(tmp_path, content=content))
    assert pairs(log) == [(0, 3), (0, 5), (7, 3)]
    assert log.timestamp is None
    assert log.n_duplicates_dropped == 0


def test_users_without_items_are_users_and_repeated_items_are_counted(tmp_path):
    log = load_adjacency(write(tmp_path, content="4\n2 9 9 1 9\n3\n"), ordered=True)
    assert log.user_ids.tolist() == [2, 3, 4]
    assert pairs(log) == [(2, 9), (2, 1)]
    assert log.timestamp.tolist() == [0, 2]  # the place of the first of equal items
    assert log.n_duplicates_dropped == 2
    longest = load_adjacency(write(tmp_path, content="7 123456789012345678\n"))  # 18 digits
    assert pairs(longest) == [(7, 123456789012345678)]


def test_several_files_are_a_split_over_the_ids_of_all(tmp_path):
    files = {
        "test": write(tmp_path, "test.txt", "0 8\n5 1 2\n"),
        "validation": str(write(tmp_path, "valid.txt", "0 9\n5\n")),
        "train": write(tmp_path, "train.txt", "0 3 5\n7 3\n"),
    }
    split = load_adjacency(files, ordered=True)
    assert split.user_ids.tolist() == [0, 5, 7]
    assert split.item_ids.tolist() == [1, 2, 3, 5, 8, 9]
    assert pairs(split.train) == [(0, 3), (0, 5), (7, 3)]
    assert pairs(split.validation) == [(0, 9)]
    assert pairs(split.test) == [(0, 8), (5, 1), (5, 2)]
    # A user's places go on: two in training, one in validation, then the test.
    assert split.train.timestamp.tolist() == [0, 1, 0]
    assert (split.validation.timestamp.tolist(), split.test.timestamp.tolist()) == ([2], [3, 0, 1])
    assert load_adjacency({key: files[key] for key in ("train", "test")}).validation is None


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("0 3\n7 x 1\n", "line 2 of .* contains something other than whole numbers and spaces: '7 x 1'"),
        ("0 3\n7 -1\n", "line 2 of .* contains something other"),
        ("0 3\n7 1.5\n", "line 2 of .* contains something other"),
        ("user item\n7 1\n", "line 1 of .* contains something other"),
        ("0 3\n\n7 1\n", "line 2 of .* is empty"),
        ("0 3\n7 1\n0 2\n", "line 3 of .* begins with the user of line 1 again"),
        ("2 0 3\n1 4\n2 7 8\n", "line 3 of .* begins with the user of line 1 again.*reads tables of pairs"),
        (
            "0 3\n7 3\n8 1234567890123456789\n",
            "line 3 of .* contains a number of more than 18 digits: '8 123",
        ),
        ("0 3\n7 1\x0e5\n", "line 2 of .* contains something other"),
        ("0 3\n7 1\x085\n", "line 2 of .* contains something other"),
        (b"0 3\n\x80\x05\x95.", "line 2 of .* contains something other"),
        ("x" * 50, r": 'x{40}'\. Expected"),
        ("0\n1\n", "contains no item"),
        ("", "contains no item"),
    ],
)
def test_a_malformed_file_is_refused_with_the_line(tmp_path, content, message):
    with pytest.raises(InputError, match=message):
        load_adjacency(write(tmp_path, content=content))


def test_files_that_do_not_make_a_split_are_refused(tmp_path):
    path = write(tmp_path)
    for files, message in (
        (tmp_path / "none.txt", r"none.txt cannot be read \(No such file"),
        (tmp_path / "a\0b", r"cannot be read \(no file can have that name\)\.$"),
        (tmp_path, "cannot be read"),
        ({"train": path}, "files must name train and test; got train"),
        ({"train": path, "test": path, "valid": path}, "Choices: test, train, validation"),
        ({"train": path, "test": path}, "more than one part"),
        ({"train": path, "test": write(tmp_path, "test.txt", "0\n")}, "test.txt contains no item"),
    ):
        with pytest.raises(InputError, match=message):
            load_adjacency(files)
    with pytest.raises(InputError, match="ordered"):
        load_adjacency(path, ordered=1)
