"""Yahoo! R3, KuaiRec, MovieLens and Amazon: tiny files in the original layouts, and what is refused."""

import gzip
import json

import pytest

from ipseval.datasets import load_amazon_reviews, load_kuairec, load_movielens, load_yahoo_r3
from ipseval.errors import InputError

R3_TRAIN = "ydata-ymusic-rating-study-v1_0-train.txt"
R3_TEST = "ydata-ymusic-rating-study-v1_0-test.txt"
KUAI_HEADER = "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio\n"


def write(folder, **files):
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder


def yahoo(folder, train="1\t1\t5\n1\t3\t2\n3\t2\t4\n", test="1\t2\t1\n2\t3\t5\n"):
    return write(folder, **{R3_TRAIN: train, R3_TEST: test})


def kuai(
    folder, big="0,5,1,1,,,,1.5\n0,5,9,1,,,,2.5\n4,6,1,2,,,,0.5\n", small="4,5,1,1,,,,2.0\n4,7,1,1,,,,0\n"
):
    return write(folder, **{"big_matrix.csv": KUAI_HEADER + big, "small_matrix.csv": KUAI_HEADER + small})


def pairs(log):
    return list(zip(log.user_ids[log.user].tolist(), log.item_ids[log.item].tolist(), strict=True))


def test_yahoo_reads_two_tab_separated_files_with_ids_from_one(tmp_path):
    study = load_yahoo_r3(yahoo(tmp_path), verify=False)
    assert pairs(study.biased) == [(1, 1), (1, 3), (3, 2)]
    assert study.biased.value.tolist() == [5, 2, 4]
    assert pairs(study.positives().random) == [(2, 3)]
    assert (study.random.n_users, study.random.n_items) == (3, 3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": "1\t1\t5\n1\t3\n"}, "cannot be read as user, item, rating|truncated"),
        ({"train": "1\t1\t5\t9\n"}, "cannot be read as user, item, rating"),
        ({"train": "1\t1\t5\n1\t2\t5\t9\n"}, "cannot be read as user, item, rating"),
        ({"train": "1\t1\tgood\n"}, "cannot be read as user, item, rating"),
        ({"train": "1\t1\t4.5\n"}, "cannot be read as user, item, rating"),
        ({"train": "1,1,5\n"}, "cannot be read as user, item, rating"),
        ({"test": "1\t2\t6\n"}, r"ratings 1–5; 1 of 1 rows do not \(first: \[1, 2, 6\]\)"),
        ({"test": "0\t2\t3\n"}, "must hold ids from 1"),
        ({"test": "1\t2\t3\n1\t2\t4\n"}, "1 of 2 rows repeat an earlier user–item pair"),
        ({"test": ""}, "cannot be read as user, item, rating|has no rows"),
    ],
)
def test_a_malformed_yahoo_file_is_refused(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        load_yahoo_r3(yahoo(tmp_path, **change), verify=False)


def test_a_small_yahoo_file_is_not_taken_for_the_published_one(tmp_path):
    with pytest.raises(InputError, match="expected 311,704 biased ratings; the files have 3"):
        load_yahoo_r3(yahoo(tmp_path))


def test_kuairec_keeps_the_largest_watch_ratio_and_one_universe_of_ids(tmp_path):
    study = load_kuairec(kuai(tmp_path), verify=False)
    assert pairs(study.biased) == [(0, 5), (4, 6)]
    assert study.biased.value.tolist() == [2.5, 0.5]
    assert study.biased.item_ids.tolist() == [5, 6, 7]
    positives = study.positives()
    assert pairs(positives.random) == [(4, 5)]
    assert pairs(positives.random_negatives) == [(4, 7)]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"big": "0,5,1,1,,,,-1\n"}, "1 of 1 watch ratios of big_matrix.csv are not >= 0"),
        ({"big": "0,5,1,1,,,,inf\n"}, "1 of 1 watch ratios"),
        ({"big": "0,5,1,1,,,,\n"}, "missing entries"),
        ({"small": "0,5,1\n"}, "missing entries"),
        ({"small": "x,5,1,1,,,,1\n"}, "cannot be read as user_id, video_id, watch_ratio"),
        ({"small": ""}, "no rows"),
    ],
)
def test_a_malformed_kuairec_file_is_refused(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        load_kuairec(kuai(tmp_path, **change), verify=False)


def test_a_kuairec_file_without_the_column_is_refused(tmp_path):
    kuai(tmp_path)
    (tmp_path / "big_matrix.csv").write_text("user,video\n1,2\n")
    with pytest.raises(InputError, match=r"big_matrix\.csv cannot be read as user_id"):
        load_kuairec(tmp_path, verify=False)
    with pytest.raises(InputError, match=r"expected 12,530,806 rows of big_matrix\.csv; the files have 3"):
        load_kuairec(kuai(tmp_path))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("u.data", "10\t3\t4\t100\n2\t3\t1\t200\n"),
        ("ratings.dat", "10::3::4::100\n2::3::1::200\n"),
        ("ratings.csv", "userId,movieId,rating,timestamp\n10,3,4.0,100\n2,3,1.0,200\n"),
    ],
)
def test_every_movielens_layout_gives_the_same_log(tmp_path, name, text):
    log = load_movielens(write(tmp_path, **{name: text}))
    assert pairs(log) == [(10, 3), (2, 3)]
    assert log.value.tolist() == [4, 1]
    assert log.timestamp.tolist() == [100, 200]


@pytest.mark.parametrize(
    ("name", "text", "options", "message"),
    [
        ("u.data", "1\t3\t9\t1\n", {}, r"ratings must be in 0.5–5; 1 of 1 are not \(e.g. 9\)"),
        ("u.data", "1\t3\t4\n", {}, "cannot be read as user, item, rating, timestamp"),
        ("ratings.dat", "1::3::4\n", {}, "cannot be read as user, item, rating, timestamp|truncated"),
        ("ratings.dat", "1::3::4::5:6\n", {}, "cannot be read as user, item, rating, timestamp"),
        ("ratings.csv", "user,movie\n1,2\n", {}, "cannot be read as userId"),
        ("u.data", "1\t3\t4\t1\n1\t3\t4\t1\n", {}, "1 of 2 rows repeat"),
        ("u.data", "1\t3\t4\t1\n", {"release": "100k"}, "release 100k has 100,000 ratings; the file has 1"),
        ("u.data", "1\t3\t4\t1\n", {"release": "2m"}, "unknown value for release"),
        ("other.txt", "", {}, r"ratings\.csv is not in"),
    ],
)
def test_a_malformed_movielens_file_is_refused(tmp_path, name, text, options, message):
    with pytest.raises(InputError, match=message):
        load_movielens(write(tmp_path, **{name: text}), **options)


GOOD = b'{"reviewerID": "A", "asin": "B", "overall": 5, "unixReviewTime": 1}\n'
REVIEWS = {
    "2014": {"reviewerID": "A1", "asin": "B1", "overall": 5.0, "unixReviewTime": 7},
    "2018": {"reviewerID": "A1", "asin": "B1", "overall": 5.0, "unixReviewTime": 7},
    "2023": {"user_id": "A1", "parent_asin": "B1", "rating": 5.0, "timestamp": 7},
}
TABLES = {
    "2014": "A1,B1,5.0,7\n",
    "2018": "B1,A1,5.0,7\n",
    "2023": "user_id,parent_asin,rating,timestamp\nA1,B1,5.0,7\n",
}


@pytest.mark.parametrize("release", ["2014", "2018", "2023"])
@pytest.mark.parametrize("compressed", [False, True])
def test_amazon_tables_and_reviews_of_each_release_give_the_same_log(tmp_path, release, compressed):
    for name, text in (
        ("ratings.csv", TABLES[release]),
        ("reviews.json", json.dumps(REVIEWS[release]) + "\n"),
    ):
        path = tmp_path / (name + ".gz" if compressed else name)
        path.write_bytes(gzip.compress(text.encode()) if compressed else text.encode())
        log = load_amazon_reviews(path, release=release)
        assert pairs(log) == [("A1", "B1")]
        assert (log.value.tolist(), log.timestamp.tolist()) == ([5.0], [7])


def test_a_second_review_of_a_product_is_left_out_and_counted(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("A,B,5,1\nA,B,2,9\nA,C,3,1\n")
    log = load_amazon_reviews(path, release="2014")
    assert (pairs(log), log.value.tolist(), log.n_duplicates_dropped) == ([("A", "B"), ("A", "C")], [5, 3], 1)


def test_ids_that_look_like_numbers_or_missing_values_stay_text(tmp_path):
    path = tmp_path / "ratings.csv"
    path.write_text("A,0001714538,5,1\n")
    assert pairs(load_amazon_reviews(path, release="2014")) == [("A", "0001714538")]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("r.csv", b"A,B,6,1\n", r"stars must be in 1–5; 1 of 1 are not \(e.g. 6\). Is release"),
        ("r.csv", b"A,B,5\n", "missing entries|cannot be read"),
        ("r.csv", b"A,B,five,1\n", "cannot be read as user, item, rating, timestamp"),
        ("r.json", b'{"reviewerID": "A"\n', "line 1 of r.json is not a JSON object"),
        ("r.json", b'{"reviewerID": "A", "overall": 5, "unixReviewTime": 1}\n', "line 1 .*KeyError: 'asin'"),
        ("r.json", b"[]\n", "line 1 of r.json is not a JSON object"),
        ("r.json.gz", gzip.compress(GOOD * 9, mtime=0)[:-9], "truncated or damaged"),
        ("r.csv.gz", b"not gzip", "truncated or damaged"),
        ("r.csv", b"\x80\x05\x95\x10\x00.", "cannot be read as user"),
    ],
)
def test_a_malformed_amazon_file_is_refused(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message):
        load_amazon_reviews(tmp_path / name, release="2014")


def test_a_missing_amazon_file_says_where_to_get_it(tmp_path):
    with pytest.raises(InputError, match=r"is not a file\. Download"):
        load_amazon_reviews(tmp_path / "none.csv", release="2014")
