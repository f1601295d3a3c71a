"""torch: embeddings share memory, modules are called in evaluation mode."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.adapters import adapt
from ipseval.errors import InputError

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")


def test_embeddings_are_factors_in_the_memory_of_the_tensors(small, same_ranks):
    torch.manual_seed(0)
    user, item = torch.nn.Embedding(small.n_users, 4), torch.nn.Embedding(small.n_items, 4)
    bias = torch.nn.Embedding(small.n_items, 1)
    scorer = adapt((user, item, bias), small)
    assert scorer[0].ctypes.data == user.weight.data_ptr()
    assert scorer[1].ctypes.data == item.weight.data_ptr()
    dense = (user.weight @ item.weight.T + bias.weight.T).detach().numpy()
    same_ranks(scorer, dense, small)
    same_ranks(adapt((user.weight, item.weight, bias.weight), small), dense, small)


class Net(torch.nn.Module):
    """Two layers with dropout: scores of all items for user rows."""

    def __init__(self, n_users: int, n_items: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Embedding(n_users, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, n_items)
        )

    def forward(self, users):
        return self.layers(users)


def test_a_module_is_called_without_dropout_and_left_in_its_mode(small, same_ranks):
    torch.manual_seed(0)
    net = Net(small.n_users, small.n_items).train()
    users = np.arange(small.n_users)
    scores = adapt(net, small)(users)
    assert net.training
    net.eval()
    with torch.no_grad():
        expected = net(torch.arange(small.n_users)).numpy()
    np.testing.assert_array_equal(scores, expected)
    np.testing.assert_array_equal(adapt(net, small)(users), scores)
    same_ranks(adapt(net, small), expected, small)


def test_half_precision_weights_are_widened(small):
    weights = torch.ones(small.n_users, 2, dtype=torch.bfloat16), torch.ones(small.n_items, 2)
    assert adapt(weights, small)[0].dtype == np.float32


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: torch.ones(40, 30), r"a torch Tensor must be turned into an array"),
        (lambda: (torch.ones(40, 2),), r"user, item\[, item bias\]; got 1"),
        (lambda: (torch.ones(39, 2), torch.ones(30, 2)), r"has 39 users and the split 40"),
    ],
)
def test_other_shapes_get_an_error(make, text, small):
    with pytest.raises(InputError, match=text):
        adapt(make(), small)
