"""LensKit: trained pipelines, called as in production."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

from ipseval.errors import DataWarning, InputError
from ipseval.ranking.adapters import adapt
from tests.ranking.adapters import checks

pytest.importorskip("lenskit", reason="lenskit is not installed: pip install lenskit")
with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of one of its modules at another
    from lenskit import batch, topn_pipeline
    from lenskit.als import ImplicitMFScorer
    from lenskit.basic import PopScorer
    from lenskit.data import ItemList, ItemListCollection, from_interactions_df
    from lenskit.knn import ItemKNNScorer

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not know:ipseval.errors.DataWarning"),
    pytest.mark.filterwarnings("ignore:.*gives some items no score:ipseval.errors.DataWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]
SCORERS = {
    "als": ImplicitMFScorer,
    "pop": PopScorer,
    "knn": lambda: ItemKNNScorer(max_nbrs=5, min_nbrs=2, feedback="implicit"),
}


def make_dataset(split):
    pairs = split.train.to_frame().rename(columns={"user": "user_id", "item": "item_id"})
    return from_interactions_df(pairs.assign(rating=1.0))


def train_pipeline(scorer, split):
    pipeline = topn_pipeline(scorer)
    pipeline.train(make_dataset(split))
    return pipeline


def score_in_batch(pipeline, split) -> np.ndarray:
    """Return LensKit's batch scores of all pairs; items without a score come last."""
    items_by_user = {user: ItemList(item_ids=split.item_ids) for user in split.user_ids}
    dense = np.full((split.n_users, split.n_items), -np.inf)
    requests = ItemListCollection.from_dict(items_by_user, "user_id")
    for key, item_scores in batch.score(pipeline, requests, n_jobs=1):
        dense[np.searchsorted(split.user_ids, key.user_id)] = item_scores.scores()
    dense[np.isnan(dense)] = -np.inf
    return dense


@pytest.mark.parametrize("name", SCORERS)
def test_pipelines_rank_as_lenskit_scores_in_batch(name, coat):
    pipeline = train_pipeline(SCORERS[name](), coat)
    checks.assert_same_ranks(pipeline, score_in_batch(pipeline, coat), coat)


def test_items_that_get_no_score_come_last_and_are_reported(coat):
    pipeline = train_pipeline(SCORERS["knn"](), coat)
    scorer = adapt(pipeline, coat)
    with pytest.warns(DataWarning, match="gives some items no score"):
        scores = scorer(np.arange(10))
    assert np.isneginf(scores).any()
    assert np.isfinite(scores).any()


def test_a_bare_component_is_an_error_that_names_the_pipeline(small):
    with pytest.raises(InputError, match="pass the trained pipeline"):
        adapt(ImplicitMFScorer(), small)


@pytest.mark.parametrize("case", checks.OTHER_IDS)
def test_ids_that_do_not_match_get_an_error_that_shows_both(case, coat):
    checks.assert_shows_both(train_pipeline(ImplicitMFScorer(), coat), checks.OTHER_IDS[case], coat)
