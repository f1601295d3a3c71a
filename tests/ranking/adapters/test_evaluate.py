"""evaluate() accepts trained models of other libraries."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError
from ipseval.evaluation import evaluate
from ipseval.ranking import rank_positives
from ipseval.ranking.adapters import adapt
from ipseval.ranking.baselines import pure_svd
from tests.inside.validation import truth


def test_an_error_of_an_adapter_names_the_model_of_the_caller(small):
    user, item = pure_svd(small.train, n_factors=5)
    with pytest.raises(InputError, match=r"mine \(factors\): 40 of its 40 user ids are not in the split"):
        adapt((user, item), small, name="mine", users=range(40))


class Trained:
    """A model of an unsupported library."""


class Rows:
    """A data set that NumPy would read row by row."""

    def __len__(self):
        return 10**9

    def __getitem__(self, row):
        raise AssertionError("a data set is not turned into an array to find out what it is")


def export_lists(split) -> pd.DataFrame:
    return split.test.to_frame().rename(columns={"user": "user_id", "item": "item_id"}).assign(score=1.0)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda split: Trained(), "the model is a Trained; expected an .n_users, n_items. array"),
        (lambda split: (Trained(), Rows()), "the model is a tuple of Trained, Rows; expected arrays"),
    ],
    ids=["model", "pair"],
)
def test_an_unsupported_model_gets_an_error_that_lists_the_alternatives(make, text, small):
    with pytest.raises(InputError, match=text + r".*the libraries in ipseval\.adapters.*pass the factors"):
        rank_positives(make(small), small)


def test_lists_without_an_order_get_an_error_that_adds_the_ranks(small):
    with pytest.raises(InputError, match=r"assign\(rank=frame\.groupby\('user_id'\)\.cumcount\(\) \+ 1\)"):
        ipseval.rank_positives(export_lists(small).drop(columns="score"), small)


def as_a_library_model(split):
    """Return a model with the module name of implicit, which is not a scorer without an adapter."""
    rng = np.random.default_rng(0)
    kind = type("MatrixFactorization", (), {"__module__": "implicit.cpu.als"})
    model = kind()
    model.user_factors = rng.random((split.n_users, 4))
    model.item_factors = rng.random((split.n_items, 4))
    return model


def test_there_is_one_rank_positives_and_it_takes_library_models(small):
    assert ipseval.rank_positives is rank_positives
    model = as_a_library_model(small)
    expected = rank_positives((model.user_factors, model.item_factors), small)
    for ranked in (
        rank_positives(model, small, name="als"),
        evaluate({"als": model}, small, metrics=["auc"]).samples["als"].ranked,
        rank_positives(adapt(model, small, users=small.user_ids), small),
    ):
        assert ranked.n_above.tolist() == expected.n_above.tolist()


def test_studies_and_worlds_take_library_models(small, tmp_path):
    worse = np.random.default_rng(1).random((small.n_users, small.n_items))
    models = {"als": as_a_library_model(small), "worse": worse}
    true_values = truth(models, ["auc"], small, small.test)
    assert true_values["ideal"].between(0, 1).all()
    log = ipseval.Interactions.from_frame(
        pd.concat([small.train.to_frame(), small.test.to_frame()]), users=small.user_ids, items=small.item_ids
    )
    fits = {"als": lambda train: as_a_library_model(small), "worse": lambda train: worse}
    protocols = [ipseval.studies.protocols.Protocol(k_core=None)]
    study = ipseval.studies.protocols.study(
        fits, {"small": log}, protocols, path=tmp_path, metrics="auc", estimators="aoa", n_resamples=20
    )
    assert set(study.frame["model"]) == {"als", "worse"}
    assert study.metrics == ["auc"]
