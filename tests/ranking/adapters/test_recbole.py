"""RecBole: (model, dataset) pairs, ids matched by their text."""

from __future__ import annotations

from contextlib import chdir
from unittest.mock import patch

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.ranking.adapters import adapt
from tests.ranking.adapters import checks

pytest.importorskip("recbole", reason="recbole is not installed: pip install recbole")
torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")

pytestmark = pytest.mark.filterwarnings("ignore")  # RecBole 1.2 warns on current pandas and torch
MODELS = ["BPR", "NeuMF", "EASE", "Pop"]


def train_model(name, split, folder):
    """Return a RecBole model trained for a few epochs on the split's training pairs, and its data set.

    Config, data set, training loader, model and trainer are RecBole's own, from a file as it reads them.
    """
    from recbole.config import Config
    from recbole.data import create_dataset, data_preparation
    from recbole.utils import get_model, get_trainer, init_seed

    (folder / "coat").mkdir()
    columns = {"user": "user_id:token", "item": "item_id:token"}
    pairs = split.train.to_frame().rename(columns=columns)
    pairs.to_csv(folder / "coat" / "coat.inter", sep="\t", index=False)
    options = {
        "data_path": str(folder),
        "checkpoint_dir": str(folder),
        "load_col": {"inter": ["user_id", "item_id"]},
        "eval_args": {"split": {"RS": [1, 0, 0]}},  # the test pairs are held back by the split already
        "embedding_size": 8,
        "epochs": 5,
        "learning_rate": 0.05,
        "seed": 0,
        "use_gpu": False,
        "show_progress": False,
    }
    # RecBole 1.2.1 asks for names that NumPy 2 removed, and sets others in numpy itself: undone afterwards.
    removed = {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_}
    # Its trainer writes a log into the working folder.
    with chdir(folder), patch.dict(np.__dict__, removed):
        config = Config(model=name, dataset="coat", config_dict=options)
        init_seed(config["seed"], config["reproducibility"])
        dataset = create_dataset(config)
        training, _, _ = data_preparation(config, dataset)
        model = get_model(name)(config, training.dataset)
        initial_weights = [weights.detach().clone() for weights in model.parameters()]
        trainer = get_trainer(config["MODEL_TYPE"], name)(config, model)
        trainer.fit(training, saved=False, verbose=False)
    final_weights = list(model.parameters())
    assert not any(
        torch.equal(*pair) for pair in zip(initial_weights, final_weights, strict=True) if pair[0].numel() > 1
    )
    return model, dataset


@pytest.fixture(scope="module", params=MODELS)
def pair(request, coat, tmp_path_factory):
    return train_model(request.param, coat, tmp_path_factory.mktemp("recbole"))


@pytest.fixture(scope="module")
def bpr(coat, tmp_path_factory):
    return train_model("BPR", coat, tmp_path_factory.mktemp("recbole"))


def find_ids(dataset) -> tuple[list[int], list[int]]:
    """Return the ids of RecBole's rows after the first, which is padding."""
    fields = dataset.uid_field, dataset.iid_field
    return tuple([int(token) for token in dataset.field2id_token[field][1:]] for field in fields)


def predict_scores(model, dataset, split) -> np.ndarray:
    """Return RecBole's scores of all pairs from one call, as in its trainer."""
    from recbole.data.interaction import Interaction

    users, items = find_ids(dataset)
    model.eval()
    with torch.no_grad():
        everyone = Interaction({dataset.uid_field: torch.arange(1, dataset.user_num)})
        try:
            scores = model.full_sort_predict(everyone)
        except NotImplementedError:
            pairs = everyone.repeat_interleave(dataset.item_num)
            pairs.update(Interaction({dataset.iid_field: torch.arange(dataset.item_num).repeat(len(users))}))
            scores = model.predict(pairs)
    return checks.align_scores(scores.reshape(len(users), -1).numpy()[:, 1:], users, items, split)


def test_models_rank_as_their_own_full_sort_scores(pair, coat):
    checks.assert_same_ranks(pair, predict_scores(*pair, coat), coat)


def test_its_single_precision_product_differs_from_the_exact_one_by_rounding_only(bpr, coat):
    model, dataset = bpr
    user, item = (part.weight.detach().numpy()[1:] for part in (model.user_embedding, model.item_embedding))
    exact = checks.align_scores(checks.exact_scores(user, item), *find_ids(dataset), coat)
    checks.assert_differs_by_rounding_only(
        exact, predict_scores(model, dataset, coat), checks.bound_rounding(user, item).max(), coat
    )


def test_a_model_that_needs_more_than_the_user_gets_an_error(bpr, coat):
    class OfSequences(torch.nn.Module):
        def full_sort_predict(self, interaction):
            return interaction["item_id_list"]

    # As RecBole's sequential models ask for the user's history; the class is found by its module.
    OfSequences.__module__ = "recbole.model"
    with pytest.raises(InputError, match=r"asks for 'item_id_list'.*full_sort_scores"):
        adapt((OfSequences(), bpr[1]), coat)(np.arange(2))


def test_a_model_without_its_dataset_is_an_error(bpr, coat):
    with pytest.raises(InputError, match=r"pass the pair \(model, dataset\)"):
        adapt(bpr[0], coat)


@pytest.mark.parametrize("case", checks.OTHER_IDS)
def test_ids_that_do_not_match_get_an_error_that_shows_both(case, bpr, coat):
    checks.assert_shows_both(bpr, checks.OTHER_IDS[case], coat)
