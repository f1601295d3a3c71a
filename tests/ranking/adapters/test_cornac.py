"""cornac: scores by user, ids from the training set's maps."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.ranking.adapters import adapt
from tests.ranking.adapters import checks

cornac = pytest.importorskip("cornac", reason="cornac is not installed: pip install cornac")

pytestmark = pytest.mark.filterwarnings("ignore:.*does not know:ipseval.errors.DataWarning")
OF_RATINGS = {
    "mf": lambda: cornac.models.MF(k=8, max_iter=10, seed=0, verbose=False),
    "pmf": lambda: cornac.models.PMF(k=8, max_iter=10, seed=0, verbose=False),
}
OF_PAIRS = {
    "bpr": lambda: cornac.models.BPR(k=8, max_iter=20, seed=0, verbose=False, num_threads=1),
    "ease": lambda: cornac.models.EASE(lamb=100, verbose=False),
    "most-popular": cornac.models.MostPop,
    "user-knn": lambda: cornac.models.UserKNN(k=20, verbose=False, num_threads=1),
    "item-knn": lambda: cornac.models.ItemKNN(k=20, verbose=False, num_threads=1),
}
MODELS = {**OF_RATINGS, **OF_PAIRS}


@pytest.fixture(scope="module")
def find_training(coat, coat_ratings):
    """Coat's ratings for models of ratings, which would learn a constant 1 from positive pairs."""
    ratings = cornac.data.Dataset.from_uir(coat_ratings.itertuples(index=False), seed=0)
    pairs = training_set(coat)
    return {**dict.fromkeys(OF_RATINGS, ratings), **dict.fromkeys(OF_PAIRS, pairs)}


def training_set(split):
    pairs = split.train.to_frame().assign(rating=1.0)
    return cornac.data.Dataset.from_uir(pairs.itertuples(index=False), seed=0)


def score_with_cornac(model, split) -> np.ndarray:
    """Return the scores of `model.rank`, by which cornac orders a user's items."""
    users = list(model.uid_map)
    items = list(model.iid_map)
    columns = [model.iid_map[item] for item in items]
    scores = [np.asarray(model.rank(model.uid_map[user])[1]).reshape(-1)[columns] for user in users]
    return checks.align_scores(np.array(scores), users, items, split)


@pytest.mark.parametrize("name", MODELS)
def test_models_have_the_scores_and_ranks_of_cornac(name, coat, small, find_training):
    for split, training in ((coat, find_training[name]), (small, training_set(small))):
        model = MODELS[name]().fit(training)
        theirs = score_with_cornac(model, split)
        np.testing.assert_array_equal(adapt(model, split)(np.arange(split.n_users)), theirs)
        checks.assert_same_ranks(model, theirs, split)


@pytest.mark.parametrize("name", ["mf", "bpr"])
def test_single_precision_products_of_cornac_differ_from_the_exact_ones_by_rounding_only(
    name, coat, find_training
):
    model = MODELS[name]().fit(find_training[name])
    user = model.u_factors
    item = model.i_factors
    bias = model.i_biases
    assert user.dtype == item.dtype == np.float32
    constants = [bias, *([model.u_biases, model.global_mean] if name == "mf" else [])]
    users = list(model.uid_map)
    items = list(model.iid_map)
    exact = checks.align_scores(checks.exact_scores(user, item, bias), users, items, coat)
    assert sorted(model.uid_map.values()) == list(model.uid_map.values())  # rows in the order of the ids
    assert sorted(model.iid_map.values()) == list(model.iid_map.values())
    bound = checks.bound_rounding(user, item, *constants).max()
    checks.assert_differs_by_rounding_only(exact, score_with_cornac(model, coat), bound, coat)


def test_a_model_that_scores_a_user_as_a_matrix_of_one_row_is_read_as_a_row(coat):
    model = cornac.models.EASE(lamb=100, verbose=False).fit(training_set(coat))
    assert model.score(0).shape == (1, model.num_items)
    # EASE by hand: a user's score is the sum of the weights of its training items; cornac keeps those > 0.
    interactions = np.zeros((coat.n_users, coat.n_items))
    interactions[coat.train.user, coat.train.item] = 1
    trained_items = np.flatnonzero(interactions.any(axis=0))
    gram = np.linalg.inv(
        interactions[:, trained_items].T @ interactions[:, trained_items] + 100 * np.eye(trained_items.size)
    )
    weights = -gram / np.diag(gram)
    np.fill_diagonal(weights, 0)
    dense = checks.align_scores(
        interactions[:, trained_items] @ weights.clip(min=0),
        coat.user_ids,
        coat.item_ids[trained_items],
        coat,
    )
    ours = adapt(model, coat)(np.arange(coat.n_users))
    np.testing.assert_allclose(ours[:, trained_items], dense[:, trained_items], atol=1e-12)
    # Rounded to where both agree, equal scores tie in both.
    checks.assert_same_ranks(ours.round(10), dense.round(10), coat)


@pytest.mark.parametrize("case", checks.OTHER_IDS)
def test_ids_that_do_not_match_get_an_error_that_shows_both(case, coat):
    checks.assert_shows_both(MODELS["bpr"]().fit(training_set(coat)), checks.OTHER_IDS[case], coat)


def test_an_untrained_model_is_an_error(small):
    with pytest.raises(InputError, match="fit it before"):
        adapt(cornac.models.MostPop(), small)
