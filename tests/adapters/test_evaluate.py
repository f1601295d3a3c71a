"""evaluate() takes trained models of other libraries as they are."""

from __future__ import annotations

import pytest

from ipseval.adapters import to_csr, with_ids
from ipseval.baselines import pure_svd
from ipseval.errors import InputError
from ipseval.evaluation import evaluate
from ipseval.ranking import rank_positives


def test_evaluate_takes_a_model_with_ids(small):
    user, item = pure_svd(small.train, n_factors=5)
    turned = with_ids((user[::-1], item), users=small.user_ids[::-1])
    values = evaluate({"svd": (user, item), "turned": turned}, small, metrics=["recall@10"]).frame["estimate"]
    assert values[0] == values[1]


def test_an_error_of_an_adapter_names_the_model_of_the_caller(small):
    user, item = pure_svd(small.train, n_factors=5)
    with pytest.raises(InputError, match=r"mine \(factors\): 40 of its 40 user ids are not in the split"):
        evaluate({"mine": with_ids((user, item), users=range(40))}, small)


@pytest.mark.filterwarnings("ignore:OpenBLAS is configured:RuntimeWarning")
def test_evaluate_finds_the_library_by_the_type_of_the_model(small):
    als = pytest.importorskip("implicit.als", reason="implicit is not installed: pip install implicit")
    model = als.AlternatingLeastSquares(factors=8, random_state=0, num_threads=1)
    model.fit(to_csr(small.train), show_progress=False)
    ranked = rank_positives((model.user_factors, model.item_factors), small)
    values = evaluate({"als": model, "ranks": ranked}, small, metrics=["recall@10"]).frame["estimate"]
    assert values[0] == values[1]
