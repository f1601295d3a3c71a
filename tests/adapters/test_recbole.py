"""RecBole: (model, dataset) pairs, ids matched by their text."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest

from ipseval.adapters import adapt
from ipseval.errors import InputError

pytest.importorskip("recbole", reason="recbole is not installed: pip install recbole")
torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")

pytestmark = pytest.mark.filterwarnings("ignore")  # RecBole 1.2 warns on current pandas and torch


@pytest.fixture(scope="module")
def bpr(coat, tmp_path_factory):
    """A RecBole BPR model with random weights, and its data set, read from a file as RecBole does."""
    from recbole.config import Config
    from recbole.data import create_dataset
    from recbole.model.general_recommender import BPR

    folder = tmp_path_factory.mktemp("recbole") / "coat"
    folder.mkdir()
    users, items = coat.user_ids[coat.train.user], coat.item_ids[coat.train.item]
    rows = [f"{user}\t{item}" for user, item in zip(users, items, strict=True)]
    (folder / "coat.inter").write_text("\n".join(["user_id:token\titem_id:token", *rows]) + "\n")
    options = {
        "data_path": str(folder.parent),
        "use_gpu": False,
        "load_col": {"inter": ["user_id", "item_id"]},
        "embedding_size": 8,
        "seed": 0,
        "reproducibility": True,
    }
    # RecBole 1.2.1 asks for names that NumPy 2 removed, and sets others in numpy itself: undone afterwards.
    with patch.dict(np.__dict__, {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_}):
        config = Config(model="BPR", dataset="coat", config_dict=options)
    dataset = create_dataset(config)
    torch.manual_seed(0)
    return BPR(config, dataset), dataset


@pytest.mark.filterwarnings("ignore:.*does not know:ipseval.DataWarning")
def test_models_rank_as_the_product_of_their_embeddings(bpr, coat, same_ranks):
    model, dataset = bpr
    user = model.user_embedding.weight.detach().numpy()
    item = model.item_embedding.weight.detach().numpy()
    dense = np.full((coat.n_users, coat.n_items), -np.inf)
    items = {int(token): row for row, token in enumerate(dataset.field2id_token["item_id"]) if row}
    users = {int(token): row for row, token in enumerate(dataset.field2id_token["user_id"]) if row}
    for one in range(1, 291):
        for other, row in items.items():
            dense[one - 1, other - 1] = user[users[one]] @ item[row] if one in users else 0.0
    ours = adapt((model, dataset), coat)(np.arange(coat.n_users))
    np.testing.assert_allclose(ours, dense, atol=1e-6)
    same_ranks(np.where(np.isclose(ours, dense, atol=1e-6), dense, ours), dense, coat)


def test_a_model_without_its_dataset_is_an_error(bpr, coat):
    with pytest.raises(InputError, match=r"pass the pair \(model, dataset\)"):
        adapt(bpr[0], coat)


def test_ids_that_do_not_match_get_an_error_that_shows_both(bpr, small):
    with pytest.raises(InputError, match=r"the model has '\d+', .*; the split has 'u00'"):
        adapt(bpr, small)
