"""RecTools: (model, dataset) pairs, and the frames that its models recommend."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.ranking import rank_positives
from ipseval.ranking.adapters import adapt
from tests.ranking.adapters import checks

rectools = pytest.importorskip("rectools", reason="rectools is not installed: pip install rectools")
from implicit.als import AlternatingLeastSquares  # noqa: E402 - after the skip
from implicit.nearest_neighbours import CosineRecommender  # noqa: E402 - after the skip
from rectools.dataset import Dataset  # noqa: E402 - after the skip
from rectools.models import (  # noqa: E402 - after the skip
    EASEModel,
    ImplicitALSWrapperModel,
    ImplicitItemKNNWrapperModel,
    PopularModel,
    PureSVDModel,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not know:ipseval.errors.DataWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning:implicit"),
    pytest.mark.filterwarnings("ignore:Method expects CSR"),  # implicit's own call
]
VECTOR_MODELS = {
    "als": lambda: ImplicitALSWrapperModel(AlternatingLeastSquares(factors=8, random_state=0, num_threads=1)),
    "svd": lambda: PureSVDModel(factors=8),  # with a seed, SciPy 1.17 fails on NumPy below 2.2
}
OTHERS = {
    "ease": lambda: EASEModel(regularization=100.0),
    "knn": lambda: ImplicitItemKNNWrapperModel(CosineRecommender(K=20, num_threads=1)),
    "popular": PopularModel,
}
NAMES = {"user": "user_id", "item": "item_id"}


def make_dataset(split) -> Dataset:
    return Dataset.construct(
        split.train.to_frame().rename(columns=NAMES).assign(weight=1, datetime="2020-01-01")
    )


def recommend_scores(model, dataset, split) -> np.ndarray:
    """Return RecTools' scores: full lists of `recommend`, −inf for omitted items."""
    users = dataset.user_id_map.external_ids
    items = dataset.item_id_map.external_ids
    lists = model.recommend(users, dataset, k=items.size, filter_viewed=False)
    scores = np.full((users.size, items.size), -np.inf)
    row = dataset.user_id_map.convert_to_internal(lists["user_id"])
    column = dataset.item_id_map.convert_to_internal(lists["item_id"])
    scores[row, column] = lists["score"]
    return checks.align_scores(scores, users, items, split)


def compute_exact(model, dataset, split) -> np.ndarray:
    users = dataset.user_id_map.external_ids
    items = dataset.item_id_map.external_ids
    return checks.align_scores(checks.exact_scores(*model.get_vectors()), users, items, split)


@pytest.mark.parametrize("name", VECTOR_MODELS)
def test_vector_models_rank_by_their_exact_scores(name, coat):
    dataset = make_dataset(coat)
    model = VECTOR_MODELS[name]().fit(dataset)
    exact = compute_exact(model, dataset, coat)
    checks.assert_same_ranks((model, dataset), exact, coat)
    # RecTools multiplies in single precision.
    bound = checks.bound_rounding(*model.get_vectors()).max()
    checks.assert_differs_by_rounding_only(exact, recommend_scores(model, dataset, coat), bound, coat)


@pytest.mark.parametrize("name", OTHERS)
def test_other_models_rank_as_their_own_recommendations(name, coat):
    dataset = make_dataset(coat)
    model = OTHERS[name]().fit(dataset)
    checks.assert_same_ranks((model, dataset), recommend_scores(model, dataset, coat), coat)


def test_recommended_frames_are_lists(coat):
    dataset = make_dataset(coat)
    model = VECTOR_MODELS["als"]().fit(dataset)
    lists = model.recommend(dataset.user_id_map.external_ids, dataset, k=10, filter_viewed=True)
    from_lists = rank_positives(adapt(lists, coat), coat)
    full_ranks = rank_positives(adapt((model, dataset), coat), coat)
    np.testing.assert_array_equal(from_lists.n_above, np.minimum(full_ranks.n_above, 10))


def test_a_model_without_its_dataset_is_an_error(small):
    with pytest.raises(InputError, match=r"pass \(model, dataset\)"):
        adapt(VECTOR_MODELS["svd"](), small)


@pytest.mark.parametrize("case", checks.OTHER_IDS)
def test_ids_that_do_not_match_get_an_error_that_shows_both(case, coat):
    dataset = make_dataset(coat)
    checks.assert_shows_both((OTHERS["ease"]().fit(dataset), dataset), checks.OTHER_IDS[case], coat)
