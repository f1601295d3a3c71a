"""GCMC, DSSM and DIN of RecBole, trained on the training part of a split and on nothing else.

RecBole reads files: the training pairs are written to a temporary folder and read back, all of them as its
training part. Its models and its sampling of negatives are used as they are; the loop over batches is the six
lines of `_train`, as RecBole's own writes checkpoints and logs to the working directory.

Three things that RecBole 1.2.1 needs on current NumPy and SciPy are done here and undone afterwards: names
that NumPy 2 removed; the normalised adjacency matrix of GCMC, built with a private method that SciPy dropped;
and a command line without our own options, which RecBole would read as its own.

RecBole asks for ray ≤ 2.6.3, which has no wheels for Python 3.12 and later: Python 3.11 only.
"""

from __future__ import annotations

import importlib.util
import random
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import scipy.sparse as sp

from ipseval import Interactions

REMOVED_NAMES = {"float_": np.float64, "complex_": np.complex128, "unicode_": np.str_}
PAIRS_PER_BLOCK = 20_000
HISTORY = 20


def is_installed() -> bool:
    """Return whether RecBole can be imported."""
    return importlib.util.find_spec("recbole") is not None


def gcmc(train: Interactions, *, own_predict: bool = False, **options: Any) -> Any:
    """Return the scores of GCMC, (n_users, n_items): an encoder on the graph of training pairs.

    RecBole's own `predict` returns the logit of "observed" alone, while the loss fits the softmax over two
    logits: only their difference means anything. After enough epochs the one logit can run against it, and
    the best items come last; scores here are the difference.
    """
    return _scores(*fit_gcmc(train, own_predict=own_predict, **options), train)


def fit_gcmc(train: Interactions, *, own_predict: bool = False, **options: Any) -> tuple[Any, Any]:
    """Return GCMC and its data set."""
    with _recbole(train, "GCMC", options) as (config, dataset, loader):
        model = _gcmc(own_predict)(config, dataset)
        _train(model, loader, config)
        return model, dataset


def dssm(train: Interactions, **options: Any) -> Any:
    """Return the scores of DSSM, (n_users, n_items): a tower for users and one for items, of ids only.

    The model was made for text; the logs at hand have no features of users or items that could stand for it.
    """
    from recbole.model.context_aware_recommender import DSSM

    with _recbole(train, "DSSM", options) as (config, dataset, loader):
        model = DSSM(config, dataset)
        _train(model, loader, config)
        return _scores(model, dataset, train)


def din(train: Interactions, **options: Any) -> Any:
    """Return the scores of DIN, (n_users, n_items), from the latest `HISTORY` training items of each user.

    Trained on every training pair but each user's first, with what came before as the history. The model
    attends to a set; order decides what is in the history, and is drawn where a log has no timestamps.
    """
    from recbole.model.sequential_recommender import DIN

    with _recbole(train, "DIN", options) as (config, dataset, loader):
        model = DIN(config, dataset)
        _train(model, loader, config)
        return _scores(model, dataset, train, _histories(train, dataset))


def _histories(train: Interactions, dataset: Any) -> dict[str, Any]:
    """Return the latest items of every user in order, and their number, in RecBole's rows; 0 is padding."""
    items = np.zeros((dataset.user_num, HISTORY), dtype=np.int64)
    length = np.zeros(dataset.user_num, dtype=np.int64)
    order = np.argsort(order_in_time(train))
    user = _rows(dataset, "user", train.user_ids)[train.user[order]]
    item = _rows(dataset, "item", train.item_ids)[train.item[order]]
    for row in np.unique(user):
        latest = item[user == row][-HISTORY:]
        items[row, : latest.size] = latest
        length[row] = latest.size
    return {"item_list": items, "item_length": length}


def order_in_time(train: Interactions, seed: int = 0) -> Any:
    """Return the place of each pair in time, 0 … n − 1; ties and logs without timestamps in drawn order."""
    drawn = np.random.default_rng(seed).permutation(len(train))
    time = np.zeros(len(train)) if train.timestamp is None else train.timestamp
    place = np.empty(len(train), dtype=np.int64)
    place[np.lexsort((drawn, time))] = np.arange(len(train))
    return place


@contextmanager
def _recbole(
    train: Interactions, name: str, options: Mapping[str, Any], seed: int = 0
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield RecBole's configuration, data set and loader of training batches for the pairs of `train`."""
    import torch
    from recbole.config import Config
    from recbole.data import create_dataset
    from recbole.data.utils import get_dataloader
    from recbole.sampler import Sampler

    settings = {
        "USER_ID_FIELD": "user", "ITEM_ID_FIELD": "item", "TIME_FIELD": "time",
        "load_col": {"inter": ["user", "item", "time"]},
        "ITEM_LIST_LENGTH_FIELD": "item_length", "LIST_SUFFIX": "_list", "MAX_ITEM_LIST_LENGTH": HISTORY,
        "eval_args": {"split": {"RS": [1.0, 0.0, 0.0]}, "group_by": None, "order": "TO", "mode": "full"},
        "train_neg_sample_args": {"distribution": "uniform", "sample_num": 1},
        "metrics": ["Recall"], "valid_metric": "Recall@10",
        "use_gpu": False, "seed": seed, "show_progress": False,
    }  # fmt: skip
    torch.set_num_threads(1)
    with (
        tempfile.TemporaryDirectory() as folder,
        patch.dict(np.__dict__, REMOVED_NAMES),  # RecBole sets names in numpy itself, too
        patch.object(sys, "argv", sys.argv[:1]),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # of RecBole 1.2 on current pandas and PyTorch
        write_pairs(train, Path(folder) / "log" / "log.inter")
        settings["data_path"] = folder
        config = Config(model=name, dataset="log", config_dict=settings | dict(options))
        dataset = create_dataset(config)
        random.seed(seed)
        np.random.seed(seed)  # noqa: NPY002  (RecBole draws negatives from the global generator)
        torch.manual_seed(seed)
        part = dataset.build()[0]
        sampler = Sampler(["train"], [part], "uniform").set_phase("train")
        yield config, part, get_dataloader(config, "train")(config, part, sampler, shuffle=True)


def write_pairs(train: Interactions, path: Path) -> None:
    """Write a log as RecBole's file of interactions: ids, and the place in time."""
    path.parent.mkdir()
    rows = zip(train.user_ids[train.user], train.item_ids[train.item], order_in_time(train), strict=True)
    lines = ["user:token\titem:token\ttime:float", *("\t".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def _train(model: Any, loader: Any, config: Any) -> None:
    import torch

    optimiser = torch.optim.Adam(model.parameters(), lr=config["learning_rate"])
    model.train()
    for _ in range(config["epochs"]):
        for batch in loader:
            optimiser.zero_grad()
            model.calculate_loss(batch).backward()
            optimiser.step()
    model.eval()


def _rows(dataset: Any, field: str, ids: Any) -> Any:
    """Return RecBole's row of each id; 0, its padding, for those that are not in its data."""
    row = dataset.field2token_id[field]
    return np.array([row.get(str(one), 0) for one in ids])


def _scores(model: Any, dataset: Any, train: Interactions, by_user: Mapping[str, Any] | None = None) -> Any:
    """Return the model's predictions for all pairs; users and items without a training pair get −∞."""
    import torch
    from recbole.data.interaction import Interaction

    users, items = _rows(dataset, "user", train.user_ids), _rows(dataset, "item", train.item_ids)
    scores = np.full((train.n_users, train.n_items), -np.inf, dtype=np.float32)
    known_users, known_items = np.flatnonzero(users), np.flatnonzero(items)
    # A history costs as many rows as it has items; blocks that fit the processor's cache are 3 times faster.
    n_pairs = PAIRS_PER_BLOCK // (HISTORY // 2) if by_user else PAIRS_PER_BLOCK
    step = max(1, n_pairs // known_items.size)
    for start in range(0, known_users.size, step):
        block = known_users[start : start + step]
        u, i = np.repeat(users[block], known_items.size), np.tile(items[known_items], block.size)
        batch = {"user": u, "item": i} | {name: one[u] for name, one in (by_user or {}).items()}
        with torch.no_grad():
            found = model.predict(Interaction({name: torch.from_numpy(one) for name, one in batch.items()}))
        scores[np.ix_(block, known_items)] = found.numpy().reshape(block.size, -1)
    return scores


def _gcmc(own_predict: bool) -> Any:
    """Return GCMC that builds D^-½ A D^-½ from its parts: `dok_matrix._update` is gone from SciPy."""
    import torch
    from recbole.model.general_recommender import GCMC

    class CurrentGCMC(GCMC):  # type: ignore[misc]  # RecBole has no types
        def get_norm_adj_mat(self) -> Any:
            pairs = self.interaction_matrix
            adjacency = sp.block_array([[None, pairs], [pairs.T, None]], format="csr")
            scale = sp.diags_array((np.asarray(adjacency.sum(axis=1)).ravel() + 1e-7) ** -0.5)
            product = (scale @ adjacency @ scale).tocoo()
            place = torch.from_numpy(np.stack([product.row, product.col]).astype(np.int64))
            values = torch.from_numpy(product.data.astype(np.float32))
            return torch.sparse_coo_tensor(place, values, product.shape)

        def predict(self, interaction: Any) -> Any:
            if own_predict:
                return super().predict(interaction)
            user, item = interaction[self.USER_ID], interaction[self.ITEM_ID]
            logits = self.forward(self.user_features, self.item_features, user, item)
            return logits[:, 1] - logits[:, 0]

    return CurrentGCMC
