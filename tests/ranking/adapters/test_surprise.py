"""Surprise: factors of SVD and NMF, predictions of other models."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.ranking.adapters import adapt
from tests.ranking.adapters import checks

surprise = pytest.importorskip("surprise", reason="Surprise is not installed: pip install scikit-surprise")

pytestmark = pytest.mark.filterwarnings("ignore:.*does not know:ipseval.errors.DataWarning")
FACTOR_MODELS = {
    "svd": lambda: surprise.SVD(n_factors=8, n_epochs=5, random_state=0),
    "svd-unbiased": lambda: surprise.SVD(n_factors=8, n_epochs=5, biased=False, random_state=0),
    "nmf": lambda: surprise.NMF(n_factors=4, n_epochs=5, random_state=0),
}
OTHERS = {
    "svd++": lambda: surprise.SVDpp(n_factors=4, n_epochs=2, random_state=0),
    "knn": lambda: surprise.KNNBasic(k=10, verbose=False),
    "slope-one": surprise.SlopeOne,
}


def training_set(ratings):
    return surprise.Dataset.load_from_df(ratings, surprise.Reader(rating_scale=(1, 5))).build_full_trainset()


def predict_scores(model, split) -> np.ndarray:
    """Return Surprise's prediction of each pair, not clipped to the rating scale."""
    return np.array([[model.predict(u, i, clip=False).est for i in split.item_ids] for u in split.user_ids])


def compute_exact(model, split) -> np.ndarray:
    """Return the exact scores of factors and item biases; other terms are the same for all items."""
    trainset = model.trainset
    users = [trainset.to_raw_uid(row) for row in trainset.all_users()]
    items = [trainset.to_raw_iid(row) for row in trainset.all_items()]
    return checks.align_scores(
        checks.exact_scores(model.pu, model.qi, model.bi if model.biased else None), users, items, split
    )


def test_a_model_of_the_pairs_alone_ranks_by_its_dense_scores(coat):
    # As implicit feedback: every training pair is a 1. Items that are in no pair are unknown to the model.
    model = surprise.SVDpp(n_factors=4, n_epochs=2, random_state=0)
    model.fit(training_set(coat.train.to_frame().assign(rating=1.0)))
    is_trained = coat.train.popularity > 0
    assert 0 < is_trained.sum() < coat.n_items
    checks.assert_same_ranks(model, np.where(is_trained, predict_scores(model, coat), -np.inf), coat)


@pytest.mark.parametrize("name", FACTOR_MODELS)
def test_factor_models_rank_by_their_exact_scores(name, coat, coat_ratings):
    model = FACTOR_MODELS[name]().fit(training_set(coat_ratings))
    exact = compute_exact(model, coat)
    checks.assert_same_ranks(model, exact, coat)
    # Surprise adds the mean and the user's bias first, in double precision: other roundings of the score.
    constants = [model.bi, model.bu, model.trainset.global_mean] if model.biased else []
    bound = 2 * checks.bound_rounding(model.pu, model.qi, *constants, unit=2.0**-53).max()
    checks.assert_differs_by_rounding_only(exact, predict_scores(model, coat), bound, coat)


def test_factors_in_the_order_of_the_split_are_not_copied(coat, coat_ratings):
    by_item = coat_ratings.sort_values(["user", "item"])
    model = FACTOR_MODELS["svd"]().fit(training_set(by_item))
    assert list(model.trainset._raw2inner_id_users) == coat.user_ids.tolist()
    assert adapt(model, coat)[0] is model.pu


@pytest.mark.parametrize("name", OTHERS)
def test_other_models_rank_as_their_own_unclipped_predictions(name, coat, coat_ratings):
    model = OTHERS[name]().fit(training_set(coat_ratings))
    checks.assert_same_ranks(model, predict_scores(model, coat), coat)


def test_an_untrained_model_is_an_error(small):
    with pytest.raises(InputError, match="fit it before"):
        adapt(surprise.SVD(), small)


@pytest.mark.parametrize("case", checks.OTHER_IDS)
def test_ids_that_do_not_match_get_an_error_that_shows_both(case, coat, coat_ratings):
    checks.assert_shows_both(
        FACTOR_MODELS["svd"]().fit(training_set(coat_ratings)), checks.OTHER_IDS[case], coat
    )
