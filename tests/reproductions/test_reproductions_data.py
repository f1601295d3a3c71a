"""Loaders of the reproductions: tiny files in the published layouts."""

from __future__ import annotations

import gzip
import json

from ipseval.ranking import baselines
from reproductions import gamma_citeulike
from reproductions.data import load_amazon_reviews, load_citeulike_a, load_tradesy


def pairs(log):
    return list(zip(log.user_ids[log.user].tolist(), log.item_ids[log.item].tolist(), strict=True))


def test_a_line_of_citeulike_is_a_user_with_a_count_and_ids(tmp_path):
    (tmp_path / "users.dat").write_text("2 0 3\n0\n1 2\n")
    log = load_citeulike_a(tmp_path)
    assert pairs(log) == [(0, 0), (0, 3), (2, 2)]
    assert (log.n_users, log.n_items) == (3, 4)


def test_citeulike_has_its_published_sizes(shared_data):
    log = load_citeulike_a(shared_data("citeulike-a"))
    assert (len(log), log.n_users, log.n_items) == (204986, 5551, 16980)


def test_the_table_of_gamma_reads_citeulike_from_the_folder_of_the_command_line(
    tmp_path, monkeypatch, capsys
):
    lines = [f"20 {' '.join(str((3 * user + step) % 120) for step in range(20))}" for user in range(40)]
    (tmp_path / "users.dat").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(
        gamma_citeulike, "recommenders", lambda train, seed: {"EASE": lambda: baselines.ease(train)}
    )
    gamma_citeulike.main(str(tmp_path), 0)
    printed = capsys.readouterr().out
    assert printed.startswith("Interactions(560 pairs, 40 users, 120 items)")
    assert "| EASE | " in printed


def test_tradesy_reads_what_was_bought_and_wanted_and_counts_repeats(tmp_path):
    lines = (
        "{'lists': {'sold': ['9'], 'want': ['4', '5'], 'bought': ['4']}, 'uid': '12'}\n"
        "{'lists': {'sold': [], 'bought': ['9', '5']}, 'uid': '3'}\n"
    )
    (tmp_path / "tradesy.json.gz").write_bytes(gzip.compress(lines.encode()))
    log = load_tradesy(tmp_path / "tradesy.json.gz")
    assert pairs(log) == [("12", "4"), ("12", "5"), ("3", "9"), ("3", "5")]
    assert log.n_duplicates_dropped == 1  # item 4 was wanted and bought


def test_amazon_reviews_have_stars_and_times(tmp_path):
    rows = [("A", "0001", 5.0, 7), ("A", "0001", 2.0, 9), ("B", "0001", 3.0, 8)]
    keys = ("reviewerID", "asin", "overall", "unixReviewTime")
    text = "\n".join(json.dumps(dict(zip(keys, row, strict=True))) for row in rows)
    (tmp_path / "reviews_Beauty_5.json.gz").write_bytes(gzip.compress(text.encode()))
    log = load_amazon_reviews(tmp_path / "reviews_Beauty_5.json.gz")
    assert pairs(log) == [("A", "0001"), ("B", "0001")]
    assert (log.value.tolist(), log.timestamp.tolist(), log.n_duplicates_dropped) == ([5, 3], [7, 8], 1)
