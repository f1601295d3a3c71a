"""torch: a module that maps user rows to scores of all items, or a pair of embeddings."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from ipseval._base.types import AnyArray, IntArray
from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking.adapters._base import ModelScores, source_of


def describe(model: Any, split: Split) -> ModelScores:
    """Return the weights of (user, item[, item bias]) tensors or embeddings, or the output of a module.

    On the CPU the weights share the memory of the tensors. A module is called in evaluation mode, without
    gradients, with a tensor of user rows; it must return (len(users), n_items) scores.
    """
    if isinstance(model, tuple):
        if len(model) not in (2, 3):
            raise InputError(f"a tuple of tensors must hold user, item[, item bias]; got {len(model)}.")
        user, item, *rest = (to_numpy(getattr(part, "weight", part)) for part in model)
        bias = rest[0].reshape(-1) if rest else None
        return ModelScores("torch factors", factors=(user, item, bias))
    if not hasattr(model, "eval"):
        raise InputError(
            f"a {source_of(model)} must be turned into an array first: tensor.numpy(force=True)."
        )
    import torch

    def rows(users: IntArray) -> AnyArray:
        with evaluating(model):
            try:
                # A copy: torch does not take arrays that cannot be written to.
                return to_numpy(model(torch.tensor(users).to(device_of(model))))
            except IndexError as error:
                raise InputError(
                    f"{source_of(model)} failed for users {users[0]} to {users[-1]} ({error}); the split has "
                    f"{split.n_users} users and {split.n_items} items. Where the module knows others, name "
                    "its rows with ipseval.adapters.with_ids(model, users=…, items=…)."
                ) from error

    return ModelScores(source_of(model), rows=rows)


def to_numpy(tensor: Any) -> AnyArray:
    """Return a tensor as an array: the same memory for a CPU tensor of a type that NumPy has."""
    import torch

    tensor = tensor.detach().cpu()
    return np.asarray((tensor.float() if tensor.dtype is torch.bfloat16 else tensor).numpy())


def device_of(module: Any) -> Any:
    """Return the device of the module's first parameter; the CPU where it has none."""
    parameter = next(iter(module.parameters()), None)
    return "cpu" if parameter is None else parameter.device


@contextlib.contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """Switch dropout and gradients off, and put the module back as it was."""
    import torch

    was_training = module.training
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        module.train(was_training)
