"""Yahoo! R3, KuaiRec and MovieLens: tiny files in the original layouts, and what is refused."""

import pytest

from ipseval.errors import InputError
from ipseval.validation.datasets import load_kuairec, load_movielens, load_yahoo_r3

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


def test_movielens_reads_a_copy_with_a_line_of_names(tmp_path):
    (tmp_path / "u.data").write_text("user-id\titem-id\trating\ttimestamp\n1\t7\t4\t99\n2\t7\t5\t98\n")
    log = load_movielens(tmp_path)
    assert pairs(log) == [(1, 7), (2, 7)]
    assert log.timestamp.tolist() == [99, 98]
