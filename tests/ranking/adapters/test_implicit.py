"""implicit: factor models without a copy, item–item models from the training rows."""

from __future__ import annotations

import re

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.ranking.adapters import adapt
from tests.ranking.adapters import checks
from tests.ranking.adapters.test_docs import PAGE, SECTIONS, SETUP, blocks

implicit = pytest.importorskip("implicit", reason="implicit is not installed: pip install implicit")
from implicit.als import AlternatingLeastSquares  # noqa: E402 - after the skip
from implicit.bpr import BayesianPersonalizedRanking  # noqa: E402 - after the skip
from implicit.nearest_neighbours import (  # noqa: E402 - after the skip
    BM25Recommender,
    CosineRecommender,
    TFIDFRecommender,
)

pytestmark = [
    pytest.mark.filterwarnings("ignore:OpenBLAS is configured:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:Method expects CSR"),  # implicit's own call
]
FACTOR_MODELS = {
    "als": lambda: AlternatingLeastSquares(factors=16, random_state=0, num_threads=1),
    "bpr": lambda: BayesianPersonalizedRanking(factors=16, random_state=0, num_threads=1, iterations=20),
}
ITEM_MODELS = {
    "cosine": lambda: CosineRecommender(K=300, num_threads=1),
    "cosine-20": lambda: CosineRecommender(K=20, num_threads=1),
    "tf-idf": lambda: TFIDFRecommender(K=50, num_threads=1),
    "bm25": lambda: BM25Recommender(K=50, num_threads=1),
}


def recommend_scores(model, matrix) -> np.ndarray:
    """Return implicit's scores: full lists of `recommend`, 0 for omitted items.

    Users are asked one by one: for several, pm-implicit rounds the scores of item models to single precision.
    """
    n_users, n_items = matrix.shape
    rows = []
    for user in range(n_users):
        ids, scores = model.recommend(user, matrix[user], N=n_items, filter_already_liked_items=False)
        listed = scores > np.finfo(np.float32).min
        row = np.zeros(n_items, dtype=scores.dtype)
        row[ids[listed]] = scores[listed]
        rows.append(row)
    return np.array(rows)


@pytest.mark.parametrize("name", FACTOR_MODELS)
def test_factor_models_rank_by_their_exact_scores_and_are_not_copied(name, coat):
    matrix = coat.train.to_csr()
    model = FACTOR_MODELS[name]()
    model.fit(matrix, show_progress=False)
    scorer = adapt(model, coat)
    assert scorer[0] is model.user_factors
    assert scorer[1] is model.item_factors
    exact = checks.exact_scores(model.user_factors, model.item_factors)
    checks.assert_same_ranks(scorer, exact, coat)
    # implicit multiplies in single precision.
    bound = checks.bound_rounding(model.user_factors, model.item_factors)
    checks.assert_differs_by_rounding_only(exact, recommend_scores(model, matrix), bound, coat)


@pytest.mark.parametrize("name", ITEM_MODELS)
def test_item_models_have_the_scores_and_ranks_of_their_own_lists(name, coat):
    matrix = coat.train.to_csr()
    model = ITEM_MODELS[name]()
    model.fit(matrix, show_progress=False)
    theirs = recommend_scores(model, matrix)
    assert theirs.dtype == np.float64
    # Both add the similarities of a user's items in the same order, in double precision: the same bits.
    np.testing.assert_array_equal(adapt(model, coat)(np.arange(coat.n_users)), theirs)
    checks.assert_same_ranks(model, theirs, coat)


def test_a_model_with_named_rows_is_put_in_the_order_of_the_split(small):
    matrix = small.train.to_csr()[:, ::-1]
    model = AlternatingLeastSquares(factors=4, random_state=0, num_threads=1)
    model.fit(matrix.tocsr(), show_progress=False)
    dense = checks.exact_scores(model.user_factors, model.item_factors)[:, ::-1]
    checks.assert_same_ranks(adapt(model, small, items=small.item_ids[::-1]), dense, small)


@pytest.mark.parametrize(
    ("name", "case"),
    # An item–item model scores whatever users split.train has, so only its items can be others.
    [
        *(("als", case) for case in checks.OTHER_SIZES),
        ("cosine", "one-item-less"),
        ("cosine", "one-item-more"),
    ],
)
def test_another_size_gets_an_error_that_shows_both(name, case, coat):
    model = {**FACTOR_MODELS, **ITEM_MODELS}[name]()
    model.fit(coat.train.to_csr(), show_progress=False)
    checks.assert_shows_both(model, checks.OTHER_SIZES[case], coat)


def test_an_untrained_model_is_an_error(small):
    with pytest.raises(InputError, match="fit it before"):
        adapt(AlternatingLeastSquares(), small)


def section(heading: str) -> str:
    """Return the text of a section of the page, up to the next heading."""
    text = PAGE.partition(f"{heading}\n")[2]
    return re.split(r"^##", text, maxsplit=1, flags=re.MULTILINE)[0]


def assert_same_print(output: str, heading: str) -> None:
    """Compare words exactly and numbers closely, because sums of factors depend on the machine."""
    (expected,) = re.findall(r"^```text\n(.*?)^```", section(heading), re.MULTILINE | re.DOTALL)
    number = r"\d+\.\d+"
    assert re.sub(number, "X", output.strip()) == re.sub(number, "X", expected.strip())
    values = [float(value) for value in re.findall(number, output)]
    assert values == pytest.approx([float(value) for value in re.findall(number, expected)], abs=0.011)


@pytest.mark.filterwarnings("ignore")
def test_the_blocks_that_continue_implicit_print_what_the_page_shows(folder, capsys, monkeypatch):
    names = {}
    for block in [*blocks(SETUP), *blocks(SECTIONS["implicit"])]:
        exec(block, names)
    capsys.readouterr()
    (several_models,) = blocks(section("## Several models and the printed result"))
    exec(several_models, names)
    assert_same_print(capsys.readouterr().out, "## Several models and the printed result")

    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((folder / "store").as_uri())
    try:
        (mlflow_call,) = blocks(section("### Metrics in MLflow"))
        exec(mlflow_call, names)
    finally:
        mlflow.set_tracking_uri(None)
    assert_same_print(capsys.readouterr().out, "### Metrics in MLflow")
