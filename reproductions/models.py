"""Train the recommenders of the reproductions once and keep their factors: BPR, PMF, U-CML, A-CML.

    python -m reproductions.models --data PATH [--only NAME]

BPR is cornac's. U-CML and A-CML, which no maintained library offers with both samplers, and PMF are the
short PyTorch module below, with the losses of the authors' code (openrec). CML: squared distances, an item
bias, a margin of 1, embeddings kept in the unit ball; A-CML takes the hardest of five negatives, weighted
by log(1 + ⌊n_items · share of violating negatives⌋). PMF: squared error of sigmoid(u·v + bias), four
negatives for each positive. "BPR (openrec loss)" and "PMF (cornac)" are the other implementation of each,
"(rate 0.005)" another learning rate: they show how much of a difference is due to it.

Every recommender has 50 dimensions. A snapshot is chosen by recall@50 on the validation part (the plain
average over the whole catalogue), never on the test part. Factors go to .cache/reproductions, which is not
in the repository; delete it to train anew. Needs cornac and torch.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from ipseval import ComputeOptions, Interactions, Split, split_random
from ipseval.evaluation import evaluate_ranks
from ipseval.ranking import rank_positives
from reproductions.data import load_citeulike_a

CACHE = Path(__file__).resolve().parents[1] / ".cache" / "reproductions"
N_FACTORS = 50
SEED = 0
SELECT_BY = "recall@50"
Factors = tuple[Any, Any, Any]


def citeulike_split(folder: Path, seed: int = SEED) -> Split:
    """Return citeulike-a split 70:15:15 per user at random: closest to the paper's item counts."""
    return split_random(load_citeulike_a(folder), test_fraction=0.15, validation_fraction=0.15, rng=seed)


# --- cornac -------------------------------------------------------------------------------------------------


def cornac_bpr(train: Interactions, seed: int) -> Iterator[tuple[str, Factors]]:
    """BPR of cornac: negatives are drawn uniformly."""
    from cornac.models import BPR

    data = _cornac_data(train.user, train.item, np.ones(len(train)), seed)
    for epochs, regularisation in ((100, 0.01), (200, 0.01), (200, 0.001)):
        model = BPR(
            k=N_FACTORS, max_iter=epochs, learning_rate=0.05, lambda_reg=regularisation, num_threads=1,
            seed=seed,
        ).fit(data)  # fmt: skip
        yield (
            f"{epochs} epochs, l2 {regularisation}",
            _in_order(train, data, model.u_factors, model.i_factors, model.i_biases),
        )


def cornac_pmf(train: Interactions, seed: int) -> Iterator[tuple[str, Factors]]:
    """PMF of cornac on positives (1) and four uniform other items for each (0), the authors' proportion."""
    from cornac.models import PMF

    rng = np.random.default_rng(seed)
    user = np.repeat(train.user, 4)
    key = user * np.int64(train.n_items) + rng.integers(train.n_items, size=user.size)
    key = np.setdiff1d(key, train.pair_key)
    data = _cornac_data(
        np.concatenate([train.user, key // train.n_items]),
        np.concatenate([train.item, key % train.n_items]),
        np.concatenate([np.ones(len(train)), np.zeros(key.size)]),
        seed,
    )
    epochs, regularisation = 60, 0.01
    model = PMF(
        k=N_FACTORS, max_iter=epochs, learning_rate=0.002, lambda_reg=regularisation, variant="linear",
        seed=seed,
    ).fit(data)  # fmt: skip
    yield f"{epochs} epochs, l2 {regularisation}", _in_order(train, data, model.U, model.V, None)


def _cornac_data(user: Any, item: Any, value: Any, seed: int) -> Any:
    from cornac.data import Dataset

    return Dataset.from_uir(list(zip(user.tolist(), item.tolist(), value.tolist(), strict=True)), seed=seed)


def _in_order(train: Interactions, data: Any, users: Any, items: Any, bias: Any) -> Factors:
    """Return factors in the order of the log; cornac numbers users and items as it meets them."""
    user_factors = np.zeros((train.n_users, users.shape[1]))
    item_factors = np.zeros((train.n_items, items.shape[1]))
    user_factors[list(data.uid_map)] = users[list(data.uid_map.values())]
    item_factors[list(data.iid_map)] = items[list(data.iid_map.values())]
    item_bias = np.zeros(train.n_items)
    if bias is not None:
        item_bias[list(data.iid_map)] = bias[list(data.iid_map.values())]
        unseen = train.popularity == 0
        item_bias[unseen] = bias.min()  # never trained: after every item that was
    return user_factors, item_factors, item_bias


# --- PyTorch ------------------------------------------------------------------------------------------------


def torch_model(
    train: Interactions, seed: int, *, loss: str, l2: float, n_steps: int, rate: float, batch: int = 8000,
    at: Collection[int] | None = None, n_processes: int | None = None,
) -> Iterator[tuple[str, Factors]]:  # fmt: skip
    """Yield snapshots of one of openrec's models: loss "bpr", "pmf", "ucml" or "acml".

    Snapshots are taken after the steps `at`, by default five of them. PMF draws positives with replacement,
    and four negatives for the user of each; with `n_processes` it draws as openrec does: positives in
    shuffled passes over the log, negatives for users drawn uniformly. openrec's processes start from one
    state of the generator of negatives, so that each draw of negatives is used `n_processes` times.
    """
    import torch

    torch.manual_seed(seed)
    torch.set_num_threads(1)
    rng = np.random.default_rng(seed)
    user = torch.nn.Parameter(0.01 * torch.randn(train.n_users, N_FACTORS))
    item = torch.nn.Parameter(0.01 * torch.randn(train.n_items, N_FACTORS))
    bias = torch.nn.Parameter(torch.zeros(train.n_items))
    optimiser = torch.optim.Adam([user, item, bias], lr=rate, fused=True)
    n_negatives = 5 if loss == "acml" else 1
    positive_keys = np.sort(train.pair_key)
    at = range(n_steps // 5, n_steps + 1, n_steps // 5) if at is None else at
    n_positives = batch // 5 if loss == "pmf" else batch
    passes = None if n_processes is None else _passes(rng, len(train), n_positives)
    active = np.flatnonzero(train.activity)
    for step in range(1, n_steps + 1):
        row = rng.integers(len(train), size=n_positives) if passes is None else next(passes)
        u_code, p_code = train.user[row], train.item[row]
        if loss == "pmf":
            if n_processes is None or (step - 1) % n_processes == 0:
                w_code = np.repeat(u_code, 4)
                if n_processes is not None:
                    w_code = active[rng.integers(active.size, size=w_code.size)]
                n_code = _negatives(rng, train, positive_keys, w_code, 1)[:, 0]
            total = _pmf_loss(user, item, bias, (u_code, p_code), (w_code, n_code))
        else:
            n_code = _negatives(rng, train, positive_keys, u_code, n_negatives)
            total = _pairwise_loss(loss, l2, user, item, bias, u_code, p_code, n_code)
        optimiser.zero_grad()
        total.backward()
        optimiser.step()
        if loss.endswith("cml"):
            with torch.no_grad():
                for weight in (user, item):
                    weight.div_(weight.norm(dim=1, keepdim=True).clamp(min=1.0))
        if step in at:
            yield f"{step} steps", _scores_as_factors(loss, user, item, bias)


def _passes(rng: Any, n_rows: int, size: int) -> Iterator[Any]:
    """Yield batches of rows, shuffled anew for each pass; a pass ends when less than a batch is left."""
    while True:
        order = rng.permutation(n_rows)
        for start in range(0, n_rows - size, size):
            yield order[start : start + size]


def _negatives(rng: Any, train: Interactions, positive_keys: Any, user: Any, n: int) -> Any:
    """Return (len(user), n) items, uniform over those that are not a training item of the user."""
    item = rng.integers(train.n_items, size=(user.size, n))
    for _ in range(20):
        key = user[:, None] * np.int64(train.n_items) + item
        place = np.minimum(np.searchsorted(positive_keys, key), positive_keys.size - 1)
        taken = positive_keys[place] == key
        if not taken.any():
            break
        item[taken] = rng.integers(train.n_items, size=int(taken.sum()))
    return item


def _pmf_loss(user: Any, item: Any, bias: Any, positive: Any, negative: Any) -> Any:
    import torch

    def score(pair: Any) -> Any:
        a, b = (torch.from_numpy(code) for code in pair)
        return torch.sigmoid((user[a] * item[b]).sum(1) + bias[b])

    return 0.5 * ((1 - score(positive)).square().sum() + score(negative).square().sum())


def _pairwise_loss(loss: str, l2: float, user: Any, item: Any, bias: Any, u: Any, p: Any, n: Any) -> Any:
    import torch

    u, p, n = (torch.from_numpy(code) for code in (u, p, n))
    x, y, z = user[u], item[p], item[n]
    if loss == "bpr":
        better = (x * y).sum(1) + bias[p] - (x * z[:, 0]).sum(1) - bias[n[:, 0]]
        fit = torch.nn.functional.softplus(-better).sum()
    else:
        positive = -(x - y).square().sum(1) + bias[p]
        negative = -(x[:, None] - z).square().sum(2) + bias[n]
        hinge = (1.0 - positive[:, None] + negative).clamp(min=0.0)
        if loss == "acml":
            share = (hinge > 0).float().mean(1)
            weight = torch.log(torch.floor(item.shape[0] * share) + 1.0)
            fit = (weight * hinge.max(1).values).sum()
        else:
            fit = hinge.sum()
    size = x.square().sum() + y.square().sum() + z.square().sum() + bias[p].square().sum()
    return fit + 0.5 * l2 * (size + bias[n].square().sum())


def _scores_as_factors(loss: str, user: Any, item: Any, bias: Any) -> Factors:
    u, v, b = (one.detach().numpy().astype(np.float64).copy() for one in (user, item, bias))
    # −‖u − v‖² + b has the order of 2u·v − ‖v‖² + b for each user: metric learning is a factor model too.
    return (u, 2 * v, b - (v**2).sum(1)) if loss.endswith("cml") else (u, v, b)


Trainer = Callable[[Interactions, int], Iterator[tuple[str, Factors]]]


def _torch(loss: str, l2: float, n_steps: int, rate: float) -> Trainer:
    return lambda train, seed: torch_model(train, seed, loss=loss, l2=l2, n_steps=n_steps, rate=rate)


CITEULIKE: dict[str, Trainer] = {
    "BPR": cornac_bpr,
    "PMF": _torch("pmf", 0.0, 10_000, 0.001),
    "U-CML": _torch("ucml", 0.1, 6_000, 0.001),
    "A-CML": _torch("acml", 0.1, 2_500, 0.005),
    "BPR (openrec loss)": _torch("bpr", 0.01, 2_500, 0.005),
    "PMF (cornac)": cornac_pmf,
    "PMF (rate 0.005)": _torch("pmf", 0.0, 4_000, 0.005),
    "U-CML (rate 0.005)": _torch("ucml", 0.1, 2_500, 0.005),
}
MODELS = ("BPR", "PMF", "U-CML", "A-CML")


def train_best(name: str, split: Split, seed: int = SEED) -> dict[str, Any]:
    """Return the factors of the snapshot with the highest validation value, and how it was chosen."""
    assert split.validation is not None
    check = Split(split.train, split.validation)
    start = time.perf_counter()
    best: dict[str, Any] = {}
    tried = []
    for label, factors in CITEULIKE[name](split.train, seed):
        ranks = rank_positives(factors, check, compute=ComputeOptions(n_threads=1))
        frame = evaluate_ranks({name: ranks}, metrics=[SELECT_BY], estimators=["aoa"]).frame
        value = float(frame["estimate"].iloc[0])
        tried.append((label, round(value, 4)))
        print(f"{name}: {label}: {SELECT_BY} {value:.4f}, {time.perf_counter() - start:.0f} s", flush=True)
        if not best or value > best["value"]:
            best = {"label": label, "value": value, "factors": factors}
    return best | {"tried": tried, "seconds": time.perf_counter() - start}


def load_factors(name: str, folder: Path, cache: Path = CACHE) -> tuple[Factors, dict[str, Any]]:
    """Return the factors of a recommender on citeulike-a, trained now if they are not in the cache."""
    path = cache / f"citeulike_{name.replace(' ', '_').replace('(', '').replace(')', '')}.npz"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        best = train_best(name, citeulike_split(folder))
        about = json.dumps({key: best[key] for key in ("label", "value", "tried", "seconds")})
        u, v, b = best["factors"]
        np.savez_compressed(path, user=u.astype("f4"), item=v.astype("f4"), bias=b.astype("f4"), about=about)
    with np.load(path) as stored:
        factors = (stored["user"], stored["item"], stored["bias"])
        return factors, json.loads(str(stored["about"]))


def as_matrix(train: Interactions) -> Any:
    """Return the log as a sparse (n_users, n_items) matrix of ones."""
    ones = np.ones(len(train), dtype=np.float32)
    return sp.csr_matrix((ones, (train.user, train.item)), shape=(train.n_users, train.n_items))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with citeulike-a/")
    parser.add_argument("--only", choices=CITEULIKE)
    options = parser.parse_args()
    for name in [options.only] if options.only else CITEULIKE:
        _, about = load_factors(name, options.data / "citeulike-a")
        print(f"{name}: {about}", flush=True)


if __name__ == "__main__":
    main()
