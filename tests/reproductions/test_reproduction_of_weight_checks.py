"""What random exposure says of the weights: flags where they are wrong, silence where they are not."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from ipseval.propensity import DensityRatioPropensity, KnownPropensity, PowerLawPropensity, Propensity
from ipseval.ranking import RankedPositives, baselines
from ipseval.validation.simulation import World
from reproductions.joint_test import family_test
from reproductions.weight_checks import (
    ANY_ITEM_WEIGHT,
    Checks,
    SplitBalance,
    check_weights,
    is_per_item,
    normalised_rank,
)
from tests.inside.estimators import build_sample, resolve_estimator
from tests.inside.validation import PairedPositives

MODELS = {
    "popularity": baselines.popularity,
    "svd": partial(baselines.pure_svd, n_factors=10),
    "knn": baselines.item_knn,
}
WRONG_GAMMAS = (-0.5, 1.0)


def in_a_world(
    seed: int, selection: float, *, n_users: int = 1500, n_items: int = 300, ratio: bool = False
) -> Checks:
    """Checks of the true weights (per item, and per pair under selection) and two wrong γ."""
    world = World(
        n_users=n_users,
        n_items=n_items,
        mean_relevant=60,
        affinity=3.0,
        max_propensity=0.9,
        gamma=-0.2,
        selection=selection,
        rng=1000 + seed,
    )
    study = world.study(seed, n_per_user=30)
    item = KnownPropensity(item=world.item_propensity).fit(study.biased)
    rules = {"item": item.held_out(test_fraction=0.3, popularity_source="log")}
    if selection:
        rules["pair"] = world.propensity.held_out(test_fraction=0.3, popularity_source="log")
    rules |= {f"gamma {g:g}": PowerLawPropensity(gamma=g, unseen="smooth") for g in WRONG_GAMMAS}
    if ratio:
        rules["ratio"] = DensityRatioPropensity(cross_fit=3, rng=0)
    return check_weights(
        MODELS,
        study,
        propensities=rules,
        metrics=["recall@10", "mean_dcg"],
        estimators=["snips-global", "snips-pooled"],
        test_fraction=0.3,
        rng=seed,
    )


def flags(result: Checks, propensity: str, column: str) -> list[bool]:
    frame = result.diagnostics
    return list(frame.loc[frame["propensity"] == propensity, column])


def without_flag(results: list[Checks], propensity: str) -> float:
    """Share of seeds × checks (popularity by either estimator, selection) without a flag."""
    flag_values = [flags(result, propensity, "popularity_flag") for result in results]
    selection = [flags(result, propensity, "selection_flag")[:1] for result in results]
    return 1 - float(np.mean([flag for part in (*flag_values, *selection) for flag in part]))


def check_item_only(results: list[Checks]) -> None:
    assert without_flag(results, "item") >= 0.93
    for gamma in WRONG_GAMMAS:
        smd = np.array([flags(result, f"gamma {gamma:g}", "popularity_smd") for result in results])
        assert (smd > 0).all() if gamma < 0 else (smd < 0).all()
        assert all(all(flags(result, f"gamma {gamma:g}", "popularity_flag")) for result in results)
    # The test for selection is one for all weights per item: a wrong γ does not change it.
    for result in results:
        assert result.diagnostics["selection_p"].nunique() == 1


def check_user_item(results: list[Checks]) -> None:
    flag_values = [
        all(flags(result, name, "selection_flag")) for result in results for name in ("item", "gamma 1")
    ]
    assert np.mean(flag_values) >= 0.9
    assert np.mean([not flags(result, "pair", "selection_flag")[0] for result in results]) >= 0.9
    # The item weights are beyond what noise needs.
    assert np.mean([min(flags(result, "item", "factor_beyond_noise")) > 1.05 for result in results]) >= 0.9


@pytest.fixture(scope="module", name="item_only")
def fixture_item_only():
    return [in_a_world(0, 0.0, n_users=600, n_items=150)]


@pytest.fixture(scope="module", name="user_item")
def fixture_user_item():
    return [in_a_world(0, 2.0, n_users=800, n_items=150, ratio=True)]


def test_item_only_exposure_flags_wrong_item_weights_and_nothing_else(item_only):
    check_item_only(item_only)


def test_exposure_by_user_and_item_is_flagged_for_every_weight_per_item(user_item):
    check_user_item(user_item)


@pytest.mark.slow
def test_at_five_thousand_users_true_item_weights_are_not_flagged_in_93_of_100_checks():
    check_item_only([in_a_world(seed, 0.0, n_users=5000) for seed in range(60)])


@pytest.mark.slow
def test_at_five_thousand_users_selection_by_user_and_item_is_flagged_in_9_of_10_worlds():
    check_user_item([in_a_world(seed, 1.5, n_users=5000) for seed in range(20)])


def test_verdicts_name_what_is_wrong(item_only, user_item):
    words = item_only[0].diagnostics.set_index(["propensity", "estimator"])["verdict"]
    assert words["item", "snips-global"] == "nothing found"
    assert words["gamma 1", "snips-global"] == "weighted positives too rare"
    assert words["gamma -0.5", "snips-pooled"] == "weighted positives too popular"
    words = user_item[0].diagnostics.set_index(["propensity", "estimator"])["verdict"]
    assert words["gamma 1", "snips-global"] == "user × item selection; weighted positives too rare"


def test_a_density_ratio_is_checked_on_the_random_positives_it_has_not_been_fitted_to(user_item):
    frames = [result.diagnostics.set_index("propensity") for result in user_item]
    assert not any(frame.loc["ratio", "per_item"].any() for frame in frames)
    assert all(frame.loc["ratio", "selection_p"].notna().all() for frame in frames)
    # Of what the item weights leave it takes out a quarter to a half, in this world and in five others.
    left, flag_values = (
        np.mean([np.log(frame.loc[name, "selection_odds"]) for frame in frames]) for name in ("ratio", "item")
    )
    assert abs(left) < 0.75 * flag_values


def test_a_popularity_ranking_is_left_out_as_it_tells_no_users_apart(item_only):
    balance = item_only[0].balance
    rows = balance[balance["propensity"] == ANY_ITEM_WEIGHT].set_index("feature")
    assert rows.index.tolist() == ["popularity", "svd", "knn", "mean of all"]
    assert np.isnan(rows.loc["popularity", "value"])
    assert rows.loc[["svd", "knn"], "p_value"].between(0, 1).all()
    assert rows["flag"].isna().tolist() == [True, False, False, False]


def test_recommenders_that_rank_alike_for_all_users_leave_selection_unchecked():
    world = World(n_users=200, n_items=50, mean_relevant=12, max_propensity=0.9, selection=1.0, rng=0)
    result = check_weights(
        {"popularity": baselines.popularity, "random": lambda train: np.zeros((200, 50))},
        world.study(1, n_per_user=20),
        propensities={"equal": PowerLawPropensity(gamma=-1, unseen="smooth")},
        metrics=["recall@10"],
        estimators=["snips-global"],
    )
    assert result.diagnostics["selection_p"].isna().all()
    assert result.diagnostics["selection_flag"].isna().all()
    assert result.diagnostics["verdict"].str.contains("user × item selection unchecked").all()


def test_normalised_ranks_are_worked_by_hand():
    positives = ranked([0, 0, 1], [0, 1, 0], [0, 4, 10])
    assert normalised_rank(positives).tolist() == [1.0, 0.6, 0.0]
    alone = ranked([0], [0], [0], n=1)
    assert np.isnan(normalised_rank(alone)).all()


def ranked(user, item, above, n=11):
    zeros = np.zeros(len(user), int)
    columns = (*(np.array(a) for a in (user, item, above)), zeros, zeros + n)
    return RankedPositives(*columns, user_ids=np.arange(3), item_ids=np.arange(4))


def test_popularity_balance_of_a_small_sample_is_worked_by_hand():
    held_out = ranked([0, 0, 1], [0, 1, 0], [0, 1, 2])
    random = ranked([0, 1, 2], [1, 2, 3], [3, 4, 5])
    of_item = np.array([4.0, 2.0, 1.0, 0.0])
    propensity = Propensity(np.array([0.5, 0.25, 0.2, 0.1]), True, "test", 4)
    sample = build_sample(held_out, propensity, None, "default")
    compared = PairedPositives("pooled", (), {"a": held_out}, {"a": random}, "default")
    split = SplitBalance(compared, of_item)
    value, influence = split.popularity(resolve_estimator("snips-pooled"), sample, compared)
    # Weights 2, 4, 2 on 4, 2, 4: 24/8 = 3. Random: 2, 1, 0 with mean 1 and SD √(2/3).
    assert value == pytest.approx((3 - 1) / np.sqrt(2 / 3))
    # User 0: (2·1 − 4·1)/8 − (2 − 1)/3; user 1: 2·1/8 − 0; user 2: −(0 − 1)/3.
    assert influence * np.sqrt(2 / 3) == pytest.approx([-0.25 - 1 / 3, 0.25, 1 / 3])


def test_weights_that_differ_between_folds_only_count_as_weights_per_item():
    positives = ranked([0, 0, 1, 2], [0, 1, 0, 0], [0, 1, 2, 0])
    key = positives.user * 4 + positives.item

    def pair(values):
        return Propensity(None, True, "test", 4, pair=np.array(values), pair_key=key)

    fold = np.array([0, 1, 1])
    assert is_per_item(pair([0.5, 0.2, 0.4, 0.4]), positives, fold)
    assert not is_per_item(pair([0.5, 0.2, 0.4, 0.3]), positives, fold)
    assert not is_per_item(pair([0.5, 0.2, 0.4, 0.4]), positives, np.zeros(3, int))


def test_joint_tests_lie_between_a_single_test_and_bonferroni():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(500, 3))
    same = np.repeat(noise[:, :1], 3, axis=1)
    value = np.array([0.0, 10.0, 50.0])
    independent, equal = (
        family_test(value, result.T @ result, confidence_level=0.95) for result in (noise, same)
    )
    # max of 3 independent |Z|: the .95^(1/3) quantile, 2.388; of 3 equal ones: 1.960.
    assert independent.critical == pytest.approx(2.388, abs=0.06)
    assert equal.critical == pytest.approx(1.960, abs=0.06)
    assert equal.std_error == pytest.approx(np.sqrt((noise[:, 0] ** 2).sum()) * np.ones(3))
    # A single |z| of 1.96 has p = .05, and 1 − .95³ = .143 as the largest of three independent ones.
    at = 1.96 * independent.std_error
    assert family_test(at, noise.T @ noise, confidence_level=0.95).p_value == pytest.approx(0.143, abs=0.02)


def test_a_number_without_variation_has_no_test():
    flag_values = family_test(np.array([0.0, 1.0]), np.array([[0.0, 0.0], [0.0, 0.5]]), confidence_level=0.95)
    assert np.isnan(flag_values.z[0])
    assert np.isnan(flag_values.p_value[0])
    assert flag_values.z[1] == pytest.approx(1 / np.sqrt(0.5))
