"""Open Bandit: layout, checks, and the published sample."""

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.validation.datasets import load_open_bandit

HEADER = ",timestamp,item_id,position,click,propensity_score,user_feature_0\n"
TIME = "2019-11-24 00:00:01.5+00:00"
ROW = f"0,{TIME},14,3,0,0.029411764705882353,abc\n"


def write(folder, random=ROW, bts=f"0,{TIME},2,1,1,0.25,abc\n", n_items=34):
    for policy, rows in (("random", random), ("bts", bts)):
        directory = folder / policy / "men"
        directory.mkdir(parents=True)
        (directory / "men.csv").write_text(HEADER + rows)
        catalogue = "".join(f"{i},{i},0.5\n" for i in range(n_items))
        (directory / "item_context.csv").write_text(",item_id,item_feature_0\n" + catalogue)
    return folder


def test_both_logs_are_read_with_their_propensities(tmp_path):
    study = load_open_bandit(write(tmp_path), campaign="men")
    assert (study.random.item.tolist(), study.random.position.tolist()) == ([14], [3])
    assert study.bts.propensity.tolist() == [0.25]
    assert study.bts.clicked.tolist() == [True]
    assert study.bts.n_items == 34
    assert study.bts.timestamp[0] == np.datetime64("2019-11-24T00:00:01.5", "ns").astype(np.int64)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bts": f"0,{TIME},34,1,1,0.25,a\n"}, "item_id of bts/men/men.csv must be 0 … 33; 1 of 1"),
        ({"bts": f"0,{TIME},3,4,1,0.25,a\n"}, "position of .* must be 1, 2 or 3"),
        ({"bts": f"0,{TIME},3,1,2,0.25,a\n"}, r"click of .* must be 0 or 1; 1 of 1 rows are not \(e.g. 2\)"),
        ({"bts": f"0,{TIME},3,1,1,0,a\n"}, r"propensity_score of .* must be in \(0, 1\]"),
        ({"bts": f"0,{TIME},3,1,1,1.5,a\n"}, r"propensity_score of .* must be in \(0, 1\]"),
        ({"bts": f"0,{TIME},3,1,1,nan,a\n"}, "missing entries"),
        ({"bts": f"0,{TIME},3,1\n"}, "cannot be read as timestamp|missing entries"),
        ({"bts": "0,yesterday,3,1,1,.5,a\n"}, "bad timestamp"),
        ({"random": ROW.replace("0.0294", "0.0594")}, "random log must have propensity 1/34; 1 of 1"),
        ({"n_items": 33}, r"must list items 0 … 33 once; it has 33 rows, 33 of them distinct"),
    ],
)
def test_a_malformed_log_is_refused(tmp_path, change, message):
    with pytest.raises(InputError, match=message):
        load_open_bandit(write(tmp_path, **change), campaign="men")


def test_an_unknown_campaign_is_refused(tmp_path):
    with pytest.raises(InputError, match="Choices: all, men, women"):
        load_open_bandit(tmp_path, campaign="kids")


def test_the_sample_has_ten_thousand_impressions_per_log(shared_data):
    clicks = {}
    for campaign, n_items in (("men", 34), ("women", 46)):
        study = load_open_bandit(shared_data("open-bandit"), campaign=campaign)
        for log in (study.random, study.bts):
            assert (len(log), log.n_items, log.n_users) == (10_000, n_items, 10_000)
            clicks[campaign, log is study.bts] = int(log.clicked.sum())
    assert set(clicks.values()) == {46, 69}
