"""Yahoo! R3, KuaiRand, KuaiRec and MovieLens: tiny files in the original layouts, and what is refused."""

import pytest

from ipseval.errors import InputError
from ipseval.validation.datasets import load_kuairand, load_kuairec, load_movielens, load_yahoo_r3

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


def kuairand(folder, train="0 1 2\n1 0\n", valid="0 3\n1\n", test_ood="0 0\r\n", test_neg="1 2 3\r\n"):
    parts = {"train": train, "valid": valid, "test_ood": test_ood, "test_neg": test_neg}
    return write(folder, **{f"{name}.txt": text for name, text in parts.items()})


def test_kuairand_joins_clicks_of_the_feed_and_both_outcomes_of_random_exposure(tmp_path):
    study = load_kuairand(kuairand(tmp_path), verify=False)
    found = study.positives()
    assert pairs(study.biased) == pairs(found.biased) == [(0, 1), (0, 2), (1, 0), (0, 3)]
    assert (pairs(found.random), pairs(found.random_negatives)) == ([(0, 0)], [(1, 2), (1, 3)])
    assert found.n_exposed.tolist() == [1, 0, 1, 1]
    assert found.n_positive.tolist() == [1, 0, 0, 0]
    assert study.biased.user_ids.tolist() == [0, 1]
    assert study.random.item_ids.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("change", "options", "message"),
    [
        ({"train": "0 1\n1 x\n"}, {"verify": False}, "line 2 of train.txt holds something else"),
        ({"valid": "0 1\n0 2\n"}, {"verify": False}, "line 2 of valid.txt begins with the user of line 1"),
        ({"valid": "0 1\n"}, {"verify": False}, "repeat"),
        ({"test_neg": "0 0\n"}, {"verify": False}, "repeat"),
        ({"test_ood": ""}, {"verify": False}, "test_ood.txt holds no item"),
        ({}, {}, "expected 19,685 users; the files have 2"),
    ],
)
def test_malformed_kuairand_files_are_refused(tmp_path, change, options, message):
    with pytest.raises(InputError, match=message):
        load_kuairand(kuairand(tmp_path, **change), **options)


def test_a_folder_without_a_file_of_kuairand_says_where_to_get_it(tmp_path):
    (kuairand(tmp_path) / "valid.txt").unlink()
    with pytest.raises(InputError, match=r"valid\.txt is not in .*data/KuaiRand"):
        load_kuairand(tmp_path)


def test_kuairand_has_its_published_counts(shared_data):
    study = load_kuairand(shared_data("kuairand"))
    found = study.positives()
    assert (study.biased.n_users, study.biased.n_items) == (19685, 5169)
    assert (len(found.biased), len(found.random), len(found.random_negatives)) == (501398, 127147, 462489)
    exposed = study.random.activity
    assert ((exposed > 0).sum(), exposed[exposed > 0].min(), exposed.max()) == (16087, 2, 1084)
    clicked = found.random.activity
    assert clicked[exposed > 0].min() == 1  # only users with a click are in it
    few, many = (exposed > 0) & (exposed <= 10), exposed >= 100
    assert [round(clicked[one].sum() / exposed[one].sum(), 3) for one in (few, many)] == [0.267, 0.198]
    shown = found.n_exposed[found.n_exposed > 0]
    assert (shown.size, round(shown.mean()), round(shown.std())) == (5124, 115, 22)


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
