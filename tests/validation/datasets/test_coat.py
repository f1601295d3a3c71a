"""Coat: the original format, its checks, and the published sizes."""

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.validation.datasets import CARDS, load_coat

TRAIN = "0 5 0 2\n4 0 1 0\n0 0 3 4\n"
TEST = "1 0 0 2\n0 4 0 0\n5 0 0 0\n"
PROPENSITIES = ".1 .2 .3 .4\n.5 .6 .7 .8\n.9 1 .1 .2\n"


def write(folder, train=TRAIN, test=TEST, propensities=PROPENSITIES):
    for name, text in (("train", train), ("test", test), ("propensities", propensities)):
        if text is not None:
            (folder / f"{name}.ascii").write_text(text)
    return folder


def test_a_small_matrix_becomes_pairs_with_ratings(tmp_path):
    study = load_coat(write(tmp_path), verify=False)
    assert study.biased.user.tolist() == [0, 0, 1, 1, 2, 2]
    assert study.biased.item.tolist() == [1, 3, 0, 2, 2, 3]
    assert study.biased.value.tolist() == [5, 2, 4, 1, 3, 4]
    assert (study.random.n_users, study.random.n_items) == (3, 4)


def test_positives_are_ratings_from_the_threshold_and_exposure_counts_all_shown(tmp_path):
    positives = load_coat(write(tmp_path), verify=False).positives(threshold=4)
    assert list(zip(positives.biased.user, positives.biased.item, strict=True)) == [(0, 1), (1, 0), (2, 3)]
    assert list(zip(positives.random.user, positives.random.item, strict=True)) == [(1, 1), (2, 0)]
    assert list(zip(positives.random_negatives.user, positives.random_negatives.item, strict=True)) == [
        (0, 0),
        (0, 3),
    ]
    assert positives.n_exposed.tolist() == [2, 1, 0, 1]
    assert positives.n_positive.tolist() == [1, 1, 0, 0]
    assert positives.n_in_both == 1  # user 0, item 3
    assert positives.biased.value is None
    assert repr(positives) == "StudyPositives(3 biased and 2 random positives, from 4; 3 users, 4 items)"


def test_published_propensities_are_looked_up_by_pair_and_are_optional(tmp_path):
    study = load_coat(write(tmp_path), verify=False)
    assert study.propensity.at(np.array([0, 2]), np.array([3, 1])).tolist() == [0.4, 1.0]
    (tmp_path / "propensities.ascii").unlink()
    assert load_coat(tmp_path, verify=False).propensity is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"train": None}, "train.ascii is not in .*Download"),
        ({"train": "0 5 0 2\n4 0 1\n"}, "train.ascii is not a space-separated matrix"),
        ({"test": "0 a\n1 2\n"}, "test.ascii is not a space-separated matrix"),
        ({"train": "0 5 0 6\n4 0 1 0\n0 0 3 4\n"}, r"1 of 12 entries are something else \(e.g. 6\)"),
        ({"train": "0 5 0 nan\n4 0 1 0\n0 0 3 4\n"}, "1 of 12 entries"),
        ({"test": "1 0 0 2\n0 4 0 0\n"}, r"train.ascii is \(3, 4\) and test.ascii \(2, 4\)"),
        ({"propensities": ".1 .2\n"}, r"propensities.ascii is \(1, 2\)"),
        ({"propensities": PROPENSITIES.replace(".9", "0")}, "1 are 0|are 0"),
    ],
)
def test_a_malformed_file_is_rejected_with_what_is_wrong(tmp_path, change, message):
    write(tmp_path, **change)
    with pytest.raises(InputError, match=message):
        load_coat(tmp_path, verify=False)


def test_a_small_file_is_not_taken_for_the_published_one(tmp_path):
    with pytest.raises(InputError, match="expected 290 users; the files have 3"):
        load_coat(write(tmp_path))


def test_a_missing_folder_says_where_to_get_the_data(tmp_path):
    with pytest.raises(InputError, match=r"does not exist\. Download coat\.zip"):
        load_coat(tmp_path / "nowhere")


def test_an_empty_matrix_is_rejected(tmp_path):
    with pytest.raises(InputError, match=r"train\.ascii is empty"):
        load_coat(write(tmp_path, train=""), verify=False)


def test_the_published_files_have_the_published_counts(shared_data):
    study = load_coat(shared_data("coat"))
    positives = study.positives()
    assert (len(study.biased), len(study.random)) == (6960, 4640)
    assert (len(positives.biased), len(positives.random), positives.n_in_both) == (1905, 860, 366)
    assert study.propensity.is_probability
    assert study.card is CARDS["coat"]


def test_one_changed_rating_in_the_published_file_is_noticed(tmp_path, shared_data):
    source = shared_data("coat")
    for name in ("train.ascii", "test.ascii"):
        (tmp_path / name).write_bytes((source / name).read_bytes())
    text = (tmp_path / "test.ascii").read_text()
    (tmp_path / "test.ascii").write_text(text.replace("5", "4", 1))
    with pytest.raises(InputError, match=r"test\.ascii has sha256"):
        load_coat(tmp_path)
