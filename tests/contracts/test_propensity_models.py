"""Every propensity model of the registry has its row in the files that list all of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ipseval.propensity import PROPENSITIES
from tests.contracts.number_worlds import FITTED_PROPENSITIES, split

ROOT = Path(__file__).resolve().parents[2]
NUMBERS = "tests/contracts/number_worlds.py"
FILES = {
    NUMBERS: "to FITTED_PROPENSITIES in {file}, and run `python -m tests.contracts.numbers --write`",
    "tests/propensity/test_basis.py": "with its basis to {file}",
    "tests/typed/results.py": "to propensities() in {file}",
}
# Without numbers in the contract, because the last digits of an iterative fit may depend on the processor.
NOT_STORED = {"DensityRatioPropensity"}
MODELS = list(dict(PROPENSITIES).values())


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.__name__)
def test_every_propensity_model_has_a_row_in_the_files_that_list_all(model, file):
    name = model.__name__
    if file == NUMBERS and name in NOT_STORED:
        return
    is_listed = f"{name}(" in (ROOT / file).read_text(encoding="utf-8")
    assert is_listed, f"Add {name}(…) {FILES[file].format(file=file)}."


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FITTED_PROPENSITIES)
def test_the_popularity_without_smoothing_is_the_number_of_training_interactions(name):
    popularity = FITTED_PROPENSITIES[name]().training_popularity
    if popularity is None:
        return
    advice = (
        "Pass smoothing= to Propensity in fit, with the number that was added to every count of popularity="
    )
    assert np.array_equal(popularity, split().train.popularity), f"{advice} ({name})."
