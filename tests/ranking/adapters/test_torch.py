"""torch: embeddings share memory, modules are called in evaluation mode."""

from __future__ import annotations

import numpy as np
import pytest

from ipseval.errors import InputError
from ipseval.ranking import rank_positives
from ipseval.ranking.adapters import adapt
from tests.ranking.adapters import checks

torch = pytest.importorskip("torch", reason="torch is not installed: pip install torch==2.13.0")


class Net(torch.nn.Module):
    """Two layers with dropout: scores of all items for user rows."""

    def __init__(self, n_users: int, n_items: int) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Embedding(n_users, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, n_items)
        )

    def forward(self, users):
        return self.layers(users)


def train_net(split) -> Net:
    """Return a net fitted to a split's training pairs by twenty steps on the multinomial likelihood."""
    torch.manual_seed(0)
    net = Net(split.n_users, split.n_items)
    interactions = torch.tensor(split.train.to_csr().toarray())
    optimiser = torch.optim.Adam(net.parameters(), lr=0.05)
    for _ in range(20):
        loss = -(torch.log_softmax(net(torch.arange(split.n_users)), dim=1) * interactions).sum(dim=1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return net


def train_embeddings(split) -> tuple:
    """Return user and item embeddings and item biases fitted to a split's training pairs."""
    torch.manual_seed(0)
    shapes = (split.n_users, 8), (split.n_items, 8), (split.n_items, 1)
    parts = tuple(torch.nn.Embedding(*shape) for shape in shapes)
    user, item, bias = (part.weight for part in parts)
    interactions = torch.tensor(split.train.to_csr().toarray())
    optimiser = torch.optim.Adam([user, item, bias], lr=0.05)
    for _ in range(20):
        loss = torch.nn.functional.binary_cross_entropy_with_logits(user @ item.T + bias.T, interactions)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return parts


def compute_exact(user, item, bias) -> np.ndarray:
    weights = [part.weight.detach().numpy() for part in (user, item, bias)]
    return checks.exact_scores(*weights[:2], weights[2][:, 0])


def predict_scores(net, n_users: int) -> np.ndarray:
    with torch.no_grad():
        return net.eval()(torch.arange(n_users)).numpy()


def test_embeddings_are_factors_in_the_memory_of_the_tensors(coat):
    user, item, bias = train_embeddings(coat)
    scorer = adapt((user, item, bias), coat)
    exact = compute_exact(user, item, bias)
    assert scorer[0].ctypes.data == user.weight.data_ptr()
    assert scorer[1].ctypes.data == item.weight.data_ptr()
    checks.assert_same_ranks(scorer, exact, coat)
    checks.assert_same_ranks((user.weight, item.weight, bias.weight), exact, coat)
    # torch multiplies in single precision.
    library_scores = (user.weight @ item.weight.T + bias.weight.T).detach().numpy()
    bound = checks.bound_rounding(scorer[0], scorer[1], scorer[2])
    checks.assert_differs_by_rounding_only(exact, library_scores, bound, coat)


def test_a_module_is_called_without_dropout_and_left_in_its_mode(coat):
    net = train_net(coat).train()
    users = np.arange(coat.n_users)
    scores = adapt(net, coat)(users)
    assert net.training
    np.testing.assert_array_equal(scores, predict_scores(net, coat.n_users))
    np.testing.assert_array_equal(adapt(net, coat)(users), scores)
    checks.assert_same_ranks(net, scores, coat)


def test_a_module_with_named_rows_is_put_in_the_order_of_the_split(coat):
    net = train_net(coat)
    named = adapt(net, coat, users=coat.user_ids[::-1], items=coat.item_ids[::-1])
    checks.assert_same_ranks(named, predict_scores(net, coat.n_users)[::-1, ::-1], coat)


def test_half_precision_weights_are_widened(small):
    weights = torch.ones(small.n_users, 2, dtype=torch.bfloat16), torch.ones(small.n_items, 2)
    assert adapt(weights, small)[0].dtype == np.float32


@pytest.mark.parametrize("case", checks.OTHER_SIZES)
def test_embeddings_of_another_size_get_an_error_that_shows_both(case, coat):
    checks.assert_shows_both(train_embeddings(coat), checks.OTHER_SIZES[case], coat)


@pytest.mark.parametrize("case", ["one-item-less", "one-item-more"])
def test_a_module_of_other_items_gets_an_error_that_shows_both_shapes(case, coat):
    other_split = checks.change_split(checks.OTHER_SIZES[case][0], coat)
    with pytest.raises(
        InputError,
        match=rf"mine \(.*Net\) gave scores of shape \((\d+), 300\) for \1 users; expected "
        rf"\(\1, {other_split.n_items}\).*users=…",
    ):
        rank_positives(train_net(coat), other_split, name="mine")


def test_a_module_with_fewer_users_gets_an_error_that_shows_the_size_of_the_split(coat):
    net = Net(200, coat.n_items)
    with pytest.raises(InputError, match=r"Net failed for users .* the split has 290 users .*users=…"):
        rank_positives(net, coat, name="mine")


def test_a_module_has_the_same_ranks_with_and_without_adapt(coat):
    net = train_net(coat)
    direct, adapted = (rank_positives(model, coat) for model in (net, adapt(net, coat)))
    assert np.array_equal(direct.n_above, adapted.n_above)
    assert np.array_equal(direct.n_tied, adapted.n_tied)


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
