"""evaluate() takes trained models of other libraries as they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
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


class Trained:
    """A model of a library that ipseval does not know by its type."""


class Rows:
    """A data set that NumPy would read row by row."""

    def __len__(self):
        return 10**9

    def __getitem__(self, row):
        raise AssertionError("a data set is not turned into an array to find out what it is")


class Called(Trained):
    def __call__(self, users):
        return users.cuda()


def exported(split) -> pd.DataFrame:
    return split.test.to_frame().rename(columns={"user": "user_id", "item": "item_id"}).assign(score=1.0)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda split: Trained(), "the model is a Trained; expected an .n_users, n_items. array"),
        (lambda split: (Trained(), Rows()), "the model is a tuple of Trained, Rows; expected arrays"),
        (lambda split: with_ids(np.zeros((40, 30))), "the model is a WithIds; expected"),
        (
            exported,
            r"the model lacks 40 of 40 row ids of the split \('u00', .*; its labels start with 0, 1, 2",
        ),
    ],
    ids=["model", "pair", "with-ids", "list"],
)
def test_ranking_a_library_model_directly_is_an_error_that_names_adapt(make, text, small):
    with pytest.raises(InputError, match=text + r".*ipseval\.adapters\.adapt\(model, split\)"):
        rank_positives(make(small), small)


def test_an_error_of_an_object_that_was_called_keeps_its_type_and_gets_a_note_that_names_adapt(small):
    with pytest.raises(AttributeError, match="cuda") as caught:
        rank_positives(Called(), small, name="mine")
    assert "mine is a Called and was called with an array of user codes" in caught.value.__notes__[0]
    assert "ipseval.adapters.adapt(model, split)" in caught.value.__notes__[0]


def test_an_error_of_a_plain_function_is_left_as_it_is(small):
    with pytest.raises(ZeroDivisionError) as caught:
        rank_positives(lambda users: 1 / 0, small)
    assert not hasattr(caught.value, "__notes__")


@pytest.mark.filterwarnings("ignore:OpenBLAS is configured:RuntimeWarning")
def test_evaluate_finds_the_library_by_the_type_of_the_model(small):
    als = pytest.importorskip("implicit.als", reason="implicit is not installed: pip install implicit")
    model = als.AlternatingLeastSquares(factors=8, random_state=0, num_threads=1)
    model.fit(to_csr(small.train), show_progress=False)
    ranked = rank_positives((model.user_factors, model.item_factors), small)
    values = evaluate({"als": model, "ranks": ranked}, small, metrics=["recall@10"]).frame["estimate"]
    assert values[0] == values[1]
