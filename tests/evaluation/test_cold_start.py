"""Users without training interactions: where they are stated, and the first place without them."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import DataWarning
from tests.inside.evaluation import describe_cold_users, measure_cold_start

N_WARM, N_ITEMS = 60, 30
TIED = "taste scores all items equally for these users, so it ranks the items at random."


def make_split(n_cold: int) -> ipseval.Split:
    """Return a split with five training and two test items of warm users, and two test items of cold users."""
    rng = np.random.default_rng(0)
    chance = np.linspace(9, 1, N_ITEMS) / np.linspace(9, 1, N_ITEMS).sum()
    train = []
    test = []
    for user in range(N_WARM + n_cold):
        items = rng.choice(N_ITEMS, 7, replace=False, p=chance)
        test += [(user, item) for item in items[:2]]
        if user < N_WARM:
            train += [(user, item) for item in items[2:]]
    columns = ["user", "item"]
    return ipseval.Split.from_frames(
        pd.DataFrame(train, columns=columns), pd.DataFrame(test, columns=columns), items=np.arange(N_ITEMS)
    )


def make_models(split: ipseval.Split, taste: float) -> dict[str, np.ndarray]:
    """Return popularity, and scores that follow the test items of warm users and are 0 for cold users."""
    scores = np.random.default_rng(1).random((split.n_users, split.n_items))
    scores[split.test.user, split.test.item] += taste
    scores[split.train.activity == 0] = 0
    popularity = np.tile(split.train.popularity, (split.n_users, 1)).astype(float)
    return {"taste": scores, "popular": popularity}


def evaluate(n_cold: int, taste: float = 0.3, **options: object) -> ipseval.Evaluation:
    split = make_split(n_cold)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return ipseval.evaluate(make_models(split, taste), split, **{"metrics": ["recall@5"], **options})


def select_warm(split: ipseval.Split) -> ipseval.Split:
    return replace(split, test=split.test.select(split.train.activity[split.test.user] > 0))


def test_every_output_states_the_users_without_training_interactions():
    evaluation = evaluate(90)
    text = f"90 of 150 users (60% of the held-out interactions) have no training interactions. {TIED}"
    assert f'Data        {text} See .by("cold-users").'[:90] in repr(evaluation)
    assert text in " ".join(repr(evaluation.explain()).split())
    assert text.replace("%", r"\%") in evaluation.to_latex()
    assert text in evaluation.to_html()
    assert text in evaluation.to_markdown()
    assert text in evaluation.to_json()


@pytest.mark.parametrize(("n_cold", "is_stated"), [(0, False), (3, False), (4, True)])
def test_fewer_than_5_percent_are_not_stated(n_cold, is_stated):
    """3 of 63 users are 4.8%, and 4 of 64 are 6.3%."""
    assert ("no training interactions" in repr(evaluate(n_cold))) == is_stated


def test_persons_with_several_queries_are_cold_if_no_query_has_training_interactions():
    """Queries 0 to 59 have training interactions; 59 and 60 are of one person, as all later pairs of queries are."""
    split = make_split(30)
    scores = np.tile(split.train.popularity, (split.n_users, 1)).astype(float)
    persons = (np.arange(split.n_users) + 1) // 2
    ranked = ipseval.rank_positives(scores, split)
    ranked = replace(ranked, cluster=persons, cluster_ids=np.arange(persons.max() + 1))
    evaluation = ipseval.evaluate({"popular": ranked}, split, metrics=["recall@5"])
    assert (
        "15 of 46 users (32% of the held-out interactions) have no training"
        in evaluation._content().cold_users
    )
    cold = evaluation.by("cold-users").frame.query("group.str.startswith('cold')")
    assert cold["n_positives"].tolist() == [2 * 29]


def test_without_training_data_nothing_is_stated():
    split = make_split(20)
    without = ipseval.Split.from_frames(None, split.test)
    scores = np.random.default_rng(0).random((without.n_users, without.n_items))
    evaluation = ipseval.evaluate({"a": scores}, without, metrics=["recall@5"])
    assert evaluation._cold_start is None
    assert "no training interactions" not in repr(evaluation) + repr(evaluation.explain())


def test_recommenders_with_scores_for_these_users_are_not_said_to_tie():
    split = make_split(40)
    scores = {"noise": np.random.default_rng(0).random((split.n_users, split.n_items))}
    evaluation = ipseval.evaluate(scores, split, metrics=["recall@5"])
    text = "40 of 100 users (40% of the held-out interactions) have no training interactions."
    assert evaluation._content().cold_users == text


def test_the_verdict_states_the_first_place_among_the_other_users_where_it_differs():
    evaluation = evaluate(150, taste=0.3)
    alone = evaluation_of_warm_users(150, taste=0.3)
    assert evaluation.verdicts[0].highest_model == "popular"
    assert alone.verdicts[0].highest_model == "taste"
    p_value = alone.compare()["p_adjusted"].item()
    first = evaluation.verdicts[0].first_among_warm
    assert (first.models, first.rival) == (("taste",), "popular")
    assert first.p_value == pytest.approx(p_value, rel=1e-9)
    sentence = "Among users with training interactions, taste ranks first by AOA (p = 0.021 against popular)."
    assert evaluation.verdict.split(" AOA: ")[0].endswith(sentence)


def evaluation_of_warm_users(n_cold: int, **options: float) -> ipseval.Evaluation:
    split = make_split(n_cold)
    return ipseval.evaluate(make_models(split, **options), select_warm(split), metrics=["recall@5"])


def test_the_verdict_states_a_difference_that_is_significant_among_all_users_only():
    evaluation = evaluate(90, taste=0.0)
    assert evaluation.verdicts[0].primary_ranking.closest_p_value < 0.05
    sentence = "popular ranks first by AOA, but not significantly (p = 0.23 against taste)."
    assert f"Among users with training interactions, {sentence}" in evaluation.verdict
    p_value = evaluation_of_warm_users(90, taste=0.0).compare()["p_adjusted"].item()
    assert evaluation.verdicts[0].first_among_warm.p_value == pytest.approx(p_value, rel=1e-9)


def test_the_verdict_is_silent_where_the_first_place_is_the_same():
    evaluation = evaluate(10, taste=0.9)
    assert evaluation.verdicts[0].first_among_warm is None
    assert "Among users with" not in evaluation.verdict


def test_first_places_of_which_none_is_significant_do_not_contradict_each_other():
    """popular is first among all users (p = 0.51), and taste among those with training (p = 0.13)."""
    evaluation = evaluate(150, taste=0.2)
    among_warm = evaluation._cold_start.first_places["recall@5", "aoa"]
    assert evaluation.verdicts[0].highest_model == "popular"
    assert among_warm.models == ("taste",)
    assert evaluation.verdicts[0].first_among_warm is None


def test_a_warning_states_a_first_place_that_depends_on_these_users():
    split = make_split(150)
    models = make_models(split, 0.3)
    models["taste"] += 1e-6 * np.random.default_rng(2).random(models["taste"].shape)  # without ties
    with pytest.warns(DataWarning, match=r"150 of 210 users .* taste ranks first on recall@5 by AOA.*\.by\("):
        ipseval.evaluate(models, split, metrics=["recall@5"])
    # They are few, and the first place does not change.
    few = make_split(10)
    ipseval.evaluate(make_models(few, 0.9), few, metrics=["recall@5"])
    # They are most users, and no recommender ties.
    noise = np.random.default_rng(0).random((split.n_users, split.n_items))
    ipseval.evaluate({"noise": noise}, split, metrics=["recall@5"])


def test_most_users_that_a_recommender_cannot_rank_for_cause_a_warning():
    split = make_split(90)
    with pytest.warns(DataWarning, match="taste scores all items equally"):
        ipseval.evaluate({"taste": make_models(split, 0.2)["taste"]}, split, metrics=["recall@5"])


def test_users_without_training_interactions_alone_have_no_groups_to_compare():
    split = make_split(40)
    cold = replace(split, test=split.test.select(split.train.activity[split.test.user] == 0))
    with pytest.warns(DataWarning, match="Train the recommenders on these users"):
        evaluation = ipseval.evaluate(make_models(split, 0.2), cold, metrics=["recall@5"])
    assert "40 of 40 users (100%" in repr(evaluation)
    assert "cold-users" not in repr(evaluation)


def test_the_statement_is_the_same_after_loading_without_ranks(tmp_path):
    evaluation = evaluate(90, taste=0.2)
    evaluation.save(tmp_path / "all.npz")
    evaluation.save(tmp_path / "small.npz", ranks=False)
    for name in ("all", "small"):
        loaded = ipseval.Evaluation.load(tmp_path / f"{name}.npz")
        assert repr(loaded) == repr(evaluation)
        assert loaded._cold_start == evaluation._cold_start


def test_the_wording_for_one_user_and_one_recommender():
    evaluation = evaluate(4)
    single = replace(evaluation._cold_start, n_users=1, models_with_ties=("a", "b"))
    assert describe_cold_users(single) == (
        "1 of 64 users (6% of the held-out interactions) has no training interactions. a and b score all items "
        "equally for this user, so they rank the items at random."
    )


def test_nothing_is_measured_without_ranks_or_training_counts():
    evaluation = evaluate(4)
    estimators = evaluation.definitions[1]
    assert measure_cold_start({}, evaluation._training_counts, evaluation.estimates, estimators) is None
    assert measure_cold_start(evaluation.samples, None, evaluation.estimates, estimators) is None


def test_both_groups_print_the_columns_of_the_table():
    propensity = ipseval.PowerLawPropensity(gamma=0.0)
    segments = evaluate(20, propensity=propensity).by("cold-users")
    titles = [table.title for table in segments.tables().parts[:-1]]
    assert titles == ["recall@5, AOA", "recall@5, SNIPS"]
