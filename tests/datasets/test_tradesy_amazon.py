"""Tradesy and the 5-core files of Amazon: tiny files in the published layouts, and what is refused."""

import gzip
import json

import pytest

from ipseval.datasets import load_amazon_reviews, load_movielens, load_tradesy
from ipseval.errors import InputError

# Lines as in tradesy.json.gz: Python literals, ids of items as text.
TRADESY = (
    "{'lists': {'sold': ['9'], 'selling': ['7', '8'], 'want': ['4', '5'], 'bought': ['4']}, 'uid': '12'}\n"
    "{'lists': {'sold': [], 'selling': [], 'want': [], 'bought': ['9', '5']}, 'uid': '3'}\n"
)


def pairs(log):
    return list(zip(log.user_ids[log.user].tolist(), log.item_ids[log.item].tolist(), strict=True))


def test_tradesy_reads_what_was_bought_and_wanted_and_counts_repeats(tmp_path):
    (tmp_path / "tradesy.json.gz").write_bytes(gzip.compress(TRADESY.encode()))
    log = load_tradesy(tmp_path / "tradesy.json.gz")
    assert pairs(log) == [("12", "4"), ("12", "5"), ("3", "9"), ("3", "5")]
    assert log.n_duplicates_dropped == 1  # item 4 was wanted and bought
    assert log.timestamp is None


def test_tradesy_reads_other_lists_and_json(tmp_path):
    lines = [{"lists": {"sold": [9], "bought": []}, "uid": 12}, {"lists": {"selling": [7]}, "uid": 3}]
    (tmp_path / "users.json").write_text("\n".join(json.dumps(one) for one in lines) + "\n")
    assert pairs(load_tradesy(tmp_path / "users.json", lists=["selling", "sold"])) == [
        ("12", "9"),
        ("3", "7"),
    ]


@pytest.mark.parametrize(
    ("content", "options", "text"),
    [
        ("{'uid': '1'}\n", {}, "line 1 is not a mapping with 'uid' and 'lists'"),
        (TRADESY + "{'lists': {'bou", {}, "line 3 is not a mapping"),
        ("__import__('os').getcwd()\n", {}, "line 1 is not a mapping"),
        ("[1, 2]\n", {}, "line 1 is not a mapping"),
        (TRADESY, {"lists": ["liked"]}, "Choices: bought, selling, sold, want"),
        (TRADESY, {"lists": []}, "lists is empty"),
        ("{'lists': {'sold': ['1']}, 'uid': '1'}\n", {}, "has no item in bought, want"),
    ],
)
def test_a_damaged_tradesy_file_is_refused_with_the_reason(tmp_path, content, options, text):
    (tmp_path / "users.json").write_text(content)
    with pytest.raises(InputError, match=text):
        load_tradesy(tmp_path / "users.json", **options)
    with pytest.raises(InputError, match="is not a file"):
        load_tradesy(tmp_path / "other.json")


def review(user, item, release):
    row = {"reviewerID": f"A{user}", "asin": f"B{item}", "overall": 5.0, "unixReviewTime": 1400000000 + item}
    extra = {"2014": {"helpful": [0, 0], "reviewText": "good"}, "2018": {"verified": True, "style": {}}}
    return json.dumps(row | extra[release])


def core_file(folder, release, n_users=5):
    """Write a 5-core of products 1–5 and return its path, in the layout of a release."""
    cells = [(user, item) for user in range(n_users) for item in range(1, 6)]
    if release == "2023":
        path = folder / "All_Beauty.csv.gz"
        rows = [f"AE{user},B{item},5.0,{1600000000000 + item}" for user, item in cells]
        path.write_bytes(gzip.compress("\n".join(["user_id,parent_asin,rating,timestamp", *rows]).encode()))
        return path
    path = folder / ("reviews_Beauty_5.json.gz" if release == "2014" else "All_Beauty_5.json.gz")
    path.write_bytes(gzip.compress("\n".join(review(u, i, release) for u, i in cells).encode()))
    return path


@pytest.mark.parametrize("release", ["2014", "2018", "2023"])
def test_five_core_files_of_every_release_are_read_and_checked(tmp_path, release):
    log = load_amazon_reviews(core_file(tmp_path, release), release=release, five_core=True)
    assert (len(log), log.n_users, log.n_items) == (25, 5, 5)
    assert log.value.tolist() == [5.0] * 25
    first = 1600000000001 if release == "2023" else 1400000001
    assert log.timestamp.min() == first


@pytest.mark.parametrize("release", ["2014", "2018", "2023"])
def test_a_file_that_is_no_five_core_is_refused_when_one_was_asked_for(tmp_path, release):
    path = core_file(tmp_path, release, n_users=4)
    assert len(load_amazon_reviews(path, release=release)) == 20
    with pytest.raises(InputError, match="5 of 5 products have fewer than five rows"):
        load_amazon_reviews(path, release=release, five_core=True)


def test_movielens_reads_a_copy_with_a_line_of_names(tmp_path):
    (tmp_path / "u.data").write_text("user-id\titem-id\trating\ttimestamp\n1\t7\t4\t99\n2\t7\t5\t98\n")
    log = load_movielens(tmp_path)
    assert pairs(log) == [(1, 7), (2, 7)]
    assert log.timestamp.tolist() == [99, 98]
