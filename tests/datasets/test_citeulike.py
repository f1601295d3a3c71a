"""citeulike-a: the original format, its checks, and the published sizes."""

import pytest

from ipseval.datasets import load_citeulike_a
from ipseval.errors import InputError


def test_each_line_is_a_user_with_a_count_and_ids(tmp_path):
    (tmp_path / "users.dat").write_text("2 0 3\n0\n1 2\n")
    log = load_citeulike_a(tmp_path, verify=False)
    assert log.user.tolist() == [0, 0, 2]
    assert log.item.tolist() == [0, 3, 2]
    assert (log.n_users, log.n_items) == (3, 4)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("2 0 3\n3 1 2\n", "line 2 of users.dat announces 3 ids"),
        ("2 5 5\n", "line 1 of users.dat announces 2 ids and holds 1 distinct"),
        ("1 -4\n", "line 1"),
        ("1 0\n\n", "line 2 of users.dat must be a count and then ids"),
        ("1 x\n", "line 1 of users.dat must be a count"),
        ("0\n", "holds no pair"),
        ("", "holds no pair"),
    ],
)
def test_a_malformed_file_is_rejected_with_the_line(tmp_path, text, message):
    (tmp_path / "users.dat").write_text(text)
    with pytest.raises(InputError, match=message):
        load_citeulike_a(tmp_path, verify=False)


def test_a_small_file_is_not_taken_for_the_published_one(tmp_path):
    (tmp_path / "users.dat").write_text("2 0 3\n")
    with pytest.raises(InputError, match="expected 5,551 users; the files have 1"):
        load_citeulike_a(tmp_path)


def test_the_published_file_has_204_986_pairs(shared_data):
    log = load_citeulike_a(shared_data("citeulike-a"))
    assert (len(log), log.n_users, log.n_items) == (204986, 5551, 16980)
