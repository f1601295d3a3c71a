"""Simulated A/B tests of recommenders: position bias, novelty, and the difference that remains."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ipseval import Split
from ipseval.validation.simulation import World


@dataclass(frozen=True, eq=False)
class OnlineWorld:
    """What users of a `World` do with recommended lists, and A/B tests of two recommenders.

    A user shown version v clicks on place p of its list, independently each day, with probability

        θ_p · click_i · (1 + novelty · e^(−d/novelty_days) · new_i),   θ_p = p^(−position_exponent),

    where click_i is `relevant_click` for relevant items and `other_click` for others, d counts days from 0,
    and new_i is 1 for items that the control version does not show this user. The KPI is clicks per user and
    day. Novelty fades: the *true* difference of two versions is that without it.

    Attributes
    ----------
    world : World
    split : Split
        Training items are not shown.
    length : int
        Items per list.
    position_exponent : float
        0: all places are looked at alike.
    relevant_click, other_click : float
        In (0, 1] and [0, 1).
    novelty : float
        Relative lift of a new item on the first day, >= 0.
    novelty_days : float
        Days after which the lift has fallen to 1/e.
    n_days : int
        Length of a test.
    """

    world: World
    split: Split
    length: int = 10
    position_exponent: float = 1.0
    relevant_click: float = 0.3
    other_click: float = 0.02
    novelty: float = 0.0
    novelty_days: float = 3.0
    n_days: int = 7

    def value(self, model: Any) -> float:
        """Return the expected clicks per user and day of a recommender, novelty left out."""
        return float(self._clicks(self._lists(model)).sum(axis=1).mean())

    def test(
        self, model: Any, reference: Any, *, n_users: int = 1000, rng: int | np.random.Generator
    ) -> pd.Series[Any]:
        """Return one A/B test: users drawn at random into two arms of `n_users` each, over `n_days`.

        difference and std_error of clicks per user and day, model minus reference; and of the same two
        recommenders true_difference (all users, novelty left out) and novelty_effect, the expected lift of
        the difference by novelty over the days of the test.
        """
        generator = np.random.default_rng(rng)
        lists = [self._lists(one) for one in (model, reference)]
        base = [self._clicks(one) for one in lists]
        is_new = ~(lists[0][:, :, None] == lists[1][:, None, :]).any(axis=2)
        drawn = generator.permutation(self.world.n_users)[: 2 * n_users]
        arms = drawn[:n_users], drawn[n_users:]
        new: list[Any] = [is_new, np.zeros_like(is_new)]
        outcome = []
        for arm, clicks, fresh in zip(arms, base, new, strict=True):
            total = np.zeros(n_users)
            for day in range(self.n_days):
                chance = clicks[arm] * (1 + self._lift(day) * fresh[arm])
                total += (generator.random(chance.shape) < chance).sum(axis=1)
            outcome.append(total / self.n_days)
        variance = sum(one.var(ddof=1) / n_users for one in outcome)
        lift = float(np.mean([self._lift(day) for day in range(self.n_days)]))
        return pd.Series(
            {
                "difference": float(outcome[0].mean() - outcome[1].mean()),
                "std_error": float(np.sqrt(variance)),
                "true_difference": float((base[0].sum(axis=1) - base[1].sum(axis=1)).mean()),
                "novelty_effect": lift * float((base[0] * is_new).sum(axis=1).mean()),
            }
        )

    def programme(
        self,
        models: Mapping[str, Any],
        *,
        reference: str,
        n_users: int = 1000,
        rng: int | np.random.Generator,
    ) -> pd.DataFrame:
        """Return an A/B test of each recommender against one: model, reference, and columns of `test`."""
        generator = np.random.default_rng(rng)
        others = [name for name in models if name != reference]
        rows = [self.test(models[name], models[reference], n_users=n_users, rng=generator) for name in others]
        frame = pd.DataFrame(rows).reset_index(drop=True)
        return pd.concat([pd.DataFrame({"model": others, "reference": reference}), frame], axis=1)

    def _lift(self, day: int) -> float:
        return float(self.novelty * np.exp(-day / self.novelty_days))

    def _lists(self, model: Any) -> Any:
        """Return the first items of each user outside training, (n_users, length)."""
        scores = np.array(_dense(model, self.world), dtype=np.float64)
        scores[self.split.train.user, self.split.train.item] = -np.inf
        return np.argsort(-scores, axis=1, kind="stable")[:, : self.length]

    def _clicks(self, lists: Any) -> Any:
        """Return the chance of a click at each place, (n_users, length), novelty left out."""
        users = np.arange(len(lists))[:, None]
        relevant = np.isin(users * np.int64(self.world.n_items) + lists, self.world.relevant.pair_key)
        places = np.arange(1.0, self.length + 1) ** -self.position_exponent
        return np.asarray(places * np.where(relevant, self.relevant_click, self.other_click))


def _dense(model: Any, world: World) -> Any:
    """Return the scores of a small world, users × items: of an array, of factors, or of a function."""
    if isinstance(model, tuple):
        users, items = (np.asarray(one, dtype=np.float64) for one in model[:2])
        bias = np.asarray(model[2], dtype=np.float64) if len(model) > 2 else 0.0
        return users @ items.T + bias
    return np.asarray(model(np.arange(world.n_users)) if callable(model) else model, dtype=np.float64)
