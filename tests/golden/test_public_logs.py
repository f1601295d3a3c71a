"""Public logs: their published counts, and identities that hold on them."""

from __future__ import annotations

import numpy as np
import pytest

import ipseval
from ipseval.data import Interactions
from ipseval.data.splits import split_global_time, split_leave_one_out, split_sliding, split_temporal
from ipseval.errors import DataWarning, IdentificationWarning, InputError
from ipseval.validation.datasets import (
    CARDS,
    load_adjacency,
    load_cm100k,
    load_coat,
    load_kuairand,
    load_movielens,
    load_open_bandit,
)
from tests.conftest import shared_data
from tests.evaluation.segments.test_decomposition import check


def test_the_published_files_of_coat_have_the_published_counts_and_no_changed_rating(tmp_path):
    source = shared_data("coat")
    study = load_coat(source)
    positives = study.positives()
    assert (len(study.biased), len(study.random)) == (6960, 4640)
    assert (len(positives.biased), len(positives.random), positives.n_in_both) == (1905, 860, 366)
    assert study.propensity.is_probability
    assert study.card is CARDS["coat"]
    for name in ("train.ascii", "test.ascii"):
        content = (source / name).read_bytes()
        (tmp_path / name).write_bytes(content.replace(b"5", b"4", name == "test.ascii"))
    with pytest.raises(InputError, match=r"test\.ascii has sha256 [0-9a-f]{12}…, expected [0-9a-f]{12}…: it"):
        load_coat(tmp_path)


def test_cm100k_has_its_published_counts_and_three_disjoint_parts():
    study = load_cm100k(shared_data("cm100k"))
    positives = study.positives()
    assert (study.biased.n_users, study.biased.n_items) == (1054, 1084)
    assert len(study.random) / 103584 == pytest.approx(0.2, abs=0.001)
    assert len(study.calibration) / 103584 == pytest.approx(0.2, abs=0.001)
    # P(known | liked) is .247 in the whole file: 7,325 of 29,624.
    n_relevant = study.counted_propensity.n_relevant.sum()
    assert study.counted_propensity.n_observed.sum() / n_relevant == pytest.approx(0.247, abs=0.015)
    assert len(positives.biased) / (0.6 * 7325) == pytest.approx(1, abs=0.02)
    keys = [log.pair_key for log in (study.biased, study.calibration, study.random)]
    assert np.unique(np.concatenate(keys)).size == sum(key.size for key in keys)


def test_gamma_of_cm100k_measured_on_pairs_outside_log_and_truth_is_46():
    gammas = []
    for number in range(4):
        study = load_cm100k(shared_data("cm100k"), rng=number)
        shown = ipseval.RandomExposure.from_ratings(study.calibration, threshold=1)
        with pytest.warns(IdentificationWarning, match="counting noise"):
            fit = ipseval.fit_gamma_from_exposure(
                study.positives().biased.popularity, shown.n_exposed, shown.n_positive
            )
        gammas.append(fit.gamma)
    assert np.mean(gammas) == pytest.approx(0.46, abs=0.03)


def test_kuairand_has_its_published_counts():
    study = load_kuairand(shared_data("kuairand"))
    positives = study.positives()
    assert (study.biased.n_users, study.biased.n_items) == (19685, 5169)
    assert (len(positives.biased), len(positives.random), len(positives.random_negatives)) == (
        501398,
        127147,
        462489,
    )
    exposed = study.random.activity
    assert ((exposed > 0).sum(), exposed[exposed > 0].min(), exposed.max()) == (16087, 2, 1084)
    clicked = positives.random.activity
    assert clicked[exposed > 0].min() == 1  # only users with a click are in it
    is_rare, is_frequent = (exposed > 0) & (exposed <= 10), exposed >= 100
    assert [
        round(clicked[is_selected].sum() / exposed[is_selected].sum(), 3)
        for is_selected in (is_rare, is_frequent)
    ] == [0.267, 0.198]
    n_shown = positives.n_exposed[positives.n_exposed > 0]
    assert (n_shown.size, round(n_shown.mean()), round(n_shown.std())) == (5124, 115, 22)


def test_the_sample_of_open_bandit_has_ten_thousand_impressions_per_log():
    clicks = set()
    for campaign, n_items in (("men", 34), ("women", 46)):
        study = load_open_bandit(shared_data("open-bandit"), campaign=campaign)
        for log in (study.random, study.bts):
            assert (len(log), log.n_items, log.n_users) == (10_000, n_items, 10_000)
            clicks.add(int(log.clicked.sum()))
    assert clicks == {46, 69}


def test_gowalla_has_its_published_sizes():
    folder = shared_data("gowalla")
    split = load_adjacency(
        {"train": folder / "train.txt", "validation": folder / "valid.txt", "test": folder / "test.txt"}
    )
    assert (split.n_users, split.n_items) == (29858, 40981)
    assert [len(part) for part in (split.train, split.validation, split.test)] == [719081, 91047, 217242]


def test_amazon_files_with_cr_lf_give_the_published_counts():
    path = shared_data("amazon14-5core") / "Amazon_Instant_Video.txt"
    log = load_adjacency(path, ordered=True)
    assert (log.n_users, log.n_items, len(log)) == (5130, 1685, 37126)
    line = path.read_text().splitlines()[99].split()
    of_user = log.user_ids[log.user] == int(line[0])
    assert log.item_ids[log.item[of_user]].tolist() == [int(item) for item in line[1:]]
    assert np.array_equal(log.timestamp[of_user], np.arange(len(line) - 1))


def test_the_small_movielens_file_has_its_published_size():
    assert len(load_movielens(shared_data("ml-latest-small"))) == 100_004


@pytest.mark.slow
def test_thirteen_domains_of_amazon_have_three_million_pairs():
    logs = {path.stem: load_adjacency(path) for path in shared_data("amazon14-5core").glob("*.txt")}
    apps = logs["Apps_for_Android"]
    assert (apps.n_users, apps.n_items, len(apps)) == (87271, 13209, 752937)
    assert (len(logs), round(sum(map(len, logs.values())) / 1e6, 2)) == (13, 3.40)


def films() -> Interactions:
    log = ipseval.read(shared_data("ml-100k") / "u.data", threshold="all")
    assert (len(log), log.n_users, log.n_items, log.user_ids[0]) == (100_000, 943, 1682, 1)
    return log


def test_the_leakage_of_movielens_is_what_was_published():
    log = films()
    with pytest.warns(DataWarning):
        last = split_leave_one_out(log, order="temporal").leakage
    with pytest.warns(DataWarning):
        ratio = split_temporal(log, test_fraction=0.1).leakage
    assert (round(100 * last.share, 1), round(100 * last.median_future, 1)) == (99.9, 38.1)
    assert (round(100 * ratio.share, 1), round(100 * ratio.median_future, 1)) == (100.0, 36.2)
    assert split_global_time(log, test_fraction=0.1).leakage.n_leaking == 0


def test_the_windows_of_movielens_include_every_later_row_once():
    log = films()
    first = int(log.timestamp.min()) + 60 * 86_400 * 10**9
    splits = split_sliding(log, start=first, test="14D")
    tested = np.concatenate([split.test.pair_key for split in splits])
    assert np.array_equal(np.sort(tested), np.sort(log.pair_key[log.timestamp >= first]))
    assert splits.frame["n_test"].sum() == tested.size


@pytest.mark.filterwarnings("ignore:the median user has", "ignore:one order scores training items")
def test_the_difference_between_aoa_and_snips_global_is_reproduced_on_a_real_log():
    log = load_coat(shared_data("coat")).biased
    log = log.select(log.value >= 4)
    split = ipseval.split_random(log, test_fraction=0.2, rng=0)
    models = {
        "popularity": ipseval.baselines.popularity(split.train),
        "one order": np.broadcast_to(np.arange(split.n_items) % 97.0, (split.n_users, split.n_items)),
    }
    evaluation = ipseval.evaluate(
        models,
        split,
        propensity=ipseval.PowerLawPropensity(gamma=0, unseen="drop"),
        metrics=["ndcg@10", "recall@10", "atop"],
    )
    for metric in evaluation.metrics:
        decomposition = evaluation.decomposition(metric)
        check(evaluation, decomposition)
        # The head has a larger share of the positives than of the weight: that is what weighting changes.
        assert decomposition.share[-1] > decomposition.share_weighted[-1]
    totals = evaluation.decomposition("recall@10").totals.set_index("model").loc["popularity"]
    assert totals["moved"] < 0
