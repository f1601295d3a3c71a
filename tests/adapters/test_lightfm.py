"""LightFM: embeddings and item biases as a triple of factors."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.adapters import adapt, to_csr
from ipseval.errors import InputError

lightfm = pytest.importorskip("lightfm", reason="LightFM is not installed: pip install lightfm-next")
from lightfm.data import Dataset  # noqa: E402 - after the skip

pytestmark = pytest.mark.filterwarnings("ignore:LightFM was compiled without OpenMP")


def predicted(model, n_users: int, n_items: int) -> np.ndarray:
    items = np.arange(n_items)
    return np.array([model.predict(np.full(n_items, user), items) for user in range(n_users)])


def test_a_model_trained_on_to_csr_ranks_as_its_own_predictions_without_a_copy(coat, same_ranks):
    model = lightfm.LightFM(no_components=8, loss="bpr", random_state=0)
    model.fit(to_csr(coat.train).tocoo(), epochs=5, num_threads=1)
    scorer = adapt(model, coat)
    assert scorer[0] is model.user_embeddings
    assert scorer[1] is model.item_embeddings
    assert scorer[2] is model.item_biases
    dense = predicted(model, coat.n_users, coat.n_items)
    ours = scorer[0] @ scorer[1].T + scorer[2]
    gap = dense - ours - model.user_biases[:, None]
    np.testing.assert_allclose(gap, 0, atol=1e-5)
    same_ranks(scorer, dense, coat)


def test_a_model_with_its_dataset_is_matched_by_id(small, same_ranks):
    dataset = Dataset(user_identity_features=True, item_identity_features=True)
    users, items = small.user_ids[::-1], small.item_ids[::-1]
    dataset.fit(users.tolist(), items.tolist())
    train = small.train
    pairs = zip(small.user_ids[train.user].tolist(), small.item_ids[train.item].tolist(), strict=True)
    matrix, _ = dataset.build_interactions(pairs)
    model = lightfm.LightFM(no_components=4, loss="bpr", random_state=0).fit(matrix, epochs=5)
    dense = predicted(model, small.n_users, small.n_items)[::-1, ::-1]
    same_ranks(adapt((model, dataset), small), dense, small)


def test_side_features_get_an_error_that_names_the_way_out(small):
    dataset = Dataset()
    dataset.fit(small.user_ids.tolist(), small.item_ids.tolist(), item_features=["red", "blue"])
    model = lightfm.LightFM(no_components=4, random_state=0).fit(to_csr(small.train).tocoo())
    with pytest.raises(InputError, match="side features; pass"):
        adapt((model, dataset), small)


def test_a_model_of_another_size_gets_an_error_that_shows_both(small, coat):
    model = lightfm.LightFM(no_components=4, random_state=0).fit(to_csr(small.train).tocoo())
    with pytest.raises(InputError, match=r"has 40 users and the split 290 \(1, 2, 3, …\)"):
        adapt(model, coat)


def test_an_untrained_model_is_an_error(small):
    with pytest.raises(InputError, match="fit it before"):
        adapt(lightfm.LightFM(), small)
