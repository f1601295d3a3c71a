"""Checks that an adapter gives the ranks of its library's scores.

Ranks are counted here score by score, not by the library under test.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from ipseval.data.splits import Split
from ipseval.errors import InputError
from ipseval.ranking import rank_positives


def align_scores(scores, users, items, split: Split) -> np.ndarray:
    """Return a library's scores (its users, its items) in the order of the split.

    Items that the library does not know come last, and all others are tied for users it does not know.
    """
    dense = np.full((split.n_users, split.n_items), -np.inf)
    columns = pd.Index(split.item_ids).get_indexer(pd.Index(items))
    rows = pd.Index(split.user_ids).get_indexer(pd.Index(users))
    assert (columns >= 0).all()
    assert (rows >= 0).all()
    dense[:, columns] = 0.0
    dense[np.ix_(rows, columns)] = scores
    return dense


def exact_scores(user, item, bias=None) -> np.ndarray:
    """Return the scores that ipseval defines for factors: Σ_k u_k v_k, added in order, then the bias."""
    total = np.zeros((len(user), len(item)))
    for k in range(np.shape(user)[1]):
        total += np.outer(np.asarray(user)[:, k].astype(float), np.asarray(item)[:, k].astype(float))
    return total if bias is None else total + np.asarray(bias, dtype=float)


def count_above(dense: np.ndarray, split: Split, slack=0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return, for each test positive by user and item, how many candidates score more than slack above it,
    and how many do not score more than slack below it."""
    rows = []
    for user, item in sorted(zip(split.test.user.tolist(), split.test.item.tolist(), strict=True)):
        candidates = np.ones(split.n_items, dtype=bool)
        candidates[split.train.item[split.train.user == user]] = False
        candidates[item] = False
        scores = dense[user, candidates]
        score = dense[user, item]
        margin = slack if np.isscalar(slack) else slack[user]
        rows.append((np.sum(scores > score + margin), np.sum(scores >= score - margin)))
    above, not_below = np.array(rows).T
    return above, not_below


def assert_same_ranks(scorer, dense, split: Split) -> None:
    """Check that a scorer ranks each positive exactly as the scores (n_users, n_items) do."""
    ranked = rank_positives(scorer, split)
    order = np.lexsort((ranked.item, ranked.user))
    above, not_below = count_above(np.asarray(dense), split)
    np.testing.assert_array_equal(ranked.n_above[order], above)
    np.testing.assert_array_equal((ranked.n_above + ranked.n_tied)[order], not_below)


def assert_differs_by_rounding_only(exact, library_scores, bound, split: Split) -> None:
    """Check a library's product against the exact scores of its factors.

    Two scores whose gap is within twice the rounding error of the product (`bound`, by user) may come in
    either order or as a tie, and which one depends on the machine's BLAS; all other pairs must be in their
    exact order. At most one positive in fifty may differ, so that the check cannot become empty.
    """
    far_above, not_far_below = count_above(exact, split, slack=2 * np.asarray(bound))
    above, not_below = count_above(np.asarray(library_scores, dtype=float), split)
    assert (far_above <= above).all()
    assert (not_below <= not_far_below).all()
    exactly_above, exactly_not_below = count_above(exact, split)
    assert np.mean((above != exactly_above) | (not_below != exactly_not_below)) <= 0.02


def bound_rounding(user, item, *constants, unit: float = 2.0**-24) -> np.ndarray:
    """Return how far a product in precision `unit` can be from the exact one, by user: γ_n (‖u‖ ‖v‖ + |c|).

    N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 3.1.
    10.1137/1.9780898718027
    """
    n_terms = np.shape(user)[1] + 2 + len(constants)
    size = np.linalg.norm(user, axis=1).astype(float) * np.linalg.norm(item, axis=1).max()
    return n_terms * unit / (1 - n_terms * unit) * (size + sum(np.abs(part).max() for part in constants))


def _ids_to_text(column: str):
    def change_ids(train, test, users, items):
        ids = {"user": users, "item": items}
        texts = {value: f"{column[0]}{value:03d}" for value in ids[column]}
        ids[column] = list(texts.values())
        frames = [frame.assign(**{column: frame[column].map(texts)}) for frame in (train, test)]
        return *frames, ids["user"], ids["item"]

    return change_ids


def _remove_id(column: str, removed_id: int):
    def change_ids(train, test, users, items):
        ids = {"user": users, "item": items}
        ids[column] = [value for value in ids[column] if value != removed_id]
        frames = [frame[frame[column] != removed_id] for frame in (train, test)]
        return *frames, ids["user"], ids["item"]

    return change_ids


def _add_item_999(train, test, users, items):
    return pd.concat([train, pd.DataFrame({"user": [1], "item": [999]})]), test, users, [*items, 999]


# Case -> (what becomes of Coat, the text of the error): ids as text where the model has numbers, an id that
# only the model has, an id that only the training data have. RecBole shows its ids as text.
OTHER_IDS = {
    "users-as-text": (
        _ids_to_text("user"),
        r"290 of its 290 user ids are not in the split \(the model has '?\d+'?, .*; "
        r"the split has 'u001', 'u002'",
    ),
    "items-as-text": (
        _ids_to_text("item"),
        r"(\d+) of its \1 item ids are not in the split \(the model has '?\d+'?, .*; "
        r"the split has 'i001', 'i002'",
    ),
    "item-of-the-model-only": (
        _remove_id("item", 3),
        r"1 of its \d+ item ids are not in the split \(the model has '?3'?; the split has 1, 2, 4, …\)",
    ),
    "user-of-the-model-only": (
        _remove_id("user", 2),
        r"1 of its 290 user ids are not in the split \(the model has '?2'?; the split has 1, 3, 4, …\)",
    ),
    "item-of-the-data-only": (
        _add_item_999,
        r"does not know 1 of the \d+ item ids of split.train \(the split has 999; "
        r"the model has \d+, \d+, \d+, …",
    ),
}
# For models without ids there is no more to see than their size.
OTHER_SIZES = {
    "one-item-less": (_remove_id("item", 3), r"has 300 items and the split 299 \(1, 2, 4, …\).*users=…"),
    "one-user-less": (_remove_id("user", 2), r"has 290 users and the split 289 \(1, 3, 4, …\).*users=…"),
    "one-item-more": (_add_item_999, r"has 300 items and the split 301 \(1, 2, 3, …\).*users=…"),
}


def change_split(change_ids, split: Split) -> Split:
    """Return Coat's split with other ids."""
    frames = split.train.to_frame(), split.test.to_frame()
    train, test, users, items = change_ids(*frames, split.user_ids.tolist(), split.item_ids.tolist())
    return Split.from_frames(train, test, users=users, items=items)


def assert_shows_both(model, case: tuple[Any, str], split: Split) -> None:
    """Check that a model of Coat is refused for data with other ids, with examples of both sets of ids."""
    change_ids, text = case
    with pytest.raises(InputError, match=rf"^mine \(.+\).*{text}"):
        rank_positives(model, change_split(change_ids, split), name="mine")
