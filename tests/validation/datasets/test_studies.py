"""CM100K, Coat, Yahoo! R3, KuaiRand, KuaiRec, Open Bandit and MovieLens: tiny files in the original layouts."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import partial

import numpy as np
import pandas as pd
import pytest

from ipseval.errors import InputError
from ipseval.validation.datasets import (
    load_cm100k,
    load_coat,
    load_kuairand,
    load_kuairec,
    load_movielens,
    load_open_bandit,
    load_yahoo_r3,
)

R3_TRAIN = "ydata-ymusic-rating-study-v1_0-train.txt"
R3_TEST = "ydata-ymusic-rating-study-v1_0-test.txt"
PROPENSITIES = ".1 .2 .3 .4\n.5 .6 .7 .8\n.9 1 .1 .2\n"
KUAI_HEADER = "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio\n"
BANDIT_HEADER = ",timestamp,item_id,position,click,propensity_score,user_feature_0\n"
TIME = "2019-11-24 00:00:01.5+00:00"
RANDOM = f"0,{TIME},14,3,0,0.029411764705882353,abc\n"


def write(folder, **files):
    for name, text in files.items():
        if text is not None:
            (folder / name).write_text(text)
    return folder


def coat(
    folder, train="0 5 0 2\n4 0 1 0\n0 0 3 4\n", test="1 0 0 2\n0 4 0 0\n5 0 0 0\n", propensities=PROPENSITIES
):
    parts = {"train": train, "test": test, "propensities": propensities}
    return write(folder, **{f"{name}.ascii": text for name, text in parts.items()})


def yahoo(folder, train="1\t1\t5\n1\t3\t2\n3\t2\t4\n", test="1\t2\t1\n2\t3\t5\n"):
    return write(folder, **{R3_TRAIN: train, R3_TEST: test})


def kuairand(folder, train="0 1 2\n1 0\n", valid="0 3\n1\n", test_ood="0 0\r\n", test_neg="1 2 3\r\n"):
    parts = {"train": train, "valid": valid, "test_ood": test_ood, "test_neg": test_neg}
    return write(folder, **{f"{name}.txt": text for name, text in parts.items()})


def kuairec(
    folder,
    big="0,5,1,1,,,,1.5\n0,5,9,1,,,,2.5\n4,6,1,2,,,,0.5\n",
    small="4,5,1,1,,,,2.0\n4,7,1,1,,,,0\n",
    header=KUAI_HEADER,
):
    return write(folder, **{"big_matrix.csv": header + big, "small_matrix.csv": header + small})


def cm100k(
    folder, rows="5\t7\t1\t1\n5\t9\t0\t1\n8\t7\t2\t0\n8\t9\t1\t1\n", header="user\titem\trating\tknown\n"
):
    return write(folder, **{"ratings.tsv": header + rows})


def bandit(folder, random=RANDOM, bts=f"0,{TIME},2,1,1,0.25,abc\n", n_items=34):
    catalogue = ",item_id,item_feature_0\n" + "".join(f"{i},{i},0.5\n" for i in range(n_items))
    for policy, rows in (("random", random), ("bts", bts)):
        (folder / policy / "men").mkdir(parents=True)
        write(folder / policy / "men", **{"men.csv": BANDIT_HEADER + rows, "item_context.csv": catalogue})
    return folder


def pairs(log):
    return list(zip(log.user_ids[log.user].tolist(), log.item_ids[log.item].tolist(), strict=True))


def test_a_matrix_of_coat_becomes_pairs_with_ratings_and_positives_from_the_threshold(tmp_path):
    study = load_coat(coat(tmp_path), verify=False)
    assert pairs(study.biased) == [(0, 1), (0, 3), (1, 0), (1, 2), (2, 2), (2, 3)]
    assert study.biased.value.tolist() == [5, 2, 4, 1, 3, 4]
    assert (study.random.n_users, study.random.n_items) == (3, 4)
    positives = study.positives(threshold=4)
    assert pairs(positives.biased) == [(0, 1), (1, 0), (2, 3)]
    assert pairs(positives.random) == [(1, 1), (2, 0)]
    assert pairs(positives.random_negatives) == [(0, 0), (0, 3)]
    assert positives.n_exposed.tolist() == [2, 1, 0, 1]
    assert positives.n_positive.tolist() == [1, 1, 0, 0]
    assert positives.n_in_both == 1  # user 0, item 3
    assert positives.biased.value is None
    assert study.threshold == 4
    for name in ("n_exposed", "n_positive"):
        with pytest.raises(InputError, match=f"{name} must have 4 entries"):
            replace(positives, **{name: np.zeros(3)})
    for name, word in (("biased", "biased"), ("random", "random-exposure")):
        with pytest.raises(InputError, match=f"the {word} log of a study needs ratings as value"):
            replace(study, **{name: replace(getattr(study, name), value=None)})
    assert repr(positives) == "StudyPositives(3 biased and 2 random positives, from 4; 3 users, 4 items)"


def test_published_propensities_are_looked_up_by_pair_and_are_optional(tmp_path):
    study = load_coat(coat(tmp_path), verify=False)
    assert study.propensity.for_pairs(np.array([0, 2]), np.array([3, 1])).tolist() == [0.4, 1.0]
    (tmp_path / "propensities.ascii").unlink()
    assert load_coat(tmp_path, verify=False).propensity is None


def test_yahoo_reads_two_tab_separated_files_with_ids_from_one(tmp_path):
    study = load_yahoo_r3(yahoo(tmp_path), verify=False)
    assert pairs(study.biased) == [(1, 1), (1, 3), (3, 2)]
    assert study.biased.value.tolist() == [5, 2, 4]
    assert (study.threshold, pairs(study.positives().random)) == (4, [(2, 3)])
    assert (study.random.n_users, study.random.n_items) == (3, 3)


def test_kuairand_joins_clicks_of_the_feed_and_both_outcomes_of_random_exposure(tmp_path):
    study = load_kuairand(kuairand(tmp_path), verify=False)
    positives = study.positives()
    assert pairs(study.biased) == pairs(positives.biased) == [(0, 1), (0, 2), (1, 0), (0, 3)]
    assert (pairs(positives.random), pairs(positives.random_negatives)) == ([(0, 0)], [(1, 2), (1, 3)])
    assert positives.n_exposed.tolist() == [1, 0, 1, 1]
    assert positives.n_positive.tolist() == [1, 0, 0, 0]
    assert (study.threshold, study.biased.user_ids.tolist()) == (1, [0, 1])
    assert (study.biased.value.tolist(), study.random.value.tolist()) == ([1, 1, 1, 1], [1, 0, 0])
    assert study.random.item_ids.tolist() == [0, 1, 2, 3]


def test_kuairec_keeps_the_largest_watch_ratio_and_one_universe_of_ids(tmp_path):
    study = load_kuairec(kuairec(tmp_path), verify=False)
    assert pairs(study.biased) == [(0, 5), (4, 6)]
    assert study.biased.value.tolist() == [2.5, 0.5]
    assert study.biased.item_ids.tolist() == [5, 6, 7]
    positives = study.positives()
    assert (study.threshold, positives.threshold) == (2, 2)
    assert (pairs(positives.random), pairs(positives.random_negatives)) == ([(4, 5)], [(4, 7)])


def rate_every_track(n_users=40, n_items=50):
    """Return rows in which each user rates each track: liked by even users, known where item is below 20."""
    user, item = np.divmod(np.arange(n_users * n_items), n_items)
    return pd.DataFrame({"user": user, "item": item, "rating": 1 - user % 2, "known": (item < 20) * 1})


def test_cm100k_divides_each_users_ratings_into_a_log_of_known_tracks_a_counting_part_and_the_truth(tmp_path):
    frame = rate_every_track()
    frame.to_csv(tmp_path / "ratings.tsv", sep="\t", index=False)
    study = load_cm100k(tmp_path, verify=False)
    assert (study.random.activity == 10).all()  # 20% of 50 tracks
    assert (study.calibration.activity == 10).all()
    parts = [set(pairs(log)) for log in (study.biased, study.calibration, study.random)]
    assert not parts[0] & parts[1]
    assert not parts[0] & parts[2]
    assert not parts[1] & parts[2]
    n_known_elsewhere = sum(item < 20 for part in parts[1:] for _, item in part)
    assert len(study.biased) == 40 * 20 - n_known_elsewhere  # all known tracks of the remaining 60%
    assert study.biased.item.max() < 20
    assert set(study.random.value) == {0.0, 1.0}
    assert study.positives().biased.user.max() % 2 == 0
    assert study.n_in_both == 0


def test_cm100k_counts_known_tracks_among_the_liked_tracks_of_the_counting_part(tmp_path):
    rate_every_track().to_csv(tmp_path / "ratings.tsv", sep="\t", index=False)
    study = load_cm100k(tmp_path, verify=False)
    liked = study.calibration.select(study.calibration.value >= 1)
    assert study.counted_propensity.n_relevant.tolist() == liked.popularity.tolist()
    is_known = np.arange(50) < 20
    assert study.counted_propensity.n_observed.tolist() == np.where(is_known, liked.popularity, 0).tolist()


def test_cm100k_is_always_the_same_study_and_another_seed_divides_it_otherwise(tmp_path):
    rate_every_track().to_csv(tmp_path / "ratings.tsv", sep="\t", index=False)
    studies = [load_cm100k(tmp_path, verify=False) for _ in range(2)]
    assert pairs(studies[0].random) == pairs(studies[1].random)
    assert pairs(load_cm100k(tmp_path, verify=False, rng=1).random) != pairs(studies[0].random)


def test_a_study_checks_the_ids_and_the_values_of_its_calibration_part(tmp_path):
    rate_every_track().to_csv(tmp_path / "ratings.tsv", sep="\t", index=False)
    study = load_cm100k(tmp_path, verify=False)
    with pytest.raises(InputError, match="the calibration log of a study needs ratings as value"):
        replace(study, calibration=replace(study.calibration, value=None))
    with pytest.raises(InputError, match="all logs of a study must be over the same user_ids"):
        replace(study, calibration=replace(study.calibration, item_ids=np.arange(50, 100)))


def test_both_logs_of_open_bandit_are_read_with_their_propensities(tmp_path):
    east = TIME.replace("24 00", "24 09").replace("+00", "+09")  # the same moment elsewhere
    study = load_open_bandit(bandit(tmp_path, bts=f"0,{east},2,1,1,0.25,abc\n"))
    assert (study.random.item.tolist(), study.random.position.tolist()) == ([14], [3])
    assert study.bts.propensity.tolist() == [0.25]
    assert study.bts.clicked.tolist() == [True]
    assert study.bts.n_items == 34
    assert study.bts.timestamp[0] == np.datetime64("2019-11-24T00:00:01.5", "ns").astype(np.int64)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("u.data", "10\t3\t4\t100\n2\t3\t1\t200\n"),
        ("u.data", "user-id\titem-id\trating\ttimestamp\n10\t3\t4\t100\n2\t3\t1\t200\n"),
        ("ratings.dat", "10::3::4::100\n2::3::1::200\n"),
        ("ratings.csv", "userId,movieId,rating,timestamp\n10,3,4.0,100\n2,3,1.0,200\n"),
    ],
)
def test_every_movielens_layout_gives_the_same_log(tmp_path, name, text):
    log = load_movielens(write(tmp_path, **{name: text}))
    assert pairs(log) == [(10, 3), (2, 3)]
    assert log.value.tolist() == [4, 1]
    assert log.timestamp.tolist() == [100, 200]


MALFORMED = {
    (coat, partial(load_coat, verify=False)): [
        ({"train": None}, "train.ascii is not in .*Download"),
        ({"train": ""}, "train.ascii is empty"),
        ({"train": "0 5 0 2\n4 0 1\n"}, "train.ascii is not a space-separated matrix"),
        ({"train": "0 5 0 6\n4 0 1 0\n0 0 3 4\n"}, r"ratings 1–5 and 0 for none; 1 of 12 .*\(e.g. 6\)"),
        ({"train": "0 5 0 nan\n4 0 1 0\n0 0 3 4\n"}, "1 of 12 are not"),
        ({"test": "1 0 0 2\n0 4 0 0\n"}, r"train.ascii is \(3, 4\) and test.ascii \(2, 4\)"),
        ({"propensities": ".1 .2\n"}, r"propensities.ascii is \(1, 2\)"),
        ({"propensities": PROPENSITIES.replace(".9", "0")}, "1 are 0|are 0"),
    ],
    (coat, load_coat): [({}, "expected 290 users; the files have 3")],
    (yahoo, partial(load_yahoo_r3, verify=False)): [
        ({"train": "1\t1\t5\n1\t3\n"}, "cannot be read as user, item, rating|truncated"),
        ({"train": "1\t1\t5\n1\t2\t5\t9\n"}, "cannot be read as user, item, rating"),
        ({"train": "1\t1\t4.5\n"}, "cannot be read as user, item, rating"),
        ({"train": "1,1,5\n"}, "cannot be read as user, item, rating"),
        ({"test": "1\t2\t6\n"}, r"ratings 1–5; 1 of 1 are not \(e.g. 6\)"),
        ({"test": "0\t2\t3\n"}, r"ids from 1; 1 of 1 are not \(e.g. 0\)"),
        ({"test": "1\t2\t3\n1\t2\t4\n"}, "1 of 2 rows repeat an earlier user–item pair"),
        ({"test": ""}, "cannot be read as user, item, rating|has no rows"),
    ],
    (yahoo, load_yahoo_r3): [({}, "expected 311,704 biased ratings; the files have 3")],
    (kuairand, partial(load_kuairand, verify=False)): [
        ({"valid": None}, r"valid\.txt is not in .*data/KuaiRand"),
        ({"train": "0 1\n1 x\n"}, "line 2 of train.txt contains something other"),
        ({"valid": "0 1\n"}, "repeat"),
        ({"test_neg": "0 0\n"}, "repeat"),
        ({"test_ood": ""}, "test_ood.txt contains no item"),
    ],
    (kuairand, load_kuairand): [({}, "expected 19,685 users; the files have 2")],
    (cm100k, partial(load_cm100k, verify=False)): [
        ({"rows": ""}, "has no rows"),
        ({"header": "user\titem\n"}, "cannot be read as user, item, rating, known"),
        ({"rows": "5\t7\t3\t1\n"}, r"ratings of ratings.tsv must be 0, 1 or 2; 1 of 1 are not \(e.g. 3\)"),
        ({"rows": "5\t7\t1\t2\n"}, r"known of ratings.tsv must be 0 or 1; 1 of 1 are not \(e.g. 2\)"),
        ({"rows": "5\t7\t1\t1\n5\t7\t0\t1\n"}, "1 of 2 rows of ratings.tsv repeat an earlier user–item pair"),
    ],
    (cm100k, load_cm100k): [({}, "expected 1,054 users; the files have 2")],
    (kuairec, partial(load_kuairec, verify=False)): [
        ({"big": "0,5,1,1,,,,-1\n"}, "ratios of big_matrix.csv must be >= 0; 1 of 1 are not"),
        ({"big": "0,5,1,1,,,,inf\n"}, "must be >= 0; 1 of 1"),
        ({"small": "0,5,1\n"}, "missing entries"),
        ({"small": "x,5,1,1,,,,1\n"}, "cannot be read as user_id, video_id, watch_ratio"),
        ({"small": ""}, "no rows"),
        ({"header": "user,video\n"}, r"big_matrix\.csv cannot be read as user_id"),
    ],
    (kuairec, load_kuairec): [({}, r"expected 12,530,806 rows of big_matrix\.csv; the files have 3")],
    (bandit, load_open_bandit): [
        ({"bts": f"0,{TIME},34,1,1,0.25,a\n"}, "item_id of bts/men/men.csv must be 0 … 33; 1 of 1"),
        ({"bts": f"0,{TIME},3,4,1,0.25,a\n"}, "position of .* must be 1, 2 or 3"),
        ({"bts": f"0,{TIME},3,0,1,0.25,a\n"}, "position of .* must be 1, 2 or 3"),
        ({"bts": f"0,{TIME},3,1,2,0.25,a\n"}, r"click of .* must be 0 or 1; 1 of 1 are not \(e.g. 2\)"),
        ({"bts": f"0,{TIME},3,1,1,0,a\n"}, r"propensity_score of .* must be in \(0, 1\]"),
        ({"bts": f"0,{TIME},3,1,1,1.5,a\n"}, r"propensity_score of .* must be in \(0, 1\]"),
        ({"bts": "0,yesterday,3,1,1,.5,a\n"}, "bad timestamp"),
        ({"random": RANDOM.replace("0.0294", "0.0594")}, "random log must be 1/34 .*; 1 of 1"),
        ({"n_items": 33}, r"must list items 0 … 33 once; it has 33 rows, 33 of them distinct"),
    ],
    (bandit, partial(load_open_bandit, campaign="kids")): [({}, "Choices: all, men, women")],
    (write, load_movielens): [
        (
            {"u.data": "1\t3\t5.5\t1\n2\t3\t0\t1\n"},
            r"ratings must be in 0.5–5; 2 of 2 are not \(e.g. 5.5\)",
        ),
        ({"u.data": "1\t3\t4\t1\n1\t3\t4\t1\n"}, "1 of 2 rows repeat"),
        ({"ratings.dat": "1::3::4\n"}, "cannot be read as user, item, rating, timestamp|truncated"),
        ({"ratings.dat": "1::3::4::5:6\n"}, "cannot be read as user, item, rating, timestamp"),
        ({"ratings.csv": "user,movie\n1,2\n"}, "cannot be read as userId"),
        ({"other.txt": ""}, r"ratings\.csv is not in"),
    ],
}


@pytest.mark.parametrize(("door", "cases"), MALFORMED.items())
def test_a_malformed_file_is_refused_with_what_is_wrong(tmp_path, door, cases):
    layout, load = door
    for number, (change, message) in enumerate(cases):
        folder = tmp_path / str(number)
        folder.mkdir()
        error = refusal(load, layout(folder, **change))
        assert re.search(message, error), (change, error)


def refusal(load, folder):
    """Return the message of the error for files that are refused, or an empty string."""
    try:
        load(folder)
    except InputError as error:
        return str(error)
    return ""


def test_a_missing_folder_says_where_to_get_the_data(tmp_path):
    with pytest.raises(InputError, match=r"does not exist\. Download coat\.zip"):
        load_coat(tmp_path / "nowhere")
