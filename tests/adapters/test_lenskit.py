"""LensKit: trained pipelines, asked as in production."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval.adapters import adapt
from ipseval.errors import DataWarning, InputError

pytest.importorskip("lenskit", reason="lenskit is not installed: pip install lenskit")
from lenskit import batch, topn_pipeline
from lenskit.als import ImplicitMFScorer
from lenskit.basic import PopScorer
from lenskit.data import ItemList, from_interactions_df
from lenskit.knn import ItemKNNScorer

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not know:ipseval.DataWarning"),
    pytest.mark.filterwarnings("ignore:.*gives some items no score:ipseval.DataWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


def trained(scorer, split):
    train = split.train
    frame = pd.DataFrame(
        {"user_id": split.user_ids[train.user], "item_id": split.item_ids[train.item], "rating": 1.0}
    )
    pipeline = topn_pipeline(scorer)
    pipeline.train(from_interactions_df(frame))
    return pipeline


@pytest.mark.parametrize("factory", [ImplicitMFScorer, PopScorer], ids=["als", "pop"])
def test_pipelines_rank_as_lenskit_scores_in_batch(factory, coat, same_ranks):
    pipeline = trained(factory(), coat)
    everything = {user: ItemList(item_ids=coat.item_ids) for user in coat.user_ids}
    dense = np.full((coat.n_users, coat.n_items), -np.inf)
    for key, scored in batch.score(pipeline, everything, n_jobs=1):
        dense[np.searchsorted(coat.user_ids, key.user_id)] = scored.scores()
    dense[np.isnan(dense)] = -np.inf
    same_ranks(adapt(pipeline, coat), dense, coat)


def test_items_that_get_no_score_come_last_and_are_reported(coat):
    pipeline = trained(ItemKNNScorer(max_nbrs=5, min_nbrs=2, feedback="implicit"), coat)
    scorer = adapt(pipeline, coat)
    with pytest.warns(DataWarning, match="gives some items no score"):
        scores = scorer(np.arange(10))
    assert np.isneginf(scores).any()
    assert np.isfinite(scores).any()


def test_a_bare_component_is_an_error_that_names_the_pipeline(small):
    with pytest.raises(InputError, match="pass the trained pipeline"):
        adapt(ImplicitMFScorer(), small)


def test_ids_of_another_type_get_an_error_that_shows_both(coat, small):
    with pytest.raises(InputError, match=r"the model has 1, 2, 3, …; the split has 'u00', 'u01'"):
        adapt(trained(ImplicitMFScorer(), coat), small)
