"""Labels of propensity models, and the errors of a power law."""

from __future__ import annotations

import inspect

import numpy as np
import pandas as pd
import pytest

import ipseval
from ipseval.errors import InputError, UnknownNameError
from ipseval.propensity import PROPENSITIES, PowerLawPropensity, parse_propensity
from tests.inside.distributed import _fit_propensity

LOG = ipseval.Interactions.from_frame(pd.DataFrame({"user": [0, 0, 1, 2], "item": [0, 1, 1, 1]}))


@pytest.mark.parametrize(
    "label",
    [
        "power-law:gamma=0.5,unseen=smooth,scale=max",
        "power-law(gamma=0.5, unseen=smooth, scale=max)",
        " power-law : gamma = 0.5 , unseen=smooth, scale=max ",
    ],
)
def test_both_spellings_name_the_same_model(label):
    model = parse_propensity(label)
    assert (model.gamma, model.unseen, model.scale) == (0.5, "smooth", "max")
    expected = PowerLawPropensity(gamma=0.5, unseen="smooth", scale="max").fit(LOG).item
    assert np.array_equal(model.fit(LOG).item, expected)


def test_values_are_numbers_words_or_text():
    assert parse_propensity("density-ratio:n_assignments=3,limit=none").limit is None
    assert parse_propensity("density-ratio:n_assignments=3,limit=none").n_assignments == 3
    assert parse_propensity("power-law:eta=1").eta == 1
    for word, came in (("true", "True"), ("False", "False"), ("yes", "'yes'")):
        with pytest.raises(InputError, match=f"got {came}"):
            parse_propensity(f"power-law:gamma={word}")


def test_every_model_of_the_registry_has_fit_with_the_training_log_alone():
    for name, model in PROPENSITIES.items():
        assert "fit" in vars(model), name
        kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        required = [
            parameter.name
            for parameter in inspect.signature(model.fit).parameters.values()
            if parameter.kind in kinds
        ]
        assert required == ["self", "train"], name


def test_partitions_of_users_accept_a_label():
    fitted = _fit_propensity("power-law:gamma=0", np.array([0, 3, 8]))
    assert fitted.item == pytest.approx([1, 2, 3])  # the root of n* + 1
    with pytest.raises(UnknownNameError, match="Did you mean 'power-law'"):
        _fit_propensity("powerlow", np.array([1, 4, 9]))


def test_a_label_without_required_data_names_the_class_to_use():
    with pytest.raises(InputError, match=r"exposure of direct holds data.*make a DirectPropensity in Python"):
        parse_propensity("direct")


def test_a_label_without_a_required_value_names_it(monkeypatch):
    class TwoValues:
        def __init__(self, a: float, b: float):
            self.values = (a, b)

    monkeypatch.setattr("ipseval.propensity.labels.PROPENSITIES.find", lambda name, foreign: TwoValues)
    assert parse_propensity("two-values:a=1,b=2").values == (1, 2)
    with pytest.raises(InputError, match=r"two-values must have a value for b; got none\. Add b=VALUE"):
        parse_propensity("two-values:a=1")
