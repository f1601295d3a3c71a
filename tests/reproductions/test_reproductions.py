"""The analyses behind docs/reproductions.md, on small data with known answers."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from ipseval import Interactions, Split, rank_positives
from ipseval.errors import IdentificationWarning, InputError
from ipseval.ranking import baselines
from ipseval.validation.datasets import RandomExposureStudy, load_yahoo_r3
from reproductions import citeulike as yang
from reproductions import coat as yang5
from reproductions import models, tables
from reproductions import ratings as schnabel
from reproductions import sampled as kr

ROOT = Path(__file__).resolve().parents[2]


def log(pairs: list[tuple[int, int]], n_users: int, n_items: int) -> Interactions:
    user, item = (np.array(column) for column in zip(*pairs, strict=True))
    return Interactions(user, item, np.arange(n_users), np.arange(n_items))


@pytest.fixture(name="small")
def small_split() -> Split:
    """Three users, eight items; item 7 is never in training."""
    train = log([(0, 0), (0, 1), (1, 0), (1, 2), (2, 0), (2, 1), (2, 3)], 3, 8)
    test = log([(0, 2), (0, 3), (1, 1), (1, 7), (2, 2)], 3, 8)
    return Split(train, test)


SCORES = np.array(
    [
        [9, 9, 3, 6, 5, 4, 1, 2],
        [9, 5, 9, 6, 1, 2, 3, 4],
        [9, 9, 4, 9, 4, 6, 1, 2],
    ],
    dtype=float,
)


def test_toy_ranks_give_the_printed_values_to_three_decimals():
    table = kr.toy_table()
    assert len(table) == 12
    np.testing.assert_allclose(table["exact"], table["paper"], atol=5.01e-4)


def test_printed_simulation_lies_within_its_own_noise_of_our_expectations():
    assert kr.monte_carlo_gap()["gap"].abs().max() < 2.5


def test_sampling_turns_the_order_by_average_precision_around():
    toy = kr.toy_table().query("metric == 'AP'").set_index("recommender")
    assert kr.order(toy["exact"].to_dict()) == "C > B > A"
    assert kr.order(toy["with"].to_dict()) == "A > B > C"


def test_order_writes_ties_as_equal():
    assert kr.order({"A": 0.5, "B": 0.5, "C": 0.7}) == "C > A = B"


def test_winner_by_auc_is_right_from_the_smallest_sample_on():
    assert kr.smallest_faithful_m("auc", [10, 20]) == 10
    assert kr.smallest_faithful_m("ap", [10, 20]) is None


def test_rank_estimate_has_no_bias_for_the_last_and_the_first_rank():
    frame = kr.bias_and_std("ap", m=5, n=50).query("correction == 'rank estimate'")
    ends = frame[frame["rank"].isin([1, 50])]
    np.testing.assert_allclose(ends["bias"], 0, atol=1e-12)
    np.testing.assert_allclose(ends["std"], 0, atol=1e-12)


def test_pool_of_the_paper_holds_the_negatives_and_all_test_positives(small):
    # Users 0 and 1 have four items that are neither training nor test items, user 2 has four.
    with pytest.warns(IdentificationWarning, match="observed positives"):
        ranked = rank_positives(SCORES, small, candidates=yang.paper_pool(3))
    assert ranked.n_candidates.tolist() == [5, 5, 5, 5, 4]


def by_hand(gamma: float) -> dict[str, float]:
    """The authors' definitions in plain loops, with every eligible negative in the pool."""
    train = {0: {0, 1}, 1: {0, 2}, 2: {0, 1, 3}}
    test = {0: [2, 3], 1: [1, 7], 2: [2]}
    count = {0: 3, 1: 2, 2: 1, 3: 1}
    total = {"auc (Yang)": 0.0, "recall@5": 0.0, "mean_dcg": 0.0, "mean_dcg@5": 0.0}
    for user, positives in test.items():
        # A positive without a propensity leaves as a pair: it is no candidate either.
        lost = {item for item in positives if item not in count}
        pool = [item for item in range(8) if item not in train[user] | lost]
        top = dict.fromkeys(total, 0.0)
        bottom = 0.0
        for item in sorted(set(positives) - lost):
            z = sum(SCORES[user, other] > SCORES[user, item] for other in pool)
            weight = 1 / count[item] ** ((gamma + 1) / 2)
            top["auc (Yang)"] += weight * (1 - z / len(pool))
            top["recall@5"] += weight * (z < 5)
            top["mean_dcg"] += weight / np.log2(z + 2)
            top["mean_dcg@5"] += weight * (z < 5) / np.log2(z + 2)
            bottom += weight
        for name in total:
            total[name] += top[name] / bottom / 3
    return total


@pytest.mark.parametrize("gamma", [-1.0, 1.55, 1.89])
def test_table_equals_the_authors_definitions_in_plain_loops(small, gamma):
    ranks = yang.rank_all({"m": SCORES}, small, paper=False)
    frame = yang.table(ranks, small.train, (1.55, 1.89)).query("gamma == @gamma").set_index("metric")
    for name, value in by_hand(gamma).items():
        assert frame.loc[name, "estimate"] == pytest.approx(value, abs=1e-12)


def test_test_items_without_training_interaction_leave_the_plain_average_too(small):
    ranks = yang.rank_all({"m": SCORES}, small, paper=False)
    frame = yang.table(ranks, small.train, (1.55,))
    assert set(frame["n_positives"]) == {4}


def test_fall_is_the_relative_difference_between_plain_and_weighted():
    falls = yang.fall(yang.paper_frame())
    assert falls["recall@5", "BPR"] == pytest.approx(1 - 0.44247554 / 0.54939729)


def test_drawn_negatives_are_never_training_items(small):
    train = small.train
    user = np.repeat(np.arange(3), 200)
    item = models._negatives(np.random.default_rng(0), train, np.sort(train.pair_key), user, 2)
    assert not np.isin(user[:, None] * 8 + item, train.pair_key).any()
    assert set(np.unique(item[user == 0])) == {2, 3, 4, 5, 6, 7}


R3 = {part: f"ydata-ymusic-rating-study-v1_0-{part}.txt" for part in ("train", "test")}


def songs(n_users: int = 160, n_items: int = 240) -> dict[str, list[tuple[int, int, int]]]:
    """Return made-up ratings as in Yahoo! R3: ids from 1, half of the users also rate random songs."""
    rng = np.random.default_rng(7)
    liking = rng.normal(3 + np.linspace(1, -1, n_items), 1.2, size=(n_users, n_items))
    stars = np.clip(np.rint(liking), 1, 5).astype(int)
    chosen = rng.random(stars.shape) < 0.12 * 2.0 ** (stars - 3)
    shown = np.zeros_like(chosen)
    for user in range(n_users // 2):
        shown[user, rng.choice(n_items, 10, replace=False)] = True
    return {
        part: [(int(u) + 1, int(i) + 1, int(stars[u, i])) for u, i in np.argwhere(mask)]
        for part, mask in (("train", chosen), ("test", shown))
    }


@pytest.fixture(name="r3_folder")
def yahoo_files(tmp_path) -> Path:
    for part, rows in songs().items():
        (tmp_path / R3[part]).write_text("".join(f"{u}\t{i}\t{r}\n" for u, i, r in rows), "utf-8")
    return tmp_path


def from_memory() -> RandomExposureStudy:
    logs = [
        Interactions.from_frame(
            pd.DataFrame(songs()[part], columns=["user", "item", "rating"]),
            value="rating", users=np.arange(1, 161), items=np.arange(1, 241),
        )
        for part in ("train", "test")
    ]  # fmt: skip
    return RandomExposureStudy("made up", *logs, threshold=4)


@pytest.mark.slow
def test_section_five_runs_on_files_in_the_layout_of_yahoo_r3(r3_folder, monkeypatch, capsys):
    closed_form = {
        "popularity": baselines.popularity,
        "pure SVD": lambda train: baselines.pure_svd(train, n_factors=5),
    }
    monkeypatch.setattr(yang5, "MODELS", closed_form)
    yang5.main(["--yahoo-r3", str(r3_folder), "--any-size"])
    printed = capsys.readouterr().out
    # The same ratings handed over in memory are the oracle of what the files were read as.
    expected = yang5.tables(from_memory())
    assert printed == "\n\n".join(f"{name}\n{one}" for name, one in expected.items()) + "\n"
    assert "nan" not in printed.lower()
    assert "| γ = 2.5 |" in printed
    assert "published" not in printed  # propensities come with Coat only


def test_section_five_trains_its_own_recommenders_on_yahoo_r3_files(r3_folder):
    pytest.importorskip("torch", reason="U-CML, A-CML and PMF are PyTorch modules")
    pytest.importorskip("cornac", reason="BPR is cornac's")
    study = load_yahoo_r3(r3_folder, verify=False)
    result = yang5.run(study, n_splits=1, n_resamples=0)
    assert set(result.frame["model"]) == {"BPR", "PMF", "U-CML", "A-CML"}
    assert np.isfinite(result.frame[["reference", "estimate"]].to_numpy()).all()


def test_files_that_are_not_the_published_ones_are_refused_unless_asked_for(r3_folder):
    with pytest.raises(InputError, match="311,704 biased ratings"):
        yang5.main(["--yahoo-r3", str(r3_folder)])


def test_predictors_of_schnabel_follow_their_definitions():
    truth = np.array([[1.0, 1.0, 2.0, 3.0], [4.0, 4.0, 5.0, 1.0]])
    made = schnabel.predictors(truth)
    np.testing.assert_array_equal(made["rotate"], [[5, 5, 1, 2], [3, 3, 4, 5]])
    np.testing.assert_array_equal(made["coarsened"], [[3, 3, 3, 3], [4, 4, 4, 3]])
    assert (made["ones"] != truth).sum() == 1  # one rating of 5, so one rating of 1 becomes a 5
    assert truth[made["ones"] != truth].tolist() == [1.0]
    assert truth[made["fours"] != truth].tolist() == [4.0]


def test_observation_model_reveals_five_per_cent_and_favours_high_ratings():
    truth = np.repeat([1.0, 2.0, 3.0, 4.0, 5.0], 20).reshape(10, 10)
    chance = schnabel.observation_chance(truth, 0.25)
    assert chance.mean() == pytest.approx(0.05)
    assert chance[truth == 4][0] == chance[truth == 5][0]
    assert chance[truth == 3][0] == pytest.approx(chance[truth == 4][0] / 4)
    assert chance[truth == 1][0] == pytest.approx(chance[truth == 4][0] / 64)


def test_ips_of_known_errors_is_right_on_average_and_naive_is_not(monkeypatch):
    made = schnabel.predictors
    monkeypatch.setattr(schnabel, "predictors", lambda truth: {"rotate": made(truth)["rotate"]})
    rng = np.random.default_rng(0)
    truth = rng.choice([1.0, 2.0, 3.0, 4.0, 5.0], p=[0.3, 0.25, 0.2, 0.15, 0.1], size=(40, 60))
    runs = schnabel.known_errors(truth, n_draws=30, seed=3).query("metric == 'mae'")
    exact = runs["true"].iloc[0]
    by = runs.groupby("estimator")["estimate"]
    error = by.std() / np.sqrt(30)
    assert abs(by.mean()["ips"] - exact) < 4 * error["ips"]
    assert abs(by.mean()["naive"] - exact) > 20 * error["naive"]


def test_weighted_factors_recover_user_and_item_offsets():
    user, item = (part.ravel() for part in np.indices((4, 5)))
    value = 3 + np.array([-1, 0, 0.5, 0.5])[user] + np.array([-0.5, 0, 0, 0.25, 0.25])[item]
    weight = np.ones(20)
    scores = schnabel.weighted_factors(user, item, value, weight, (4, 5), 0, 1e-9, seed=0, n_rounds=50)
    np.testing.assert_allclose(scores[user, item], value, atol=1e-6)


def test_weights_equal_repetitions():
    rng = np.random.default_rng(0)
    user, item, value = rng.integers(4, size=30), rng.integers(5, size=30), rng.normal(size=30)
    twice = np.where(np.arange(30) < 10, 2.0, 1.0)
    again = [np.concatenate([one, one[:10]]) for one in (user, item, value)]
    options = {"shape": (4, 5), "n_factors": 2, "l2": 1.0, "seed": 1}
    np.testing.assert_allclose(
        schnabel.weighted_factors(user, item, value, twice, **options),
        schnabel.weighted_factors(*again, np.ones(40), **options),
        atol=1e-8,
    )


def test_completed_matrix_has_the_distribution_of_the_random_ratings():
    rng = np.random.default_rng(0)
    n_users, n_items = 20, 30
    user, item = (part.ravel() for part in np.indices((n_users, n_items)))
    stars = rng.choice([1.0, 3.0, 5.0], p=[0.5, 0.3, 0.2], size=user.size)
    first = rng.random(user.size) < 0.5
    parts = [
        Interactions(user[one], item[one], np.arange(n_users), np.arange(n_items), value=stars[one])
        for one in (first, ~first)
    ]
    truth = schnabel.complete_ratings(RandomExposureStudy("made up", *parts, threshold=4))
    for star in (1, 3, 5):
        assert (truth == star).mean() == pytest.approx((stars[~first] == star).mean(), abs=2 / truth.size)


def test_tables_go_to_their_places_and_nowhere_else(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- a -->\nold\n<!-- /a -->\nafter\n", "utf-8")
    tables.write_tables({"a": r"| new \1 |"}, page)
    assert page.read_text("utf-8") == "before\n<!-- a -->\n| new \\1 |\n<!-- /a -->\nafter\n"
    with pytest.raises(SystemExit, match="no place for 'b'"):
        tables.write_tables({"b": ""}, page)


def test_a_table_with_a_link_goes_to_its_file_without_bold_and_italic_type(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("[values](tables/page/a.csv)\n", "utf-8")
    tables.write_tables({"a": "|  | x |\n| --- | --: |\n| **b**, *c* | 1, 2 |"}, page)
    assert page.read_text("utf-8") == "[values](tables/page/a.csv)\n"
    assert (tmp_path / "tables" / "page" / "a.csv").read_text("utf-8") == 'name,x\n"b, c","1, 2"\n'


def test_several_tables_of_a_text_become_one_file_with_their_titles(tmp_path):
    first = tables.markdown(["Gowalla", "value"], [["EASE", "1"]])
    second = tables.markdown(["Beauty", "value", "p"], [["iALS", "2", "0.3"]])
    tables.write_csv(f"{first}\n\n41 users.\n\n{second}", tmp_path / "a.csv")
    lines = (tmp_path / "a.csv").read_text("utf-8").splitlines()
    assert lines == ["table,name,value,p", "Gowalla,EASE,1,", "Beauty,iALS,2,0.3"]


@pytest.mark.parametrize("name", ["reproductions", "validation"])
def test_every_table_that_the_page_links_to_is_there_and_no_other(name):
    page = ROOT / "docs" / f"{name}.md"
    linked = re.findall(rf"\(tables/{name}/([a-z0-9-]+)\.csv\)", page.read_text("utf-8"))
    assert sorted(linked) == sorted(path.stem for path in (page.parent / "tables" / name).glob("*.csv"))


def test_every_place_on_the_page_is_filled():
    text = (ROOT / "docs" / "reproductions.md").read_text("utf-8")
    places = re.findall(r"<!-- ([a-z0-9-]+) -->\n(.*?)<!-- /\1 -->", text, re.S)
    assert len(places) >= 7
    assert [name for name, table in places if "| --- |" not in table] == []
