"""cornac: scores by user, ids from the training set's maps."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.adapters import adapt
from ipseval.errors import InputError

cornac = pytest.importorskip("cornac", reason="cornac is not installed: pip install cornac")


def training_set(split, *, as_text: bool = False):
    train = split.train
    users, items = split.user_ids[train.user], split.item_ids[train.item]
    if as_text:
        users, items = users.astype(str), items.astype(str)
    rows = [(user, item, 1.0) for user, item in zip(users.tolist(), items.tolist(), strict=True)]
    return cornac.data.Dataset.from_uir(rows, seed=0)


def pair_by_pair(model, split) -> np.ndarray:
    """Return cornac's own score of every pair; −inf for items it has not seen, ties for such users."""
    dense = np.full((split.n_users, split.n_items), -np.inf)
    for row, user in enumerate(split.user_ids):
        for column, item in enumerate(split.item_ids):
            if item in model.iid_map:
                known = user in model.uid_map
                dense[row, column] = model.score(model.uid_map[user], model.iid_map[item]) if known else 0.0
    return dense


MODELS = {
    "mf": lambda: cornac.models.MF(k=8, max_iter=10, seed=0, verbose=False),
    "bpr": lambda: cornac.models.BPR(k=8, max_iter=20, seed=0, verbose=False, num_threads=1),
    "most-popular": cornac.models.MostPop,
    "user-knn": lambda: cornac.models.UserKNN(k=20, verbose=False, num_threads=1),
}


@pytest.mark.filterwarnings("ignore:.*does not know:ipseval.DataWarning")
@pytest.mark.parametrize("name", MODELS)
def test_models_rank_as_their_own_score_of_each_pair(name, coat, small, same_ranks):
    for split in (coat, small):
        model = MODELS[name]().fit(training_set(split))
        ours = adapt(model, split)(np.arange(split.n_users))
        theirs = pair_by_pair(model, split)
        # A product of a vector with all items and one with a single item differ in the last bit.
        np.testing.assert_allclose(ours, theirs, atol=1e-5)
        same_ranks(adapt(model, split), ours, split)


def test_a_model_that_scores_a_user_as_a_matrix_of_one_row_is_read_as_a_row(small):
    model = cornac.models.EASE(verbose=False).fit(training_set(small))
    users = [model.uid_map[user] for user in small.user_ids]
    items = [model.iid_map[item] for item in small.item_ids]
    expected = (model.U @ model.B)[np.ix_(users, items)]
    np.testing.assert_allclose(adapt(model, small)(np.arange(small.n_users)), expected, atol=1e-12)


def test_ids_of_another_type_get_an_error_that_shows_both(small):
    model = cornac.models.MostPop().fit(training_set(small, as_text=True))
    with pytest.raises(InputError, match=r"the model has '1\d\d', .*; the split has 100, 101, 102"):
        adapt(model, small)


def test_an_untrained_model_is_an_error(small):
    with pytest.raises(InputError, match="fit it before"):
        adapt(cornac.models.MostPop(), small)
