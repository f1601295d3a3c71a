"""implicit: factor models without a copy, item–item models from the training rows."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.adapters import adapt, to_csr, with_ids
from ipseval.errors import InputError

implicit = pytest.importorskip("implicit", reason="implicit is not installed: pip install implicit")
from implicit.als import AlternatingLeastSquares  # noqa: E402 - after the skip
from implicit.bpr import BayesianPersonalizedRanking  # noqa: E402 - after the skip
from implicit.nearest_neighbours import CosineRecommender  # noqa: E402 - after the skip

pytestmark = [
    pytest.mark.filterwarnings("ignore:OpenBLAS is configured:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:Method expects CSR"),  # implicit's own call
]


def recommended(model, matrix) -> np.ndarray:
    """Return implicit's own scores: full lists of `recommend`, 0 for what it leaves out."""
    n_users, n_items = matrix.shape
    ids, scores = model.recommend(np.arange(n_users), matrix, N=n_items, filter_already_liked_items=False)
    dense = np.zeros((n_users, n_items), dtype=scores.dtype)
    for user in range(n_users):
        listed = scores[user] > np.finfo(np.float32).min
        dense[user, ids[user][listed]] = scores[user][listed]
    return dense


@pytest.mark.parametrize(
    "make",
    [
        lambda: AlternatingLeastSquares(factors=16, random_state=0, num_threads=1),
        lambda: BayesianPersonalizedRanking(factors=16, random_state=0, num_threads=1, iterations=20),
    ],
    ids=["als", "bpr"],
)
def test_factor_models_rank_as_their_own_lists_and_are_not_copied(make, coat, same_ranks):
    matrix, model = to_csr(coat.train), make()
    model.fit(matrix, show_progress=False)
    scorer = adapt(model, coat)
    assert scorer[0] is model.user_factors
    assert scorer[1] is model.item_factors
    same_ranks(scorer, recommended(model, matrix), coat)


def test_item_models_score_from_the_training_items(coat, same_ranks):
    matrix = to_csr(coat.train)
    model = CosineRecommender(K=300, num_threads=1)
    model.fit(matrix, show_progress=False)
    scores = adapt(model, coat)(np.arange(coat.n_users))
    np.testing.assert_allclose(scores, recommended(model, matrix), atol=1e-6)


def test_a_model_of_another_matrix_gets_an_error_unless_its_rows_are_named(small, same_ranks):
    matrix = to_csr(small.train)[:, ::-1]
    model = AlternatingLeastSquares(factors=4, random_state=0, num_threads=1)
    model.fit(matrix[:, 1:].tocsr(), show_progress=False)
    with pytest.raises(
        InputError, match=r"als \(implicit .*\) has 29 items and the split 30 \(100, 101, 102, …\)"
    ):
        adapt(model, small, name="als")
    model = AlternatingLeastSquares(factors=4, random_state=0, num_threads=1)
    model.fit(matrix.tocsr(), show_progress=False)
    dense = (model.user_factors @ model.item_factors.T)[:, ::-1]
    same_ranks(adapt(with_ids(model, items=small.item_ids[::-1]), small), dense, small)


def test_an_untrained_model_is_an_error(small):
    with pytest.raises(InputError, match="fit it before"):
        adapt(AlternatingLeastSquares(), small)
