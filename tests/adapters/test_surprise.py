"""Surprise: factors of SVD and NMF, predictions of everything else."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from ipseval.adapters import adapt
from ipseval.errors import InputError

surprise = pytest.importorskip("surprise", reason="Surprise is not installed: pip install scikit-surprise")

MODELS = {
    "svd": lambda: surprise.SVD(n_factors=8, n_epochs=5, random_state=0),
    "svd-unbiased": lambda: surprise.SVD(n_factors=8, n_epochs=5, biased=False, random_state=0),
    "nmf": lambda: surprise.NMF(n_factors=4, n_epochs=5, random_state=0),
    "knn": lambda: surprise.KNNBasic(k=10, verbose=False),
}


def training_set(split):
    rng = np.random.default_rng(0)
    train = split.train
    frame = pd.DataFrame(
        {
            "user": split.user_ids[train.user],
            "item": split.item_ids[train.item],
            "rating": rng.integers(1, 6, len(train)),
        }
    )
    data = surprise.Dataset.load_from_df(frame, surprise.Reader(rating_scale=(1, 5)))
    return data.build_full_trainset()


@pytest.mark.parametrize("name", MODELS)
def test_models_rank_as_their_own_unclipped_predictions(name, small, same_ranks):
    model = MODELS[name]().fit(training_set(small))
    theirs = np.array(
        [[model.predict(user, item, clip=False).est for item in small.item_ids] for user in small.user_ids]
    )
    scorer = adapt(model, small)
    if isinstance(scorer, tuple):
        assert scorer[0].base is None or np.shares_memory(scorer[0], model.pu)
        ours = scorer[0] @ scorer[1].T + (scorer[2] if len(scorer) == 3 else 0)
        # The global mean and the user's bias are the same for all items of a user.
        ours = ours + (theirs - ours).mean(axis=1, keepdims=True)
        np.testing.assert_allclose(ours, theirs, atol=1e-12)
    same_ranks(scorer, theirs.round(12), small)


def test_an_untrained_model_is_an_error(small):
    with pytest.raises(InputError, match="fit it before"):
        adapt(surprise.SVD(), small)


def test_ids_of_another_data_set_get_an_error_that_shows_both(small, coat):
    with pytest.raises(InputError, match=r"the model has 'u\d\d', .*; the split has 1, 2, 3"):
        adapt(MODELS["svd"]().fit(training_set(small)), coat)
