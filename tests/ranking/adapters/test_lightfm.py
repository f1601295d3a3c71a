"""LightFM: embeddings and item biases as a triple of factors."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.ranking.adapters import adapt
from tests.ranking.adapters import checks

lightfm = pytest.importorskip("lightfm", reason="LightFM is not installed: pip install lightfm-next")
from lightfm.data import Dataset  # noqa: E402 - after the skip

pytestmark = [
    pytest.mark.filterwarnings("ignore:LightFM was compiled without OpenMP"),
    pytest.mark.filterwarnings("ignore:.*does not know:ipseval.errors.DataWarning"),
]


def train_model(matrix):
    return lightfm.LightFM(no_components=8, loss="bpr", random_state=0).fit(matrix.tocoo(), epochs=5)


def predict_scores(model, n_users: int, n_items: int) -> np.ndarray:
    items = np.arange(n_items)
    return np.array([model.predict(np.full(n_items, user), items) for user in range(n_users)])


def compute_exact(model) -> np.ndarray:
    return checks.exact_scores(model.user_embeddings, model.item_embeddings, model.item_biases)


@pytest.fixture(scope="module")
def coat_dataset(coat):
    """LightFM's data set of Coat's training pairs, with items in another order."""
    dataset = Dataset()
    pairs = coat.train.to_frame()
    dataset.fit(coat.user_ids.tolist(), sorted(pairs["item"].unique().tolist(), reverse=True))
    return dataset, dataset.build_interactions(pairs.itertuples(index=False))[0]


def test_a_model_trained_on_to_csr_ranks_by_its_exact_scores_without_a_copy(coat):
    model = train_model(coat.train.to_csr())
    scorer = adapt(model, coat)
    assert scorer[0] is model.user_embeddings
    assert scorer[1] is model.item_embeddings
    assert scorer[2] is model.item_biases
    checks.assert_same_ranks(scorer, compute_exact(model), coat)
    # LightFM adds in single precision, the biases of user and item with the rest.
    constants = model.user_biases, model.item_biases
    bound = checks.bound_rounding(model.user_embeddings, model.item_embeddings, *constants)
    library_scores = predict_scores(model, coat.n_users, coat.n_items)
    checks.assert_differs_by_rounding_only(compute_exact(model), library_scores, bound, coat)


def test_a_model_with_its_dataset_is_matched_by_id(small):
    dataset = Dataset(user_identity_features=True, item_identity_features=True)
    dataset.fit(small.user_ids[::-1].tolist(), small.item_ids[::-1].tolist())
    matrix, _ = dataset.build_interactions(small.train.to_frame().itertuples(index=False))
    model = train_model(matrix)
    checks.assert_same_ranks((model, dataset), compute_exact(model)[::-1, ::-1], small)


def test_side_features_get_an_error_with_a_suggested_fix(small):
    dataset = Dataset()
    dataset.fit(small.user_ids.tolist(), small.item_ids.tolist(), item_features=["red", "blue"])
    with pytest.raises(InputError, match="side features; pass"):
        adapt((train_model(small.train.to_csr()), dataset), small)


@pytest.mark.parametrize("case", checks.OTHER_SIZES)
def test_another_size_gets_an_error_that_shows_both(case, coat):
    checks.assert_shows_both(train_model(coat.train.to_csr()), checks.OTHER_SIZES[case], coat)


@pytest.mark.parametrize("case", checks.OTHER_IDS)
def test_ids_that_do_not_match_get_an_error_that_shows_both(case, coat, coat_dataset):
    dataset, matrix = coat_dataset
    checks.assert_shows_both((train_model(matrix), dataset), checks.OTHER_IDS[case], coat)


def test_an_untrained_model_is_an_error(small):
    with pytest.raises(InputError, match="fit it before"):
        adapt(lightfm.LightFM(), small)
