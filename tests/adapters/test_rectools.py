"""RecTools: (model, dataset) pairs, and the frames that its models recommend."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval.adapters import adapt
from ipseval.errors import InputError
from ipseval.ranking import rank_positives

rectools = pytest.importorskip("rectools", reason="rectools is not installed: pip install rectools")
from implicit.als import AlternatingLeastSquares  # noqa: E402 - after the skip
from rectools.dataset import Dataset  # noqa: E402 - after the skip
from rectools.models import (  # noqa: E402 - after the skip
    EASEModel,
    ImplicitALSWrapperModel,
    PopularModel,
    PureSVDModel,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not know:ipseval.DataWarning"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning:implicit"),
]
MODELS = {
    "als": lambda: ImplicitALSWrapperModel(AlternatingLeastSquares(factors=8, random_state=0, num_threads=1)),
    "svd": lambda: PureSVDModel(factors=8, random_state=0),
    "ease": lambda: EASEModel(regularization=100.0),
    "popular": PopularModel,
}


def dataset_of(split) -> Dataset:
    train = split.train
    frame = pd.DataFrame(
        {"user_id": split.user_ids[train.user], "item_id": split.item_ids[train.item], "weight": 1}
    )
    return Dataset.construct(frame.assign(datetime="2020-01-01"))


@pytest.mark.parametrize("name", MODELS)
def test_models_rank_as_their_own_recommendations(name, coat, same_ranks):
    dataset, model = dataset_of(coat), MODELS[name]()
    model.fit(dataset)
    users, items = dataset.user_id_map.external_ids, dataset.item_id_map.external_ids
    lists = model.recommend(users, dataset, k=items.size, filter_viewed=False)
    dense = np.full((coat.n_users, coat.n_items), -np.inf)
    dense[~np.isin(coat.user_ids, users)] = np.where(np.isin(coat.item_ids, items), 0.0, -np.inf)
    dense[lists["user_id"] - 1, lists["item_id"] - 1] = lists["score"]
    same_ranks(adapt((model, dataset), coat), dense, coat)


def test_recommended_frames_are_lists(coat):
    dataset, model = dataset_of(coat), MODELS["als"]()
    model.fit(dataset)
    lists = model.recommend(dataset.user_id_map.external_ids, dataset, k=10, filter_viewed=True)
    from_lists = rank_positives(adapt(lists, coat), coat)
    whole = rank_positives(adapt((model, dataset), coat), coat)
    np.testing.assert_array_equal(from_lists.n_above, np.minimum(whole.n_above, 10))


def test_a_model_without_its_dataset_is_an_error(small):
    with pytest.raises(InputError, match=r"pass \(model, dataset\)"):
        adapt(MODELS["ease"](), small)
